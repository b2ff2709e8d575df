"""Which Triton an interpreter has, found without importing it. Runs in the analyser, and as a script in other interpreters."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from typing import Optional, Tuple

DISTRIBUTIONS = ("triton", "pytorch-triton", "pytorch-triton-rocm")


def installed() -> Optional[Tuple[str, str]]:
    """(version, digest of the installed files); the digest is empty for builds that list none. ``None`` without Triton.

    RECORD, which every installed wheel has, holds the hash of each file, so two builds of one version are told apart.
    """
    for name in DISTRIBUTIONS:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        record = distribution.read_text("RECORD") or ""
        files = sorted(line for line in record.splitlines() if line.startswith("triton/") and "__pycache__" not in line)
        digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:16] if files else ""
        return distribution.version, digest
    return None


if __name__ == "__main__":
    del sys.path[0]  # the worker's directory
    print(json.dumps(installed()))
