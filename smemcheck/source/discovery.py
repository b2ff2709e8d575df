"""Which files are read: the paths that were given, folders searched for Python files, ignore rules respected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pathspec

_NEVER = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        "node_modules",
        ".eggs",
    }
)

_TESTS = ("test", "tests", "benchmark", "benchmarks", "bench", "perf")
_TOP = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_ASCENT = 12  # folders above a scanned path that are looked at


def python_files(
    path: str, exclude: Sequence[str] = (), respect_gitignore: bool = True, visited: list[str] | None = None
) -> Iterator[str]:
    """The Python files at or below ``path``, sorted, as absolute paths. A file that is named itself is always read.

    ``visited`` collects the folders that were listed.
    """
    full = os.path.realpath(path)
    if os.path.isfile(full):
        yield full
        return
    excluded = pathspec.PathSpec.from_lines("gitignore", exclude)
    above = _ignores_above(full) if respect_gitignore else []
    yield from _walk(full, full, excluded, above, respect_gitignore, [] if visited is None else visited)


def files_of_tests(
    path: str, exclude: Sequence[str] = (), respect_gitignore: bool = True, visited: list[str] | None = None
) -> Iterator[str]:
    """The Python files of the tests and benchmarks of the repository around ``path`` that do not lie below it themselves.

    Whoever names a package to check means its kernels; how they are launched, the tests beside it say best. ``exclude`` is
    read from the repository's top. ``visited`` collects the folders that were listed.
    """
    folders = [folder for folder in folders_of_tests(path) if os.path.isdir(folder)]
    if not folders:
        return
    top = os.path.dirname(folders[0])
    excluded = pathspec.PathSpec.from_lines("gitignore", exclude)
    ignores = [*_ignores_above(top), *_ignore_file(top)] if respect_gitignore else []
    for folder in folders:
        if not excluded.match_file(f"{os.path.basename(folder)}/"):
            yield from _walk(top, folder, excluded, ignores, respect_gitignore, [] if visited is None else visited)


def folders_of_tests(path: str) -> list[str]:
    """Where :func:`files_of_tests` looks: folders, there or not, that neither hold ``path`` nor lie below it."""
    full = os.path.realpath(path)
    top = _repository(full)
    if top is None or top == full:
        return []
    folders = [os.path.join(top, name) for name in _TESTS]
    return [one for one in folders if not os.path.islink(one) and not f"{full}{os.sep}".startswith(f"{one}{os.sep}")]


def _repository(path: str) -> str | None:
    """The top folder of the project that a path lies in."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    for _ in range(_ASCENT):
        if any(os.path.exists(os.path.join(folder, name)) for name in _TOP):
            return folder
        folder = os.path.dirname(folder)
    return None


def _walk(
    root: str,
    folder: str,
    excluded: pathspec.PathSpec[Any],
    ignores: list[tuple[str, pathspec.PathSpec[Any]]],
    respect_gitignore: bool,
    visited: list[str],
) -> Iterator[str]:
    visited.append(folder)
    if respect_gitignore:
        ignores = [*ignores, *_ignore_file(folder)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and entry.name in _NEVER:
            continue
        if not is_folder and not entry.name.endswith(".py"):
            continue
        suffix = "/" if is_folder else ""
        if len(excluded) and excluded.match_file(os.path.relpath(entry.path, root) + suffix):
            continue
        if any(spec.match_file(os.path.relpath(entry.path, base) + suffix) for base, spec in ignores):
            continue
        if is_folder:
            yield from _walk(root, entry.path, excluded, ignores, respect_gitignore, visited)
        elif _is_file(entry):
            yield entry.path


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file or a link to one; a link that leads back to itself leads to none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def ignore_files(folder: str, visited: Sequence[str]) -> list[str]:
    """Where the rules for ``folder`` and the folders visited below it stand, or would stand, and what ends the search."""
    above = [parent / name for parent in Path(folder).parents for name in (".git", ".gitignore")]
    return [*map(str, above), *(os.path.join(one, ".gitignore") for one in visited)]


def _ignore_file(folder: str) -> list[tuple[str, pathspec.PathSpec[Any]]]:
    path = Path(folder, ".gitignore")
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [(folder, pathspec.PathSpec.from_lines("gitignore", lines))]


def _ignores_above(folder: str) -> list[tuple[str, pathspec.PathSpec[Any]]]:
    """The ignore files between the repository's root and ``folder``; none outside a repository."""
    found: list[tuple[str, pathspec.PathSpec[Any]]] = []
    current = Path(folder)
    for parent in current.parents:
        found = [*_ignore_file(str(parent)), *found]
        if (parent / ".git").exists():
            return found
    return []
