"""Calling values: binding arguments, running bodies, making instances."""

from __future__ import annotations

from typing import Any

import libcst as cst

from smemcheck.source.interpreter import Interpreter, iterate, type_name
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    Builtin,
    Call,
    External,
    Frame,
    HeuristicsValue,
    Instance,
    KernelValue,
    Obstacle,
    Partial,
    Place,
    Raised,
    Silent,
    TunerValue,
    UserClass,
    UserFunction,
)


def arguments_of(
    interpreter: Interpreter, node: cst.Call, frame: Frame
) -> tuple[list[Any], dict[str, Any], Obstacle | None]:
    """The evaluated arguments of a call. The third part is set when ``*`` or ``**`` unpacks something unknown."""
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    open_: Obstacle | None = None
    for argument in node.args:
        value = interpreter.evaluate(argument.value, frame)
        if argument.star == "*":
            place = Place(frame.unit, argument)
            elements = iterate(interpreter, value, place)
            if isinstance(elements, Obstacle):
                open_ = open_ or elements
            else:
                arguments.extend(elements)
        elif argument.star == "**":
            if isinstance(value, dict) and all(isinstance(k, str) for k in value):
                keywords.update(value)
            else:
                place = Place(frame.unit, argument)
                open_ = open_ or (
                    value if isinstance(value, Obstacle) else Obstacle("what ** unpacks is not a known dict", place)
                )
        elif argument.keyword is not None:
            keywords[argument.keyword.value] = value
        else:
            arguments.append(value)
    return arguments, keywords, open_


def call_value(interpreter: Interpreter, function: Any, call: Call) -> Any:
    """Call any value. Raises :class:`Raised`, :class:`Blocked`."""
    interpreter.step(call.place)
    if isinstance(function, Builtin):
        try:
            return function.function(call)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return call.unknown(f"{function.name}() is called in a way that is not modelled")
    if isinstance(function, UserFunction):
        return call_function(interpreter, function, call)
    if isinstance(function, BoundMethod):
        return call_value(
            interpreter,
            function.function,
            Call(interpreter, [function.instance, *call.arguments], call.keywords, call.place, call.open),
        )
    if isinstance(function, Partial):
        return call_value(
            interpreter,
            function.function,
            Call(
                interpreter,
                [*function.arguments, *call.arguments],
                {**function.keywords, **call.keywords},
                call.place,
                call.open,
            ),
        )
    if isinstance(function, UserClass):
        return instantiate(interpreter, function, call)
    if isinstance(function, External):
        return interpreter.project.models.call(interpreter, function, call)
    if isinstance(function, Silent):
        return function
    if isinstance(function, Obstacle):
        interpreter.may_raise("a call of something unknown", call.place)
        return function.again()
    if isinstance(function, Instance) and isinstance(function.cls, UserClass):
        try:
            method = function.cls.lookup("__call__")
        except KeyError:
            raise Raised("TypeError", f"'{type_name(function)}' object is not callable", place=call.place) from None
        return call_value(interpreter, BoundMethod(method, function), call)
    if isinstance(function, Instance):
        return interpreter.project.models.call_instance(interpreter, function, call)
    if isinstance(function, (KernelValue, HeuristicsValue, TunerValue)):
        return _call_kernel(interpreter, function, call)
    raise Raised("TypeError", f"'{type_name(function)}' object is not callable", place=call.place)


def _call_kernel(interpreter: Interpreter, function: Any, call: Call) -> Any:
    if isinstance(function, KernelValue) and function.kind == "constexpr_function":
        return call_function(interpreter, function.function, call)
    return call.unknown("the result of calling a kernel is not known")


