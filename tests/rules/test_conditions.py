"""How findings say under which specialisations they hold."""

from __future__ import annotations

import itertools

import pytest

from handmade import specialization
from smemcheck.rules.conditions import condition_text

GRID = [
    (dim, dtype, causal) for dim, dtype, causal in itertools.product((32, 64, 128), ("*fp16", "*fp32"), (False, True))
]


def made(dim: int, dtype: str, causal: bool):
    return specialization({"q_ptr": dtype, "k_ptr": dtype}, D=dim, CAUSAL=causal)


@pytest.mark.parametrize(
    ("holds", "text"),
    [
        (lambda dim, dtype, causal: True, ""),
        (lambda dim, dtype, causal: dim >= 64, "D ≥ 64"),
        (lambda dim, dtype, causal: dim < 128, "D ≤ 64"),
        (lambda dim, dtype, causal: dim == 64, "D = 64"),
        (lambda dim, dtype, causal: causal, "CAUSAL = True"),
        (lambda dim, dtype, causal: dtype == "*fp32", "q_ptr = *fp32"),
        (lambda dim, dtype, causal: dim == 128 and dtype == "*fp32", "D ≥ 128 and q_ptr = *fp32"),
        (
            lambda dim, dtype, causal: dim == 128 or (dim == 64 and dtype == "*fp32"),
            "D ≥ 64 and q_ptr = *fp32 or D ≥ 128",
        ),
        (lambda dim, dtype, causal: (dim == 64) ^ causal ^ (dtype == "*fp32"), "6 of 12 specialisations"),
    ],
    ids=["all", "from", "up to", "one", "flag", "type", "both", "alternatives", "no rule"],
)
def test_a_condition_is_as_short_as_tells_the_cases_apart(holds, text: str) -> None:
    inside = [made(*facts) for facts in GRID if holds(*facts)]
    outside = [made(*facts) for facts in GRID if not holds(*facts)]
    assert condition_text(inside, outside) == text


def test_an_optional_argument_is_named_by_its_absence_and_presence() -> None:
    with_bias = [specialization({"bias_ptr": dtype}) for dtype in ("*fp16", "*fp32")]
    without = [specialization(bias_ptr=None)]
    assert condition_text(without, with_bias) == "bias_ptr = None"
    assert condition_text(with_bias, without) == "a bias_ptr that is not None"


def test_a_size_of_one_is_named_as_it_is() -> None:
    assert condition_text([specialization(N=1)], [specialization(N=16), specialization(N=64)]) == "N = 1"


def test_what_grows_is_named_before_what_shrinks() -> None:
    inside, outside = [specialization({"q_ptr": "*fp32"}, D=64)], [specialization({"q_ptr": "*fp16"}, D=128)]
    assert condition_text(inside, outside) == "q_ptr = *fp32"
    assert condition_text(outside, inside) == "D ≥ 128"
