"""Autograd: the forward pass with a context, and the backward pass with what it saved; classes and custom operators."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import libcst as cst

from smemcheck.source.calls import arguments_of
from smemcheck.source.interpreter import Interpreter
from smemcheck.source.module import Unit
from smemcheck.source.values import (
    Builtin,
    Call,
    External,
    Frame,
    Instance,
    Obstacle,
    Place,
    Raised,
    UserClass,
    UserFunction,
)
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
    _backward(interpreter, cls.find("backward"), context, result, call.place)
    return result


def _backward(interpreter: Interpreter, backward: Any, context: Instance, result: Any, place: Place) -> None:
    """Call a backward pass with gradients like the outputs of the forward pass."""
    outputs = result if isinstance(result, tuple) else (result,)
    gradients: list[Any] = [
        torch_calls.like(o, geometry=torch_calls.contiguous(o.geometry)) if isinstance(o, Tensor) else None
        for o in outputs
    ]
    if isinstance(result, Obstacle):
        gradients = [result.again()]
    if backward is not None:
        with contextlib.suppress(Raised):
            interpreter.call(backward, [context, *gradients], {}, place)


def registered_backward(
    interpreter: Interpreter,
    function: UserFunction,
    arguments: list[Any],
    keywords: dict[str, Any],
    result: Any,
    place: Place,
) -> None:
    """The backward pass that ``register_autograd`` gives a custom operator of the same file, after a call of it."""
    found = _registration(function)
    if found is None:
        return
    unit, node = found
    given, named, _ = arguments_of(interpreter, node, Frame(unit, function.module, {}, None, "module"))
    backward = named.get("backward", given[-1] if given else None)
    setup = named.get("setup_context")
    context = Instance(External("torch.autograd.Context"))
    parameters = function.node.params
    names = [p.name.value for p in (*parameters.posonly_params, *parameters.params)][len(arguments) :]
    inputs = [*arguments, *(keywords.get(name, function.defaults.get(name)) for name in names)]
    if setup is not None:
        interpreter.call(setup, [context, tuple(inputs), result], {}, place)
    _backward(interpreter, backward, context, result, place)


def _registration(function: UserFunction) -> tuple[Unit, cst.Call] | None:
    """The call ``op.register_autograd(…)`` or ``torch.library.register_autograd("name", …)`` for an operator."""
    statement, module = function.statement, function.module
    if statement is None or not statement.decorated or not module.mentioning("register_autograd"):
        return None
    operator = re.search(r"custom_op\(\s*(['\"][^'\"]+['\"])", statement.decorator_text)
    for index in module.mentioning("register_autograd"):
        text = module.statements[index].text
        named = operator is not None and operator[1] in text
        if not named and not text.startswith(f"{function.name}.register_autograd("):
            continue
        unit = module.statements[index].unit
        line = unit.tree.body[0]
        expression = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if isinstance(expression, cst.Expr) and isinstance(expression.value, cst.Call):
            return unit, expression.value
    return None


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
