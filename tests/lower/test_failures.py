"""What Triton refuses, and what is not known, arrives as an answer with the user's line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slicing import job, outcome, slice_kernel

from smemcheck.lower.pool import Pool
from smemcheck.model import Config, Failure, FailureKind, Footprint, FunctionValue, NamespaceValue, Position, Unknown

pytest.importorskip("triton", reason="lowering needs Triton")

COPY = {"x": "*fp32", "y": "*fp32", "B": "constexpr"}
B64 = Config((("B", 64),))


def lower(
    pool: Pool, source: str, name: str = "kernel", types: Any = None, config: Config = B64, **bindings: Any
) -> Any:
    return outcome(pool, job(slice_kernel(source, name, **bindings), types=types or COPY, config=config))


def test_a_static_assertion_is_what_the_autotuner_prunes(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.static_assert(B <= 32, "B is too large")
            tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))
    """
    failure = lower(pool, source)
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.STATIC_ASSERTION
    assert failure.message == "B is too large"
    assert failure.position == Position("/project/kernels.py", 7, 5)
    assert failure.exception == "CompileTimeAssertionFailure"


def test_a_static_assertion_in_a_called_function_arrives_wrapped_and_is_not_pruned(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def helper(n: tl.constexpr):
            tl.static_assert(n <= 32, "n is too large")
            return n

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y, helper(B))
    """
    failure = lower(pool, source)
    assert failure.kind is FailureKind.COMPILATION_ERROR
    assert failure.message == "n is too large"
    assert failure.position == Position("/project/kernels.py", 7, 5)
    assert failure.exception == "CompilationError"


def test_an_error_points_to_the_line_of_the_function_it_is_in(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        class Holder:
            @staticmethod
            @triton.jit
            def kernel(x, y, B: tl.constexpr):
                left = tl.arange(0, B)
                right = tl.arange(0, 2 * B)
                tl.store(y + left, tl.load(x + left + right))
    """
    failure = lower(pool, source)
    assert failure.kind is FailureKind.COMPILATION_ERROR
    assert "incompatible" in failure.message
    assert failure.position == Position("/project/kernels.py", 11, 36)


def test_a_plain_global_is_refused_by_triton_itself(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl
        SIZE = 64

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y + tl.arange(0, SIZE), 0.0)
    """
    failure = lower(pool, source)
    assert failure.kind is FailureKind.COMPILATION_ERROR
    assert failure.message.startswith("NameError: Cannot access global variable SIZE")
    assert failure.position == Position("/project/kernels.py", 8, 31)


def test_a_name_without_a_value_is_unknown_only_when_triton_reads_it(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            if B == 128:
                tl.store(y, MYSTERY)
            tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))
    """
    where = Position("/project/settings.py", 3, 1)
    mystery = Unknown("MYSTERY is read from a file", where)
    assert isinstance(lower(pool, source, MYSTERY=mystery), Footprint)
    assert lower(pool, source, config=Config((("B", 128),)), MYSTERY=mystery) == mystery


def test_an_unknown_member_of_a_users_module_is_unknown(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y + tl.arange(0, B), settings.SCALE)
    """
    known = NamespaceValue("settings", (("SCALE", 2.0),))
    assert isinstance(lower(pool, source, settings=known), Footprint)
    empty = lower(pool, source, settings=NamespaceValue("settings", ()))
    assert empty == Unknown("settings.SCALE is not part of the kernel's slice")


def test_a_constexpr_without_a_value_is_named(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y, B)
    """
    unknown = lower(pool, source, config=Config())
    assert unknown == Unknown("constexpr parameter B has no value", Position("/project/kernels.py", 6, 1))


def test_a_constexpr_function_is_not_run(pool: Pool, tmp_path: Path) -> None:
    sentinel = tmp_path / "ran"
    source = f"""
        import triton
        import triton.language as tl

        @triton.constexpr_function
        def choose(b):
            open({str(sentinel)!r}, "w").close()
            return b

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y, choose(B))
    """
    unknown = lower(pool, source)
    assert unknown == Unknown(
        "choose is a constexpr_function, which Triton would run as Python", Position("/project/kernels.py", 6, 1)
    )
    assert not sentinel.exists()


def test_nothing_of_the_users_file_runs(pool: Pool, tmp_path: Path) -> None:
    """Defaults, annotations, decorators and return annotations are expressions that importing the module would run."""
    sentinel = tmp_path / "ran"
    source = f"""
        import triton
        import triton.language as tl

        def touch():
            open({str(sentinel)!r}, "w").close()

        touch()

        @triton.jit
        @(lambda f: touch() or f)
        def kernel(x: touch(), y=touch(), B: tl.constexpr = touch()) -> touch():
            tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))
    """
    assert isinstance(lower(pool, source), Footprint)
    assert not sentinel.exists()


