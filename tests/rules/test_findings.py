"""What the rules say about reports, word for word."""

from __future__ import annotations

from dataclasses import replace

from handmade import FILE, buffer, config, needs, refuses, report, specialization, story
from smemcheck.model import FailureKind, Finding, Position, Problem, Severity, SiteKind, Unknown, Verdict, VerdictKind
from smemcheck.rules import findings


def said(made, rule: str) -> list[str]:
    return [finding.message for finding in made.findings if finding.rule == rule]


def rules(made) -> list[str]:
    return [finding.rule for finding in made.findings]


def test_the_story_is_told() -> None:
    made = story()
    assert [(f.rule, f.position.line, f.target) for f in made.findings] == [
        ("SMC302", 20, "sm_120"),
        ("SMC101", 23, "sm_120"),
        ("SMC101", 24, "sm_120"),
    ]
    assert said(made, "SMC101")[0] == (
        "decode: BLOCK_T=32, num_warps=4, num_stages=1 needs 102,400 B of shared memory per block, 1,024 B over sm_120's "
        "limit of 101,376 B (assuming HEAD_DIM=512; *bf16: q_ptr). Largest buffers: kv (line 60) 65,536 B, q (line 55) "
        "36,864 B. The autotuner prunes it silently; with BLOCK_T=16 it fits (83,968 B)"
    )
    assert said(made, "SMC302") == [
        "one of 3 configs of decode survives on sm_120: BLOCK_T=16, num_warps=4, num_stages=1 wins without a contest"
    ]


def test_a_list_that_fits_is_left_alone() -> None:
    pairs = [(config(BLOCK_T=16), needs(83_968)), (config(BLOCK_T=32), needs(101_376))]
    assert rules(report({"sm_120": pairs})) == []


def test_the_only_config_is_launched_without_a_trial() -> None:
    made = report({"sm_120": [(config(BLOCK_T=32), needs(102_400))]})
    assert rules(made) == ["SMC101"]
    assert said(made, "SMC101")[0].endswith(
        "It is the list's only config, so it is launched without a trial and raises OutOfResources"
    )


def test_a_fixed_launch_over_the_limit_raises() -> None:
    made = report({"sm_120": [(config(BLOCK_T=32), needs(102_400))]}, kind=SiteKind.LAUNCH)
    assert rules(made) == ["SMC100"]
    assert said(made, "SMC100")[0].endswith("The launch raises OutOfResources")


def test_when_none_fits_the_first_is_launched_and_the_nearest_is_named() -> None:
    pairs = [(config(22, BLOCK_T=64), needs(200_000)), (config(23, BLOCK_T=32), needs(102_400))]
    made = report({"sm_120": pairs})
    assert said(made, "SMC301") == [
        "no config of decode fits sm_120: all 2 are pruned, so Triton launches the first (BLOCK_T=64, num_warps=4, "
        "num_stages=1) and it raises; nearest is BLOCK_T=32, num_warps=4, num_stages=1, 1,024 B of 102,400 B over"
    ]
    assert "prunes it silently; with" not in said(made, "SMC101")[0]


def test_the_nearest_fit_differs_least() -> None:
    pairs = [
        (config(22, BLOCK_T=32, num_stages=3), needs(150_000)),
        (config(23, BLOCK_T=16, num_stages=1), needs(40_000)),
        (config(24, BLOCK_T=32, num_stages=2), needs(100_000)),
    ]
    made = report({"sm_120": pairs})
    assert said(made, "SMC101")[0].endswith("with num_stages=2 it fits (100,000 B)")


def test_a_verdict_that_depends_on_a_swept_constant_says_for_which() -> None:
    def pairs(small: int, large: int):
        return {"sm_120": [(config(22, BLOCK_T=16), needs(small)), (config(23, BLOCK_T=32), needs(large))]}

    swept = [specialization({"q": "*fp16"}, D=64), specialization({"q": "*fp16"}, D=128)]
    made = report([pairs(20_000, 40_000), pairs(60_000, 120_000)], swept)
    assert "over sm_120's limit of 101,376 B for D ≥ 128 (assuming D=128; *fp16: q)." in said(made, "SMC101")[0]
    assert said(made, "SMC302")[0].startswith("one of 2 configs of decode survives on sm_120 for D ≥ 128: BLOCK_T=16")


