"""Which Triton an interpreter has, found without importing it. Runs in the analyser, and as a script in other interpreters."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Callable, Optional, Tuple

DISTRIBUTIONS = ("triton", "pytorch-triton", "pytorch-triton-rocm")


def distribution(name: str) -> Optional[Tuple[str, str]]:
    """The version of an installed distribution and its list of files (RECORD, empty without one)."""
    import importlib.metadata  # not at the top: the analyser has a faster way

    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    return found.version, found.read_text("RECORD") or ""


def installed(
    look_up: Callable[[str], Optional[Tuple[str, str]]] = distribution,
) -> Optional[Tuple[str, str]]:
    """(version, digest of the installed files); the digest is empty for builds that list none. ``None`` without Triton.

    RECORD, which every installed wheel has, holds the hash of each file, so two builds of one version are told apart.
    ``look_up`` gives a distribution's version and its RECORD.
    """
    for name in DISTRIBUTIONS:
        found = look_up(name)
        if found is None:
            continue
        version, record = found
        files = sorted(line for line in record.splitlines() if line.startswith("triton/") and "__pycache__" not in line)
        digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16] if files else ""
        return version, digest
    return None


if __name__ == "__main__":
    del sys.path[0]  # the worker's directory
    print(json.dumps(installed()))
