"""How an example run starts: a function is called, an object is made and used, and what that returns is used in turn.

Libraries of quantised layers are used in steps: an object that knows the format makes a layer of weights, and a call of the
layer launches the kernels. So a module that a function or method returns is called with an example input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from smemcheck.source.values import Blocked, BoundMethod, Call, Instance, Raised, UserClass, UserFunction
from smemcheck.specialize.launches.autograd import apply, is_autograd
from smemcheck.specialize.launches.engine import ExampleInterpreter
from smemcheck.specialize.launches.entries import Entry
from smemcheck.specialize.launches.examples import example_arguments
from smemcheck.specialize.launches.tensors import Geometry, Tensor
from smemcheck.specialize.launches.torch_modules import forward_of, is_module


def start(interpreter: ExampleInterpreter, entry: Entry) -> None:
    """Run an entry with example arguments; a class by applying it, or by calling the methods of an object of it."""
    namespace = interpreter.namespace(entry.module)
    value = namespace.lookup(entry.statement.defined_name or "")
    if isinstance(value, UserFunction):
        arguments, keywords = example_arguments(interpreter, value)
        _use(interpreter, interpreter.call(value, arguments, keywords, value.place), set())
    elif isinstance(value, UserClass) and is_autograd(value):
        forward = value.lookup("forward")
        if isinstance(forward, UserFunction):
            arguments, keywords = example_arguments(interpreter, forward, skip=1)
            apply(interpreter, value, Call(interpreter, arguments, keywords, forward.place))
    elif isinstance(value, UserClass):
        _call_methods(interpreter, value)


def _call_methods(interpreter: ExampleInterpreter, cls: UserClass) -> None:
    """Call every public method. One that raises leaves the others; it counts where nothing is launched."""
    instance = _object(interpreter, cls)
    used = {id(instance)}
    raised: Raised | None = None
    for function in _methods(cls):
        if interpreter.case and function.name not in interpreter.case:
            continue
        first = [] if function.qualifier == "staticmethod" else [cls if function.qualifier else instance]
        arguments, keywords = example_arguments(interpreter, function, skip=len(first))
        if is_module(instance) and function.name in ("forward", "__call__"):
            _fit_input(interpreter, instance, arguments)
        try:
            result = interpreter.call(function, [*first, *arguments], keywords, function.place)
            _use(interpreter, result, used)
        except Raised as exception:
            raised = raised or exception
    if raised is not None and not interpreter.launches:
        raise raised


def _methods(cls: UserClass) -> Iterator[UserFunction]:
    """The methods that users call, the class's own first, then those that it inherits from classes of the source."""
    seen: set[str] = set()
    for ancestor in cls.ancestry():
        if not isinstance(ancestor, UserClass):
            continue
        for name, function in list(ancestor.namespace.items()):
            if isinstance(function, UserFunction) and name not in seen:
                seen.add(name)
                if (not name.startswith("_") or name == "__call__") and function.qualifier not in (
                    "property",
                    "cached_property",
                ):
                    yield function


def _object(interpreter: ExampleInterpreter, cls: UserClass) -> Instance:
    """An object as ``__init__`` makes it from example arguments; one without attributes when that raises."""
    instance = Instance(cls)
    initializer = cls.find("__init__")
    if isinstance(initializer, UserFunction):
        arguments, keywords = example_arguments(interpreter, initializer, skip=1)
        with contextlib.suppress(Raised, Blocked):
            interpreter.call(initializer, [instance, *arguments], keywords, initializer.place)
    return instance


def _use(interpreter: ExampleInterpreter, made: Any, used: set[int]) -> None:
    """Call a module that was returned, once; ``used`` are the objects that were called."""
    if not isinstance(made, Instance) or isinstance(made, Tensor) or not is_module(made) or id(made) in used:
        return
    used.add(id(made))
    forward = forward_of(made)
    bound = forward.function if isinstance(forward, BoundMethod) else forward
    if not isinstance(bound, UserFunction):
        return
    arguments, keywords = example_arguments(interpreter, bound, skip=1)
    _fit_input(interpreter, made, arguments)
    interpreter.call(bound, [made, *arguments], keywords, bound.place)


def _fit_input(interpreter: ExampleInterpreter, module: Instance, arguments: list[Any]) -> None:
    """Give the first input of a layer as many features as the layer takes."""
    features = module.attributes.get("in_features")
    first = arguments[0] if arguments else None
    if isinstance(first, Tensor) and isinstance(features, int) and first.geometry.dims is None:
        sizes = interpreter.plan.sizes
        first.geometry = Geometry(sizes, [sizes.sequence, features])
