"""Reports made by hand, for tests of what comes after the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smemcheck.model import (
    Assumption,
    Buffer,
    Config,
    Failure,
    FailureKind,
    Kernel,
    KernelFunction,
    Outcome,
    Parameter,
    Position,
    Problem,
    Report,
    Result,
    Site,
    SiteKind,
    Specialization,
    SpecializedSite,
    Target,
    TargetAnswer,
    Unknown,
)
from smemcheck.rules import example, findings, judge
from smemcheck.rules.devices import resolve_target
from smemcheck.rules.example import needs

__all__ = ["needs"]

FILE = "/repo/pkg/decode.py"
KERNEL = Kernel((KernelFunction("decode", Position(FILE, 41), "def decode(): pass", (), ()),), digest="0")


def config(line: int = 22, *, num_warps: int = 4, num_stages: int = 1, **kwargs: object) -> Config:
    return Config(
        kwargs=tuple(kwargs.items()),  # type: ignore[arg-type]
        num_warps=num_warps,
        num_stages=num_stages,
        position=Position(FILE, line, 9),
    )


def refuses(kind: FailureKind, message: str, line: int | None = None, exception: str = "") -> Failure:
    """The compiler's answer: no, at this line of the file."""
    return replace(example.refuses(kind, message, exception), position=Position(FILE, line) if line else None)


def buffer(variable: str, line: int, size: int, offset: int = 0) -> Buffer:
    return Buffer(variable, Position(FILE, line), offset, size, f"!ttg.memdesc<{size}xi8>")


def specialization(assumed: dict[str, str] | None = None, **constexprs: object) -> Specialization:
    """``assumed`` maps parameters to types; constexprs are assumed too."""
    types = assumed or {}
    assumptions = [Assumption(name, kind, "it is loaded from", Position(FILE, 50)) for name, kind in types.items()]
    assumptions += [Assumption(name, repr(v), "its default", Position(FILE, 42)) for name, v in constexprs.items()]
    return Specialization(
        signature=(*types.items(), *((name, "constexpr") for name in constexprs)),
        constexprs=tuple(constexprs.items()),  # type: ignore[arg-type]
        divisible_by_16=frozenset(types),
        assumptions=tuple(assumptions),
    )


def site(configs: Sequence[Config] | Unknown, targets: Sequence[Target], kind: SiteKind = SiteKind.AUTOTUNE) -> Site:
    names = dict.fromkeys(name for c in (() if isinstance(configs, Unknown) else configs) for name, _ in c.kwargs)
    answer = TargetAnswer(configs if isinstance(configs, Unknown) else tuple(configs), KERNEL)
    return Site(
        kernel_name="decode",
        position=Position(FILE, 41),
        root="/repo",
        kind=kind,
        parameters=(Parameter("q_ptr"), Parameter("n"), *(Parameter(name, "constexpr", True) for name in names)),
        answers={target.name: answer for target in targets},
        key=("n",),
        decorator=Position(FILE, 20, 2),
    )


def report(
    answers: dict[str, Sequence[tuple[Config, Outcome]]] | Sequence[dict[str, Sequence[tuple[Config, Outcome]]]],
    specializations: Sequence[Specialization] = (specialization(),),
    kind: SiteKind = SiteKind.AUTOTUNE,
    problems: Sequence[Problem] = (),
) -> Report:
    """A report on one kernel: for each specialisation and target, configs with what the compiler answered."""
    by_specialization = [answers] if isinstance(answers, dict) else list(answers)
    targets = [resolve_target(name) for name in by_specialization[0]]
    by_name = {target.name: target for target in targets}
    configs = [c for c, _ in next(iter(by_specialization[0].values()))]
    results = [
        Result(0, index, name, c, judge(outcome, by_name[name], c), outcome)
        for index, by_target in enumerate(by_specialization)
        for name, pairs in by_target.items()
        for c, outcome in pairs
    ]
    made = Report(
        smemcheck="0.1.0",
        triton="3.6.0",
        targets=tuple(targets),
        sites=(site(configs, targets, kind),),
        specializations=tuple(SpecializedSite(0, s) for s in specializations),
        results=tuple(results),
        findings=(),
        problems=tuple(problems),
        files=1,
        roots=("/repo",),
    )
    return replace(made, findings=findings(made))


def story() -> Report:
    """The split decode kernel on sm_120 and sm_90: tiles of 32 do not fit the first, so 16 wins without a contest."""
    small = config(22, BLOCK_T=16)
    large = config(23, BLOCK_T=32)
    wide = config(24, BLOCK_T=32, num_warps=8)
    buffers = (buffer("kv", 60, 65_536), buffer("q", 55, 36_864, offset=65_536))
    bytes_ = {small: needs(83_968), large: needs(102_400, buffers=buffers), wide: needs(102_400, num_warps=8)}
    pairs = list(bytes_.items())
    assumed = specialization({"q_ptr": "*bf16"}, HEAD_DIM=512)
    return report({"sm_120": pairs, "sm_90": pairs}, [assumed])
