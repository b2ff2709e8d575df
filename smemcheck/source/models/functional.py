"""itertools, functools, operator and collections, as config code uses them. Iterators are lists here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import libcst as cst

from smemcheck.source.interpreter import iterate
from smemcheck.source.operations import BINARY, binary, compare, equal, subscript
from smemcheck.source.values import (
    Builtin,
    Call,
    DefaultDict,
    External,
    Obstacle,
    Partial,
    Raised,
    UserClass,
    UserFunction,
    first_obstacle,
)

# -------------------------------------------------------------------------------------------------- itertools


def _columns(call: Call) -> list[list[Any]] | Obstacle:
    found = []
    for argument in call.arguments:
        elements = iterate(call.interpreter, argument, call.place)
        if isinstance(elements, Obstacle):
            return elements.again()
        found.append(list(elements))
    return found


def _product(call: Call) -> Any:
    columns = _columns(call)
    if isinstance(columns, Obstacle):
        return columns
    repeat = call.keywords.get("repeat", 1)
    if not isinstance(repeat, int):
        return call.unknown("the repeat of a product is not known")
    columns = columns * min(max(repeat, 0), 64)
    call.interpreter.check_size(math.prod(map(len, columns)), call.place)
    return list(itertools.product(*columns))


def _chain(call: Call) -> Any:
    columns = _columns(call)
    return columns if isinstance(columns, Obstacle) else list(itertools.chain(*columns))


def _chain_from(call: Call) -> Any:
    outer = iterate(call.interpreter, call.arguments[0], call.place)
    if isinstance(outer, Obstacle):
        return outer.again()
    return _chain(Call(call.interpreter, list(outer), {}, call.place))


def _combinations(function: Callable[..., Any]) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        elements, count = iterate(call.interpreter, call.arguments[0], call.place), call.argument(1, "r")
        if isinstance(elements, Obstacle):
            return elements.again()
        pool = list(elements)
        if not isinstance(count, int) or count < 0:
            return call.unknown("how many elements are combined is not known")
        call.interpreter.check_size(math.perm(len(pool), min(count, len(pool))), call.place)
        return list(function(pool, count))

    return model


def _islice(call: Call) -> Any:
    elements = iterate(call.interpreter, call.arguments[0], call.place)
    if obstacle := first_obstacle(elements, *call.arguments[1:]):
        return obstacle
    return list(itertools.islice(elements, *call.arguments[1:]))  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- functools


def _reduce(call: Call) -> Any:
    elements = iterate(call.interpreter, call.arguments[1], call.place)
    if isinstance(elements, Obstacle):
        return elements.again()
    values = list(elements)
    if len(call.arguments) > 2:
        values.insert(0, call.arguments[2])
    if not values:
        raise Raised("TypeError", "reduce() of empty iterable with no initial value", place=call.place)
    total = values[0]
    for value in values[1:]:
        total = call.interpreter.call(call.arguments[0], [total, value], {}, call.place)
    return total


def _partial(call: Call) -> Any:
    if call.open is not None:
        return call.open.again()
    return Partial(call.arguments[0], tuple(call.arguments[1:]), dict(call.keywords))


def _transparent(call: Call) -> Any:
    """A decorator, or a decorator factory, that keeps what the function computes (``lru_cache``, ``wraps(f)``)."""
    if (
        len(call.arguments) == 1
        and isinstance(call.arguments[0], (UserFunction, Partial, UserClass))
        and not call.keywords
    ):
        return call.arguments[0]
    return Builtin("decorator", lambda inner: inner.arguments[0])


def _wraps(call: Call) -> Any:
    return Builtin("wraps", lambda inner: inner.arguments[0])


def _cached_property(call: Call) -> Any:
    import dataclasses

    function = call.arguments[0]
    return (
        dataclasses.replace(function, qualifier="cached_property") if isinstance(function, UserFunction) else function
    )


# ---------------------------------------------------------------------------------------- operator, collections


def _operator(name: str, kind: type[cst.CSTNode]) -> Callable[[Call], Any]:
    return lambda call: binary(call.interpreter, kind, call.arguments[0], call.arguments[1], call.place)


def _ordering(kind: type[cst.CSTNode]) -> Callable[[Call], Any]:
    return lambda call: compare(call.interpreter, kind, call.arguments[0], call.arguments[1], call.place)


def _equality(wanted: bool) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        same = equal(call.interpreter, call.arguments[0], call.arguments[1], call.place)
        return same if isinstance(same, Obstacle) else same == wanted

    return model


def _itemgetter(call: Call) -> Any:
    keys = call.arguments

    def get(inner: Call) -> Any:
        found = [subscript(inner.interpreter, inner.arguments[0], k, inner.place) for k in keys]
        return found[0] if len(found) == 1 else tuple(found)

    return Builtin("itemgetter", get)


def _attrgetter(call: Call) -> Any:
    from smemcheck.source.attributes import get_attribute_by_text

    def get(inner: Call) -> Any:
        value = inner.arguments[0]
        for name in call.arguments[0].split("."):
            value = get_attribute_by_text(inner.interpreter, value, name, inner.place)
        return value

    return Builtin("attrgetter", get)


def _defaultdict(call: Call) -> Any:
    filled = call.interpreter.call(
        call.interpreter.project.models.builtin("dict"), call.arguments[1:], call.keywords, call.place, call.open
    )
    return filled if isinstance(filled, Obstacle) else DefaultDict(call.argument(0, "default_factory"), filled)


def _namedtuple(call: Call) -> Any:
    """``collections.namedtuple``: a class like one that inherits from ``typing.NamedTuple``."""
    name, fields = call.argument(0, "typename"), call.argument(1, "field_names")
    defaults = call.keywords.get("defaults") or ()
    names = fields.replace(",", " ").split() if isinstance(fields, str) else fields
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names) or not isinstance(name, str):
        return call.unknown("the fields of a namedtuple are not known")
    if not isinstance(defaults, (list, tuple)) or set(call.keywords) - {"typename", "field_names", "defaults"}:
        return call.unknown("a namedtuple in this form is not modelled")
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) if defaults else {}
    bases = (External("typing.NamedTuple"),)
    return UserClass(name, call.place.unit.module, bases, given, dict.fromkeys(names, False), "dataclass")


def _counter_free(call: Call) -> Any:
    return [*iterate(call.interpreter, call.arguments[0], call.place)] if call.arguments else []  # type: ignore[misc]


_ORDERINGS: dict[str, type[cst.CSTNode]] = {
    "lt": cst.LessThan,
    "le": cst.LessThanEqual,
    "gt": cst.GreaterThan,
    "ge": cst.GreaterThanEqual,
}
_BINARY_OPERATORS: dict[str, type[cst.CSTNode]] = {
    "add": cst.Add,
    "sub": cst.Subtract,
    "mul": cst.Multiply,
    "floordiv": cst.FloorDivide,
    "truediv": cst.Divide,
    "mod": cst.Modulo,
}
assert set(_BINARY_OPERATORS.values()) <= set(BINARY)

FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "itertools.product": _product,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_from,
    "itertools.combinations": _combinations(itertools.combinations),
    "itertools.permutations": _combinations(itertools.permutations),
    "itertools.islice": _islice,
    "functools.reduce": _reduce,
    "functools.partial": _partial,
    "functools.lru_cache": _transparent,
    "functools.cache": _transparent,
    "functools.wraps": _wraps,
    "functools.cached_property": _cached_property,
    "functools.update_wrapper": lambda call: call.arguments[0],
    **{f"operator.{n}": _operator(n, k) for n, k in _BINARY_OPERATORS.items()},
    **{f"operator.{name}": _ordering(kind) for name, kind in _ORDERINGS.items()},
    "operator.eq": _equality(wanted=True),
    "operator.ne": _equality(wanted=False),
    "operator.itemgetter": _itemgetter,
    "operator.attrgetter": _attrgetter,
    "collections.defaultdict": _defaultdict,
    "collections.namedtuple": _namedtuple,
    "collections.OrderedDict": lambda call: call.interpreter.call(
        call.interpreter.project.models.builtin("dict"), call.arguments, call.keywords, call.place
    ),
    "collections.deque": _counter_free,
}
