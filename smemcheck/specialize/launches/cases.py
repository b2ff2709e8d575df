"""What the tests and benchmarks of a repository call its functions with: cases, chosen so that a few show all values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from smemcheck.source.values import Obstacle, Sweep, UserClass, UserFunction

Case: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""By the name of a function, or of each method of a class, the values of its parameters."""

MOST_CASES = 16  # of one test, that are run
_MOST_WEIGHED = 256  # combinations that are compared with each other
_TEST_FILE = re.compile(
    r"(^|/)(tests?|benchmarks?|bench|perf)/|(^|/)(test|bench|benchmark)_[^/]*\.py$|_(test|bench|benchmark)\.py$"
)


def is_test(path: str, root: str) -> bool:
    """Whether a file holds tests or benchmarks, by its name and by the folders between ``root`` and it."""
    return _TEST_FILE.search(path.removeprefix(root).lstrip("/")) is not None


def cases_of(value: Any) -> list[Case]:
    """The cases of a test function, or of a class of test methods: the first ones of each method, then the next ones."""
    if isinstance(value, UserFunction):
        return [{value.name: values} for values in _of_function(value)]
    if not isinstance(value, UserClass):
        return []
    methods = {n: _of_function(one) for n, one in value.namespace.items() if isinstance(one, UserFunction)}
    most = max(map(len, methods.values()), default=0)
    return [{name: found[i] for name, found in methods.items() if i < len(found)} for i in range(most)]


def _of_function(function: UserFunction) -> list[Mapping[str, Any]]:
    """What a test is called with: combinations of the rows of its sweeps, those first that show most values together.

    Empty when it has no sweep, or one without a known row.
    """
    sweeps = [sweep for sweep in function.sweeps if sweep.names]
    rows = [_known(sweep) for sweep in sweeps]
    if not sweeps or not all(rows):
        return []
    return [
        {
            name: value
            for sweep, row in zip(sweeps, chosen, strict=True)
            for name, value in zip(sweep.names, row, strict=True)
        }
        for chosen in _spread(rows)
    ]


def _known(sweep: Sweep) -> Sequence[tuple[Any, ...]]:
    return [row for row in sweep.rows if not any(isinstance(value, Obstacle) for value in row)]


def _spread(rows: Sequence[Sequence[tuple[Any, ...]]]) -> list[tuple[tuple[Any, ...], ...]]:
    """At most :data:`MOST_CASES` combinations, one row of each sweep; each one has the most pairs of rows that none before had."""
    total = math.prod(map(len, rows))
    step = max(1, total // _MOST_WEIGHED)
    while step > 1 and any(len(column) > 1 and math.gcd(step, len(column)) > 1 for column in rows):
        step += 1  # a step that shares a factor with a column would show only some of its rows
    indices = itertools.islice(itertools.product(*(range(len(column)) for column in rows)), 0, None, step)
    left = list(itertools.islice(indices, _MOST_WEIGHED))
    seen: set[tuple[tuple[int, int], ...]] = set()
    chosen: list[tuple[tuple[Any, ...], ...]] = []
    while left and len(chosen) < MOST_CASES:
        best = max(left, key=lambda one: len(_pairs(one) - seen))
        left.remove(best)
        seen |= _pairs(best)
        chosen.append(tuple(column[i] for column, i in zip(rows, best, strict=True)))
    return chosen


def _pairs(indices: Sequence[int]) -> set[tuple[tuple[int, int], ...]]:
    """Which row of which sweep: each alone and each two together."""
    placed = list(enumerate(indices))
    return {(one,) for one in placed} | set(itertools.combinations(placed, 2))
