"""What a kernel does to its arguments' memory, as far as its own text says it beyond doubt.

Only the kernel's body is read, not its helpers. An access is kept when its address comes from exactly one parameter; under
an ``if`` it is kept with its conditions, which a config may decide.
"""

from __future__ import annotations

import ast
import enum
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smemcheck.model import Kernel, Position

if TYPE_CHECKING:
    from smemcheck.specialize.body import Function

# atomic_max, atomic_min, atomic_and and atomic_or give the same again when they are repeated.
_ACCUMULATING = ("atomic_add", "atomic_xor")
_SYNCHRONISING = ("atomic_cas", "atomic_xchg")
_ACCESS = re.compile(r"\.(?:load|store|atomic_\w+)\(\s*(?:pointer\s*=\s*)?(\w+)")
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


class Kind(enum.Enum):
    """What is done to memory."""

    LOAD = "load"
    STORE = "store"
    ACCUMULATE = "accumulate"
    SYNCHRONISE = "synchronise"


@dataclass(frozen=True, slots=True)
class Condition:
    """A test that must come out as ``outcome`` for an access to happen."""

    test: ast.expr
    outcome: bool


@dataclass(frozen=True, slots=True)
class Effect:
    """One access: the parameter whose memory it is, what is done, where, and under which conditions."""

    parameter: str
    kind: Kind
    operation: str
    position: Position
    conditions: tuple[Condition, ...]
    constant: bool = False  # a store of a constant: a reset, no result


def may_change_its_input(kernel: Kernel) -> bool:
    """A cheap look at the text: whether reading the body could find an accumulation or a read and a write of one address."""
    source = kernel.entry.source
    if "atomic_" in source:
        return True
    loads = {match[1] for match in _ACCESS.finditer(source) if match[0].startswith(".load")}
    return any(match[1] in loads for match in _ACCESS.finditer(source) if match[0].startswith(".store"))


@dataclass(frozen=True, slots=True)
class Effects:
    """The accesses of a kernel's body in the order of the text, and the names that are known when it is compiled."""

    accesses: tuple[Effect, ...] = ()
    static: frozenset[str] = frozenset()


def read_effects(kernel: Kernel) -> Effects:
    """What the kernel's body does; nothing when it cannot be parsed."""
    from smemcheck.specialize.body import Function

    try:
        function = Function(kernel.entry)
    except (SyntaxError, RecursionError, ValueError):
        return Effects()
    reader = _Reader(function)
    reader.block(function.node.body, ())
    return Effects(tuple(reader.found), frozenset(reader.static))


class _Reader:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.found: list[Effect] = []
        self.roots: dict[str, frozenset[str]] = {
            parameter.name: frozenset({parameter.name})
            for parameter in function.function.parameters
            if not parameter.is_constexpr
        }

        self.static = {parameter.name for parameter in function.function.parameters if parameter.is_constexpr}
        self.local = {parameter.name for parameter in function.function.parameters}

    def block(self, statements: Sequence[ast.stmt], conditions: tuple[Condition, ...]) -> None:
        for statement in statements:
            self._accesses(statement, conditions)
            if isinstance(statement, ast.If):
                self.block(statement.body, (*conditions, Condition(statement.test, True)))
                self.block(statement.orelse, (*conditions, Condition(statement.test, False)))
                if statement.body and isinstance(statement.body[-1], ast.Return):
                    conditions = (*conditions, Condition(statement.test, False))
            elif isinstance(statement, ast.For | ast.While | ast.With):
                self.block(statement.body, conditions)
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    self._bind(target, statement.value)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._bind(statement.target, statement.value)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.local.add(target.id)
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} & self.local
            if names and names <= self.static:
                self.static.add(target.id)
            else:
                self.static.discard(target.id)
            roots = self._roots(value)
            self.roots[target.id] = roots | (self.roots.get(target.id, frozenset()) if roots else frozenset())
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                if isinstance(element, ast.Name):
                    self.roots.pop(element.id, None)

    def _roots(self, node: ast.expr) -> frozenset[str]:
        """The parameters that an address may have been computed from; the left operand of a sum is the pointer."""
        if isinstance(node, ast.Name):
            return self.roots.get(node.id, frozenset())
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return self._roots(node.left) or self._roots(node.right)
        if isinstance(node, ast.IfExp):
            return self._roots(node.body) | self._roots(node.orelse)
        if isinstance(node, ast.Call):
            base = next((k.value for k in node.keywords if k.arg == "base"), node.args[0] if node.args else None)
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in {"make_block_ptr", "make_tensor_descriptor", "advance", "multiple_of"} and base is not None:
                return self._roots(base)
            if name == "to" and isinstance(node.func, ast.Attribute):
                return self._roots(node.func.value)
        return frozenset()

    def _accesses(self, statement: ast.stmt, conditions: tuple[Condition, ...]) -> None:
        for node in _own_expressions(statement):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            kind = _kind(node.func.attr)
            if kind is None:
                continue
            described = self._roots(node.func.value)  # a method of a descriptor
            named = [k.value for k in node.keywords if k.arg == "pointer"]
            address = named[0] if named else node.args[0] if node.args else None
            roots = described or (self._roots(address) if address is not None else frozenset())
            if len(roots) == 1:
                stored = node.args[1] if len(node.args) > 1 else None
                constant = kind is Kind.STORE and isinstance(stored, ast.Constant)
                position = self.function.position(node)
                self.found.append(Effect(next(iter(roots)), kind, node.func.attr, position, conditions, constant))


def _kind(name: str) -> Kind | None:
    if name in _ACCUMULATING:
        return Kind.ACCUMULATE
    if name in _SYNCHRONISING:
        return Kind.SYNCHRONISE
    return {"load": Kind.LOAD, "store": Kind.STORE}.get(name)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Every expression of a statement, those of the statements inside it left out; arguments before their call."""
    pending: list[ast.AST] = [statement]
    ordered: list[ast.AST] = []
    while pending:
        node = pending.pop()
        ordered.append(node)
        pending += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    yield from reversed(ordered)


def happens(effect: Effect, values: Mapping[str, Any], static: frozenset[str]) -> bool:
    """Whether the access certainly can happen: no condition is false or depends on a constexpr without a value."""
    for condition in effect.conditions:
        answer = _truth(condition.test, values, static)
        if answer is _UNKNOWN or (answer is not _AT_RUN_TIME and bool(answer) is not condition.outcome):
            return False
    return True


_UNKNOWN, _AT_RUN_TIME = object(), object()


def _truth(node: ast.expr, values: Mapping[str, Any], static: frozenset[str]) -> Any:
    """The value of a test, ``_AT_RUN_TIME`` when only the GPU knows it, ``_UNKNOWN`` when a constexpr has no value."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values.get(node.id, _UNKNOWN if node.id in static else _AT_RUN_TIME)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = _truth(node.operand, values, static)
        return operand if operand in (_UNKNOWN, _AT_RUN_TIME) else not operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _truth(node.left, values, static), _truth(node.comparators[0], values, static)
        compare = _COMPARISONS.get(type(node.ops[0]))
        if _UNKNOWN in (left, right) or compare is None:
            return _UNKNOWN
        if _AT_RUN_TIME in (left, right):
            return _AT_RUN_TIME
        try:
            return compare(left, right)
        except TypeError:
            return _UNKNOWN
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return _UNKNOWN if names & static else _AT_RUN_TIME
