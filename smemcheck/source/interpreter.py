"""The evaluator's engine: one path of execution, and the exploration of the paths that unknown conditions open.

A question is a function that is run on an :class:`Interpreter`. Where a condition is not known, the run takes one side and
the question is run again from the start for the other: there is no merging of states inside a run. What all paths agree on
is known; what they do not agree on is an alternative. So replacing something known by an unknown can only add paths: it can
make an answer open, never turn it into another.

Everything is bounded (:class:`Limits`): steps, sizes, call depth and the number of paths. Nothing here imports or runs code
of the analysed source.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import libcst as cst

from smemcheck.model import Target
from smemcheck.source.memo import Memo
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    Builtin,
    Call,
    Choice,
    ConfigValue,
    External,
    Frame,
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
)

if TYPE_CHECKING:
    from smemcheck.source.lasting import Kept
    from smemcheck.source.module import Module
    from smemcheck.source.namespace import Namespace
    from smemcheck.source.project import Project


_ABSENT = object()
_RECURSION = 12_000  # the evaluator's own frames for modules that import each other in a long chain


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one question may go: evaluated nodes, elements of a container and of all that is made, nested calls, paths."""

    steps: int = 400_000
    size: int = 100_000
    made: int = 20_000_000
    depth: int = 48
    paths: int = 32


_APART = Limits(paths=16)  # of questions that are asked apart, for all runs


@dataclass(frozen=True, slots=True)
class World:
    """What a program sees of the machine it runs on: the target's device, environment variables, versions, platform."""

    target: Target | None
    environment: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)  # of triton, torch, python
    platform: str = "linux"
    machine: str = "x86_64"
    release: str = "6.8.0"  # of the system: a plain one, no WSL


@dataclass(frozen=True, slots=True)
class Condition:
    """A side that a path took: the unknown it hung on, and the truth it was given."""

    obstacle: Obstacle
    truth: bool


@dataclass(slots=True)
class Path:
    """The outcome of one run: a value, or how it ended without one (an obstacle, or an exception of the program)."""

    value: Any
    conditions: tuple[Condition, ...]
    obstacle: Obstacle | None = None
    raised: Raised | None = None
    tuners: list[TunerValue] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    consulted_target: bool = False


