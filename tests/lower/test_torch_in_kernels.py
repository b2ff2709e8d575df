"""What a kernel may read of torch while it is compiled: which backend it is, and the limits of dtypes."""

from __future__ import annotations

from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.lower.worker.torch_limits import FloatLimits, IntegerLimits, TorchDtype
from smemcheck.model import VerdictKind

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({{"BLOCK": 64}})], key=["n"])
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.constexpr(torch.version.hip is not None):
        tl.atomic_add(x_ptr + at, 1.0, sem="relaxed")
    x = tl.load(x_ptr + at, mask=at < n, other={other})
    tl.store(x_ptr + at, x / tl.max(x, 0), mask=at < n)
"""


@pytest.mark.parametrize("other", ["-torch.finfo(torch.float32).max", "torch.iinfo(torch.int8).min", "0.0"])
def test_a_kernel_that_reads_torch_is_lowered(tmp_path: Path, other: str) -> None:
    pytest.importorskip("triton", reason="lowering needs Triton")
    (tmp_path / "kernel.py").write_text(KERNEL.format(other=other), encoding="utf-8")
    settings = Settings(targets=("sm_90", "gfx942"), cache=False, jobs=1, max_specializations=1)
    report = pipeline.check([str(tmp_path / "kernel.py")], settings)
    assert [result.verdict.kind for result in report.results] == [VerdictKind.FITS, VerdictKind.FITS]


@pytest.mark.parametrize(
    ("dtype", "largest", "eps"),
    [("float16", 65504.0, 0.0009765625), ("bfloat16", 3.3895313892515355e38, 0.0078125),
     ("float32", 3.4028234663852886e38, 1.1920928955078125e-07), ("float8_e4m3fn", 448.0, 0.125)],
)  # fmt: skip
def test_limits_of_floats(dtype: str, largest: float, eps: float) -> None:
    limits = FloatLimits(TorchDtype(dtype))
    assert (limits.max, limits.min, limits.eps) == (largest, -largest, eps)


def test_limits_of_integers() -> None:
    limits = {name: IntegerLimits(TorchDtype(name)) for name in ("int8", "uint8", "int64")}
    assert {name: (one.min, one.max) for name, one in limits.items()} == {
        "int8": (-128, 127),
        "uint8": (0, 255),
        "int64": (-(2**63), 2**63 - 1),
    }


def test_a_dtype_of_the_other_kind_raises_as_in_torch() -> None:
    with pytest.raises(TypeError, match="requires a floating point input type"):
        FloatLimits(TorchDtype("int8"))
    with pytest.raises(TypeError, match="requires an integer input type"):
        IntegerLimits(TorchDtype("float32"))
