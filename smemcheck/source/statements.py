"""Execution of statements: one function for each kind of libcst node, in a table.

A statement answers with ``None`` or with a signal that ends its block: ``(RETURN, value)``, ``(BREAK, None)`` or
``(CONTINUE, None)``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from smemcheck.source.definitions import define_class, define_function
from smemcheck.source.imports import import_from, import_module
from smemcheck.source.interpreter import Interpreter, iterate, type_name
from smemcheck.source.module import Unit
from smemcheck.source.operations import MUTATING, binary, is_data
from smemcheck.source.targets import assign_target, bind_name
from smemcheck.source.values import (
    Blocked,
    External,
    Frame,
    Instance,
    Obstacle,
    Place,
    Raised,
    UserClass,
)
from smemcheck.source.walk import walk

RETURN, BREAK, CONTINUE = "return", "break", "continue"
Signal = tuple[str, Any]


def execute_block(interpreter: Interpreter, block: cst.BaseSuite | cst.Module, frame: Frame) -> Signal | None:
    """Run the statements of a suite in order."""
    for statement in block.body:
        signal = execute(interpreter, statement, frame)
        if signal is not None:
            return signal
    return None


def execute(interpreter: Interpreter, node: cst.CSTNode, frame: Frame) -> Signal | None:
    """Run one statement. Raises :class:`Raised` for the program's exceptions, :class:`Blocked` at limits."""
    interpreter.step()
    if type(node) is cst.SimpleStatementLine:
        return execute_block(interpreter, node, frame)  # type: ignore[arg-type]
    handler = STATEMENTS.get(type(node))
    if handler is None:
        raise Blocked(Obstacle(f"{type(node).__name__} statements are not evaluated", Place(frame.unit, node)))
    return handler(interpreter, node, frame)


def is_generator(unit: Unit, node: cst.FunctionDef) -> bool:
    """Whether the function's own body has a ``yield``."""
    if "yield" not in unit.text:
        return False
    finder = _YieldFinder()
    walk(node.body, finder)
    return finder.found


class _YieldFinder(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def visit_Yield(self, node: cst.Yield) -> None:
        self.found = True

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False


def _expression(interpreter: Interpreter, node: cst.Expr, frame: Frame) -> Signal | None:
    if not isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString)):
        interpreter.evaluate(node.value, frame)
    return None


def _assign(interpreter: Interpreter, node: cst.Assign, frame: Frame) -> Signal | None:
    value = interpreter.evaluate(node.value, frame)
    for target in node.targets:
        assign_target(interpreter, target.target, value, frame)
    return None


def _annotated(interpreter: Interpreter, node: cst.AnnAssign, frame: Frame) -> Signal | None:
    if frame.kind == "class" and isinstance(node.target, cst.Name):
        frame.locals.setdefault("<annotations>", {})[node.target.value] = node.value is not None
    if node.value is not None:
        assign_target(interpreter, node.target, interpreter.evaluate(node.value, frame), frame)
    return None


def _augmented(interpreter: Interpreter, node: cst.AugAssign, frame: Frame) -> Signal | None:
    place = Place(frame.unit, node)
    current = interpreter.evaluate(node.target, frame)
    value = interpreter.evaluate(node.value, frame)
    if isinstance(current, list) and isinstance(node.operator, cst.AddAssign):
        elements = iterate(interpreter, value, place)
        if isinstance(elements, Obstacle):
            raise Blocked(Obstacle(f"a list is extended by something unknown: {elements.reason}", elements.place))
        current.extend(list(elements))
        interpreter.check_size(len(current), place)
        result: Any = current
    elif isinstance(current, dict) and isinstance(node.operator, cst.BitOrAssign) and isinstance(value, dict):
        current.update(value)
        result = current
    elif isinstance(current, set) and isinstance(value, (set, frozenset)):
        updated = binary(interpreter, type(node.operator), current, value, place)
        current.clear()
        current.update(updated)
        result = current
    else:
        if isinstance(current, (list, dict, set)) and isinstance(value, Obstacle):
            raise Blocked(Obstacle(f"a container is changed by something unknown: {value.reason}", value.place))
        result = binary(interpreter, type(node.operator), current, value, place)
    assign_target(interpreter, node.target, result, frame)
    return None


