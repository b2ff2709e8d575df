"""Which files the answers about a kernel's launches can depend on: those that mention it, or what leads to it.

Wider than the search for entries (:mod:`.entries`), which goes the same ways but stops sooner.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from smemcheck.config import Settings
from smemcheck.source.analysis import Analysis
from smemcheck.source.graph import Graph
from smemcheck.source.module import Module, Statement
from smemcheck.specialize.launches.sites import launches_of

_MOST_STEPS = 8  # one more than the search for entries goes
_ALIAS = re.compile(r"(\w+)\s*=[^=]")


class Reach:
    """The graph from a name to the names of top-level definitions and aliases whose statements mention it."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._graph: Graph[str] = Graph()
        self._files: dict[str, set[str]] = defaultdict(set)
        statements = [(module, statement) for module in modules for statement in module.statements]
        bound = {name for _, statement in statements if (name := _bound(statement))}
        for module, statement in statements:
            name = _bound(statement)
            for mentioned in statement.mentions & bound:
                self._files[mentioned].add(module.path)
                if name and name != mentioned:
                    self._graph.add_edge(mentioned, name)

    def of(self, kernels: Iterable[str]) -> tuple[set[str], set[str]]:
        """Files that mention one of the kernels or what leads to one, and all these names."""
        names = set(kernels)
        for kernel in list(names):
            names |= self._graph.reachable(kernel, _MOST_STEPS)
        return set().union(*(self._files.get(name, ()) for name in names)), names


def reach(analysis: Analysis, root: str, settings: Settings, kernels: Iterable[str]) -> tuple[set[str], set[str]]:
    """:meth:`Reach.of` over the files below a scanned path; the graph is built once."""
    if root not in analysis.reaches:
        analysis.reaches[root] = Reach(launches_of(analysis, root, settings).callers.modules)
    found: tuple[set[str], set[str]] = analysis.reaches[root].of(kernels)
    return found


def _bound(statement: Statement) -> str | None:
    if statement.kind in ("def", "class"):
        return statement.defined_name
    match = _ALIAS.match(statement.text) if statement.kind == "simple" else None
    return match[1] if match and not match[1].startswith("__") else None
