"""Evaluation of expressions: one function for each kind of libcst node, in a table."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import libcst as cst

from smemcheck.source.attributes import get_attribute
from smemcheck.source.calls import arguments_of, make_lambda
from smemcheck.source.imports import resolve
from smemcheck.source.interpreter import Interpreter, iterate, type_name
from smemcheck.source.operations import (
    BINARY,
    COMPARE,
    binary,
    compare,
    contains,
    equal,
    guarded,
    is_data,
    is_hashable,
    subscript,
    truth_of,
    unhashable,
)
from smemcheck.source.values import (
    Deferred,
    External,
    Frame,
    Obstacle,
    Place,
    Raised,
    Silent,
    first_obstacle,
)


def lookup(interpreter: Interpreter, name: str, frame: Frame, node: cst.CSTNode) -> Any:
    """The value a name has in ``frame``: local, enclosing, module, builtin. Raises ``NameError`` of the program."""
    current: Frame | None = frame
    innermost = True
    while current is not None and current.kind != "module":
        if name in current.globals_declared:
            break
        if name in current.locals and (innermost or current.kind != "class"):
            return _read(interpreter, current, name)
        innermost = innermost and current.kind == "comprehension"
        current = current.parent
    while current is not None and current.kind != "module":
        current = current.parent
    if current is not None and name in current.locals:
        return _read(interpreter, current, name)
    module = frame.module
    try:
        return interpreter.namespace(module).lookup(name)
    except KeyError:
        pass
    builtin = interpreter.project.models.builtin(name)
    if builtin is not None:
        return builtin
    raise Raised("NameError", f"name '{name}' is not defined", place=Place(frame.unit, node))


def _read(interpreter: Interpreter, frame: Frame, name: str) -> Any:
    value = frame.locals[name]
    if type(value) is Deferred:
        value = frame.locals[name] = resolve(interpreter, value)
    return value


def _name(interpreter: Interpreter, node: cst.Name, frame: Frame) -> Any:
    name = node.value
    if (
        name in frame.locals and name not in frame.globals_declared
    ):  # as in lookup(), which most names need not go through
        return _read(interpreter, frame, name)
    return _NAMED[name] if name in _NAMED else lookup(interpreter, name, frame, node)


_NAMED = {"True": True, "False": False, "None": None}


def _number(interpreter: Interpreter, node: cst.BaseNumber, frame: Frame) -> Any:
    try:
        return _literal(node.value)  # type: ignore[attr-defined]
    except (ValueError, SyntaxError):
        return Obstacle("a number is too long to be read", Place(frame.unit, node))


def _string(interpreter: Interpreter, node: cst.SimpleString, frame: Frame) -> Any:
    return _literal(node.value)


@functools.lru_cache(maxsize=8192)
def _literal(text: str) -> Any:
    """The value of a number or string literal."""
    return ast.literal_eval(text)


def _concatenated(interpreter: Interpreter, node: cst.ConcatenatedString, frame: Frame) -> Any:
    left, right = interpreter.evaluate(node.left, frame), interpreter.evaluate(node.right, frame)
    return first_obstacle(left, right) or left + right


def _formatted(interpreter: Interpreter, node: cst.FormattedString, frame: Frame) -> Any:
    parts: list[Any] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            text = part.value.replace("{{", "{").replace("}}", "}")
            parts.append(
                text if "r" in node.prefix.lower() else ast.literal_eval('"""' + text.replace('"', '\\"') + '"""')
            )
            continue
        assert isinstance(part, cst.FormattedStringExpression)
        value = interpreter.evaluate(part.expression, frame)
        place = Place(frame.unit, part)
        specification = ""
        if part.format_spec:
            pieces = [_formatted(interpreter, cst.FormattedString([p]), frame) for p in part.format_spec]
            if obstacle := first_obstacle(*pieces):
                return obstacle
            specification = "".join(pieces)
            if any(len(digits) > 5 for digits in specification.split(".")):
                return Obstacle("a format asks for a very long text", place)
        parts.append(_format(interpreter, value, part.conversion, specification, place))
    if obstacle := first_obstacle(*parts):
        return obstacle
    interpreter.check_size(sum(map(len, parts)))
    return "".join(parts)


def _format(interpreter: Interpreter, value: Any, conversion: str | None, specification: str, place: Place) -> Any:
    from smemcheck.source.models.builtins import text_of

    if isinstance(value, Obstacle):
        return value
    if conversion in ("r", "a") or not is_data(value):
        value = text_of(interpreter, value, place, representation=conversion in ("r", "a"))
    elif conversion == "s":
        value = text_of(interpreter, value, place)
    if isinstance(value, Obstacle):
        return value
    if isinstance(value, (list, tuple, dict, set)) and not specification:
        return text_of(interpreter, value, place)
    return guarded(format, place, value, specification)


def _elements(interpreter: Interpreter, elements: Any, frame: Frame) -> list[Any] | Obstacle:
    values: list[Any] = []
    for element in elements:
        value = interpreter.evaluate(element.value, frame)
        if isinstance(element, cst.StarredElement):
            inner = iterate(interpreter, value, Place(frame.unit, element))
            if isinstance(inner, Obstacle):
                return inner
            values.extend(inner)
        else:
            values.append(value)
    interpreter.check_size(len(values))
    return values


def _list(interpreter: Interpreter, node: cst.List, frame: Frame) -> Any:
    return _elements(interpreter, node.elements, frame)


def _tuple(interpreter: Interpreter, node: cst.Tuple, frame: Frame) -> Any:
    values = _elements(interpreter, node.elements, frame)
    return values if isinstance(values, Obstacle) else tuple(values)


def _set(interpreter: Interpreter, node: cst.Set, frame: Frame) -> Any:
    values = _elements(interpreter, node.elements, frame)
    return values if isinstance(values, Obstacle) else make_set(values, Place(frame.unit, node))


def make_set(values: list[Any], place: Place) -> Any:
    """A set of ``values``; an unknown member makes the whole set unknown, because its size is."""
    if obstacle := first_obstacle(*values):
        return obstacle
    for value in values:
        if not is_hashable(value):
            return unhashable(value, place)
    return set(values)


def _dict(interpreter: Interpreter, node: cst.Dict, frame: Frame) -> Any:
    result: dict[Any, Any] = {}
    for element in node.elements:
        if isinstance(element, cst.StarredDictElement):
            inner = interpreter.evaluate(element.value, frame)
            if isinstance(inner, dict):
                result.update(inner)
                continue
            if is_data(inner):
                message = f"'{type_name(inner)}' object is not a mapping"
                raise Raised("TypeError", message, place=Place(frame.unit, element))
            return (
                inner
                if isinstance(inner, Obstacle)
                else Obstacle("what ** unpacks is not a known dict", Place(frame.unit, element))
            )
        assert isinstance(element, cst.DictElement)
        key = interpreter.evaluate(element.key, frame)
        value = interpreter.evaluate(element.value, frame)
        if not is_hashable(key):
            return unhashable(key, Place(frame.unit, element))
        result[key] = value
    return result


def _comprehension(
    interpreter: Interpreter, comp: cst.CompFor, frame: Frame, emit: Callable[[Frame], None]
) -> Obstacle | None:
    place = Place(frame.unit, comp)
    iterable = interpreter.evaluate(comp.iter, frame)
    elements = iterate(interpreter, iterable, place)
    if isinstance(elements, Obstacle):
        return elements
    inner = (
        frame
        if frame.kind == "comprehension"
        else Frame(frame.unit, frame.module, {}, frame, "comprehension", function=frame.function, depth=frame.depth)
    )
    for element in elements:
        interpreter.step(place)
        assign(interpreter, comp.target, element, inner)
        if not all(interpreter.truth(interpreter.evaluate(test.test, inner), place) for test in comp.ifs):
            continue
        if comp.inner_for_in is not None:
            nested = Frame(
                inner.unit,
                inner.module,
                dict(inner.locals),
                inner,
                "comprehension",
                function=inner.function,
                depth=inner.depth,
            )
            if obstacle := _comprehension(interpreter, comp.inner_for_in, nested, emit):
                return obstacle
        else:
            emit(inner)
    return None


def _list_comprehension(interpreter: Interpreter, node: cst.ListComp | cst.GeneratorExp, frame: Frame) -> Any:
    values: list[Any] = []

    def emit(inner: Frame) -> None:
        values.append(interpreter.evaluate(node.elt, inner))
        interpreter.check_size(len(values))

    return _comprehension(interpreter, node.for_in, _fresh(frame), emit) or values


def _set_comprehension(interpreter: Interpreter, node: cst.SetComp, frame: Frame) -> Any:
    values = _list_comprehension(interpreter, cst.ListComp(node.elt, node.for_in), frame)
    return values if isinstance(values, Obstacle) else make_set(values, Place(frame.unit, node))


def _dict_comprehension(interpreter: Interpreter, node: cst.DictComp, frame: Frame) -> Any:
    pairs: list[tuple[Any, Any]] = []

    def emit(inner: Frame) -> None:
        pairs.append((interpreter.evaluate(node.key, inner), interpreter.evaluate(node.value, inner)))
        interpreter.check_size(len(pairs))

    if obstacle := _comprehension(interpreter, node.for_in, _fresh(frame), emit):
        return obstacle
    if obstacle := first_obstacle(*[key for key, _ in pairs]):
        return obstacle
    for key, _ in pairs:
        if not is_hashable(key):
            return unhashable(key, Place(frame.unit, node))
    return dict(pairs)


def _fresh(frame: Frame) -> Frame:
    return Frame(frame.unit, frame.module, {}, frame, "comprehension", function=frame.function, depth=frame.depth)


def _attribute(interpreter: Interpreter, node: cst.Attribute, frame: Frame) -> Any:
    value = interpreter.evaluate(node.value, frame)
    return get_attribute(interpreter, value, node.attr.value, Place(frame.unit, node))


def _subscript(interpreter: Interpreter, node: cst.Subscript, frame: Frame) -> Any:
    value = interpreter.evaluate(node.value, frame)
    return subscript(interpreter, value, subscript_key(interpreter, node, frame), Place(frame.unit, node))


def subscript_key(interpreter: Interpreter, node: cst.Subscript, frame: Frame) -> Any:
    """The key between the brackets: a value, a slice, or a tuple of them."""
    keys = [_one_key(interpreter, element.slice, frame) for element in node.slice]
    trailing = len(keys) == 1 and isinstance(node.slice[0].comma, cst.Comma)
    return keys[0] if len(keys) == 1 and not trailing else tuple(keys)


def _one_key(interpreter: Interpreter, node: cst.BaseSlice, frame: Frame) -> Any:
    if isinstance(node, cst.Index):
        return interpreter.evaluate(node.value, frame)
    assert isinstance(node, cst.Slice)
    return slice(
        *(
            interpreter.evaluate(part, frame) if part is not None else None
            for part in (node.lower, node.upper, node.step)
        )
    )


def _call(interpreter: Interpreter, node: cst.Call, frame: Frame) -> Any:
    place = Place(frame.unit, node)
    if isinstance(node.func, cst.Name) and node.func.value == "super" and not node.args:
        from smemcheck.source.calls import make_super

        return make_super(frame, place)
    function = interpreter.evaluate(node.func, frame)
    arguments, keywords, open_ = arguments_of(interpreter, node, frame)
    if isinstance(node.func, cst.Name) and node.func.value in ("locals", "globals", "vars") and not node.args:
        return Obstacle(f"{node.func.value}() is not modelled", place)
    return interpreter.call(function, arguments, keywords, place, open_)


def _binary(interpreter: Interpreter, node: cst.BinaryOperation, frame: Frame) -> Any:
    left, right = interpreter.evaluate(node.left, frame), interpreter.evaluate(node.right, frame)
    if type(node.operator) not in BINARY:
        return Obstacle("matrix multiplication is not modelled", Place(frame.unit, node))
    return binary(interpreter, type(node.operator), left, right, Place(frame.unit, node))


def _unary(interpreter: Interpreter, node: cst.UnaryOperation, frame: Frame) -> Any:
    value = interpreter.evaluate(node.expression, frame)
    place = Place(frame.unit, node)
    if isinstance(node.operator, cst.Not):
        known = truth_of(interpreter, value, place)
        return (not interpreter.decide(known)) if isinstance(known, Obstacle) else not known
    if isinstance(value, Obstacle):
        return interpreter.derive(value, type(node.operator).__name__)
    if not is_data(value):
        return Obstacle(f"the sign of a {type_name(value)} is not modelled", place)
    operations: dict[type[cst.CSTNode], Callable[[Any], Any]] = {
        cst.Minus: lambda v: -v,
        cst.Plus: lambda v: +v,
        cst.BitInvert: lambda v: ~v,
    }
    return guarded(operations[type(node.operator)], place, value)


def _boolean(interpreter: Interpreter, node: cst.BooleanOperation, frame: Frame) -> Any:
    left = interpreter.evaluate(node.left, frame)
    truth = interpreter.truth(left, Place(frame.unit, node))
    if isinstance(node.operator, cst.And):
        return interpreter.evaluate(node.right, frame) if truth else left
    return left if truth else interpreter.evaluate(node.right, frame)


def _comparison(interpreter: Interpreter, node: cst.Comparison, frame: Frame) -> Any:
    left = interpreter.evaluate(node.left, frame)
    result: Any = True
    for target in node.comparisons:
        right = interpreter.evaluate(target.comparator, frame)
        result = compare_one(interpreter, type(target.operator), left, right, Place(frame.unit, node))
        if len(node.comparisons) == 1:
            return result
        if not interpreter.truth(result, Place(frame.unit, node)):
            return result
        left = right
    return result


def compare_one(interpreter: Interpreter, kind: type[cst.CSTNode], left: Any, right: Any, place: Place) -> Any:
    """``left OP right`` for one operator of a comparison."""
    if kind in (cst.Is, cst.IsNot):
        same = identical(interpreter, left, right, place)
        return same if isinstance(same, Obstacle) else same == (kind is cst.Is)
    if kind in (cst.Equal, cst.NotEqual):
        same = equal(interpreter, left, right, place)
        return same if isinstance(same, Obstacle) else same == (kind is cst.Equal)
    if kind in (cst.In, cst.NotIn):
        inside = contains(interpreter, right, left, place)
        return inside if isinstance(inside, Obstacle) else inside == (kind is cst.In)
    assert kind in COMPARE
    return compare(interpreter, kind, left, right, place)


def identical(interpreter: Interpreter, left: Any, right: Any, place: Place) -> bool | Obstacle:
    """``left is right``. Small ints and strings are compared by value, as CPython's caches make it in practice."""
    if left is right and not isinstance(left, Obstacle):
        return True
    if isinstance(left, Obstacle):
        return interpreter.derive(left, "is", right)
    if isinstance(right, Obstacle):
        return interpreter.derive(right, "is", left)
    if isinstance(left, (External, Silent)) or isinstance(right, (External, Silent)):
        return equal(interpreter, left, right, place)
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, str)) and type(left) is type(right):
        return bool(left == right)
    return isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right) == 0


