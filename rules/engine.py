"""What a rule is, what it looks at, and how rules are run over a report.

A rule is one function with a code, a name, a severity, its documentation (the docstring) and examples. It looks at a
:class:`ConfigCase` (one config on one target), a :class:`ListCase` (a whole list on one target), a :class:`SiteCase` (the
source alone) or the whole :class:`~smemcheck.model.Report`, and yields an :class:`Observation` for each thing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from smemcheck.model import (
    Config,
    Failure,
    FailureKind,
    Finding,
    Footprint,
    Outcome,
    Position,
    Report,
    Result,
    Severity,
    Site,
    SiteKind,
    Specialization,
    Target,
    VerdictKind,
)
from smemcheck.rules.conditions import condition_text, is_choice_of_type
from smemcheck.rules.example import Example
from smemcheck.rules.wording import one_line, settings_of


@dataclass(frozen=True, slots=True)
class Observation:
    """What a rule has to say: the message, and where and about what when that is not the case's own."""

    message: str
    position: Position | None = None
    specialization: int | None = None
    config: Config | None = None
    target: str | None = None
    site: int | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class SiteCase:
    """A site as the source has it, with its results where something was lowered."""

    report: Report
    index: int
    results: tuple[Result, ...] = ()

    @property
    def site(self) -> Site:
        return self.report.sites[self.index]

    @property
    def position(self) -> Position:
        return self.site.decorator or self.site.position


@dataclass(frozen=True, slots=True)
class ConfigCase:
    """One config of a site on one target, with a result for each specialisation that was judged.

    ``list_results`` are the results of all configs of the same site and target, this one's among them.
    """

    report: Report
    index: int
    target: Target
    config: Config
    results: tuple[Result, ...]
    list_results: tuple[Result, ...]

    @property
    def site(self) -> Site:
        return self.report.sites[self.index]

    @property
    def position(self) -> Position:
        return self.config.position or self.site.decorator or self.site.position

    @property
    def benchmarked(self) -> bool:
        """Whether the autotuner times the config. It launches the only config of a list as it is."""
        answer = self.site.answers.get(self.target.name)
        return self.site.kind is SiteKind.AUTOTUNE and answer is not None and length_of(answer.configs) > 1

    def pruned_for(self, cause: str) -> tuple[Result, ...]:
        """The results that are pruned for that cause, the plainest specialisation first."""
        return tuple(r for r in self.results if r.verdict.kind is VerdictKind.PRUNED and r.verdict.cause == cause)

    def condition(self, results: Sequence[Result]) -> str:
        """Under which specialisations these of the case's results came about; empty when under all."""
        return condition_text(*self._split(results))

    def severity(self, results: Sequence[Result]) -> Severity | None:
        """A warning where it depends on element types that are the caller's choice; else the rule's own."""
        return Severity.WARNING if is_choice_of_type(*self._split(results)) else None

    def _split(self, results: Sequence[Result]) -> tuple[list[Specialization], list[Specialization]]:
        under = {result.specialization for result in results}
        others = [result for result in self.results if result.specialization not in under]
        return specializations_of(self.report, results), specializations_of(self.report, others)

    def nearest_fit(self, result: Result) -> Result | None:
        """The config of the same list that fits under the same specialisation and differs least; then the largest."""
        fitting = [
            other
            for other in self.list_results
            if other.specialization == result.specialization and other.verdict.kind is VerdictKind.FITS
        ]
        ours = settings_of(result.config)

        def distance(other: Result) -> tuple[int, int]:
            theirs = settings_of(other.config)
            different = sum(ours.get(name) != theirs.get(name) for name in ours.keys() | theirs.keys())
            return different, -shared_memory_of(other.outcome)

        return min(fitting, key=distance, default=None)


