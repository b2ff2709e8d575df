"""What the text of launch code says before it is run: tensors' ranks, checks that stop a wrong caller."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from smemcheck.source.module import Unit
from smemcheck.source.walk import walk


@dataclass(frozen=True, slots=True)
class UnitHints:
    """For names of tensors in a piece of source, the rank and dimensions' names that unpacking or strides give them; asserted comparisons."""

    unit: Unit
    ranks: dict[str, tuple[int, tuple[str, ...]]]
    asserted: frozenset[int]
    guards: frozenset[int]  # tests of `if` statements that only raise


class Hints:
    """The hints of every piece of source that was asked for."""

    def __init__(self) -> None:
        self._known: dict[int, UnitHints] = {}
        self.parameters: dict[int, Any] = {}  # what functions' texts say of their parameters, by node

    def of(self, unit: Unit) -> UnitHints:
        known = self._known.get(id(unit))
        if known is None:
            known = self._known[id(unit)] = _read(unit)
        return known


_INDEXED = re.compile(r"(?<![\w.])(\w+)\.(?:shape\[|stride\(|size\()\s*(\d+)\s*[\])]")


def _read(unit: Unit) -> UnitHints:
    finder = _Finder()
    finder.block(unit.tree.body)
    indices: dict[str, set[int]] = {}
    for name, index in _INDEXED.findall(unit.text):
        indices.setdefault(name, set()).add(int(index))
    for name, used in indices.items():
        rank = max(used) + 1
        if name not in finder.ranks and rank >= 2 and rank - 2 in used:
            finder.ranks[name] = (rank, ())
    return UnitHints(unit, finder.ranks, frozenset(finder.asserted), frozenset(finder.guards))


class _Finder:
    """Goes through statements, not through expressions: a visitor of libcst's would take as long as the runs."""

    def __init__(self) -> None:
        self.ranks: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.asserted: set[int] = set()
        self.guards: set[int] = set()

    def block(self, statements: Sequence[cst.CSTNode]) -> None:
        for node in statements:
            if isinstance(node, cst.SimpleStatementLine):
                self.block(node.body)
            elif isinstance(node, cst.Assign):
                self._assign(node)
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

    def _assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if isinstance(target.target, (cst.Tuple, cst.List)):
                self._unpacked([e.value for e in target.target.elements], target.target.elements, node.value)

    def _unpacked(self, names: list[cst.BaseExpression], elements: Any, value: cst.BaseExpression) -> None:
        if any(isinstance(e, cst.StarredElement) for e in elements):
            return
        texts = [n.value if isinstance(n, cst.Name) else "" for n in names]
        owner = _shape_owner(value)
        if owner is not None:
            self.ranks.setdefault(owner, (len(texts), tuple(texts)))
        elif isinstance(value, (cst.Tuple, cst.List)):
            starred = [i for i, e in enumerate(value.elements) if isinstance(e, cst.StarredElement)]
            for at in starred[:1]:
                owner = _shape_owner(value.elements[at].value)
                rank = len(texts) - (len(value.elements) - 1)
                if owner is not None and len(starred) == 1:
                    self.ranks.setdefault(owner, (rank, tuple(texts[at : at + rank])))
                elif owner is None and len(starred) == 1:
                    inner = value.elements[at].value
                    if isinstance(inner, cst.Subscript):
                        self._sliced(inner, rank)

    def _sliced(self, node: cst.Subscript, count: int) -> None:
        owner = _shape_owner(node.value)
        piece = node.slice[0].slice
        if owner is not None and isinstance(piece, cst.Slice) and isinstance(piece.lower, cst.UnaryOperation):
            self.ranks.setdefault(owner, (max(count, 2), ()))


class _Comparisons(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()

    def visit_Comparison(self, node: cst.Comparison) -> None:
        self.found.add(id(node))


def _shape_owner(node: cst.BaseExpression) -> str | None:
    """``x`` of ``x.shape`` and ``x.size()``."""
    if (
        isinstance(node, cst.Call)
        and not node.args
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("size", "stride")
    ):
        node = node.func
    elif not (isinstance(node, cst.Attribute) and node.attr.value == "shape"):
        return None
    return node.value.value if isinstance(node.value, cst.Name) else None
