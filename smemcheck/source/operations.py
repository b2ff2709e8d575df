"""Operators, truth, equality and subscripts on values that may be partly unknown."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import libcst as cst

from smemcheck.source.interpreter import Interpreter, type_name
from smemcheck.source.values import (
    BoundMethod,
    Builtin,
    ConfigValue,
    DefaultDict,
    External,
    HeuristicsValue,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Partial,
    Place,
    Raised,
    Silent,
    TunerValue,
    UserClass,
    UserFunction,
    first_obstacle,
)

_ALWAYS_TRUE = (
    UserFunction,
    UserClass,
    ModuleValue,
    BoundMethod,
    Partial,
    Builtin,
    KernelValue,
    TunerValue,
    ConfigValue,
    HeuristicsValue,
)
MUTATING = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)  # methods that change their object in place
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

BINARY: dict[type[cst.CSTNode], tuple[str, Callable[[Any, Any], Any]]] = {
    cst.Add: ("__add__", operator.add),
    cst.AddAssign: ("__add__", operator.add),
    cst.Subtract: ("__sub__", operator.sub),
    cst.SubtractAssign: ("__sub__", operator.sub),
    cst.Multiply: ("__mul__", operator.mul),
    cst.MultiplyAssign: ("__mul__", operator.mul),
    cst.Divide: ("__truediv__", operator.truediv),
    cst.DivideAssign: ("__truediv__", operator.truediv),
    cst.FloorDivide: ("__floordiv__", operator.floordiv),
    cst.FloorDivideAssign: ("__floordiv__", operator.floordiv),
    cst.Modulo: ("__mod__", operator.mod),
    cst.ModuloAssign: ("__mod__", operator.mod),
    cst.Power: ("__pow__", operator.pow),
    cst.PowerAssign: ("__pow__", operator.pow),
    cst.LeftShift: ("__lshift__", operator.lshift),
    cst.LeftShiftAssign: ("__lshift__", operator.lshift),
    cst.RightShift: ("__rshift__", operator.rshift),
    cst.RightShiftAssign: ("__rshift__", operator.rshift),
    cst.BitAnd: ("__and__", operator.and_),
    cst.BitAndAssign: ("__and__", operator.and_),
    cst.BitOr: ("__or__", operator.or_),
    cst.BitOrAssign: ("__or__", operator.or_),
    cst.BitXor: ("__xor__", operator.xor),
    cst.BitXorAssign: ("__xor__", operator.xor),
}
COMPARE: dict[type[cst.CSTNode], tuple[str, Callable[[Any, Any], Any]]] = {
    cst.LessThan: ("__lt__", operator.lt),
    cst.LessThanEqual: ("__le__", operator.le),
    cst.GreaterThan: ("__gt__", operator.gt),
    cst.GreaterThanEqual: ("__ge__", operator.ge),
}


def is_data(value: Any) -> bool:
    """Whether ``value`` is plain Python data, or an object of a whitelisted immutable library type (a version, a path)."""
    return isinstance(value, _data_types())


@functools.cache
def _data_types() -> tuple[type, ...]:
    from smemcheck.source.models.libraries import SAFE_TYPES

    return (*_PLAIN, list, tuple, dict, set, frozenset, range, slice, *SAFE_TYPES)


def truth_of(interpreter: Interpreter, value: Any, place: Place | None) -> bool | Obstacle:
    """``bool(value)``, or the obstacle that hides it."""
    if isinstance(value, Obstacle):
        return value
    if isinstance(value, _ALWAYS_TRUE):
        return True
    if isinstance(value, Instance):
        if isinstance(value.cls, UserClass):
            for name in ("__bool__", "__len__"):
                try:
                    method = value.cls.lookup(name)
                except KeyError:
                    continue
                result = interpreter.call(BoundMethod(method, value), [], {}, place or method.place)
                return truth_of(interpreter, result, place)
        return True
    if isinstance(value, Silent):
        return True
    if isinstance(value, External):
        if interpreter.project.models.is_object(value.path):
            return True
        return Obstacle(f"whether {value.path} is true is not known", place)
    return bool(value)


def equal(interpreter: Interpreter, left: Any, right: Any, place: Place) -> bool | Obstacle:
    """``left == right`` as Python has it; containers compare element by element, unknown elements make it unknown."""
    if left is right and not isinstance(left, (Obstacle, float)):
        return True
    if isinstance(left, Obstacle):
        return interpreter.derive(left, "==", right)
    if isinstance(right, Obstacle):
        return interpreter.derive(right, "==", left)
    if isinstance(left, External) and isinstance(right, External):
        if left.path == right.path:
            return True
        models = interpreter.project.models
        if models.is_constant(left.path) and models.is_constant(right.path):
            return False
        return Obstacle(f"whether {left.path} equals {right.path} is not known", place)
    if isinstance(left, Silent) or isinstance(right, Silent):
        return False
    if isinstance(left, External) or isinstance(right, External):
        external, other = (left, right) if isinstance(left, External) else (right, left)
        if interpreter.project.models.is_object(external.path) and not isinstance(other, Instance):
            return False
        return Obstacle(f"whether {external.path} equals something is not known", place)
    if isinstance(left, Instance) and isinstance(left.cls, UserClass):
        return _instances_equal(interpreter, left, right, place)
    if isinstance(right, Instance) and isinstance(right.cls, UserClass):
        return _instances_equal(interpreter, right, left, place)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        if isinstance(left, list) != isinstance(right, list) or len(left) != len(right):
            return False
        return _all_equal(interpreter, list(zip(left, right, strict=True)), place)
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        return _all_equal(interpreter, [(left[k], right[k]) for k in left], place)
    if isinstance(left, ConfigValue) and isinstance(right, ConfigValue):
        names = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook", "ir_override")
        return _all_equal(interpreter, [(getattr(left, n), getattr(right, n)) for n in names], place)
    if is_data(left) and is_data(right):
        return bool(left == right)
    return False


def _all_equal(interpreter: Interpreter, pairs: list[tuple[Any, Any]], place: Place) -> bool | Obstacle:
    open_: Obstacle | None = None
    for a, b in pairs:
        same = equal(interpreter, a, b, place)
        if same is False:
            return False
        if isinstance(same, Obstacle):
            open_ = open_ or same
    return open_ or True


def _instances_equal(interpreter: Interpreter, left: Instance, right: Any, place: Place) -> bool | Obstacle:
    assert isinstance(left.cls, UserClass)
    try:
        method = left.cls.lookup("__eq__")
    except KeyError:
        if left.cls.kind == "dataclass" and isinstance(right, Instance) and right.cls is left.cls:
            return _all_equal(interpreter, [(v, right.attributes.get(k)) for k, v in left.attributes.items()], place)
        if (plain := left.plain) is not None:
            return equal(interpreter, plain, _unboxed(right), place)
        return False
    result = interpreter.call(BoundMethod(method, left), [right], {}, place)
    return truth_of(interpreter, result, place)


def binary(interpreter: Interpreter, kind: type[cst.CSTNode], left: Any, right: Any, place: Place) -> Any:
    """``left OP right``. Raises :class:`Raised` as Python would."""
    method, function = BINARY[kind]
    if obstacle := first_obstacle(left, right):
        return obstacle
    left, right = _unboxed(left), _unboxed(right)
    if isinstance(left, Instance) and isinstance(left.cls, UserClass):
        special = left.cls.find(method)
        if special is None:
            raise Raised("TypeError", f"unsupported operand for {type_name(left)}", place=place)
        return interpreter.call(BoundMethod(special, left), [right], {}, place)
    if is_data(left) and is_data(right):
        _check_growth(interpreter, kind, left, right, place)
        if kind in (cst.Modulo, cst.ModuloAssign) and isinstance(left, (str, bytes)):
            operands = right if isinstance(right, tuple) else (right,)
            if obstacle := first_obstacle(*operands):
                return obstacle
        return guarded(function, place, left, right)
    return Obstacle(f"{type_name(left)} and {type_name(right)} are combined in a way that is not modelled", place)


def _unboxed(value: Any) -> Any:
    """A named tuple, or an ``IntEnum`` or ``StrEnum`` member, as the tuple, number or text that it is; others as they are."""
    plain = value.plain if isinstance(value, Instance) and isinstance(value.cls, UserClass) else None
    return plain if plain is not None else value


def compare(interpreter: Interpreter, kind: type[cst.CSTNode], left: Any, right: Any, place: Place) -> Any:
    """An ordering comparison. Raises :class:`Raised` as Python would."""
    method, function = COMPARE[kind]
    if isinstance(left, Obstacle):
        return interpreter.derive(left, method, right)
    if isinstance(right, Obstacle):
        return interpreter.derive(right, "r" + method, left)
    left, right = _unboxed(left), _unboxed(right)
    if isinstance(left, Instance) and isinstance(left.cls, UserClass):
        special = left.cls.find(method)
        if special is None:
            raise Raised("TypeError", f"'{type_name(left)}' objects have no order", place=place)
        return interpreter.call(BoundMethod(special, left), [right], {}, place)
    if isinstance(left, (list, tuple)) and isinstance(right, type(left)):
        for a, b in zip(left, right, strict=False):
            same = equal(interpreter, a, b, place)
            if isinstance(same, Obstacle):
                return same
            if not same:
                return compare(interpreter, kind, a, b, place)
        return function(len(left), len(right))
    if is_data(left) and is_data(right):
        return guarded(function, place, left, right)
    return Obstacle(f"{type_name(left)} and {type_name(right)} are compared in a way that is not modelled", place)


def contains(interpreter: Interpreter, container: Any, item: Any, place: Place) -> bool | Obstacle:
    """``item in container``."""
    if isinstance(container, Obstacle):
        return interpreter.derive(container, "in", item)
    if isinstance(container, Instance) and isinstance(container.cls, UserClass):
        try:
            method = container.cls.lookup("__contains__")
        except KeyError:
            return Obstacle(f"what is in a {type_name(container)} is not known", place)
        return truth_of(interpreter, interpreter.call(BoundMethod(method, container), [item], {}, place), place)
    if isinstance(container, (str, bytes)):
        if isinstance(item, Obstacle):
            return item.again()
        return bool(guarded(operator.contains, place, container, item))
    if isinstance(container, range):
        if isinstance(item, float):  # Python would try one number after the other
            return item.is_integer() and int(item) in container
        return item.again() if isinstance(item, Obstacle) else isinstance(item, int) and item in container
    if isinstance(container, (dict, set, frozenset)) and is_hashable(item) and not isinstance(item, Obstacle):
        return item in container
    from smemcheck.source.interpreter import iterate

    elements = iterate(interpreter, container, place)
    if isinstance(elements, Obstacle):
        return elements.again()
    open_: Obstacle | None = None
    for element in elements:
        same = equal(interpreter, element, item, place)
        if same is True:
            return True
        if isinstance(same, Obstacle):
            open_ = open_ or same
    return open_ or False


def is_hashable(value: Any) -> bool:
    """Whether ``value`` can be a dict key here: an unknown inside a tuple makes lookups unreliable, so it is not."""
    if isinstance(value, tuple):
        return all(is_hashable(v) for v in value)
    if isinstance(value, Instance) and isinstance(value.cls, UserClass) and value.cls.kind == "dataclass":
        return all(is_hashable(v) for v in value.attributes.values())
    return not isinstance(value, (list, dict, set, Obstacle, slice))


def subscript(interpreter: Interpreter, value: Any, key: Any, place: Place) -> Any:
    """``value[key]``. Raises :class:`Raised` as Python would."""
    if isinstance(value, Obstacle):
        return interpreter.derive(value, "[]", key)
    if isinstance(value, Instance) and isinstance(value.cls, UserClass):
        if value.cls.is_tuple:
            return subscript(interpreter, value.plain, key, place)
        try:
            method = value.cls.lookup("__getitem__")
        except KeyError:
            return Obstacle(f"{type_name(value)}[…] is not modelled", place)
        return interpreter.call(BoundMethod(method, value), [key], {}, place)
    if isinstance(value, UserClass):
        return _enum_member(value, key, place)
    if isinstance(value, External):
        return interpreter.project.models.subscript(interpreter, value, key, place)
    if isinstance(value, Silent):
        return value
    if isinstance(key, Obstacle):
        return key.again()
    if isinstance(value, dict):
        if not is_hashable(key):
            return unhashable(key, place)
        if key in value:
            return value[key]
        if isinstance(value, DefaultDict) and value.factory is not None:
            made = value[key] = interpreter.call(value.factory, [], {}, place)
            return made
        raise Raised("KeyError", repr(key), place=place)
    if isinstance(value, (list, tuple, str, range, bytes)):
        if isinstance(key, slice) and (obstacle := first_obstacle(key.start, key.stop, key.step)):
            return obstacle
        return guarded(operator.getitem, place, value, key)
    if isinstance(value, (KernelValue, TunerValue, HeuristicsValue)):
        return Obstacle("a kernel launch gives no value", place)
    if is_data(value):
        return guarded(operator.getitem, place, value, key)  # raises what Python raises
    return Obstacle(f"{type_name(value)}[…] is not modelled", place)


def unhashable(key: Any, place: Place) -> Obstacle:
    """The unknown inside what cannot be a key. Raises ``TypeError`` of the program where there is none."""
    parts = [key]
    while parts:
        part = parts.pop()
        if isinstance(part, Obstacle):
            return part.again()
        if isinstance(part, tuple):
            parts.extend(part)
        elif isinstance(part, Instance):
            parts.extend(part.attributes.values())
    raise Raised("TypeError", f"unhashable type: '{type_name(key)}'", place=place)


def _enum_member(cls: UserClass, key: Any, place: Place) -> Any:
    if isinstance(key, Obstacle):
        return key.again()
    if cls.kind == "enum":
        member = cls.namespace.get(key) if isinstance(key, str) else None
        if isinstance(member, Instance):
            return member
        raise Raised("KeyError", repr(key), place=place)
    return cls  # a generic alias such as Box[int]


def guarded(function: Callable[..., Any], place: Place, *arguments: Any) -> Any:
    """Apply a Python function to plain data; its exceptions become the program's."""
    try:
        return function(*arguments)
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Raised(type(error).__name__, str(error), place=place) from None


