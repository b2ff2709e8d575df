"""A report as bytes and back. Only the model's own classes are ever made from such bytes, whoever wrote them."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import IO, Any

from smemcheck import model
from smemcheck.model import Failure, Footprint, Heuristic, Outcome, Position, Report, Result, Site

_MODULE = model.__name__


class _Reader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], lines: Mapping[str, Callable[[int], int]]) -> None:
        super().__init__(file)
        self._lines = lines

    def find_class(self, module: str, name: str) -> Any:
        if self._lines and (module, name) == (_MODULE, "Position"):
            return self._position
        found = getattr(model, name, None) if module == _MODULE else None
        if isinstance(found, type) and found.__module__ == _MODULE:
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a report")

    def _position(self, path: str, line: int, column: int) -> Position:
        moved = self._lines.get(path)
        return Position(path, moved(line) if moved else line, column)


class _Writer(pickle.Pickler):
    """Writes dataclasses as a call of their class: reading that is about twice as fast as setting each slot."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=5)
        classes = (one for one in vars(model).values() if isinstance(one, type) and dataclasses.is_dataclass(one))
        self.dispatch_table = {kind: _reducing(kind) for kind in classes}


def _reducing(kind: type) -> Callable[[Any], tuple[type, tuple[Any, ...]]]:
    """What says how an object of a dataclass is made: the class, and the values of its fields."""
    names = [field.name for field in dataclasses.fields(kind)]
    if len(names) == 1:  # then a getter gives no tuple
        return lambda value: (kind, (getattr(value, names[0]),))
    values = attrgetter(*names)
    return lambda value: (kind, values(value))


def dumps(report: Report) -> bytes:
    """The report without what belongs to the run that made it: closures of the evaluator, whether an answer was kept.

    Raises ``pickle.PicklingError``, ``TypeError`` or ``AttributeError`` when something in it cannot be written.
    """
    shared: dict[Any, Any] = {}

    def same(value: Any) -> Any:
        """The first of all equal objects: equal ones are written once. The type tells True from 1."""
        return shared.setdefault((type(value), value), value)

    def kept(outcome: Outcome | None) -> Any:
        if isinstance(outcome, Footprint | Failure) and not outcome.cached:
            outcome = dataclasses.replace(outcome, cached=True)
        return same(outcome)

    def shortened(result: Result) -> Result:
        outcome, verdict = kept(result.outcome), same(result.verdict)
        if outcome is result.outcome and verdict is result.verdict:
            return result
        return dataclasses.replace(result, outcome=outcome, verdict=verdict)

    results = tuple(map(shortened, report.results))
    sites = tuple(_without_closures(site) for site in report.sites)
    file = io.BytesIO()
    _Writer(file).dump(dataclasses.replace(report, results=results, sites=sites))
    return file.getvalue()


def loads(data: bytes, lines: Mapping[str, Callable[[int], int]] | None = None) -> Report:
    """The report; ``lines`` tell by file where what stood on a line stands now. Raises ``pickle.UnpicklingError``, or whatever damaged bytes lead to."""
    report = _Reader(io.BytesIO(data), lines or {}).load()
    if not isinstance(report, Report):
        raise pickle.UnpicklingError("no report")
    return report


def _without_closures(site: Site) -> Site:
    heuristics = site.heuristics
    if isinstance(heuristics, tuple):
        heuristics = tuple(Heuristic(one.parameter, None, one.position) for one in heuristics)
    pruned_by = None if site.prune_configs_by is None else True
    return dataclasses.replace(site, heuristics=heuristics, prune_configs_by=pruned_by)
