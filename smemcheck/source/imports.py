"""Import statements: modules of the analysed source are found on disk, everything else is external by its dotted path."""

from __future__ import annotations

from typing import Any

import libcst as cst

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.values import Deferred, External, Frame, ModuleValue, Obstacle, Place, Raised


def dotted(node: cst.BaseExpression | None) -> str:
    """The dotted text of a name in an import statement."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def import_module(interpreter: Interpreter, node: cst.Import, frame: Frame) -> list[tuple[str, Any]]:
    """The names that ``import a.b, c as d`` binds."""
    bound: list[tuple[str, Any]] = []
    for alias in node.names:
        name = dotted(alias.name)
        place = Place(frame.unit, alias)
        value = find(interpreter, name, frame, place)
        if alias.asname is not None:
            bound.append((dotted(alias.asname.name), value))
        else:
            first = name.partition(".")[0]
            bound.append((first, value if first == name else find(interpreter, first, frame, place)))
    return bound


def find(interpreter: Interpreter, name: str, frame: Frame, place: Place) -> Any:
    """The module of that absolute name. Raises ``ModuleNotFoundError`` of the program on a path where it is not installed."""
    module = interpreter.project.find(name, frame.module)
    if module is not None:
        return ModuleValue(module)
    known = interpreter.project.models.installed(interpreter, name)
    if known is False:
        raise Raised("ModuleNotFoundError", f"No module named '{name}'", place=place)
    unsure = known is None and interpreter.guarded
    if unsure and not interpreter.decide(interpreter.project.models.installation(interpreter, name, place)):
        raise Raised("ModuleNotFoundError", f"No module named '{name}'", place=place)
    return External(name)


def import_from(interpreter: Interpreter, node: cst.ImportFrom, frame: Frame) -> list[tuple[str, Any]]:
    """The names that ``from m import a, b as c`` binds; for ``*``, every public name that is known."""
    place = Place(frame.unit, node)
    source = source_of(interpreter, node, frame, place)
    if isinstance(node.names, cst.ImportStar):
        if isinstance(source, ModuleValue):
            return list(interpreter.namespace(source.module).public().items())
        return []
    bound: list[tuple[str, Any]] = []
    for alias in node.names:
        name = dotted(alias.name)
        target = dotted(alias.asname.name) if alias.asname is not None else name
        bound.append((target, member(interpreter, source, name, place)))
    return bound


def source_of(interpreter: Interpreter, node: cst.ImportFrom, frame: Frame, place: Place) -> Any:
    """The module that ``from … import`` names: a :class:`ModuleValue` or an :class:`External`."""
    name = dotted(node.module)
    if not node.relative:
        return find(interpreter, name, frame, place)
    module = interpreter.project.relative(frame.module, len(node.relative), name)
    if module is not None:
        return ModuleValue(module)
    message = f"No module named '{'.' * len(node.relative)}{name}'"
    if interpreter.guarded:
        raise Raised("ModuleNotFoundError", message, place=place)
    return External(f"<missing>.{name}")


def resolve(interpreter: Interpreter, deferred: Deferred) -> Any:
    """The value of an imported name, now that somebody reads it."""
    from smemcheck.source.attributes import get_attribute

    return get_attribute(interpreter, deferred.module, deferred.name, deferred.place)


def member(interpreter: Interpreter, source: Any, name: str, place: Place) -> Any:
    """What ``from source import name`` binds."""
    from smemcheck.source.attributes import get_attribute

    if isinstance(source, External) and source.path.startswith("<missing>"):
        return Obstacle(f"module {source.path.removeprefix('<missing>.')} is not on disk", place)
    if isinstance(source, ModuleValue):
        namespace = interpreter.namespace(source.module)
        if namespace.may_have(name) or namespace.may_have("__getattr__"):
            return Deferred(source, name, place)
        try:
            return get_attribute(interpreter, source, name, place)
        except Raised as raised:
            if raised.name != "AttributeError":
                raise
            stars = interpreter.namespace(source.module).external_stars()
            if stars:
                return External(f"{stars[-1]}.{name}")
            raise Raised(
                "ImportError", f"cannot import name '{name}' from '{source.module.name}'", place=place
            ) from None
    assert isinstance(source, External)
    if interpreter.project.models.has(interpreter, source.path, name) is False:
        raise Raised("ImportError", f"cannot import name '{name}' from '{source.path}'", place=place)
    if interpreter.project.models.has(interpreter, source.path, name) is None and interpreter.guarded:
        full = f"{source.path}.{name}"
        if not interpreter.decide(interpreter.project.models.installation(interpreter, full, place)):
            raise Raised("ImportError", f"cannot import name '{name}' from '{source.path}'", place=place)
    return interpreter.project.models.attribute(interpreter, source, name, place)
