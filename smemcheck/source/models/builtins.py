"""Python's builtin functions, on values that may be partly unknown."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import libcst as cst

from smemcheck.source.attributes import get_attribute
from smemcheck.source.interpreter import Interpreter, iterate, type_name
from smemcheck.source.models import reflection
from smemcheck.source.operations import binary, compare, guarded, is_data, is_hashable, truth_of, unhashable
from smemcheck.source.values import (
    BoundMethod,
    Builtin,
    Call,
    External,
    Instance,
    Obstacle,
    Place,
    Raised,
    UserClass,
    UserFunction,
    first_obstacle,
)


def text_of(interpreter: Interpreter, value: Any, place: Place, representation: bool = False) -> Any:
    """``str(value)``, or ``repr(value)``."""
    if isinstance(value, Obstacle):
        return value.again()
    if isinstance(value, Instance) and isinstance(value.cls, UserClass):
        for name in ("__repr__",) if representation else ("__str__", "__repr__"):
            method = value.cls.find(name)
            if method is not None:
                return interpreter.call(BoundMethod(method, value), [], {}, place)
        if value.cls.kind == "enum":
            return f"{value.cls.name}.{value.attributes['name']}"
        return Obstacle(f"the text of a {type_name(value)} is not modelled", place)
    if isinstance(value, External):
        constant = interpreter.project.models.text(value.path)
        return constant if constant is not None else Obstacle(f"the text of {value.path} is not known", place)
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        parts = [*value, *value.values()] if isinstance(value, dict) else list(value)
        if any(not is_data(p) or isinstance(p, (list, tuple, dict)) for p in parts):
            inner = [text_of(interpreter, p, place, representation=True) for p in parts]
            if obstacle := first_obstacle(*inner):
                return obstacle
    if not is_data(value):
        return Obstacle(f"the text of a {type_name(value)} is not modelled", place)
    return repr(value) if representation else str(value)


def _len(call: Call) -> Any:
    value = call.argument(0, "obj")
    if isinstance(value, Obstacle):
        return call.interpreter.derive(value, "len")
    if isinstance(value, Instance) and value.plain is not None:
        return guarded(len, call.place, value.plain)
    if isinstance(value, Instance) and isinstance(value.cls, UserClass) and value.cls.kind != "enum":
        return call.interpreter.call(get_attribute(call.interpreter, value, "__len__", call.place), [], {}, call.place)
    if isinstance(value, range):
        return guarded(len, call.place, value)
    elements = iterate(call.interpreter, value, call.place)
    return elements.again() if isinstance(elements, Obstacle) else len(list(elements))


def _range(call: Call) -> Any:
    if obstacle := first_obstacle(*call.arguments):
        return obstacle
    arguments = [_index(a) for a in call.arguments]
    return guarded(range, call.place, *arguments)


def _index(value: Any) -> Any:
    return value.attributes.get("value") if isinstance(value, Instance) else value


def _elements(call: Call, value: Any) -> list[Any] | Obstacle:
    found = iterate(call.interpreter, value, call.place)
    return found.again() if isinstance(found, Obstacle) else list(found)


def _collect(make: Callable[[list[Any]], Any]) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        if not call.arguments:
            return make([])
        values = _elements(call, call.arguments[0])
        return values if isinstance(values, Obstacle) else make(values)

    return model


def _set_of(kind: type) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        values = _elements(call, call.arguments[0]) if call.arguments else []
        if isinstance(values, Obstacle):
            return values
        if obstacle := first_obstacle(*values):
            return obstacle
        for value in values:
            if not is_hashable(value):
                return unhashable(value, call.place)
        return kind(values)

    return model


def pairs_of(call: Call, source: Any) -> list[tuple[Any, Any]] | Obstacle:
    """The keys and values that ``dict(source)`` and ``update(source)`` take; raises the program's errors."""
    rows = iterate(call.interpreter, source, call.place)
    if isinstance(rows, Obstacle):
        return rows.again()
    found: list[tuple[Any, Any]] = []
    for row in rows:
        items = iterate(call.interpreter, row, call.place)
        if isinstance(items, Obstacle):
            return items.again()
        pair = list(items)
        if len(pair) != 2:
            reason = f"dictionary update sequence element #{len(found)} has length {len(pair)}; 2 is required"
            raise Raised("ValueError", reason, place=call.place)
        if isinstance(pair[0], Obstacle):
            return pair[0].again()
        if not is_hashable(pair[0]):
            return unhashable(pair[0], call.place)
        found.append((pair[0], pair[1]))
    return found


