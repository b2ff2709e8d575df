"""The compiler as a run sees it: one interpreter's Triton, asked through a pool that stays open between questions."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from smemcheck.config import Settings
from smemcheck.distributions import version_of
from smemcheck.model import Job, Outcome, Target, Unknown

if TYPE_CHECKING:
    from smemcheck.lower.feed import Feed
    from smemcheck.lower.pool import Pool

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

Lower: TypeAlias = Callable[[Sequence[Job]], Iterable[tuple[int, Outcome]]]
"""Answers jobs, in any order, each with its index."""

Answer: TypeAlias = "tuple[dict[Job, Outcome], str, tuple[str, ...]]"
"""What one Triton says of every distinct job, its version, and what the user should know of how it went."""

Heard: TypeAlias = Callable[[Job, Outcome], None]

_SWITCH = 0.0001  # seconds that a thread keeps the interpreter while another one wants it
_MOST_EARLY = 256  # workers that are started for kernels which were only seen from afar


class Compiler:
    """A context manager. The pool is opened when it is first needed; ``lower`` stands in for it in tests."""

    def __init__(self, settings: Settings, python: str, progress: Progress | None, lower: Lower | None) -> None:
        self._settings, self._python, self._progress, self._lower = settings, python, progress, lower
        self._pool: Pool | None = None

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.close()

    def start(self, paths: Sequence[str], targets: Sequence[Target], recorded: Sequence[Any]) -> None:
        """Start workers for the kernels that there seem to be, while the source is still to be read."""
        if self._lower is not None:
            return
        kernels = _kernels_from_afar(paths, self._settings)
        if kernels:
            environments = Counter(
                entry.specialization.environment
                for file in recorded
                for entries in file.by_kernel.values()
                for entry in entries
            )
            self._opened().start(kernels, targets, next((one for one, _ in environments.most_common(1)), ()))

    def ask(self, jobs: Sequence[Job], heard: Heard | None = None) -> Answer:
        """What the compiler says of these jobs; ``heard`` is told of each as it comes."""
        with self.inquiry(heard) as inquiry:
            inquiry.add(jobs)
            return inquiry.end()

    def inquiry(self, heard: Heard | None = None) -> Inquiry:
        """A question to which jobs are added while the compiler works on the first of them."""
        return Inquiry(self._opened, self._known_version(), self._progress, self._lower, heard)

    def _known_version(self) -> str:
        return (installed_triton() if self._python == sys.executable else None) or ""

    def _opened(self) -> Pool:
        if self._pool is None:
            from smemcheck.lower import pool_for

            self._pool = pool_for(self._settings, self._python)
        return self._pool


class Inquiry:
    """Jobs for the compiler, and what it says of them; a context manager.

    The pool runs in a thread of its own, since whoever makes the jobs is busy for seconds at a time. What it says is handed on
    by :meth:`add` and :meth:`end`, in the thread that calls them.
    """

    def __init__(
        self,
        opened: Callable[[], Pool],
        version: str,
        progress: Progress | None,
        lower: Lower | None,
        heard: Heard | None,
    ) -> None:
        self._opened, self._version, self._progress, self._lower, self._heard = opened, version, progress, lower, heard
        self._jobs: dict[Job, None] = {}
        self._outcomes: dict[Job, Outcome] = {}
        self._in_order: list[Job] = []
        self._feed: Feed | None = None
        self._thread: threading.Thread | None = None
        self._answers: queue.SimpleQueue[tuple[int, Outcome] | BaseException | None] = queue.SimpleQueue()
        self._switches = sys.getswitchinterval()

    def __enter__(self) -> Inquiry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._feed is None or self._thread is None:
            return
        self._feed.abandon()
        self._thread.join()
        self._feed.__exit__(None, None, None)
        sys.setswitchinterval(self._switches)

    def add(self, jobs: Iterable[Job]) -> None:
        """Ask about these, those that were added before left out."""
        new = [job for job in dict.fromkeys(jobs) if job not in self._jobs]
        self._jobs.update(dict.fromkeys(new))
        self._in_order += new
        if self._lower is None:
            if new:
                self._fed().put(new)
            while not self._answers.empty():
                self._take(self._answers.get())

    def end(self) -> Answer:
        """All that the compiler says, once it has answered. Raises what the pool raised."""
        notes: tuple[str, ...] = ()
        if self._lower is not None:
            for index, outcome in self._lower(self._in_order):
                self._take((index, outcome))
        elif self._jobs or not self._version:
            pool = self._opened()
            self._version = self._version or pool.triton_version() or ""
            self._fed().end()
            while (entry := self._answers.get()) is not None:
                self._take(entry)
            notes = pool.notes
        answered = (outcome.triton for outcome in self._outcomes.values() if not isinstance(outcome, Unknown))
        return self._outcomes, next(answered, "") or self._version, notes

    def _fed(self) -> Feed:
        if self._feed is None:
            from smemcheck.lower.feed import Feed

            pool = self._opened()
            pool.triton_version()  # what is wrong with a cluster is said at once
            self._feed = Feed()
            self._thread = threading.Thread(
                target=self._run, args=(pool, self._feed), name="smemcheck pool", daemon=True
            )
            # A worker that has answered waits for this long before the thread can give it more.
            sys.setswitchinterval(_SWITCH)
            self._thread.start()
        return self._feed

    def _run(self, pool: Pool, feed: Feed) -> None:
        """The thread."""
        try:
            for answer in pool.run(feed):
                self._answers.put(answer)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the answers are waited for
            self._answers.put(error)
        finally:
            self._answers.put(None)

    def _take(self, entry: tuple[int, Outcome] | BaseException | None) -> None:
        if entry is None:
            return
        if isinstance(entry, BaseException):
            raise entry
        index, outcome = entry
        job = self._in_order[index]
        self._outcomes[job] = outcome
        if self._heard:
            self._heard(job, outcome)
        if self._progress:
            self._progress("configs lowered", len(self._outcomes), len(self._jobs))


def _kernels_from_afar(paths: Sequence[str], settings: Settings) -> int:
    """How many kernels the files seem to hold, counted up to what matters for starting workers."""
    from smemcheck.source.discovery import python_files
    from smemcheck.source.scan import count_kernels

    count = 0
    for root in paths:
        for path in python_files(root, settings.exclude, settings.respect_gitignore):
            with contextlib.suppress(OSError):
                count += count_kernels(Path(path).read_bytes())
            if count >= (settings.jobs or _MOST_EARLY):
                return count
    return count


def installed_triton() -> str | None:
    """The version of the Triton in this environment, without importing it; ``None`` when there is none."""
    return version_of("triton")