@dataclass(frozen=True, slots=True)
class ListCase:
    """All configs of a site on one target, in the order of the list.

    ``doubtful`` are the specialisations under which nothing compiles, see :func:`doubtful_specializations`.
    """

    report: Report
    index: int
    target: Target
    results: tuple[Result, ...]
    doubtful: frozenset[int] = frozenset()

    @property
    def site(self) -> Site:
        return self.report.sites[self.index]

    @property
    def position(self) -> Position:
        return self.site.decorator or self.site.position

    def by_specialization(self) -> Mapping[int | None, tuple[Result, ...]]:
        """The results under each specialisation, those included that the author's pruning leaves out."""
        grouped: dict[int | None, list[Result]] = {}
        for result in self.results:
            grouped.setdefault(result.specialization, []).append(result)
        return {index: tuple(results) for index, results in grouped.items()}

    def launchable(self) -> Mapping[int | None, tuple[Result, ...]]:
        """The results under each specialisation of the configs that the author's pruning leaves, if any."""
        kept = {
            index: tuple(result for result in results if not is_left_out(result))
            for index, results in self.by_specialization().items()
        }
        return {index: results for index, results in kept.items() if results}

    def condition(self, indices: Sequence[int | None]) -> str:
        """Under which specialisations something holds that holds under these; empty when under all."""
        return condition_text(*self._split(indices))

    def severity(self, indices: Sequence[int | None]) -> Severity | None:
        """A warning where it depends on element types that are the caller's choice; else the rule's own."""
        return Severity.WARNING if is_choice_of_type(*self._split(indices)) else None

    def _split(self, indices: Sequence[int | None]) -> tuple[list[Specialization], list[Specialization]]:
        inside = [self.report.specializations[i].specialization for i in indices if i is not None]
        others = [i for i in self.by_specialization() if i is not None and i not in indices]
        return inside, [self.report.specializations[i].specialization for i in others]


Case = SiteCase | ConfigCase | ListCase | Report
CaseT = TypeVar("CaseT", SiteCase, ConfigCase, ListCase, Report)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as the decorator :func:`rule` makes it. ``documentation`` is Markdown; its first line sums the rule up."""

    code: str
    name: str
    severity: Severity
    documentation: str
    looks_at: type[Case]
    check: Callable[[Any], Iterator[Observation]]
    invalid: tuple[Example, ...] = ()
    valid: tuple[Example, ...] = ()

    @property
    def summary(self) -> str:
        return self.documentation.split("\n", 1)[0]


def rule(
    code: str,
    name: str,
    severity: Severity,
    looks_at: type[CaseT],
    *,
    invalid: Sequence[Example] = (),
    valid: Sequence[Example] = (),
) -> Callable[[Callable[[CaseT], Iterator[Observation]]], Rule]:
    """Turn a function over cases of one type into a :class:`Rule`; its docstring is the rule's documentation."""

    def decorate(check: Callable[[CaseT], Iterator[Observation]]) -> Rule:
        text = "\n".join(line.removeprefix("    ") for line in (check.__doc__ or "").strip().splitlines())
        return Rule(code, name, severity, text, looks_at, check, tuple(invalid), tuple(valid))

    return decorate


def run(rules: Iterable[Rule], report: Report) -> tuple[Finding, ...]:
    """Every finding of the rules over the report, in the order of the source."""
    rules = tuple(rules)
    of_report: Mapping[type[Case], Sequence[Case]] = {Report: [report]}
    cases = cases_of(report) if any(rule_.looks_at is not Report for rule_ in rules) else of_report
    findings = [
        _finding(rule_, case, observation)
        for rule_ in rules
        for case in cases[rule_.looks_at]
        for observation in rule_.check(case)
    ]
    # Kernels that share a list of configs share what is wrong with it; it is said once.
    distinct = {(finding.rule, finding.position, finding.message): finding for finding in reversed(findings)}
    return in_source_order(report, reversed(distinct.values()))


def cases_of(report: Report) -> Mapping[type[Case], Sequence[Case]]:
    """The report cut into what rules look at."""
    targets = {target.name: target for target in report.targets}
    grouped: dict[tuple[int, str], list[Result]] = {}
    for result in report.results:
        grouped.setdefault((result.site, result.target), []).append(result)
    doubtful = doubtful_specializations(report)
    lists = [
        ListCase(report, site, targets[name], tuple(results), doubtful) for (site, name), results in grouped.items()
    ]
    configs = []
    for case in lists:
        by_config: dict[Config, list[Result]] = {}
        for result in case.results:
            by_config.setdefault(result.config, []).append(result)
        configs += [
            ConfigCase(report, case.index, case.target, config, tuple(results), case.results)
            for config, results in by_config.items()
        ]
    by_site: dict[int, list[Result]] = {}
    for result in report.results:
        by_site.setdefault(result.site, []).append(result)
    sites = [SiteCase(report, index, tuple(by_site.get(index, ()))) for index in range(len(report.sites))]
    return {Report: [report], SiteCase: sites, ListCase: lists, ConfigCase: configs}


