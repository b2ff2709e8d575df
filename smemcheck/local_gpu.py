"""Which GPUs this machine has, without torch and without a CUDA context."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def local_architectures() -> tuple[str, ...]:
    """The architectures of the local GPUs as ``sm_90`` or ``gfx942``; empty without a GPU or its driver."""
    return tuple(dict.fromkeys((*_nvidia(), *amd(_KFD_NODES))))


def _nvidia() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return nvidia(answer.stdout)


def nvidia(answer: str) -> list[str]:
    """Read what ``nvidia-smi`` prints for ``compute_cap``: ``9.0``, one line a GPU."""
    return [f"sm_{major}{minor}" for major, minor in re.findall(r"^(\d+)\.(\d)\s*$", answer, re.MULTILINE)]


def amd(nodes: Path) -> list[str]:
    """Read the kernel driver's topology: ``gfx_target_version 90402`` is gfx942, major × 10000 + minor × 100 + stepping."""
    found = []
    for properties in sorted(nodes.glob("*/properties")):
        try:
            text = properties.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            continue
        version = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
        if version and int(version[1]):
            major, rest = divmod(int(version[1]), 10_000)
            minor, stepping = divmod(rest, 100)
            found.append(f"gfx{major}{minor:x}{stepping:x}")
    return found
