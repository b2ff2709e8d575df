"""Other assumptions where none of a specialisation's configs compiles: tried at the end, on the first that was refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from smemcheck.compiler import Answer
from smemcheck.config import Settings
from smemcheck.model import Failure, Footprint, Job, Outcome, Report, Specialization, Unknown
from smemcheck.rows import Row, guarded, rows_of

_MOST_RETRIES = 6  # further assumptions that are tried for one specialisation


def retried(
    report: Report,
    rows: list[Row],
    first: Answer,
    project: Any,
    settings: Settings,
    ask: Callable[[Sequence[Row]], Answer],
) -> tuple[Report, list[Row], Answer]:
    """The report, its rows and what the compiler says, with other assumptions where none of a specialisation's configs compiles.

    ``first`` is what it said of the rows as they are, ``ask`` asks it more.
    Each further assumption is tried on the first config that was refused. A specialisation for which nothing compiles stays.
    """
    from smemcheck.specialize.retry import next_assumptions

    outcomes, version, notes = first
    refused = _refused(report, rows, outcomes)
    if not refused:
        return report, rows, first
    known = {(one.site, one.specialization) for one in report.specializations}
    pending: dict[int, Iterator[Specialization]] = {}
    for index, (_, failure) in refused.items():
        one = report.specializations[index]
        pending[index] = next_assumptions(report.sites[one.site], one.specialization, failure)
    changed: dict[int, Specialization] = {}
    further: set[int] = set()
    for _ in range(_MOST_RETRIES):
        attempts: list[tuple[int, Specialization, Row]] = []
        for index, others in pending.items():
            site = report.specializations[index].site
            other = next((other for other in others if (site, other) not in known), None)
            if other is not None:
                known.add((site, other))
                attempts += [(index, other, row) for row in _again(report, refused[index][0], other, project)]
        if not attempts:
            break
        answers, _, more = ask([row for _, _, row in attempts])
        notes = tuple(dict.fromkeys((*notes, *more)))
        outcomes |= answers
        for index, other, row in attempts:
            outcome = answers.get(row.job) if isinstance(row.job, Job) else None
            if isinstance(outcome, Footprint):
                changed[index] = other
                del pending[index]
            elif isinstance(outcome, Failure) and outcome.message != refused[index][1].message and index not in further:
                further.add(index)  # it got further: the next attempt starts from here
                next_ones = next_assumptions(report.sites[row.site], other, outcome)
                pending[index] = itertools.chain(next_ones, pending[index])
    if not changed:
        return report, rows, (outcomes, version, notes)
    specialized = [
        replace(one, specialization=changed.get(index, one.specialization))
        for index, one in enumerate(report.specializations)
    ]
    report = replace(report, specializations=tuple(specialized))
    fresh: dict[int, list[Row]] = {}
    for index, other in changed.items():
        site = report.specializations[index].site
        fresh[index] = list(rows_of(report.sites[site], other, site, index, report.targets, project, settings))
    more_outcomes, _, more = ask([row for made in fresh.values() for row in made if row.job not in outcomes])
    placed: list[Row] = []
    for row in rows:
        if row.specialization not in changed:
            placed.append(row)
        elif row.specialization in fresh:
            placed += fresh.pop(row.specialization)
    return report, placed, (outcomes | more_outcomes, version, tuple(dict.fromkeys((*notes, *more))))


def _refused(report: Report, rows: Sequence[Row], outcomes: Mapping[Job, Outcome]) -> dict[int, tuple[Row, Failure]]:
    """Specialisations of which the compiler refuses every config for what was assumed: the first such row, and why."""
    from smemcheck.specialize.retry import may_retry

    found: dict[int, tuple[Row, Failure] | None] = {}
    for row in rows:
        if row.specialization is None or not isinstance(row.job, Job):
            continue
        outcome = outcomes.get(row.job)
        specialization = report.specializations[row.specialization].specialization
        if not isinstance(outcome, Failure) or not may_retry(specialization, outcome):
            found[row.specialization] = None
        else:
            found.setdefault(row.specialization, (row, outcome))
    return {index: first for index, first in found.items() if first is not None}


def _again(report: Report, row: Row, specialization: Specialization, project: Any) -> Iterator[Row]:
    """The row under another specialisation, unless something in it cannot be bound then."""
    from smemcheck.specialize import bind

    site = report.sites[row.site]
    bound = guarded(site, bind, site, specialization, row.config, row.target, project)
    if isinstance(row.job, Job) and not isinstance(bound, Unknown):
        yield replace(row, job=replace(row.job, specialization=bound))
