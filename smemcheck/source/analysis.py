"""The evaluator's set-up for a run: one project, and one view of it for each target."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from smemcheck.config import Settings
from smemcheck.model import Target, Unknown, Value
from smemcheck.source.freeze import freeze
from smemcheck.source.interpreter import Evaluator, Interpreter, World
from smemcheck.source.models import Models
from smemcheck.source.project import Project
from smemcheck.source.values import External, Instance, Obstacle, Place, UserFunction


class Analysis:
    """The analysed source as seen on each target. The handle that later stages ask questions of."""

    def __init__(self, targets: Sequence[Target], settings: Settings) -> None:
        versions, root = _versions()
        self.project = Project(Models(root))
        self.evaluators = {
            target.name: Evaluator(self.project, World(target, dict(settings.environment), versions)) for target in targets}
        self.launches: dict[str, Any] = {}  # by scanned root: what specialize.launches found, so that it is found once

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
        answers = [path.value if path.raised is None and path.obstacle is None else Unknown(
            f"it raises {path.raised}" if path.raised is not None else path.obstacle.reason if path.obstacle else "it is not known",
            function.place.position) for path in paths]
        first = answers[0]
        if isinstance(first, Unknown) or any(type(a) is not type(first) or a != first for a in answers[1:]):
            unknown = next((a for a in answers if isinstance(a, Unknown)), None)
            return unknown or Unknown(f"it depends on {paths[-1].conditions[0].obstacle.reason}", function.place.position)
        return first


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
    for name in ("triton", "torch"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    spec = importlib.util.find_spec("triton")
    root = os.path.dirname(spec.origin) if spec is not None and spec.origin else None
    return versions, root
