"""The values that the evaluator computes with.

Plain Python data (numbers, strings, tuples, lists, dicts, sets, ranges) stands for itself; its elements may be any value
below. An :class:`Obstacle` is a value that could not be known; it flows through every operation and keeps the place where
knowledge ended, so that the user is told the cause and not its last consequence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import libcst as cst

from smemcheck.model import Position, Unknown

if TYPE_CHECKING:
    from smemcheck.source.interpreter import Interpreter
    from smemcheck.source.members import Member
    from smemcheck.source.module import Module, Statement, Unit


class Place:
    """Where something stands, as a syntax node; the line and column are computed only when somebody asks."""

    __slots__ = ("node", "unit")

    def __init__(self, unit: Unit, node: cst.CSTNode) -> None:
        self.unit = unit
        self.node = node

    @property
    def position(self) -> Position:
        return self.unit.position(self.node)

    @property
    def key(self) -> Hashable:
        """Equal for the same piece of source, however often it is parsed."""
        span = self.unit.span(self.node)
        where: Hashable = id(self.node) if span is None else (self.unit.line, span)
        return self.unit.module.path, type(self.node), where


class Obstacle:
    """A value that is not known: the reason in one clause, and the place where knowledge ended. Compared by identity."""

    __slots__ = ("place", "reason")

    def __init__(self, reason: str, place: Place | Position | None = None) -> None:
        self.reason = reason
        self.place = place

    def again(self) -> Obstacle:
        """Another unknown with the same cause: what an operation makes of this one. Its truth is decided on its own."""
        return Obstacle(self.reason, self.place)

    def to_unknown(self) -> Unknown:
        place = self.place
        return Unknown(self.reason, place.position if isinstance(place, Place) else place)

    def __repr__(self) -> str:
        return f"<unknown: {self.reason}>"


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """A module-level name whose value depends on something unknown: its distinct values, chosen when it is read.

    ``obstacles[i]`` is the unknown that decides between ``values[i]`` and the later ones.
    """

    values: tuple[Any, ...]
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True, slots=True)
class Deferred:
    """A name that an import bound and nobody has read yet: which module it comes from. Reading it evaluates it."""

    module: Any
    name: str
    place: Place


@dataclass(frozen=True, slots=True)
class External:
    """Something outside the analysed source, by its dotted path: ``torch.cuda``, ``triton.language.exp``, ``einops``."""

    path: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Something whose calls have no effect that matters and never raise (a logger, a warning): attributes and results are silent too."""

    path: str


@dataclass(frozen=True, eq=False, slots=True)
class ModuleValue:
    """A module of the analysed source."""

    module: Module


@dataclass(eq=False, slots=True)
class Frame:
    """Names of one activation: a module's top level, a function call, a class body or a comprehension."""

    unit: Unit  # what the nodes that run in it belong to
    module: Module
    locals: dict[str, Any] = field(default_factory=dict)
    parent: Frame | None = None
    kind: str = "function"  # "module", "function", "class", "comprehension"
    globals_declared: set[str] = field(default_factory=set)
    nonlocals_declared: set[str] = field(default_factory=set)
    function: UserFunction | None = None
    first_argument: Any = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Sweep:
    """Values that a test or a benchmark gives parameters of its function: rows of values for these names."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(eq=False, slots=True)
class UserFunction:
    """A function or lambda of the analysed source. Its body is parsed when it is called, not before."""

    name: str
    node: cst.FunctionDef | cst.Lambda
    unit: Unit
    module: Module
    parent: Frame | None
    defaults: dict[str, Any]
    statement: Statement | None = None  # of a function at a module's top level; ``node`` is then its header only
    owner: UserClass | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    qualifier: str = ""  # "staticmethod", "classmethod", "property", "cached_property" or ""
    sweeps: tuple[Sweep, ...] = ()  # of a test or benchmark: together they say what it is called with
    member: Member | None = None  # of a method of a class at a module's top level; ``node`` is then its signature only

    @property
    def place(self) -> Place:
        return Place(self.unit, self.node)

    def text(self) -> str:
        """The function as it is written."""
        if self.statement is not None:
            self.statement.enter()
            return self.statement.text
        return cst.Module([]).code_for_node(self.node if self.member is None else self.full()[1])

    def full(self) -> tuple[Unit, cst.FunctionDef]:
        """The function with its body, and the unit its nodes belong to. Raises :class:`Blocked` when it cannot be parsed."""
        from smemcheck.source.module import SyntaxProblem

        try:
            if self.member is not None:
                return self.member.full()
            if self.statement is None:
                assert isinstance(self.node, cst.FunctionDef)
                return self.unit, self.node
            self.statement.enter()
            unit = self.statement.unit
        except SyntaxProblem as problem:
            place = self.place if self.statement is None else self.statement.position
            raise Blocked(Obstacle(f"the function cannot be parsed: {problem.message}", place)) from None
        node = unit.tree.body[0]
        assert isinstance(node, cst.FunctionDef)
        return unit, node


@dataclass(eq=False, slots=True)
class UserClass:
    """A class of the analysed source. ``kind`` is "enum" or "dataclass" where it matters, else empty."""

    name: str
    module: Module
    bases: tuple[Any, ...]
    namespace: dict[str, Any]
    annotations: dict[str, bool]
    kind: str = ""
    frozen: bool = False

    @property
    def is_tuple(self) -> bool:
        """Whether instances are tuples with names."""
        return any(isinstance(base, External) and base.path == "typing.NamedTuple" for base in self.ancestry())

    @property
    def is_boxed(self) -> bool:
        """Whether the members of this enum are numbers or texts themselves."""
        paths = {base.path.removeprefix("builtins.") for base in self.ancestry() if isinstance(base, External)}
        names = {base.name for base in self.ancestry() if isinstance(base, Builtin)}
        return self.kind == "enum" and bool(
            (paths | names) & {"int", "str", "enum.IntEnum", "enum.StrEnum", "enum.IntFlag"}
        )

    def ancestry(self) -> list[Any]:
        """The class and what it inherits from, nearest first (depth first; diamonds are rare in config code)."""
        found: list[Any] = [self]
        for base in self.bases:
            found.extend(x for x in (base.ancestry() if isinstance(base, UserClass) else [base]) if x not in found)
        return found

    def find(self, name: str) -> Any:
        """The attribute from the class or an ancestor; ``None`` when neither has it."""
        try:
            return self.lookup(name)
        except KeyError:
            return None

    def lookup(self, name: str) -> Any:
        """The attribute from the class or an ancestor; raises :class:`KeyError`."""
        for cls in self.ancestry():
            if isinstance(cls, UserClass) and name in cls.namespace:
                return cls.namespace[name]
        raise KeyError(name)


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a user's class, or of a modelled one (then ``cls`` is an :class:`External`)."""

    cls: UserClass | External
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def plain(self) -> Any:
        """The plain data that a named tuple or a member of ``IntEnum`` or ``StrEnum`` is; ``None`` for other objects."""
        if not isinstance(self.cls, UserClass):
            return None
        if self.cls.is_tuple:
            return tuple(self.attributes.values())
        return self.attributes.get("value") if self.cls.is_boxed else None

    @property
    def _key(self) -> Any:
        plain = self.plain
        if plain is None and isinstance(self.cls, UserClass) and self.cls.kind == "dataclass" and self.cls.frozen:
            return (id(self.cls), *self.attributes.values())
        return plain

    def __hash__(self) -> int:
        key = self._key
        return hash(key) if key is not None else object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        """As a key of a dict or set: by value where Python compares by value."""
        if self is other:
            return True
        key = self._key
        return key is not None and bool(key == (other._key if isinstance(other, Instance) else other))


