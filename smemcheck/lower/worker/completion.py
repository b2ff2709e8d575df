"""From TTGIR to the binary, in whichever worker has time: what is handed over, what it will cost, and the rest of the way.

A compile to the binary takes several times what it takes to know the shared memory, and nobody can tell from the source
which configs take long. From TTGIR one can. So a worker that got there lays the module down, and the pool gives the
modules out again, those that take longest first and equal ones once.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any, Dict

from . import binary
from .frontend import Reads, new_context, parse, pretend_device

_TENSOR = re.compile(r"^.* = .*tensor<((?:\d+x)+)", re.MULTILINE)
_LAST_STAGE = {"cuda": "cubin", "hip": "amdgcn"}


def lay_down(directory: str, name: str, text: str) -> None:
    """Write a printed module for :func:`complete`; whoever reads it sees all of it."""
    path = Path(directory, name)
    unfinished = path.with_name(f"{name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def cost(text: str, threads: int) -> int:
    """How many instructions the module becomes, roughly: the elements per thread of all results.

    ``text`` is printed TTGIR without locations. Over 70 configs of flash-linear-attention the rank correlation with the seconds
    from TTGIR to the cubin was 0.92, that of the text's length 0.66 (Triton 3.6.0, sm_120).
    """
    shapes = (map(int, shape[:-1].split("x")) for shape in _TENSOR.findall(text))
    return sum(-(-math.prod(shape) // threads) for shape in shapes)


def complete(request: Any, text: str) -> Dict[str, Any]:
    """Run the backend's stages that follow TTGIR, as ``triton.compile`` does; what metadata and binary say.

    ``request`` is the job that the module came from (only its options and target are looked at).
    """
    pretend_device(request.target, Reads())
    module = parse(text, new_context(request.backend))
    metadata = {"target": request.target, **request.options.__dict__}
    stages = request.stages(request.options)
    names = list(stages)
    made = {}
    for name in names[names.index("ttgir") + 1 : names.index(_LAST_STAGE[request.target.backend]) + 1]:
        module = made[name] = stages[name](module, metadata)
    return {
        "shared_memory": metadata["shared"] or 0,
        "tensor_memory": metadata.get("tmem_size") or 0,
        "num_warps": metadata["num_warps"],
        "method": "full",
        **binary.resources(made, request.target),
    }
