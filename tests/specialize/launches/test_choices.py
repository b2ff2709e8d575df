"""What an example run chooses where the caller could: dtypes, optional tensors, texts, and sizes that the code can take."""

from __future__ import annotations

import pytest
from reading import specializations, types_of

CHOICES = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def kernel(x, w, state, out, cu_seqlens, labels, offset, scale, RETURNS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i) * scale + tl.load(w + i) + tl.load(state + i)
    if cu_seqlens is not None:
        v += tl.load(cu_seqlens) + tl.load(labels)
    tl.store(out + i, v)

def run(
    x: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    scale: float,
    offset: int | torch.Tensor = 0,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    output_final_state: bool = False,
):
    kernel[(1,)](x, weight, initial_state, torch.empty_like(x), cu_seqlens, labels, offset, scale, output_final_state)
"""


def pairs(found, *names):
    return {tuple(s[name] for name in names) for s in map(types_of, found)}


def test_weights_are_like_the_data_or_32_bit_and_states_32_bit_or_like_the_data(read):
    found = specializations(read, CHOICES)
    assert pairs(found, "x", "w") == {("*fp16", "*fp16"), ("*fp32", "*fp32"), ("*fp16", "*fp32")}
    assert {state for x, state in pairs(found, "x", "state") if x == "*fp16"} == {None, "*fp32", "*fp16"}


def test_lengths_are_tried_in_both_integer_widths_and_labels_are_64_bit_first(read):
    found = specializations(read, CHOICES)
    assert {lengths for (lengths,) in pairs(found, "cu_seqlens")} == {None, "*i32", "*i64"}
    assert types_of(found[0])["labels"] == "*i64"


def test_an_argument_that_may_be_a_number_or_a_tensor_is_tried_as_both(read):
    assert {offset for (offset,) in pairs(specializations(read, CHOICES), "offset")} == {"i32", "*i32", "*i64"}


def test_a_scale_may_be_the_integer_1_of_which_triton_makes_a_constant(read):
    found = specializations(read, CHOICES)
    assert types_of(found[0])["scale"] == "fp32"
    assert (1,) in pairs(found, "scale")


def test_all_that_is_optional_is_given_together_soon(read):
    assert ("*fp32", True) in pairs(specializations(read, CHOICES, cap=8), "state", "RETURNS")


def test_code_that_looks_at_a_dtype_is_run_again_for_the_other(read):
    text = CHOICES.replace(
        "    kernel[(1,)](x, weight,",
        "    weight = weight if x.dtype == torch.float16 else None\n    kernel[(1,)](x, weight,",
    )
    assert pairs(specializations(read, text), "x", "w") == {
        ("*fp16", "*fp16"),
        ("*fp16", "*fp32"),
        ("*fp32", None),
    }


def test_sums_of_integers_are_64_bit(read):
    text = CHOICES.replace(
        "    kernel[(1,)](x",
        "    if cu_seqlens is not None:\n        cu_seqlens = triton.cdiv(cu_seqlens, 64).cumsum(-1)\n    kernel[(1,)](x",
    )
    assert {lengths for (lengths,) in pairs(specializations(read, text), "cu_seqlens")} == {None, "*i64"}


CHECKED = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def kernel(x, w, b, lower, out, D: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, D)
    v = tl.load(x + i) * tl.load(w + i) + lower
    if ACTIVATION == "silu":
        v += tl.load(b + i)
    tl.store(out + i, v)

def _launch(x, w, b: torch.Tensor, lower, activation):
    if b is not None:
        assert b.is_contiguous()
    kernel[(1,)](x, w, b, lower, torch.empty_like(x), D=x.shape[-1], ACTIVATION=activation)

def run(x: torch.Tensor, weight: torch.Tensor = None, bias: torch.Tensor = None, lower: float = -1.0, activation: str | None = None):
    assert x.shape[-1] <= 16, "narrow rows only"
    if not (-5 <= lower < 0):
        raise ValueError(lower)
    _launch(x, weight * 2, bias, lower, activation)
"""


def test_a_size_that_fails_a_check_takes_the_one_that_passes(read):
    assert pairs(specializations(read, CHECKED), "D") == {(16,)}


def test_of_several_allowed_sizes_the_examples_are_taken(read):
    text = CHECKED.replace("assert x.shape[-1] <= 16", "assert x.shape[-1] in (32, 128, 256)")
    assert pairs(specializations(read, text), "D") == {(32,), (128,)}


def test_an_optional_tensor_without_which_nothing_runs_is_given(read):
    first = types_of(specializations(read, CHECKED)[0])
    assert (first["w"], first["b"], first["ACTIVATION"]) == ("*fp16", None, None)


def test_texts_are_those_that_the_file_compares_the_name_with(read):
    assert pairs(specializations(read, CHECKED), "ACTIVATION") == {(None,), ("silu",)}


def test_the_number_of_a_dimension_is_no_size(read):
    last = specializations(
        read,
        """
        @triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
        @triton.jit
        def kernel(x, y, n, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)

        def exponentials(x: torch.Tensor, dim: int):
            x = x.transpose(dim, -1).contiguous()
            y = torch.empty_like(x)
            kernel[(1,)](x, y, x.size(dim))
            return y
        """,
    )
    assert types_of(last[0]) == {"x": "*fp16", "y": "*fp16", "n": "i32", "BLOCK": None}


UNROLLED = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def kernel(x, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for row in tl.static_range(0, ROWS):
        tl.store(x + row * n + i, 0.0)

def clear(x: torch.Tensor):
    n_rows, n = x.shape
    kernel[(1,)](x, n, ROWS=SIZE)
"""


@pytest.mark.parametrize(("size", "rows"), [("triton.next_power_of_2(n_rows)", 8), ("4", 4)])
def test_no_example_unrolls_a_loop_over_many_rows(read, size, rows):
    first = specializations(read, UNROLLED.replace("SIZE", size))[0]
    assert types_of(first)["ROWS"] == rows


def test_the_width_of_a_convolution_is_small(read):
    text = """
    @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
    @triton.jit
    def kernel(x, w, n, W: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i) * tl.load(w + i % W))

    def convolve(x: torch.Tensor, weight: torch.Tensor):
        D, W = weight.shape
        kernel[(1,)](x, weight, x.numel(), W=W, D=D)
    """
    assert types_of(specializations(read, text)[0])["W"] == 4
