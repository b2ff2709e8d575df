"""Results to be: each config of a site under each specialisation on each target, and the job that will answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from smemcheck.config import Settings
from smemcheck.errors import UsageError, defect
from smemcheck.model import (
    Config,
    Job,
    Outcome,
    Result,
    Site,
    Specialization,
    Target,
    Unknown,
    Verdict,
    VerdictKind,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A result to be: a config of a site under a specialisation on a target, and the job that will answer it."""

    site: int
    specialization: int | None
    target: Target
    config: Config
    job: Job | Unknown | Verdict


@dataclass(frozen=True, slots=True)
class Specialized:
    """A site's specialisations and its rows, both numbered from 0 as if there were no other site."""

    specializations: tuple[Specialization, ...]
    rows: tuple[Row, ...]

    def numbered(self, site: int, first: int) -> list[Row]:
        """The rows of the site with this number, whose specialisations are numbered from ``first`` on."""
        return [
            replace(row, site=site, specialization=None if row.specialization is None else first + row.specialization)
            for row in self.rows
        ]


def specialized(
    site: Site, project: Any, settings: Settings, targets: Sequence[Target], recorded: Sequence[Any]
) -> Specialized:
    """What is judged of a site; ``recorded`` are the recorded lines that are about it, by file."""
    from smemcheck.specialize import specialize

    answers = guarded(site, specialize, site, project, settings, recorded)
    answers = (answers,) if isinstance(answers, Unknown) else answers
    known = tuple(answer for answer in answers if not isinstance(answer, Unknown))
    rows = [row for index, one in enumerate(known) for row in rows_of(site, one, 0, index, targets, project, settings)]
    rows += [
        Row(0, None, target, config, unknown)
        for unknown in answers
        if isinstance(unknown, Unknown)
        for target in targets
        for config in configs_on(site, target)
    ]
    return Specialized(known, tuple(rows))


def rows_of(
    site: Site,
    specialization: Specialization,
    number: int,
    index: int,
    targets: Sequence[Target],
    project: Any,
    settings: Settings,
) -> Iterator[Row]:
    """The rows of a specialisation, which has this ``index``, its site the ``number``."""
    from smemcheck.specialize import bind, on_target, prune

    for target in targets:
        if specialization.targets and target.name not in specialization.targets:
            continue
        answer = site.answers.get(target.name)
        kernel = answer.kernel if answer else Unknown(f"it has no definition on {target.name}", site.position)
        own = specialization.config
        configs = (on_target(own, target),) if own else configs_on(site, target)
        kept = configs
        if specialization.config is None and site.prune_configs_by is not None:
            pruned = guarded(site, prune, site, specialization, configs, target, project)
            kept = configs if isinstance(pruned, Unknown) else pruned
        for config in (*configs, *(made for made in kept if made not in configs)):
            if config not in kept:
                yield Row(number, index, target, config, _DROPPED)
                continue
            if isinstance(kernel, Unknown):
                yield Row(number, index, target, config, kernel)
                continue
            bound = guarded(site, bind, site, specialization, config, target, project)
            job = bound if isinstance(bound, Unknown) else Job(kernel, bound, config, target, settings.registers)
            yield Row(number, index, target, config, job)


_DROPPED = Verdict(VerdictKind.PRUNED, "early_config_prune", "the author's early_config_prune drops it for this launch")


def configs_on(site: Site, target: Target) -> tuple[Config, ...]:
    """The site's list for a target; empty where it is not known."""
    answer = site.answers.get(target.name)
    return answer.configs if answer and isinstance(answer.configs, tuple) else ()


def jobs_of(rows: Sequence[Row]) -> list[Job]:
    """What the rows ask the compiler, each job once."""
    return list(dict.fromkeys(row.job for row in rows if isinstance(row.job, Job)))


def result_of(row: Row, outcomes: dict[Job, Outcome], judge: Callable[[Outcome, Target, Config], Verdict]) -> Result:
    """The row with the verdict on what the compiler says of its job; ``outcomes`` are what it says of all."""
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


def guarded(site: Site, stage: Callable[..., Any], *arguments: Any) -> Any:
    """What a stage says of one site. A defect of ours costs that site, not the run."""
    try:
        return stage(*arguments)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other kernels' results must not be lost
        return Unknown(defect(error), site.position)