def test_a_verdict_that_depends_on_the_type_says_which() -> None:
    def pairs(size: int):
        return {"sm_120": [(config(22, B=1), needs(10)), (config(24, B=2), needs(11)), (config(23, B=3), needs(size))]}

    made = report([pairs(60_000), pairs(120_000)], [specialization({"q": "*fp16"}), specialization({"q": "*fp32"})])
    assert " for q = *fp32 (assuming *fp32: q)" in said(made, "SMC101")[0]


def test_what_depends_on_the_callers_choice_of_a_type_is_a_warning() -> None:
    def pairs(size: int):
        return {"sm_120": [(config(22, B=1), needs(size)), (config(23, B=2), needs(size))]}

    half, single = specialization({"q": "*fp16"}, D=64), specialization({"q": "*fp32"}, D=64)
    large = specialization({"q": "*fp16"}, D=128)
    flagged = [specialization({"q": kind}, IS_FP32=kind == "*fp32") for kind in ("*fp16", "*fp32")]
    assert severities(report([pairs(60_000), pairs(120_000)], flagged)) == {"SMC101": "warning", "SMC301": "warning"}
    assert severities(report([pairs(60_000), pairs(120_000)], [half, single])) == {
        "SMC101": "warning",
        "SMC301": "warning",
    }
    assert severities(report([pairs(60_000), pairs(120_000)], [half, large])) == {"SMC101": "error", "SMC301": "error"}
    both = report([pairs(60_000), pairs(120_000), pairs(120_000)], [half, single, large])
    assert severities(both) == {"SMC101": "error", "SMC301": "error"}


def severities(made) -> dict[str, str]:
    return {finding.rule: finding.severity.value for finding in made.findings if finding.severity is not Severity.NOTE}


def test_tensor_memory_and_threads_have_rules_of_their_own() -> None:
    pairs = [
        (config(22, BLOCK_M=128), needs(1_000, tensor_memory=512)),
        (config(23, BLOCK_M=256), needs(1_000, tensor_memory=1024)),
        (config(24, BLOCK_M=128, num_warps=64), needs(1_000, num_warps=64)),
        (config(25, BLOCK_M=64), needs(1_000)),
        (config(26, BLOCK_M=32), needs(1_000)),
    ]
    made = report({"sm_100": pairs})
    assert rules(made) == ["SMC102", "SMC103"]
    assert (
        "needs 1,024 columns of tensor memory, 512 columns over sm_100's limit of 512 columns"
        in said(made, "SMC102")[0]
    )
    assert (
        "needs 2,048 threads per block, 1,024 threads over sm_100's limit of 1,024 threads" in said(made, "SMC103")[0]
    )


def test_a_static_assertion_is_a_warning_and_names_its_line() -> None:
    failed = refuses(FailureKind.STATIC_ASSERTION, "BLOCK_T must be at most 16", line=45)
    made = report(
        {
            "sm_90": [
                (config(22, BLOCK_T=16), needs(1)),
                (config(24, BLOCK_T=8), needs(1)),
                (config(23, BLOCK_T=32), failed),
            ]
        }
    )
    [finding] = made.findings
    assert (finding.rule, finding.severity, finding.position.line) == ("SMC104", Severity.WARNING, 23)
    assert finding.message == (
        "decode: BLOCK_T=32, num_warps=4, num_stages=1 fails on sm_90 at line 45: BLOCK_T must be at most 16; "
        "the autotuner prunes it silently"
    )


def test_ptxas_and_spills() -> None:
    rejected = refuses(FailureKind.PTXAS, "ptxas fatal: (C7602) Insufficient registers (64)")
    pairs = [
        (config(22, BLOCK_T=16), needs(1, registers=255, spill_bytes=264)),
        (config(23, BLOCK_T=32), rejected),
        (config(24, BLOCK_T=8), needs(1, registers=40, spill_bytes=0)),
    ]
    made = report({"sm_90": pairs})
    assert rules(made) == ["SMC111", "SMC105"]
    assert said(made, "SMC111") == [
        "decode: BLOCK_T=16, num_warps=4, num_stages=1 spills 264 B per thread to local memory on sm_90 (255 registers per thread)"
    ]


def test_a_compilation_error_is_one_finding_for_all_configs_it_hits() -> None:
    failed = refuses(FailureKind.COMPILATION_ERROR, "shapes do not match", line=60, exception="CompilationError")
    pairs = [
        (config(22, B=1), failed),
        (config(23, B=2), failed),
        (config(24, B=3), needs(1)),
        (config(25, B=4), needs(1)),
    ]
    made = report({"sm_90": pairs})
    [finding] = made.findings
    assert (finding.rule, finding.position.line) == ("SMC201", 60)
    assert finding.message == (
        "decode: 2 of 4 configs (first: B=1, num_warps=4, num_stages=1) fail to compile with CompilationError on sm_90 at line 60: "
        "shapes do not match; the autotuner does not catch that, so it ends the program"
    )


