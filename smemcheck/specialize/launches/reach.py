"""Which files the answers about a kernel's launches can depend on: those that mention it, or what leads to it.

Wider than the search for entries (:mod:`.entries`), which goes the same ways but stops sooner.
"""

from __future__ import annotations

from collections.abc import Iterable

from smemcheck.config import Settings
from smemcheck.source.analysis import Analysis
from smemcheck.specialize.launches.entries import Callers
from smemcheck.specialize.launches.sites import launches_of

_MOST_STEPS = 8  # one more than the search for entries goes


class Reach:
    """The graph from a name to the names of top-level definitions and aliases whose statements mention it."""

    def __init__(self, callers: Callers) -> None:
        self._graph: dict[str, set[str]] = {}
        self._files: dict[str, set[str]] = {}
        for mentioned, places in callers.mentions.items():
            if mentioned.startswith("__") and mentioned not in callers.defined:  # __all__ leads everywhere
                continue
            self._files[mentioned] = {statement.module.path for statement in places}
            for statement in places:
                name = callers.bound.get(statement)
                if name and name != mentioned and not (statement.kind == "simple" and name.startswith("__")):
                    self._graph.setdefault(mentioned, set()).add(name)

    def of(self, kernels: Iterable[str]) -> tuple[set[str], set[str]]:
        """Files that mention one of the kernels or what leads to one, and all these names."""
        last = names = set(kernels)
        for _ in range(_MOST_STEPS):
            last = set().union(*(self._graph.get(name, ()) for name in last)) - names
            names = names | last
        return set().union(*(self._files.get(name, ()) for name in names)), names


def reach(analysis: Analysis, root: str, settings: Settings, kernels: Iterable[str]) -> tuple[set[str], set[str]]:
    """:meth:`Reach.of` over the files below a scanned path; the graph is built once."""
    if root not in analysis.reaches:
        analysis.reaches[root] = Reach(launches_of(analysis, root, settings).callers)
    found: tuple[set[str], set[str]] = analysis.reaches[root].of(kernels)
    return found