def call_function(interpreter: Interpreter, function: UserFunction, call: Call) -> Any:
    """Run a user's function in the evaluator; the value it returns, or the list of what it yields."""
    if interpreter.depth >= interpreter.limits.depth:
        raise Blocked(Obstacle(f"calls are nested more than {interpreter.limits.depth} deep", call.place))
    if isinstance(function.node, cst.Lambda):
        frame = Frame(function.unit, function.module, {}, function.parent, function=function)
        bind_parameters(interpreter, function.node.params, function, call, frame)
        interpreter.depth += 1
        try:
            return interpreter.evaluate(function.node.body, frame)
        finally:
            interpreter.depth -= 1
    if function.node.asynchronous is not None:
        return call.unknown("asynchronous functions are not evaluated")
    unit, node = function.full()
    frame = Frame(unit, function.module, {}, function.parent, function=function)
    bind_parameters(interpreter, node.params, function, call, frame)
    frame.first_argument = call.arguments[0] if call.arguments else None
    from smemcheck.source.statements import RETURN, execute_block, is_generator

    interpreter.depth += 1
    try:
        signal = execute_block(interpreter, node.body, frame)
    finally:
        interpreter.depth -= 1
    if "<yielded>" in frame.locals or is_generator(unit, node):
        return frame.locals.get("<yielded>", [])
    return signal[1] if signal is not None and signal[0] == RETURN else None


def bind_parameters(
    interpreter: Interpreter, parameters: cst.Parameters, function: UserFunction, call: Call, frame: Frame
) -> None:
    """Bind a call's arguments as Python does. Raises ``TypeError`` of the program."""
    positional = [*parameters.posonly_params, *parameters.params]
    names = [p.name.value for p in positional]
    keyword_only = [p.name.value for p in parameters.kwonly_params]
    keywords = dict(call.keywords)
    bound = dict(zip(names, call.arguments, strict=False))
    extra = call.arguments[len(names) :]
    if isinstance(parameters.star_arg, cst.Param):
        rest: Any = tuple(extra)
        frame.locals[parameters.star_arg.name.value] = call.open.again() if call.open is not None else rest
    elif extra:
        raise Raised(
            "TypeError",
            f"{function.name}() takes {len(names)} positional arguments but {len(call.arguments)} were given",
            place=call.place,
        )
    for name in [*names[len(parameters.posonly_params) :], *keyword_only]:
        if name in keywords:
            if name in bound:
                raise Raised(
                    "TypeError", f"{function.name}() got multiple values for argument '{name}'", place=call.place
                )
            bound[name] = keywords.pop(name)
    if parameters.star_kwarg is not None:
        frame.locals[parameters.star_kwarg.name.value] = call.open.again() if call.open is not None else keywords
    elif keywords:
        raise Raised(
            "TypeError",
            f"{function.name}() got an unexpected keyword argument '{next(iter(keywords))}'",
            place=call.place,
        )
    for name in [*names, *keyword_only]:
        if name in bound:
            frame.locals[name] = bound[name]
        elif call.open is not None:
            frame.locals[name] = call.open.again()
        elif name in function.defaults:
            frame.locals[name] = function.defaults[name]
        else:
            raise Raised("TypeError", f"{function.name}() missing required argument: '{name}'", place=call.place)


def defaults_of(interpreter: Interpreter, parameters: cst.Parameters, frame: Frame) -> dict[str, Any]:
    """The default values, evaluated once when the function is made, as Python does."""
    every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
    return {p.name.value: interpreter.evaluate(p.default, frame) for p in every if p.default is not None}


def make_lambda(interpreter: Interpreter, node: cst.Lambda, frame: Frame) -> UserFunction:
    """A lambda as a value."""
    parent = None if frame.kind == "module" else frame
    return UserFunction(
        "<lambda>", node, frame.unit, frame.module, parent, defaults_of(interpreter, node.params, frame)
    )


def make_super(frame: Frame, place: Place) -> Any:
    """``super()`` inside a method: looks attributes up behind the class that defines the method."""
    current: Frame | None = frame
    while current is not None and (current.function is None or current.function.owner is None):
        current = current.parent
    if current is None or current.function is None or current.function.owner is None:
        return Obstacle("super() outside a method", place)
    return Instance(External("builtins.super"), {"<owner>": current.function.owner, "<self>": current.first_argument})


