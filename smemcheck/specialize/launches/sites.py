"""Kernels without an autotuner as sites of their own: their configs are the options that their launches give."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from smemcheck.config import Settings
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
from smemcheck.source.interpreter import Interpreter
from smemcheck.source.kernels import build_kernel, describe_parameters
from smemcheck.source.module import Module, Statement
from smemcheck.source.values import Blocked, HeuristicsValue, KernelValue, Raised, UserFunction
from smemcheck.specialize.launches.search import Launches, Recorded

_JIT = re.compile(r"@[\w.]*jit\b")
_TUNES = re.compile(r"tun", re.IGNORECASE)


def launches_of(project: Analysis, root: str, settings: Settings) -> Launches:
    """What the launches under a scanned path say, found once."""
    found = project.launches.get(root)
    if found is None:
        target = next(iter(project.evaluators))
        found = project.launches[root] = Launches(project, target, root, settings.exclude, settings.respect_gitignore)
    return found


def launch_sites(
    project: Analysis, roots: Sequence[str], targets: Sequence[Target], settings: Settings, known: Sequence[Site]
) -> tuple[Site, ...]:
    """Every kernel that is launched and that no autotuner is put around. ``known`` are the autotuned ones."""
    seen = {(site.position.path, site.position.line) for site in known}
    found: list[Site] = []
    for root in dict.fromkeys(roots):
        launches = launches_of(project, root, settings)
        for module in launches.callers.modules:
            for statement in module.statements:
                key = (posix(module.path), statement.definition_line)
                if key in seen or not _is_plain_kernel(launches, module, statement):
                    continue
                seen.add(key)
                site = _site(project, launches, root, targets, module, statement)
                if site is not None:
                    found.append(site)
    return tuple(found)


def _is_plain_kernel(launches: Launches, module: Module, statement: Statement) -> bool:
    if statement.kind != "def" or not _JIT.search(statement.decorator_text) or _TUNES.search(statement.decorator_text):
        return False
    name = statement.defined_name or ""
    launch = re.compile(rf"\b{re.escape(name)}\s*(\[|\.run\b|\.warmup\b|\)\s*\[)")
    return any(launch.search(other.text) for other in launches.callers.mentioning(name) if other is not statement)


def _site(
    project: Analysis, launches: Launches, root: str, targets: Sequence[Target], module: Module, statement: Statement
) -> Site | None:
    name = statement.defined_name or ""
    recorded = launches.of(module.path, name, statement.definition_line)
    if not recorded:
        return None
    configs = tuple(dict.fromkeys(config for config in map(config_of, recorded) if config is not None))
    if not configs:
        return None
    answers: dict[str, TargetAnswer] = {}
    described: tuple[tuple[Parameter, ...], Any] | None = None
    for target in targets:
        paths = project.evaluators[target.name].paths(lambda interpreter: _describe(interpreter, module, name))
        value = next((path.value for path in paths if isinstance(path.value, tuple)), None)
        if value is None:
            reason = next((path.obstacle.to_unknown() for path in paths if path.obstacle is not None), None)
            answers[target.name] = TargetAnswer(
                configs, reason or Unknown("its definition cannot be evaluated", statement.position)
            )
            continue
        answers[target.name] = TargetAnswer(configs, value[1])
        described = described or (value[0], value[2])
    if described is None:
        return None
    position = Position(posix(module.path), statement.definition_line, 1)
    return Site(
        name,
        position,
        root,
        SiteKind.LAUNCH,
        described[0],
        answers,
        heuristics=described[1],
        decorator=statement.position,
    )


def _describe(
    interpreter: Interpreter, module: Module, name: str
) -> tuple[tuple[Parameter, ...], Kernel | Unknown, Any] | None:
    try:
        outer = interpreter.namespace(module).lookup(name)
    except (KeyError, Raised):
        return None
    kernel = innermost_kernel(outer)
    if not isinstance(kernel, KernelValue) or kernel.language != "triton" or kernel.kind != "jit":
        return None
    try:
        slice_: Kernel | Unknown = build_kernel(interpreter, kernel)
    except Blocked as blocked:
        slice_ = blocked.obstacle.to_unknown()
    return describe_parameters(interpreter, kernel), slice_, _heuristics(outer)


def _heuristics(value: Any) -> tuple[Heuristic, ...] | Unknown:
    """What the heuristics around a kernel set, innermost first, each with its position."""
    found: list[Heuristic] = []
    while isinstance(value, HeuristicsValue):
        if not isinstance(value.values, dict):
            return Unknown("the heuristics are no known dict", value.place.position)
        for name, function in value.values.items():
            position = function.place.position if isinstance(function, UserFunction) else value.place.position
            found.append(Heuristic(str(name), function, position))
        value = value.kernel
    return tuple(found)


def config_of(recorded: Recorded) -> Config | None:
    """The options of a launch; ``None`` when they are not known. Defaults: ``CUDAOptions`` in triton/backends/nvidia/compiler.py."""
    options: Mapping[str, Any] = recorded.launch.options
    numbers = {
        name: options.get(name, default) for name, default in (("num_warps", 4), ("num_stages", 3), ("num_ctas", 1))
    }
    if not all(isinstance(value, int) for value in numbers.values()):
        return None
    maxnreg = options.get("maxnreg")
    return Config(**numbers, maxnreg=maxnreg if isinstance(maxnreg, int) else None, position=recorded.launch.position)
