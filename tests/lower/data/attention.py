import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, scale, n, stride, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    width = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * stride + width[None, :])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        columns = start + tl.arange(0, BN)
        key = tl.load(k + columns[None, :] * stride + width[:, None])
        value = tl.load(v + columns[:, None] * stride + width[None, :])
        score = tl.dot(query, key) * scale
        new = tl.maximum(largest, tl.max(score, 1))
        power = tl.exp2(score - new[:, None])
        decay = tl.exp2(largest - new)
        weight = weight * decay + tl.sum(power, 1)
        total = tl.dot(power.to(value.dtype), value, total * decay[:, None])
        largest = new
    tl.store(o + rows[:, None] * stride + width[None, :], (total / weight[:, None]).to(tl.float16))
