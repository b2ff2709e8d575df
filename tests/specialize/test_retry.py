"""What is assumed next when a kernel does not compile as its launch was first assumed to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import ParameterValues, Settings
from smemcheck.model import Dtype, Failure, FailureKind, Job, Outcome, Position, Report, VerdictKind
from smemcheck.rules.example import needs

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def kernel(x_ptr, out_ptr, n, MODE: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets) * 2.0
    if MODE == "plain":
        y = x
    elif MODE == "square":
        y = x * x
    tl.store(out_ptr + offsets, y + tl.arange(0, WIDTH))
"""

LAUNCH = """

def doubled(x):
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    kernel[(1,)](x, out, x.numel(), MODE="plain", WIDTH=64)
    return out
"""

Compiles = Callable[[dict[str, object]], bool]


def refusal(message: str, kind: FailureKind = FailureKind.COMPILATION_ERROR) -> Failure:
    return Failure(kind, message, "3.6.0", Position("/kernel.py", 10))


def checked(folder: Path, text: str, compiles: Compiles, failure: Failure, **options: object) -> tuple[Report, int]:
    """The report where ``compiles`` says which types and constants the compiler takes, and how many jobs it was asked."""
    asked = 0

    def lower(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        nonlocal asked
        for index, job in enumerate(jobs):
            asked += 1
            one = job.specialization
            yield index, needs(1024) if compiles({**dict(one.signature), **dict(one.constexprs)}) else failure

    (folder / "kernel.py").write_text(text, encoding="utf-8")
    settings = Settings(targets=("sm_90",), cache=False, **{"max_specializations": 1, **options})  # type: ignore[arg-type]
    return pipeline.check([str(folder / "kernel.py")], settings, lower=lower), asked


def assumed(report: Report, parameter: str) -> tuple[str, str]:
    """The value that is assumed for a parameter, and why."""
    (one,) = report.specializations
    (found,) = [a for a in one.specialization.assumptions if a.parameter == parameter]
    return found.value, found.because


def test_another_dtype_is_tried_and_said(tmp_path: Path) -> None:
    """The kernel compiles for 32-bit floats only, and nothing says what the caller's tensor holds."""
    failure = refusal("ValueError: a dtype that this operation does not take")
    report, _ = checked(tmp_path, KERNEL + LAUNCH, lambda values: values["x_ptr"] == "*fp32", failure)
    value, because = assumed(report, "x_ptr")
    assert value == "*fp32"
    assert because.startswith("with *fp16 it did not lower: ValueError: a dtype that this operation does not take")
    assert [result.verdict.kind for result in report.results] == [VerdictKind.FITS, VerdictKind.FITS]
    assert assumed(report, "out_ptr") == ("*fp32", assumed(report, "out_ptr")[1])
    assert "did not lower" not in assumed(report, "out_ptr")[1], "the launch says that dtype"


def test_another_text_is_tried_where_a_name_is_missing(tmp_path: Path) -> None:
    failure = refusal("NameError: y is not defined")
    report, _ = checked(tmp_path, KERNEL, lambda values: values["MODE"] == "square", failure)
    assert assumed(report, "MODE")[0] == "'square'"


def test_other_sizes_are_tried_where_shapes_do_not_agree(tmp_path: Path) -> None:
    failure = refusal("ValueError: shape mismatch", FailureKind.STATIC_ASSERTION)
    report, _ = checked(tmp_path, KERNEL, lambda values: values["WIDTH"] == 32, failure)
    assert assumed(report, "WIDTH")[0] == "32"


def test_six_further_assumptions_are_tried_on_one_config_each(tmp_path: Path) -> None:
    """Then the first ones stay, and the verdict is unknown."""
    report, asked = checked(tmp_path, KERNEL, lambda values: False, refusal("ValueError: no"))
    assert asked == 2 + 6
    assert {result.verdict.kind for result in report.results} == {VerdictKind.UNKNOWN}
    assert not any("did not lower" in a.because for a in report.specializations[0].specialization.assumptions)


def test_what_the_launch_says_stays(tmp_path: Path) -> None:
    seen = set()

    def compiles(values: dict[str, object]) -> bool:
        seen.add((values["MODE"], values["WIDTH"], values["out_ptr"]))
        return False

    checked(tmp_path, KERNEL + LAUNCH, compiles, refusal("ValueError: shape mismatch"))
    assert seen == {("plain", 64, "*fp32")}


def test_what_the_user_binds_stays(tmp_path: Path) -> None:
    seen = set()

    def compiles(values: dict[str, object]) -> bool:
        seen.add((values["x_ptr"], values["MODE"]))
        return False

    bind = (ParameterValues("x_ptr", ("*fp16",)), ParameterValues("MODE", ("plain",)))
    checked(tmp_path, KERNEL, compiles, refusal("ValueError: no"), bind=bind)
    assert seen == {("*fp16", "plain")}


@pytest.mark.parametrize(
    "message",
    ["TypeError: dot() got an unexpected keyword argument 'trans_b'", "KeyError: 'waves_per_eu was unrecognised'"],
)
def test_nothing_else_is_tried_where_the_kernel_or_its_options_are_the_cause(tmp_path: Path, message: str) -> None:
    _, asked = checked(tmp_path, KERNEL, lambda values: False, refusal(message))
    assert asked == 2


def test_a_dtype_that_no_launch_says(tmp_path: Path) -> None:
    text = KERNEL.replace("MODE: tl.constexpr", "MODE: tl.constexpr, OUT_DTYPE: tl.constexpr").replace(
        "y + tl", "y.to(OUT_DTYPE) + tl"
    )
    report, _ = checked(tmp_path, text, lambda values: values["OUT_DTYPE"] == Dtype("fp32"), refusal("TypeError: cast"))
    assert assumed(report, "OUT_DTYPE")[0] == "tl.fp32"


def test_the_next_attempt_starts_from_one_that_got_further(tmp_path: Path) -> None:
    """Both the dtype and the size have to change, and each refusal says another thing."""

    def lower(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            values = {**dict(job.specialization.signature), **dict(job.specialization.constexprs)}
            if values["x_ptr"] != "*fp32":
                yield index, refusal("TypeError: not for this dtype")
            elif values["WIDTH"] != 128:
                yield index, refusal("ValueError: shape mismatch")
            else:
                yield index, needs(1024)

    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    settings = Settings(targets=("sm_90",), cache=False, max_specializations=1)
    report = pipeline.check([str(tmp_path / "kernel.py")], settings, lower=lower)
    assert (assumed(report, "x_ptr")[0], assumed(report, "WIDTH")[0]) == ("*fp32", "128")
    assert "not for this dtype" in assumed(report, "x_ptr")[1]
    assert "shape mismatch" in assumed(report, "WIDTH")[1]


OPTIONAL = """\
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x_ptr, out_ptr, bias_ptr, scale, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * scale + tl.load(bias_ptr + offsets))


def scaled(x, bias=None, scale=None):
    kernel[(1,)](x, torch.empty_like(x), bias, scale, x.numel())
"""


def test_what_an_example_leaves_out_is_given_where_the_kernel_cannot_do_without(tmp_path: Path) -> None:
    def compiles(values: dict[str, object]) -> bool:
        return values["scale"] == "fp32" and values["bias_ptr"] == "*fp16"

    failure = refusal("AttributeError: 'NoneType' object has no attribute 'type'")
    report, _ = checked(tmp_path, OPTIONAL, compiles, failure)
    assert assumed(report, "scale")[0] == "fp32"
    assert "NoneType" in assumed(report, "scale")[1]


STRIDES = """\
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x_ptr, n, stride_row, stride_column, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n, n], [stride_row, stride_column], [BLOCK, BLOCK])
    x.store([0, 0], x.load([0, 0]))
"""


def test_a_descriptor_needs_a_last_stride_of_1(tmp_path: Path) -> None:
    """With the real compiler's words: a comparison of a number of the launch outside of any kernel."""
    message = "ValueError: Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)"

    def lower(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            constant = dict(job.specialization.constexprs).get("stride_column") == 1
            path = (tmp_path / "kernel.py").as_posix()
            refused = Failure(FailureKind.COMPILATION_ERROR, message, "3.6.0", Position(path, 8))
            yield index, needs(1024) if constant else refused

    (tmp_path / "kernel.py").write_text(STRIDES, encoding="utf-8")
    settings = Settings(targets=("sm_90",), cache=False, max_specializations=1)
    report = pipeline.check([str(tmp_path / "kernel.py")], settings, lower=lower)
    assert assumed(report, "stride_column")[0] == "1"
    assert dict(report.specializations[0].specialization.signature)["stride_row"] == "i32"


MODES = """\
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x_ptr, n, NORM: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if NORM == 1:
        y = tl.abs(x)
    elif NORM == 2:
        y = x * x
    tl.store(x_ptr + offsets, y)


"""


def test_a_size_gives_way_to_a_mode_where_the_kernel_tells_modes_apart(tmp_path: Path) -> None:
    text = MODES + "def norm(x, length: int):\n    kernel[(1,)](x, x.numel(), NORM=length)\n"
    report, _ = checked(tmp_path, text, lambda values: values["NORM"] == 2, refusal("NameError: y is not defined"))
    assert assumed(report, "NORM")[0] == "2"


def test_a_mode_that_the_launch_writes_out_stays_where_it_compiles(tmp_path: Path) -> None:
    text = MODES + "def norm(x):\n    kernel[(1,)](x, x.numel(), NORM=16)\n"
    report, _ = checked(tmp_path, text, lambda values: True, refusal("never"))
    assert assumed(report, "NORM")[0] == "16"


def test_a_descriptor_has_no_strides_of_1_in_other_dimensions(tmp_path: Path) -> None:
    """One of the example launches has a single column."""
    text = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x_ptr, m, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BLOCK, BLOCK])
    x.store([0, 0], x.load([0, 0]))


def doubled(x):
    kernel[(1,)](x, x.shape[0], 1)


def widened(x):
    kernel[(1,)](x, x.shape[0], x.shape[0] // x.shape[0])
"""
    failure = refusal(
        "ValueError: Tensor descriptor strides must be 16-byte aligned, but got a stride of 1 * 2 = 2 bytes"
    )
    report, _ = checked(tmp_path, text, lambda values: values["n"] == "i32", failure)
    assert assumed(report, "n")[0] == "i32"
    assert "stride of 1 * 2" in assumed(report, "n")[1]
