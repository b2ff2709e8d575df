"""Which Triton an interpreter has."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

from smemcheck.lower.worker.installed import installed


@dataclass(frozen=True, slots=True)
class Installation:
    """An interpreter's Triton: its version, and a digest of its files (empty for builds that list none)."""

    version: str
    files: str

    @property
    def key(self) -> str:
        """What identifies this Triton in the keys of kept answers."""
        return f"{self.version}+{self.files}"


@functools.lru_cache(maxsize=16)
def identify(python: str = sys.executable) -> Installation | None:
    """The Triton of an interpreter, found without importing it; ``None`` when the interpreter or its Triton is missing."""
    found = installed() if python == sys.executable else _told_by(python)
    return None if found is None else Installation(*found)


def _told_by(python: str) -> tuple[str, str] | None:
    import json
    import subprocess

    script = str(Path(__file__).parent / "worker" / "installed.py")
    try:
        ran = subprocess.run(
            [python, script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
        )
        found: tuple[str, str] | None = json.loads(ran.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return found
