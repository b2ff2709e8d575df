"""Checks of arguments in launch code: an example that fails one is at fault itself, and takes what is asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import libcst as cst

from smemcheck.source.expressions import EXPRESSIONS, compare_one
from smemcheck.source.values import External, Frame, Obstacle, Place
from smemcheck.specialize.launches import torch_calls
from smemcheck.specialize.launches.alternatives import threshold
from smemcheck.specialize.launches.tensors import CallersDtype, Tensor, dtype_of

if TYPE_CHECKING:
    from smemcheck.specialize.launches.engine import ExampleInterpreter


def tested(self: ExampleInterpreter, node: cst.BaseExpression, frame: Frame) -> Any:
    """An expression that may be a check of the arguments: examples pass what asks for sizes, dtypes and devices."""
    checks = self.hints.checks(frame.unit)
    if id(node) in checks.guards:
        inner = node.expression if isinstance(node, cst.UnaryOperation) else None
        if isinstance(inner, cst.Comparison) and isinstance(node.operator, cst.Not):  # type: ignore[attr-defined]
            held = _follow(self, inner, frame, wanted=True)
            return self.derive(held, "not") if isinstance(held, Obstacle) else not held
        result = _follow(self, node, frame, wanted=False)
        if result is not False and _ABOUT_SIZES.search(cst.Module([]).code_for_node(node)):
            return False
        return result
    if type(node) is cst.Comparison:
        if id(node) in checks.asserted:
            return _follow(self, node, frame, wanted=True)
        sizes = threshold(self, node, frame)
        if sizes is not None:
            self.thresholds[sizes] = None
        return _compared(self, node, frame)
    return EXPRESSIONS[type(node)](self, node, frame)


def _compared(self: ExampleInterpreter, node: cst.Comparison, frame: Frame) -> Any:
    """A comparison; element by element where a tensor is compared with a tensor or a number."""
    operator = type(node.comparisons[0].operator)
    if len(node.comparisons) != 1 or operator not in _ELEMENTWISE:
        return EXPRESSIONS[cst.Comparison](self, node, frame)
    left, right = self.evaluate(node.left, frame), self.evaluate(node.comparisons[0].comparator, frame)
    tensors = [value for value in (left, right) if isinstance(value, Tensor)]
    if tensors and all(isinstance(value, (Tensor, int, float)) for value in (left, right)):
        return Tensor(tensors[0].cls, {}, External("torch.bool"), torch_calls.broadcast(tensors))
    return compare_one(self, operator, left, right, Place(frame.unit, node))


_ELEMENTWISE = (cst.Equal, cst.NotEqual, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_ABOUT_SIZES = re.compile(r"shape|size|dim|stride|contiguous|dtype|device|is_cuda|%|len\(|numel|rank|capability")


def _follow(self: ExampleInterpreter, node: cst.BaseExpression, frame: Frame, *, wanted: bool) -> Any:
    """A check that should come out as ``wanted``: tensors whose dtype the code has not said take the one it asks for."""
    if not isinstance(node, cst.Comparison):
        return EXPRESSIONS[type(node)](self, node, frame)
    parts = [node.left, *(target.comparator for target in node.comparisons)]
    operators = {type(target.operator) for target in node.comparisons}
    if operators <= ({cst.Equal, cst.Is} if wanted else {cst.NotEqual, cst.IsNot}):
        owners = [
            self.evaluate(part.value, frame)
            for part in parts
            if isinstance(part, cst.Attribute) and part.attr.value == "dtype"
        ]
        others = [part for part in parts if not (isinstance(part, cst.Attribute) and part.attr.value == "dtype")]
        if owners and all(isinstance(owner, Tensor) for owner in owners) and len(others) <= 1:
            fixed = [owner.dtype for owner in owners if not owner.assumed]
            asked = dtype_of(self.evaluate(others[0], frame)) if others else (fixed or [owners[0].dtype])[0]
            if asked is not None:
                for owner in owners:
                    if owner.assumed:
                        owner.dtype, owner.assumed = asked, not others
                same = all(_alike(owner.dtype, asked) for owner in owners)
                return same if wanted else not same
    result = EXPRESSIONS[type(node)](self, node, frame)
    if result is not wanted and isinstance(result, bool):
        _solve(self, node, frame, wanted=wanted)
    if not wanted and result is True and operators <= {cst.NotEqual, cst.LessThan, cst.GreaterThan}:
        left = self.evaluate(node.left, frame)
        return isinstance(left, (bool, str)) or not isinstance(left, (int, float, tuple))
    if (
        wanted
        and result is False
        and operators <= {cst.Equal, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.In}
    ):
        return True
    return result


_NEGATED: dict[type[cst.CSTNode], type[cst.CSTNode]] = {
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.NotEqual: cst.Equal,
    cst.NotIn: cst.In,
}


def _solve(self: ExampleInterpreter, node: cst.Comparison, frame: Frame, *, wanted: bool) -> None:
    """Note which size would have passed a check of one number against known ones."""
    if len(node.comparisons) != 1:
        return
    written = type(node.comparisons[0].operator)
    operator = written if wanted else _NEGATED.get(written)
    have = self.evaluate(node.left, frame)
    limit = self.evaluate(node.comparisons[0].comparator, frame)
    if not isinstance(have, int) or isinstance(have, bool):
        return
    size: int | None = None
    if operator is cst.In and isinstance(limit, (list, tuple, set, frozenset, range)):
        numbers = [n for n in limit if isinstance(n, int) and n > 0]
        size = max((n for n in numbers if n <= have), default=min(numbers, default=have))
    elif isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        if operator in (cst.LessThanEqual, cst.GreaterThanEqual, cst.Equal):
            size = limit
        elif operator is cst.LessThan:
            size = 1 << max((limit - 1).bit_length() - 1, 0)
        elif operator is cst.GreaterThan:
            size = 1 << limit.bit_length()
    if size is not None and size != have:
        self.solved.setdefault(have, size)


def _alike(left: Any, right: Any) -> bool:
    """Whether two dtypes are one, without a look at it where they are the caller's one choice."""
    if isinstance(left, CallersDtype) and isinstance(right, CallersDtype) and left.group == right.group:
        return True
    return bool(left == right)
