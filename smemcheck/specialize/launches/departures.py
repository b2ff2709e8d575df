"""The plans of example runs: the first ones, those that depart from one in a single thing, and how unlikely each is."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import replace

from smemcheck.specialize.launches.alternatives import sizes_beyond
from smemcheck.specialize.launches.engine import ExampleInterpreter
from smemcheck.specialize.launches.plans import Plan
from smemcheck.specialize.launches.tensors import Sizes

_SINGLE = "torch.float32"
_TESTED = -1.0  # what a launch of a test costs: it is a real one
NUDGE = 0.001  # a cost that decides between launches of the same cost
_WIDE = Sizes(dimension=128)
_ONE = Sizes(batch=1)

COSTS = {
    "optional": 0.9,
    "needed": 0.1,  # nothing is launched without it
    "absent": 2.4,
    "index": 1.0,
    "flag": 1.5,
    "output": 1.6,
    "text": 1.4,
    "value": 1.1,
    "one": 2.0,
    "dtype": 2.2,
    "condition": 3.0,
    "form": 1.0,
    "packed": 0.8,
    "bits": 0.8,
    "all optional": 0.7,
    "all flags": 2.2,
    "wide": 0.9,
    "batch of one": 1.5,
    "one head": 2.6,
    "one step": 3.0,
    "single": 0.7,
    "other index": 0.6,
    "narrow": 1.6,
    "mixed": 2.2,
    "other label": 3.0,
    "table": 0.8,
    "other size": 2.3,
    "other input": 0.6,
}
"""How unlikely each departure from the plainest example is: the negative logarithm of its odds, roughly."""

_TOGETHER: tuple[tuple[frozenset[str], str, float], ...] = (
    (frozenset({"index"}), "single", 0.7),  # sequences of several lengths are packed in models, which are 16-bit
    (frozenset({"optional", "all optional"}), "output", -1.0),  # who gives a first state asks for the last one
)
"""Departures that go with another one: one of these, the other one, and what is added to the cost."""

FIRST_PLANS: tuple[Plan, ...] = (
    Plan(),
    Plan(sizes=_WIDE, moves=("wide",)),
    Plan(optional=True, moves=("all optional",)),
    Plan(optional=True, flags=True, sizes=_WIDE, moves=("all optional", "all flags")),
    Plan(indices=True, sizes=_ONE, moves=("index",)),
    Plan(optional=True, indices=True, sizes=_ONE, moves=("all optional", "index")),
    Plan(sizes=_ONE, moves=("batch of one",)),
    Plan(sizes=Sizes(heads=1), moves=("one head",)),
    Plan(sizes=Sizes(sequence=1), moves=("one step",)),
)
"""The first example runs. From each, single choices are changed, the likeliest first."""

FIRST_INPUTS: tuple[Plan, ...] = (Plan(), Plan(sizes=Sizes(sequence=1), moves=("other input",)))
"""The first runs of classes that make modules: of many rows and of one, as the modules are called with."""


def cost_of(plan: Plan) -> float:
    """How unlikely a plan is."""
    tested = 0.0 if plan.case is None else _TESTED + plan.case * NUDGE
    together = sum(more for some, other, more in _TOGETHER if other in plan.moves and not some.isdisjoint(plan.moves))
    return sum(COSTS[move] for move in plan.moves) + together + tested


def other_dtypes(plan: Plan, interpreter: ExampleInterpreter) -> list[tuple[Plan, bool]]:
    """The same plan with other dtypes of tensors, and whether this run holds for it because it never looked at them."""
    found: list[tuple[Plan, bool]] = []
    groups, seen = interpreter.dtype_groups, interpreter.seen_dtypes
    alternatives: list[tuple[str, dict[str, str], str]] = []
    if plan.dtype != _SINGLE and (plan.case is None or not groups.isdisjoint(("float", "side", "wide"))):
        alternatives.append(("float", {"dtype": _SINGLE}, "single"))
    if "index" in groups and plan.index == "torch.int32":
        alternatives.append(("index", {"index": "torch.int64"}, "other index"))
    if "wide" in groups and plan.wide == _SINGLE and plan.dtype != _SINGLE:
        alternatives.append(("wide", {"wide": plan.dtype}, "narrow"))
    if "side" in groups and not plan.side and plan.dtype != _SINGLE:
        alternatives.append(("side", {"side": _SINGLE}, "mixed"))
    if "label" in groups and plan.label == "torch.int64":
        alternatives.append(("label", {"label": "torch.int32"}, "other label"))
    for size in range(1, len(alternatives) + 1):
        for chosen in itertools.combinations(alternatives, size):
            names = {group for group, _, _ in chosen}
            if ("float" in names and not names.isdisjoint(("wide", "side"))) or (
                size > 1 and not names.isdisjoint(seen)
            ):
                continue
            changes: dict[str, str] = {}
            for _, change, _ in chosen:
                changes.update(change)
            moves = (*plan.moves, *(move for _, _, move in chosen))
            found.append((replace(plan, moves=moves, **changes), names.isdisjoint(seen)))  # type: ignore[arg-type]
    return found


def beyond(plan: Plan, interpreter: ExampleInterpreter, builds: bool) -> Iterator[Plan]:
    """The plainest plan with sizes on the other side of what the code compares them with."""
    move = "other input" if builds else "other size"
    if set(plan.moves) <= {move} and interpreter.launches:
        for sizes in sizes_beyond(plan.sizes, interpreter.thresholds):
            yield replace(plan, sizes=sizes, moves=(move,))


def effective_part(plan: Plan, kinds: set[str]) -> Hashable:
    """What of a plan can make a difference where code makes these kinds of choices."""
    flags = plan.flags and not kinds.isdisjoint(("flag", "text", "value"))
    optional = plan.optional and not kinds.isdisjoint(("optional", "output"))
    dtypes = plan.dtype, plan.side, plan.wide, plan.index, plan.label
    return plan.case, frozenset(plan.choices), dtypes, plan.sizes, optional, plan.indices and "index" in kinds, flags


def flips(plan: Plan, interpreter: ExampleInterpreter) -> Iterator[Plan]:
    """The plans that differ from this one in one choice that its run made."""
    fixed = {key for key, _ in plan.choices}
    for choice in interpreter.choices.values():
        if choice.kind not in COSTS or choice.key in fixed:
            continue
        for other in range(choice.count):
            if other != choice.taken:
                sizes = replace(plan.sizes, batch=1) if choice.kind == "index" and other else plan.sizes
                move = "one" if choice.kind == "value" and other == 2 else choice.kind
                if choice.kind == "optional" and not interpreter.launches:
                    move = "needed"
                choices = (*plan.choices, (choice.key, other))
                yield replace(plan, choices=choices, sizes=sizes, moves=(*plan.moves, move))
