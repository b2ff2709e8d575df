"""What a value that the user gives for a parameter means: a type, a constant, a multiple of 16 or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smemcheck.config import Scalar
from smemcheck.model import Dtype, Parameter, Unknown, Value
from smemcheck.specialize.dtypes import (
    annotated_type,
    canonical_dtype,
    is_integer,
    is_pointer,
    type_of_value,
    type_text,
)
from smemcheck.specialize.kinds import Kind, ParameterKind


@dataclass(frozen=True, slots=True)
class Argument:
    """What a parameter is compiled for. ``value`` counts where ``type`` is ``constexpr``."""

    type: Any
    value: Value = None
    divisible: bool = False


def argument_of_value(value: Value, parameter: Parameter) -> Argument:
    """The argument that a launch with ``value`` has (``create_function_from_signature`` in triton/runtime/jit.py)."""
    if parameter.is_constexpr:
        return Argument("constexpr", value)
    number = isinstance(value, (bool, int, float))
    forced = annotated_type(parameter.annotation)
    if forced is not None and number:
        type_ = forced
    elif parameter.do_not_specialize and value == 1 and not isinstance(value, bool):
        type_ = "fp32" if isinstance(value, float) else "i32"
    else:
        type_ = type_of_value(value)
    if type_ == "constexpr":
        return Argument(type_, value)
    aligned = isinstance(value, int) and value % 16 == 0 and is_integer(type_)
    return Argument(type_, divisible=aligned and _specializes_alignment(parameter))


def argument_of_type(type_: Any, parameter: Parameter) -> Argument:
    """An argument of this type whose value is not known: pointers and integers are taken for multiples of 16."""
    return Argument(type_, divisible=(is_pointer(type_) or is_integer(type_)) and _specializes_alignment(parameter))


def _specializes_alignment(parameter: Parameter) -> bool:
    return not (parameter.do_not_specialize or parameter.do_not_specialize_on_alignment)


def argument_given(
    scalar: Scalar, parameter: Parameter, kind: ParameterKind, *, text: bool, dtype: bool
) -> Argument | Unknown:
    """What ``--bind`` or pyproject.toml says of a parameter.

    A string is a type for an argument of the launch, and for a constexpr a dtype, ``None`` or plain text: ``text`` and
    ``dtype`` tell that the kernel compares the constexpr with strings, or uses it as a dtype.
    """
    if scalar == "None":
        return Argument("constexpr", None)
    if kind.kind is Kind.CONSTEXPR:
        return Argument("constexpr", _constant(scalar, text=text, dtype=dtype))
    if isinstance(scalar, str):
        type_ = type_text(scalar)
        if type_ is None:
            example = "'*bf16'" if kind.kind is Kind.POINTER else "'i32'"
            return Unknown(
                f"'{scalar}' was given for {parameter.name}, and it is no type of Triton's, such as {example}"
            )
        return argument_of_type(type_, parameter)
    if kind.kind in (Kind.POINTER, Kind.DESCRIPTOR):
        return Unknown(
            f"{scalar} was given for {parameter.name}, which is a {kind.kind.value}; give a type such as '*bf16'"
        )
    return argument_of_value(scalar, parameter)


def _constant(scalar: Scalar, *, text: bool, dtype: bool) -> Value:
    if not isinstance(scalar, str):
        return scalar
    name = canonical_dtype(scalar)
    qualified = scalar.startswith(("tl.", "triton.language.", "torch."))
    if name is not None and (dtype or qualified or not text):
        return Dtype("i1" if name == "u1" else name)
    return scalar
