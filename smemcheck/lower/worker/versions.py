"""What is used of Triton's internals, one row a version: read here first when a new Triton is to be supported.

Every fact was read in the wheels of 3.2.0, 3.3.1, 3.4.0, 3.5.1, 3.6.0, 3.7.1, 3.8.0 and 3.9.0. A version that is not
listed is tried with the newest row; whether the row holds is what the check of ``lowering.check`` measures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Internals:
    """How one Triton version spells what the early stop needs.

    ``prefix``: of the module attributes that hold the results (``ttg.shared``).
    ``descriptor``: arguments' properties are an ``AttrsDescriptor`` (3.2), not a mapping from paths to lists.
    ``stages_take_language``: ``backend.add_stages(stages, options, language)``.
    ``make_ir_takes_target``: ``ASTSource.make_ir(target, options, …)``.
    ``codegen_takes_options``: ``backend.get_codegen_implementation(options)``.
    ``runs_are_named``: ``pass_manager.run(module, name)``.
    ``links_elsewhere``: the hip backend links with ROCm's own ``ld.lld``, which the wheel does not hold.
    ``columns_start_at``: the number a location gives to a file's first column.
    """

    prefix: str = "ttg"
    descriptor: bool = False
    stages_take_language: bool = True
    make_ir_takes_target: bool = True
    codegen_takes_options: bool = True
    runs_are_named: bool = True
    links_elsewhere: bool = False
    columns_start_at: int = 1


# The pass before which shared and tensor memory are laid out and after which nothing of them can be read any more, and the
# name under which the backend's compiler module (triton/backends/*/compiler.py) reaches it: `nvidia.passes.ttgpuir` there.
STOP_BEFORE = "add_to_llvmir"
BACKEND_LIBRARY = {"cuda": "nvidia", "hip": "amd"}

# Passes between the layout and the stop that insert barriers only, and take most of the time in 3.9. Within one block a
# barrier needs no shared memory; across a cluster it may need mbarriers, laid out after these passes (3.9,
# add_cluster_barrier_mbar_allocator), so they are left out for num_ctas == 1 alone.
BARRIER_PASSES = (
    "add_membar",
    "add_proxy_fence_insertion",
    "add_tmem_barrier_insertion",
    "add_tmem_wait_insertion",
)

# Compute capabilities for which the passes do the same: with `ttg.target` masked the TTGIR was equal, 8-bit floats, scaled
# dots and clusters apart. Measured with 3.6.0 on 150 configs each of flash-linear-attention, of eleven other libraries and of
# large matmuls; with 3.3.1, 3.4.0, 3.5.1, 3.7.1, 3.8.0 and 3.9.0 on 150 of the first, with 3.2.0 (before Blackwell) on the
# first family. `tests/lower/test_families.py` measures the installed one.
FAMILIES = ((80, 86, 87, 89), (100, 103), (120, 121))
_LEAVES_FAMILY = ("f8E", "tt.dot_scaled")


def family(backend: str, arch: Any, num_ctas: int, ttir: str) -> Any:
    """The target that a module is lowered for as for ``arch``, up to the layout of memory: the least of its family."""
    if backend != "cuda" or num_ctas > 1 or any(word in ttir for word in _LEAVES_FAMILY):
        return arch
    return next((members[0] for members in FAMILIES if arch in members), arch)


_3_4 = Internals(make_ir_takes_target=False, runs_are_named=False, links_elsewhere=True, columns_start_at=0)
_3_3 = replace(_3_4, stages_take_language=False)
_ROWS = {
    (3, 2): replace(_3_3, prefix="triton_gpu", descriptor=True, codegen_takes_options=False),
    (3, 3): _3_3,
    (3, 4): _3_4,
    (3, 5): Internals(runs_are_named=False, columns_start_at=0),
    (3, 6): Internals(columns_start_at=0),
    (3, 7): Internals(columns_start_at=0),
    (3, 8): Internals(),
    (3, 9): Internals(),
}


def internals(version: str) -> Internals:
    """The row of a version string such as ``3.6.0`` or ``3.9.0+git1234``; the newest row for what is newer."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    known = [row for row in _ROWS if row <= numbers]
    return _ROWS[max(known)] if known else _ROWS[min(_ROWS)]
