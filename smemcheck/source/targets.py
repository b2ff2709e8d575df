"""Assignment: what a value is bound to."""

from __future__ import annotations

from typing import Any

import libcst as cst

from smemcheck.source.interpreter import Interpreter, iterate, type_name
from smemcheck.source.operations import is_hashable
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    ConfigValue,
    External,
    Frame,
    HeuristicsValue,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Place,
    Raised,
    Silent,
    TunerValue,
    UserClass,
    UserFunction,
)


def assign_target(interpreter: Interpreter, target: cst.BaseExpression, value: Any, frame: Frame) -> None:
    """Bind ``value`` to ``target`` in ``frame``. Raises :class:`Blocked` when what would change cannot be told."""
    if type(target) is cst.Name:  # by isinstance(), which asks libcst's abstract classes, it takes ten times as long
        bind_name(interpreter, frame, target.value, value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(interpreter, target, value, frame)
    elif isinstance(target, cst.StarredElement):
        assign_target(interpreter, target.value, value, frame)
    elif isinstance(target, cst.Attribute):
        set_attribute(
            interpreter, interpreter.evaluate(target.value, frame), target.attr.value, value, Place(frame.unit, target)
        )
    elif isinstance(target, cst.Subscript):
        from smemcheck.source.expressions import subscript_key

        container = interpreter.evaluate(target.value, frame)
        key = subscript_key(interpreter, target, frame)
        set_item(interpreter, container, key, value, Place(frame.unit, target))
    else:
        raise Blocked(Obstacle(f"assigning to {type(target).__name__} is not modelled", Place(frame.unit, target)))


def bind_name(interpreter: Interpreter, frame: Frame, name: str, value: Any) -> None:
    """Bind a name where Python would: in the frame, its module (``global``) or an enclosing function (``nonlocal``)."""
    owner = frame
    if name in frame.globals_declared:
        interpreter.namespace(frame.module).set(name, value)
        return
    if name in frame.nonlocals_declared:
        owner = frame.parent or frame
        while owner.parent is not None and name not in owner.locals:
            owner = owner.parent
    owner.locals[name] = value


def _unpack(interpreter: Interpreter, target: cst.Tuple | cst.List, value: Any, frame: Frame) -> None:
    place = Place(frame.unit, target)
    elements = iterate(interpreter, value, place)
    targets = [element.value for element in target.elements]
    if isinstance(elements, Obstacle):
        for index, one in enumerate(targets):
            assign_target(interpreter, one, interpreter.derive(elements, "unpack", index), frame)
        return
    values = list(elements)
    starred = [i for i, element in enumerate(target.elements) if isinstance(element, cst.StarredElement)]
    if starred:
        before, after = starred[0], len(targets) - starred[0] - 1
        if len(values) < before + after:
            raise Raised("ValueError", "not enough values to unpack", place=place)
        middle = values[before : len(values) - after]
        values = [*values[:before], middle, *values[len(values) - after :]]
    if len(values) != len(targets):
        problem = "too many" if len(values) > len(targets) else "not enough"
        raise Raised("ValueError", f"{problem} values to unpack", place=place)
    for one, element in zip(targets, values, strict=True):
        assign_target(interpreter, one, element, frame)


def set_attribute(interpreter: Interpreter, owner: Any, name: str, value: Any, place: Place) -> None:
    """``owner.name = value``."""
    if isinstance(owner, Instance):
        if isinstance(owner.cls, UserClass):
            try:
                method = owner.cls.lookup("__setattr__")
            except KeyError:
                pass
            else:
                interpreter.call(BoundMethod(method, owner), [name, value], {}, place)
                return
        interpreter.set_attribute(owner.attributes, name, value)
    elif isinstance(owner, ConfigValue):
        if name not in ConfigValue.__slots__:
            return
        setattr(owner, name, value)
    elif isinstance(owner, TunerValue):
        owner.attributes[name] = value
    elif isinstance(owner, UserClass):
        interpreter.set_attribute(owner.namespace, name, value)
    elif isinstance(owner, UserFunction):
        interpreter.set_attribute(owner.attributes, name, value)
    elif isinstance(owner, ModuleValue):
        interpreter.namespace(owner.module).set(name, value)
    elif isinstance(owner, Obstacle):
        return  # an unknown object is taken to be none of the known ones
    elif isinstance(owner, (External, Silent, KernelValue, HeuristicsValue)):
        interpreter.patched[(getattr(owner, "path", type_name(owner)), name)] = value
    else:
        raise Raised("AttributeError", f"'{type_name(owner)}' object has no attribute '{name}'", place=place)


def set_item(interpreter: Interpreter, container: Any, key: Any, value: Any, place: Place) -> None:
    """``container[key] = value``."""
    if isinstance(container, dict):
        if isinstance(key, Obstacle) or not is_hashable(key):
            obstacle = key if isinstance(key, Obstacle) else Obstacle("a dict is given a key that is not known", place)
            raise Blocked(Obstacle(f"a dict is given an unknown key: {obstacle.reason}", obstacle.place))
        container[key] = value
        interpreter.check_size(len(container), place)
    elif isinstance(container, list):
        if isinstance(key, Obstacle):
            raise Blocked(Obstacle(f"a list is changed at an unknown index: {key.reason}", key.place))
        try:
            container[key] = value
        except (IndexError, TypeError, ValueError) as error:
            raise Raised(type(error).__name__, str(error), place=place) from None
    elif isinstance(container, Instance) and isinstance(container.cls, UserClass):
        try:
            method = container.cls.lookup("__setitem__")
        except KeyError:
            raise Raised(
                "TypeError", f"'{type_name(container)}' does not support item assignment", place=place
            ) from None
        interpreter.call(BoundMethod(method, container), [key, value], {}, place)
    elif isinstance(container, (External, Silent, Obstacle, Instance)):
        return  # an unknown object is taken to be none of the known ones
    else:
        raise Raised("TypeError", f"'{type_name(container)}' does not support item assignment", place=place)
