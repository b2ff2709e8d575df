"""How many blocks a multiprocessor has room for, from the device table.

The arithmetic is that of ``cuda_occupancy.h`` (CUDA 13.1) for NVIDIA. For AMD's CDNA shared memory, waves and, where known,
vector registers are counted, as LLVM does (``getNumWavesPerEUWithNumVGPRs``, AMDGPUBaseInfo.cpp; on gfx90a, gfx942 and gfx950
the waves are those of the assembly's ``Occupancy`` in 12 of 12 kernels). ``.vgpr_count`` of the metadata counts the
accumulation registers with the others where they share a file, on gfx90a and later. RDNA's workgroup processors are left
out, since a source for how they divide their memory is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from smemcheck.model import Config, Footprint, Outcome, Target


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks that fit on a multiprocessor at the same time, and what lets no more in (the first, where several do).

    ``limited_by`` is ``shared memory``, ``registers``, ``threads`` or ``blocks``. Without registers it is an upper bound.
    """

    blocks: int
    limited_by: str


def blocks_per_multiprocessor(outcome: Outcome | None, target: Target) -> int | None:
    """Blocks that fit at the same time; an upper bound without registers, ``None`` where a number of the target is missing."""
    found = occupancy(outcome, target)
    return None if found is None else found.blocks


def occupancy(outcome: Outcome | None, target: Target) -> Occupancy | None:
    """How many blocks fit and why no more; ``None`` without a footprint or where a number of the target is missing."""
    if not isinstance(outcome, Footprint):
        return None
    facts = target.facts
    capacity = facts.get("shared_memory_per_multiprocessor")
    if capacity is None:
        return None
    limits: dict[str, int] = {}
    if outcome.shared_memory:
        granularity = facts.get("shared_memory_granularity", 1)
        taken = _round_up(outcome.shared_memory + facts["shared_memory_reserved_per_block"], granularity)
        limits["shared memory"] = capacity // taken
    if target.backend == "hip":
        waves, simds = -(-outcome.threads // target.warp_size), facts["simds_per_compute_unit"]
        if outcome.registers and "registers_per_simd_lane" in facts:
            of_wave = _round_up(outcome.registers, facts["register_allocation_unit"])
            limits["registers"] = (
                min(facts["waves_per_simd"], facts["registers_per_simd_lane"] // of_wave) * simds // waves
            )
        limits["threads"] = facts["waves_per_simd"] * simds // waves
        return _least(limits)
    if outcome.registers:
        limits["registers"] = warps_by_registers(outcome.registers, target) // (outcome.threads // target.warp_size)
    limits["threads"] = facts["max_threads_per_multi_processor"] // outcome.threads
    limits["blocks"] = facts["max_blocks_per_multi_processor"]
    return _least(limits)


def _least(limits: dict[str, int]) -> Occupancy:
    cause = min(limits, key=lambda name: limits[name])
    return Occupancy(int(limits[cause]), cause)


def registers_allowed(footprint: Footprint, config: Config, target: Target) -> int | None:
    """Registers per thread that ptxas may use for the kernel; ``None`` where a number of the target is missing.

    The architecture's 255, less where the config says ``maxnreg``, and less for large blocks: Triton writes their size as
    ``.reqntid``, and ptxas keeps to the registers with which such a block can be launched (on the H200's rows 128 for 512
    threads, 64 for 1,024).
    """
    facts = target.facts
    if target.backend != "cuda" or "regs_per_block" not in facts:
        return None
    of_warp = facts["regs_per_block"] // -(-footprint.threads // target.warp_size)
    unit = facts["register_allocation_unit"]
    allowed = min(target.max_registers_per_thread, int(of_warp // unit * unit // target.warp_size))
    return allowed if config.maxnreg is None else min(allowed, config.maxnreg)


def warps_by_registers(registers: int, target: Target) -> int:
    """Warps of a kernel with so many registers per thread that the register file of an NVIDIA multiprocessor holds."""
    facts = target.facts
    of_warp = _round_up(registers * target.warp_size, facts["register_allocation_unit"])
    granularity = facts["warp_allocation_granularity"]
    return int(facts["regs_per_multiprocessor"] // of_warp // granularity * granularity)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
