"""What a repository's tests and benchmarks call its functions with: their values are what a kernel is judged under first."""

from __future__ import annotations

import textwrap

import pytest

from smemcheck.config import Settings
from smemcheck.rules.devices import resolve_target
from smemcheck.source import read_sites
from smemcheck.specialize import specialize

SM_90 = resolve_target("sm_90")

OPS = """
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 64})], key=["N"])
@triton.jit
def scale_kernel(x, b, y, N, D: tl.constexpr, HAS_BIAS: tl.constexpr, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < N * D)
    if HAS_BIAS:
        v += tl.load(b + i % D)
    if MODE == "twice":
        v = v * 2
    tl.store(y + i, v, mask=i < N * D)


def scale(x, bias=None, mode="once"):
    n, d = x.shape
    y = torch.empty_like(x)
    scale_kernel[(n,)](x, bias, y, n, D=d, HAS_BIAS=bias is not None, MODE=mode)
    return y
"""


@pytest.fixture
def found(tmp_path):
    """The specialisations of the kernel in a repository with these further files, as text of their arguments."""

    def of(files, cap=8, checked="."):
        for name, text in {"ops.py": OPS, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        reading = read_sites([str(tmp_path / checked)], [SM_90], Settings())
        (site,) = (one for one in reading.sites if one.kernel_name == "scale_kernel")
        return specialize(site, reading.project, Settings(max_specializations=cap), ())

    return of


def told(specialization):
    """``x``'s type, and the values of ``N``, ``D``, ``HAS_BIAS`` and ``MODE``."""
    values = {**dict(specialization.launch_values), **dict(specialization.constexprs)}
    return dict(specialization.signature)["x"], values["N"], values["D"], values["HAS_BIAS"], values["MODE"]


PARAMETRIZED = """
import itertools

import pytest
import torch
from ops import scale


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("n", [1000, 4096])
@pytest.mark.parametrize(("dim", "dtype"), [pytest.param(32, torch.float32, id="small"), (256, torch.bfloat16)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_scale(n, dim, dtype, has_bias):
    x = torch.randn(n, dim, device="cuda", dtype=dtype)
    bias = torch.randn(dim, device="cuda", dtype=dtype) if has_bias else None
    torch.testing.assert_close(scale(x, bias, mode="twice"), reference(x))


def reference(x):
    out = torch.zeros_like(x)
    for row in range(x.shape[0]):
        for column in range(x.shape[1]):
            out[row, column] = x[row, column] * 2
    return out
"""


def test_a_size_of_a_test_is_tried_after_each_kind_of_launch_was(found):
    test = """
    import pytest
    import torch
    from ops import scale

    @pytest.mark.parametrize("d", [16, 48])
    def test_scale(d):
        scale(torch.randn((128, d), dtype=torch.float16, device="cuda"))
    """
    told_of = [told(one) for one in found({"tests/test_ops.py": test}, cap=64)]
    assert told_of[0] == ("*fp16", 128, 16, False, "once")
    assert ("*fp16", 128, 48, False, "once") in told_of[1:]


def test_what_a_test_is_parametrized_with_comes_first(found):
    specializations = found({"tests/test_ops.py": PARAMETRIZED})
    assert {told(one)[:1] + told(one)[2:] for one in specializations[:4]} == {
        ("*fp32", 32, True, "twice"),
        ("*fp32", 32, False, "twice"),
        ("*bf16", 256, True, "twice"),
        ("*bf16", 256, False, "twice"),
    }
    assert "test_scale()" in specializations[0].assumptions[0].because


def test_functions_that_no_test_calls_that_way_are_still_tried_after_the_tests(found):
    specializations = found({"tests/test_ops.py": PARAMETRIZED})
    assert ("*fp16", "once") in {(told(one)[0], told(one)[4]) for one in specializations[4:]}


def test_a_size_that_is_no_multiple_of_16_is_taken_as_the_test_has_it(found):
    first = found({"tests/test_ops.py": PARAMETRIZED})[0]
    assert told(first)[1] == 1000
    assert "N" not in first.divisible_by_16


def test_rows_of_a_comprehension_and_marks_on_a_class(found):
    specializations = found(
        {
            "test_ops.py": """
            import itertools
            import pytest
            import torch
            from ops import scale

            SIZES = [(2 ** i, d) for i, d in itertools.product((7,), (16, 48))]

            @pytest.mark.parametrize("dtype", [torch.float16])
            class TestScale:
                @pytest.mark.parametrize("n, d", SIZES)
                def test_plain(self, n, d, dtype):
                    scale(torch.randn((n, d), dtype=dtype, device="cuda"))

                def test_twice(self, dtype):
                    scale(torch.randn((7, 80), dtype=dtype, device="cuda"), mode="twice")
            """
        },
        cap=64,
    )
    assert {told(one) for one in specializations} >= {
        ("*fp16", 128, 16, False, "once"),
        ("*fp16", 128, 48, False, "once"),
        ("*fp16", 7, 80, False, "twice"),
    }


def test_a_test_without_parameters_is_what_it_calls(found):
    (only,) = found(
        {
            "tests/test_ops.py": """
            import torch
            from ops import scale

            def test_scale():
                scale(torch.ones(6, 24, dtype=torch.float64, device="cuda"), torch.ones(24, dtype=torch.float64), "twice")
            """
        },
        cap=1,
    )
    assert told(only) == ("*fp64", 6, 24, True, "twice")


def test_tritons_benchmarks_say_what_they_measure(found):
    specializations = found(
        {
            "benchmarks/bench_scale.py": """
            import torch
            import triton
            from ops import scale

            @triton.testing.perf_report(
                triton.testing.Benchmark(
                    x_names=["n"], x_vals=[512, 8192], line_arg="provider", line_vals=["triton", "torch"],
                    line_names=["Triton", "Torch"], plot_name="scale", args={"d": 96, "dtype": torch.bfloat16},
                )
            )
            def benchmark(n, d, dtype, provider):
                x = torch.randn(n, d, dtype=dtype, device="cuda")
                if provider == "triton":
                    return triton.testing.do_bench(lambda: scale(x, mode="twice"))
                return triton.testing.do_bench(lambda: x * 2)
            """
        },
        cap=2,
    )
    assert {told(one) for one in specializations} >= {("*bf16", 512, 96, False, "twice")}


def test_a_skipped_test_says_nothing(found):
    (only,) = found(
        {
            "tests/test_ops.py": """
            import pytest
            import torch
            from ops import scale

            def test_scale():
                pytest.skip("broken")
                scale(torch.ones(6, 24, dtype=torch.float64, device="cuda"), None, "twice")
            """
        },
        cap=1,
    )
    assert told(only)[0] == "*fp16"


def test_tests_of_the_repository_count_when_only_the_package_is_checked(found):
    files = {
        "pyproject.toml": "",
        "pkg/ops.py": OPS,
        "tests/test_ops.py": PARAMETRIZED.replace("from ops", "from pkg.ops"),
    }
    first = found({**files, "pkg/__init__.py": ""}, checked="pkg")[0]
    assert told(first) == ("*fp32", 1000, 32, True, "twice")


def test_tests_outside_a_repository_are_not_looked_for(found):
    files = {"pkg/ops.py": OPS, "tests/test_ops.py": PARAMETRIZED.replace("from ops", "from pkg.ops")}
    first = found({**files, "pkg/__init__.py": ""}, checked="pkg")[0]
    assert told(first)[4] == "once"
