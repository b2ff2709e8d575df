"""Which version of a distribution is installed: what :mod:`importlib.metadata` says, without importing it.

That module imports those for e-mail, archives and sockets, which takes a tenth of a run on unchanged files.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def version_of(name: str) -> str | None:
    """The version of an installed distribution; ``None`` where there is none."""
    found = distribution(name)
    return None if found is None else found[0]


def distribution(name: str) -> tuple[str, str] | None:
    """The version of an installed distribution and its list of files (RECORD, empty without one); ``None`` where there is none."""
    return _found(name, tuple(sys.path), tuple(sys.meta_path))


@functools.lru_cache(maxsize=16)
def _found(name: str, folders: tuple[str, ...], finders: tuple[object, ...]) -> tuple[str, str] | None:
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in finders):
        return _by_library(name)
    wanted = _normalized(name)
    for folder in folders:
        if folder.lower().endswith((".egg", ".egg/")):
            return _by_library(name)
        try:
            entries = os.listdir(folder or os.curdir)  # noqa: PTH208 - a path for each of hundreds of entries takes longer
        except NotADirectoryError:  # an archive
            return _by_library(name)
        except OSError:
            continue
        for entry in entries:
            stem, _, ending = entry.lower().rpartition(".")
            if ending in ("dist-info", "egg-info") and _normalized(stem.partition("-")[0]) == wanted:
                metadata = Path(folder, entry)
                version = _version_in(metadata / "METADATA")
                return (version, _text(metadata / "RECORD")) if version else _by_library(name)
    return None


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _version_in(path: Path) -> str | None:
    """The version that metadata give in the lines before their first empty one."""
    head = _text(path).partition("\n\n")[0]
    match = re.search(r"^Version:[ \t]*(\S+)[ \t]*$", head, re.MULTILINE)
    return match[1] if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _by_library(name: str) -> tuple[str, str] | None:
    import importlib.metadata

    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return found.version, found.read_text("RECORD") or ""
