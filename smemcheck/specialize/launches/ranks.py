"""Ranks of tensors by what a text unpacks and indexes of their shapes.

The text is read by Python's own parser, piece by piece: of a large class it takes a tenth of the time that its tree would.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from smemcheck.source.members import alone, methods_of, outlined
from smemcheck.source.module import Unit

Ranks: TypeAlias = Mapping[str, tuple[int, tuple[str, ...]]]
"""By the name of a tensor, its rank and its dimensions' names, none of them where they are not told."""

_UNPACKED = re.compile(r"\.\s*(?:shape|size|stride)\b")
_INDEXED = re.compile(r"(?<![\w.])(\w+)\.(?:shape\[|stride\(|size\()\s*(\d+)\s*[\])]")


def ranks_in(unit: Unit) -> Ranks:
    """What is said in a piece of source, and in the rest of the class that it is part of."""
    text = unit.text if unit.part_of is None else unit.part_of.text
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for piece in _pieces(unit, text):
        try:
            statements = ast.parse(piece).body if _UNPACKED.search(piece) else []
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # only a newer Python can read it
            continue
        _block(statements, found)
    indices: dict[str, set[int]] = {}
    for name, index in _INDEXED.findall(text):
        indices.setdefault(name, set()).add(int(index))
    for name, used in indices.items():
        rank = max(used) + 1
        if name not in found and rank >= 2 and rank - 2 in used:
            found[name] = (rank, ())
    return found


def _pieces(unit: Unit, text: str) -> Iterator[str]:
    if unit.part_of is None:
        yield text
        return
    methods = list(methods_of(text, len(unit.part_of.decorator_text)))
    yield from (alone(text, method) for method in methods)
    yield outlined(text, methods)


def _block(statements: Sequence[ast.AST], found: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    for node in statements:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, (ast.Tuple, ast.List)):
                    _unpacked(target.elts, node.value, found)
        elif isinstance(node, ast.If):
            _block([*node.body, *node.orelse], found)
        elif isinstance(node, ast.Try):
            handled = [one for handler in node.handlers for one in handler.body]
            _block([*node.body, *handled, *node.orelse, *node.finalbody], found)
        elif isinstance(
            node,
            (
                ast.For,
                ast.AsyncFor,
                ast.While,
                ast.With,
                ast.AsyncWith,
                ast.FunctionDef,
                ast.AsyncFunctionDef,
                ast.ClassDef,
            ),
        ):
            _block(node.body, found)


def _unpacked(targets: Sequence[ast.expr], value: ast.expr, found: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    if any(isinstance(one, ast.Starred) for one in targets):
        return
    names = tuple(one.id if isinstance(one, ast.Name) else "" for one in targets)
    owner = _owner(value)
    if owner is not None:
        found.setdefault(owner, (len(names), names))
    elif isinstance(value, (ast.Tuple, ast.List)):
        starred = [(at, one.value) for at, one in enumerate(value.elts) if isinstance(one, ast.Starred)]
        if len(starred) != 1:
            return
        at, inner = starred[0]
        rank = len(names) - (len(value.elts) - 1)
        owner = _owner(inner)
        if owner is not None:
            found.setdefault(owner, (rank, names[at : at + rank]))
        elif isinstance(inner, ast.Subscript):
            _sliced(inner, rank, found)


def _sliced(node: ast.Subscript, count: int, found: dict[str, tuple[int, tuple[str, ...]]]) -> None:
    owner = _owner(node.value)
    piece = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if owner is not None and isinstance(piece, ast.Slice) and isinstance(piece.lower, ast.UnaryOp):
        found.setdefault(owner, (max(count, 2), ()))


def _owner(node: ast.expr) -> str | None:
    """``x`` of ``x.shape`` and ``x.size()``."""
    called = isinstance(node, ast.Call) and not node.args and not node.keywords
    if isinstance(node, ast.Call) and called:
        node = node.func
    if not isinstance(node, ast.Attribute) or node.attr not in (("size", "stride") if called else ("shape",)):
        return None
    return node.value.id if isinstance(node.value, ast.Name) else None
