"""What a report rests on: files by their content, folders by the names in them. Checking one costs a ``stat``."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
import time
from collections.abc import Iterable
from typing import Any, TypeAlias

Manifest: TypeAlias = "dict[str, list[Any]]"
"""JSON: by path ``[size, mtime, ctime, inode, digest]`` of a file, or ``[mtime, ctime, entries]`` of a folder.
Times in ns. A path that was not there has an empty list; a folder that only had to exist has ``["folder"]``; a pattern in a
folder, ``folder/requirements*.txt``, has ``[[[name, digest], …]]``."""

_DECIDES_MORE = (".gitignore", "PKG-INFO", ".git", ".dist-info", "__init__.py")
"""Endings of entries that decide more than what their own name means in an import."""

_SETTLED = 2_000_000_000
"""ns. A time stamp this close to the moment it was read may cover a later change (file systems tick in up to 2 s)."""


def take(files: Iterable[str], folders: Iterable[str], earlier: Manifest | None = None) -> Manifest:
    """The state of these files and folders now. What bears the stamps that it had ``earlier`` is not read again."""
    newest = time.time_ns() - _SETTLED
    known = earlier or {}
    manifest: Manifest = {path: _folder(path, newest, known.get(path)) for path in dict.fromkeys(folders)}
    for path in dict.fromkeys(files):
        if path in manifest:
            continue
        manifest[path] = [_matching(path)] if _is_pattern(path) else _file(path, newest, known.get(path))
    return manifest


def is_still(before: Manifest, after: Manifest, started: int) -> bool:
    """Whether nothing changed while it was being read, from ``started`` (ns) on.

    ``before`` was taken at the start. What it does not hold must be older than the start by its time stamps.
    """
    for path, entry in after.items():
        if path in before:
            if before[path][-1:] != entry[-1:]:
                return False
        elif len(entry) > 1 and not 0 < max(_times(entry)) < started - _SETTLED:
            return False
    return True


def _times(entry: list[Any]) -> list[int]:
    return entry[1:3] if len(entry) == 5 else entry[:2]


def different(manifest: Manifest) -> list[str]:
    """The files and folders that are not as they were."""
    return [path for path, entry in manifest.items() if not _is_same(path, entry)]


def changes(manifest: Manifest, differing: Iterable[str]) -> tuple[set[str], set[str]] | None:
    """Python files among those that are :func:`different`, gone ones included, and the names, without ``.py``, of what came
    into a folder or left it; ``None`` where something else changed too.
    """
    files: set[str] = set()
    names: set[str] = set()
    for path in differing:
        entry = manifest[path]
        if len(entry) == 3 and os.path.isdir(path):
            before, after = _names(entry[2]), _names(_listing(path))
            moved = before ^ after
            if any(name.endswith(_DECIDES_MORE) for name in moved):
                return None
            names.update(name.removesuffix(".py") for name in moved)
            if _holds_python(before) != _holds_python(after):  # then it becomes a package, or is one no more
                names.add(os.path.basename(path))
            continue
        turns_package = path.endswith("__init__.py") and bool(entry) != os.path.isfile(path)
        if turns_package or not path.endswith(".py"):
            return None
        files.add(path)
    return files, names


def _names(listing: Any) -> set[str]:
    """The names of the entries, once more for what makes an entry another one under the same name."""
    if isinstance(listing, str):
        return {"__init__.py"}
    return {name for name, _, _ in listing} | {f"{folder} {link}/{name}" for name, folder, link in listing}


def _holds_python(names: set[str]) -> bool:
    return any(name.endswith(".py") for name in names)


def _is_pattern(path: str) -> bool:
    return "*" in os.path.basename(path)


def _matching(pattern: str) -> list[list[str]]:
    """What matches in the folder. The folder's time stamps are not looked at: it may be one that others write in."""
    folder, name = os.path.split(pattern)
    try:
        found = sorted(fnmatch.filter(os.listdir(folder), name))
    except OSError:
        return []
    return [[name, _digest_of(os.path.join(folder, name))] for name in found]


def _is_same(path: str, entry: list[Any]) -> bool:
    if _is_pattern(path):
        return entry == [_matching(path)]
    try:
        found = os.stat(path)
    except OSError:
        return not entry
    if len(entry) == 5:
        if entry[:4] == [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]:
            return True
        return found.st_size == entry[0] and stat.S_ISREG(found.st_mode) and _digest_of(path) == entry[4]
    if not stat.S_ISDIR(found.st_mode):
        return False
    if entry == ["folder"]:
        return True
    if len(entry) != 3:
        return False
    return entry[:2] == [found.st_mtime_ns, found.st_ctime_ns] or _listing(path) == entry[2]


def _file(path: str, newest: int, known: list[Any] | None) -> list[Any]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    if stat.S_ISDIR(found.st_mode):
        return ["folder"]
    state = [found.st_size, *_stamps(found, newest), found.st_ino]
    if known and len(known) == 5 and known[:4] == state and state[1]:
        return known
    return [*state, _digest_of(path)]


def _folder(path: str, newest: int, known: list[Any] | None) -> list[Any]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    stamps = _stamps(found, newest)
    return known if known and len(known) == 3 and known[:2] == stamps and stamps[0] else [*stamps, _listing(path)]


def _stamps(found: os.stat_result, newest: int) -> list[int]:
    """Times of change; zeros, which no file has, where they are too fresh to be believed."""
    stamps = [found.st_mtime_ns, found.st_ctime_ns]
    return stamps if max(stamps) < newest else [0, 0]


def _digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _listing(path: str) -> Any:
    """The entries that can matter: folders, Python files, metadata; whether it is a folder, what a symbolic link points to."""
    names = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                link = entry.is_symlink()
                folder = entry.is_dir(follow_symlinks=False)
                if folder or link or entry.name.endswith((".py", ".gitignore", "PKG-INFO", ".git")):
                    names.append([entry.name, folder, os.readlink(entry.path) if link else ""])
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return sorted(name for name in names if name[0] != "__pycache__")
