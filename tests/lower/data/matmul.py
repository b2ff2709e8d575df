import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * sam + (k + depth)[None, :])
        right = tl.load(b + (k + depth)[:, None] * sbk + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * scm + columns[None, :], total.to(tl.float16))
