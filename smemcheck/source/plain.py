"""Kernels that no autotuner is put around: found by name, described and sliced as the tuned ones are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from smemcheck.model import (
    Config,
    Heuristic,
    Kernel,
    Parameter,
    Position,
    Site,
    SiteKind,
    Target,
    TargetAnswer,
    Unknown,
)
from smemcheck.source.analysis import Analysis
from smemcheck.source.attributes import innermost_kernel
from smemcheck.source.freeze import posix
from smemcheck.source.interpreter import Evaluator, Interpreter, Path
from smemcheck.source.kernels import build_kernel, describe_parameters
from smemcheck.source.module import Module, Statement, SyntaxProblem
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    Choice,
    HeuristicsValue,
    KernelValue,
    Obstacle,
    Raised,
    UserClass,
    UserFunction,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a function of some name is defined: the top-level statement that holds it, and the line of its ``def``."""

    name: str
    statement: Statement
    line: int

    @property
    def is_top_level(self) -> bool:
        return self.statement.kind == "def" and self.line == self.statement.definition_line


def definitions(module: Module, name: str) -> list[Definition]:
    """Every ``def`` of ``name`` in a module, however deep, in the order of the source; nothing is evaluated."""
    written = re.compile(rf"^[ \t]*def[ \t]+{re.escape(name)}[ \t]*\(", re.MULTILINE)
    found = []
    for index in module.mentioning(name):
        statement = module.statements[index]
        for match in written.finditer(statement.text):
            line = statement.line + statement.text.count("\n", 0, match.start())
            found.append(Definition(name, statement, line))
    return found


def kernel_site(
    analysis: Analysis,
    definition: Definition,
    root: str,
    targets: Sequence[Target],
    configs: Callable[[Target], tuple[Config, ...] | Unknown],
) -> Site | None:
    """The definition as a site of kind launch with the configs that are given; ``None`` when it is no Triton kernel."""
    module = definition.statement.module
    position = Position(posix(module.path), definition.line, 1)
    answers: dict[str, TargetAnswer] = {}
    described: _Described | None = None
    for target in targets:
        found = _describe(analysis.evaluators[target.name], definition)
        if isinstance(found, Unknown):
            answers[target.name] = TargetAnswer(configs(target), found)
        elif found is not None:
            answers[target.name] = TargetAnswer(configs(target), found.kernel)
            described = described or found
    if not answers:
        return None
    described = described or _Described((), Unknown("it is not known", position), ())
    return Site(
        definition.name,
        position,
        root,
        SiteKind.LAUNCH,
        described.parameters,
        answers,
        heuristics=described.heuristics,
        decorator=definition.statement.position if definition.is_top_level else position,
    )


@dataclass(frozen=True, slots=True)
class _Described:
    """What a definition makes on one path."""

    parameters: tuple[Parameter, ...]
    kernel: Kernel | Unknown
    heuristics: tuple[Heuristic, ...] | Unknown


def _describe(evaluator: Evaluator, definition: Definition) -> _Described | Unknown | None:
    """What all paths on which the kernel is made agree on; ``None`` when it is made on none and none is in the way."""
    try:
        paths = evaluator.paths(lambda interpreter: _made_by(interpreter, definition))
    except SyntaxProblem as problem:
        return Unknown(f"its definition cannot be parsed: {problem.message}", definition.statement.position)
    found = [path.value for path in paths if isinstance(path.value, _Described)]
    if not found:
        return _obstacle(paths, definition)
    first = found[0]
    digests = {one.kernel.digest if isinstance(one.kernel, Kernel) else "" for one in found}
    if len(digests) > 1:
        reason = next(iter(paths[-1].conditions)).obstacle.reason if paths[-1].conditions else "something not known"
        return _Described(first.parameters, Unknown(f"what the kernel reads depends on {reason}"), first.heuristics)
    return first


def _obstacle(paths: Sequence[Path], definition: Definition) -> Unknown | None:
    for path in paths:
        if path.obstacle is not None:
            return path.obstacle.to_unknown()
        if path.raised is not None:
            place = path.raised.place.position if path.raised.place else definition.statement.position
            return Unknown(f"its definition raises {path.raised}", place)
    return None


def _made_by(interpreter: Interpreter, definition: Definition) -> _Described | None:
    for value in _values(interpreter, definition):
        kernel = innermost_kernel(value)
        if not isinstance(kernel, KernelValue) or kernel.function.place.position.line != definition.line:
            continue
        if kernel.function.name != definition.name or kernel.language != "triton" or kernel.kind != "jit":
            continue
        try:
            slice_ = build_kernel(interpreter, kernel)
        except Blocked as blocked:
            unknown = blocked.obstacle.to_unknown()
            return _Described(describe_parameters(interpreter, kernel), unknown, heuristics_around(value))
        return _Described(slice_.functions[0].parameters, slice_, heuristics_around(value))
    return None


def _values(interpreter: Interpreter, definition: Definition) -> Iterator[Any]:
    """What may be the kernel: what its statement binds, what a class in it holds, what calling a function in it makes."""
    statement = definition.statement
    ran = interpreter.namespace(statement.module).ran(statement.index).values()
    bound = [interpreter.choose(value) if isinstance(value, Choice) else value for value in ran]
    yield from bound
    classes = [value for value in bound if isinstance(value, UserClass)]
    for cls in classes:
        yield from cls.namespace.values()
    if definition.is_top_level or statement.kind not in ("def", "class", "if", "try", "with"):
        return
    inner = [*bound, *(value for cls in classes for value in cls.namespace.values())]
    for function in inner:
        if isinstance(function, UserFunction) and _holds(function, definition):
            call_with_unknowns(interpreter, function)
            yield from interpreter.kernels


def _holds(function: UserFunction, definition: Definition) -> bool:
    if not isinstance(function.node, cst.FunctionDef):
        return False
    try:
        unit, node = function.full()
    except Blocked:
        return False
    first, last = unit.lines(node)
    return first < definition.line <= last


def call_with_unknowns(interpreter: Interpreter, callee: UserFunction | BoundMethod) -> None:
    """Call a function with arguments that are not known: what it made before it could not go on is kept."""
    function = callee.function if isinstance(callee, BoundMethod) else callee
    open_ = Obstacle(f"the arguments of {function.name}() are not known", function.place)
    try:
        interpreter.call(callee, [], {}, function.place, open_)
    except (Raised, Blocked):
        return


def heuristics_around(value: Any) -> tuple[Heuristic, ...] | Unknown:
    """What the heuristics around a kernel set, in the order in which they run, each with its position."""
    found: list[Heuristic] = []
    while isinstance(value, HeuristicsValue):
        if not isinstance(value.values, dict):
            return Unknown("the heuristics are no known dict", value.place.position)
        for name, function in value.values.items():
            position = function.place.position if isinstance(function, UserFunction) else value.place.position
            found.append(Heuristic(str(name), function, position))
        value = value.kernel
    return tuple(found)