def instantiate(interpreter: Interpreter, cls: UserClass, call: Call) -> Any:
    """Make an instance of a user's class, or look a member up in an enum."""
    if cls.kind == "enum":
        return _enum_lookup(interpreter, cls, call)
    for base in cls.ancestry():
        if isinstance(base, Obstacle):
            return Obstacle(f"class {cls.name} inherits from something unknown", call.place)
    instance = Instance(cls)
    try:
        initializer = cls.lookup("__init__")
    except KeyError:
        if cls.kind == "dataclass":
            return _make_dataclass(interpreter, cls, instance, call)
        for base in cls.ancestry():
            if isinstance(base, External) and base.path not in ("builtins.object", "object"):
                made = interpreter.project.models.construct(interpreter, instance, base, call)
                if made is not None:
                    return made
        if call.arguments or call.keywords:
            raise Raised("TypeError", f"{cls.name}() takes no arguments", place=call.place) from None
        return instance
    call_value(interpreter, BoundMethod(initializer, instance), call)
    _notice_tuner(interpreter, instance, call)
    return instance


def _notice_tuner(interpreter: Interpreter, instance: Instance, call: Call) -> None:
    """An object that holds a kernel and a list of configs is a tuner, whatever its class is called."""
    from smemcheck.source.attributes import innermost_kernel

    kernel, configs = instance.attributes.get("fn"), instance.attributes.get("configs")
    if (
        isinstance(configs, list)
        and isinstance(innermost_kernel(kernel), KernelValue)
        and not any(tuner.instance is instance for tuner in interpreter.tuners)
    ):
        interpreter.tuners.append(TunerValue(kernel, instance.attributes, call.place, instance))


def dataclass_fields(cls: UserClass) -> list[str]:
    """The fields of a dataclass, inherited ones first. Raises nothing."""
    fields: list[str] = []
    for ancestor in reversed(cls.ancestry()):
        if isinstance(ancestor, UserClass) and ancestor.kind == "dataclass":
            fields.extend(name for name in ancestor.annotations if name not in fields)
    return fields


def _make_dataclass(interpreter: Interpreter, cls: UserClass, instance: Instance, call: Call) -> Any:
    fields = dataclass_fields(cls)
    if len(call.arguments) > len(fields):
        raise Raised("TypeError", f"{cls.name}() takes {len(fields)} arguments", place=call.place)
    given = dict(zip(fields, call.arguments, strict=False))
    for name, value in call.keywords.items():
        if name not in fields:
            raise Raised("TypeError", f"{cls.name}() got an unexpected keyword argument '{name}'", place=call.place)
        given[name] = value
    for name in fields:
        if name in given:
            instance.attributes[name] = given[name]
            continue
        if call.open is not None:
            instance.attributes[name] = call.open.again()
            continue
        try:
            default = cls.lookup(name)
        except KeyError:
            raise Raised("TypeError", f"{cls.name}() missing required argument: '{name}'", place=call.place) from None
        if isinstance(default, Instance) and default.cls == External("dataclasses.Field"):
            factory = default.attributes.get("default_factory")
            default = (
                interpreter.call(factory, [], {}, call.place) if factory is not None else default.attributes["default"]
            )
        instance.attributes[name] = default
    try:
        after = cls.lookup("__post_init__")
    except KeyError:
        return instance
    interpreter.call(BoundMethod(after, instance), [], {}, call.place)
    return instance


def _enum_lookup(interpreter: Interpreter, cls: UserClass, call: Call) -> Any:
    from smemcheck.source.operations import equal

    wanted = call.argument(0, "value")
    if isinstance(wanted, Obstacle):
        return wanted.again()
    for member in cls.namespace.values():
        if isinstance(member, Instance) and member.cls is cls:
            if member is wanted:
                return member
            same = equal(interpreter, member.attributes.get("value"), wanted, call.place)
            if isinstance(same, Obstacle):
                return same
            if same:
                return member
    raise Raised("ValueError", f"{wanted!r} is not a valid {cls.name}", place=call.place)