def _dict(call: Call) -> Any:
    result: dict[Any, Any] = {}
    if call.arguments:
        source = call.arguments[0]
        if isinstance(source, dict):
            result.update(source)
        else:
            pairs = pairs_of(call, source)
            if isinstance(pairs, Obstacle):
                return pairs
            result.update(pairs)
    if call.open is not None:
        return call.open.again()
    result.update(call.keywords)
    return result


def _zip(call: Call) -> Any:
    columns = [_elements(call, a) for a in call.arguments]
    if obstacle := first_obstacle(*columns):
        return obstacle
    return [tuple(row) for row in zip(*[c for c in columns if not isinstance(c, Obstacle)], strict=False)]


def _enumerate(call: Call) -> Any:
    values, start = _elements(call, call.argument(0, "iterable")), call.argument(1, "start", 0)
    if obstacle := first_obstacle(values, start):
        return obstacle
    return [(start + i, v) for i, v in enumerate(values)] if isinstance(values, list) else values


def _map(call: Call) -> Any:
    columns = [_elements(call, a) for a in call.arguments[1:]]
    if obstacle := first_obstacle(*columns):
        return obstacle
    rows = zip(*[c for c in columns if not isinstance(c, Obstacle)], strict=False)
    return [call.interpreter.call(call.arguments[0], list(row), {}, call.place) for row in rows]


def _filter(call: Call) -> Any:
    test, values = call.arguments[0], _elements(call, call.arguments[1])
    if isinstance(values, Obstacle):
        return values
    return [
        v
        for v in values
        if call.interpreter.truth(v if test is None else call.interpreter.call(test, [v], {}, call.place), call.place)
    ]


def _sorted(call: Call) -> Any:
    values = _elements(call, call.argument(0, "iterable"))
    if isinstance(values, Obstacle):
        return values
    return sort(call, values, call.keywords.get("key"), call.keywords.get("reverse", False))


def sort(call: Call, values: list[Any], key: Any, reverse: Any) -> list[Any] | Obstacle:
    """A sorted copy; unknown when a key is."""
    keys = [v if key is None else call.interpreter.call(key, [v], {}, call.place) for v in values]
    if obstacle := first_obstacle(*keys, reverse):
        return obstacle
    open_: list[Obstacle] = []

    def order(a: tuple[Any, Any], b: tuple[Any, Any]) -> int:
        less = compare(call.interpreter, cst.LessThan, a[0], b[0], call.place)
        more = compare(call.interpreter, cst.GreaterThan, a[0], b[0], call.place)
        for answer in (less, more):
            if isinstance(answer, Obstacle):
                open_.append(answer)
                return 0
        return -1 if less else int(bool(more))

    pairs = sorted(zip(keys, values, strict=True), key=functools.cmp_to_key(order), reverse=bool(reverse))
    return open_[0].again() if open_ else [value for _, value in pairs]


def _extreme(kind: type[cst.CSTNode]) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        values = _elements(call, call.arguments[0]) if len(call.arguments) == 1 else list(call.arguments)
        if isinstance(values, Obstacle):
            return values
        if not values:
            if "default" in call.keywords:
                return call.keywords["default"]
            raise Raised("ValueError", "an empty sequence has no extreme", place=call.place)
        key = call.keywords.get("key")
        best, best_key = None, None
        for index, value in enumerate(values):
            rank = value if key is None else call.interpreter.call(key, [value], {}, call.place)
            if isinstance(rank, Obstacle):
                return rank.again()
            if index:
                better = compare(call.interpreter, kind, rank, best_key, call.place)
                if isinstance(better, Obstacle):
                    return better
                if not better:
                    continue
            best, best_key = value, rank
        return best

    return model


def _sum(call: Call) -> Any:
    values = _elements(call, call.argument(0, "iterable"))
    if isinstance(values, Obstacle):
        return values
    total = call.argument(1, "start", 0)
    for value in values:
        total = binary(call.interpreter, cst.Add, total, value, call.place)
    return total


def _any_all(stop: bool) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        values = _elements(call, call.arguments[0])
        if isinstance(values, Obstacle):
            return values
        open_: Obstacle | None = None
        for value in values:
            truth = truth_of(call.interpreter, value, call.place)
            if isinstance(truth, Obstacle):
                open_ = open_ or truth.again()
            elif truth == stop:
                return stop
        return open_ if open_ is not None else not stop

    return model