def _conditional(interpreter: Interpreter, node: cst.IfExp, frame: Frame) -> Any:
    truth = interpreter.truth(interpreter.evaluate(node.test, frame), Place(frame.unit, node.test))
    return interpreter.evaluate(node.body if truth else node.orelse, frame)


def _lambda(interpreter: Interpreter, node: cst.Lambda, frame: Frame) -> Any:
    return make_lambda(interpreter, node, frame)


def _walrus(interpreter: Interpreter, node: cst.NamedExpr, frame: Frame) -> Any:
    value = interpreter.evaluate(node.value, frame)
    owner = frame
    while owner.kind == "comprehension" and owner.parent is not None:
        owner = owner.parent
    assign(interpreter, node.target, value, owner)
    return value


def _yield(interpreter: Interpreter, node: cst.Yield, frame: Frame) -> Any:
    collected = _yielded(frame)
    if collected is None:
        return Obstacle("yield outside a function", Place(frame.unit, node))
    if isinstance(node.value, cst.From):
        inner = iterate(interpreter, interpreter.evaluate(node.value.item, frame), Place(frame.unit, node))
        if isinstance(inner, Obstacle):
            from smemcheck.source.values import Blocked

            raise Blocked(inner)
        collected.extend(inner)
    else:
        collected.append(interpreter.evaluate(node.value, frame) if node.value is not None else None)
    interpreter.check_size(len(collected))
    return Obstacle("what a generator is sent is not known", Place(frame.unit, node))