def _check_growth(interpreter: Interpreter, kind: type[cst.CSTNode], left: Any, right: Any, place: Place) -> None:
    """Refuse operations whose result would be huge, before they are made."""
    sequences = (str, bytes, list, tuple)
    if kind in (cst.Multiply, cst.MultiplyAssign):
        for a, b in ((left, right), (right, left)):
            if isinstance(a, sequences) and isinstance(b, int):
                interpreter.check_growth(len(a) * max(b, 0), place)
        if isinstance(left, int) and isinstance(right, int):
            interpreter.check_growth((left.bit_length() + right.bit_length()) // 64, place)
    elif kind in (cst.Add, cst.AddAssign) and isinstance(left, sequences) and isinstance(right, sequences):
        interpreter.check_growth(len(left) + len(right), place)
    elif kind in (cst.Power, cst.PowerAssign) and isinstance(left, int) and isinstance(right, int) and right > 0:
        interpreter.check_growth(left.bit_length() * right // 64, place)
    elif kind in (cst.LeftShift, cst.LeftShiftAssign) and isinstance(right, int) and isinstance(left, int):
        interpreter.check_growth(max(right, 0) // 64, place)
    elif kind in (cst.Modulo, cst.ModuloAssign) and isinstance(left, (str, bytes)):
        text = left.decode("latin-1") if isinstance(left, bytes) else left
        widths = [int(digits[:12]) for digits in re.findall(r"\d+", text)]
        operands = right if isinstance(right, tuple) else (right,)
        lengths = [len(o) for o in operands if isinstance(o, (str, bytes))]
        interpreter.check_growth(max(widths, default=0) + len(text) + sum(lengths), place)
