"""Finding the sites of a file: every kernel that an autotuner is put around, however it is written.

A statement that may tune something is run in the evaluator, and the tuners that it makes are the sites. That covers
decorators, ``triton.autotune(…)(fn)``, wrappers and subclasses of the analysed source, loops, classes and functions that
make kernels when they are called: those are run with unknown arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst

from smemcheck.model import (
    Config,
    Heuristic,
    Kernel,
    Parameter,
    Position,
    Problem,
    Site,
    SiteKind,
    TargetAnswer,
    Unknown,
)
from smemcheck.source.attributes import innermost_kernel
from smemcheck.source.freeze import freeze_config, posix
from smemcheck.source.interpreter import Evaluator, Interpreter, Limits, Path, iterate
from smemcheck.source.kernels import build_kernel, describe_parameters, source_text
from smemcheck.source.module import Module, Statement, SyntaxProblem
from smemcheck.source.plain import call_with_unknowns
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    HeuristicsValue,
    Instance,
    KernelValue,
    Obstacle,
    Raised,
    TunerValue,
    UserClass,
    UserFunction,
)

_TUNES_INSIDE = re.compile(r"@[ \t]*[\w.]*tun\w*|(?<!def )\b\w*(?:autotune|tuner)\s*\(", re.IGNORECASE)


_WHEN_LAUNCHED = "<launch>"
_INSIDE = Limits(steps=100_000, paths=8)  # for functions that are called with unknown arguments


@dataclass(slots=True)
class _Found:
    """One tuner on one path, frozen while its run was alive."""

    key: tuple[Any, ...]
    kernel_name: str
    position: Position
    decorator: Position
    parameters: tuple[Parameter, ...]
    configs: tuple[Config, ...] | Unknown
    kernel: Kernel | Unknown
    names: dict[str, tuple[str, ...] | Unknown]
    heuristics: tuple[Heuristic, ...] | Unknown
    prune_configs_by: Any
    options: dict[str, Any]


@dataclass(slots=True)
class FileSites:
    """The sites of one file on one target, in source order, and what could not be read."""

    sites: list[_Found] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    consulted_target: bool = False


def find_sites(evaluator: Evaluator, module: Module) -> FileSites:
    """Every tuner that importing ``module`` makes, or that its functions would make when called."""
    found = FileSites()
    for statement in module.statements:
        if not _is_interesting(statement):
            continue
        try:
            _ask(evaluator, statement, found)
        except SyntaxProblem as problem:
            found.problems.append(
                Problem(f"the file cannot be parsed: {problem.message}", Position(module.path, problem.line))
            )
            break
    return found


def _is_interesting(statement: Statement) -> bool:
    if statement.kind in ("import", "from") or "tun" not in statement.text.lower():
        return False
    if statement.kind == "def":
        return statement.is_tuned or bool(_TUNES_INSIDE.search(statement.text))
    return bool(_TUNES_INSIDE.search(statement.text)) or _calls_a_factory(statement)


def _calls_a_factory(statement: Statement) -> bool:
    """Whether a statement calls a function of the same file that tunes something."""
    if statement.kind == "class":
        return False
    return any(
        other.defined_name in statement.mentions and other.kind == "def" and _TUNES_INSIDE.search(other.definition_text)
        for other in statement.module.statements[: statement.index]
    )


def _ask(evaluator: Evaluator, statement: Statement, found: FileSites) -> None:
    """Run a statement at import time; then, one by one, the functions and methods in it that tune something when called."""
    made = _explore(evaluator, statement, None, found)
    if not made and statement.kind == "def" and statement.is_tuned:
        made = _explore(replace(evaluator, limits=_INSIDE), statement, _WHEN_LAUNCHED, found)
    if not made and statement.kind == "def" and statement.is_tuned and "jit" in statement.decorator_text:
        made = _unknown_site(
            evaluator, statement, evaluator.paths(lambda interpreter: _run(interpreter, statement, None))
        )
    for name in _tuning_functions(statement):
        made.extend(_explore(replace(evaluator, limits=_INSIDE), statement, name, found))
    found.sites.extend(made)


def _explore(evaluator: Evaluator, statement: Statement, function: str | None, found: FileSites) -> list[_Found]:
    def question(interpreter: Interpreter) -> list[_Found]:
        _run(interpreter, statement, function)
        made = [_freeze_tuner(interpreter, tuner) for tuner in interpreter.tuners]
        return [one for one in made if one is not None]

    paths = _paths(evaluator, statement, question) if function is None else evaluator.paths(question)
    found.consulted_target = found.consulted_target or any(path.consulted_target for path in paths)
    for path in paths:
        found.notes.extend(note for note in path.notes if note not in found.notes)
    return _merge(paths)


def _paths(evaluator: Evaluator, statement: Statement, question: Callable[[Interpreter], list[_Found]]) -> list[Path]:
    """The paths of running a statement. What makes tuners is run on each path of a question anyway, and not explored before."""
    statements, key = evaluator.memory.statements, (statement.module.path, statement.index)
    if statements.known(key):
        return evaluator.paths(question)
    with statements.asking(key):
        paths = evaluator.paths(question)
    if any(path.tuners for path in paths):
        statements.put(key, None)
    return paths


def _tunes_inside(text: str) -> bool:
    return "tun" in text.lower() and _TUNES_INSIDE.search(text) is not None


def _tuning_functions(statement: Statement) -> list[str]:
    """The functions of a statement that tune something inside: its own name for a ``def``, methods for a ``class``."""
    if statement.kind == "def":
        return [statement.defined_name or ""] if _tunes_inside(statement.definition_text) else []
    if statement.kind != "class":
        return []
    pieces = re.split(r"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)", statement.definition_text, flags=re.MULTILINE)
    return [name for name, body in zip(pieces[1::2], pieces[2::2], strict=True) if _TUNES_INSIDE.search(body)]


def _unknown_site(evaluator: Evaluator, statement: Statement, paths: Sequence[Path]) -> list[_Found]:
    """A kernel whose decorators could not be evaluated: a site all the same, with the reason."""
    end = paths[-1]
    if end.obstacle is not None:
        unknown = end.obstacle.to_unknown()
    elif end.raised is not None:
        unknown = Unknown(
            f"importing the module raises {end.raised}", end.raised.place.position if end.raised.place else None
        )
    else:
        unknown = Unknown("its decorators make no tuner that smemcheck understands", statement.position)

    def question(interpreter: Interpreter) -> _Found:
        unit = statement.header
        node = unit.tree.body[0]
        assert isinstance(node, cst.FunctionDef)
        function = UserFunction(node.name.value, node, unit, statement.module, None, {}, statement)
        kernel = KernelValue(function, {}, function.place)
        tuner = TunerValue(kernel, {"configs": Obstacle(unknown.reason, unknown.position)}, function.place)
        found = _freeze_tuner(interpreter, tuner)
        assert found is not None
        return found

    path = evaluator.paths(question)[0]
    return [path.value if path.value is not None else _bare_site(statement, unknown)]


def _bare_site(statement: Statement, unknown: Unknown) -> _Found:
    """What is left when not even the signature can be evaluated: where the kernel stands, and why nothing is known of it."""
    name, line = statement.defined_name or "", statement.definition_line
    path = posix(statement.module.path)
    names: dict[str, tuple[str, ...] | Unknown] = dict.fromkeys(("key", "reset_to_zero", "restore_value"), unknown)
    decorator = Position(path, statement.position.line)
    return _Found((line, name), name, Position(path, line), decorator, (), unknown, unknown, names, unknown, None, {})


def _run(interpreter: Interpreter, statement: Statement, function: str | None) -> None:
    """Run a statement at import time; with ``function``, then call that function or method of it with unknown arguments."""
    namespace = interpreter.namespace(statement.module)
    interpreter.asked = (statement.module.path, statement.index)
    namespace.run(statement.index)
    if function is None:
        return
    interpreter.asked = (statement.module.path, -1)  # only what the function makes itself
    del interpreter.tuners[:]
    value = namespace.bound(statement.defined_name or "", statement.index)
    if function == _WHEN_LAUNCHED:
        _tune_when_launched(interpreter, value)
        return
    if isinstance(value, UserClass):
        value = value.namespace.get(function)
    if isinstance(value, UserFunction):
        call_with_unknowns(interpreter, value)


def _tune_when_launched(interpreter: Interpreter, value: Any) -> None:
    """An object around a kernel that makes its tuner at the first launch: its methods that tune are called."""
    while isinstance(value, (HeuristicsValue, TunerValue)):
        value = value.kernel
    if not isinstance(value, Instance) or not isinstance(value.cls, UserClass):
        return
    for method in value.cls.namespace.values():
        if interpreter.tuners:
            return
        if isinstance(method, UserFunction) and _TUNES_INSIDE.search(source_text(method)[0]):
            call_with_unknowns(interpreter, BoundMethod(method, value))


def _freeze_tuner(interpreter: Interpreter, tuner: TunerValue) -> _Found | None:
    kernel = innermost_kernel(tuner)
    if not isinstance(kernel, KernelValue):
        return None
    node = kernel.function.node
    place = kernel.function.place.position
    decorator = tuner.place.position
    if isinstance(node, cst.FunctionDef) and node.decorators:
        decorator = kernel.function.unit.position(node.decorators[0])
    attributes = tuner.attributes
    slice_: Kernel | Unknown
    try:
        if kernel.language == "triton":
            slice_ = build_kernel(interpreter, kernel)
            parameters = slice_.functions[0].parameters
        else:
            slice_ = Unknown("Gluon kernels are not lowered", place)
            parameters = describe_parameters(interpreter, kernel)
    except Blocked as blocked:
        parameters, slice_ = (), blocked.obstacle.to_unknown()
    names = {
        name: _names(interpreter, attributes.get(source), tuner)
        for name, source in (("key", "keys"), ("reset_to_zero", "reset_to_zero"), ("restore_value", "restore_value"))
    }
    options = {
        name: attributes[name]
        for name in ("cache_results", "use_cuda_graph", "warmup", "rep")
        if isinstance(attributes.get(name), (bool, int, float))
    }
    if attributes.get("pre_hook") is not None:
        options["pre_hook"] = True
    return _Found(
        (place.line, kernel.function.name),
        kernel.function.name,
        Position(posix(place.path), place.line, place.column),
        Position(posix(decorator.path), decorator.line, decorator.column),
        parameters,
        _configs(interpreter, tuner),
        slice_,
        names,
        _heuristics(interpreter, tuner, kernel),
        attributes.get("prune_configs_by"),
        options,
    )


def _configs(interpreter: Interpreter, tuner: TunerValue) -> tuple[Config, ...] | Unknown:
    value = tuner.attributes.get("configs")
    if isinstance(value, UserFunction):
        return Unknown("configs is a function of the launch device", value.place.position)
    try:
        elements = iterate(interpreter, value, tuner.place)
        if isinstance(elements, Obstacle):
            return elements.to_unknown()
        return tuple(freeze_config(interpreter, element, tuner.place) for element in elements)
    except Blocked as blocked:
        return blocked.obstacle.to_unknown()
    except Raised as raised:
        return Unknown(f"the list of configs raises {raised}", tuner.place.position)


def _names(interpreter: Interpreter, value: Any, tuner: TunerValue) -> tuple[str, ...] | Unknown:
    if value is None:
        return ()
    try:
        elements = iterate(interpreter, value, tuner.place)
    except Raised as raised:
        return Unknown(f"it raises {raised}", tuner.place.position)
    if isinstance(elements, Obstacle):
        return elements.to_unknown()
    found = list(elements)
    unknown = next((e for e in found if not isinstance(e, str)), None)
    if unknown is not None:
        return (
            unknown.to_unknown()
            if isinstance(unknown, Obstacle)
            else Unknown("a name is no text", tuner.place.position)
        )
    return tuple(found)


def _heuristics(interpreter: Interpreter, tuner: TunerValue, kernel: KernelValue) -> tuple[Heuristic, ...] | Unknown:
    found: list[Heuristic] = []
    for wrapper in interpreter.heuristics:
        if innermost_kernel(wrapper) is not kernel:
            continue
        if not isinstance(wrapper.values, dict):
            return (
                wrapper.values.to_unknown()
                if isinstance(wrapper.values, Obstacle)
                else Unknown("the heuristics are no dict", wrapper.place.position)
            )
        for name, function in wrapper.values.items():
            position = function.place.position if isinstance(function, UserFunction) else wrapper.place.position
            found.append(Heuristic(str(name), function, position))
    return tuple(found)


def _merge(paths: Sequence[Path]) -> list[_Found]:
    """What all paths agree on. A tuner that only some paths make is a site all the same: somebody gets it."""
    finished = [path for path in paths if path.value is not None and path.obstacle is None]
    merged: dict[tuple[Any, ...], _Found] = {}
    for path in finished:
        seen: dict[tuple[Any, ...], int] = {}
        for one in path.value:
            count = seen[one.key] = seen.get(one.key, 0) + 1
            key = (*one.key, count)
            if key not in merged:
                merged[key] = one
                continue
            known = merged[key]
            reason = _difference(path)
            if _same_configs(known.configs, one.configs) is False:
                known.configs = Unknown(f"the list depends on {reason}", known.decorator)
            if (
                isinstance(known.kernel, Kernel)
                and isinstance(one.kernel, Kernel)
                and known.kernel.digest != one.kernel.digest
            ):
                known.kernel = Unknown(f"what the kernel reads depends on {reason}", known.position)
    stopped = next((path.obstacle for path in paths if path.obstacle is not None), None)
    if stopped is not None:  # a path that could not be followed might hold another list
        for one in merged.values():
            one.configs = stopped.to_unknown()
    return list(merged.values())


def _same_configs(left: Any, right: Any) -> bool:
    return bool(left == right) if not isinstance(left, Unknown) else True


def _difference(path: Path) -> str:
    reasons = dict.fromkeys(condition.obstacle.reason for condition in path.conditions)
    return " and ".join(list(reasons)[:3]) or "something that is not known"


def make_sites(per_target: Mapping[str, FileSites], root: str) -> list[Site]:
    """Join what each target says of a file into sites: one for each tuner, with an answer for each target."""
    order: dict[tuple[Any, ...], dict[str, _Found]] = {}
    for target, found in per_target.items():
        seen: dict[tuple[Any, ...], int] = {}
        for one in found.sites:
            count = seen[one.key] = seen.get(one.key, 0) + 1
            order.setdefault((*one.key, count), {})[target] = one
    sites = []
    for answers in order.values():
        first = next(iter(answers.values()))
        by_target = {
            target: TargetAnswer(answers[target].configs, answers[target].kernel, tuple(per_target[target].notes))
            if target in answers
            else TargetAnswer(
                Unknown(f"it is not defined on {target}", first.position),
                Unknown(f"it is not defined on {target}", first.position),
            )
            for target in per_target
        }
        sites.append(
            Site(
                first.kernel_name,
                first.position,
                root,
                SiteKind.AUTOTUNE,
                first.parameters,
                by_target,
                first.names["key"],
                first.names["reset_to_zero"],
                first.names["restore_value"],
                first.heuristics,
                first.prune_configs_by,
                first.options,
                first.decorator,
            )
        )
    return sorted(sites, key=lambda site: site.position.line)
