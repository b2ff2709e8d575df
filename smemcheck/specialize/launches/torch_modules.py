"""Objects of ``torch.nn.Module`` as launch code sees them: buffers and parameters are attributes, a call is ``forward``."""

from __future__ import annotations

from typing import Any

from smemcheck.source.values import Builtin, Call, External, Instance, Place, Raised, UserClass, UserFunction
from smemcheck.specialize.launches.tensors import Geometry, Tensor, dtype_of, tensor

LINEAR = External("torch.nn.Linear")
_THEMSELVES = frozenset(
    {"to", "cuda", "cpu", "half", "float", "bfloat16", "eval", "train", "requires_grad_", "apply", "to_empty"}
)
_REGISTERS = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
_TABLES = frozenset({"_buffers", "_parameters", "_modules"})


def is_module(value: Any) -> bool:
    """Whether a value is an object of a class of the source that is a ``torch.nn.Module``."""
    return (
        isinstance(value, Instance)
        and isinstance(value.cls, UserClass)
        and any(isinstance(base, External) and base.path.startswith("torch.nn.") for base in value.cls.ancestry())
    )


def forward_of(value: Instance) -> Any:
    """What a call of an object runs: its ``__call__``, a module's ``forward``; ``None`` where it has neither."""
    own = value.attributes.get("forward")
    if own is not None and is_module(value):
        return own
    if not isinstance(value.cls, UserClass):
        return None
    found = value.cls.find("__call__") or (value.cls.find("forward") if is_module(value) else None)
    return found if isinstance(found, UserFunction) else None


def inherited(value: Instance, name: str) -> Any:
    """What an object inherits from ``torch.nn.Module``; ``None`` where that is not modelled."""
    return value.attributes if name in _TABLES else _shared(value, name)  # so that what is taken out of a table is gone


def _shared(value: Instance, name: str) -> Any:
    """What the source's modules and torch's own layers alike inherit; ``None`` where that is not modelled."""
    if name in _REGISTERS:
        return Builtin(name, lambda call: _register(value, call))
    if name in _THEMSELVES:
        return Builtin(name, lambda call: value)
    return True if name == "training" else None


def _register(value: Instance, call: Call) -> None:
    name, registered = call.argument(0, "name"), call.argument(1, "tensor", call.keywords.get("param"))
    if isinstance(name, str):
        value.attributes[name] = registered


def linear(call: Call) -> Instance | None:
    """``torch.nn.Linear(…)``; ``None`` where its sizes are not known."""
    inputs, outputs = call.argument(0, "in_features"), call.argument(1, "out_features")
    if not isinstance(inputs, int) or not isinstance(outputs, int):
        return None
    dtype = dtype_of(call.argument(4, "dtype")) or External("torch.float32")
    sizes = call.interpreter.plan.sizes  # type: ignore[attr-defined]
    bias = call.argument(2, "bias", True)
    weight = tensor(dtype, Geometry(sizes, [outputs, inputs]))
    return layer(weight, None if bias is False else tensor(dtype, Geometry(sizes, [outputs])))


def layer(weight: Tensor, bias: Tensor | None) -> Instance:
    """A linear layer of these weights."""
    outputs, inputs = weight.geometry.settled()
    return Instance(LINEAR, {"weight": weight, "bias": bias, "in_features": inputs, "out_features": outputs})


def layer_attribute(value: Instance, name: str, place: Place) -> Any:
    """An attribute of a layer of torch's own. Raises ``AttributeError`` of the program for what it has not."""
    found = _shared(value, name)
    if found is not None:
        return found
    raise Raised("AttributeError", f"'Linear' object has no attribute '{name}'", place=place)
