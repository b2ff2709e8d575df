"""Jobs that recorded lines ask for, known as soon as a file is read: the compiler need not wait for the last file.

Which site a line is about is decided when all are known. Where a line names a kernel's very place there is hardly a doubt, so
what it asks is put to the compiler at once. If it turns out to be about another site, its answers are of no use, and no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from smemcheck.config import Settings
from smemcheck.model import Job, Site, Target
from smemcheck.rows import Specialized, jobs_of, specialized

if TYPE_CHECKING:
    from smemcheck.specialize.recorded import Recorded, RecordedSpecializations
    from smemcheck.specialize.recorded_sites import RecordedSites


class Foreseen:
    """What the recorded ``files`` are likely to say of sites under ``roots``; ``ask`` is told of the jobs."""

    def __init__(
        self,
        files: Sequence[RecordedSpecializations],
        roots: Sequence[str],
        settings: Settings,
        targets: Sequence[Target],
        ask: Callable[[Iterable[Job]], None],
    ) -> None:
        self._files, self._roots, self._settings, self._targets, self._ask = files, roots, settings, targets, ask
        self._beside: RecordedSites | None = None
        self._known: dict[int, tuple[Site, list[tuple[Recorded, ...]], Specialized]] = {}

    @property
    def names_configs(self) -> bool:
        """Whether lines say which configs are asked for; then these are all."""
        return any(file.names_configs for file in self._files)

    def look(self, project: Any, sites: Sequence[Site]) -> None:
        """Ask what lines with the place of one of these sites want to know; first of all those of kernels without a tuner."""
        if not self._files:
            return
        if self._beside is None:
            self._foresee(project, self._sites_beside(project).likely())
        self._foresee(project, sites)

    def beside(self, project: Any, known: Sequence[Site]) -> tuple[Site, ...]:
        """The sites that there are because of lines, besides the ``known`` ones."""
        return self._sites_beside(project).beside(known) if self._files else ()

    def of(self, site: Site, files: Sequence[RecordedSpecializations]) -> Specialized | None:
        """What was found of the site, if it is still the same and these are the lines that are about it."""
        known = self._known.pop(id(site), None)
        if known is None or known[0] is not site or known[1] != [file.matching(site) for file in files]:
            return None
        return known[2]

    def _foresee(self, project: Any, sites: Iterable[Site]) -> None:
        for site in sites:
            lines = [file.matching(site) for file in self._files]
            if not any(lines) or any(line.definition != site.position.line for found in lines for line in found):
                continue
            found = specialized(site, project, self._settings, self._targets, self._files)
            self._known[id(site)] = site, lines, found
            self._ask(jobs_of(found.rows))

    def _sites_beside(self, project: Any) -> RecordedSites:
        if self._beside is None:
            from smemcheck.specialize.recorded_sites import RecordedSites

            self._beside = RecordedSites(project, self._roots, self._targets, self._settings, self._files)
        return self._beside
