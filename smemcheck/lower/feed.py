"""Jobs for a run that goes on while more of them are made: one thread puts them in, another takes them out."""

from __future__ import annotations

import contextlib
import os
import select
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType

from smemcheck.model import Job


class Feed:
    """A context manager. :meth:`put`, :meth:`end` and :meth:`abandon` are for one thread, the rest for another."""

    def __init__(self) -> None:
        self._batches: deque[list[Job]] = deque()
        self._is_ended = False
        self.is_abandoned = False
        self._hears, self._tells = os.pipe()
        os.set_blocking(self._hears, False)

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._hears)
        os.close(self._tells)

    def put(self, jobs: Iterable[Job]) -> None:
        """More jobs."""
        self._batches.append(list(jobs))
        self._tell()

    def end(self) -> None:
        """There will be no more."""
        self._is_ended = True
        self._tell()

    def abandon(self) -> None:
        """Nobody wants the answers any more."""
        self.is_abandoned = True
        self.end()

    def fileno(self) -> int:
        """A descriptor that can be read when there is something new."""
        return self._hears

    def take(self) -> tuple[list[Job], bool]:
        """The jobs that were put since the last time, and whether they were the last."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._hears, 1 << 10):
                pass
        is_last = self._is_ended  # read first: what is put before the end is in the batches then
        jobs: list[Job] = []
        while self._batches:
            jobs += self._batches.popleft()
        return jobs, is_last

    def batches(self) -> Iterator[list[Job]]:
        """The jobs as they are put, for a consumer that has nothing else to wait for."""
        is_last = False
        while not is_last and not self.is_abandoned:
            select.select([self], [], [])
            jobs, is_last = self.take()
            yield jobs

    def _tell(self) -> None:
        os.write(self._tells, b"\0")


@contextlib.contextmanager
def whole(jobs: Iterable[Job]) -> Iterator[Feed]:
    """A feed of these jobs and no more."""
    with Feed() as feed:
        feed.put(jobs)
        feed.end()
        yield feed
