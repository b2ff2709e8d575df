"""``torch.autograd.Function``: the forward pass with a context, and the backward pass with what it saved."""

from __future__ import annotations

import contextlib
from typing import Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.values import Builtin, Call, External, Instance, Obstacle, Place, Raised, UserClass
from smemcheck.specialize.launches import torch_calls
from smemcheck.specialize.launches.tensors import Tensor


def is_autograd(cls: UserClass) -> bool:
    """Whether a class of the source is a ``torch.autograd.Function``."""
    return any(isinstance(base, External) and base.path.startswith("torch.autograd") for base in cls.ancestry())


def apply(interpreter: Interpreter, cls: Any, call: Call) -> Any:
    """``Function.apply``: the forward pass, and then the backward pass with gradients like the outputs."""
    if not isinstance(cls, UserClass):
        return call.unknown("an unknown autograd function is applied")
    context = Instance(External("torch.autograd.Context"))
    forward = cls.lookup("forward")
    try:
        setup = cls.lookup("setup_context")
    except KeyError:
        setup = None
    arguments = list(call.arguments) if setup is not None else [context, *call.arguments]
    result = interpreter.call(forward, arguments, call.keywords, call.place, call.open)
    if setup is not None:
        interpreter.call(setup, [context, tuple(call.arguments), result], {}, call.place)
    try:
        backward = cls.lookup("backward")
    except KeyError:
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    gradients: list[Any] = [
        torch_calls.like(o, geometry=torch_calls.contiguous(o.geometry)) if isinstance(o, Tensor) else None
        for o in outputs
    ]
    if isinstance(result, Obstacle):
        gradients = [result.again()]
    with contextlib.suppress(Raised):
        interpreter.call(backward, [context, *gradients], {}, call.place)
    return result


def context_attribute(value: Instance, name: str, place: Place) -> Any:
    if name == "save_for_backward":
        return Builtin(name, lambda call: value.attributes.__setitem__("saved_tensors", tuple(call.arguments)))
    if name in ("mark_non_differentiable", "set_materialize_grads", "mark_dirty"):
        return Builtin(name, lambda call: None)
    if name == "needs_input_grad":
        return Instance(External("torch.autograd.NeedsInputGrad"))
    if name == "saved_variables":
        return value.attributes.get("saved_tensors", Obstacle("no tensors were saved", place))
    return Obstacle(f"ctx.{name} is not known", place)
