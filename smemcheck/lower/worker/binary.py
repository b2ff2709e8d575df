"""What a compiled kernel takes of the register file, read from the binary (cuda) or from the assembly (hip)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict

# The keys of AMD's code object metadata (LLVM's AMDGPUUsage, "Code Object V5 Metadata"), and how the answer calls them.
_AMD_FIELDS = {
    "vgpr": "vgpr_count",
    "agpr": "agpr_count",
    "sgpr": "sgpr_count",
    "scratch": "private_segment_fixed_size",
}


def environment_flag(name: str) -> bool:
    return os.environ.get(name, "0") == "1"


def resources(assembly: Any, target: Any) -> Dict[str, Any]:
    """Registers per thread and spill bytes per thread; on AMD also each register file and the scratch bytes.

    ``cuobjdump`` comes with every Triton wheel; its ``STACK`` is what the driver calls local memory, four times
    ``n_spills``. AMD's assembly text ends with the metadata that the code object carries.
    """
    if target.backend == "cuda":
        return _cubin_resources(assembly["cubin"])
    text = assembly["amdgcn"]
    found = {name: int(match.group(1)) for name, key in _AMD_FIELDS.items() if (match := _amd_field(text, key))}
    return {"registers": found.get("vgpr"), "spill_bytes": found.get("scratch"), "register_files": found}


def _amd_field(text: str, key: str) -> Any:
    return re.search(rf"^\s*-?\s*\.{key}:\s+(\d+)\s*$", text, re.MULTILINE)


def _cubin_resources(cubin: bytes) -> Dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_cuobjdump(), "--dump-resource-usage", file.name]
        text = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    if not registers or not stack:
        raise RuntimeError(f"cuobjdump says neither REG nor STACK: {text[:200]}")
    return {"registers": int(registers.group(1)), "spill_bytes": int(stack.group(1))}


def _cuobjdump() -> str:
    import triton

    shipped = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return os.environ.get("TRITON_CUOBJDUMP_PATH") or str(shipped)
