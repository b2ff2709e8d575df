"""Triton's names for types, and the type that an annotation or a value gives an argument."""

from __future__ import annotations

from typing import Any

from smemcheck.model import AttributeValue, ConstexprValue, Dtype, FunctionValue

CANONICAL: dict[str, str] = {
    "bool": "u1", "int1": "u1", "uint1": "u1", "i1": "u1",
    "float8e4nv": "fp8e4nv", "float8_e4m3fn": "fp8e4nv",
    "float8e5": "fp8e5", "float8_e5m2": "fp8e5",
    "float8e4b15": "fp8e4b15",
    "float8e4b8": "fp8e4b8", "float8_e4m3fnuz": "fp8e4b8",
    "float8e5b16": "fp8e5b16", "float8_e5m2fnuz": "fp8e5b16",
    "half": "fp16", "float16": "fp16", "bfloat16": "bf16",
    "float": "fp32", "float32": "fp32", "double": "fp64", "float64": "fp64",
    "int8": "i8", "int16": "i16", "short": "i16", "int": "i32", "int32": "i32", "int64": "i64", "long": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "void": "void",
}  # fmt: skip
"""Names of dtypes, in Triton's own spelling and torch's (triton/_utils.py, ``type_canonicalisation_dict``)."""
CANONICAL |= {name: name for name in tuple(CANONICAL.values())}


def canonical_dtype(name: str) -> str | None:
    """``"fp16"`` for ``fp16``, ``float16``, ``tl.float16``, ``torch.half``; ``None`` for what is no dtype."""
    return CANONICAL.get(name.rpartition(".")[2])


def language_name(dtype: str) -> str:
    """The name that ``triton.language`` gives a dtype when it prints it: ``int8`` for ``i8``, ``fp16`` as it is."""
    kind, width = dtype[:1], dtype[1:]
    return f"{'int' if kind == 'i' else 'uint'}{width}" if kind in ("i", "u") and width.isdigit() else dtype


def is_float(dtype: str) -> bool:
    """Whether the Triton dtype is a floating-point type."""
    return dtype.startswith(("fp", "bf"))


def is_pointer(type_: Any) -> bool:
    """Whether a signature entry is a pointer type."""
    return isinstance(type_, str) and type_.startswith("*")


def is_integer(type_: Any) -> bool:
    """Whether a signature entry is an integer that Triton specialises (a ``bool``, ``u1``, is not)."""
    return isinstance(type_, str) and type_[:1] in ("i", "u") and type_[1:].isdigit() and type_ != "u1"


def annotated_type(annotation: str) -> str | None:
    """The type that a parameter's annotation forces, or ``None`` when Triton would look at the argument.

    ``*fp16``, ``tl.int64``, ``const *fp32`` and ``fp32*`` do; ``tl.tensor`` does not. Follows ``_normalize_ty`` and
    ``KernelParam.annotation_type`` in triton/runtime/jit.py.
    """
    text = annotation.strip().strip("'\"").strip()
    constant = text.startswith("const ")
    if constant:
        text = text.removeprefix("const ").strip()
    stars = 0
    if text.endswith("*"):
        text, stars = text[:-1].strip(), 1
    elif text.startswith("*"):
        text, stars = text[1:].strip(), 1
        if text not in CANONICAL and text.startswith("k"):
            text, constant = text[1:], True
    dtype = canonical_dtype(text.replace("_t", "") if text not in CANONICAL else text)
    if dtype is None:
        return None
    return f"*{'k' if constant else ''}{dtype}" if stars else dtype


def type_text(text: str) -> str | None:
    """A type as a user writes it (``*bf16``, ``bf16*``, ``i64``, ``tl.float32``, ``tensordesc<…>``), or ``None``."""
    if text.startswith("tensordesc<") and text.endswith("]>"):
        return text
    return annotated_type(text)


def type_of_value(value: Any) -> str:
    """The signature entry of an argument with this value, as Triton's specialisation decides.

    1 and ``None`` become constants, and so does everything that is no number; integers take the smallest of i32, i64, u64
    that holds them; booleans are ``u1`` and floats ``fp32`` (``native_specialize_impl``, tested against Triton 3.6 and 3.9).
    """
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, int):
        if value == 1:
            return "constexpr"
        if -(2**31) <= value < 2**31:
            return "i32"
        return "u64" if 2**63 <= value < 2**64 else "i64"
    if isinstance(value, float):
        return "fp32"
    return "constexpr"


def value_text(value: Any) -> str:
    """A constexpr's value as a user would write it."""
    if isinstance(value, Dtype):
        return f"tl.{language_name(value.name)}"
    if isinstance(value, FunctionValue):
        return value.name
    if isinstance(value, AttributeValue):
        return value.path
    if isinstance(value, ConstexprValue):
        return value_text(value.value)
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))})"
    return repr(value)
