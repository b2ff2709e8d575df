"""SMC2xx: what the compiler does instead of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Set

from smemcheck.model import Config, Failure, FailureKind, Report, Result, Severity, SiteKind, Target
from smemcheck.rules.compiler_options import BACKEND_NAMES, ONLY
from smemcheck.rules.engine import ListCase, Observation, SiteCase, is_left_out, rule
from smemcheck.rules.example import Example, copy_kernel, needs, refuses
from smemcheck.rules.wording import assumptions_text, config_text

_ODD_BLOCK = copy_kernel('{"BLOCK": 64}', '{"BLOCK": 96}')


@rule(
    "SMC201",
    "compilation-error",
    Severity.ERROR,
    ListCase,
    invalid=[
        Example(
            "tl.arange takes powers of two only",
            _ODD_BLOCK,
            (
                needs(0),
                refuses(FailureKind.COMPILATION_ERROR, "arange's range must be a power of 2", "CompilationError"),
            ),
        )
    ],
    valid=[Example("both compile", copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}'), (needs(0), needs(0)))],
)
def compilation_error(case: ListCase) -> Iterator[Observation]:
    """A config does not compile, with an error that the autotuner lets through.

    The autotuner catches `OutOfResources`, a failed `tl.static_assert` and ptxas's errors. Any other exception ends the
    user's program, whatever the other configs would have done.

    When no config of a kernel compiles on any target and its argument types were assumed, the assumption is the likely
    cause. That is reported as SMC901.
    """
    for failures in _by_message(case, FailureKind.COMPILATION_ERROR):
        if failures[0].specialization not in case.doubtful:
            yield from _observation(case, failures, "the autotuner does not catch that, so it ends the program")


@rule(
    "SMC202",
    "compiler-abort-or-timeout",
    Severity.ERROR,
    ListCase,
    invalid=[
        Example(
            "a C++ assertion of the compiler fails",
            copy_kernel('{"BLOCK": 64}', '{"BLOCK": 64}, num_ctas=2'),
            (needs(0), refuses(FailureKind.ABORT, "the compiler was ended by SIGABRT")),
            target="sm_90",
        )
    ],
    valid=[
        Example(
            "an ordinary error is SMC201",
            _ODD_BLOCK,
            (needs(0), refuses(FailureKind.COMPILATION_ERROR, "no power of 2")),
        )
    ],
)
def compiler_abort_or_timeout(case: ListCase) -> Iterator[Observation]:
    """The compiler dies or does not finish on a config.

    An abort inside LLVM or MLIR (a failed C++ assertion, a segmentation fault) ends the user's process: no exception is
    raised that an autotuner could catch. A compilation that passes `--time-limit` or `--memory-limit` is only a warning,
    since it might finish in the end.
    """
    for failures in _by_message(case, FailureKind.ABORT):
        yield from _observation(case, failures, "the process ends, and the autotuner with it")
    for failures in _by_message(case, FailureKind.TIMEOUT):
        yield from _observation(case, failures, "raise --time-limit to wait longer", Severity.WARNING)
    for failures in _by_message(case, FailureKind.ENDED):
        yield from _observation(
            case, failures, "on another machine it may finish, so nothing is said of it", Severity.WARNING
        )


@rule(
    "SMC203",
    "target-unsupported",
    Severity.WARNING,
    Report,
    invalid=[
        Example(
            "a Triton that is older than the architecture",
            copy_kernel('{"BLOCK": 64}'),
            (refuses(FailureKind.UNSUPPORTED, "Triton 3.4.0 has no lowering for gfx1250"),),
            target="gfx1250",
        )
    ],
    valid=[Example("a target that it knows", copy_kernel('{"BLOCK": 64}'), (needs(0),))],
)
def target_unsupported(report: Report) -> Iterator[Observation]:
    """The installed Triton cannot compile for a target at all.

    Nothing can be said about kernels there. A newer Triton may know the architecture.
    """
    for target in report.targets:
        results = [r for r in report.results if r.target == target.name and _fails_by(r, FailureKind.UNSUPPORTED)]
        if results:
            site = report.sites[results[0].site]
            yield Observation(
                f"Triton {report.triton} cannot compile for {target.name}, so {len(results)} "
                f"{'config was' if len(results) == 1 else 'configs were'} not judged there: {results[0].verdict.message}",
                site.position,
                target=target.name,
            )


@rule(
    "SMC204",
    "impossible-option",
    Severity.ERROR,
    SiteCase,
    invalid=[
        Example("three warps", copy_kernel('{"BLOCK": 64}, num_warps=3')),
        Example("a cluster on an A100", copy_kernel('{"BLOCK": 64}, num_ctas=2'), target="sm_80"),
        Example("an option of AMD's backend on an NVIDIA GPU", copy_kernel('{"BLOCK": 64, "waves_per_eu": 2}')),
        Example(
            "an option of NVIDIA's backend on an AMD GPU", copy_kernel('{"BLOCK": 64}, maxnreg=128'), target="gfx942"
        ),
    ],
    valid=[
        Example("a cluster on an H100", copy_kernel('{"BLOCK": 64}, num_ctas=2'), target="sm_90"),
        Example(
            "an option of AMD's backend on an AMD GPU", copy_kernel('{"BLOCK": 64, "waves_per_eu": 2}'), target="gfx942"
        ),
    ],
)
def impossible_option(case: SiteCase) -> Iterator[Observation]:
    """A config asks for something that a target's backend refuses before it compiles anything.

    A `num_warps` or `num_ctas` that is no power of two, `num_ctas` above 1 on NVIDIA GPUs before sm_90, an option of the
    other vendor's backend (`waves_per_eu`, `matrix_instr_nonkdim` and `kpack` are AMD's, `maxnreg` is NVIDIA's). The
    exception is none of those that the autotuner catches, so the whole program ends.

    When every config of a list has an option of the other vendor, the kernel was written for that vendor alone, and it is
    no more than a note.
    """
    targets = {target.name: target for target in case.report.targets}
    parameters = {parameter.name for parameter in case.site.parameters}
    for name, answer in case.site.answers.items():
        configs = answer.configs if isinstance(answer.configs, tuple) else ()
        foreign = [_foreign_option(config, targets[name], parameters) for config in configs]
        for config, option in zip(configs, foreign, strict=True):
            refusal = _refusal(config, targets[name])
            if option:
                refusal = (
                    f"{option[0]} is an option of {BACKEND_NAMES[option[1]]}'s backend only: Triton raises KeyError"
                )
            if refusal:
                yield Observation(
                    f"{refusal} on {name}, which ends the program",
                    config.position,
                    config=config,
                    target=name,
                    severity=Severity.NOTE if option and all(foreign) else None,
                )


def _foreign_option(config: Config, target: Target, parameters: Set[str]) -> tuple[str, str] | None:
    """An option that another backend has and the target's has not, with that backend."""
    given = [name for name, _ in config.kwargs if name not in parameters]
    given += ["maxnreg"] if config.maxnreg is not None else []
    pairs = ((name, backend) for backend, options in ONLY.items() for name in given if name in options)
    return next((pair for pair in pairs if pair[1] != target.backend), None)