class Memory:
    """What one question leaves for the next: what statements bind, by file and statement.

    ``limits`` are those of the questions that are asked for it, whoever asks.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.statements: Memo[Kept | None] = Memo()
        # By identity, the attributes of what is kept: what a run sets of them is put back when it ends.
        self._attributes: dict[int, dict[str, Any]] = {}

    def share(self, value: Any) -> None:
        """Note that more than one run has a value."""
        from smemcheck.source.lasting import attributes_in

        self._attributes |= {id(one): one for one in attributes_in(value)}

    def keep(self, kept: Kept) -> Kept:
        """Note that more than one run has what a statement bound."""
        for value in kept.names.values():
            self.share(value)
        return kept

    def keeps(self, attributes: dict[str, Any]) -> bool:
        """Whether they are those of something that more than one run has."""
        return id(attributes) in self._attributes


class Interpreter:
    """One run along one path. ``script`` says which side to take at the first unknown conditions; later ones take the true side."""

    def __init__(self, project: Project, world: World, script: list[bool], limits: Limits, memory: Memory) -> None:
        self.project = project
        self.world = world
        self.limits = limits
        self.script = script
        self.memory = memory
        self.conditions: list[Condition] = []
        self.steps = 0
        self.last_step = limits.steps  # the next one is one too many
        self.made = 0  # elements and characters of data that operations made
        self.depth = 0
        self.guarded = 0  # how many handlers of the program could catch an exception raised now
        self.tuners: list[TunerValue] = []
        self.asked: tuple[str, int] | None = (
            None  # the statement whose tuners are asked for; others make their own sites
        )
        self.heuristics: list[HeuristicsValue] = []
        self.kernels: list[KernelValue] = []
        self.notes: list[str] = []
        self.consulted_target = False
        self.times: dict[str, int] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.questions: dict[str, Obstacle] = {}  # by subject: one unknown each, so that a path stays consistent
        self.environment: dict[Any, Any] = dict(world.environment)
        self.patched: dict[tuple[str, str], Any] = {}  # attributes that the program set on external objects
        self._set: list[tuple[dict[str, Any], str, Any]] = []  # attributes of what other runs have too, as they were
        self._decided: dict[int, tuple[Obstacle, bool]] = {}
        self._derived: dict[tuple[Any, ...], tuple[Obstacle, Obstacle]] = {}

    # ------------------------------------------------------------------------------------------------- limits

    def step(self, place: Place | None = None) -> None:
        """Count one step. Raises :class:`Blocked` when the question has used up its steps."""
        self.steps += 1
        if self.steps > self.last_step:
            raise Blocked(self.out_of_steps(place))

    def out_of_steps(self, place: Place | None = None) -> Obstacle:
        """What is said when there was one step too many."""
        return Obstacle(f"evaluating it takes more than {self.limits.steps} steps", place)

    def check_size(self, size: int, place: Place | None = None) -> None:
        """Raises :class:`Blocked` when a container would grow past the limit."""
        if size > self.limits.size:
            raise Blocked(Obstacle(f"a container grows past {self.limits.size} elements", place))

    def check_growth(self, size: int, place: Place | None = None) -> None:
        """As :meth:`check_size`, for data that is made anew: all of it together must also stay within bounds."""
        self.check_size(size, place)
        self.made += size
        if self.made > self.limits.made:
            raise Blocked(Obstacle(f"evaluating it makes more than {self.limits.made} elements and characters", place))

    # ---------------------------------------------------------------------------------------------- decisions

    def decide(self, obstacle: Obstacle) -> bool:
        """The side this path takes where truth is not known; the same unknown always gets the same answer within a path."""
        known = self._decided.get(id(obstacle))
        if known is not None:
            return known[1]
        index = len(self.conditions)
        truth = self.script[index] if index < len(self.script) else True
        if index >= len(self.script):
            self.script.append(True)
        self.conditions.append(Condition(obstacle, truth))
        self._decided[id(obstacle)] = (obstacle, truth)
        return truth

    def derive(self, obstacle: Obstacle, operation: str, operand: Any = None) -> Obstacle:
        """What ``operation`` makes of an unknown: the same object when it is asked again, so that a path stays consistent."""
        try:
            key = (id(obstacle), operation, type(operand), operand)
            known = self._derived.get(key)
        except TypeError:
            return obstacle.again()
        if known is None:
            known = self._derived[key] = (obstacle, obstacle.again())
        return known[1]

    def choose(self, choice: Choice) -> Any:
        """The value that a name has on this path."""
        for value, obstacle in zip(choice.values, choice.obstacles, strict=False):
            if self.decide(obstacle):
                return value
        return choice.values[-1]

    def explore(self, question: Callable[[Interpreter], Any]) -> list[Path]:
        """Run a question of its own, along all its paths, within the limits that such questions have."""
        with self.set_aside():
            return Evaluator(self.project, self.world, self.memory.limits, self.memory).paths(question)

    # ------------------------------------------------------------------------------------------- what others have

    def set_attribute(self, attributes: dict[str, Any], name: str, value: Any) -> None:
        """Set one of the attributes of a definition. What other runs have too is as it was when this run ends."""
        if self.memory.keeps(attributes):
            self._set.append((attributes, name, attributes.get(name, _ABSENT)))
        attributes[name] = value

    def restore(self) -> None:
        """Put back what this run set of what other runs have too. What the run says is known by then."""
        self._exchange(reversed(self._set))
        self._set.clear()

    @contextlib.contextmanager
    def set_aside(self) -> Iterator[None]:
        """As if this run had set nothing of what other runs have too, while something is asked that is no part of it.

        Other runs take the answer without asking again, so what is looked into for it is no account of this run's either.
        """
        changed = self._exchange(reversed(self._set))
        try:
            with self.project.held.noting(None):
                yield
        finally:
            self._exchange(reversed(changed))

    @staticmethod
    def _exchange(values: Iterable[tuple[dict[str, Any], str, Any]]) -> list[tuple[dict[str, Any], str, Any]]:
        """Give attributes these values; those that they had."""
        before = []
        for attributes, name, value in values:
            before.append((attributes, name, attributes.get(name, _ABSENT)))
            if value is _ABSENT:
                attributes.pop(name, None)
            else:
                attributes[name] = value
        return before

    def truth(self, value: Any, place: Place | None) -> bool:
        """The truth of a value, as ``bool()`` would give it; an unknown is decided by the path."""
        from smemcheck.source.operations import truth_of

        known = truth_of(self, value, place)
        return self.decide(known) if isinstance(known, Obstacle) else known

    def may_raise(self, what: str, place: Place) -> None:
        """Take both sides of a call whose effect is not known, where the program would catch its exception."""
        if self.guarded and self.decide(Obstacle(f"whether {what} raises", place)) is False:
            raise Raised("Exception", f"from {what}", place=place)

    # -------------------------------------------------------------------------------------------------- names

    def namespace(self, module: Module) -> Namespace:
        from smemcheck.source.namespace import Namespace

        found = self.namespaces.get(module.path)
        if found is None:
            found = self.namespaces[module.path] = Namespace(self, module)
        return found

    def note(self, text: str) -> None:
        """Record a choice that was made for the user, once."""
        if text not in self.notes:
            self.notes.append(text)

    def target(self) -> Target | None:
        """The target, when a model answers from it: the answer then holds for this target only."""
        self.consulted_target = True
        return self.world.target

    # --------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, node: cst.CSTNode, frame: Frame) -> Any:
        """The value of an expression. Raises :class:`Raised` for the program's exceptions, :class:`Blocked` at limits."""
        from smemcheck.source.expressions import EXPRESSIONS

        self.step()
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            return Obstacle(f"{type(node).__name__} expressions are not evaluated", Place(frame.unit, node))
        return handler(self, node, frame)

    def call(
        self, function: Any, arguments: list[Any], keywords: dict[str, Any], place: Place, open_: Obstacle | None = None
    ) -> Any:
        """Call a value. An unknown callee gives an unknown result; the program's exceptions are raised."""
        from smemcheck.source.calls import call_value

        return call_value(self, function, Call(self, arguments, keywords, place, open_))


