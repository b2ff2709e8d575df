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
        if excluded.match_file(os.path.relpath(entry.path, root) + suffix):
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
