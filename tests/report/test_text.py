"""The report for people, as it is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handmade import KERNEL, config, needs, refuses, report, specialization, story
from smemcheck.model import FailureKind, Position, TargetAnswer, Unknown
from smemcheck.report.text import render, render_sites
from smemcheck.report.wording import summary


def shown(made, **options) -> str:
    return render(made, **{"folder": "/repo", "color": False, "width": 120, **options})


def test_the_story() -> None:
    assert shown(story()) == (
        "pkg/decode.py:41 decode\n"
        "  assuming HEAD_DIM=512; *bf16: q_ptr\n"
        "  config                                            sm_120            sm_90\n"
        " ───────────────────────────────────────────────────────────────────────────\n"
        "  BLOCK_T=16, num_warps=4, num_stages=1      83,968 B fits    83,968 B fits\n"
        "  BLOCK_T=32, num_warps=4, num_stages=1   102,400 B pruned   102,400 B fits\n"
        "  BLOCK_T=32, num_warps=8, num_stages=1   102,400 B pruned   102,400 B fits\n"
        "\n"
        "pkg/decode.py:20:2: SMC302 one of 3 configs of decode survives on sm_120: BLOCK_T=16, num_warps=4, num_stages=1 wins "
        "without a contest\n"
        "pkg/decode.py:23:9: SMC101 decode: BLOCK_T=32, num_warps=4, num_stages=1 needs 102,400 B of shared memory per block, 1,024 "
        "B over sm_120's limit of 101,376 B (assuming HEAD_DIM=512; *bf16: q_ptr). Largest buffers: kv (line 60) 65,536 B, "
        "q (line 55) 36,864 B. The autotuner prunes it silently; with BLOCK_T=16 it fits (83,968 B)\n"
        "pkg/decode.py:24:9: SMC101 decode: BLOCK_T=32, num_warps=8, num_stages=1 needs 102,400 B of shared memory per block, 1,024 "
        "B over sm_120's limit of 101,376 B (assuming HEAD_DIM=512; *bf16: q_ptr). The autotuner prunes it silently; with "
        "BLOCK_T=16, num_warps=4 it fits (83,968 B)\n"
        "\n"
        "1 file, 1 kernel site; 6 results on 2 targets: 4 fits, 2 pruned; 2 errors, 1 warning (Triton 3.6.0)\n"
    )


def test_quiet_is_findings_and_summary() -> None:
    lines = shown(story(), detail=0).splitlines()
    assert [line.split(" ")[1] for line in lines[:3]] == ["SMC302", "SMC101", "SMC101"]
    assert lines[-1].startswith("1 file, ")


def test_verbose_gives_every_assumption_its_reason_and_place() -> None:
    assert "    q_ptr = *bf16: it is loaded from (pkg/decode.py:50)\n" in shown(story(), detail=2)


def test_colour_is_escape_codes_and_nothing_else() -> None:
    assert "\x1b[" not in shown(story())
    assert "\x1b[31m" in shown(story(), color=True)


def test_a_refusal_is_named_in_its_cell() -> None:
    pairs = [
        (config(22, B=1), refuses(FailureKind.STATIC_ASSERTION, "no")),
        (config(23, B=2), needs(0, num_warps=64)),
        (config(24, B=3), needs(1_024, registers=128, spill_bytes=64)),
    ]
    text = shown(report({"sm_90": pairs}))
    assert "pruned: static assertion" in text
    assert "0 B pruned: threads" in text
    assert "1,024 B fits, 128 regs, 64 B spilled" in text


def test_specialisations_with_the_same_table_share_it() -> None:
    pairs = {"sm_90": [(config(22, B=1), needs(10)), (config(23, B=2), needs(20))]}
    text = shown(report([pairs, pairs], [specialization(D=64), specialization(D=128)]))
    assert text.count("B=1, num_warps=4") == 1
    assert "  assuming D=64\n  assuming D=128\n" in text


def test_many_specialisations_with_the_same_table_are_counted() -> None:
    pairs = {"sm_90": [(config(22, B=1), needs(10)), (config(23, B=2), needs(20))]}
    made = report([pairs] * 4, [specialization(D=size) for size in (16, 32, 64, 128)])
    assert "  assuming D=16\n  and the same for 3 more specialisations\n  config" in shown(made)
    assert "  assuming D=64\n" in shown(made, detail=2)


def test_an_unknown_list_says_why_and_where() -> None:
    made = story()
    unknown = Unknown("the list is read from a file", Position("/repo/pkg/tables.py", 7))
    answers = {"sm_120": TargetAnswer(unknown, KERNEL), "sm_90": made.sites[0].answers["sm_90"]}
    made = replace(made, sites=(replace(made.sites[0], answers=answers),), results=(), findings=())
    assert "  unknown on sm_120: the list is read from a file (tables.py:7)\n" in shown(made)
    listed = render_sites(made, folder="/repo", color=False, width=120)
    assert "  sm_120: unknown: the list is read from a file (tables.py:7)\n" in listed
    assert "  sm_90: 3 configs\n    BLOCK_T=16, num_warps=4, num_stages=1 (line 22)\n" in listed


def test_markup_in_messages_is_text() -> None:
    pairs = [(config(22, B=1), needs(1)), (config(23, B=2), refuses(FailureKind.STATIC_ASSERTION, "x[bold] != [/]"))]
    assert "x[bold] != [/]" in shown(report({"sm_90": pairs}))


def test_nothing_to_read_is_said() -> None:
    empty = replace(story(), sites=(), specializations=(), results=(), findings=(), files=0)
    assert shown(empty) == "no Python file was found under /repo\n"


@pytest.mark.parametrize(
    ("files", "text"), [(1, "1 file, 0 kernel sites; nothing found"), (2, "2 files, 0 kernel sites; nothing found")]
)
def test_a_clean_run_is_one_line(files: int, text: str) -> None:
    assert summary(replace(story(), sites=(), specializations=(), results=(), findings=(), files=files)) == text