def _yielded(frame: Frame) -> list[Any] | None:
    current: Frame | None = frame
    while current is not None and current.kind != "function":
        current = current.parent
    return current.locals.setdefault("<yielded>", []) if current is not None else None


def _await(interpreter: Interpreter, node: cst.Await, frame: Frame) -> Any:
    return Obstacle("asynchronous code is not evaluated", Place(frame.unit, node))


def assign(interpreter: Interpreter, target: cst.BaseExpression, value: Any, frame: Frame) -> None:
    """Bind a value to a target: a name, an attribute, a subscript, or a pattern of them."""
    from smemcheck.source.targets import assign_target

    assign_target(interpreter, target, value, frame)


EXPRESSIONS: dict[type[cst.CSTNode], Callable[[Interpreter, Any, Frame], Any]] = {
    cst.Name: _name,
    cst.Integer: _number,
    cst.Float: _number,
    cst.Imaginary: _number,
    cst.SimpleString: _string,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.List: _list,
    cst.Tuple: _tuple,
    cst.Set: _set,
    cst.Dict: _dict,
    cst.ListComp: _list_comprehension,
    cst.GeneratorExp: _list_comprehension,
    cst.SetComp: _set_comprehension,
    cst.DictComp: _dict_comprehension,
    cst.Attribute: _attribute,
    cst.Subscript: _subscript,
    cst.Call: _call,
    cst.BinaryOperation: _binary,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison,
    cst.IfExp: _conditional,
    cst.Lambda: _lambda,
    cst.NamedExpr: _walrus,
    cst.Yield: _yield,
    cst.Await: _await,
    cst.Ellipsis: lambda interpreter, node, frame: External("builtins.Ellipsis"),
}
