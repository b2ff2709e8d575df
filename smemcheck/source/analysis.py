"""The evaluator's set-up for a run: one project, and one view of it for each target."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from smemcheck.config import Settings
from smemcheck.distributions import version_of
from smemcheck.model import Config, Position, Site, Target, Unknown, Value
from smemcheck.source.freeze import freeze, freeze_config
from smemcheck.source.interpreter import Evaluator, Interpreter, Path, World, iterate
from smemcheck.source.models import Models
from smemcheck.source.project import Project
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    ConfigValue,
    External,
    Instance,
    Obstacle,
    Partial,
    Place,
    UserFunction,
)


class Analysis:
    """The analysed source as seen on each target. The handle that later stages ask questions of."""

    def __init__(self, targets: Sequence[Target], settings: Settings, roots: Sequence[str] = ()) -> None:
        """``roots`` are the scanned paths."""
        versions, root = _versions()
        self.project = Project(Models(root), roots)
        self.evaluators = {
            target.name: Evaluator(self.project, World(target, dict(settings.environment), versions))
            for target in targets
        }
        self.launches: dict[str, Any] = {}  # by scanned root: what specialize.launches found, so that it is found once
        self.found_in: dict[str, set[str]] = {}  # by file, the other files for whose kernels it makes tuners
        self.notes: Any = None  # of what was found for earlier and later runs, see specialize.launches.noted

    def call(self, function: Any, arguments: Mapping[str, Any], target: Target) -> Value | Unknown:
        """What a function of the source (a heuristic) gives for named arguments, passed to it as one dict.

        Arguments are model values; :class:`Unknown` ones stay unknown. Unknown when paths disagree or it raises.
        """
        if not isinstance(function, UserFunction):
            return Unknown("the heuristic is no function that can be evaluated")

        def question(interpreter: Interpreter) -> Value | Unknown:
            place = Place(function.unit, function.node)
            values = {name: thaw(value) for name, value in arguments.items()}
            return freeze(interpreter.call(function, [values], {}, place))

        paths = self.evaluators[target.name].paths(question)
        position = function.place.position
        answers = [_answer(path, position) for path in paths]
        unknown = next((a for a in answers if isinstance(a, Unknown)), None)
        if unknown is not None:
            return unknown
        first: Value = answers[0]
        if any(type(a) is not type(first) or a != first for a in answers[1:]):
            return Unknown(f"it depends on {paths[-1].conditions[0].obstacle.reason}", position)
        return first

    def prune(
        self, site: Site, configs: Sequence[Config], arguments: Mapping[str, Any], target: Target
    ) -> tuple[Config, ...] | Unknown:
        """What the author's ``early_config_prune`` leaves of ``configs`` for a launch with the named ``arguments``.

        A config whose fate is not known stays in, so the answer holds every config that some path keeps, in the order of
        the first path that keeps it; configs that the pruner makes itself are part of it. Unknown when the pruner cannot
        be evaluated at all. Without a pruner the list is returned as it is.
        """
        pruner = site.prune_configs_by
        if isinstance(pruner, dict):
            pruner = pruner.get("early_config_prune")
        if pruner is None:
            return tuple(configs)
        if isinstance(pruner, Obstacle):
            return pruner.to_unknown()
        place = _place_of(pruner)
        if place is None:
            return Unknown("the pruner is no function that can be evaluated", site.decorator)

        def question(interpreter: Interpreter) -> tuple[Config, ...]:
            # Which arguments the launch passes by keyword is not known here, so both hold all of them.
            named = {name: thaw(value) for name, value in arguments.items()}
            given = [_config_value(config, place) for config in configs]
            keywords = {p.name: named[p.name] for p in site.parameters if p.name in named}
            left = interpreter.call(pruner, [given, named], keywords if _takes_keywords(pruner) else {}, place)
            elements = iterate(interpreter, left, place)
            if isinstance(elements, Obstacle):
                raise Blocked(elements)
            return tuple(freeze_config(interpreter, element, place) for element in elements)

        kept: dict[Config, None] = {}
        for path in self.evaluators[target.name].paths(question):
            answer = _answer(path, place.position)
            if isinstance(answer, Unknown):
                return answer
            kept.update(dict.fromkeys(answer))
        return tuple(kept)


def _answer(path: Path, position: Position) -> Any:
    """What one path says: its value, or why it has none."""
    if path.raised is not None:
        return Unknown(f"it raises {path.raised}", position)
    return path.obstacle.to_unknown() if path.obstacle is not None else path.value


def _place_of(function: Any) -> Place | None:
    while isinstance(function, (Partial, BoundMethod)):
        function = function.function
    return function.place if isinstance(function, UserFunction) else None


def _takes_keywords(function: Any) -> bool:
    while isinstance(function, (Partial, BoundMethod)):
        function = function.function
    return isinstance(function, UserFunction) and function.node.params.star_kwarg is not None


def _config_value(config: Config, place: Place) -> ConfigValue:
    return ConfigValue(
        {name: thaw(value) for name, value in config.kwargs},
        config.num_warps,
        config.num_stages,
        config.num_ctas,
        config.maxnreg,
        Obstacle("a pre_hook is not called here") if config.has_pre_hook else None,
        None,
        _FixedPlace(config.position, place),
    )


class _FixedPlace(Place):
    """The place of a config that was read before: it keeps the position it had."""

    def __init__(self, position: Position | None, place: Place) -> None:
        super().__init__(place.unit, place.node)
        self._position = position

    @property
    def position(self) -> Position:
        return self._position or super().position


def thaw(value: Any) -> Any:
    """A model value as the evaluator's: dtypes become ``tl`` dtypes, unknowns become obstacles."""
    from smemcheck.model import AttributeValue, ConstexprValue, Dtype
    from smemcheck.source.freeze import dtype_path

    if isinstance(value, Unknown):
        return Obstacle(value.reason, value.position)
    if isinstance(value, Dtype):
        return External(dtype_path(value.name))
    if isinstance(value, AttributeValue):
        return External(value.path)
    if isinstance(value, ConstexprValue):
        return Instance(External("triton.language.constexpr"), {"value": thaw(value.value)})
    if isinstance(value, tuple):
        return tuple(thaw(v) for v in value)
    return value


def _versions() -> tuple[dict[str, str], str | None]:
    """The versions that analysed code would see, and the folder of the installed Triton; nothing is imported."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    versions.update((name, found) for name in ("triton", "torch") if (found := version_of(name)) is not None)
    spec = importlib.util.find_spec("triton")
    root = os.path.dirname(spec.origin) if spec is not None and spec.origin else None
    return versions, root
