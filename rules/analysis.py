"""SMC9xx: what smemcheck itself could not do."""

from __future__ import annotations

from collections.abc import Iterator

from smemcheck.model import Failure, FailureKind, Pin, Position, Report, Severity, Unknown, VerdictKind
from smemcheck.rules.engine import Observation, SiteCase, doubtful_specializations, rule
from smemcheck.rules.example import Example, copy_kernel, needs
from smemcheck.rules.wording import assumptions_text, place_text


@rule(
    "SMC901",
    "not-analysed",
    Severity.WARNING,
    Report,
    invalid=[
        Example("a file that Python cannot parse", "import triton  # autotune\n\n\ndef kernel(:\n"),
        Example(
            "a list that only a run knows",
            "import triton\n" + copy_kernel('{"BLOCK": int(input())}', '{"BLOCK": 64}'),
        ),
    ],
    valid=[Example("everything is known", copy_kernel('{"BLOCK": 64}'))],
)
def not_analysed(report: Report) -> Iterator[Observation]:
    """Something could not be analysed, and the message says what stands in the way.

    A file that cannot be read, a list of configs that depends on what only a run knows, a constexpr parameter without a
    value, a kernel that does not compile under the argument types that were assumed (a note where it does under others).
    Types and values can be supplied with `--bind`, in `[tool.smemcheck.kernels]` or as recorded specialisations. `--strict`
    makes these findings count as errors.
    """
    for problem in report.problems:
        yield Observation(problem.message, problem.position)
    for index in range(len(report.sites)):
        yield from _unknown_answers(SiteCase(report, index))
    yield from _unknown_results(report)
    yield from _doubtful_results(report)


@rule(
    "SMC902",
    "other-triton",
    Severity.NOTE,
    Report,
    invalid=[
        Example(
            "the project is pinned to an older Triton than the one that was asked",
            copy_kernel('{"BLOCK": 64}'),
            (needs(0),),
            files={"requirements.txt": "numpy\ntriton==3.4.0\n"},
        ),
        Example(
            "torch brings a Triton of its own",
            copy_kernel('{"BLOCK": 64}'),
            (needs(0),),
            files={"pyproject.toml": '[project]\nname = "kernels"\ndependencies = ["torch==2.8.0"]\n'},
        ),
    ],
    valid=[
        Example(
            "it is the same",
            copy_kernel('{"BLOCK": 64}'),
            (needs(0),),
            files={"requirements.txt": "triton>=3.5,<3.7\n"},
        ),
        Example(
            "nothing is said of the version",
            copy_kernel('{"BLOCK": 64}'),
            (needs(0),),
            files={"requirements.txt": "triton\ntorch>=2.8\n"},
        ),
    ],
)
def other_triton(report: Report) -> Iterator[Observation]:
    """The project asks for another Triton than the one that lowered its kernels.

    How many bytes a kernel needs changes from version to version, and with it the verdict. Lock files are believed before
    requirements, and torch's own requirement counts where Triton is not named. Install that version beside smemcheck, or
    name an interpreter that has it with `--triton PYTHON`.
    """
    asked = [version for version in (report.triton, *(other.name.split()[0] for other in report.others)) if version]
    if not report.results or not asked:
        return
    for pin in report.pins:
        if not any(_satisfies(version, pin.specifier) for version in asked):
            yield Observation(
                f"the project asks for {pin.written}{_brings(pin)}, and the kernels were lowered with Triton {asked[0]}; "
                "other versions need other bytes: install that one, or name its interpreter with --triton",
                pin.position,
            )


def _satisfies(version: str, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier).contains(version, prereleases=True)


def _brings(pin: Pin) -> str:
    return f" (which brings triton{pin.specifier})" if pin.written.startswith("torch") else ""