def _finding(rule_: Rule, case: Case, observation: Observation) -> Finding:
    site = observation.site
    target = observation.target
    config = observation.config
    position = observation.position
    if not isinstance(case, Report):
        site = case.index if site is None else site
        position = position or case.position
    if isinstance(case, ConfigCase | ListCase):
        target = target or case.target.name
    if isinstance(case, ConfigCase):
        config = config or case.config
    if position is None:
        raise ValueError(f"{rule_.code} says something about the report without a position")
    severity = observation.severity or rule_.severity
    return Finding(
        rule_.code,
        rule_.name,
        severity,
        one_line(observation.message),
        position,
        site,
        observation.specialization,
        target,
        config,
    )


def in_source_order(report: Report, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by place, then rule, then target."""
    order = {target.name: number for number, target in enumerate(report.targets)}

    def key(finding: Finding) -> tuple[Any, ...]:
        position = finding.position
        return position.path, position.line, position.column, finding.rule, order.get(finding.target or "", -1)

    return tuple(sorted(findings, key=key))


def specializations_of(report: Report, results: Iterable[Result]) -> list[Specialization]:
    """The specialisations that these results were judged under."""
    return [report.specializations[r.specialization].specialization for r in results if r.specialization is not None]


def each_config(case: SiteCase, wrong: Callable[[Config], str]) -> Iterator[Observation]:
    """One observation for each place and message, however many configs and targets share it."""
    said = set()
    for target, answer in case.site.answers.items():
        for config in answer.configs if isinstance(answer.configs, tuple) else ():
            message = wrong(config)
            if message and (message, config.position) not in said:
                said.add((message, config.position))
                yield Observation(message, config.position, config=config, target=target)


def doubtful_specializations(report: Report) -> frozenset[int]:
    """Specialisations with assumptions under which no config compiles on any target: the assumptions are the likely cause,
    unless what the compiler refuses is the kernel's text.
    """
    if not report.specializations:
        return frozenset()
    # Not at the top: a report that is read back, or of sites alone, needs no such stage.
    from smemcheck.specialize.retry import is_of_the_text

    compiles: dict[int, bool] = {}
    for result in report.results:
        if result.specialization is not None and not is_left_out(result):
            outcome = result.outcome
            failed = (
                isinstance(outcome, Failure)
                and outcome.kind is FailureKind.COMPILATION_ERROR
                and not is_of_the_text(outcome)
            )
            compiles[result.specialization] = compiles.get(result.specialization, False) or not failed
    return frozenset(
        index
        for index, any_compiles in compiles.items()
        if not any_compiles and report.specializations[index].specialization.assumptions
    )


def doubted(report: Report) -> Report:
    """The report with an unknown verdict where the assumptions, and not the kernel, are the likely cause of an error."""
    doubtful = doubtful_specializations(report)

    def doubt(result: Result) -> Result:
        if result.specialization not in doubtful or not isinstance(result.outcome, Failure):
            return result
        message = f"it does not compile as its launch was assumed to be: {result.outcome.message}"
        return replace(result, verdict=replace(result.verdict, kind=VerdictKind.UNKNOWN, message=message))

    return replace(report, results=tuple(map(doubt, report.results))) if doubtful else report


def is_left_out(result: Result) -> bool:
    """Whether the author's ``early_config_prune`` takes the config off the list, so that nothing else is said of it."""
    return result.verdict.kind is VerdictKind.PRUNED and result.verdict.cause == "early_config_prune"


def shared_memory_of(outcome: Outcome | None) -> int:
    """Bytes per block, 0 when the compiler refused or was not asked."""
    return outcome.shared_memory if isinstance(outcome, Footprint) else 0


def length_of(configs: object) -> int:
    """How many configs a list has; 0 when it is unknown."""
    return len(configs) if isinstance(configs, tuple) else 0
