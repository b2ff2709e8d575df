"""Module-level names, on demand: only the statements that decide a name are run, at the time at which it is asked for.

The value of a name at a statement is what the last statement before it bound, after every statement in between that changes
the object in place. To run a whole module for one list would mean to parse and evaluate thousands of lines that have
nothing to do with it, and to meet every unknown condition in them.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import libcst as cst

from smemcheck.source.definitions import define_function
from smemcheck.source.effects import (
    binders,
    binds,
    has_constant_defaults,
    makes_container,
    may_change,
    mentioning_or_calling,
    touched,
)
from smemcheck.source.imports import dotted, resolve
from smemcheck.source.interpreter import Interpreter, Path
from smemcheck.source.lasting import Fresh, Kept, cannot_change, is_same, keeps_state
from smemcheck.source.module import Module, Statement, SyntaxProblem
from smemcheck.source.statements import execute
from smemcheck.source.values import (
    Blocked,
    Choice,
    ConfigValue,
    Deferred,
    External,
    Frame,
    Instance,
    ModuleValue,
    Obstacle,
    Place,
    Raised,
    TunerValue,
    UserFunction,
)

_END = 1 << 60
_ALIAS = re.compile(r"(\w+)\s*(?::[^=\n]*)?=\s*(\w+)\s*(?:#[^\n]*)?\s*$")


class Namespace:
    """The top level of one module within one run."""

    def __init__(self, interpreter: Interpreter, module: Module) -> None:
        self.interpreter = interpreter
        self.module = module
        self._bound: dict[tuple[str, int], Any] = {}  # (name, statement) → what the statement bound
        self._executed: set[int] = set()
        self._changed: set[int] = set()  # statements that were run here, with all that they change
        self._blocked: dict[int, Obstacle] = {}  # what stopped them
        self._running: dict[int, Frame] = {}
        self._set: dict[str, Any] = {}
        self._sources: dict[int, Any] = {}
        self._asked: set[tuple[int, str]] = set()
        self._stars = {i: node for i in module.star_imports if (node := _only_import(module.statements[i])) is not None}

    def set(self, name: str, value: Any) -> None:
        """Bind a name from outside the module's own statements."""
        self._set[name] = value

    def _from_star(self, index: int, name: str) -> Any:
        """What a ``from … import *`` binds to one name. Raises :class:`KeyError` when it does not bind it."""
        if index not in self._sources:
            self._sources[index] = self._star_source(self._stars[index])
        source = self._sources[index]
        if isinstance(source, ModuleValue) and source.module is not self.module and (index, name) not in self._asked:
            namespace = self.interpreter.namespace(source.module)
            self._asked.add((index, name))  # modules that import each other: the inner one has not bound it yet
            try:
                names = namespace.exported()
                if name in names if names is not None else not name.startswith("_"):
                    return namespace.lookup(name)
            finally:
                self._asked.discard((index, name))
        if isinstance(source, External) and self.interpreter.project.models.has(self.interpreter, source.path, name):
            return self.interpreter.project.models.attribute(
                self.interpreter, source, name, Place(self.module.statements[index].unit, self._stars[index])
            )
        raise KeyError(name)

    def run(self, index: int) -> None:
        """Run a statement at its own time, once."""
        if index not in self._executed:
            self._execute(index)

    def ran(self, index: int) -> dict[str, Any]:
        """What a statement binds, run at its own time."""
        self.run(index)
        return {name: value for (name, at), value in self._bound.items() if at == index}

    def may_have(self, name: str) -> bool:
        """Whether a statement of the module binds the name whatever is unknown: a definition or an assignment."""
        kinds = ("def", "class", "simple", "from", "import")
        return any(self.module.statements[i].kind in kinds for i in binders(self.module, name))

    def bound(self, name: str, index: int) -> Any:
        """What a statement that was run bound to ``name``; ``None`` when it did not."""
        return self._bound.get((name, index))

    def lookup(self, name: str) -> Any:
        """The value of a name at the module's present time. Raises :class:`KeyError` when nothing binds it."""
        if name in self._set:
            return self._set[name]
        special = {"__file__": self.module.path, "__name__": self.module.name, "__package__": self.module.package}
        if name in special:
            return special[name]
        time = self.interpreter.times.get(self.module.path, _END)
        for index in self.module.calls_that_bind(name):
            if index < time and index not in self._running:
                self._change(index)
        return self._set[name] if name in self._set else self._value(name, time)

    def _value(self, name: str, time: int) -> Any:
        binders = self._binders(name)
        for index in reversed(binders):
            if index in self._running and name in self._running[index].locals:
                value = self._running[index].locals[name]
                return (
                    resolve(self.interpreter, value) if isinstance(value, Deferred) else value
                )  # a function defined in the statement is called by it
            if index >= time or index in self._running:
                continue
            if index in self._stars:
                try:
                    return self._from_star(index, name)
                except KeyError:
                    continue
            if (name, index) not in self._bound and index not in self._executed:
                self._execute(index)
            if (name, index) in self._bound:
                value = self._bound[(name, index)]
                if value is _CHANGEABLE:
                    self._bound.update({(n, index): v for n, v in self._run_now(index).items()})
                    if (name, index) not in self._bound or self._bound[(name, index)] is _CHANGEABLE:
                        self._bound.pop((name, index), None)
                        continue
                    value = self._bound[(name, index)]
                if isinstance(value, Choice):
                    return self.interpreter.choose(value)
                if isinstance(value, Deferred):
                    value = self._bound[(name, index)] = resolve(self.interpreter, value)
                if isinstance(value, (list, dict, set, Instance, ConfigValue, TunerValue)):
                    blocked = self._apply_changes(name, index, time)
                    if blocked is not None:
                        value = self._bound[(name, index)] = blocked
                elif isinstance(value, UserFunction) and keeps_state(value):
                    self._call_before(name, index, time)
                return value
        raise KeyError(name)

    def _binders(self, name: str) -> list[int]:
        may = binders(self.module, name)
        found = [i for i in self.module.mentioning(name) if i in may or (name, i) in self._bound]
        if self.module.star_imports:
            found = sorted({*found, *self.module.star_imports})
        return found

    def _execute(self, index: int) -> None:
        """Run one statement at its own time, and keep what it bound.

        A statement is first explored apart, along all its paths, in runs of its own: so what it leaves behind on one path
        does not leak into another, and conditions that make no difference end there. What is the same on all paths, or a
        choice between unchanging values, is kept for later questions too. The rest is run here, on this path.
        """
        self._executed.add(index)
        interpreter = self.interpreter
        kept = self._kept(index)
        if kept is None:
            names = self._run_now(index)
        else:
            names = kept.names
            interpreter.consulted_target = interpreter.consulted_target or kept.consulted_target
            for note in kept.notes:
                interpreter.note(note)
        for name, value in names.items():
            self._bound[(name, index)] = value.again() if isinstance(value, Fresh) else value

    def _kept(self, index: int) -> Kept | None:
        """What a statement binds whoever asks; ``None`` where it has to be run."""
        memory, key = self.interpreter.memory, (self.module.path, index)
        if memory.statements.meets(key):  # inside its own exploration a statement is simply run
            return None
        return memory.statements.answer(key, lambda: self._plain(index) or self._explored(index))

    def _plain(self, index: int) -> Kept | None:
        """What a definition binds that evaluates nothing: without decorators, its defaults constants."""
        interpreter, statement = self.interpreter, self.module.statements[index]
        if statement.kind != "def" or statement.decorated or not has_constant_defaults(statement):
            return None
        steps, interpreter.steps = interpreter.steps, 0  # it costs the same whoever is the first to ask
        try:
            names = run_statement(interpreter, statement, Frame(None, self.module, {}, None, "module"))  # type: ignore[arg-type]
        finally:
            interpreter.steps = steps
        return interpreter.memory.keep(Kept(names, False, ()))

    def _run_now(self, index: int) -> dict[str, Any]:
        interpreter, statement = self.interpreter, self.module.statements[index]
        self._changed.add(index)
        before = interpreter.times.get(self.module.path)
        guarded, interpreter.guarded = interpreter.guarded, 0
        depth, interpreter.depth = interpreter.depth, 0
        tuners = len(interpreter.tuners)
        frame = self._running[index] = Frame(None, self.module, {}, None, "module")  # type: ignore[arg-type]
        interpreter.times[self.module.path] = index
        try:
            return run_statement(interpreter, statement, frame)
        except Blocked as blocked:
            self._blocked[index] = blocked.obstacle
            return dict.fromkeys(touched(statement), blocked.obstacle)
        finally:
            del self._running[index]
            if before is None:
                del interpreter.times[self.module.path]
            else:
                interpreter.times[self.module.path] = before
            interpreter.guarded, interpreter.depth = guarded, depth
            if interpreter.asked not in (None, (self.module.path, index)):
                del interpreter.tuners[tuners:]

    def _explored(self, index: int) -> Kept | None:
        """What a statement binds over all its paths; ``None`` when it has to be run on each path of a question."""
        paths = self.interpreter.explore(lambda inner: inner.namespace(self.module).ran(index))
        if any(path.tuners for path in paths):
            return None
        finished = [path for path in paths if path.value is not None]
        consulted = any(path.consulted_target for path in paths)
        stopped = next((path.obstacle for path in paths if path.obstacle is not None), None)
        every = dict.fromkeys(name for path in finished for name in path.value)
        if not every:
            return None
        keep = self.interpreter.memory.keep
        if stopped is not None:  # too many combinations, or one that could not be followed: nothing can be said for all
            return keep(Kept({name: stopped.again() for name in every}, consulted, ()))
        names = {name: _over_paths(name, finished) for name in every}
        if len(finished) == 1 and makes_container(self.module.statements[index]):
            for name in [name for name, value in names.items() if value is _CHANGEABLE]:
                if cannot_change(elements := _elements(finished[0].value[name])):
                    names[name] = Fresh(type(finished[0].value[name]), elements)
        if all(value is _CHANGEABLE for value in names.values()):
            return None
        return keep(Kept(names, consulted, tuple(dict.fromkeys(note for path in paths for note in path.notes))))

    def _apply_changes(self, name: str, since: int, time: int) -> Obstacle | None:
        """Run the statements between a name's binding and ``time`` that change its object, with those that read it before.

        The answer is what stopped one of them, if anything did: then the object is not known.
        """
        names = self._aliases(name, since, time)
        mentioning = sorted({i for one in names for i in mentioning_or_calling(self.module, one) if since < i < time})
        statements = self.module.statements
        changes = [i for i in mentioning if any(may_change(statements[i], one) for one in names)]
        self.module.is_indivisible |= bool(changes)
        for index in mentioning if changes else ():
            if not since < index <= changes[-1] or index in self._running:
                continue
            if index in changes:
                self._change(index)
            elif index not in self._executed and self.module.statements[index].kind not in (
                "def",
                "class",
                "import",
                "from",
            ):
                self._execute(index)
        return next((self._blocked[index].again() for index in changes if index in self._blocked), None)

    def _aliases(self, name: str, since: int, time: int) -> frozenset[str]:
        """The names that stand for the object that statement ``since`` bound to ``name``, as far as plain assignments tell."""
        statements = self.module.statements
        bound = self._bound.get((name, since))
        names = {other for (other, at), value in self._bound.items() if at == since and value is bound} | {name}
        if copied := _ALIAS.match(statements[since].text):
            names.add(copied.group(2))
        for index in self.module.mentioning(name):
            if since < index < time and (copied := _ALIAS.match(statements[index].text)) and copied.group(2) == name:
                names.add(copied.group(1))
        return frozenset(names)

    def _call_before(self, name: str, since: int, time: int) -> None:
        """Run the statements that call a function which keeps state between calls."""
        self.module.is_indivisible = True
        for index in self.module.mentioning(name):
            statement = self.module.statements[index]
            if since < index < time and statement.kind == "simple" and index not in self._running:
                self._change(index)

    def _change(self, index: int) -> None:
        """Run a statement for what it does to objects that exist: here, once, whatever is kept of the names it binds."""
        if index in self._changed:
            return
        self._executed.add(index)
        self._bound.update({(name, index): value for name, value in self._run_now(index).items()})

    def public(self) -> dict[str, Any]:
        """What ``from module import *`` gives: the names of ``__all__``, else every public name that the module binds."""
        self.module.is_indivisible = True
        names = self.exported()
        if names is None:
            names = [n for n in self.names() if not n.startswith("_")]
        found = {}
        for name in names:
            with contextlib.suppress(KeyError, Raised):
                found[name] = self._value(name, _END)
        return found

    def exported(self) -> list[str] | None:
        """The names in ``__all__``; ``None`` when the module has none, or none that is known."""
        try:
            names = self._value("__all__", _END)
        except KeyError:
            return None
        return list(names) if isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names) else None

    def names(self) -> list[str]:
        """Every name that a statement may bind, in order of first mention."""
        self.module.is_indivisible = True
        found: dict[str, None] = {}
        for statement in self.module.statements:
            for name in sorted(binds(statement)):
                found[name] = None
        for node in self._stars.values():
            source = self._star_source(node)
            if isinstance(source, ModuleValue) and source.module is not self.module:
                found.update(dict.fromkeys(self.interpreter.namespace(source.module).public()))
        return list(found)

    def external_stars(self) -> list[str]:
        """The modules outside the analysed source that this one star-imports."""
        sources = map(self._star_source, self._stars.values())
        return [source.path for source in sources if isinstance(source, External)]

    def _star_source(self, node: cst.ImportFrom) -> Any:
        if node.relative:
            module = self.interpreter.project.relative(self.module, len(node.relative), dotted(node.module))
        else:
            module = self.interpreter.project.find(dotted(node.module), self.module)
        return ModuleValue(module) if module is not None else External(dotted(node.module))


