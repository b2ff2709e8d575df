"""Jobs on a Dask cluster: a real scheduler and two worker processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slicing import job, slice_kernel

from smemcheck.errors import UsageError
from smemcheck.lower.cluster import ClusterPool
from smemcheck.lower.pool import Pool
from smemcheck.lower.store import Store
from smemcheck.model import Config, Failure, FailureKind, Footprint, Job

pytest.importorskip("triton", reason="lowering needs Triton")
distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Dask warns of what happens to its processes

REPOSITORY = str(Path(__file__).parents[2])
SOURCE = """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel_{number}(x, y, B: tl.constexpr):
        i = tl.arange(0, B)
        tile = tl.load(x + i[:, None] * B + i[None, :])
        tl.store(y + i[:, None] * B + i[None, :], tl.dot(tile, tile))
"""
ENDLESS = """
    import triton
    import triton.language as tl

    @triton.jit
    def endless(x, B: tl.constexpr):
        for i in tl.static_range(10_000_000):
            tl.store(x + i, i)
"""


def jobs(kernels: int) -> list[Job]:
    types = {"x": "*fp16", "y": "*fp16", "B": "constexpr"}
    return [
        job(slice_kernel(SOURCE.format(number=n), f"kernel_{n}"), types=types, config=Config((("B", 32),), num_warps=w))
        for n in range(kernels)
        for w in (1, 2, 4, 8)
    ]


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")
        self.workers = [self._start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard") for _ in range(2)]
        while not self.file.exists():
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        with distributed.Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(self.file), *arguments]
        return subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": REPOSITORY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.close()


def pool_of(cluster: Cluster, folder: Path | None = None, time_limit: float = 100) -> ClusterPool:
    return ClusterPool(cluster.address, time_limit=time_limit, environment={}, store=Store(folder))


def test_the_answers_are_those_of_this_machine_and_are_kept_here(cluster, tmp_path):
    asked = jobs(2)
    with Pool(workers=2, time_limit=100) as pool:
        here = dict(pool.run(asked))
    with pool_of(cluster, tmp_path / "kept") as pool:
        there = dict(pool.run(asked))
    assert there == here
    assert all(isinstance(outcome, Footprint) for outcome in there.values())
    with Pool(workers=1, cache_directory=tmp_path / "kept") as pool:
        assert all(outcome.cached for _, outcome in pool.run(asked))


def test_jobs_of_a_worker_that_is_killed_in_mid_run_are_done_by_another(cluster):
    asked = jobs(12)
    answers = {}
    with pool_of(cluster) as pool:
        for index, outcome in pool.run(asked):
            if not answers:  # the first results have come while the others are at work
                cluster.workers[0].send_signal(signal.SIGKILL)
            answers[index] = outcome
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert sorted(answers) == list(range(len(asked)))
    assert all(isinstance(outcome, Footprint) for outcome in answers.values())


def test_a_poisonous_job_costs_its_own_answer_only(cluster):
    poison = job(slice_kernel(ENDLESS, "endless"), types={"x": "*i32", "B": "constexpr"}, config=Config((("B", 32),)))
    asked = [*jobs(1), poison, *jobs(1)]
    with pool_of(cluster, time_limit=20) as pool:
        answers = dict(pool.run(asked))
    assert isinstance(answers[4], Failure)
    assert answers[4].kind is FailureKind.TIMEOUT
    assert all(isinstance(answers[index], Footprint) for index in range(len(asked)) if index != 4)
    assert all(process.poll() is None for process in cluster.workers)


def test_without_a_scheduler_the_user_is_told(monkeypatch):
    monkeypatch.setattr("smemcheck.lower.cluster._CONNECT", 1.0)
    with pytest.raises(UsageError, match="no scheduler answers there"):
        ClusterPool("tcp://127.0.0.1:9", time_limit=1, environment={}, store=Store(None))