class DefaultDict(dict[Any, Any]):
    """A ``collections.defaultdict``: a dict with the callable that makes missing values."""

    def __init__(self, factory: Any, values: dict[Any, Any]) -> None:
        super().__init__(values)
        self.factory = factory


@dataclass(eq=False, slots=True)
class BoundMethod:
    """A user's function with its first argument filled in."""

    function: UserFunction
    instance: Any


@dataclass(eq=False, slots=True)
class Partial:
    """``functools.partial`` of any callable."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(eq=False, slots=True)
class Call:
    """One call as a model sees it. ``open`` is set when ``*args`` or ``**kwargs`` of the call are not known."""

    interpreter: Interpreter
    arguments: list[Any]
    keywords: dict[str, Any]
    place: Place
    open: Obstacle | None = None

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """The argument at a position or under a name; an obstacle when an open ``**kwargs`` could have given it."""
        if index < len(self.arguments):
            return self.arguments[index]
        if name in self.keywords:
            return self.keywords[name]
        return self.open if self.open is not None else default

    def unknown(self, reason: str) -> Obstacle:
        return Obstacle(reason, self.place)


@dataclass(eq=False, slots=True)
class Builtin:
    """A callable that smemcheck models: a name for messages and the function that computes it."""

    name: str
    function: Callable[[Call], Any]


@dataclass(eq=False, slots=True)
class ConfigValue:
    """A ``triton.Config`` object. Mutable, as in Triton: real code changes ``kwargs`` and ``pre_hook`` after construction."""

    kwargs: Any
    num_warps: Any
    num_stages: Any
    num_ctas: Any
    maxnreg: Any
    pre_hook: Any
    ir_override: Any
    place: Place


@dataclass(eq=False, slots=True)
class KernelValue:
    """A ``@triton.jit`` function and the options given to ``jit``. ``language`` is "triton" or "gluon"."""

    function: UserFunction
    options: dict[str, Any]
    place: Place
    language: str = "triton"
    kind: str = "jit"  # "jit" or "constexpr_function"


@dataclass(eq=False, slots=True)
class HeuristicsValue:
    """A kernel wrapped by ``@triton.heuristics``."""

    kernel: Any
    values: Any
    place: Place


@dataclass(eq=False, slots=True)
class TunerValue:
    """What ``triton.autotune(…)(fn)`` makes. ``attributes`` are the Autotuner's own (``configs``, ``keys``, ``arg_names`` …)."""

    kernel: Any
    attributes: dict[str, Any]
    place: Place
    instance: Instance | None = None


class Raised(Exception):
    """A Python exception in the evaluated program. ``value`` is its instance, ``name`` its class for messages."""

    def __init__(self, name: str, message: str = "", value: Any = None, place: Place | None = None) -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name
        self.message = message
        self.value = value
        self.place = place


class Blocked(Exception):
    """The evaluation cannot go on: a limit was reached, or an unknown would change state in a way that cannot be tracked."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.reason)
        self.obstacle = obstacle


def first_obstacle(*values: Any) -> Obstacle | None:
    """A fresh unknown with the cause of the first of ``values`` that is not known; ``None`` when all are."""
    for value in values:
        if isinstance(value, Obstacle):
            return value.again()
    return None
