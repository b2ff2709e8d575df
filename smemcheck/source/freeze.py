"""From the evaluator's values to the model's: immutable, hashable, without references to syntax."""

from __future__ import annotations

import os
from typing import Any

import libcst as cst

from smemcheck.model import (
    AttributeValue,
    Config,
    ConstexprValue,
    Dtype,
    FunctionValue,
    Unknown,
    Value,
)
from smemcheck.source.attributes import innermost_kernel
from smemcheck.source.interpreter import Interpreter, type_name
from smemcheck.source.values import (
    Blocked,
    ConfigValue,
    External,
    Instance,
    KernelValue,
    Obstacle,
    Place,
    UserClass,
)

_SHORT = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "int1": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float8e5": "fp8e5",
    "float8e5b16": "fp8e5b16",
    "float8e4nv": "fp8e4nv",
    "float8e4b8": "fp8e4b8",
    "float8e4b15": "fp8e4b15",
}


def triton_dtype(path: str) -> str | None:
    """Triton's short name of a ``tl`` dtype given by its path (triton/language/core.py, ``dtype.__init__``)."""
    return _SHORT.get(path.removeprefix("triton.language.")) if path.startswith("triton.language.") else None


def freeze(value: Any) -> Value | Unknown:
    """A value as part of the model; unknown, with the reason, when the model cannot hold it."""
    if isinstance(value, Obstacle):
        return value.to_unknown()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        parts = [freeze(v) for v in value]
        unknown = next((p for p in parts if isinstance(p, Unknown)), None)
        return unknown if unknown is not None else tuple(parts)  # type: ignore[arg-type]
    if isinstance(value, External):
        dtype = triton_dtype(value.path)
        return Dtype(dtype) if dtype is not None else AttributeValue(value.path)
    kernel = innermost_kernel(value)
    if isinstance(kernel, KernelValue):
        return FunctionValue(kernel.function.name)
    if isinstance(value, Instance):
        if value.cls == External("triton.language.constexpr"):
            inner = freeze(value.attributes["value"])
            return inner if isinstance(inner, Unknown) else ConstexprValue(inner)
        if (
            isinstance(value.cls, UserClass)
            and value.cls.kind == "enum"
            and isinstance(value.attributes.get("value"), (int, str))
        ):
            return value.attributes["value"]  # type: ignore[no-any-return]
    return Unknown(f"a {type_name(value)} cannot be a kernel's constant")


def freeze_config(interpreter: Interpreter, value: Any, place: Place) -> Config:
    """A ``triton.Config`` object as the model has it. Raises :class:`Blocked` when any part of it is not known."""
    if isinstance(value, Obstacle):
        raise Blocked(value)
    if not isinstance(value, ConfigValue):
        raise Blocked(Obstacle(f"the list of configs holds a {type_name(value)}", place))
    if not isinstance(value.kwargs, dict):
        raise Blocked(
            value.kwargs
            if isinstance(value.kwargs, Obstacle)
            else Obstacle(f"a Config's kwargs are a {type_name(value.kwargs)}", value.place)
        )
    kwargs = tuple((str(name), _known(part, value.place)) for name, part in value.kwargs.items())
    options: tuple[tuple[str, Value], ...] = ()
    if value.ir_override is not None:
        options = (("ir_override", _known(value.ir_override, value.place)),)
    return Config(
        kwargs,
        _integer(value.num_warps, "num_warps", value.place),
        _integer(value.num_stages, "num_stages", value.place),
        _integer(value.num_ctas if value.num_ctas is not None else 1, "num_ctas", value.place),
        None if value.maxnreg is None else _integer(value.maxnreg, "maxnreg", value.place),
        options,
        value.pre_hook is not None,
        value.place.position,
    )


def _known(value: Any, place: Place) -> Value:
    frozen = freeze(value)
    if isinstance(frozen, Unknown):
        raise Blocked(Obstacle(frozen.reason, frozen.position or place))
    return frozen


def _integer(value: Any, name: str, place: Place) -> int:
    if isinstance(value, Obstacle):
        raise Blocked(value)
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise Blocked(Obstacle(f"{name} of a Config is a {type_name(value)}", place))
    return value


def text(node: cst.CSTNode) -> str:
    """The source text of a node."""
    return cst.Module([]).code_for_node(node).strip()


def posix(path: str) -> str:
    """An absolute path with forward slashes."""
    return os.path.abspath(path).replace(os.sep, "/")


def dtype_path(name: str) -> str:
    """The path of the ``tl`` dtype with Triton's short name ``name``."""
    long = next((key for key, short in _SHORT.items() if short == name), name)
    return f"triton.language.{long}"
