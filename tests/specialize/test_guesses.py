"""Constexprs that nothing in the source gives a value: which values are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Dtype
from smemcheck.rules.example import needs

KERNEL = """\
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({{"BLOCK": 64}}), triton.Config({{"BLOCK": 128}})], key=["n"])
@triton.jit
def kernel(x_ptr, n, {name}: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    {condition}
        x = x * 2
    tl.store(x_ptr + offsets, x)
"""


def tried(folder: Path, name: str, condition: str) -> list[object]:
    (folder / "kernel.py").write_text(KERNEL.format(name=name, condition=condition), encoding="utf-8")
    report = pipeline.check(
        [str(folder / "kernel.py")],
        Settings(targets=("sm_90",), cache=False),
        lower=lambda jobs: ((index, needs(0)) for index in range(len(jobs))),
    )
    values = [dict(entry.specialization.constexprs)[name] for entry in report.specializations]
    return sorted(dict.fromkeys(values))


@pytest.mark.parametrize(
    ("name", "condition", "values"),
    [
        ("STAGE", "if STAGE == 1:", [1, 2]),
        ("MODE", "if MODE == 0 or MODE == 3:", [0, 3]),
        ("SPLIT_K", "if SPLIT_K > 1:", [1, 2]),
        ("STATE_SIZE", "if STATE_SIZE > 1:", [64, 128]),
        ("FOLD", "if FOLD >= 64:", [64, 128]),
        ("IS_CAUSAL", "if IS_CAUSAL:", [False, True]),
    ],
)
def test_what_the_kernel_compares_with_is_tried(
    tmp_path: Path, name: str, condition: str, values: list[object]
) -> None:
    assert tried(tmp_path, name, condition) == values


STRIDED = """\
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["stride_row"])
@triton.jit
def kernel(x_ptr, y_ptr, stride_xm, stride_xk, stride_row, acc_dtype: tl.constexpr, NUM_STAGES: tl.constexpr,
           stride_yb: tl.constexpr, stride_yh: tl.constexpr, EVICT: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets * stride_xk + stride_xm + stride_row, eviction_policy=EVICT).to(acc_dtype)
    for i in tl.range(2, num_stages=NUM_STAGES):
        tl.store(y_ptr + offsets * stride_yh + i * stride_yb, x)
"""


def test_names_say_what_a_value_mostly_is(tmp_path: Path) -> None:
    """Nothing launches the kernel: the last stride of a tensor is 1, sums are wide, pipelines have Triton's depth."""
    (tmp_path / "kernel.py").write_text(STRIDED, encoding="utf-8")
    report = pipeline.check(
        [str(tmp_path / "kernel.py")],
        Settings(targets=("sm_90",), cache=False, max_specializations=1),
        lower=lambda jobs: ((index, needs(0)) for index in range(len(jobs))),
    )
    (entry,) = report.specializations
    one = entry.specialization
    values = {**dict(one.signature), **dict(one.constexprs)}
    assert (values["stride_xm"], values["stride_xk"], values["stride_row"]) == ("i32", 1, "i32")
    assert (values["stride_yb"], values["stride_yh"]) == (64, 1)
    assert (values["acc_dtype"], values["NUM_STAGES"]) == (Dtype("fp32"), 3)
    assert values["EVICT"] == ""
    reasons = {a.parameter: a.because for a in one.assumptions}
    assert reasons["stride_xk"] == "the last stride of a tensor is mostly 1"


LAUNCHED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0)


def launch(x: torch.Tensor, num_warps: int, num_stages: int):
    kernel[(1,)](x, BLOCK=64, num_warps=num_warps, num_stages=num_stages)
"""


@pytest.mark.parametrize(
    ("caller", "options"),
    [
        ("", []),
        ("\n\ndef caller(x: torch.Tensor):\n    launch(x, num_warps=8, num_stages=1)\n", [(8, 1)]),
    ],
    ids=["nobody says how many", "a caller says it"],
)
def test_the_options_of_a_launch_are_never_invented(
    tmp_path: Path, caller: str, options: list[tuple[int, int]]
) -> None:
    (tmp_path / "kernel.py").write_text(LAUNCHED + caller, encoding="utf-8")
    report = pipeline.check(
        [str(tmp_path / "kernel.py")],
        Settings(targets=("sm_90",), cache=False),
        lower=lambda jobs: ((index, needs(0)) for index in range(len(jobs))),
    )
    found = {(result.config.num_warps, result.config.num_stages): None for result in report.results}  # for each dtype
    assert list(found) == options
