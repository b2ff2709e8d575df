"""The worker processes and what each of them works on: groups of tasks in, answers out, whatever happens to a process.

One thread selects on the pipes of all workers. A group goes to one worker, which builds its slice once; a worker that runs
out of groups takes half of the longest one left. A worker belongs to one set of environment variables, since Triton reads
some of them once only; for another set it is replaced.
"""

from __future__ import annotations

import bisect
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from smemcheck.lower import jobs as codec
from smemcheck.lower.endings import how_it_ended, last_words, with_diagnostics
from smemcheck.lower.groups import Answer, Endless, Group, Task
from smemcheck.lower.process import WorkerProcess
from smemcheck.model import FailureKind, Kernel, Unknown

_WORTH_TAKING = 0.5  # seconds of a single job for which another worker makes the kernel's frontend work once more
_TICK = 0.25  # seconds between two looks at deadlines and memory
_GRACE = 30.0  # seconds after which a worker whose pool is gone ends itself, on top of the time limit
_START_LIMIT = 120.0  # seconds that starting Python and importing Triton may take
_JOBS_PER_WORKER = 2000  # a worker is replaced after so many, or when it keeps more than a quarter of its memory limit


@dataclass(slots=True)
class Slot:
    """A place for a worker: the process in it, the group it works on, and the task it was last given."""

    worker: WorkerProcess | None = None
    group: Group | None = None
    task: Task | None = None
    ready: bool = False
    slice: str = ""  # the text that the worker was last sent
    is_asked: bool = False
    began: float = 0.0  # when the task was sent
    deadline: float = 0.0
    memory: int = 0  # resident bytes of the worker when they were last looked at
    looked: float = 0.0  # when that was