def test_when_nothing_compiles_under_assumed_types_the_assumption_is_doubted() -> None:
    failed = refuses(FailureKind.COMPILATION_ERROR, "cannot dot fp16 with i32")
    pairs = [(config(22, B=1), failed), (config(23, B=2), failed)]
    assumed = report({"sm_90": pairs}, [specialization({"q": "*fp16"})])
    assert rules(assumed) == ["SMC901"]
    assert said(assumed, "SMC901") == [
        "decode was not judged: it does not compile as its launch was assumed to be (*fp16: q): cannot dot fp16 with i32"
    ]
    recorded = report({"sm_90": pairs}, [specialization()])
    assert rules(recorded) == ["SMC201"]


def test_a_worker_that_our_own_limit_ended_says_nothing_of_the_users_gpu() -> None:
    ended = refuses(
        FailureKind.ENDED, "the compiler took more than the 8 GiB of memory that it may have (--memory-limit)"
    )
    made = report({"sm_90": [(config(22, B=1), ended), (config(23, B=2), needs(1))]})
    assert [result.verdict.kind for result in made.results] == [VerdictKind.UNKNOWN, VerdictKind.FITS]
    assert [(f.rule, f.severity) for f in made.findings] == [("SMC202", Severity.WARNING)]
    assert said(made, "SMC202") == [
        "decode: B=1, num_warps=4, num_stages=1 was given up on sm_90: the compiler took more than the 8 GiB of memory that it "
        "may have (--memory-limit); on another machine it may finish, so nothing is said of it"
    ]


def test_an_abort_is_an_error_and_a_timeout_a_warning() -> None:
    pairs = [
        (config(22, B=1), refuses(FailureKind.ABORT, "the worker was ended by SIGABRT")),
        (config(23, B=2), refuses(FailureKind.TIMEOUT, "it took more than 120 s")),
        (config(24, B=3), needs(1)),
        (config(25, B=4), needs(1)),
    ]
    made = report({"sm_90": pairs})
    assert [(f.rule, f.severity) for f in made.findings] == [
        ("SMC202", Severity.ERROR),
        ("SMC202", Severity.WARNING),
    ]


def test_an_unsupported_target_is_said_once() -> None:
    refused = refuses(FailureKind.UNSUPPORTED, "gfx1250 is not known to this Triton")
    made = report({"gfx1250": [(config(22, B=1), refused), (config(23, B=2), refused)]})
    assert said(made, "SMC203") == [
        "Triton 3.6.0 cannot compile for gfx1250, so 2 configs were not judged there: gfx1250 is not known to this Triton"
    ]
    assert rules(made) == ["SMC203"]


def test_a_duplicate_is_named_with_the_line_it_repeats() -> None:
    pairs = [(config(22, B=1), needs(1)), (config(23, B=2), needs(1)), (config(24, B=1), needs(1))]
    [finding] = report({"sm_90": pairs, "sm_80": pairs}).findings
    assert (finding.rule, finding.position.line) == ("SMC303", 24)
    assert finding.message == "B=1, num_warps=4, num_stages=1 repeats the one at line 22"


def test_a_file_that_cannot_be_read_is_a_finding() -> None:
    broken = Problem("it is not valid Python: unexpected indent", Position(FILE, 3))
    made = report({"sm_90": [(config(22, B=1), needs(1)), (config(23, B=2), needs(1))]}, problems=[broken])
    assert [(f.rule, f.message) for f in made.findings] == [("SMC901", broken.message)]


def test_buffers_of_the_compiler_itself_are_called_scratch() -> None:
    outcome = needs(102_400, buffers=(buffer("", 60, 102_400),))
    made = report({"sm_120": [(config(22, B=1), needs(1)), (config(24, B=3), needs(1)), (config(23, B=2), outcome)]})
    assert "Largest buffers: compiler scratch (line 60) 102,400 B." in said(made, "SMC101")[0]


def test_findings_are_frozen_values() -> None:
    assert all(isinstance(finding, Finding) for finding in story().findings)


