# ruff: noqa: N803 (a kernel's sizes are written in capitals)
"""Matrix products in the shapes that public reports name: a tile a program, tiles in a persistent loop, experts' tiles."""

import triton
import triton.language as tl


@triton.jit
def tile_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a = a_ptr + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
    b = b_ptr + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        y = tl.load(b, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    c = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def persistent_product(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    inner = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        safe_rows = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BLOCK_M), BLOCK_M)
        safe_columns = tl.max_contiguous(tl.multiple_of(tl.where(columns < N, columns, 0), BLOCK_N), BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            at = k * BLOCK_K + inner
            left = K - k * BLOCK_K
            a = a_ptr + safe_rows[:, None] * stride_am + at[None, :] * stride_ak
            b = b_ptr + at[:, None] * stride_bk + safe_columns[None, :] * stride_bn
            x = tl.load(a, mask=inner[None, :] < left, other=0.0)
            y = tl.load(b, mask=inner[:, None] < left, other=0.0)
            total = tl.dot(x, y, total)
        c = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
        tl.store(c, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def expert_product(
    a_ptr, b_ptr, c_ptr, a_scale_ptr, b_scale_ptr, token_ids, expert_ids, padded_ptr, N, K, tokens,
    stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TOP_K: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    if tile_m * BLOCK_M >= tl.load(padded_ptr):
        return
    token = tl.load(token_ids + tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    valid = token < tokens
    expert = tl.load(expert_ids + tile_m).to(tl.int64)
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    inner = tl.arange(0, BLOCK_K)
    a = a_ptr + token[:, None] // TOP_K * stride_am + inner[None, :] * stride_ak
    b = b_ptr + expert * stride_be + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        x = tl.load(a, mask=valid[:, None] & (inner[None, :] < K - k * BLOCK_K), other=0.0)
        y = tl.load(b, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(x, y, acc=total)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    total = total * (tl.load(a_scale_ptr) * tl.load(b_scale_ptr + expert))
    out = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c = c_ptr + stride_cm * token[:, None] + stride_cn * out[None, :]
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=valid[:, None] & (out[None, :] < N))