class Crew:
    """``workers`` processes at most of the interpreter ``python``; a job may take ``time_limit`` seconds, a worker with its
    programs ``memory_limit`` resident bytes. :attr:`queue` holds the groups that nobody works on, in the order of their turn.
    """

    def __init__(self, *, workers: int | None, python: str, time_limit: float, memory_limit: int) -> None:
        self.slots = [Slot() for _ in range(workers or len(os.sched_getaffinity(0)))]
        self.queue: list[Group] = []
        self._python = python
        self._time_limit = time_limit
        self._memory_limit = memory_limit
        self._selector = selectors.DefaultSelector()
        self._also: int | None = None
        self._last_kernel: tuple[Kernel, str] | None = None
        self._endless = Endless()

    @property
    def is_done(self) -> bool:
        """Whether nothing waits and nobody works."""
        return not self.queue and all(slot.task is None for slot in self.slots)

    def close(self) -> None:
        """End all workers, busy or not."""
        for slot in self.slots:
            self._drop(slot)
        self._selector.close()

    def forget(self) -> None:
        """Leave no job behind: busy workers are ended, what waits is forgotten."""
        self.queue.clear()
        self._endless = Endless()
        for slot in self.slots:
            if slot.task is not None:
                self._drop(slot)
            slot.group = None

    def start(self, environments: Iterable[dict[str, str]]) -> None:
        """Start a worker for each of these variables, as far as there are slots, and where the slot has none yet."""
        for slot, environment in zip(self.slots, environments, strict=False):
            if slot.worker is None:
                self._start(slot, environment)

    def send_early(self, slot: Slot, trial: Group) -> None:
        """Ask an idle worker something short that can lie in the pipe while the worker starts and nobody listens."""
        slot.group, slot.task = trial, trial.tasks.popleft()
        self._ask(slot)
        slot.deadline += _START_LIMIT

    def add(self, groups: Iterable[Group]) -> None:
        """Put groups into the queue."""
        for group in groups:
            bisect.insort(self.queue, group, key=lambda group: group.turn)

    def excuse(self, seconds: float) -> None:
        """Time that others took is not the compiler's."""
        for slot in self.slots:
            slot.deadline += seconds

    def give_work(self) -> None:
        """Give every idle worker a task, if there is one."""
        for slot in self.slots:
            if slot.task is None:
                self._give_work(slot)

    def listen_to(self, also: int | None) -> None:
        """Let :meth:`wait` end early when this descriptor can be read."""
        if self._also is not None:
            self._selector.unregister(self._also)
        if also is not None:
            self._selector.register(also, selectors.EVENT_READ)
        self._also = also

    def wait(self) -> list[Answer]:
        """What was answered, or became of a task otherwise, within a moment.

        An answer with ``kept`` false depends on this machine and moment.
        """
        events = self._selector.select(_TICK)
        spoke = {id(key.data): key.data for key, _ in events if key.data is not None}
        answers = [answer for slot in spoke.values() for answer in self._read(slot)]
        answers += [answer for slot in self.slots if slot.task is not None for answer in self._watch(slot)]
        # A run may have thousands of groups: they are looked through after a timeout only.
        timeouts = [self._endless.note(*entry) for entry in answers]
        if any(timeouts):
            for group in (*self.queue, *(slot.group for slot in self.slots if slot.group is not None)):
                answers += self._endless.given_up(group, self._time_limit)
            for group in [group for group in self.queue if not group.tasks]:
                self.queue.remove(group)
        return answers

    def _give_work(self, slot: Slot) -> None:
        if slot.group is None or not slot.group.tasks:
            slot.group = self._next_group(slot)
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

    def _start(self, slot: Slot, environment: dict[str, str]) -> None:
        slot.worker, slot.ready = WorkerProcess(self._python, environment), False
        slot.slice, slot.looked = "", 0.0
        self._selector.register(slot.worker.answers, selectors.EVENT_READ, slot)
        self._selector.register(slot.worker.output, selectors.EVENT_READ, slot)

    def _ask(self, slot: Slot) -> None:
        """Send the slot's task. A long one only to a worker that said hello: it reads at once, so that the write cannot block."""
        assert slot.worker is not None
        assert slot.task is not None
        slot.is_asked = True
        slot.began = time.monotonic()
        slot.deadline = slot.began + self._time_limit
        request = {**slot.task.request, "id": slot.task.index, "alarm": self._time_limit + _GRACE}
        if not slot.task.is_trial:
            encoded = codec.encode(slot.task.job)
            assert not isinstance(encoded, Unknown)
            text = self._encoded(slot.task.job.kernel)
            request = {**encoded, "kernel": "" if slot.slice == text else text, **request}
            slot.slice = text
        slot.worker.ask(request)

    def _encoded(self, kernel: Kernel) -> str:
        """The slice as the worker reads it; the configs of a kernel come in a row, so the last one is remembered."""
        if self._last_kernel is None or self._last_kernel[0] is not kernel:
            self._last_kernel = kernel, codec.encode_kernel(kernel)
        return self._last_kernel[1]

    def _next_group(self, slot: Slot) -> Group | None:
        """A group for the worker's own environment if there is one, else any, else half of what will take another longest."""
        if self.queue:
            mine = slot.worker.environment if slot.worker else None
            group = next((group for group in self.queue if group.environment == mine), self.queue[0])
            self.queue.remove(group)
            return group
        left = [
            (_remaining(other), other.group) for other in self.slots if other.group is not None and other.group.tasks
        ]
        seconds, longest = max(left, key=lambda entry: entry[0], default=(0.0, None))
        if longest is None or (len(longest.tasks) == 1 and seconds < _WORTH_TAKING):
            return None
        taken = [longest.tasks.pop() for _ in range((len(longest.tasks) + 1) // 2)]
        return Group(longest.environment, deque(reversed(taken)))

    def _is_fit(self, slot: Slot, group: Group) -> bool:
        """Whether the idle worker lives, has the group's variables, and did not grow too large."""
        worker = slot.worker
        assert worker is not None
        if worker.environment != group.environment or worker.jobs_done >= _JOBS_PER_WORKER:
            return False
        return worker.process.poll() is None and _memory(slot) <= self._memory_limit // 4

    def _read(self, slot: Slot) -> Iterator[Answer]:
        if slot.worker is None:
            return
        answers = slot.worker.read_answers()
        if not answers:
            slot.worker.read_output()
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
                yield task, with_diagnostics(answer, slot.worker.tail)

    def _watch(self, slot: Slot) -> Iterator[Answer]:
        """End a worker that takes too long or too much memory."""
        assert slot.worker is not None
        if time.monotonic() > slot.deadline:
            message = f"the compiler did not finish within {self._time_limit:g} seconds (--time-limit)"
            yield self._fail(slot, FailureKind.TIMEOUT, message, kept=False)
        elif _memory(slot) > self._memory_limit:
            limit = f"{self._memory_limit / (1 << 30):g} GiB"
            message = f"the compiler took more than the {limit} of memory that it may have here (--memory-limit)"
            yield self._fail(slot, FailureKind.ENDED, message, kept=False)

    def _bury(self, slot: Slot) -> Iterator[Answer]:
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
        message = f"the compiler process {how_it_ended(status)}{last_words(tail)}"
        yield self._fail(slot, FailureKind.ABORT if own or status >= 0 else FailureKind.ENDED, message, kept=own)

    def _fail(self, slot: Slot, kind: FailureKind, message: str, *, kept: bool) -> Answer:
        task = slot.task
        assert task is not None
        self._drop(slot)
        return task, {"failure": kind.value, "message": message, "position": None, "kept": kept}

    def _unregister(self, slot: Slot) -> None:
        assert slot.worker is not None
        self._selector.unregister(slot.worker.answers)
        self._selector.unregister(slot.worker.output)

    def _drop(self, slot: Slot) -> None:
        """End the slot's worker and forget its task; the group stays for the next worker."""
        if slot.worker is not None:
            self._unregister(slot)
            slot.worker.end()
        slot.worker, slot.task, slot.ready = None, None, False


def _memory(slot: Slot) -> int:
    """Resident bytes of the slot's worker, as they were a tick ago at most: to ask means to read files, jobs take milliseconds."""
    assert slot.worker is not None
    now = time.monotonic()
    if now - slot.looked >= _TICK:
        slot.memory, slot.looked = slot.worker.memory(), now
    return slot.memory


def _remaining(slot: Slot) -> float:
    """A guess at the seconds that the tasks waiting in a slot's group take: as long each as those before them."""
    assert slot.group is not None
    current = time.monotonic() - slot.began if slot.task is not None else 0.0
    mean = slot.group.seconds / slot.group.finished if slot.group.finished else 0.0
    return len(slot.group.tasks) * max(mean, current)
