"""SMC1xx: what a config needs against what the target has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from smemcheck.model import Config, FailureKind, Footprint, Result, Severity, SiteKind, VerdictKind
from smemcheck.rules.engine import ConfigCase, ListCase, Observation, rule, shared_memory_of
from smemcheck.rules.example import Example, copy_kernel, dot_kernel, launched_kernel, needs, refuses
from smemcheck.rules.occupancy import blocks_per_multiprocessor, registers_allowed
from smemcheck.rules.wording import assumptions_text, buffers_text, config_text, difference_text


@rule(
    "SMC100",
    "launch-exceeds-resources",
    Severity.ERROR,
    ConfigCase,
    invalid=[
        Example("a tile for an H100", launched_kernel("BLOCK=256, num_warps=8"), (needs(131_072, num_warps=8),)),
        Example("64 warps are 2,048 threads", launched_kernel("BLOCK=64, num_warps=64"), (needs(0, num_warps=64),)),
    ],
    valid=[
        Example("a smaller tile", launched_kernel("BLOCK=64"), (needs(8_192),)),
        Example("the same tile on an H100", launched_kernel("BLOCK=256"), (needs(131_072),), target="sm_90"),
    ],
)
def launch_exceeds_resources(case: ConfigCase) -> Iterator[Observation]:
    """A launch without an autotuner asks for more than the target has.

    The launch raises `OutOfResources` in the user's program. Nothing catches it, as an autotuner would. Where the options
    of a launch come from a table or from a condition, each alternative is judged, at the line of its launch.

    The types and sizes with which the kernel is compiled come from the code that launches it; the message names those that
    were assumed. `--no-launches` leaves such kernels out.
    """
    if case.site.kind is SiteKind.LAUNCH:
        for cause in ("shared memory", "tensor memory", "threads"):
            yield from _over_limit(case, cause)


_SMALL_AND_LARGE = dot_kernel('{"BLOCK": 64}', '{"BLOCK": 256}')


@rule(
    "SMC101",
    "shared-memory-exceeded",
    Severity.ERROR,
    ConfigCase,
    invalid=[
        Example(
            "the larger tile needs 128 KiB, an RTX 5090 gives 99", _SMALL_AND_LARGE, (needs(8_192), needs(131_072))
        ),
        Example(
            "a single config is launched without a trial, so the user sees the error",
            dot_kernel('{"BLOCK": 256}'),
            (needs(131_072),),
        ),
    ],
    valid=[
        Example("the same list on an H100", _SMALL_AND_LARGE, (needs(8_192), needs(131_072)), target="sm_90"),
    ],
)
def shared_memory_exceeded(case: ConfigCase) -> Iterator[Observation]:
    """A config needs more shared memory per block than the target gives.

    Triton compiles it, raises `OutOfResources` when it loads it, and the autotuner catches that and counts the config's
    time as infinite, without a word. The limit is the opt-in limit, and a need that equals it fits. The message names
    the largest buffers, by the variable and line they were made for, and the config of the same list that fits and
    differs least. It is a warning where the config fits with other element types, between which the caller can choose.

    Smaller tiles or fewer `num_stages` need less. Where the config is meant for larger devices only, say so with a
    device test around the list, with `early_config_prune`, or with a suppression.
    """
    if case.site.kind is SiteKind.AUTOTUNE:
        yield from _over_limit(case, "shared memory")


@rule(
    "SMC102",
    "tensor-memory-exceeded",
    Severity.ERROR,
    ConfigCase,
    invalid=[
        Example(
            "two accumulators of 512 columns each",
            _SMALL_AND_LARGE,
            (needs(8_192, tensor_memory=64), needs(131_072, tensor_memory=1_024)),
            target="sm_100",
        )
    ],
    valid=[
        Example(
            "all 512 columns",
            _SMALL_AND_LARGE,
            (needs(8_192, tensor_memory=64), needs(131_072, tensor_memory=512)),
            target="sm_100",
        )
    ],
)
def tensor_memory_exceeded(case: ConfigCase) -> Iterator[Observation]:
    """A config needs more columns of tensor memory than the target has.

    Accumulators of `tl.dot` live in tensor memory on sm_100, sm_103 and sm_110, which has 512 columns. Triton compares
    when it loads the kernel, after shared memory; the autotuner then prunes the config silently.
    """
    if case.site.kind is SiteKind.AUTOTUNE:
        yield from _over_limit(case, "tensor memory")


@rule(
    "SMC103",
    "too-many-threads",
    Severity.ERROR,
    ConfigCase,
    invalid=[
        Example(
            "64 warps are 2,048 threads",
            copy_kernel('{"BLOCK": 4096}, num_warps=8', '{"BLOCK": 4096}, num_warps=64'),
            (needs(0, num_warps=8), needs(0, num_warps=64)),
        ),
        Example(
            "on a GPU with 64 lanes a warp, 32 warps are as many",
            copy_kernel('{"BLOCK": 4096}, num_warps=8', '{"BLOCK": 4096}, num_warps=32'),
            (needs(0, num_warps=8, warp_size=64), needs(0, num_warps=32, warp_size=64)),
            target="gfx942",
        ),
    ],
    valid=[
        Example(
            "32 warps are 1,024 threads",
            copy_kernel('{"BLOCK": 4096}, num_warps=8', '{"BLOCK": 4096}, num_warps=32'),
            (needs(0, num_warps=8), needs(0, num_warps=32)),
        )
    ],
)
def too_many_threads(case: ConfigCase) -> Iterator[Observation]:
    """A config asks for more threads per block than can be launched.

    That is `num_warps` × the warp size (32, on AMD's CDNA 64), counted after warp specialisation has added its own
    warps. No block can have more than 1,024 threads, and fewer when each needs many registers. Triton notices when it
    has loaded the kernel and raises `OutOfResources`, and the autotuner prunes the config silently.
    """
    if case.site.kind is SiteKind.AUTOTUNE:
        yield from _over_limit(case, "threads")


_ASSERTS = dot_kernel(
    '{"BLOCK": 32}',
    '{"BLOCK": 64}',
    '{"BLOCK": 128}',
    body="    tl.static_assert(BLOCK <= 64)\n    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK)))\n",
)


@rule(
    "SMC104",
    "static-assertion-fails",
    Severity.WARNING,
    ConfigCase,
    invalid=[
        Example(
            "the kernel takes blocks up to 64 only",
            _ASSERTS,
            (
                needs(0),
                needs(0),
                refuses(FailureKind.STATIC_ASSERTION, "the assertion failed", "CompileTimeAssertionFailure"),
            ),
        )
    ],
    valid=[Example("no config breaks the assertion", _ASSERTS.replace("128", "16"), (needs(0), needs(0), needs(0)))],
)
def static_assertion_fails(case: ConfigCase) -> Iterator[Observation]:
    """A `tl.static_assert` in the kernel fails for a config, so the autotuner prunes it.

    That can be the author's way of sorting configs out. If so, leaving them out of the list saves a compilation for
    each at every new key.
    """
    yield from _refused(case, "static assertion")


_CAPPED = dot_kernel('{"BLOCK": 64}', '{"BLOCK": 64}, num_warps=8', '{"BLOCK": 64}, maxnreg=16')


@rule(
    "SMC105",
    "ptxas-rejects",
    Severity.ERROR,
    ConfigCase,
    invalid=[
        Example(
            "a wgmma cannot be done with 16 registers",
            _CAPPED,
            (
                needs(8_192),
                needs(8_192),
                refuses(FailureKind.PTXAS, "(C7602) Insufficient registers (16)", "PTXASError"),
            ),
            target="sm_90",
        )
    ],
    valid=[Example("the registers suffice", _CAPPED.replace("16)", "168)"), (needs(8_192),) * 3, target="sm_90")],
)
def ptxas_rejects(case: ConfigCase) -> Iterator[Observation]:
    """NVIDIA's assembler rejects a config, so the autotuner prunes it.

    The usual reason is a `maxnreg` below what an instruction of the kernel needs, such as a large wgmma. Seen with
    `--registers` only, since only then is the kernel compiled that far.
    """
    yield from _refused(case, "ptxas")


_KEEPS_512 = needs(131_072, registers_at_least=512)


@rule(
    "SMC110",
    "will-spill",
    Severity.WARNING,
    ConfigCase,
    invalid=[
        Example(
            "the accumulator of 256 × 256 alone takes 512 registers in each of 128 threads",
            dot_kernel('{"BLOCK": 64}', '{"BLOCK": 256}'),
            (needs(8_192, registers_at_least=32), _KEEPS_512),
            target="sm_90",
        ),
        Example(
            "64 registers are all that a thread may use in a block of 1,024",
            dot_kernel('{"BLOCK": 64}', '{"BLOCK": 256}, num_warps=32'),
            (needs(8_192, registers_at_least=32), needs(131_072, num_warps=32, registers_at_least=80)),
            target="sm_90",
        ),
        Example(
            "maxnreg leaves fewer than the accumulator takes",
            dot_kernel('{"BLOCK": 64}', '{"BLOCK": 128}, maxnreg=96'),
            (needs(8_192, registers_at_least=32), needs(32_768, registers_at_least=128)),
            target="sm_90",
        ),
    ],
    valid=[
        Example(
            "with twice the warps the accumulator of 128 × 256 takes 128",
            dot_kernel('{"BLOCK": 64}', '{"BLOCK": 128}, num_warps=8'),
            (needs(8_192, registers_at_least=32), needs(65_536, num_warps=8, registers_at_least=128)),
            target="sm_90",
        ),
        Example(
            "measured registers say more than a bound: then it is SMC111",
            dot_kernel('{"BLOCK": 64}', '{"BLOCK": 256}'),
            (
                needs(8_192, registers=64, spill_bytes=0),
                needs(131_072, registers=255, spill_bytes=1_416, registers_at_least=512),
            ),
            target="sm_90",
        ),
    ],
)
def will_spill(case: ConfigCase) -> Iterator[Observation]:
    """A config that fits keeps more data in registers than a thread can have, so it spills whatever the compiler does.

    Counted is what lies in registers at the kernel's fullest moment: accumulators and other tensors that a loop carries,
    the tile that a reduction still needs afterwards. It is a lower bound, from the layouts that Triton chose, without
    ptxas: a config that is not named may spill as well, and `--registers` tells. A thread can have 255 registers,
    less with `maxnreg`, and less in blocks of more than 256 threads, which share 65,536. NVIDIA only; kernels with warp
    specialisation are left out, and so are accumulators in tensor memory.

    A smaller tile or more `num_warps` leaves each thread less to hold.
    """
    spilling = []
    for result in case.results:
        footprint = result.outcome
        if result.verdict.kind is not VerdictKind.FITS or not isinstance(footprint, Footprint):
            continue
        allowed = registers_allowed(footprint, case.config, case.target)
        if footprint.registers is None and allowed is not None and (footprint.registers_at_least or 0) > allowed:
            spilling.append((footprint.registers_at_least or 0, allowed, result))
    if spilling:
        least, allowed, result = max(spilling, key=lambda entry: entry[0] - entry[1])
        yield Observation(
            f"{case.site.kernel_name}: {config_text(case.config)} will spill on {case.target.name}: it keeps at least {least:,} "
            f"registers per thread in use at once, of {allowed} that a thread can have"
            f"{_circumstances(case, [entry[2] for entry in spilling])}",
            specialization=result.specialization,
        )


_SPILLING = needs(65_536, registers=255, spill_bytes=264)


@rule(
    "SMC111",
    "register-spills",
    Severity.WARNING,
    ConfigCase,
    invalid=[
        Example("the accumulator needs more than 255 registers a thread", _SMALL_AND_LARGE, (needs(8_192), _SPILLING))
    ],
    valid=[
        Example(
            "everything stays in registers",
            _SMALL_AND_LARGE,
            (needs(8_192, registers=64, spill_bytes=0), needs(65_536, registers=255, spill_bytes=0)),
        )
    ],
)
def register_spills(case: ConfigCase) -> Iterator[Observation]:
    """A config that fits spills registers to local memory.

    Spilled values go through the caches at every use, so the config is rarely the fastest. Seen with `--registers` only.
    """
    spilling = [(r, r.outcome) for r in case.results if isinstance(r.outcome, Footprint) and r.outcome.spill_bytes]
    if not spilling:
        return
    result, footprint = max(spilling, key=lambda pair: pair[1].spill_bytes or 0)
    yield Observation(
        f"{case.site.kernel_name}: {config_text(case.config)} spills {footprint.spill_bytes:,} B per thread to local memory on "
        f"{case.target.name} ({footprint.registers} registers per thread){_circumstances(case, [r for r, _ in spilling])}",
        specialization=result.specialization,
    )


_STAGES = dot_kernel('{"BLOCK": 64}, num_stages=2', '{"BLOCK": 64}, num_stages=4')


@rule(
    "SMC120",
    "one-block-per-multiprocessor",
    Severity.NOTE,
    ListCase,
    invalid=[
        Example(
            "with two stages there is room for three blocks", _STAGES, (needs(65_536), needs(131_072)), target="sm_90"
        )
    ],
    valid=[Example("both leave room for several", _STAGES, (needs(32_768), needs(65_536)), target="sm_90")],
)
def one_block_per_multiprocessor(case: ListCase) -> Iterator[Observation]:
    """A config leaves room for one block per multiprocessor where fewer `num_stages` would leave room for more.

    With a single block there is nothing to run while it waits for memory. Deeper pipelining can still be the faster choice;
    the note says what it costs. Room is counted in shared memory and threads, and in registers where they are known
    (`--registers`).
    """
    pairs = []
    for results in case.by_specialization().values():
        fitting = [r for r in results if r.verdict.kind is VerdictKind.FITS and isinstance(r.outcome, Footprint)]
        for result in fitting:
            if blocks_per_multiprocessor(result.outcome, case.target) != 1:
                continue
            for other in fitting:
                blocks = blocks_per_multiprocessor(other.outcome, case.target)
                if blocks and blocks > 1 and _differs_in_stages_only(other.config, result.config):
                    pairs.append((result, other, blocks))
    if pairs:
        result, other, blocks = max(pairs, key=lambda pair: pair[2])
        crowded = {pair[0].config for pair in pairs}
        subject = config_text(result.config)
        if len(crowded) > 1:
            subject = f"{len(crowded)} configs (such as {subject})"
        yield Observation(
            f"{case.site.kernel_name}: {subject} leave{'s' if len(crowded) == 1 else ''} room for one block per "
            f"multiprocessor of {case.target.name} ({shared_memory_of(result.outcome):,} B); with "
            f"num_stages={other.config.num_stages} there is room for {blocks} ({shared_memory_of(other.outcome):,} B)",
            result.config.position,
            specialization=result.specialization,
            config=result.config,
        )


def _differs_in_stages_only(config: Config, other: Config) -> bool:
    return config.num_stages < other.num_stages and replace(config, num_stages=other.num_stages) == other


def _over_limit(case: ConfigCase, cause: str) -> Iterator[Observation]:
    pruned = case.pruned_for(cause)
    if not pruned:
        return
    plainest = pruned[0]
    subject = config_text(case.config)
    if case.site.kind is SiteKind.LAUNCH:
        subject = f"the launch with {subject}"
    message = f"{case.site.kernel_name}: {subject} {plainest.verdict.message}{_circumstances(case, pruned)}"
    if cause == "shared memory" and isinstance(plainest.outcome, Footprint):
        buffers = buffers_text(plainest.outcome)
        message += f". Largest buffers: {buffers}" if buffers else ""
    yield Observation(
        f"{message}. {_consequence(case, plainest)}",
        specialization=plainest.specialization,
        severity=case.severity(pruned),
    )


def _circumstances(case: ConfigCase, results: tuple[Result, ...] | list[Result]) -> str:
    """Under which of the specialisations, and on what assumptions the numbers rest."""
    condition = case.condition(results)
    parts = [f" for {condition}"] if condition else []
    index = results[0].specialization
    if index is not None:
        assumptions = assumptions_text(case.report.specializations[index].specialization)
        parts += [f" (assuming {assumptions})"] if assumptions else []
    return "".join(parts)


def _consequence(case: ConfigCase, result: Result) -> str:
    if case.site.kind is SiteKind.LAUNCH:
        return "The launch raises OutOfResources"
    if not case.benchmarked:
        return "It is the list's only config, so it is launched without a trial and raises OutOfResources"
    fit = case.nearest_fit(result)
    if fit is None:
        return "The autotuner prunes it silently"
    size = f" ({shared_memory_of(fit.outcome):,} B)" if result.verdict.cause == "shared memory" else ""
    return f"The autotuner prunes it silently; with {difference_text(fit.config, case.config)} it fits{size}"


def _refused(case: ConfigCase, cause: str) -> Iterator[Observation]:
    pruned = case.pruned_for(cause)
    if pruned:
        plainest = pruned[0]
        place = getattr(plainest.outcome, "position", None)
        where = f" at line {place.line}" if place else ""
        consequence = (
            "the autotuner prunes it silently" if case.benchmarked else "nothing catches it: the launch raises"
        )
        yield Observation(
            f"{case.site.kernel_name}: {config_text(case.config)} fails on {case.target.name}{where}: {plainest.verdict.message}"
            f"{_circumstances(case, pruned)}; {consequence}",
            specialization=plainest.specialization,
        )
