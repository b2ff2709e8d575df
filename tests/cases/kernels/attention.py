# ruff: noqa: N803 (a kernel's sizes are written in capitals)
"""Attention over paged caches: decoding with heads grouped around one latent row, and one kernel for all lengths."""

import triton
import triton.language as tl


@triton.jit
def grouped_decode(
    q_ptr, k_cache, softmax_scale, k_scale_ptr, page_table, lengths, partial_ptr,
    stride_table, stride_q_row, stride_q_head, stride_k_page, stride_k_row,
    stride_out_row, stride_out_head, stride_out_split,
    HEADS: tl.constexpr, DIM: tl.constexpr, ROTARY: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr,
    PAGE: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row, head_block, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    heads = head_block * BLOCK_H + tl.arange(0, BLOCK_H)
    head_mask = heads < HEADS
    dims = tl.arange(0, DIM)
    rotary_dims = DIM + tl.arange(0, ROTARY)
    length = tl.load(lengths + row)
    base = q_ptr + row * stride_q_row + heads[:, None] * stride_q_head
    q = tl.load(base + dims[None, :], mask=head_mask[:, None], other=0.0)
    q_rotary = tl.load(base + rotary_dims[None, :], mask=head_mask[:, None], other=0.0)
    share = tl.cdiv(length, SPLITS)
    start = share * split
    end = tl.minimum(start + share, length)
    k_scale = tl.load(k_scale_ptr)
    row_max = tl.zeros((BLOCK_H,), tl.float32) - float("inf")
    row_sum = tl.zeros((BLOCK_H,), tl.float32)
    total = tl.zeros((BLOCK_H, DIM), tl.float32)
    for t in range(start, end, BLOCK_T):
        tokens = t + tl.arange(0, BLOCK_T)
        token_mask = tokens < end
        page = tl.load(page_table + row * stride_table + tokens // PAGE, mask=token_mask, other=0)
        at = page * stride_k_page + tokens % PAGE * stride_k_row
        k = tl.load(k_cache + at[None, :] + dims[:, None], mask=token_mask[None, :], other=0.0)
        if k.dtype.is_fp8():
            k = (k.to(tl.float32) * k_scale).to(q.dtype)
        scores = tl.dot(q, k)
        k_rotary = tl.load(k_cache + at[None, :] + rotary_dims[:, None], mask=token_mask[None, :], other=0.0)
        if k_rotary.dtype.is_fp8():
            k_rotary = (k_rotary.to(tl.float32) * k_scale).to(q_rotary.dtype)
        scores += tl.dot(q_rotary, k_rotary)
        scores *= softmax_scale
        scores = tl.where(head_mask[:, None] & token_mask[None, :], scores, float("-inf"))
        v = tl.trans(k)  # one latent row serves as key and as value
        new_max = tl.maximum(tl.max(scores, 1), row_max)
        rescale = tl.exp(row_max - new_max)
        weights = tl.exp(scores - new_max[:, None])
        total *= rescale[:, None]
        total += tl.dot(weights.to(v.dtype), v)
        row_sum = row_sum * rescale + tl.sum(weights, 1)
        row_max = new_max
    out = partial_ptr + row * stride_out_row + heads * stride_out_head + split * stride_out_split
    tl.store(out[:, None] + dims[None, :], total / row_sum[:, None], mask=head_mask[:, None])
    tl.store(out + DIM, row_max + tl.log(row_sum), mask=head_mask)


@triton.jit
def paged_attention(
    out_ptr, q_ptr, k_cache, v_cache, page_table, lengths, starts, softmax_scale,
    stride_table, stride_q_token, stride_q_head, stride_out_token, stride_out_head,
    stride_k_page, stride_k_slot, stride_k_head, stride_v_page, stride_v_slot, stride_v_head,
    GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    PAGE: tl.constexpr,
):  # fmt: skip
    sequence, kv_head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first = tl.load(starts + sequence)
    queries = tl.load(starts + sequence + 1) - first
    if block * BLOCK_Q >= queries:
        return
    rows = tl.arange(0, BLOCK_M)
    positions = block * BLOCK_Q + rows // GROUP
    heads = kv_head * GROUP + rows % GROUP
    dims = tl.arange(0, DIM)
    valid = positions < queries
    q_at = (first + positions)[:, None] * stride_q_token + heads[:, None] * stride_q_head + dims[None, :]
    q = tl.load(q_ptr + q_at, mask=valid[:, None], other=0.0)
    length = tl.load(lengths + sequence)
    context = length - queries
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.full((BLOCK_M,), 1.0, tl.float32)
    total = tl.zeros((BLOCK_M, DIM), tl.float32)
    longest = tl.minimum(context + block * BLOCK_Q + (BLOCK_M - 1) // GROUP + 1, length)
    for tile in range(tl.cdiv(longest, TILE)):
        tokens = tile * TILE + tl.arange(0, TILE)
        inside = tokens < longest
        page = tl.load(page_table + sequence * stride_table + tokens // PAGE).to(tl.int64)
        slot = tokens % PAGE
        k_at = page[None, :] * stride_k_page + kv_head * stride_k_head + dims[:, None] + slot[None, :] * stride_k_slot
        v_at = page[:, None] * stride_v_page + kv_head * stride_v_head + dims[None, :] + slot[:, None] * stride_v_slot
        k = tl.load(k_cache + k_at, mask=inside[None, :], other=0.0)
        v = tl.load(v_cache + v_at, mask=inside[:, None], other=0.0)
        scores = softmax_scale * tl.dot(q, k)
        scores = tl.where(valid[:, None] & (tokens[None, :] <= context + positions[:, None]), scores, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(scores, axis=1))
        new_max = tl.where(new_max > float("-inf"), new_max, 0.0)
        weights = tl.exp(scores - new_max[:, None])
        rescale = tl.exp(row_max - new_max)
        total = total * rescale[:, None]
        row_sum = row_sum * rescale + tl.sum(weights, axis=1)
        row_max = new_max
        total += tl.dot(weights.to(v.dtype), v)
    out_at = (first + positions)[:, None] * stride_out_token + heads[:, None] * stride_out_head + dims[None, :]
    tl.store(out_ptr + out_at, total / row_sum[:, None], mask=valid[:, None])