def _if(interpreter: Interpreter, node: cst.If, frame: Frame) -> Signal | None:
    if interpreter.truth(interpreter.evaluate(node.test, frame), Place(frame.unit, node.test)):
        return execute_block(interpreter, node.body, frame)
    if isinstance(node.orelse, cst.If):
        return _if(interpreter, node.orelse, frame)
    return execute_block(interpreter, node.orelse.body, frame) if node.orelse is not None else None


def _for(interpreter: Interpreter, node: cst.For, frame: Frame) -> Signal | None:
    place = Place(frame.unit, node)
    elements = iterate(interpreter, interpreter.evaluate(node.iter, frame), place)
    if isinstance(elements, Obstacle):
        forget(interpreter, [node.target, node.body], elements, frame)
        return None
    for element in elements:
        interpreter.step(place)
        assign_target(interpreter, node.target, element, frame)
        signal = execute_block(interpreter, node.body, frame)
        if signal is None or signal[0] == CONTINUE:
            continue
        return None if signal[0] == BREAK else signal
    return execute_block(interpreter, node.orelse.body, frame) if node.orelse is not None else None


def _while(interpreter: Interpreter, node: cst.While, frame: Frame) -> Signal | None:
    from smemcheck.source.operations import truth_of

    place = Place(frame.unit, node.test)
    while True:
        interpreter.step(place)
        test = truth_of(interpreter, interpreter.evaluate(node.test, frame), place)
        if isinstance(test, Obstacle):
            forget(interpreter, [node.body], test, frame)
            return None
        if not test:
            return execute_block(interpreter, node.orelse.body, frame) if node.orelse is not None else None
        signal = execute_block(interpreter, node.body, frame)
        if signal is not None and signal[0] != CONTINUE:
            return None if signal[0] == BREAK else signal


class _Assigned(cst.CSTVisitor):
    """The names a piece of code binds, and those whose objects it may change in place."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: set[str] = set()
        self.changed: set[str] = set()
        self.leaves = False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.note_target(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self.note_target(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self.note_target(node.target)
        if isinstance(node.target, cst.Name):
            self.changed.add(node.target.value)

    def visit_For(self, node: cst.For) -> None:
        self.note_target(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self.note_target(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self.note_target(node.name)

    def visit_Del(self, node: cst.Del) -> None:
        targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
        for target in targets:
            if isinstance(target, (cst.Subscript, cst.Attribute)):
                self._changed(target.value)

    def visit_Return(self, node: cst.Return) -> None:
        self.leaves = True

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in MUTATING:
            self._changed(node.func.value)
        elif isinstance(node.func, cst.Name) and node.func.value == "next" and node.args:
            self._changed(node.args[0].value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.bound.add(node.name.value)
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.bound.add(node.name.value)
        return False

    def note_target(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.bound.add(target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self.note_target(element.value)
        elif isinstance(target, cst.StarredElement):
            self.note_target(target.value)
        elif isinstance(target, (cst.Subscript, cst.Attribute)):
            self._changed(target.value)

    def _changed(self, node: cst.CSTNode) -> None:
        while isinstance(node, (cst.Subscript, cst.Attribute, cst.Call)):
            node = node.func if isinstance(node, cst.Call) else node.value
        if isinstance(node, cst.Name):
            self.changed.add(node.value)


def bound_and_changed(node: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names that running ``node`` may bind, and those whose objects it may change in place."""
    finder = _Assigned()
    walk(node, finder)
    return finder.bound, finder.changed


def forget(interpreter: Interpreter, nodes: Sequence[cst.CSTNode], obstacle: Obstacle, frame: Frame) -> None:
    """Code that runs an unknown number of times: what it binds becomes unknown.

    Raises :class:`Blocked` when it would change a container that is known, or could leave the function.
    """
    finder = _Assigned()
    for node in nodes:
        walk(node, finder)
        finder.note_target(node)
    if finder.leaves and interpreter.decide(
        Obstacle(f"whether a loop leaves early: {obstacle.reason}", obstacle.place)
    ):
        raise Blocked(Obstacle(f"a loop whose length is not known may return: {obstacle.reason}", obstacle.place))
    for name in finder.changed:
        if isinstance(_present(interpreter, name, frame), (list, dict, set)):
            raise Blocked(
                Obstacle(f"'{name}' is changed in a loop whose length is not known: {obstacle.reason}", obstacle.place)
            )
    for name in finder.bound:
        bind_name(interpreter, frame, name, obstacle.again())


