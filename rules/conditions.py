"""Under which specialisations something holds, in as few words as tell them from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from smemcheck.model import Dtype, Specialization, Value
from smemcheck.rules.wording import value_text

_LONGEST = 3  # facts joined by "and"; more explain nothing

Facts: TypeAlias = "Mapping[str, Value]"
"""What a specialisation says of each parameter: the type of an argument, the value of a constexpr."""

_TYPE_FLAG = re.compile(r"FP\d|BF16|F16|F32|FLOAT|HALF|DTYPE|PRECISION|TF32", re.IGNORECASE)  # flags that follow a type

_ABSENT = "(no such parameter)"


def condition_text(holds: Sequence[Specialization], fails: Sequence[Specialization]) -> str:
    """Under which of the judged specialisations something holds: ``HEAD_DIM ≥ 128``; empty when under all.

    The fewest facts that are true of these and not of the others, else alternatives of such facts, else only how many.
    """
    if not fails:
        return ""
    inside, outside = [facts_of(s) for s in holds], [facts_of(s) for s in fails]
    return _joint(inside, outside) or _alternatives(inside, outside) or _number(len(holds), len(holds) + len(fails))


def deciding(
    holds: Sequence[Specialization], fails: Sequence[Specialization]
) -> dict[str, tuple[frozenset[Value], frozenset[Value]]]:
    """The parameters whose value or type alone tells the one group from the other, with the values in each."""
    held, failed = [facts_of(s) for s in holds], [facts_of(s) for s in fails]
    found = {}
    for name in _names(held):
        here = frozenset(facts.get(name) for facts in held)
        there = frozenset(facts.get(name) for facts in failed)
        if None not in here | there and not here & there:
            found[name] = (here, there)
    return found


def is_choice_of_type(holds: Sequence[Specialization], fails: Sequence[Specialization]) -> bool:
    """Whether a caller can choose element types with which it does not hold, everything else being equal.

    Types that nothing in the source decides are assumed one by one, and each is judged.
    """
    return bool(holds) and all(any(_differs_in_assumed_types(one, other) for other in fails) for one in holds)


def _differs_in_assumed_types(one: Specialization, other: Specialization) -> bool:
    assumed = {assumption.parameter for assumption in one.assumptions}
    ours, theirs = facts_of(one), facts_of(other)
    different = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    types = [name for name in different if _is_type(ours.get(name)) and _is_type(theirs.get(name))]
    flags = [name for name in different if isinstance(ours.get(name), bool) and _TYPE_FLAG.search(name)]
    return bool(types) and assumed.issuperset(different) and len(types) + len(flags) == len(different)


def _is_type(value: Value) -> bool:
    return isinstance(value, Dtype) or (isinstance(value, str) and value.startswith(("*", "tensordesc")))


def facts_of(specialization: Specialization) -> Facts:
    """What a specialisation says of each parameter, constexprs first."""
    types = {name: str(kind) for name, kind in specialization.signature if kind != "constexpr"}
    return {**dict(specialization.constexprs), **types}


def _joint(inside: Sequence[Facts], outside: Sequence[Facts]) -> str:
    """Facts that together are true of all inside and of none outside."""
    facts = [
        _fact(name, [f.get(name, _ABSENT) for f in inside], [f.get(name, _ABSENT) for f in outside])
        for name in _names(inside)
    ]
    excluded: dict[frozenset[int], str] = {}
    # What grows explains more than what shrinks: a smaller tile is rarely the reason that something does not fit.
    for text, numbers in sorted(facts, key=lambda fact: " ≤ " in fact[0]):
        if numbers:  # parameters that move together, such as the pointers of one dtype, are named once
            excluded.setdefault(numbers, text)
    everything = frozenset(range(len(outside)))
    for length in range(1, _LONGEST + 1):
        for chosen in combinations(excluded, length):
            if frozenset().union(*chosen) == everything:
                return " and ".join(excluded[numbers] for numbers in chosen)
    return ""


def _alternatives(inside: Sequence[Facts], outside: Sequence[Facts]) -> str:
    """One joint condition for each value of some parameter."""
    found = []
    for name in _names(inside):
        groups: dict[Value, list[Facts]] = {}
        for facts in inside:
            groups.setdefault(facts.get(name, _ABSENT), []).append(facts)
        if len(groups) == 2:
            parts = [_joint(group, outside) for group in groups.values()]
            if all(parts):
                found.append(" or ".join(parts))
    return min(found, key=len, default="")


def _fact(name: str, here: Sequence[Value], there: Sequence[Value]) -> tuple[str, frozenset[int]]:
    """The narrowest fact about a parameter that is true of all here, and which of the others it is not true of."""
    values = set(here)
    if _ABSENT in values:
        return "", frozenset()
    ours, theirs = _numbers(values), _numbers(there)
    if len(ours) == len(values) and len(theirs) == len(there):
        low, high = min(ours), max(ours)
        below = frozenset(index for index, value in enumerate(theirs) if value < low)
        above = frozenset(index for index, value in enumerate(theirs) if value > high)
        if below and not above:
            return f"{name} ≥ {low}", below
        if above and not below:
            return f"{name} = 1" if low == high == 1 else f"{name} ≤ {high}", above
    other = frozenset(index for index, value in enumerate(there) if value not in values)
    if len(values) > 1 and None not in values and all(there[index] is None for index in other):
        return f"a {name} that is not None", other
    texts = sorted(v if isinstance(v, str) and _is_type(v) else value_text(v) for v in values)
    return f"{name} = {' or '.join(texts)}", other


def _numbers(values: Iterable[Value]) -> list[int | float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _names(facts: Iterable[Facts]) -> list[str]:
    return list(dict.fromkeys(name for one in facts for name in one))


def _number(some: int, total: int) -> str:
    return f"{some} of {total} specialisations"
