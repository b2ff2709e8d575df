"""The persistent pool: jobs in, outcomes out as they come, whatever the compiler does to its process.

    run(jobs) ─▶ store ──known──────────────────────────────────────────────▶ (index, outcome)
                   └─unknown─▶ check each target once ─▶ groups ─▶ crew ────▶ store ─▶ (index, outcome)

Jobs that share a slice form a group. More jobs may come in while others are worked on; those whose target is still being
tried wait for the trial.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

from smemcheck.lower import jobs as codec
from smemcheck.lower.checks import Checks, Question, asked
from smemcheck.lower.completions import Completions
from smemcheck.lower.crew import Crew
from smemcheck.lower.feed import Feed, whole
from smemcheck.lower.groups import Answer, Task, grouped
from smemcheck.lower.installation import Installation, identify
from smemcheck.lower.store import Answers, Store
from smemcheck.model import Failure, FailureKind, Job, Outcome, Target, Unknown

MEMORY_LIMIT = 8 << 30  # resident bytes of a worker and the programs it runs

Answered: TypeAlias = "Iterator[tuple[int, Outcome]]"
"""Outcomes, each with the index of its job."""

_UNFINISHED = frozenset({FailureKind.TIMEOUT.value, FailureKind.ENDED.value})

_INSTALL = (
    "smemcheck needs Triton to lower kernels: pip install triton (there are wheels for Linux on x86-64 and arm64 only)"
)


class Pool:
    """Worker processes that lower kernels; a context manager.

    ``workers`` is how many run at once, ``time_limit`` the seconds that a job may take, ``memory_limit`` the resident
    bytes that a worker and its programs may take. ``python`` is the interpreter whose Triton is asked, ``environment`` the
    variables that every job's compiler sees, ``cache_directory`` where answers are kept (``None``: not at all), ``store``
    what keeps them instead.
    ``notes`` collects sentences for the report.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        time_limit: float = 120.0,
        memory_limit: int = MEMORY_LIMIT,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        cache_directory: str | os.PathLike[str] | None = None,
        store: Answers | None = None,
    ) -> None:
        self._python = python
        self._environment = dict(environment or {})
        self._crew = Crew(workers=workers, python=python, time_limit=time_limit, memory_limit=memory_limit)
        self._store: Answers = store or Store(cache_directory)
        self._installation: Installation | None = None
        self._identified = False
        self._checks = Checks(self._store)
        self._own_notes: list[str] = []
        self._completions = Completions()
        self._waiting: dict[Question, list[Task]] = {}  # for what is known of a target
        self._without_registers: Counter[str] = Counter()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, busy or not, and let go of the store."""
        self._crew.close()
        self._store.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the run: about the store, and where the early stop was not used."""
        return (*self._checks.notes, *self._own_notes, *self._store.notes)

    def triton_version(self) -> str | None:
        """The version of the interpreter's Triton, found without importing it; ``None`` when there is none."""
        installation = self._identify()
        return None if installation is None else installation.version

    def start(self, most: int, targets: Sequence[Target], environment: Iterable[tuple[str, str]] = ()) -> None:
        """Start up to ``most`` workers now: they import Triton and try the targets while the jobs for :meth:`run` are made.

        ``environment`` is what most of those jobs' specialisations will add to the pool's own variables.
        """
        installation = self._identify()
        if installation is None:
            return
        own = codec.environment(environment, self._environment)
        self._crew.start([own] * most)
        idle = [slot for slot in self._crew.slots[:most] if slot.task is None]
        questions = [(tuple(own.items()), target) for target in targets[: len(idle)]]
        for slot, trial in zip(idle, self._checks.missing(questions, installation), strict=False):
            self._crew.send_early(slot, trial)

    def run(self, jobs: Iterable[Job] | Feed) -> Answered:
        """Yield (index of the job, its outcome) as they come: kept answers first, then in the order they are done.

        A :class:`~smemcheck.lower.feed.Feed` may get more jobs meanwhile; the run ends after it. Indices count all of them.
        """
        if isinstance(jobs, Feed):
            yield from self._run(jobs)
            return
        with whole(jobs) as feed:
            yield from self._run(feed)

    # ------------------------------------------------------------------------------------------------- before a run

    def _identify(self) -> Installation | None:
        if not self._identified:
            self._installation, self._identified = identify(self._python), True
        return self._installation

    @property
    def _triton(self) -> Installation:
        """The installation, where there are tasks: without one there are none."""
        assert self._installation is not None
        return self._installation

    def _split(self, jobs: Iterable[Job], first: int) -> tuple[list[tuple[int, Outcome]], list[Task]]:
        """What is known of new jobs, the first of which has the index ``first``; and those that a compiler must answer."""
        known: list[tuple[int, Outcome]] = []
        tasks: list[Task] = []
        environments: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        installation = self._identify()
        for index, job in enumerate(jobs, start=first):
            encoded = codec.encode(job)
            if installation is None:
                reason = _INSTALL if self._python == sys.executable else f"{self._python} is no interpreter with Triton"
                known.append((index, Failure(FailureKind.UNAVAILABLE, reason, "")))
            elif isinstance(encoded, Unknown):
                known.append((index, encoded))
            else:
                own = job.specialization.environment
                environment = environments.setdefault(own, codec.environment(own, self._environment))
                key = codec.digest(job, environment, installation.key, encoded)
                tasks.append(Task(index, job, environment, key))
        self._store.prefetch([task.key for task in tasks if task.key is not None])
        missing = []
        for task in tasks:
            kept = None if task.key is None else self._store.get(task.key)
            if kept is None:
                missing.append(task)
            else:
                kept = codec.absolute(kept, task.job.kernel)
                known.append((task.index, codec.decode(kept, self._triton.version, cached=True)))
        return known, missing

    # ---------------------------------------------------------------------------------------------------- the run

    def _run(self, feed: Feed) -> Answered:
        crew = self._crew
        count = 0  # jobs so far
        left: set[int] = set()  # those of them that a compiler is yet to answer
        is_last = has_asked = False
        crew.listen_to(feed.fileno())
        try:
            while left or not is_last:
                answers = crew.wait() if has_asked or not is_last else []
                outcomes = [outcome for task, answer in answers for outcome in self._heard(task, answer)]
                if not is_last:
                    jobs, is_last = feed.take()
                    if feed.is_abandoned:
                        return
                    if is_last:
                        crew.listen_to(None)
                    known, tasks = self._split(jobs, count)
                    count += len(jobs)
                    left.update(task.index for task in tasks)
                    has_asked = has_asked or bool(tasks)
                    outcomes += [*known, *self._queue(tasks)]
                # What can be worked on is given out first: nobody waits for the consumer.
                crew.give_work()
                for outcome in outcomes:
                    left.discard(outcome[0])
                    yielded = time.monotonic()
                    yield outcome
                    crew.excuse(time.monotonic() - yielded)  # that time is not the compiler's
        finally:
            crew.listen_to(None)
            self._own_notes += (
                f"the registers of {number} config{'' if number == 1 else 's'} are not known: {reason}"
                for reason, number in self._without_registers.items()
            )
            self._without_registers.clear()
            self._completions.close()
            if has_asked:
                # A consumer that stops early, or an interrupt, leaves no job behind in a worker.
                crew.forget()
                self._checks.forget_begun()
                self._waiting.clear()

    def _queue(self, tasks: Iterable[Task]) -> list[tuple[int, Outcome]]:
        """Let the crew work on these as soon as their targets are tried; what is said of those that nobody can work on."""
        by_question: dict[Question, list[Task]] = {}
        for task in tasks:
            by_question.setdefault(asked(task), []).append(task)
        known: list[tuple[int, Outcome]] = []
        possible: list[Task] = []
        for question, several in by_question.items():
            if self._checks.unavailable:
                known += self._failed(several, FailureKind.UNAVAILABLE, self._checks.unavailable)
                continue
            self._crew.add(self._checks.missing([question], self._triton))
            checked = self._checks.of(question)
            if checked is None:
                self._waiting.setdefault(question, []).extend(several)
                # All start now, so that they import Triton meanwhile.
                self._crew.start(task.environment for task in several)
            elif checked["checked"] == "unsupported":
                known += self._failed(several, FailureKind.UNSUPPORTED, checked["message"])
            else:
                for task in several:
                    task.request["method"] = checked["checked"]
                    task.request["handover"] = self._completions.directory if task.job.registers else ""
                possible += several
        self._crew.add(grouped(possible))
        return known

    def _failed(self, tasks: Iterable[Task], kind: FailureKind, message: str) -> list[tuple[int, Outcome]]:
        return [(task.index, Failure(kind, message, self._triton.version)) for task in tasks]

    def _heard(self, task: Task, answer: dict[str, Any]) -> list[tuple[int, Outcome]]:
        """The outcomes that an answer brings; what is to be done next is put into the queue."""
        if not task.is_trial:
            return [(one.index, self._outcome(one, merged)) for one, merged in self._whole(task, answer)]
        self._checks.keep(task, answer, self._triton)
        questions = list(self._waiting) if self._checks.unavailable else [asked(task)]
        return self._queue([one for question in questions for one in self._waiting.pop(question, ())])

    def _whole(self, task: Task, answer: dict[str, Any]) -> list[Answer]:
        """The answers that need nothing more; the way to the registers is put into the queue.

        Shared memory is known long before the registers. Where those take too long or too much, it stands alone.
        """
        if "rest" in task.request:
            is_unfinished = answer.get("failure") in _UNFINISHED
            several = self._completions.end(task, answer, is_unfinished=is_unfinished)
            if is_unfinished:
                self._without_registers[answer["message"]] += len(several)
            return several
        if "rest" not in answer:
            return [(task, answer)]
        begun = self._completions.begin(task, answer)
        if isinstance(begun, list):
            return begun
        self._crew.add([begun])
        return []

    def _outcome(self, task: Task, answer: dict[str, Any]) -> Outcome:
        version = self._triton.version
        if "unknown" in answer:
            return codec.decode(answer, version)
        keep = answer.pop("kept", True)
        # What a later run will read back is what this one reports.
        relative = codec.relative(answer, task.job.kernel)
        if keep and task.key is not None:
            self._store.put(task.key, relative)
        return codec.decode(codec.absolute(relative, task.job.kernel), version)