def _present(interpreter: Interpreter, name: str, frame: Frame) -> Any:
    """What a name stands for now, in the frame, around it or in its module; ``None`` when nothing binds it."""
    holder: Frame | None = frame
    while holder is not None and name not in holder.locals:
        holder = holder.parent
    if holder is not None:
        return holder.locals[name]
    try:
        return interpreter.namespace(frame.module).lookup(name)
    except (KeyError, Raised):
        return None


def _try(interpreter: Interpreter, node: cst.Try, frame: Frame) -> Signal | None:
    signal: Signal | None = None
    try:
        signal = _try_body(interpreter, node, frame)
    finally:
        if node.finalbody is not None:
            last = execute_block(interpreter, node.finalbody.body, frame)
            signal = last or signal
    return signal


def _try_body(interpreter: Interpreter, node: cst.Try, frame: Frame) -> Signal | None:
    interpreter.guarded += bool(node.handlers)
    try:
        signal = execute_block(interpreter, node.body, frame)
    except Raised as raised:
        interpreter.guarded -= bool(node.handlers)
        for index, handler in enumerate(node.handlers):
            caught = handler.type is None or matches(
                interpreter, raised, interpreter.evaluate(handler.type, frame), index == len(node.handlers) - 1
            )
            if not caught:
                continue
            if handler.name is not None:
                value = (
                    raised.value
                    if raised.value is not None
                    else Instance(External(f"builtins.{raised.name}"), {"args": (raised.message,)})
                )
                assign_target(interpreter, handler.name.name, value, frame)
            frame.locals["<raised>"] = raised
            return execute_block(interpreter, handler.body, frame)
        raise
    except BaseException:
        interpreter.guarded -= bool(node.handlers)
        raise
    interpreter.guarded -= bool(node.handlers)
    if signal is None and node.orelse is not None:
        return execute_block(interpreter, node.orelse.body, frame)
    return signal


def matches(interpreter: Interpreter, raised: Raised, handler: Any, last: bool) -> bool:
    """Whether an exception is caught by a handler's type. An unknown exception is caught by some handler; which, the path decides."""
    if isinstance(handler, tuple):
        return any(matches(interpreter, raised, one, last and i == len(handler) - 1) for i, one in enumerate(handler))
    if isinstance(handler, Obstacle) or raised.message.startswith("from "):
        return last or interpreter.decide(
            Obstacle(f"which handler catches an exception {raised.message}", raised.place)
        )
    if isinstance(raised.value, Instance) and isinstance(raised.value.cls, UserClass):
        names = [b.name if isinstance(b, UserClass) else getattr(b, "path", "") for b in raised.value.cls.ancestry()]
        if isinstance(handler, UserClass):
            return handler in raised.value.cls.ancestry()
        return any(_is_subclass(n.rpartition(".")[2], handler) for n in names) or _is_subclass("Exception", handler)
    return isinstance(handler, External) and _is_subclass(raised.name, handler)


def _is_subclass(name: str, handler: External) -> bool:
    wanted = handler.path.rpartition(".")[2]
    cls, parent = getattr(builtins, name, None), getattr(builtins, wanted, None)
    if isinstance(cls, type) and isinstance(parent, type):
        return issubclass(cls, parent)
    return name == wanted


def _raise(interpreter: Interpreter, node: cst.Raise, frame: Frame) -> Signal | None:
    place = Place(frame.unit, node)
    if node.exc is None:
        current = frame.locals.get("<raised>")
        raise current if isinstance(current, Raised) else Raised("RuntimeError", "no active exception", place=place)
    value = interpreter.evaluate(node.exc, frame)
    if isinstance(value, (UserClass, External)):
        value = interpreter.call(value, [], {}, place)
    if isinstance(value, Instance):
        message = value.attributes.get("args", ("",))
        text = str(message[0]) if isinstance(message, tuple) and message else ""
        raise Raised(type_name(value), text, value, place)
    raise Raised("Exception", "from a raise of something unknown", place=place)


def _assert(interpreter: Interpreter, node: cst.Assert, frame: Frame) -> Signal | None:
    from smemcheck.source.operations import truth_of

    known = truth_of(interpreter, interpreter.evaluate(node.test, frame), Place(frame.unit, node))
    if known is False:
        raise Raised("AssertionError", place=Place(frame.unit, node))
    return None