@contextlib.contextmanager
def nested_deeply() -> Iterator[None]:
    """While the evaluator runs, which calls itself for all that is nested in the source."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Answers questions about one project as seen on one target."""

    project: Project
    world: World
    limits: Limits = Limits()
    memory: Memory = field(default_factory=lambda: Memory(_APART))

    def paths(self, question: Callable[[Interpreter], Any]) -> list[Path]:
        """Run ``question`` along every path, up to the limit; the last path says so when there were more."""
        with nested_deeply():
            return self._paths(question)

    def _paths(self, question: Callable[[Interpreter], Any]) -> list[Path]:
        script: list[bool] = []
        found: list[Path] = []
        while True:
            found.append(self._run(question, script))
            while script and not script[-1]:
                script.pop()
            if not script:
                return found
            script[-1] = False
            if len(found) >= self.limits.paths:
                conditions = found[-1].conditions
                cause = conditions[-1].obstacle if conditions else None
                reason = f"more than {self.limits.paths} combinations of unknown conditions"
                if cause is not None:
                    reason += f", among them {cause.reason}"
                found.append(Path(None, (), Obstacle(reason, cause.place if cause else None)))
                return found

    def _run(self, question: Callable[[Interpreter], Any], script: list[bool]) -> Path:
        interpreter = Interpreter(self.project, self.world, script, self.limits, self.memory)
        path = Path(None, ())
        try:
            path.value = question(interpreter)
            if isinstance(path.value, Obstacle):
                path.obstacle = path.value
        except Raised as raised:
            path.raised = raised
        except Blocked as blocked:
            path.obstacle = blocked.obstacle
        except RecursionError:
            path.obstacle = Obstacle("the source is nested too deeply")
        except MemoryError:
            path.obstacle = Obstacle("evaluating it takes more memory than there is")
        finally:
            interpreter.restore()
        del script[len(interpreter.conditions) :]
        path.conditions = tuple(interpreter.conditions)
        path.tuners = interpreter.tuners
        path.notes = interpreter.notes
        path.consulted_target = interpreter.consulted_target
        return path


def is_callable(value: Any) -> bool:
    """Whether calling ``value`` can work, as far as is known."""
    return isinstance(value, (UserFunction, UserClass, BoundMethod, Partial, Builtin, KernelValue))


def type_name(value: Any) -> str:
    """The class name that Python would show for a value, for messages."""
    if isinstance(value, Instance):
        return value.cls.name if isinstance(value.cls, UserClass) else value.cls.path.rpartition(".")[2]
    names: list[tuple[type, str]] = [
        (UserFunction, "function"),
        (UserClass, "type"),
        (External, "external object"),
        (ModuleValue, "module"),
        (ConfigValue, "Config"),
        (KernelValue, "JITFunction"),
        (TunerValue, "Autotuner"),
        (Silent, "object"),
    ]
    for cls, name in names:
        if isinstance(value, cls):
            return name
    return type(value).__name__


def iterate(interpreter: Interpreter, value: Any, place: Place) -> Iterator[Any] | Obstacle:
    """An iterator over a value's elements, or the obstacle that hides them. Raises ``TypeError`` of the program."""
    if isinstance(value, Obstacle):
        return value
    if isinstance(value, dict):
        return iter(list(value))
    if isinstance(value, list):  # live, as in Python: a loop sees what its body appends or removes
        interpreter.check_size(len(value), place)
        return iter(value)
    if isinstance(value, (tuple, set, frozenset, str, range, bytes)):
        interpreter.check_size(len(value) if not isinstance(value, range) else _range_length(value), place)
        return iter(list(value))
    if isinstance(value, UserClass) and value.kind == "enum":
        return iter([v for v in value.namespace.values() if isinstance(v, Instance) and v.cls is value])
    if isinstance(value, Instance) and isinstance(value.cls, UserClass):
        if value.cls.is_tuple:
            return iter(tuple(value.attributes.values()))
        try:
            method = value.cls.lookup("__iter__")
        except KeyError:
            raise Raised("TypeError", f"'{type_name(value)}' object is not iterable", place=place) from None
        return iterate(interpreter, interpreter.call(BoundMethod(method, value), [], {}, place), place)
    if isinstance(value, (External, Silent, Instance)):
        return Obstacle(f"the elements of {getattr(value, 'path', type_name(value))} are not known", place)
    raise Raised("TypeError", f"'{type_name(value)}' object is not iterable", place=place)


def _range_length(value: range) -> int:
    try:
        return len(value)
    except OverflowError:
        return 1 << 62
