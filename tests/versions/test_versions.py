"""Other Tritons: the same jobs through the same worker, side by side in the report.

The slow tests need interpreters with Triton 3.2 to 3.9: ``SMEMCHECK_TRITONS`` lists them (``make_interpreters.py``).
"""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from smemcheck import cli, pipeline
from smemcheck.config import Settings
from smemcheck.lower.installation import identify
from smemcheck.report.text import render

HERE = Path(__file__).parent
FIXTURES = HERE.parent.parent / "fixtures"
RECORDED = HERE.parent / "fixtures" / "specializations.jsonl"
SINGLE_COLUMN = HERE / "single_column.py"

INTERPRETERS = [python for python in os.environ.get("SMEMCHECK_TRITONS", "").split(os.pathsep) if python]
needs_interpreters = pytest.mark.skipif(
    not INTERPRETERS, reason="SMEMCHECK_TRITONS names no interpreters: python tests/versions/make_interpreters.py"
)

# What the public report's kernel needs on sm_89 when N is 1; the limit is 101,376 B.
BYTES_OF_VERSION = {
    (3, 4): 82_944,
    (3, 5): 131_072,
    (3, 6): 131_072,
    (3, 7): 98_304,
    (3, 9): 98_304,
}


def check(*arguments: str) -> dict:
    ran = CliRunner().invoke(cli.cli, ["check", *arguments, "--no-cache", "--exit-zero", "--format", "json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """The launch of the public report: N, and with it every stride of the last dimension, is 1."""
    ones = ("N", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn")
    row = {
        "kernel": "persistent_product",
        "path": "single_column.py",
        "signature": {
            **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp32"),
            **dict.fromkeys(("M", "K", "stride_am"), "i32"),
            **dict.fromkeys((*ones, "BLOCK_M", "BLOCK_N", "BLOCK_K", "PROGRAMS"), "constexpr"),
        },
        "constexprs": {**dict.fromkeys(ones, 1), "PROGRAMS": 92},
        "divisible_by_16": ["a_ptr", "b_ptr", "c_ptr", "M", "K", "stride_am"],
    }
    path = tmp_path / "recorded.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return str(path)


@pytest.fixture
def second_interpreter(tmp_path: Path) -> str:
    """This interpreter under another name: another Triton as far as smemcheck can see."""
    pytest.importorskip("triton", reason="the second interpreter lowers with the installed Triton")
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_every_row_is_answered_by_every_triton(recorded, second_interpreter) -> None:
    report = check(str(SINGLE_COLUMN), "--specializations", recorded, "--arch", "sm_89", "--triton", second_interpreter)
    own, other = report["tritons"]
    assert other == f"{own} ({second_interpreter})"
    first, second = report["results"]
    assert (first.pop("triton"), second.pop("triton")) == (own, other)
    assert first == second


def test_tritons_stand_side_by_side(recorded, second_interpreter) -> None:
    settings = Settings(
        targets=("sm_89", "sm_90"), specializations=(recorded,), tritons=(second_interpreter,), cache=False
    )
    shown = render(pipeline.check([str(SINGLE_COLUMN)], settings), folder="/", color=False, width=300)
    heading = next(line for line in shown.splitlines() if line.startswith("  config "))
    own = identify().version
    tritons = (own, f"{own} ({second_interpreter})")
    assert [part.strip() for part in heading.split("   ") if part.strip()] == [
        "config",
        *(f"{triton} {target}" for triton in tritons for target in settings.targets),
    ]


def test_an_interpreter_without_triton_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    ran = CliRunner().invoke(cli.cli, ["check", str(SINGLE_COLUMN), "--triton", missing])
    assert ran.exit_code == 2
    assert f"--triton {missing}: this is no Python interpreter with Triton" in ran.output


@pytest.mark.slow
@needs_interpreters
def test_the_verdict_of_the_public_report_flips_with_the_version(recorded) -> None:
    known = {python: BYTES_OF_VERSION.get(_version(python)) for python in INTERPRETERS}
    arguments = [part for python, number in known.items() if number for part in ("--triton", python)]
    report = check(str(SINGLE_COLUMN), "--specializations", recorded, "--arch", "sm_89", *arguments)
    asked = {row["triton"]: row for row in report["results"]}
    for name, row in asked.items():
        needed = BYTES_OF_VERSION[tuple(map(int, name.split()[0].split(".")[:2]))]
        assert (row["shared_memory"], row["verdict"]) == (needed, "fits" if needed <= 101_376 else "pruned"), name


@pytest.mark.slow
@needs_interpreters
@pytest.mark.parametrize("python", INTERPRETERS)
def test_each_version_lowers_the_fixtures(python: str) -> None:
    """Every config has an answer: bytes, or a refusal of the compiler's own. None stays unknown and none ends the worker."""
    report = check(
        str(FIXTURES), "--specializations", str(RECORDED), "--arch", "sm_90", "--jobs", "2", "--triton", python
    )
    name = report["tritons"][-1]
    rows = [row for row in report["results"] if row["triton"] == name]
    assert rows
    asked_for = {(row["site"], row["specialization"]) for row in rows}
    assert len({specialization for _, specialization in asked_for}) == len(RECORDED.read_text().splitlines())
    causes = {row["cause"] for row in rows if row["verdict"] in ("unknown", "unsupported")}
    assert causes == set()
    assert "compiler abort" not in {row["cause"] for row in rows}
    assert any(row["shared_memory"] for row in rows)
    products = [row for row in rows if report["sites"][row["site"]]["kernel"] == "matmul_kernel"]
    for row in products:
        tile = row["config"]["kwargs"]
        assert row["registers_at_least"] >= tile["BLOCK_M"] * tile["BLOCK_N"] // row["threads"], "the accumulator"


def _version(python: str) -> tuple[int, ...]:
    installation = identify(python)
    assert installation is not None, f"{python} of SMEMCHECK_TRITONS has no Triton"
    return tuple(map(int, installation.version.split(".")[:2]))
