"""Which values are the same for every question, and how those are kept that a run could change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from smemcheck.source.values import (
    Builtin,
    ConfigValue,
    Deferred,
    External,
    HeuristicsValue,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Silent,
    TunerValue,
    UserClass,
    UserFunction,
)


@dataclass(frozen=True, slots=True)
class Fresh:
    """A container that a statement makes anew whenever it is run, always with the same unchanging elements."""

    cls: type
    elements: tuple[Any, ...]

    def again(self) -> Any:
        """One more, as running the statement would make it."""
        made: Any = self.cls(self.elements)
        return made


@dataclass(frozen=True, slots=True)
class Kept:
    """What a statement bound, and what running it told of the world."""

    names: dict[str, Any]
    consulted_target: bool
    notes: tuple[str, ...]


def is_same(left: Any, right: Any) -> bool:
    """Whether two unchanging values are the same to every question: equal data of the same type, or one object."""
    if left is right:
        return True
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, (bool, int, float, str, bytes, frozenset, External, Silent, Deferred)):
        return type(left) is type(right) and bool(left == right)
    if isinstance(left, ModuleValue) and isinstance(right, ModuleValue):
        return left.module is right.module
    if isinstance(left, Builtin) and isinstance(right, Builtin):
        return left.function is right.function
    return isinstance(left, Obstacle) and isinstance(right, Obstacle) and left.reason == right.reason


def keeps_state(function: UserFunction) -> bool:
    """Whether one call of a function can change what the next one gives: mutable defaults, ``nonlocal``."""
    if function.parent is not None and "nonlocal " in function.unit.text:
        return True
    return any(isinstance(default, (list, dict, set)) for default in function.defaults.values())


def cannot_change(value: Any) -> bool:
    """Whether a value is the same for every question: immutable, or a definition at a module's top level."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(cannot_change, value))
    if isinstance(value, UserFunction):
        return value.parent is None and not value.attributes and all(map(cannot_change, value.defaults.values()))
    if isinstance(value, UserClass):
        return all(map(cannot_change, value.bases)) and all(
            cannot_change(v)
            or (isinstance(v, UserFunction) and all(map(cannot_change, v.defaults.values())))
            or _is_member(v, value)
            for v in value.namespace.values()
        )
    if isinstance(value, KernelValue):
        return cannot_change(value.function)
    if isinstance(value, Builtin):
        return not _holds_object(value)
    return value is None or isinstance(
        value, (bool, int, float, str, bytes, External, ModuleValue, Silent, Obstacle, Deferred)
    )


def _is_member(value: Any, cls: UserClass) -> bool:
    return cls.kind == "enum" and isinstance(value, Instance) and value.cls is cls


def _holds_object(builtin: Builtin) -> bool:
    """Whether a modelled callable is a method of an object that can change, as ``append`` of a list is."""
    function = builtin.function
    cells = (function.__closure__ or ()) if isinstance(function, FunctionType) else ()
    return any(isinstance(cell.cell_contents, (list, dict, set, Instance, ConfigValue, TunerValue)) for cell in cells)


def attributes_in(value: Any) -> Iterator[dict[str, Any]]:
    """The attributes of definitions in an unchanging value. They alone of it can be set."""
    if isinstance(value, (tuple, frozenset)):
        for part in value:
            yield from attributes_in(part)
    elif isinstance(value, UserFunction):
        yield value.attributes
        for default in value.defaults.values():
            yield from attributes_in(default)
    elif isinstance(value, UserClass):
        yield value.namespace
        for part in value.namespace.values():
            if _is_member(part, value):
                yield part.attributes
            else:
                yield from attributes_in(part)
    elif isinstance(value, KernelValue):
        yield from attributes_in(value.function)
    elif isinstance(value, (TunerValue, HeuristicsValue)):
        yield from attributes_in(value.kernel)


def own(value: Any, made: dict[int, tuple[Any, Any]]) -> Any:
    """A run's own tuner in place of a remembered one, with lists and configs of its own, since a run may change those.

    ``made`` has what was copied for the run, with the original, by the original's identity: one object stays one.
    """
    if not isinstance(value, (TunerValue, HeuristicsValue, ConfigValue, list, dict)):
        return value
    known = made.get(id(value))
    if known is not None:
        return known[1]
    copy: Any
    if isinstance(value, TunerValue):
        copy = replace(value, kernel=own(value.kernel, made), attributes=own(value.attributes, made))
    elif isinstance(value, HeuristicsValue):
        copy = replace(value, kernel=own(value.kernel, made), values=own(value.values, made))
    elif isinstance(value, ConfigValue):
        copy = replace(value, kwargs=own(value.kwargs, made))
    elif type(value) is dict:
        copy = {name: own(part, made) for name, part in value.items()}
    else:
        copy = [own(part, made) for part in value] if type(value) is list else value
    made[id(value)] = value, copy
    return copy
