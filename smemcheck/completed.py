"""Which kernels are done while the compiler still works on others, so that their tables need not wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from smemcheck.model import Footprint, Job, Outcome, Report, Result, Site

if TYPE_CHECKING:
    from smemcheck.rows import Row

Watch: TypeAlias = Callable[[Report, Site], None]
"""Called with a site of which all is known, and the report as it is without the other sites' results."""


class Completed:
    """Tells ``watch`` of a site once nothing that is still to come can change what is said of it.

    That is when all its configs are answered and each of its specialisations has a config that compiles: for one of which
    all are refused, other assumptions are tried at the end (:mod:`smemcheck.specialize.retry`).
    """

    def __init__(self, result: Callable[[Row, dict[Job, Outcome]], Result], watch: Watch | None) -> None:
        self._result, self._watch = result, watch
        self._report: Report | None = None
        self._rows: dict[int, list[Row]] = {}
        self._sites_of: dict[Job, set[int]] = {}
        self._left: Counter[int] = Counter()
        self._outcomes: dict[Job, Outcome] = {}

    def expect(self, report: Report, rows: Sequence[Row]) -> None:
        """Wait for the answers to the rows, which are all of their sites; the report has these sites and those before."""
        if self._watch is None:
            return
        self._report = report
        asked: dict[int, set[Job]] = {}
        for row in rows:
            self._rows.setdefault(row.site, []).append(row)
            if isinstance(row.job, Job):
                asked.setdefault(row.site, set()).add(row.job)
        for site, jobs in asked.items():
            waiting = [job for job in jobs if job not in self._outcomes]
            for job in waiting:
                self._sites_of.setdefault(job, set()).add(site)
            self._left[site] = len(waiting)
            if not waiting:
                self._tell(site)

    def note(self, job: Job, outcome: Outcome) -> None:
        """Take in what the compiler says of a job."""
        if self._watch is None:
            return
        self._outcomes[job] = outcome
        for site in sorted(self._sites_of.pop(job, ())):
            self._left[site] -= 1
            if not self._left[site]:
                self._tell(site)

    def _tell(self, site: int) -> None:
        compiled: dict[int | None, bool] = {}
        for row in self._rows[site]:
            if isinstance(row.job, Job):
                fits = isinstance(self._outcomes[row.job], Footprint)
                compiled[row.specialization] = compiled.get(row.specialization, False) or fits
        if self._watch is not None and self._report is not None and all(compiled.values()):
            results = tuple(self._result(row, self._outcomes) for row in self._rows[site])
            self._watch(replace(self._report, results=results), self._report.sites[site])
