# ruff: noqa: N803 (a kernel's sizes are written in capitals)
"""A sum and a change of colour space, one element a lane: nothing but threads can run out."""

import triton
import triton.language as tl


@triton.jit
def added(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)
