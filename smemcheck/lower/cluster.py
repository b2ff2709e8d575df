"""The same jobs on a Dask cluster. Each Dask worker holds a pool of one process, so that a compiler's death is an answer.

A lost worker's jobs go to another one (Dask does that itself). Jobs whose workers die again and again are tried one by one,
and the one that still kills its worker is given up, alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smemcheck.errors import UsageError
from smemcheck.lower.checks import asked, stored_under
from smemcheck.lower.feed import Feed
from smemcheck.lower.groups import Task, grouped
from smemcheck.lower.installation import Installation, identify
from smemcheck.lower.pool import MEMORY_LIMIT, Answered, Pool
from smemcheck.lower.store import Answers
from smemcheck.model import FailureKind, Job, Outcome, Target

_TOGETHER = 8  # jobs of one slice that travel together: what is lost with a worker, and how finely results stream
_CONNECT = 20.0  # seconds

Gathered = tuple[list[tuple[int, Outcome]], dict[str, dict[str, Any]]]
"""Outcomes by index, and the answers that can be kept by key."""


class ClusterPool(Pool):
    """A pool whose jobs are answered by the workers of a Dask scheduler; kept answers are looked up and kept here."""

    def __init__(
        self,
        address: str,
        *,
        time_limit: float,
        memory_limit: int = MEMORY_LIMIT,
        environment: Mapping[str, str],
        store: Answers,
    ) -> None:
        """Raises :class:`~smemcheck.errors.UsageError`: no package, no scheduler, no workers, or different Tritons."""
        try:
            from distributed import Client
        except ImportError:
            raise UsageError("--scheduler needs Dask: pip install 'smemcheck[cluster]'") from None
        super().__init__(
            workers=1, time_limit=time_limit, memory_limit=memory_limit, environment=environment, store=store
        )
        try:
            self._client = Client(address, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UsageError(f"--scheduler {address}: no scheduler answers there ({error})") from None
        self._address = address
        self._limits = time_limit, memory_limit

    def close(self) -> None:
        """Leave the cluster; jobs that were not answered are forgotten there."""
        self._client.close()
        super().close()

    def _identify(self) -> Installation | None:
        if not self._identified:
            found = set(self._client.run(identify).values())
            if not found:
                self.close()
                raise UsageError(f"--scheduler {self._address}: it has no workers")
            if len(found) > 1:
                self.close()
                versions = ", ".join(sorted(one.key if one else "none" for one in found))
                raise UsageError(f"--scheduler {self._address}: its workers have different Tritons ({versions})")
            self._installation, self._identified = found.pop(), True
        return self._installation

    def start(self, most: int, targets: Sequence[Target], environment: Iterable[tuple[str, str]] = ()) -> None:
        """Nothing: the workers of a cluster are there already."""

    def _run(self, feed: Feed) -> Answered:
        from distributed import as_completed

        sent: dict[Any, list[Task]] = {}
        count = 0
        for jobs in feed.batches():
            known, tasks = self._split(jobs, count)
            count += len(jobs)
            for group in grouped(tasks):
                several = list(group.tasks)
                for start in range(0, len(several), _TOGETHER):
                    self._send(several[start : start + _TOGETHER], sent)
            yield from known
        if feed.is_abandoned:
            return
        running = as_completed(list(sent), loop=self._client.loop)
        for future in running:
            group_sent = sent.pop(future)
            outcomes = self._gathered(future, group_sent)
            if outcomes is None:
                running.update([self._send([task], sent) for task in group_sent])
            else:
                yield from outcomes

    def _send(self, tasks: list[Task], sent: dict[Any, list[Task]]) -> Any:
        """Let the cluster work on the tasks, together; the future of it."""
        checks = {stored_under(asked(task), self._triton) for task in tasks}
        known = {key: answer for key in checks if (answer := self._store.get(key)) is not None}
        future = self._client.submit(
            lower_there,
            [task.job for task in tasks],
            self._environment,
            self._limits,
            known,
            pure=False,
            retries=0,
        )
        sent[future] = tasks
        return future

    def _gathered(self, future: Any, tasks: Sequence[Task]) -> list[tuple[int, Outcome]] | None:
        """What became of tasks that were sent together; ``None`` where they are to be sent one by one."""
        from distributed.scheduler import KilledWorker

        error = future.exception()
        if error is None:
            outcomes, kept = future.result()
            for key, answer in kept.items():
                self._store.put(key, answer)
            return [(tasks[index].index, outcome) for index, outcome in outcomes]
        if isinstance(error, KilledWorker) and len(tasks) > 1:
            return None
        reason = "its workers died" if isinstance(error, KilledWorker) else f"{type(error).__name__}: {error}"
        return self._failed(tasks, FailureKind.ENDED, f"the cluster gave up on it: {reason}")


# ----------------------------------------------------------------------------------------------------- on the cluster


class _Collected:
    """A store in a Dask worker's memory: what it gathers travels home with the outcomes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.known: dict[str, dict[str, Any]] = {}
        self.new: dict[str, dict[str, Any]] = {}

    def prefetch(self, keys: Sequence[str]) -> None:
        """Nothing: all is here."""

    def get(self, key: str) -> dict[str, Any] | None:
        return self.known.get(key)

    def put(self, key: str, answer: Mapping[str, Any]) -> None:
        self.new[key] = dict(answer)
        if not key.isalnum():
            self.known[key] = dict(answer)  # checks are asked for again, answers to jobs are not

    def close(self) -> None:
        """Nothing is held."""


_local = threading.local()


def lower_there(
    jobs: Sequence[Job],
    environment: Mapping[str, str],
    limits: tuple[float, int],
    known: Mapping[str, dict[str, Any]],
) -> Gathered:
    """Runs in a Dask worker: the outcomes of the jobs, and what can be kept of them. One process a thread is kept alive.

    ``limits`` are seconds a job and resident bytes a process.
    """
    time_limit, memory_limit = limits
    setting = (tuple(sorted(environment.items())), limits)
    if getattr(_local, "setting", None) != setting:
        if hasattr(_local, "pool"):
            _local.pool.close()
        _local.store = _Collected()
        _local.pool = Pool(
            workers=1,
            time_limit=time_limit,
            memory_limit=memory_limit,
            environment=environment,
            store=_local.store,
        )
        _local.setting = setting
    store: _Collected = _local.store
    store.known.update(known)
    outcomes = list(_local.pool.run(jobs))
    kept, store.new = store.new, {}
    return outcomes, kept
