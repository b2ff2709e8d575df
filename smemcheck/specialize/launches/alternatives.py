"""What else a launch may get: other entries of a table of known configs, and sizes on the other side of a condition.

A fixed launch often takes its config from a table, by a mode, a device, or the measured size nearest to the caller's. Which
entry it takes is the caller's affair, so every one is an alternative.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from smemcheck.source.values import ConfigValue, Frame, Instance, Obstacle, Place
from smemcheck.specialize.launches.tensors import Sizes

if TYPE_CHECKING:
    from smemcheck.specialize.launches.engine import ExampleInterpreter

_MOST_ENTRIES = 32
_MOST_SIZES = 4
_LARGEST = 1 << 20
_MEASURED = re.compile(r"\bshape\b|\bsize\(|\bnumel\b|\bmin\(|\bmax\(|\bbisect|\bnext_power_of_2|\bnearest|\bclosest")
NOTHING = object()


def entry_of_table(
    interpreter: ExampleInterpreter, table: dict[Any, Any], key: Any, written: cst.CSTNode, frame: Frame
) -> Any:
    """The entry of a table that this run takes, where the code leaves it to the caller; :data:`NOTHING` where it does not."""
    if not 1 < len(table) <= _MOST_ENTRIES or isinstance(key, slice):
        return NOTHING
    entries = list(table.values())
    if isinstance(key, Obstacle):
        taken = 0
    else:
        at = [index for index, known in enumerate(table) if known == key]
        configs = all(isinstance(entry, (dict, tuple, list, ConfigValue, Instance)) for entry in entries)
        if at and not (configs and _is_measured(written, frame)):
            return NOTHING
        taken = at[0] if at else 0
    picked = interpreter.pick(("table", Place(frame.unit, written).key), "table", len(entries), taken)
    return entries[picked]


def _is_measured(written: cst.CSTNode, frame: Frame) -> bool:
    """Whether a key comes from the sizes of the example, by the text of the function it stands in."""
    text = cst.Module([]).code_for_node(written)
    if _MEASURED.search(text):
        return True
    if not text.isidentifier() or frame.function is None:
        return False
    assigned = re.findall(rf"^[ \t]+{re.escape(text)}\b[^=\n]*=([^=].*)$", frame.function.text(), re.MULTILINE)
    return any(_MEASURED.search(value) for value in assigned)


def threshold(interpreter: ExampleInterpreter, node: cst.Comparison, frame: Frame) -> tuple[int, int] | None:
    """The number of the example and the one that a comparison sets against it."""
    if len(node.comparisons) != 1 or not isinstance(node.left, (cst.Name, cst.Attribute, cst.Subscript)):
        return None
    target = node.comparisons[0]
    ordered = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
    if not isinstance(target.operator, ordered) or not isinstance(target.comparator, (cst.Integer, cst.Name)):
        return None
    value = interpreter.evaluate(node.left, frame)
    limit = interpreter.evaluate(target.comparator, frame)
    if (
        isinstance(limit, bool)
        or isinstance(value, bool)
        or not isinstance(value, int)
        or not isinstance(limit, int)
        or not 0 < limit < _LARGEST
    ):
        return None
    return value, limit


def sizes_beyond(sizes: Sizes, thresholds: Iterable[tuple[int, int]]) -> Iterator[Sizes]:
    """Sizes with which the comparisons come out the other way."""
    found: dict[Sizes, None] = {}
    for value, limit in thresholds:
        wanted = limit // 2 if value > limit else 2 * limit
        named = next((n for n in ("sequence", "dimension", "batch", "heads") if getattr(sizes, n) == value), None)
        if named is not None:
            found[replace(sizes, **{named: max(wanted, 1)})] = None
        elif value > 0:
            found[replace(sizes, sequence=max(1, sizes.sequence * wanted // value))] = None
    yield from [one for one in found if one != sizes][:_MOST_SIZES]
