"""Which version of a distribution is installed."""

from __future__ import annotations

import importlib.metadata


def version_of(name: str) -> str | None:
    """The version of an installed distribution, without importing it; ``None`` where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
