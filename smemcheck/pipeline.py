"""The whole program on one screen: source → specialize → lower → rules, and a :class:`~smemcheck.model.Report` at the end.

Stages are imported where they are used, so that printing a version costs nothing and a missing stage breaks one call only.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import smemcheck
from smemcheck.compiler import Compiler, Lower, Progress, installed_triton
from smemcheck.completed import Completed, Watch
from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.model import (
    Job,
    OtherTriton,
    Position,
    Problem,
    Report,
    Result,
    Site,
    SpecializedSite,
    Target,
    Unknown,
)
from smemcheck.retried import retried
from smemcheck.rows import Row, jobs_of, result_of, specialized

if TYPE_CHECKING:
    from smemcheck.foreseen import Foreseen

_COLLECTED = 20_000, 20, 100  # objects made, and collections of them, before the next generation is looked at too


@dataclass(frozen=True, slots=True)
class Reading:
    """The report as far as the source says it, with the autotuned sites; the scanned files; what answers further questions."""

    report: Report
    files: tuple[str, ...]
    project: Any


def check(
    paths: Sequence[str],
    settings: Settings,
    progress: Progress | None = None,
    lower: Lower | None = None,
    watch: Watch | None = None,
) -> Report:
    """Judge every config of every kernel under the paths. ``lower`` stands in for the compiler in tests.

    ``watch`` is told of kernels as they are done, of none where several Tritons are asked.

    Raises :class:`~smemcheck.errors.UsageError` for input that cannot be used; anything else becomes part of the report.
    """
    store = None if lower else _report_store(paths, settings)
    whole: Report | None = store.load() if store else None
    if whole:
        return whole
    from smemcheck import rules
    from smemcheck.foreseen import Foreseen
    from smemcheck.parts import apart_from_lines, launches_of_parts, notes_of, outlines_of, parts_of, with_kept
    from smemcheck.specialize.recorded import read_recorded

    recorded = [read_recorded(path) for path in settings.specializations]
    targets = _targets(paths, settings)
    # What is judged besides what recorded lines name depends on all of them, so then no kernel's part stands alone.
    has_parts = all(file.names_configs for file in recorded)
    kept, lines = apart_from_lines(store.kept() if store and has_parts else None, recorded)
    pythons = _interpreters(settings)
    completed = Completed(lambda row, known: result_of(row, known, rules.judge), None if pythons[1:] else watch)
    with Compiler(settings, pythons[0], progress, lower) as compiler:
        if kept is None:
            compiler.start(paths, targets, recorded)
        with compiler.inquiry(completed.note) as inquiry:

            def ask(report: Report, made: Sequence[Row]) -> None:
                completed.expect(report, made)
                inquiry.add(jobs_of(made))

            without = kept.parts if kept else ()
            foreseen = Foreseen(lines, paths, settings, targets, inquiry.add)
            reading = _read(paths, settings, targets, without, foreseen)
            if store and not recorded:
                reading.project.notes = notes_of(kept)
            report, rows = _specialized(reading, paths, settings, lines, without, ask, foreseen)
            first = inquiry.end()
        project = reading.project
        report, rows, first = retried(
            report, rows, first, project, settings, lambda asked: compiler.ask(jobs_of(asked), completed.note)
        )
    answers = [first]
    for python in pythons[1:]:
        with Compiler(settings, python, progress, lower) as compiler:
            answers.append(compiler.ask(jobs_of(rows)))
    results = [tuple(result_of(row, outcomes, rules.judge) for row in rows) for outcomes, _, _ in answers]
    report = replace(
        _with_heuristics(report, rows),
        triton=answers[0][1] or None,
        results=results[0],
        notes=(*report.notes, *dict.fromkeys(note for _, _, notes in answers for note in notes)),
        others=_others(pythons, [version for _, version, _ in answers], results),
    )
    report = rules.doubted(with_kept(report, kept, reading.files, recorded))
    report = replace(report, findings=rules.findings(report, settings))
    if store:
        parts = {} if not has_parts else parts_of(report, reading.files, paths, project, settings, kept)
        outlines, launches = outlines_of(parts, project, kept), launches_of_parts(parts, project, kept)
        used, listed = project.project.dependencies()
        if kept:
            used, listed = [*used, *kept.files], [*listed, *kept.folders]
        store.save(report, used, listed, parts, outlines, launches)
    return report


def sites(paths: Sequence[str], settings: Settings) -> Report:
    """What the source says: kernels and their configs for each target. Nothing is lowered."""
    from smemcheck import rules

    reading = _read(paths, settings, _targets(paths, settings))
    found = list(_sites(reading, paths, settings))
    report = replace(
        reading.report,
        sites=tuple(one for one in found if isinstance(one, Site)),
        problems=(*reading.report.problems, *(one for one in found if isinstance(one, Problem))),
    )
    return replace(report, findings=rules.findings(report, settings))


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """While source is read, most of what is made stays: the collector would go over all of it at every quarter more.

    It does not go over what was there before, modules and what an earlier report says.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    is_first = not gc.get_freeze_count()
    if is_first:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_first:
            gc.unfreeze()


