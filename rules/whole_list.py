"""SMC3xx: what is left of a list as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smemcheck.model import Config, Footprint, Position, Result, Severity, SiteKind, VerdictKind
from smemcheck.rules.engine import ListCase, Observation, SiteCase, is_left_out, rule, shared_memory_of
from smemcheck.rules.example import Example, copy_kernel, dot_kernel, needs
from smemcheck.rules.wording import config_text, difference_text

_THREE_TILES = dot_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', '{"BLOCK": 256}')
_FOUR_TILES = dot_kernel('{"BLOCK": 32}', '{"BLOCK": 64}', '{"BLOCK": 128}', '{"BLOCK": 256}')


@rule(
    "SMC301",
    "no-config-fits",
    Severity.ERROR,
    ListCase,
    invalid=[
        Example(
            "all tiles were chosen for an H100",
            dot_kernel('{"BLOCK": 256}', '{"BLOCK": 256}, num_warps=8'),
            (needs(131_072), needs(131_072, num_warps=8)),
        )
    ],
    valid=[Example("one tile is left", _THREE_TILES, (needs(8_192), needs(131_072), needs(262_144)))],
)
def no_config_fits(case: ListCase) -> Iterator[Observation]:
    """Every config of a list is pruned on a target, so the kernel cannot run there.

    When all times are infinite, Triton takes the first config and launches it, and that launch raises. The error then
    speaks of the first config, which need not be the one nearest to fitting. It is a warning where some fit with other
    element types, between which the caller can choose.
    """
    indices = [
        i for i, results in _launchable_lists(case) if all(r.verdict.kind is VerdictKind.PRUNED for r in results)
    ]
    if indices:
        results = case.launchable()[indices[0]]
        first = results[0]
        yield Observation(
            f"no config of {case.site.kernel_name} fits {case.target.name}{_for(case, indices)}: all {len(results)} are "
            f"pruned, so Triton launches the first ({config_text(first.config)}) and it raises; {_nearest(results)}",
            specialization=indices[0],
            severity=case.severity(indices),
        )


@rule(
    "SMC302",
    "one-config-survives",
    Severity.WARNING,
    ListCase,
    invalid=[
        Example("the smallest tile wins by default", _THREE_TILES, (needs(8_192), needs(131_072), needs(262_144)))
    ],
    valid=[
        Example("two compete", _THREE_TILES, (needs(8_192), needs(32_768), needs(131_072))),
        Example("a list of one has no contest to begin with", dot_kernel('{"BLOCK": 64}'), (needs(8_192),)),
    ],
)
def one_config_survives(case: ListCase) -> Iterator[Observation]:
    """All configs of a list but one are pruned on a target, so the last one wins without a contest.

    The autotuner reports it as the best, however slow it is.
    """
    survivors: dict[Config, list[int | None]] = {}
    for index, results in _launchable_lists(case):
        left = [r for r in results if r.verdict.kind is not VerdictKind.PRUNED]
        if len(left) == 1 and left[0].verdict.kind is VerdictKind.FITS:
            survivors.setdefault(left[0].config, []).append(index)
    for config, indices in survivors.items():
        total = len(case.launchable()[indices[0]])
        yield Observation(
            f"one of {total} configs of {case.site.kernel_name} survives on {case.target.name}{_for(case, indices)}: "
            f"{config_text(config)} wins without a contest",
            specialization=indices[0],
            config=config,
        )


@rule(
    "SMC303",
    "duplicate-config",
    Severity.WARNING,
    SiteCase,
    invalid=[
        Example("the same config again", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', '{"BLOCK": 64}')),
        Example(
            "a loop makes each twice",
            copy_kernel('{"BLOCK": 64}').replace(
                'triton.Config({"BLOCK": 64}),', '*(triton.Config({"BLOCK": b}) for b in (64, 128, 64, 128)),'
            ),
        ),
        Example("four warps are the default", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 64}, num_warps=4')),
        Example(
            "there is no loop that stages could pipeline",
            copy_kernel('{"BLOCK": 64}, num_stages=2', '{"BLOCK": 64}, num_stages=3'),
            (needs(0, code_digest="a"), needs(0, code_digest="a")),
        ),
    ],
    valid=[
        Example(
            "each compiles to code of its own",
            copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}'),
            (needs(0, code_digest="a"), needs(0, code_digest="b")),
        )
    ],
)
def duplicate_config(case: SiteCase) -> Iterator[Observation]:
    """A list holds the same config twice, or two that compile to the same code.

    Triton benchmarks both at every new key. Configs that differ in `num_stages` alone compile to the same code when the
    kernel has no loop that can be pipelined; that is reported as a note, and only where it holds for every specialisation
    that was judged.
    """
    if case.site.kind is SiteKind.AUTOTUNE:
        if case.site.prune_configs_by is None:  # a pruning function may leave repeated ones out
            yield from _equal(case)
        yield from _same_code(case)


def _equal(case: SiteCase) -> Iterator[Observation]:
    """One observation for each place that makes repeated configs, and the place of those that they repeat."""
    repeated: dict[tuple[Position | None, int | None], dict[Config, str]] = {}
    for target, answer in case.site.answers.items():
        first: dict[Config, Config] = {}
        for config in answer.configs if isinstance(answer.configs, tuple) else ():
            earlier = first.setdefault(config, config)
            if earlier is not config:
                line = earlier.position.line if earlier.position and earlier.position != config.position else None
                repeated.setdefault((config.position, line), {}).setdefault(config, target)
    for (position, line), configs in repeated.items():
        config, target = next(iter(configs.items()))
        if len(configs) == 1:
            message = f"{config_text(config)} repeats {f'the one at line {line}' if line else 'another'}"
        else:
            others = f"others of line {line}" if line else "others"
            message = f"{len(configs)} configs that are made here repeat {others}, such as {config_text(config)}"
        yield Observation(message, position, config=config, target=target)


def _same_code(case: SiteCase) -> Iterator[Observation]:
    """Configs whose code is the same under every specialisation, said for the first target on which that is so."""
    said: set[tuple[Config, ...]] = set()
    for target in case.report.targets:
        codes: dict[Config, list[tuple[int | None, str]]] = {}
        for result in case.results:
            if result.target == target.name and isinstance(result.outcome, Footprint) and result.outcome.code_digest:
                codes.setdefault(result.config, []).append((result.specialization, result.outcome.code_digest))
        alike: dict[tuple[tuple[int | None, str], ...], list[Config]] = {}
        for config, digests in codes.items():
            alike.setdefault(tuple(digests), []).append(config)
        for first, *others in alike.values():
            if others and (first, *others) not in said:
                said.add((first, *others))
                differences = " and ".join(difference_text(config, first) for config in others)
                yield Observation(
                    f"{config_text(first)} and the same with {differences} compile to the same code on {target.name}",
                    others[0].position,
                    config=others[0],
                    target=target.name,
                    severity=Severity.NOTE,
                )


_PRUNED_BY_SIZE = (
    "def prune(configs, arguments, **kwargs):\n    return [c for c in configs if c.kwargs['BLOCK'] {}]\n\n\n"
)


def _with_pruning(condition: str) -> str:
    listed = copy_kernel(
        '{"BLOCK": 64}',
        '{"BLOCK": 128}',
        '{"BLOCK": 256}',
        decorator='key=["n"], prune_configs_by={"early_config_prune": prune}',
    )
    return listed.replace("@triton.autotune", _PRUNED_BY_SIZE.format(condition) + "@triton.autotune")


@rule(
    "SMC304",
    "pruned-by-author",
    Severity.WARNING,
    ListCase,
    invalid=[
        Example("one is left", _with_pruning("> 128"), (needs(0),)),
        Example("none is left", _with_pruning("> 256"), (needs(0),)),
    ],
    valid=[Example("two compete", _with_pruning("> 64"), (needs(0), needs(0)))],
)
def pruned_by_author(case: ListCase) -> Iterator[Observation]:
    """`early_config_prune` leaves one config of a list, or none.

    With none, Triton raises `AutotunerError`. With one there is nothing to compare: older versions time it all the same,
    Triton 3.9 launches it without a trial. A note where that depends on the launch, since it may be meant so.
    """
    left_by_number: dict[int, list[int | None]] = {}
    for index, results in _lists(case):
        left = [result for result in results if not is_left_out(result)]
        if len(left) < min(2, len(results)):
            left_by_number.setdefault(len(left), []).append(index)
    for number, indices in left_by_number.items():
        results = case.by_specialization()[indices[0]]
        where = f"{case.site.kernel_name} on {case.target.name}{_for(case, indices)}"
        if number == 0:
            message = (
                f"early_config_prune leaves none of {len(results)} configs of {where}, and Triton raises AutotunerError"
            )
            yield Observation(message, specialization=indices[0], severity=Severity.ERROR)
            continue
        kept = dict.fromkeys(r.config for index in indices for r in case.launchable()[index])
        which = config_text(next(iter(kept))) if len(kept) == 1 else "which depends on the launch"
        yield Observation(
            f"early_config_prune leaves one of {len(results)} configs of {where} ({which}), so none competes with it",
            specialization=indices[0],
            severity=None if len(indices) == len(case.by_specialization()) else Severity.NOTE,
        )


@rule(
    "SMC305",
    "half-the-list-lost",
    Severity.WARNING,
    ListCase,
    invalid=[Example("two of four", _FOUR_TILES, (needs(2_048), needs(8_192), needs(131_072), needs(262_144)))],
    valid=[
        Example("one of four", _FOUR_TILES, (needs(2_048), needs(8_192), needs(32_768), needs(131_072))),
        Example("three of four: SMC302", _FOUR_TILES, (needs(2_048), needs(131_072), needs(196_608), needs(262_144))),
    ],
)
def half_the_list_lost(case: ListCase) -> Iterator[Observation]:
    """Half of a list or more is lost on a target, though more than one config is left.

    The list was written for larger devices. When fewer are left, SMC301 or SMC302 says so.
    """
    indices = []
    for index, results in _launchable_lists(case):
        lost = [r for r in results if r.verdict.kind is VerdictKind.PRUNED]
        if 2 * len(lost) >= len(results) and len(results) - len(lost) > 1:
            indices.append((index, len(lost), len(results)))
    if indices:
        index, lost_count, total = max(indices, key=lambda entry: entry[1] / entry[2])
        yield Observation(
            f"{lost_count} of {total} configs of {case.site.kernel_name} are lost on {case.target.name}"
            f"{_for(case, [i for i, _, _ in indices])}",
            specialization=index,
        )


@rule(
    "SMC306",
    "first-config-lost",
    Severity.NOTE,
    ListCase,
    invalid=[
        Example(
            "the list begins with its largest tile",
            dot_kernel('{"BLOCK": 256}', '{"BLOCK": 128}', '{"BLOCK": 64}'),
            (needs(131_072), needs(32_768), needs(8_192)),
        )
    ],
    valid=[Example("the list ends with it", _THREE_TILES, (needs(8_192), needs(32_768), needs(131_072)))],
)
def first_config_lost(case: ListCase) -> Iterator[Observation]:
    """The first config of a list does not fit, though others do.

    The first is what Triton launches when all are pruned, as under another key or on a smaller device. Then the user's
    error speaks of it. A list that begins with its smallest config fails later and with the more useful number.
    """
    indices = []
    for index, results in _launchable_lists(case):
        fits = [r for r in results if r.verdict.kind is VerdictKind.FITS]
        if results[0].verdict.kind is VerdictKind.PRUNED and results[0].verdict.need and len(fits) > 1:
            indices.append(index)
    if indices:
        first = case.launchable()[indices[0]][0]
        yield Observation(
            f"the first config of {case.site.kernel_name} does not fit {case.target.name}{_for(case, indices)}: it is what "
            "Triton launches should all be pruned",
            first.config.position,
            specialization=indices[0],
            config=first.config,
        )


def _lists(case: ListCase) -> Iterator[tuple[int | None, tuple[Result, ...]]]:
    """The results under each specialisation, for lists of more than one config."""
    if case.site.kind is SiteKind.AUTOTUNE:
        for index, results in case.by_specialization().items():
            if len(results) > 1:
                yield index, results


def _launchable_lists(case: ListCase) -> Iterator[tuple[int | None, tuple[Result, ...]]]:
    """The same without what the author's pruning leaves out, where it leaves more than one."""
    if case.site.kind is SiteKind.AUTOTUNE:
        for index, results in case.launchable().items():
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
