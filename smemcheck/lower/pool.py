"""The persistent pool: jobs in, outcomes out as they come, whatever the compiler does to its process.

    run(jobs) ─▶ store ──known──────────────────────────────────────────────▶ (index, outcome)
                   └─unknown─▶ check each target once ─▶ groups ─▶ workers ─▶ store ─▶ (index, outcome)

One thread selects on the pipes of all workers. Jobs that share a slice form a group and go to one worker, which builds it
once; a worker that runs out of groups takes half of the longest one left. A worker belongs to one set of environment
variables, since Triton reads some of them once only; for another set it is replaced.
"""

from __future__ import annotations

import bisect
import os
import re
import selectors
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from smemcheck.lower import jobs as codec
from smemcheck.lower.checks import Checks, asked
from smemcheck.lower.completions import Completions
from smemcheck.lower.groups import Answer, Endless, Group, Task, grouped
from smemcheck.lower.process import Installation, WorkerProcess, identify
from smemcheck.lower.store import Answers, Store
from smemcheck.model import Failure, FailureKind, Job, Kernel, Outcome, Position, Target, Unknown

_WORTH_TAKING = 0.5  # seconds of a single job for which another worker makes the kernel's frontend work once more
_TRIALS = 2  # of a target, when the first trial's worker was ended from outside
_TICK = 0.25  # seconds between two looks at deadlines and memory
_GRACE = 30.0  # seconds after which a worker whose pool is gone ends itself, on top of the time limit
_START_LIMIT = 120.0  # seconds that starting Python and importing Triton may take
_JOBS_PER_WORKER = 2000  # a worker is replaced after so many, or when it keeps more than a quarter of its memory limit

MEMORY_LIMIT = 8 << 30  # resident bytes of a worker and the programs it runs

_UNFINISHED = frozenset({FailureKind.TIMEOUT.value, FailureKind.ENDED.value})

_INSTALL = (
    "smemcheck needs Triton to lower kernels: pip install triton (there are wheels for Linux on x86-64 and arm64 only)"
)


