# ruff: noqa: N803 (a kernel's sizes are written in capitals)
"""A persistent product whose result has one column: how many bytes it needs has changed from Triton to Triton.

After a public report (vLLM pull request 52960): fp32, 128x128x32, eight warps, three stages, N = 1 on an L20 (sm_89).
"""

import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}, num_warps=8, num_stages=3)], key=["K"]
)
@triton.jit
def persistent_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    inner = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        first_row = tile // tiles_n * BLOCK_M
        first_column = tile % tiles_n * BLOCK_N
        rows = first_row + tl.arange(0, BLOCK_M)
        columns = first_column + tl.arange(0, BLOCK_N)
        rows = tl.where(rows < M, rows, 0)
        columns = tl.where(columns < N, columns, 0)
        rows = tl.max_contiguous(tl.multiple_of(rows, BLOCK_M), BLOCK_M)
        columns = tl.max_contiguous(tl.multiple_of(columns, BLOCK_N), BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            left = step * BLOCK_K
            a = tl.load(
                a_ptr + rows[:, None] * stride_am + (left + inner)[None, :] * stride_ak,
                mask=inner[None, :] < K - left,
                other=0.0,
            )
            b = tl.load(
                b_ptr + (left + inner)[:, None] * stride_bk + columns[None, :] * stride_bn,
                mask=inner[:, None] < K - left,
                other=0.0,
            )
            total = tl.dot(a, b, total)
        out_rows = first_row + tl.arange(0, BLOCK_M)
        out_columns = first_column + tl.arange(0, BLOCK_N)
        c = c_ptr + out_rows[:, None] * stride_cm + out_columns[None, :] * stride_cn
        tl.store(c, total, mask=(out_rows[:, None] < M) & (out_columns[None, :] < N))