@rule(
    "SMC903",
    "unused-suppression",
    Severity.WARNING,
    Report,
    invalid=[
        Example(
            "nothing is pruned here",
            copy_kernel('{"BLOCK": 64}').replace("def kernel", "# smemcheck: ignore[SMC101]\ndef kernel"),
            (needs(0),),
        ),
        Example(
            "a typo",
            copy_kernel('{"BLOCK": 64}').replace("def kernel", "# smemcheck: ignore[SMC1O1]\ndef kernel"),
            (needs(0),),
        ),
    ],
    valid=[
        Example(
            "the finding is silenced, and the reason stands beside it",
            copy_kernel('{"BLOCK": 64}', '{"BLOCK": 128}', '{"BLOCK": 64}').replace(
                "),\n    ]", "),  # smemcheck: ignore[SMC303] kept for a benchmark\n    ]"
            ),
            (needs(0), needs(0)),
        )
    ],
)
def unused_suppression(report: Report) -> Iterator[Observation]:
    """A `# smemcheck: ignore[…]` comment silences nothing, or names no rule.

    It hides the next real finding. Comments about rules that a run could not have found, because nothing was compiled or
    not with `--registers`, are left alone.
    """
    for problem in report.unused_suppressions:
        yield Observation(problem.message, problem.position)


def _unknown_answers(case: SiteCase) -> Iterator[Observation]:
    targets_by_reason: dict[tuple[str, Unknown], list[str]] = {}
    for target, answer in case.site.answers.items():
        for what, value in (("configs", answer.configs), ("kernel", answer.kernel)):
            if isinstance(value, Unknown):
                targets_by_reason.setdefault((what, value), []).append(target)
    for (what, unknown), targets in targets_by_reason.items():
        yield Observation(
            f"the {what} of {case.site.kernel_name} {'are' if what == 'configs' else 'is'} unknown"
            f"{_on(targets, case)}: {unknown.reason}{_elsewhere(unknown.position, case.position)}",
            case.position,
            site=case.index,
            target=targets[0] if len(targets) == 1 else None,
        )


_GIVEN_UP = frozenset({FailureKind.TIMEOUT.value, FailureKind.ENDED.value})  # SMC202 says it


def _unknown_results(report: Report) -> Iterator[Observation]:
    doubtful = doubtful_specializations(report)
    targets_by_message: dict[tuple[int, str], list[str]] = {}
    for result in report.results:
        if result.specialization in doubtful and isinstance(result.outcome, Failure):
            continue
        if result.verdict.kind is VerdictKind.UNKNOWN and result.verdict.cause not in _GIVEN_UP:
            answer = report.sites[result.site].answers.get(result.target)
            if answer and isinstance(answer.kernel, Unknown) and answer.kernel.reason == result.verdict.message:
                continue  # said of the kernel already
            message = result.verdict.message or "no reason was given"
            targets_by_message.setdefault((result.site, message), []).append(result.target)
    for (site, message), targets in targets_by_message.items():
        case = SiteCase(report, site)
        yield Observation(
            f"{case.site.kernel_name} was not judged{_on(list(dict.fromkeys(targets)), case)}: {message}",
            case.position,
            site=site,
        )


def _doubtful_results(report: Report) -> Iterator[Observation]:
    """Kernels that do not compile as they were assumed to be launched: one observation a kernel and message."""
    doubtful = doubtful_specializations(report)
    failing: dict[tuple[int, str], list[int]] = {}
    for result in report.results:
        index = result.specialization
        if index in doubtful and index is not None and isinstance(result.outcome, Failure):
            place = f"line {result.outcome.position.line}: " if result.outcome.position else ""
            failing.setdefault((result.site, place + result.outcome.message), []).append(index)
    for (site, message), found in failing.items():
        case = SiteCase(report, site)
        ours = {index for index, entry in enumerate(report.specializations) if entry.site == site}
        indices = list(dict.fromkeys(found))
        assumed = assumptions_text(report.specializations[indices[0]].specialization)
        every = len(indices) == len(ours)
        if len(ours) == 1:
            which = "it does not compile as its launch was assumed to be"
        elif every:
            which = f"it does not compile under any of the {len(ours)} specialisations that were assumed, such as"
        else:
            which = (
                f"it does not compile under {len(indices)} of {len(ours)} specialisations that were assumed, such as"
            )
        partly = "" if every else " in every way"
        yield Observation(
            f"{case.site.kernel_name} was not judged{partly}: {which} ({assumed}): {message}",
            case.position,
            site=site,
            severity=Severity.NOTE if ours - doubtful else None,
        )


def _on(targets: list[str], case: SiteCase) -> str:
    return "" if len(targets) == len(case.report.targets) else f" on {', '.join(targets)}"


def _elsewhere(position: Position | None, here: Position) -> str:
    if position is None:
        return ""
    if position.path == here.path:
        return f" (line {position.line})"
    return f" ({place_text(position.path, position.line)})"
