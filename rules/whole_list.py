"""SMC3xx: what is left of a list as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smemcheck.model import Config, Result, Severity, SiteKind, VerdictKind
from smemcheck.rules.engine import ListCase, Observation, SiteCase, rule, shared_memory_of
from smemcheck.rules.wording import config_text

_LOST = (VerdictKind.PRUNED, VerdictKind.CRASHES)


@rule("SMC301", "no-config-fits", Severity.ERROR, ListCase)
def no_config_fits(case: ListCase) -> Iterator[Observation]:
    """Every config of a list is pruned on a target, so the kernel cannot run there.

    When all times are infinite, Triton takes the first config and launches it, and that launch raises. The error then
    speaks of the first config, which need not be the one nearest to fitting.
    """
    indices = [
        i for i, results in _benchmarked_lists(case) if all(r.verdict.kind is VerdictKind.PRUNED for r in results)
    ]
    if indices:
        results = case.by_specialization()[indices[0]]
        first = results[0]
        yield Observation(
            f"no config of {case.site.kernel_name} fits {case.target.name}{_for(case, indices)}: all {len(results)} are "
            f"pruned, so Triton launches the first ({config_text(first.config)}) and it raises; {_nearest(results)}",
            specialization=indices[0],
        )


@rule("SMC302", "one-config-survives", Severity.WARNING, ListCase)
def one_config_survives(case: ListCase) -> Iterator[Observation]:
    """All configs of a list but one are pruned on a target, so the last one wins without a contest.

    The autotuner reports it as the best, however slow it is.
    """
    survivors: dict[Config, list[int | None]] = {}
    for index, results in _benchmarked_lists(case):
        left = [r for r in results if r.verdict.kind not in _LOST]
        if len(left) == 1 and left[0].verdict.kind is VerdictKind.FITS:
            survivors.setdefault(left[0].config, []).append(index)
    for config, indices in survivors.items():
        total = len(case.by_specialization()[indices[0]])
        yield Observation(
            f"one of {total} configs of {case.site.kernel_name} survives on {case.target.name}{_for(case, indices)}: "
            f"{config_text(config)} wins without a contest",
            specialization=indices[0],
            config=config,
        )


@rule("SMC303", "duplicate-config", Severity.WARNING, SiteCase)
def duplicate_config(case: SiteCase) -> Iterator[Observation]:
    """A list holds the same config twice.

    Triton compiles it once and benchmarks it twice at every new key.
    """
    seen: set[tuple[object, ...]] = set()
    for target, answer in case.site.answers.items():
        if case.site.kind is not SiteKind.AUTOTUNE or not isinstance(answer.configs, tuple):
            continue
        first: dict[Config, Config] = {}
        for config in answer.configs:
            earlier = first.setdefault(config, config)
            if earlier is config or (config, config.position) in seen:
                continue
            seen.add((config, config.position))
            same_line = earlier.position is None or config.position is None or earlier.position == config.position
            other = "another" if same_line else f"the one at line {earlier.position.line}"  # type: ignore[union-attr]
            yield Observation(f"{config_text(config)} repeats {other}", config.position, config=config, target=target)


def _benchmarked_lists(case: ListCase) -> Iterator[tuple[int | None, tuple[Result, ...]]]:
    """The results of the list under each specialisation, for lists that the autotuner would try."""
    if case.site.kind is SiteKind.AUTOTUNE:
        for index, results in case.by_specialization().items():
            if len(results) > 1:
                yield index, results


def _for(case: ListCase, indices: Sequence[int | None]) -> str:
    condition = case.condition(indices)
    return f" for {condition}" if condition else ""


def _nearest(results: Sequence[Result]) -> str:
    """The config that misses its limit by least."""
    over = [(r.verdict.need - r.verdict.limit, r) for r in results if r.verdict.need and r.verdict.limit]
    if not over:
        return "the findings for the configs say why"
    difference, result = min(over, key=lambda pair: pair[0])
    unit = f"B of {shared_memory_of(result.outcome):,} B" if result.verdict.cause == "shared memory" else "too many"
    return f"nearest is {config_text(result.config)}, {difference:,} {unit} over"
