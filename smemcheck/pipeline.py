"""The whole program on one screen: source → specialize → lower → rules, and a :class:`~smemcheck.model.Report` at the end.

Stages are imported where they are used, so that printing a version costs nothing and a missing stage breaks one call only.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import smemcheck
from smemcheck.compiler import Answer, Compiler, Lower, Progress, installed_triton
from smemcheck.completed import Completed, Watch
from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.model import (
    Config,
    Failure,
    Footprint,
    Job,
    OtherTriton,
    Outcome,
    Position,
    Problem,
    Report,
    Result,
    Site,
    Specialization,
    SpecializedSite,
    Target,
    Unknown,
    Verdict,
    VerdictKind,
)

_COLLECTED = 20_000, 20, 100  # objects made, and collections of them, before the next generation is looked at too
_MOST_RETRIES = 6  # further assumptions that are tried for one specialisation


@dataclass(frozen=True, slots=True)
class Row:
    """A result to be: a config of a site under a specialisation on a target, and the job that will answer it."""

    site: int
    specialization: int | None
    target: Target
    config: Config
    job: Job | Unknown | Verdict


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
    from smemcheck.parts import apart_from_lines, parts_of, with_kept
    from smemcheck.specialize.recorded import read_recorded

    recorded = [read_recorded(path) for path in settings.specializations]
    targets = _targets(paths, settings)
    # What is judged besides what recorded lines name depends on all of them, so then no kernel's part stands alone.
    has_parts = all(file.names_configs for file in recorded)
    kept, lines = apart_from_lines(store.kept() if store and has_parts else None, recorded)
    pythons = _interpreters(settings)
    with Compiler(settings, pythons[0], progress, lower) as compiler:
        if kept is None:
            compiler.start(paths, targets, recorded)
        report, project, files = _read(paths, settings, targets, lines, kept.parts if kept else ())
        report, unspecialized = _specialize(report, project, settings, lines)
        rows = _rows(report, unspecialized, project, settings)
        completed = Completed(
            report, rows, lambda row, known: _result(row, known, rules.judge), None if pythons[1:] else watch
        )
        report, rows, first = _retried(
            report, rows, project, settings, lambda asked: compiler.ask(_jobs(asked), completed.note)
        )
    answers = [first]
    for python in pythons[1:]:
        with Compiler(settings, python, progress, lower) as compiler:
            answers.append(compiler.ask(_jobs(rows)))
    results = [tuple(_result(row, outcomes, rules.judge) for row in rows) for outcomes, _, _ in answers]
    report = replace(
        _with_heuristics(report, rows),
        triton=answers[0][1] or None,
        results=results[0],
        notes=(*report.notes, *dict.fromkeys(note for _, _, notes in answers for note in notes)),
        others=_others(pythons, [version for _, version, _ in answers], results),
    )
    report = rules.doubted(with_kept(report, kept, files, recorded))
    report = replace(report, findings=rules.findings(report, settings))
    if store:
        parts = {} if not has_parts else parts_of(report, files, paths, project, settings, kept)
        used, listed = project.project.dependencies()
        if kept:
            used, listed = [*used, *kept.files], [*listed, *kept.folders]
        store.save(report, used, listed, parts)
    return report


def sites(paths: Sequence[str], settings: Settings) -> Report:
    """What the source says: kernels and their configs for each target. Nothing is lowered."""
    from smemcheck import rules

    report, _, _ = _read(paths, settings, _targets(paths, settings))
    return replace(report, findings=rules.findings(report, settings))


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """While source is read, most of what is made stays: the collector would go over all of it at every quarter more."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED)
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
    recorded: Sequence[Any] = (),
    kept: Collection[str] = (),
) -> tuple[Report, Any, tuple[str, ...]]:
    """The report as far as the source says it, without ``kept`` files; what answers questions of it; the scanned files."""
    from smemcheck.source import read_sites
    from smemcheck.source.pins import read_pins

    reading = read_sites(paths, targets, settings, kept)
    found = reading.sites
    if settings.launches and not any(file.names_configs for file in recorded):
        from smemcheck.specialize import configured, launch_sites

        found = configured(reading.project, settings, found)
        found += launch_sites(reading.project, paths, targets, settings, found, kept)
    if recorded:
        from smemcheck.specialize.recorded_sites import recorded_sites

        found += recorded_sites(reading.project, paths, targets, settings, recorded, found)
    pins, files = read_pins(paths)
    reading.project.project.consulted.update(dict.fromkeys(files))
    report = Report(
        smemcheck=smemcheck.__version__,
        triton=installed_triton(),
        targets=targets,
        sites=found,
        specializations=(),
        results=(),
        findings=(),
        problems=reading.problems,
        files=len(reading.files),
        roots=tuple(Path(path).resolve().as_posix() for path in paths),
        pins=pins,
    )
    return report, reading.project, reading.files


@_collecting_seldom()
def _specialize(
    report: Report, project: Any, settings: Settings, files: Sequence[Any]
) -> tuple[Report, Sequence[tuple[int, Unknown]]]:
    """The report with the specialisations of every site, and for sites that have none the reason."""
    from smemcheck.specialize import forget_launches, specialize
    from smemcheck.specialize.recorded import assign

    recorded = assign(report.sites, files)
    specialized: list[SpecializedSite] = []
    unknown: list[tuple[int, Unknown]] = []
    for index, site in enumerate(report.sites):
        answers = _guarded(site, specialize, site, project, settings, recorded.by_site[index])
        for answer in (answers,) if isinstance(answers, Unknown) else answers:
            if isinstance(answer, Unknown):
                unknown.append((index, answer))
            else:
                specialized.append(SpecializedSite(index, answer))
    forget_launches(project)
    lost = tuple(
        Problem(
            f"no kernel {line.kernel} was found in a file like {line.path}",
            Position(Path(path).resolve().as_posix(), line.line),
        )
        for path, line in recorded.unmatched
    )
    return replace(report, specializations=tuple(specialized), problems=(*report.problems, *lost)), unknown