def _plain(function: Callable[..., Any]) -> Callable[[Call], Any]:
    """A builtin that works on plain data only."""

    def model(call: Call) -> Any:
        arguments = [_index(a) if isinstance(a, Instance) else a for a in call.arguments]
        if obstacle := first_obstacle(*arguments, *call.keywords.values()):
            return obstacle
        if call.open is not None:
            return call.open.again()
        if not all(is_data(a) for a in [*arguments, *call.keywords.values()]):
            return call.unknown(f"{function.__name__}() of a {type_name(arguments[0])} is not modelled")
        if function is pow and all(isinstance(a, int) for a in arguments):
            call.interpreter.check_size(arguments[0].bit_length() * max(arguments[1], 0) // 64, call.place)
        if function is bytes and arguments and isinstance(arguments[0], int):
            call.interpreter.check_size(arguments[0], call.place)
        return guarded(functools.partial(function, **call.keywords), call.place, *arguments)

    return model


def _str(call: Call) -> Any:
    return text_of(call.interpreter, call.arguments[0], call.place) if call.arguments else ""


def _repr(call: Call) -> Any:
    return text_of(call.interpreter, call.arguments[0], call.place, representation=True)


def _bool(call: Call) -> Any:
    if not call.arguments:
        return False
    truth = truth_of(call.interpreter, call.arguments[0], call.place)
    return call.interpreter.derive(truth, "bool") if isinstance(truth, Obstacle) else truth


def _next(call: Call) -> Any:
    value = call.arguments[0]
    if isinstance(value, list):
        if value:
            return value.pop(0)
        if len(call.arguments) > 1:
            return call.arguments[1]
        raise Raised("StopIteration", place=call.place)
    return value.again() if isinstance(value, Obstacle) else call.unknown("next() of this is not modelled")


def _reversed(call: Call) -> Any:
    if isinstance(call.arguments[0], (set, frozenset)):
        raise Raised("TypeError", "'set' object is not reversible", place=call.place)
    values = _elements(call, call.arguments[0])
    return values if isinstance(values, Obstacle) else values[::-1]


def _qualified(kind: str) -> Callable[[Call], Any]:
    import dataclasses

    def model(call: Call) -> Any:
        function = call.arguments[0]
        return dataclasses.replace(function, qualifier=kind) if isinstance(function, UserFunction) else function

    return model


def _super(call: Call) -> Any:
    if len(call.arguments) == 2 and isinstance(call.arguments[0], UserClass):
        return Instance(External("builtins.super"), {"<owner>": call.arguments[0], "<self>": call.arguments[1]})
    return call.unknown("super() in this form is not modelled")


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "len": _len,
    "range": _range,
    "list": _collect(list),
    "tuple": _collect(tuple),
    "iter": _collect(list),
    "set": _set_of(set),
    "frozenset": _set_of(frozenset),
    "dict": _dict,
    "zip": _zip,
    "enumerate": _enumerate,
    "map": _map,
    "filter": _filter,
    "sorted": _sorted,
    "min": _extreme(cst.LessThan),
    "max": _extreme(cst.GreaterThan),
    "sum": _sum,
    "any": _any_all(True),
    "all": _any_all(False),
    "str": _str,
    "repr": _repr,
    "bool": _bool,
    "next": _next,
    "getattr": reflection.get,
    "hasattr": reflection.has,
    "setattr": reflection.set_,
    "isinstance": reflection.is_instance,
    "issubclass": reflection.is_subclass,
    "type": reflection.type_of,
    "callable": reflection.can_call,
    "reversed": _reversed,
    "print": lambda call: None,
    "super": _super,
    "staticmethod": _qualified("staticmethod"),
    "classmethod": _qualified("classmethod"),
    "property": _qualified("property"),
    **{
        f.__name__: _plain(f)
        for f in (int, float, bytes, complex, abs, round, divmod, pow, ord, chr, hex, bin, oct, hash, format, slice)
    },
}
CONSTANTS: dict[str, Any] = {"NotImplemented": External("builtins.NotImplemented"), "__debug__": True}


@functools.cache
def builtin(name: str) -> Any:
    """The builtin of that name, always the same object; ``None`` when there is none."""
    if name in FUNCTIONS:
        return Builtin(name, FUNCTIONS[name])
    if name in CONSTANTS:
        return CONSTANTS[name]
    value = getattr(builtins, name, None)
    if isinstance(value, type) and issubclass(value, BaseException):
        return External(f"builtins.{name}")
    return External(f"builtins.{name}") if value is not None else None