def test_what_is_wrong_with_a_shared_list_is_said_once() -> None:
    pairs = [(config(22, B=1), needs(1)), (config(23, B=2), needs(1)), (config(24, B=1), needs(1))]
    one = report({"sm_90": pairs})
    two = replace(one, sites=(one.sites[0], replace(one.sites[0], kernel_name="other")), results=())
    assert [finding.rule for finding in findings(two)] == ["SMC303"]


def test_guesses_that_do_not_compile_are_one_note_where_others_do() -> None:
    failed = refuses(FailureKind.COMPILATION_ERROR, "NameError: output is not defined", line=60)
    fits = {"sm_90": [(config(22, B=1), needs(1)), (config(23, B=2), needs(2))]}
    fails = {"sm_90": [(config(22, B=1), failed), (config(23, B=2), failed)]}
    guessed = [specialization(ACT="silu"), specialization(ACT=""), specialization(ACT="none")]
    [finding] = report([fits, fails, fails], guessed).findings
    assert (finding.rule, finding.severity) == ("SMC901", Severity.NOTE)
    assert finding.message == (
        "decode was not judged in every way: it does not compile under 2 of 3 specialisations that were assumed, such as "
        "(ACT=''): line 60: NameError: output is not defined"
    )
    [finding] = report([fails, fails], guessed[1:]).findings
    assert finding.severity is Severity.WARNING
    assert (
        "it does not compile under any of the 2 specialisations that were assumed, such as (ACT='')" in finding.message
    )


def left_out(made, *configs):
    """The report with these configs dropped by the author's pruning."""
    dropped = Verdict(VerdictKind.PRUNED, "early_config_prune", "the author's early_config_prune drops it")
    results = [replace(r, verdict=dropped, outcome=None) if r.config in configs else r for r in made.results]
    made = replace(made, results=tuple(results))
    return replace(made, findings=findings(made))


def test_what_the_author_leaves_out_is_not_on_the_list() -> None:
    large, middle, small = config(22, BLOCK_T=64), config(23, BLOCK_T=32), config(24, BLOCK_T=16)
    tiny = config(25, BLOCK_T=8)
    made = report(
        {"sm_120": [(large, needs(200_000)), (middle, needs(110_000)), (small, needs(80_000)), (tiny, needs(9_000))]}
    )
    assert rules(made) == ["SMC305", "SMC101", "SMC306", "SMC101"]
    assert rules(left_out(made, large, middle)) == []
    assert rules(left_out(made, large, small)) == ["SMC302", "SMC101"]
    assert said(left_out(made, large, small), "SMC302")[0].startswith("one of 2 configs of decode survives on sm_120")
    assert said(left_out(made, small, tiny), "SMC301")[0].startswith(
        "no config of decode fits sm_120: all 2 are pruned"
    )


def test_the_author_leaves_one_or_none() -> None:
    small, large = config(22, BLOCK_T=16), config(23, BLOCK_T=32)
    made = report({"sm_90": [(small, needs(1_000)), (large, needs(2_000))]})
    assert said(left_out(made, large), "SMC304") == [
        "early_config_prune leaves one of 2 configs of decode on sm_90 (BLOCK_T=16, num_warps=4, num_stages=1), "
        "so none competes with it"
    ]
    [none] = left_out(made, small, large).findings
    assert (none.rule, none.severity) == ("SMC304", Severity.ERROR)
    assert (
        none.message
        == "early_config_prune leaves none of 2 configs of decode on sm_90, and Triton raises AutotunerError"
    )


def test_a_kernel_that_is_unknown_is_said_once() -> None:
    made = report({"sm_90": [(config(22, B=1), Unknown("what the kernel reads is not known"))]})
    answers = {"sm_90": replace(made.sites[0].answers["sm_90"], kernel=Unknown("what the kernel reads is not known"))}
    made = replace(made, sites=(replace(made.sites[0], answers=answers),))
    assert [finding.message for finding in findings(made)] == [
        "the kernel of decode is unknown: what the kernel reads is not known"
    ]


def test_the_number_is_that_of_the_plainest_specialisation_that_is_pruned() -> None:
    def pairs(size: int):
        return {"sm_120": [(config(22, B=1), needs(10)), (config(24, B=2), needs(11)), (config(23, B=3), needs(size))]}

    made = report([pairs(120_000), pairs(240_000)], [specialization({"q": "*fp16"}), specialization({"q": "*fp32"})])
    [message] = said(made, "SMC101")
    assert (
        "needs 120,000 B of shared memory per block, 18,624 B over sm_120's limit of 101,376 B (assuming *fp16: q)"
        in message
    )
