"""Functions and classes as values: their decorators, enums and dataclasses."""

from __future__ import annotations

from typing import Any

import libcst as cst

from smemcheck.source.calls import defaults_of
from smemcheck.source.imports import resolve
from smemcheck.source.interpreter import Interpreter
from smemcheck.source.module import Statement
from smemcheck.source.values import Deferred, External, Frame, Instance, Obstacle, Place, UserClass, UserFunction

_ENUMS = frozenset({"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"})
_RECORDS = frozenset({"typing.NamedTuple"})


def define_function(
    interpreter: Interpreter, node: cst.FunctionDef, frame: Frame, statement: Statement | None = None
) -> Any:
    """The value that a ``def`` binds: the function, passed through its decorators from the last to the first."""
    function: Any = UserFunction(
        node.name.value,
        node,
        frame.unit,
        frame.module,
        None if frame.kind == "module" else frame,
        defaults_of(interpreter, node.params, frame),
        statement,
        member=frame.unit.members.get(id(node)),
    )
    for decorator in reversed(node.decorators):
        wrapper = interpreter.evaluate(decorator.decorator, frame)
        function = interpreter.project.models.decorate(interpreter, wrapper, function, Place(frame.unit, decorator))
    return function


def define_class(interpreter: Interpreter, node: cst.ClassDef, frame: Frame) -> Any:
    """The value that a ``class`` statement binds. Its body runs here, in a frame of its own."""
    from smemcheck.source.statements import execute_block

    bases = tuple(interpreter.evaluate(argument.value, frame) for argument in node.bases)
    inner = Frame(frame.unit, frame.module, {}, frame, "class", function=frame.function)
    execute_block(interpreter, node.body, inner)
    annotations = inner.locals.pop("<annotations>", {})
    for name, value in inner.locals.items():
        if isinstance(value, Deferred):
            inner.locals[name] = resolve(interpreter, value)
    cls = UserClass(node.name.value, frame.module, bases, inner.locals, annotations)
    paths = {base.path for base in bases if isinstance(base, External)}
    if paths & _ENUMS or any(isinstance(base, UserClass) and base.kind == "enum" for base in bases):
        _make_enum(cls)
    elif paths & _RECORDS or any(isinstance(base, UserClass) and base.kind == "dataclass" for base in bases):
        cls.kind = "dataclass" if paths & _RECORDS else ""
    for value in inner.locals.values():
        if isinstance(value, UserFunction) and value.owner is None and value.parent is inner:
            value.owner = cls
    result: Any = cls
    for decorator in reversed(node.decorators):
        wrapper = interpreter.evaluate(decorator.decorator, frame)
        result = interpreter.project.models.decorate(interpreter, wrapper, result, Place(frame.unit, decorator))
    return result


def _make_enum(cls: UserClass) -> None:
    cls.kind = "enum"
    count = 0
    for name, written in list(cls.namespace.items()):
        if name.startswith("_") or isinstance(written, (UserFunction, UserClass)):
            continue
        value = written
        if isinstance(value, Instance) and value.cls == External("enum.auto"):
            count += 1
            value = count
        elif isinstance(value, int):
            count = value
        known: Any = next(
            (
                v
                for k, v in cls.namespace.items()
                if isinstance(v, Instance)
                and v.cls is cls
                and not isinstance(value, Obstacle)
                and v.attributes["value"] == value
                and type(v.attributes["value"]) is type(value)
            ),
            None,
        )
        cls.namespace[name] = known or Instance(cls, {"name": name, "value": value, "_value_": value, "_name_": name})