def _targets(paths: Sequence[str], settings: Settings) -> tuple[Target, ...]:
    """What is judged for. Raises :class:`~smemcheck.errors.UsageError` for unknown ones, and for paths that are not there."""
    from smemcheck.rules.devices import DEFAULT_TARGETS, resolve_target

    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"{path}: no such file or directory")
    return tuple(dict.fromkeys(resolve_target(name) for name in settings.targets or DEFAULT_TARGETS))


@_collecting_seldom()
def _read(
    paths: Sequence[str],
    settings: Settings,
    targets: tuple[Target, ...],
    kept: Collection[str] = (),
    foreseen: Foreseen | None = None,
) -> Reading:
    """The autotuned sites, without those of ``kept`` files, and all else that the report says of the source."""
    from smemcheck.source import read_sites
    from smemcheck.source.pins import read_pins

    reading = read_sites(paths, targets, settings, kept, foreseen.look if foreseen else None)
    pins, files = read_pins(paths)
    reading.project.project.consulted.update(dict.fromkeys(files))
    report = Report(
        smemcheck=smemcheck.__version__,
        triton=installed_triton(),
        targets=targets,
        sites=reading.sites,
        specializations=(),
        results=(),
        findings=(),
        problems=reading.problems,
        files=len(reading.files),
        roots=tuple(Path(path).resolve().as_posix() for path in paths),
        pins=pins,
    )
    return Reading(report, reading.files, reading.project)


def _sites(
    reading: Reading,
    paths: Sequence[str],
    settings: Settings,
    kept: Collection[str] = (),
    foreseen: Foreseen | None = None,
) -> Iterator[Site | Problem]:
    """All sites as they are found: the autotuned ones, those that are launched without, those that recorded lines name."""
    found, project, targets = reading.report.sites, reading.project, reading.report.targets
    with_launches = settings.launches and not (foreseen and foreseen.names_configs)
    if with_launches:
        from smemcheck.specialize import configured

        found = configured(project, settings, found)
    yield from found
    if with_launches:
        from smemcheck.specialize import launch_sites

        for one in launch_sites(project, paths, targets, settings, found, kept):
            found += (one,) if isinstance(one, Site) else ()
            yield one
    if foreseen:
        yield from foreseen.beside(project, found)


