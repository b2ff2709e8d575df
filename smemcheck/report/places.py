"""Absolute paths of a report, as its readers know them."""

from __future__ import annotations

import posixpath

from smemcheck.model import Report


def within_root(report: Report, path: str) -> str:
    """A path relative to the scanned PATH it was found under: its file name when PATH is the file itself.

    A file outside all scanned paths, such as an imported helper, keeps its absolute path.
    """
    for root in sorted(report.roots, key=len, reverse=True):
        if path == root:
            return posixpath.basename(path)
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return path


def within(folder: str, path: str) -> str:
    """A path relative to a folder it lies in, else as it is."""
    prefix = folder.rstrip("/") + "/"
    return path.removeprefix(prefix)
