"""Methods of plain data: strings, lists, dicts, sets, numbers, and the immutable library types that stand for themselves."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any

from smemcheck.source.interpreter import iterate, type_name
from smemcheck.source.models.builtins import pairs_of, sort, text_of
from smemcheck.source.operations import contains, equal, guarded, is_data, is_hashable
from smemcheck.source.values import Blocked, Builtin, Call, Obstacle, Raised, first_obstacle

Method = Callable[[Any, Call], Any]


def _known(call: Call, value: Any, what: str) -> list[Any]:
    """The elements of ``value``; raises :class:`Blocked` when a container would change by something unknown."""
    elements = iterate(call.interpreter, value, call.place)
    if isinstance(elements, Obstacle):
        raise Blocked(Obstacle(f"{what} by something unknown: {elements.reason}", elements.place))
    return list(elements)


def _append(value: list[Any], call: Call) -> None:
    value.append(call.argument(0, "object"))
    call.interpreter.check_size(len(value), call.place)


def _extend(value: list[Any], call: Call) -> None:
    value.extend(_known(call, call.argument(0, "iterable"), "a list is extended"))
    call.interpreter.check_size(len(value), call.place)


def _insert(value: list[Any], call: Call) -> None:
    index = call.arguments[0]
    if isinstance(index, Obstacle):
        raise Blocked(Obstacle(f"a list grows at an unknown index: {index.reason}", index.place))
    guarded(value.insert, call.place, index, call.arguments[1])


def _pop(value: Any, call: Call) -> Any:
    key = call.arguments[0] if call.arguments else -1
    if isinstance(key, Obstacle) or not is_hashable(key):
        raise Blocked(Obstacle("an unknown element is removed", call.place))
    if isinstance(value, dict):
        if not call.arguments:
            raise Raised("TypeError", "pop expected at least 1 argument, got 0", place=call.place)
        if key in value:
            return value.pop(key)
        if len(call.arguments) > 1:
            return call.arguments[1]
        raise Raised("KeyError", repr(key), place=call.place)
    if isinstance(value, set):
        return call.unknown("set.pop() gives an arbitrary element")
    return guarded(value.pop, call.place, key)


def _sort(value: list[Any], call: Call) -> None:
    ordered = sort(call, value, call.keywords.get("key"), call.keywords.get("reverse", False))
    if isinstance(ordered, Obstacle):
        raise Blocked(Obstacle(f"a list is sorted by something unknown: {ordered.reason}", ordered.place))
    value[:] = ordered


def _remove(value: Any, call: Call) -> None:
    wanted = call.arguments[0]
    if isinstance(value, set):
        if isinstance(wanted, Obstacle):
            raise Blocked(Obstacle("an unknown element is removed", call.place))
        guarded(value.remove, call.place, wanted)
        return
    index = _index(value, call)
    if isinstance(index, Obstacle):
        raise Blocked(index)
    del value[index]


def _index(value: Any, call: Call) -> Any:
    for index, element in enumerate(value):
        same = equal(call.interpreter, element, call.arguments[0], call.place)
        if isinstance(same, Obstacle):
            return same
        if same:
            return index
    raise Raised("ValueError", "the value is not in the sequence", place=call.place)


def _count(value: Any, call: Call) -> Any:
    answers = [equal(call.interpreter, element, call.arguments[0], call.place) for element in value]
    return first_obstacle(*answers) or sum(a is True for a in answers)


def _get(value: dict[Any, Any], call: Call) -> Any:
    key = call.argument(0, "key")
    if isinstance(key, Obstacle):
        return key.again()
    inside = contains(call.interpreter, value, key, call.place)
    if isinstance(inside, Obstacle):
        return inside
    return value[key] if inside else call.argument(1, "default")


def _update(value: Any, call: Call) -> None:
    for argument in call.arguments:
        if isinstance(value, dict) and isinstance(argument, dict):
            value.update(argument)
            continue
        if isinstance(value, dict):
            pairs = pairs_of(call, argument)
            if isinstance(pairs, Obstacle):
                raise Blocked(Obstacle(f"a container is changed by something unknown: {pairs.reason}", pairs.place))
            value.update(pairs)
            continue
        elements = _known(call, argument, "a container is changed")
        if obstacle := first_obstacle(*elements):
            raise Blocked(obstacle)
        value.update(elements)
    if call.open is not None:
        raise Blocked(call.open)
    if isinstance(value, dict):
        value.update(call.keywords)
    call.interpreter.check_size(len(value), call.place)


def _setdefault(value: dict[Any, Any], call: Call) -> Any:
    key = call.arguments[0]
    if isinstance(key, Obstacle):
        raise Blocked(Obstacle("a dict is given an unknown key", call.place))
    return value.setdefault(key, call.argument(1, "default"))


def _add(value: set[Any], call: Call) -> None:
    element = call.arguments[0]
    if isinstance(element, Obstacle):
        raise Blocked(Obstacle(f"an unknown element is added to a set: {element.reason}", element.place))
    guarded(value.add, call.place, element)


def _join(value: str, call: Call) -> Any:
    elements = iterate(call.interpreter, call.arguments[0], call.place)
    if isinstance(elements, Obstacle):
        return elements.again()
    parts = list(elements)
    if obstacle := first_obstacle(*parts):
        return obstacle
    call.interpreter.check_growth(
        sum(len(p) for p in parts if isinstance(p, str)) + len(value) * len(parts), call.place
    )
    return guarded(value.join, call.place, parts)


def _format(value: str, call: Call) -> Any:
    def text(argument: Any) -> Any:
        return (
            argument
            if is_data(argument) or isinstance(argument, Obstacle)
            else text_of(call.interpreter, argument, call.place)
        )

    arguments = [text(a) for a in call.arguments]
    keywords = {k: text(v) for k, v in call.keywords.items()}
    if obstacle := first_obstacle(*arguments, *keywords.values(), call.open):
        return obstacle
    try:
        fields = list(string.Formatter().parse(value))
    except ValueError as error:
        raise Raised("ValueError", str(error), place=call.place) from None
    for _, field, specification, _ in fields:
        if field is not None and (re.search(r"[.\[]", field) or re.search(r"\d{6}|\{", specification or "")):
            return call.unknown("this format string is not modelled")
    return guarded(lambda: value.format(*arguments, **keywords), call.place)


def _replace(value: str, call: Call) -> Any:
    old, new = call.argument(0, "old"), call.argument(1, "new")
    if isinstance(old, str) and isinstance(new, str):
        call.interpreter.check_size(len(value) + value.count(old) * max(len(new) - len(old), 0), call.place)
    return _nothing_to_share("replace")(value, call)


def _nothing_to_share(name: str) -> Method:
    """A method that reads plain data and returns a new value."""

    def method(value: Any, call: Call) -> Any:
        if obstacle := first_obstacle(*call.arguments, *call.keywords.values(), call.open):
            return obstacle
        if not all(is_data(a) for a in [*call.arguments, *call.keywords.values()]):
            return call.unknown(f"{type_name(value)}.{name}() of such an argument is not modelled")
        widest = max((abs(a) for a in call.arguments if isinstance(a, int)), default=0)
        tabs = value.count("\t") if name == "expandtabs" else 1
        call.interpreter.check_growth(
            widest * tabs + (len(value) if isinstance(value, (str, bytes)) else 0), call.place
        )
        return guarded(lambda: getattr(value, name)(*call.arguments, **call.keywords), call.place)

    return method


LIST: dict[str, Method] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "sort": _sort,
    "remove": _remove,
    "index": _index,
    "count": _count,
    "copy": lambda v, call: list(v),
    "clear": lambda v, call: v.clear(),
    "reverse": lambda v, call: v.reverse(),
}
DICT: dict[str, Method] = {
    "get": _get,
    "items": lambda v, call: list(v.items()),
    "keys": lambda v, call: list(v),
    "values": lambda v, call: list(v.values()),
    "update": _update,
    "pop": _pop,
    "setdefault": _setdefault,
    "copy": lambda v, call: dict(v),
    "clear": lambda v, call: v.clear(),
}
SET: dict[str, Method] = {
    "add": _add,
    "update": _update,
    "remove": _remove,
    "copy": lambda v, call: set(v),
    "clear": lambda v, call: v.clear(),
    "discard": lambda v, call: v.discard(call.arguments[0]),
    "pop": _pop,
    **{
        n: _nothing_to_share(n)
        for n in ("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint")
    },
}
STRING: dict[str, Method] = {
    "join": _join,
    "format": _format,
    "replace": _replace,
    **{
        n: _nothing_to_share(n)
        for n in (
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "startswith",
            "endswith",
            "find",
            "rfind",
            "index",
            "count",
            "title",
            "capitalize",
            "isdigit",
            "isalpha",
            "isnumeric",
            "isidentifier",
            "isspace",
            "islower",
            "isupper",
            "partition",
            "rpartition",
            "removeprefix",
            "removesuffix",
            "encode",
            "zfill",
            "ljust",
            "rjust",
            "center",
            "casefold",
            "swapcase",
            "isalnum",
            "expandtabs",
        )
    },
}
BYTES: dict[str, Method] = {
    n: _nothing_to_share(n) for n in ("decode", "hex", "split", "startswith", "endswith", "strip")
}
NUMBER: dict[str, Method] = {
    n: _nothing_to_share(n) for n in ("bit_length", "bit_count", "is_integer", "hex", "conjugate", "as_integer_ratio")
}


def method(value: Any, name: str) -> Any:
    """A method or attribute of plain data; ``None`` when it has none of that name."""
    from smemcheck.source.models.libraries import SAFE_TYPES, safe_attribute

    table: dict[str, Method]
    if isinstance(value, list):
        table = LIST
    elif isinstance(value, dict):
        table = DICT
    elif isinstance(value, (set, frozenset)):
        table = SET
    elif isinstance(value, str):
        table = STRING
    elif isinstance(value, tuple):
        table = {"index": _index, "count": _count}
    elif isinstance(value, bytes):
        table = BYTES
    elif isinstance(value, SAFE_TYPES):
        return safe_attribute(value, name)
    elif isinstance(value, (int, float, complex)):
        if name in ("real", "imag", "numerator", "denominator") and hasattr(value, name):
            return getattr(value, name)
        table = NUMBER
    elif isinstance(value, (range, slice)):
        return getattr(value, name) if name in ("start", "stop", "step") else None
    else:
        return None
    function = table.get(name)
    return Builtin(f"{type_name(value)}.{name}", lambda call: function(value, call)) if function is not None else None