@_collecting_seldom()
def _specialized(
    reading: Reading,
    paths: Sequence[str],
    settings: Settings,
    lines: Sequence[Any],
    kept: Collection[str],
    ask: Callable[[Report, Sequence[Row]], None],
    foreseen: Foreseen,
) -> tuple[Report, list[Row]]:
    """The report with all sites and their specialisations, and one row a result.

    ``ask`` is told of each site's rows as they are made: the compiler can work on them while the next site is looked at. Rows
    are in the order of the source, or of the recorded lines where those ask for single configs.
    """
    from smemcheck.specialize import forget_launches
    from smemcheck.specialize.recorded import assign

    found: Iterable[Site | Problem] = _sites(reading, paths, settings, kept, foreseen)
    assigned = None
    if lines:  # a line goes to the site that is most like it, of all
        found = tuple(found)
        assigned = assign([one for one in found if isinstance(one, Site)], lines)
    report = replace(reading.report, sites=())
    rows: list[Row] = []
    for site in found:
        if isinstance(site, Problem):
            report = replace(report, problems=(*report.problems, site))
            continue
        index = len(report.sites)
        entries = assigned.by_site[index] if assigned else ()
        known = foreseen.of(site, entries) or specialized(site, reading.project, settings, report.targets, entries)
        made = known.numbered(index, len(report.specializations))
        report = replace(
            report,
            sites=(*report.sites, site),
            specializations=(*report.specializations, *(SpecializedSite(index, one) for one in known.specializations)),
        )
        ask(report, made)
        rows += made
    forget_launches(reading.project)
    lost = tuple(
        Problem(
            f"no kernel {line.kernel} was found in a file like {line.path}",
            Position(Path(path).resolve().as_posix(), line.line),
        )
        for path, line in (assigned.unmatched if assigned else ())
    )
    report = replace(report, problems=(*report.problems, *lost))

    def order(row: Row) -> tuple[int, int]:
        if row.specialization is None:
            return 0, row.site
        specialization = report.specializations[row.specialization].specialization
        return (specialization.recorded_line or 0) if specialization.config else 0, row.site

    return report, sorted(rows, key=order)


def _with_heuristics(report: Report, rows: Sequence[Row]) -> Report:
    """The report, its specialisations with the values that heuristics give whatever the config."""
    settled: dict[int, dict[str, Any]] = {}
    given = [
        set() if isinstance(site.heuristics, Unknown) else {heuristic.parameter for heuristic in site.heuristics}
        for site in report.sites
    ]
    for row in rows:
        names = given[row.site]
        if row.specialization is None or not isinstance(row.job, Job) or not names:
            continue
        values = {name: value for name, value in row.job.specialization.constexprs if name in names}
        known = settled.setdefault(row.specialization, values)
        for name in [name for name in known if name not in values or _typed(known[name]) != _typed(values[name])]:
            del known[name]
    specialized = tuple(
        replace(one, specialization=replace(one.specialization, settled=tuple(settled[index].items())))
        if settled.get(index)
        else one
        for index, one in enumerate(report.specializations)
    )
    return replace(report, specializations=specialized)


def _typed(value: Any) -> tuple[type, Any]:
    return type(value), value  # True is not 1 in a specialisation


def _interpreters(settings: Settings) -> list[str]:
    """The interpreters whose Triton is asked: this one first, unless it has none and others were named."""
    if not settings.tritons:
        return [sys.executable]
    from smemcheck.lower.installation import identify

    for python in settings.tritons:
        if identify(python) is None:
            raise UsageError(f"--triton {python}: this is no Python interpreter with Triton")
    own = [] if installed_triton() is None else [sys.executable]
    return list(dict.fromkeys((*own, *settings.tritons)))


def _others(
    pythons: Sequence[str], versions: Sequence[str], results: Sequence[tuple[Result, ...]]
) -> tuple[OtherTriton, ...]:
    """The Tritons but the first, by version, with the interpreter where that alone does not tell two apart."""
    found = []
    for python, version, rows in zip(pythons[1:], versions[1:], results[1:], strict=True):
        name = version if versions.count(version) == 1 else f"{version} ({python})"
        found.append(OtherTriton(name, python, tuple(replace(row, triton=name) for row in rows)))
    return tuple(found)


def _report_store(paths: Sequence[str], settings: Settings) -> Any:
    """Where this report is kept between runs; ``None`` without a cache, or when this Triton's files have no digest."""
    if not settings.cache or not settings.cache_directory or settings.scheduler or settings.tritons:
        return None
    from smemcheck.cache import ReportStore
    from smemcheck.lower.installation import identify

    triton = identify()
    return ReportStore(paths, settings, triton.key) if triton and triton.files else None
