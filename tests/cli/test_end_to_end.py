"""The program as a user runs it, with the real compiler: the story, a worker that is killed, two runs at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parent.parent.parent
FIXTURES = ROOT / "fixtures"
SCHEMA = json.loads((ROOT / "smemcheck" / "report" / "report.schema.json").read_text(encoding="utf-8"))

pytest.importorskip("triton", reason="there is no Triton here, so no config is judged")


def start(*arguments: str, cache: Path) -> subprocess.Popen[str]:
    """``smemcheck …`` in the repository's root, with answers kept in ``cache`` only."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "COLUMNS": "200"}
    command = [sys.executable, "-m", "smemcheck", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def document(output: str) -> dict[str, Any]:
    read = json.loads(output)
    jsonschema.validate(read, SCHEMA)
    assert isinstance(read, dict)
    return read


def rows(report: dict[str, Any]) -> list[tuple[object, ...]]:
    """The results of a report without how they were come by."""
    return [
        (
            json.dumps(r["config"]),
            r["site"],
            r["specialization"],
            r["target"],
            r["verdict"],
            r["shared_memory"],
            r["cause"],
        )
        for r in report["results"]
    ]


def test_the_story(tmp_path: Path) -> None:
    """On an RTX 5090 two of three configs are pruned and the smallest tile wins without a contest; an H100 takes all."""
    file = tmp_path / "report.json"
    program = start("fixtures", "--arch", "sm_120", "--arch", "sm_90", "--output", f"json:{file}", cache=tmp_path)
    out, err = program.communicate()
    assert (program.returncode, err) == (1, "")
    assert (
        "  BLOCK_T=16, num_warps=4, num_stages=2      83,968 B fits   131,072 B fits\n"
        "  BLOCK_T=32, num_warps=4, num_stages=2   102,400 B pruned   131,072 B fits\n"
        "  BLOCK_T=32, num_warps=8, num_stages=2   102,400 B pruned   131,072 B fits\n"
    ) in out
    assert (
        "fixtures/sparse_decode.py:16:1: SMC302 one of 3 configs of _mma_sparse_decode_split_kernel survives on sm_120: "
        "BLOCK_T=16, num_warps=4, num_stages=2 wins without a contest\n"
    ) in out
    told = [line for line in out.splitlines() if "SMC101 _mma_sparse_decode_split_kernel" in line]
    assert [line.partition(": ")[0] for line in told] == [
        "fixtures/sparse_decode.py:19:9",
        "fixtures/sparse_decode.py:20:9",
    ]
    assert all(
        "needs 102,400 B of shared memory per block, 1,024 B over sm_120's limit of 101,376 B" in line for line in told
    )
    report = document(file.read_text(encoding="utf-8"))
    assert report["files"] == len(list(FIXTURES.glob("*.py")))
    assert {r["verdict"] for r in report["results"]} == {"fits", "pruned", "crashes"}


def test_a_worker_killed_in_mid_run_costs_one_job_at_most(tmp_path: Path) -> None:
    arguments = ("fixtures/matmul.py", "--arch", "sm_120", "--jobs", "1", "--no-cache", "--format", "json")
    calm = start(*arguments, cache=tmp_path)
    expected = rows(document(calm.communicate()[0]))
    program = start(*arguments, cache=tmp_path)
    worker = _child_of(program.pid)
    time.sleep(0.5)  # it has been given its first job, and imports Triton
    os.kill(worker, signal.SIGKILL)
    out, err = program.communicate()
    report = document(out)
    assert program.returncode == 1
    assert "Traceback" not in err
    lost = Counter(expected) - Counter(rows(report))
    assert sum(lost.values()) <= 1
    killed = [r for r in report["results"] if r["verdict"] == "crashes"]
    assert len(killed) == sum(lost.values())
    assert all(r["cause"] == "compiler abort" and "SIGKILL" in r["message"] for r in killed)


def test_two_runs_at_once_on_one_cold_store_give_the_same_report(tmp_path: Path) -> None:
    arguments = ("fixtures/sparse_decode.py", "fixtures/softmax.py", "--arch", "sm_120", "--format", "json")
    programs = [start(*arguments, cache=tmp_path / "shared") for _ in range(2)]
    reports = [document(program.communicate()[0]) for program in programs]
    assert [program.returncode for program in programs] == [1, 1]
    for report in reports:
        for result in report["results"]:
            del result["cached"]
    assert reports[0] == reports[1]
    assert reports[0]["notes"] == []
    alone = start(*arguments, "--no-cache", cache=tmp_path / "own")
    assert rows(document(alone.communicate()[0])) == rows(reports[0])


def _child_of(parent: int) -> int:
    """The first process that ``parent`` starts."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                return int(stat.parent.name)
        time.sleep(0.02)
    raise AssertionError("no worker was started")