_ABSENT = object()
_CHANGEABLE = (
    object()
)  # a container or object that differs from path to path: reading it runs the statement on this path


def _over_paths(name: str, paths: list[Path]) -> Any:
    """What a name is bound to over all paths: one value, a choice of unchanging ones, or something each path has to make."""
    distinct: list[tuple[Any, Path]] = []
    for path in paths:
        value = path.value.get(name, _ABSENT)
        if value is _ABSENT or not cannot_change(value):
            return _CHANGEABLE
        if not any(is_same(value, other) for other, _ in distinct):
            distinct.append((value, path))
    if len(distinct) == 1:
        return distinct[0][0]
    return Choice(tuple(value for value, _ in distinct), tuple(_cause(path) for _, path in distinct[:-1]))


def _elements(value: Any) -> Any:
    """The elements of a list, set or dict, the last as pairs; of anything else something that can change."""
    if type(value) is dict:
        return tuple(value.items())
    return tuple(value) if type(value) in (list, set) else _CHANGEABLE


def _cause(path: Path) -> Obstacle:
    """A fresh unknown that stands for "this path": decided once for each name that depends on it."""
    reasons = list(dict.fromkeys(condition.obstacle.reason for condition in path.conditions))
    place = path.conditions[-1].obstacle.place if path.conditions else None
    return Obstacle(" and ".join(reasons[-2:]) or "something that is not known", place)


def run_statement(interpreter: Interpreter, statement: Statement, frame: Frame) -> dict[str, Any]:
    """Run one top-level statement in a frame of its own; the names it bound."""
    try:
        kind = statement.kind
        frame.unit = statement.header if kind == "def" else statement.outline if kind == "class" else statement.unit
    except SyntaxProblem as problem:
        raise Blocked(Obstacle(f"the statement cannot be parsed: {problem.message}", statement.position)) from None
    if statement.kind == "def":
        node = frame.unit.tree.body[0]
        assert isinstance(node, cst.FunctionDef)
        frame.locals[node.name.value] = define_function(interpreter, node, frame, statement)
        return frame.locals
    for node in frame.unit.tree.body:
        execute(interpreter, node, frame)
    return frame.locals


def _only_import(statement: Statement) -> cst.ImportFrom | None:
    try:
        line = statement.unit.tree.body[0]
    except (SyntaxProblem, IndexError):
        return None
    first = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return first if isinstance(first, cst.ImportFrom) else None