def _return(interpreter: Interpreter, node: cst.Return, frame: Frame) -> Signal | None:
    return RETURN, interpreter.evaluate(node.value, frame) if node.value is not None else None


def _with(interpreter: Interpreter, node: cst.With, frame: Frame) -> Signal | None:
    suppressed: list[Any] = []
    for item in node.items:
        value = interpreter.evaluate(item.item, frame)
        if isinstance(value, Instance) and value.cls == External("contextlib.suppress"):
            suppressed.extend(value.attributes["types"])
        if item.asname is not None:
            entered = value.again() if isinstance(value, Obstacle) else value
            if isinstance(value, Instance) and isinstance(value.cls, UserClass):
                entered = interpreter.call(
                    interpreter_attribute(interpreter, value, "__enter__", frame, item), [], {}, Place(frame.unit, item)
                )
            assign_target(interpreter, item.asname.name, entered, frame)
    interpreter.guarded += bool(suppressed)
    try:
        return execute_block(interpreter, node.body, frame)
    except Raised as raised:
        if suppressed and matches(interpreter, raised, tuple(suppressed), last=True):
            return None
        raise
    finally:
        interpreter.guarded -= bool(suppressed)


def interpreter_attribute(interpreter: Interpreter, value: Any, name: str, frame: Frame, node: cst.CSTNode) -> Any:
    """``value.name`` at ``node``."""
    from smemcheck.source.attributes import get_attribute

    return get_attribute(interpreter, value, name, Place(frame.unit, node))


def _delete(interpreter: Interpreter, node: cst.Del, frame: Frame) -> Signal | None:
    targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    for target in targets:
        if isinstance(target, cst.Name):
            frame.locals.pop(target.value, None)
        elif isinstance(target, cst.Subscript):
            from smemcheck.source.expressions import subscript_key

            container = interpreter.evaluate(target.value, frame)
            key = subscript_key(interpreter, target, frame)
            if isinstance(container, (list, dict)):
                if isinstance(key, Obstacle):
                    raise Blocked(Obstacle(f"an unknown element is deleted: {key.reason}", key.place))
                try:
                    del container[key]
                except (KeyError, IndexError, TypeError) as error:
                    raise Raised(type(error).__name__, str(error), place=Place(frame.unit, node)) from None
            elif is_data(container):
                message = f"'{type_name(container)}' object doesn't support item deletion"
                raise Raised("TypeError", message, place=Place(frame.unit, node))
    return None


def _global(interpreter: Interpreter, node: cst.Global, frame: Frame) -> Signal | None:
    frame.globals_declared.update(item.name.value for item in node.names)
    return None


def _nonlocal(interpreter: Interpreter, node: cst.Nonlocal, frame: Frame) -> Signal | None:
    frame.nonlocals_declared.update(item.name.value for item in node.names)
    return None


def _function(interpreter: Interpreter, node: cst.FunctionDef, frame: Frame) -> Signal | None:
    bind_name(interpreter, frame, node.name.value, define_function(interpreter, node, frame))
    return None


def _class(interpreter: Interpreter, node: cst.ClassDef, frame: Frame) -> Signal | None:
    bind_name(interpreter, frame, node.name.value, define_class(interpreter, node, frame))
    return None


def _import(interpreter: Interpreter, node: cst.Import, frame: Frame) -> Signal | None:
    for name, value in import_module(interpreter, node, frame):
        bind_name(interpreter, frame, name, value)
    return None


def _import_from(interpreter: Interpreter, node: cst.ImportFrom, frame: Frame) -> Signal | None:
    for name, value in import_from(interpreter, node, frame):
        bind_name(interpreter, frame, name, value)
    return None


def _nothing(interpreter: Interpreter, node: cst.CSTNode, frame: Frame) -> Signal | None:
    return None


STATEMENTS: dict[type[cst.CSTNode], Callable[[Interpreter, Any, Frame], Signal | None]] = {
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.Return: _return,
    cst.With: _with,
    cst.Del: _delete,
    cst.Global: _global,
    cst.Nonlocal: _nonlocal,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.Pass: _nothing,
    cst.Break: lambda interpreter, node, frame: (BREAK, None),
    cst.Continue: lambda interpreter, node, frame: (CONTINUE, None),
}