def _refusal(config: Config, target: Target) -> str:
    """What the backend says to the numbers of a config, or nothing (``parse_options``, triton/backends/*/compiler.py)."""
    for option in ("num_warps", "num_ctas"):
        value = getattr(config, option)
        if value < 1 or value & (value - 1):
            return f"{option}={value} is no power of two: Triton raises an error"
    if config.num_ctas > 1 and target.backend == "cuda" and isinstance(target.arch, int) and target.arch < 90:
        return f"num_ctas={config.num_ctas} needs sm_90 or newer: Triton raises ValueError"
    return ""


def _by_message(case: ListCase, kind: FailureKind) -> list[list[Result]]:
    """The results that failed that way, those with the same message and place together."""
    grouped: dict[object, list[Result]] = {}
    for result in case.results:
        if isinstance(result.outcome, Failure) and result.outcome.kind is kind:
            grouped.setdefault((result.outcome.message, result.outcome.position), []).append(result)
    return list(grouped.values())


def _fails_by(result: Result, kind: FailureKind) -> bool:
    return isinstance(result.outcome, Failure) and result.outcome.kind is kind


def _observation(
    case: ListCase, failures: list[Result], consequence: str, severity: Severity | None = None
) -> Iterator[Observation]:
    first = failures[0]
    outcome = first.outcome
    assert isinstance(outcome, Failure)
    configs = list(dict.fromkeys(result.config for result in failures))
    all_configs = {result.config for result in case.results if not is_left_out(result)}
    subject = config_text(configs[0])
    many = len(configs) > 1
    if many:
        subject = f"{len(configs)} of {len(all_configs)} configs (first: {subject})"
    place = f" at line {outcome.position.line}" if outcome.position else ""
    exception = f" with {outcome.exception}" if outcome.exception else ""
    condition = case.condition(list(dict.fromkeys(r.specialization for r in failures)))
    condition = f" for {condition}" if condition else ""
    assuming = ""
    if first.specialization is not None:
        text = assumptions_text(case.report.specializations[first.specialization].specialization)
        assuming = f" (assuming {text})" if text else ""
    what = {
        FailureKind.ABORT: "abort the compiler" if many else "aborts the compiler",
        FailureKind.ENDED: "were given up" if many else "was given up",
        FailureKind.TIMEOUT: "do not finish compiling" if many else "does not finish compiling",
    }.get(outcome.kind, f"{'fail' if many else 'fails'} to compile{exception}")
    if case.site.kind is SiteKind.LAUNCH:
        consequence = "the launch raises it" if outcome.kind is FailureKind.COMPILATION_ERROR else consequence
    yield Observation(
        f"{case.site.kernel_name}: {subject} {what} on {case.target.name}{place}{condition}: {outcome.message}{assuming}; {consequence}",
        outcome.position or configs[0].position,
        specialization=first.specialization,
        config=configs[0],
        severity=severity,
    )
