"""What the text of launch code says before it is run: tensors' ranks, checks that stop a wrong caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from smemcheck.source.module import Statement, Unit
from smemcheck.source.walk import walk
from smemcheck.specialize.launches.ranks import Ranks, ranks_in


@dataclass(frozen=True, slots=True)
class Checks:
    """Nodes of a piece of source: comparisons that are asserted, and tests of ``if`` statements that only raise."""

    unit: Unit  # nodes are known by their identity, which holds as long as their tree lives
    asserted: frozenset[int]
    guards: frozenset[int]


class Hints:
    """The hints of every piece of source that was asked for."""

    def __init__(self) -> None:
        self._checks: dict[int, Checks] = {}
        self._ranks: dict[Unit | Statement, Ranks] = {}
        self.parameters: dict[int, Any] = {}  # what functions' texts say of their parameters, by node

    def checks(self, unit: Unit) -> Checks:
        known = self._checks.get(id(unit))
        if known is None:
            finder = _Finder()
            finder.block(unit.tree.body)
            known = Checks(unit, frozenset(finder.asserted), frozenset(finder.guards))
            self._checks[id(unit)] = known
        return known

    def ranks(self, unit: Unit) -> Ranks:
        """What the text says of tensors by their names; of those in a method, what its whole class says."""
        whole = unit.part_of or unit
        known = self._ranks.get(whole)
        if known is None:
            known = self._ranks[whole] = ranks_in(unit)
        return known


class _Finder:
    """Goes through statements, not through expressions: a visitor of libcst's would take as long as the runs."""

    def __init__(self) -> None:
        self.asserted: set[int] = set()
        self.guards: set[int] = set()

    def block(self, statements: Sequence[cst.CSTNode]) -> None:
        for node in statements:
            if isinstance(node, cst.SimpleStatementLine):
                self.block(node.body)
            elif isinstance(node, cst.Assert):
                inner = _Comparisons()
                walk(node.test, inner)
                self.asserted |= inner.found
            elif isinstance(node, cst.If):
                self._if(node)
            elif isinstance(node, cst.Try):
                for part in (node, *node.handlers, node.orelse, node.finalbody):
                    if part is not None:
                        self.block(part.body.body)
            elif isinstance(node, (cst.For, cst.While, cst.With, cst.FunctionDef, cst.ClassDef)):
                self.block(node.body.body)

    def _if(self, node: cst.If) -> None:
        last = node.body.body[-1] if node.body.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        if isinstance(last, cst.Raise) and node.orelse is None:
            self.guards.add(id(node.test))
        self.block(node.body.body)
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse)
        elif node.orelse is not None:
            self.block(node.orelse.body.body)


class _Comparisons(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()

    def visit_Comparison(self, node: cst.Comparison) -> None:
        self.found.add(id(node))
