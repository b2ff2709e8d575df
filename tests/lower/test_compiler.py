"""The compiler works while the source is read: workers start early where they are likely needed, kernels go to them one by one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from smemcheck import pipeline, source
from smemcheck import specialize as specialize_stage
from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.lower.feed import Feed
from smemcheck.lower.pool import Pool
from smemcheck.rules.example import needs

pytest.importorskip("triton", reason="what no Triton can answer is not asked early")

KERNEL = """
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
"""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens in a run, in its order; the compiler is a stand-in."""
    found: list[Any] = []
    read = source.read_sites

    def start(pool: Pool, most: int, targets: Any, environment: Any = ()) -> None:
        found.append(("start", most, [target.name for target in targets], dict(environment)))

    def run(pool: Pool, jobs: Any) -> Any:
        found.append("run")
        every = [job for batch in jobs.batches() for job in batch]
        return [(index, needs(1024)) for index, _ in enumerate(every)]

    monkeypatch.setattr(Pool, "start", start)
    monkeypatch.setattr(Pool, "run", run)
    monkeypatch.setattr(source, "read_sites", lambda *given: found.append("read") or read(*given))
    return found


def check(folder: Path) -> None:
    pipeline.check([str(folder / "pkg")], Settings(targets=("sm_90",), jobs=8, cache_directory=str(folder / "cache")))


def test_one_worker_a_kernel_is_started_before_the_source_is_read(tmp_path: Path, events: list[Any]) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "first.py").write_text(KERNEL)
    (tmp_path / "pkg" / "second.py").write_text(KERNEL)
    check(tmp_path)
    assert events == [("start", 2, ["sm_90"], {}), "read", "run"]


def test_none_is_started_without_a_kernel_or_after_one_change(tmp_path: Path, events: list[Any]) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "plain.py").write_text("import triton\n")
    check(tmp_path)
    assert events == ["read"]
    (tmp_path / "pkg" / "kernel.py").write_text(KERNEL)
    check(tmp_path)
    assert events == ["read", "read", "run"]


def test_the_compiler_works_on_the_first_kernel_while_the_second_is_looked_at(
    tmp_path: Path, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first.py").write_text(KERNEL)
    (tmp_path / "second.py").write_text(KERNEL.replace("copy", "move"))
    specialize, put = specialize_stage.specialize, Feed.put
    monkeypatch.setattr(
        specialize_stage, "specialize", lambda site, *given: events.append(site.kernel_name) or specialize(site, *given)
    )
    monkeypatch.setattr(Feed, "put", lambda feed, jobs: events.append(f"{len(jobs)} jobs") or put(feed, jobs))
    report = pipeline.check([str(tmp_path)], Settings(targets=("sm_90",), cache=False))
    assert [event for event in events if event != "run"][2:] == ["copy", "2 jobs", "move", "2 jobs"]
    assert [result.outcome for result in report.results] == [needs(1024)] * 4


def test_what_recorded_lines_ask_of_a_kernel_is_asked_when_its_file_is_read(
    tmp_path: Path, events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = KERNEL.replace("copy", "plain").replace("@triton.autotune", "# @triton.autotune")
    for name, text in (("first", KERNEL), ("second", KERNEL.replace("copy", "move")), ("third", plain)):
        (tmp_path / f"{name}.py").write_text(text)
    line = {"signature": {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, "config": {"kwargs": {"BLOCK": 64}}}
    places = [("move", "second", 7), ("plain", "third", 7), ("copy", "first", 7), ("copy", "moved", 70)]
    rows = [{**line, "kernel": name, "path": f"/elsewhere/{file}.py", "line": at} for name, file, at in places]
    recorded = tmp_path / "seen.jsonl"
    recorded.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read_file, put = source._read_file, Feed.put
    monkeypatch.setattr(
        source, "_read_file", lambda analysis, path, *more: events.append(path) or read_file(analysis, path, *more)
    )
    monkeypatch.setattr(
        Feed, "put", lambda feed, jobs: events.extend(job.kernel.entry.name for job in jobs) or put(feed, jobs)
    )
    settings = Settings(targets=("sm_90",), cache=False, specializations=(str(recorded),))
    report = pipeline.check([str(tmp_path)], settings)
    files = [str(tmp_path / f"{name}.py") for name in ("first", "second", "third")]
    asked = [event for event in events if event not in ("run", "read") and not isinstance(event, tuple)]
    assert asked == [files[0], "plain", "copy", files[1], "move", files[2]]
    # Each line has its result, in its place; the one that is about no file of this name is about none of them.
    named = [report.sites[result.site].kernel_name for result in report.results]
    assert named == ["move", "plain", "copy", "copy"]
    assert [result.outcome for result in report.results] == [needs(1024)] * 3 + [None]


@pytest.mark.usefixtures("events")
def test_what_the_pool_raises_reaches_the_caller_and_no_thread_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)

    def run(pool: Pool, jobs: Any) -> Any:
        raise UsageError("the scheduler is gone")

    monkeypatch.setattr(Pool, "run", run)
    with pytest.raises(UsageError, match="the scheduler is gone"):
        pipeline.check([str(tmp_path)], Settings(targets=("sm_90",), cache=False))
    assert [thread for thread in threading.enumerate() if "smemcheck" in thread.name] == []


def test_they_are_started_with_the_variables_that_most_recorded_launches_had(tmp_path: Path, events: list[Any]) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "kernel.py").write_text(KERNEL)
    line = (
        '{"kernel": "copy", "path": "pkg/kernel.py", "signature": {"x": "*fp32", "y": "*fp32"}, '
        '"environment": {"TRITON_F32_DEFAULT": "%s"}}\n'
    )
    (tmp_path / "seen.jsonl").write_text("".join(line % value for value in ("tf32", "ieee", "ieee")))
    settings = Settings(targets=("sm_90",), cache=False, specializations=(str(tmp_path / "seen.jsonl"),))
    pipeline.check([str(tmp_path / "pkg")], settings)
    assert events[0] == ("start", 1, ["sm_90"], {"TRITON_F32_DEFAULT": "ieee"})