@dataclass(slots=True)
class _Slot:
    """A place for a worker: the process in it, the group it works on, and the task it was last given."""

    worker: WorkerProcess | None = None
    group: Group | None = None
    task: Task | None = None
    ready: bool = False
    is_asked: bool = False
    began: float = 0.0  # when the task was sent
    deadline: float = 0.0


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
        self._time_limit = time_limit
        self._memory_limit = memory_limit
        self._environment = dict(environment or {})
        self._slots = [_Slot() for _ in range(workers or len(os.sched_getaffinity(0)))]
        self._selector = selectors.DefaultSelector()
        self._store: Answers = store or Store(cache_directory)
        self._installation: Installation | None = None
        self._identified = False
        self._checks = Checks(self._store)
        self._own_notes: list[str] = []
        self._last_kernel: tuple[Kernel, str] | None = None
        self._completions = Completions()
        self._without_registers: Counter[str] = Counter()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, busy or not, and let go of the store."""
        for slot in self._slots:
            self._drop(slot)
        self._selector.close()
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
        for slot in self._slots[:most]:
            if slot.worker is None:
                self._start(slot, own)
        idle = [slot for slot in self._slots[:most] if slot.task is None]
        questions = [(tuple(own.items()), target) for target in targets[: len(idle)]]
        for slot, group in zip(idle, self._checks.missing(questions, installation), strict=False):
            slot.group, slot.task = group, group.tasks.popleft()
            # Nobody listens until the run: a trial is short enough to lie in the pipe while the worker starts.
            self._ask(slot)
            slot.deadline += _START_LIMIT

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, Outcome]]:
        """Yield (index of the job, its outcome) as they come: kept answers first, then in the order they are done."""
        installation = self._identify()
        tasks: list[Task] = []
        environments: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        for index, job in enumerate(jobs):
            encoded = codec.encode(job)
            if installation is None:
                reason = _INSTALL if self._python == sys.executable else f"{self._python} is no interpreter with Triton"
                yield index, Failure(FailureKind.UNAVAILABLE, reason, "")
            elif isinstance(encoded, Unknown):
                yield index, encoded
            else:
                own = job.specialization.environment
                environment = environments.setdefault(own, codec.environment(own, self._environment))
                key = codec.digest(job, environment, installation.key, encoded)
                tasks.append(Task(index, job, environment, key))
        if installation is None:
            return
        self._store.prefetch([task.key for task in tasks if task.key is not None])
        missing = []
        for task in tasks:
            kept = None if task.key is None else self._store.get(task.key)
            if kept is None:
                missing.append(task)
            else:
                kept = codec.absolute(kept, task.job.kernel)
                yield task.index, codec.decode(kept, installation.version, cached=True)
        if missing:
            yield from self._run_tasks(missing, installation)

    # ------------------------------------------------------------------------------------------------- before a run

    def _identify(self) -> Installation | None:
        if not self._identified:
            self._installation, self._identified = identify(self._python), True
        return self._installation

    # ---------------------------------------------------------------------------------------------------- the run

    def _run_tasks(self, tasks: list[Task], installation: Installation) -> Iterator[tuple[int, Outcome]]:
        try:
            # All start now, so that they import Triton while the first one tries the targets.
            for slot, task in zip(self._slots, tasks, strict=False):
                if slot.worker is None:
                    self._start(slot, task.environment)
            questions = [asked(task) for task in tasks]
            for left in reversed(range(_TRIALS)):
                for trial, answer in self._answers(self._checks.missing(questions, installation)):
                    self._checks.keep(trial, answer, installation, is_last=not left)
                if self._checks.unavailable:
                    break
            possible = []
            for task in tasks:
                if self._checks.unavailable:
                    yield task.index, Failure(FailureKind.UNAVAILABLE, self._checks.unavailable, installation.version)
                    continue
                checked = self._checks.of(task)
                if checked["checked"] == "unsupported":
                    yield task.index, Failure(FailureKind.UNSUPPORTED, checked["message"], installation.version)
                else:
                    task.request["method"] = checked["checked"]
                    possible.append(task)
                    task.request["handover"] = self._completions.directory if task.job.registers else ""
            queue = grouped(possible)
            for task, answer in self._answers(queue):
                for whole, merged in self._whole(task, answer, queue):
                    yield whole.index, self._outcome(whole, merged, installation)
        finally:
            for reason, count in self._without_registers.items():
                several = "" if count == 1 else "s"
                self._own_notes.append(f"the registers of {count} config{several} are not known: {reason}")
            self._without_registers.clear()
            self._completions.close()
            self._checks.forget_begun()
            # A consumer that stops early, or an interrupt, leaves no job behind in a worker.
            for slot in self._slots:
                if slot.task is not None:
                    self._drop(slot)
                slot.group = None

    def _whole(self, task: Task, answer: dict[str, Any], queue: list[Group]) -> list[Answer]:
        """The answers that need nothing more; the way to the registers is put into the queue.

        Shared memory is known long before the registers. Where those take too long or too much, it stands alone.
        """
        if "rest" in task.request:
            is_unfinished = answer.get("failure") in _UNFINISHED
            whole = self._completions.end(task, answer, is_unfinished=is_unfinished)
            if is_unfinished:
                self._without_registers[answer["message"]] += len(whole)
            return whole
        if "rest" not in answer:
            return [(task, answer)]
        begun = self._completions.begin(task, answer)
        if isinstance(begun, list):
            return begun
        bisect.insort(queue, begun, key=lambda group: group.turn)
        return []

    def _outcome(self, task: Task, answer: dict[str, Any], installation: Installation) -> Outcome:
        if "unknown" in answer:
            return codec.decode(answer, installation.version)
        keep = answer.pop("kept", True)
        # What a later run will read back is what this one reports.
        relative = codec.relative(answer, task.job.kernel)
        if keep and task.key is not None:
            self._store.put(task.key, relative)
        return codec.decode(codec.absolute(relative, task.job.kernel), installation.version)

    def _answers(self, groups: list[Group]) -> Iterator[Answer]:
        """Work off the groups. An answer with ``kept`` false depends on this machine and moment."""
        ready: list[Answer] = []
        endless = Endless()
        while True:
            for slot in self._slots:
                if slot.task is None:
                    self._give_work(slot, groups)
            for answer in ready:
                yielded = time.monotonic()
                yield answer
                # Time that the consumer takes is not the compiler's.
                for slot in self._slots:
                    slot.deadline += time.monotonic() - yielded
            if all(slot.task is None for slot in self._slots):
                if not groups:  # the consumer may have put something into it
                    return
                ready = []
                continue
            events = self._selector.select(_TICK)
            spoke = {id(key.data): key.data for key, _ in events}
            ready = [answer for slot in spoke.values() for answer in self._read(slot)]
            ready += [answer for slot in self._slots if slot.task is not None for answer in self._watch(slot)]
            # A run may have thousands of groups: they are looked through after a timeout only.
            timeouts = [endless.note(*entry) for entry in ready]
            if any(timeouts):
                for group in (*groups, *(slot.group for slot in self._slots if slot.group is not None)):
                    ready += endless.given_up(group, self._time_limit)
                for group in [group for group in groups if not group.tasks]:
                    groups.remove(group)

    def _give_work(self, slot: _Slot, groups: list[Group]) -> None:
        if slot.group is None or not slot.group.tasks:
            slot.group = self._next_group(slot, groups)
        if slot.group is None:
            return
        if slot.worker is not None and not self._is_fit(slot, slot.group):
            self._drop(slot)
        if slot.worker is None:
            self._start(slot, slot.group.environment)
        slot.task, slot.is_asked = slot.group.tasks.popleft(), False
        slot.began = time.monotonic()
        slot.deadline = slot.began + _START_LIMIT
        if slot.ready:
            self._ask(slot)

    def _start(self, slot: _Slot, environment: dict[str, str]) -> None:
        slot.worker, slot.ready = WorkerProcess(self._python, environment), False
        self._selector.register(slot.worker.answers, selectors.EVENT_READ, slot)
        self._selector.register(slot.worker.output, selectors.EVENT_READ, slot)

    def _ask(self, slot: _Slot) -> None:
        """Send the slot's task. A long one only to a worker that said hello: it reads at once, so that the write cannot block."""
        assert slot.worker is not None
        assert slot.task is not None
        slot.is_asked = True
        slot.began = time.monotonic()
        slot.deadline = slot.began + self._time_limit
        request = {**slot.task.request, "id": slot.task.index, "alarm": self._time_limit + _GRACE}
        if "check" not in request:
            encoded = codec.encode(slot.task.job)
            assert not isinstance(encoded, Unknown)
            request = {**encoded, "kernel": self._encoded(slot.task.job.kernel), **request}
        slot.worker.ask(request)

    def _encoded(self, kernel: Kernel) -> str:
        """The slice as the worker reads it; the configs of a kernel come in a row, so the last one is remembered."""
        if self._last_kernel is None or self._last_kernel[0] is not kernel:
            self._last_kernel = kernel, codec.encode_kernel(kernel)
        return self._last_kernel[1]

    def _next_group(self, slot: _Slot, groups: list[Group]) -> Group | None:
        """A group for the worker's own environment if there is one, else any, else half of what will take another longest."""
        if groups:
            mine = slot.worker.environment if slot.worker else None
            group = next((group for group in groups if group.environment == mine), groups[0])
            groups.remove(group)
            return group
        left = [
            (_remaining(other), other.group) for other in self._slots if other.group is not None and other.group.tasks
        ]
        seconds, longest = max(left, key=lambda entry: entry[0], default=(0.0, None))
        if longest is None or (len(longest.tasks) == 1 and seconds < _WORTH_TAKING):
            return None
        taken = [longest.tasks.pop() for _ in range((len(longest.tasks) + 1) // 2)]
        return Group(longest.environment, deque(reversed(taken)))

    def _is_fit(self, slot: _Slot, group: Group) -> bool:
        """Whether the idle worker lives, has the group's variables, and did not grow too large."""
        worker = slot.worker
        assert worker is not None
        if worker.environment != group.environment or worker.jobs_done >= _JOBS_PER_WORKER:
            return False
        return worker.process.poll() is None and worker.memory() <= self._memory_limit // 4

    def _read(self, slot: _Slot) -> Iterator[Answer]:
        if slot.worker is None:
            return
        slot.worker.read_output()
        answers = slot.worker.read_answers()
        if answers is None:
            yield from self._bury(slot)
            return
        for answer in answers:
            if "hello" in answer:
                slot.ready = True
                if answer["triton"] is None and slot.task is not None:
                    message = f"Triton cannot be imported by {self._python}: {answer['error']}"
                    yield self._fail(slot, FailureKind.UNAVAILABLE, message, kept=False)
                    return
                if slot.task is not None:
                    if not slot.is_asked:
                        self._ask(slot)
                elif answer["triton"] is None:  # the next task for this slot finds that out once more, and says so
                    self._drop(slot)
                    return
            elif slot.task is not None and answer.pop("id") == slot.task.index:
                slot.worker.read_output()
                task, slot.task = slot.task, None
                slot.worker.jobs_done += 1
                if slot.group is not None:
                    slot.group.seconds += time.monotonic() - slot.began
                    slot.group.finished += 1
                yield task, _with_diagnostics(answer, slot.worker.tail)

    def _watch(self, slot: _Slot) -> Iterator[Answer]:
        """End a worker that takes too long or too much memory."""
        assert slot.worker is not None
        if time.monotonic() > slot.deadline:
            message = f"the compiler did not finish within {self._time_limit:g} seconds (--time-limit)"
            yield self._fail(slot, FailureKind.TIMEOUT, message, kept=False)
        elif slot.worker.memory() > self._memory_limit:
            limit = f"{self._memory_limit / (1 << 30):g} GiB"
            message = f"the compiler took more than the {limit} of memory that it may have here (--memory-limit)"
            yield self._fail(slot, FailureKind.ENDED, message, kept=False)

    def _bury(self, slot: _Slot) -> Iterator[Answer]:
        """The worker closed its pipe: the job in it, if there was one, is what killed it."""
        assert slot.worker is not None
        if slot.task is None:
            self._drop(slot)
            return
        self._unregister(slot)
        tail = slot.worker.tail
        status = slot.worker.end(grace=5.0)
        slot.worker = None
        # Signals that the compiler raises itself come again; those that others send, as a system out of memory does,
        # depend on the moment.
        own = status < 0 and -status in {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
        message = f"the compiler process {_how_it_ended(status)}{_last_words(tail)}"
        yield self._fail(slot, FailureKind.ABORT if own or status >= 0 else FailureKind.ENDED, message, kept=own)

    def _fail(self, slot: _Slot, kind: FailureKind, message: str, *, kept: bool) -> Answer:
        task = slot.task
        assert task is not None
        self._drop(slot)
        return task, {"failure": kind.value, "message": message, "position": None, "kept": kept}

    def _unregister(self, slot: _Slot) -> None:
        assert slot.worker is not None
        self._selector.unregister(slot.worker.answers)
        self._selector.unregister(slot.worker.output)

    def _drop(self, slot: _Slot) -> None:
        """End the slot's worker and forget its task; the group stays for the next worker."""
        if slot.worker is not None:
            self._unregister(slot)
            slot.worker.end()
        slot.worker, slot.task, slot.ready = None, None, False


def _remaining(slot: _Slot) -> float:
    """A guess at the seconds that the tasks waiting in a slot's group take: as long each as those before them."""
    assert slot.group is not None
    current = time.monotonic() - slot.began if slot.task is not None else 0.0
    mean = slot.group.seconds / slot.group.finished if slot.group.finished else 0.0
    return len(slot.group.tasks) * max(mean, current)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


# The lines that say why: LLVM's fatal errors, C++ and C assertions, MLIR's diagnostics.
_TELLING = re.compile(
    r"LLVM ERROR|[Aa]ssertion|error:|terminate called|what\(\):|UNREACHABLE|Segmentation fault|bad_alloc"
)


def _last_words(tail: bytes) -> str:
    lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    said = (telling or lines)[-1:] if not telling else telling[:1]
    return f": {said[0][:300]}" if said else ""


_DIAGNOSTIC = re.compile(r"^(?P<path>\S.*?):(?P<line>\d+):(?P<column>\d+): error: (?P<message>.+)$", re.MULTILINE)


def _with_diagnostics(answer: dict[str, Any], tail: bytes) -> dict[str, Any]:
    """A failed pass says only that it failed; the reason was printed, with the user's line."""
    if answer.get("failure") != FailureKind.COMPILATION_ERROR.value or answer.get("position"):
        return answer
    found = _DIAGNOSTIC.search(tail.decode(errors="replace"))
    if found is None:
        return answer
    position = Position(found["path"], int(found["line"]), int(found["column"]))
    return {
        **answer,
        "message": f"{found['message'][:300]} ({answer['message']})",
        "position": [position.path, position.line, position.column],
    }
