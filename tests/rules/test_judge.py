"""What the autotuner would do with a config, by what the compiler says of it."""

from __future__ import annotations

import pytest

from handmade import config, needs, refuses, report, specialization
from smemcheck.model import FailureKind, VerdictKind
from smemcheck.rules import doubted, judge
from smemcheck.rules.devices import resolve_target

SM_120 = resolve_target("sm_120")
SM_100 = resolve_target("sm_100")
SM_90 = resolve_target("sm_90")


def verdict(outcome, target=SM_120):
    return judge(outcome, target, config(BLOCK_T=32))


def test_a_need_that_equals_the_limit_fits() -> None:
    assert verdict(needs(101_376)).kind is VerdictKind.FITS
    assert verdict(needs(101_377)).kind is VerdictKind.PRUNED


def test_the_message_has_need_limit_and_difference() -> None:
    pruned = verdict(needs(102_400))
    assert (pruned.cause, pruned.need, pruned.limit) == ("shared memory", 102_400, 101_376)
    assert pruned.message == "needs 102,400 B of shared memory per block, 1,024 B over sm_120's limit of 101,376 B"


def test_shared_memory_is_compared_before_tensor_memory_and_threads() -> None:
    """``CompiledKernel._init_handles`` raises at the first check that fails."""
    everything = needs(300_000, tensor_memory=1024, num_warps=64)
    assert verdict(everything, SM_100).cause == "shared memory"
    assert verdict(needs(1_024, tensor_memory=1024, num_warps=64), SM_100).cause == "tensor memory"
    assert verdict(needs(1_024, tensor_memory=512, num_warps=64), SM_100).cause == "threads"
    assert verdict(needs(1_024, tensor_memory=512, num_warps=32), SM_100).kind is VerdictKind.FITS


def test_64_warps_are_2048_threads() -> None:
    """Measured on an H200, Triton 3.6.0: 'out of resource: threads, Required: 2048, Hardware limit: 1024', time inf."""
    pruned = verdict(needs(0, num_warps=64), SM_90)
    assert (pruned.kind, pruned.cause, pruned.need, pruned.limit) == (VerdictKind.PRUNED, "threads", 2048, 1024)


@pytest.mark.parametrize(
    ("registers", "threads"),
    [(64, 1024), (72, 896), (80, 768), (96, 640), (128, 512), (168, 384), (255, 256)],
)
def test_registers_bound_the_block_as_the_driver_says(registers: int, threads: int) -> None:
    """The driver's largest block by registers per thread, read on an H200 for every kernel of the recorded runs."""
    assert verdict(needs(0, registers=registers, num_warps=threads // 32), SM_90).kind is VerdictKind.FITS
    over = verdict(needs(0, registers=registers, num_warps=threads // 32 + 1), SM_90)
    assert (over.cause, over.limit) == ("threads", threads)


def test_an_amd_wavefront_has_64_threads() -> None:
    outcome = needs(0, num_warps=32, threads=32 * 64)
    assert verdict(outcome, resolve_target("mi300x")).cause == "threads"
    assert verdict(needs(0, num_warps=32), resolve_target("gfx1100")).kind is VerdictKind.FITS


def test_a_target_without_a_known_limit_is_unknown_not_fits() -> None:
    sm_107 = resolve_target("sm_107")
    unknown = verdict(needs(1_024), sm_107)
    assert unknown.kind is VerdictKind.UNKNOWN
    assert unknown.message == ("needs 1,024 B of shared memory per block, and no source gives the limit of sm_107")
    assert verdict(needs(0), sm_107).kind is VerdictKind.FITS


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (FailureKind.STATIC_ASSERTION, VerdictKind.PRUNED),
        (FailureKind.PTXAS, VerdictKind.PRUNED),
        (FailureKind.COMPILATION_ERROR, VerdictKind.CRASHES),
        (FailureKind.ABORT, VerdictKind.CRASHES),
        (FailureKind.TIMEOUT, VerdictKind.UNKNOWN),
        (FailureKind.ENDED, VerdictKind.UNKNOWN),
        (FailureKind.UNSUPPORTED, VerdictKind.UNSUPPORTED),
        (FailureKind.UNAVAILABLE, VerdictKind.UNKNOWN),
    ],
)
def test_the_autotuner_catches_three_exceptions_and_no_others(kind: FailureKind, expected: VerdictKind) -> None:
    refused = verdict(refuses(kind, "because"))
    assert (refused.kind, refused.cause, refused.message) == (expected, kind.value, "because")


def test_what_does_not_compile_as_it_was_assumed_is_unknown() -> None:
    failed = refuses(FailureKind.COMPILATION_ERROR, "cannot dot fp16 with i32")
    pairs = {"sm_90": [(config(22, B=1), failed), (config(23, B=2), failed)]}
    assumed = doubted(report(pairs, [specialization({"q": "*fp16"})]))
    assert {result.verdict.kind for result in assumed.results} == {VerdictKind.UNKNOWN}
    message = "it does not compile as its launch was assumed to be: cannot dot fp16 with i32"
    assert {result.verdict.message for result in assumed.results} == {message}
    certain = doubted(report(pairs, [specialization()]))
    assert {result.verdict.kind for result in certain.results} == {VerdictKind.CRASHES}


def test_what_no_assumption_can_change_is_certain() -> None:
    """The text needs another Triton, so it ends the program under whatever types."""
    failed = refuses(
        FailureKind.COMPILATION_ERROR,
        "NotImplementedError: Block pointers have been removed in favor of the tensor descriptor API",
    )
    doubtful = doubted(report({"sm_90": [(config(22), failed)]}, [specialization({"q": "*fp16"})]))
    assert doubted(doubtful) == doubtful  # as for a part of an earlier report
    (result,) = doubtful.results
    assert result.verdict.kind is VerdictKind.CRASHES