def _rows(report: Report, unspecialized: Sequence[tuple[int, Unknown]], project: Any, settings: Settings) -> list[Row]:
    """One row a result, in the order of the source, or of the recorded lines where those ask for single configs."""
    rows = [
        row
        for index, specialized in enumerate(report.specializations)
        for row in _rows_of(report, specialized, index, project, settings)
    ]
    rows += [
        Row(index, None, target, config, unknown)
        for index, unknown in unspecialized
        for target in report.targets
        for config in _configs(report.sites[index], target)
    ]

    def order(row: Row) -> tuple[int, int]:
        if row.specialization is None:
            return 0, row.site
        specialization = report.specializations[row.specialization].specialization
        return (specialization.recorded_line or 0) if specialization.config else 0, row.site

    return sorted(rows, key=order)


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


def _retried(
    report: Report, rows: list[Row], project: Any, settings: Settings, ask: Callable[[Sequence[Row]], Answer]
) -> tuple[Report, list[Row], Answer]:
    """The report, its rows and what the compiler says, with other assumptions where none of a specialisation's configs compiles.

    Each further assumption is tried on the first config that was refused. A specialisation for which nothing compiles stays.
    """
    from smemcheck.specialize.retry import next_assumptions

    outcomes, version, notes = ask(rows)
    refused = _refused(report, rows, outcomes)
    if not refused:
        return report, rows, (outcomes, version, notes)
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
    fresh = {i: list(_rows_of(report, report.specializations[i], i, project, settings)) for i in changed}
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
    bound = _guarded(site, bind, site, specialization, row.config, row.target, project)
    if isinstance(row.job, Job) and not isinstance(bound, Unknown):
        yield replace(row, job=replace(row.job, specialization=bound))


def _rows_of(
    report: Report, specialized: SpecializedSite, index: int, project: Any, settings: Settings
) -> Iterator[Row]:
    from smemcheck.specialize import bind, on_target, prune

    site, specialization = report.sites[specialized.site], specialized.specialization
    for target in report.targets:
        if specialization.targets and target.name not in specialization.targets:
            continue
        answer = site.answers.get(target.name)
        kernel = answer.kernel if answer else Unknown(f"it has no definition on {target.name}", site.position)
        own = specialization.config
        configs = (on_target(own, target),) if own else _configs(site, target)
        kept = configs
        if specialization.config is None and site.prune_configs_by is not None:
            pruned = _guarded(site, prune, site, specialization, configs, target, project)
            kept = configs if isinstance(pruned, Unknown) else pruned
        for config in (*configs, *(made for made in kept if made not in configs)):
            if config not in kept:
                yield Row(specialized.site, index, target, config, _DROPPED)
                continue
            if isinstance(kernel, Unknown):
                yield Row(specialized.site, index, target, config, kernel)
                continue
            bound = _guarded(site, bind, site, specialization, config, target, project)
            job = bound if isinstance(bound, Unknown) else Job(kernel, bound, config, target, settings.registers)
            yield Row(specialized.site, index, target, config, job)


_DROPPED = Verdict(VerdictKind.PRUNED, "early_config_prune", "the author's early_config_prune drops it for this launch")


def _configs(site: Site, target: Target) -> tuple[Config, ...]:
    answer = site.answers.get(target.name)
    return answer.configs if answer and isinstance(answer.configs, tuple) else ()


def _interpreters(settings: Settings) -> list[str]:
    """The interpreters whose Triton is asked: this one first, unless it has none and others were named."""
    if not settings.tritons:
        return [sys.executable]
    from smemcheck.lower.process import identify

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


def _jobs(rows: Sequence[Row]) -> list[Job]:
    """What the rows ask the compiler, each job once."""
    return list(dict.fromkeys(row.job for row in rows if isinstance(row.job, Job)))


def _result(row: Row, outcomes: dict[Job, Outcome], judge: Callable[[Outcome, Target, Config], Verdict]) -> Result:
    if isinstance(row.job, Unknown):
        verdict = Verdict(VerdictKind.UNKNOWN, None, row.job.reason)
        return Result(row.site, row.specialization, row.target.name, row.config, verdict)
    if isinstance(row.job, Verdict):
        return Result(row.site, row.specialization, row.target.name, row.config, row.job)
    outcome = outcomes.get(row.job)
    if outcome is None:
        verdict = Verdict(VerdictKind.UNKNOWN, None, "the run ended before this config was lowered")
        return Result(row.site, row.specialization, row.target.name, row.config, verdict)
    verdict = judge(outcome, row.target, row.config)
    return Result(row.site, row.specialization, row.target.name, row.config, verdict, outcome)


def _guarded(site: Site, stage: Callable[..., Any], *arguments: Any) -> Any:
    """What a stage says of one site. A defect of ours costs that site, not the run."""
    try:
        return stage(*arguments)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other kernels' results must not be lost
        return Unknown(
            f"internal error of smemcheck ({type(error).__name__}: {error}), please report it", site.position
        )


def _report_store(paths: Sequence[str], settings: Settings) -> Any:
    """Where this report is kept between runs; ``None`` without a cache, or when this Triton's files have no digest."""
    if not settings.cache or not settings.cache_directory or settings.scheduler or settings.tritons:
        return None
    from smemcheck.cache import ReportStore
    from smemcheck.lower.process import identify

    triton = identify()
    return ReportStore(paths, settings, triton.key) if triton and triton.files else None