def test_names_that_shadow_python_and_triton_are_the_users(pool: Pool) -> None:
    """``triton`` bound to something else is that something else, also when a module of that name exists."""
    source = """
        import triton.language as tl

        @tl.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y + tl.arange(0, B), triton.load(x))
    """
    shadow = Unknown("triton is a function of the user's")
    assert lower(pool, source, triton=shadow) == shadow


def test_functions_travel_as_constexpr_values_and_call_each_other(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl
        HALF = tl.constexpr(0.5)

        @triton.jit
        def kernel(x, y, F: tl.constexpr, B: tl.constexpr):
            at = tl.arange(0, B)
            tl.store(y + at, F(tl.load(x + at)))

        @triton.jit
        def outer(v, factor: tl.constexpr = HALF):
            return inner(v) * factor

        @triton.jit(noinline=True)
        def inner(v):
            return tl.sum(v, 0)
    """
    types = {"x": "*fp32", "y": "*fp32", "F": "constexpr", "B": "constexpr"}
    by_index = Config((("F", FunctionValue("outer", 1)), ("B", 256)))
    by_name = Config((("F", FunctionValue("outer")), ("B", 256)))
    refused = lower(pool, source, types=types, config=by_index)
    assert refused.kind is FailureKind.COMPILATION_ERROR
    assert "is marked noinline, but was called with non-scalar argument" in refused.message
    inlined = source.replace("@triton.jit(noinline=True)", "@triton.jit")
    footprint = lower(pool, inlined, types=types, config=by_index)
    assert isinstance(footprint, Footprint)
    assert footprint.shared_memory > 0  # the sum crosses warps
    assert lower(pool, inlined, types=types, config=by_name) == footprint


def test_a_tuple_argument_has_types_and_constants_by_element(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(pointers, strides, B: tl.constexpr):
            at = tl.arange(0, B)
            value = tl.load(pointers[0] + at[:, None] * strides[0] + at[None, :] * strides[1])
            tl.store(pointers[1] + at, tl.sum(value, 1))
    """
    types = {"pointers": ("*fp16", "*fp16"), "strides": ("i32", "constexpr"), "B": "constexpr"}
    one = job(slice_kernel(source, "kernel"), types=types, constexprs={"strides.1": 1}, config=B64)
    whole = job(slice_kernel(source, "kernel"), types=types, constexprs={"strides": (None, 1)}, config=B64)
    assert isinstance(outcome(pool, one), Footprint)
    assert outcome(pool, whole) == outcome(pool, one)


def test_an_option_that_no_backend_knows_ends_the_program(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))
    """
    failure = lower(pool, source, config=Config((("B", 64), ("waves_per_eu", 2))))
    assert failure.kind is FailureKind.COMPILATION_ERROR
    assert failure.message == "KeyError: 'Keyword argument waves_per_eu was specified but unrecognised'"
    amd = job(slice_kernel(source, "kernel"), "gfx942", types=COPY, config=Config((("B", 64), ("waves_per_eu", 2))))
    assert isinstance(outcome(pool, amd), Footprint)


def test_what_a_kernel_prints_while_it_compiles_disturbs_nothing(pool: Pool) -> None:
    source = """
        import triton
        import triton.language as tl

        @triton.jit
        def kernel(x, y, B: tl.constexpr):
            for i in tl.static_range(0, 2000):
                tl.static_print("{ a line that is longer than it should be, printed again and again and again }", i)
            tl.store(y + tl.arange(0, B), tl.load(x + tl.arange(0, B)))
    """
    assert isinstance(lower(pool, source), Footprint)


def test_a_maxnreg_that_ptxas_cannot_keep_is_its_refusal_or_a_spill(pool: Pool) -> None:
    path = Path(__file__).with_name("data") / "matmul.py"
    types = {
        **dict.fromkeys(("a", "b", "c"), "*fp16"),
        **dict.fromkeys(("M", "N", "K", "sam", "sbk", "scm"), "i32"),
        **dict.fromkeys(("BM", "BN", "BK"), "constexpr"),
    }
    config = Config((("BM", 128), ("BN", 128), ("BK", 64)), num_warps=4, maxnreg=16)
    kernel = slice_kernel(path.read_text(encoding="utf-8"), "matmul", str(path))
    failure = outcome(pool, job(kernel, types=types, config=config, registers=True))
    assert failure.kind is FailureKind.PTXAS
    assert failure.message.startswith("ptxas")
    assert isinstance(outcome(pool, job(kernel, types=types, config=config)), Footprint)
