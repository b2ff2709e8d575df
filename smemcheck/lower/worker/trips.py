"""How often a loop of the TTGIR runs at most, as far as its bounds say it: what LLVM may know of it too.

A bound is a sum of unknown numbers with factors, and a constant. ``min`` gives several such sums for an upper bound, each of
which holds; ``max`` for a lower one.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from .ttgir import Operation, Value

_DEPTH = 12
_MOST_FORMS = 6
_SAME = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"})
_SMALLER = {"arith.minsi": "upper", "arith.minui": "upper", "arith.maxsi": "lower", "arith.maxui": "lower"}

_Form = Tuple[Tuple[Tuple[int, int], ...], int]  # ((index of a value, factor), …), constant


def most_trips(loop: Operation) -> Optional[int]:
    """An upper bound of a ``scf.for``'s iterations; ``None`` when the bounds do not tell."""
    if len(loop.bounds) != 3 or any(bound is None for bound in loop.bounds):
        return None
    lower, upper, step = (bound for bound in loop.bounds if bound is not None)
    stride = _constant(step)
    if stride is None or stride <= 0:
        return None
    distances = [
        high[1] - low[1] for high in _forms(upper, "upper", 0) for low in _forms(lower, "lower", 0) if high[0] == low[0]
    ]
    return max(0, -(-min(distances) // stride)) if distances else None


def _constant(value: Value) -> Optional[int]:
    operation = value.operation
    match = (
        re.match(r" (-?\d+) :", operation.text)
        if operation is not None and operation.name == "arith.constant"
        else None
    )
    return int(match.group(1)) if match else None


def _forms(value: Value, side: str, depth: int) -> List[_Form]:
    """Sums that the value is equal to, or that bound it on this side."""
    number = _constant(value)
    if number is not None:
        return [((), number)]
    itself: List[_Form] = [(((value.index, 1),), 0)]
    operation = value.operation
    operands = operation.operands if operation is not None else []
    if operation is None or depth > _DEPTH or not operands:
        return itself
    name = operation.name
    if name in _SAME:
        return _forms(operands[0], side, depth + 1)
    if len(operands) != 2:
        return itself
    left, right = operands
    if name in _SMALLER:
        both = _forms(left, side, depth + 1) + _forms(right, side, depth + 1)
        return both[:_MOST_FORMS] if _SMALLER[name] == side else itself
    if name == "arith.addi":
        pairs = [(a, b) for a in _forms(left, side, depth + 1) for b in _forms(right, side, depth + 1)]
        return [_sum(a, b, 1) for a, b in pairs][:_MOST_FORMS]
    if name == "arith.subi":
        other = "lower" if side == "upper" else "upper"
        pairs = [(a, b) for a in _forms(left, side, depth + 1) for b in _forms(right, other, depth + 1)]
        return [_sum(a, b, -1) for a, b in pairs][:_MOST_FORMS]
    factor = _constant(right)
    if name == "arith.muli" and factor is not None and factor > 0:
        return [_sum(((), 0), form, factor) for form in _forms(left, side, depth + 1)]
    if name in ("arith.remsi", "arith.remui") and factor is not None and side == "upper":
        return [*itself, ((), abs(factor) - 1)]
    return itself


def _sum(left: _Form, right: _Form, factor: int) -> _Form:
    terms: Dict[int, int] = dict(left[0])
    for index, count in right[0]:
        terms[index] = terms.get(index, 0) + factor * count
    return tuple(sorted((index, count) for index, count in terms.items() if count)), left[1] + factor * right[1]
