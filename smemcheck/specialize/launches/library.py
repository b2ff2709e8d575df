"""What lies outside the source, as an example run sees it: torch's functions make example tensors, decorators do nothing."""

from __future__ import annotations

import copy
import re
from typing import Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.models import Models
from smemcheck.source.project import Project
from smemcheck.source.values import (
    BoundMethod,
    Builtin,
    Call,
    External,
    Instance,
    Obstacle,
    Partial,
    Place,
    UserClass,
    UserFunction,
)
from smemcheck.specialize.launches import torch_calls, torch_functions, torch_modules
from smemcheck.specialize.launches.autograd import context_attribute
from smemcheck.specialize.launches.engine import ExampleInterpreter
from smemcheck.specialize.launches.tensors import DESCRIPTOR, Shape, Tensor, shape_of

_MAKES_KERNELS = re.compile(r"(?<!torch\.)jit|tun|heuristic|compile_kernel", re.IGNORECASE)


class ExampleModels(Models):
    """What the evaluator knows of everything outside the source, with torch's functions on example tensors."""

    def __init__(self, models: Models) -> None:
        self.triton = models.triton

    def call(self, interpreter: Interpreter, function: External, call: Call) -> Any:
        path = self.canonical(function.path)
        if isinstance(interpreter, ExampleInterpreter):
            if path == "torch.autograd.Context":
                return call.unknown("a context is called")
            if path in ("triton.cdiv", "triton.next_power_of_2") and isinstance(call.argument(0, "x"), Tensor):
                return call.argument(0, "x")
            if path in (DESCRIPTOR.path, f"{DESCRIPTOR.path}.from_tensor"):
                return _descriptor(path, call)
            if path.startswith(("torch.", "einops.")):
                result = torch_functions.function(path, call, interpreter.plan.sizes)
                if result is not None:
                    return result
        return super().call(interpreter, function, call)

    def instance_attribute(self, interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
        if isinstance(value, Tensor):
            return torch_calls.attribute(value, name)
        if isinstance(value, Shape) and name == "numel":
            return Builtin("numel", lambda call: torch_calls.method(value.of, "numel", call))
        if value.cls == torch_modules.LINEAR:
            return torch_modules.layer_attribute(value, name, place)
        if value.cls == External("torch.device"):
            return Obstacle(f"{name} of a device is not known", place)
        if value.cls == External("torch.autograd.Context"):
            return context_attribute(value, name, place)
        return super().instance_attribute(interpreter, value, name, place)

    def inherited(self, interpreter: Interpreter, instance: Any, base: External, name: str, place: Place) -> Any:
        if base.path.startswith("torch.nn.") and isinstance(instance, Instance) and name != "__init__":
            found = torch_modules.inherited(instance, name)
            if found is not None:
                return found
        return super().inherited(interpreter, instance, base, name, place)

    def decorate(self, interpreter: Interpreter, wrapper: Any, function: Any, place: Place) -> Any:
        """Decorators that make no kernel leave a function as it is: they check, cache, dispatch or make inputs contiguous."""
        if isinstance(function, UserFunction) and isinstance(
            wrapper, (UserFunction, BoundMethod, Partial, Obstacle, UserClass, External)
        ):
            text = function.statement.decorator_text if function.statement is not None else ""
            if not _MAKES_KERNELS.search(text) and not (isinstance(wrapper, External) and "triton" in wrapper.path):
                return (
                    super().decorate(interpreter, wrapper, function, place)
                    if isinstance(wrapper, External) and (wrapper.path.startswith(("builtins.", "functools.")))
                    else function
                )
        if isinstance(function, UserClass) and isinstance(wrapper, Obstacle):
            return function
        return super().decorate(interpreter, wrapper, function, place)


def _descriptor(path: str, call: Call) -> Instance:
    """A host-side descriptor (triton/tools/tensor_descriptor.py): its tensor and the shape of the blocks it loads."""
    whole = path == DESCRIPTOR.path
    names = ("base", "shape", "strides", "block_shape") if whole else ("base", "block_shape")
    given = {
        name: call.argument(index, "tensor" if name == "base" and not whole else name)
        for index, name in enumerate(names)
    }
    if not whole and isinstance(given["base"], Tensor):
        given |= {"shape": shape_of(given["base"]), "strides": given["base"].geometry.all_strides()}
    return Instance(DESCRIPTOR, given)


def example_project(project: Project) -> Project:
    """The same files, seen with example tensors."""
    view = copy.copy(project)
    view.models = ExampleModels(project.models)
    return view
