"""Blocks per multiprocessor, as NVIDIA's occupancy arithmetic counts them."""

from __future__ import annotations

import pytest

from handmade import needs
from smemcheck.rules.devices import resolve_target
from smemcheck.rules.occupancy import blocks_per_multiprocessor, occupancy


@pytest.mark.parametrize(
    ("target", "outcome", "blocks"),
    [
        # 233,472 B a multiprocessor of an H100, 1,024 B of them reserved for each block.
        ("sm_90", needs(232_448), 1),
        ("sm_90", needs(115_712), 2),
        ("sm_90", needs(115_713), 1),
        ("sm_120", needs(50_176), 2),
        ("sm_120", needs(50_177), 1),
        # Without shared memory threads and blocks decide: 2,048 threads of an H100, 1,536 of an RTX 5090.
        ("sm_90", needs(0, num_warps=4), 16),
        ("sm_90", needs(0, num_warps=1), 32),
        ("sm_120", needs(0, num_warps=32), 1),
        # 168 registers a thread leave room for 12 warps.
        ("sm_90", needs(1_024, num_warps=4, registers=168), 3),
        ("sm_90", needs(1_024, num_warps=8, registers=168), 1),
        ("gfx942", needs(32_768, num_warps=4, warp_size=64), 2),
        ("gfx942", needs(1_024, num_warps=16, warp_size=64), 2),
        # 134 registers of 512 a lane are given out as 136: three waves a SIMD, twelve a compute unit.
        ("gfx942", needs(1_024, num_warps=4, warp_size=64, registers=134), 3),
        ("gfx942", needs(1_024, num_warps=8, warp_size=64, registers=134), 1),
        ("gfx950", needs(1_024, num_warps=4, warp_size=64, registers=64), 8),
        ("gfx1100", needs(1_024), None),
    ],
)
def test_blocks(target: str, outcome, blocks: int | None) -> None:
    assert blocks_per_multiprocessor(outcome, resolve_target(target)) == blocks


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (needs(115_713), "shared memory"),
        (needs(1_024, num_warps=8, registers=168), "registers"),
        (needs(0, num_warps=32), "threads"),
        (needs(0, num_warps=1), "blocks"),
    ],
)
def test_what_lets_no_more_blocks_in(outcome, cause: str) -> None:
    found = occupancy(outcome, resolve_target("sm_90"))
    assert found is not None
    assert found.limited_by == cause
