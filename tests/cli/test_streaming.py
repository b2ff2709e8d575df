"""At a terminal a kernel's table is shown as soon as all of it is known; what is shown in the end is the same as anywhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Failure, FailureKind, Job, Outcome, Report, Site
from smemcheck.rules.example import needs

KERNELS = """\
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def first(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))


@triton.autotune([triton.Config({"BLOCK": 32})], key=[])
@triton.jit
def second(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) + 1)
"""


def events(path: Path, refused: Sequence[str] = ()) -> tuple[list[object], Report]:
    """What happens in a run: configs that the compiler answers, by their BLOCK, and kernels that are told of as done."""
    found: list[object] = []

    def lower(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            found.append(dict(job.config.kwargs)["BLOCK"])
            if job.kernel.entry.name in refused:
                yield index, Failure(FailureKind.COMPILATION_ERROR, "TypeError: no", "3.9.0")
            else:
                yield index, needs(1024)

    def watch(report: Report, site: Site) -> None:
        assert {report.sites[result.site] is site for result in report.results} == {True}
        found.append((site.kernel_name, len(report.results)))

    path.write_text(KERNELS, encoding="utf-8")
    settings = Settings(targets=("sm_90",), cache=False, max_specializations=1)
    return found, pipeline.check([str(path)], settings, lower=lower, watch=watch)


def test_a_kernel_is_told_of_before_the_next_one_is_asked_for(tmp_path: Path) -> None:
    found, _ = events(tmp_path / "kernels.py")
    assert found == [64, 128, ("first", 2), 32, ("second", 1)]


def test_a_kernel_that_does_not_compile_as_assumed_waits_for_other_assumptions(tmp_path: Path) -> None:
    found, report = events(tmp_path / "kernels.py", refused=["first"])
    assert [one for one in found if isinstance(one, tuple)] == [("second", 1)]
    assert len(report.results) == 3


def without_escapes(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are Unix's")
def test_a_terminal_shows_each_table_once(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="lowering needs Triton")
    import pty

    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    command = [sys.executable, "-m", "smemcheck", "kernels.py", "--arch", "sm_90", "--no-cache", "--exit-zero"]
    environment = {**os.environ, "COLUMNS": "160", "TERM": "xterm"}
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, cwd=tmp_path, env=environment) as process:
        os.close(slave)
        shown = b""
        while chunk := _read(master):
            shown += chunk
    os.close(master)
    assert process.returncode == 0
    piped = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert sorted(without_escapes(shown.decode())) == sorted(piped.stdout.splitlines())
    assert "kernels.py:7 first" in piped.stdout


def _read(descriptor: int) -> bytes:
    """A terminal whose other end is closed raises on Linux."""
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""
