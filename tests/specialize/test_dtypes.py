"""Types as Triton names them, checked against the installed Triton where it can be asked."""

from __future__ import annotations

import pytest

from smemcheck.specialize.dtypes import CANONICAL, annotated_type, type_of_value, type_text


@pytest.mark.parametrize(
    "value",
    [0, 1, 3, 16, True, False, None, 0.5, 1.0, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)],
)  # fmt: skip
def test_the_type_of_a_value_is_what_triton_says(value):
    jit = pytest.importorskip("triton.runtime.jit", reason="asks Triton itself", exc_type=ImportError)
    assert type_of_value(value) == jit.mangle_type(value, specialize=True)


def test_names_of_dtypes_are_triton_s():
    triton = pytest.importorskip("triton._utils", reason="asks Triton itself", exc_type=ImportError)
    theirs = triton.type_canonicalisation_dict
    assert {name: CANONICAL.get(name) for name in theirs} == theirs


@pytest.mark.parametrize(
    "annotation",
    ["*fp16", "fp16*", "const *bf16", "*kfp32", "tl.int64", "int32_t", "i1", "tl.constexpr", "tl.tensor", "foo", "*foo", ""],
)  # fmt: skip
def test_annotations_force_what_they_force_in_triton(annotation):
    """``KernelParam.annotation_type`` of a parameter with this annotation; constexprs are told apart before."""
    jit = pytest.importorskip("triton.runtime.jit", reason="asks Triton itself", exc_type=ImportError)
    import inspect

    parameter = inspect.Parameter("p", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
    assert (annotated_type(annotation) or "") == jit.KernelParam(0, parameter, False, False).annotation_type


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("*bf16", "*bf16"),
        ("bfloat16*", "*bf16"),
        ("tl.int64", "i64"),
        ("tensordesc<fp16[64, 32]>", "tensordesc<fp16[64, 32]>"),
        ("tensordesc<fp16>", None),
        ("q_ptr", None),
        ("**fp16", None),
    ],
)
def test_types_as_users_write_them(text, type_):
    assert type_text(text) == type_
