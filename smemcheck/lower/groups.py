"""Jobs on their way to workers: those of one slice together, what cannot be shared out first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from smemcheck.lower import jobs as codec
from smemcheck.model import FailureKind, Job

MOST_ENDLESS = 3  # configs of a kernel that may reach the time limit while none ends before it


@dataclass(slots=True)
class Task:
    """A job on its way: its place in the run, its variables, its key in the store, and what the worker is told besides.

    The job is encoded when it is sent: a run may have a hundred thousand of them.
    """

    index: int
    job: Job
    environment: dict[str, str]
    key: str | None
    request: dict[str, Any] = field(default_factory=dict)

    @property
    def is_trial(self) -> bool:
        """Whether it tries a target, see :mod:`smemcheck.lower.checks`."""
        return "check" in self.request


Answer: TypeAlias = "tuple[Task, dict[str, Any]]"


@dataclass(slots=True)
class Group:
    """Jobs of one slice and one environment, in the order in which they are sent; or what completes the answer to one.

    ``cost`` is a guess at the time of one of them, to be compared with that of groups of the same kind.
    """

    environment: dict[str, str]
    tasks: deque[Task] = field(default_factory=deque)
    cost: float = 0.0
    is_completion: bool = False
    seconds: float = 0.0  # that its finished tasks took
    finished: int = 0

    @property
    def turn(self) -> tuple[bool, int, float]:
        """Groups come in the order of it: completions when there is nothing else; small groups, then the longest jobs first.

        A single job can take as long as many others, and nobody can help with it. A long list is shared out at any time.
        """
        return self.is_completion, len(self.tasks), -self.cost


def grouped(tasks: list[Task]) -> list[Group]:
    """Jobs of one slice together, in the order of their turn, so that no worker is left alone with a long job."""
    groups: dict[tuple[Any, ...], Group] = {}
    for task in tasks:
        key = codec.frontend_key(task.job, task.environment)
        groups.setdefault(key, Group(task.environment)).tasks.append(task)
    for group in groups.values():
        # Characters of source are what can be told before compiling.
        group.cost = sum(len(function.source) for function in group.tasks[0].job.kernel.functions)
        group.tasks = deque(_in_common(group.tasks))
    return sorted(groups.values(), key=lambda group: group.turn)


def _in_common(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks, those in a row that share most of their work; each is told how far others come with it.

    ``common`` is ``stages`` where others differ in the number of stages alone, ``ttir`` where they differ in what TTIR does
    not say besides, and empty where nobody shares anything.
    """
    same_ttir: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Task]]] = {}
    for task in tasks:
        job, config = task.job, task.job.config
        kernels = same_ttir.setdefault((job.specialization.constexprs, config.kwargs), {})
        kernels.setdefault((job.target, config.num_warps, config.num_ctas, config.maxnreg), []).append(task)
    for kernels in same_ttir.values():
        for several in kernels.values():
            differ = len({task.job.config.num_stages for task in several}) > 1
            for task in several:
                task.request["common"] = "stages" if differ else "ttir" if len(kernels) > 1 else ""
        yield from (task for several in kernels.values() for task in several)


@dataclass(slots=True)
class Endless:
    """Kernels of which some jobs took too long and none came to an end: the rest would, one after the other, as well."""

    ended: set[tuple[str, bool]] = field(default_factory=set)
    timeouts: Counter[tuple[str, bool]] = field(default_factory=Counter)

    def note(self, task: Task, answer: Mapping[str, Any]) -> bool:
        """Count an answer. Whether it is one after which jobs may have to be given up."""
        kernel = _kernel(task)
        if answer.get("failure") != FailureKind.TIMEOUT.value:
            self.ended.add(kernel)
            return False
        self.timeouts[kernel] += 1
        return True

    def given_up(self, group: Group, time_limit: float) -> list[Answer]:
        """The answers for the waiting tasks of a group when its kernel is one of these; they are taken out of it."""
        kernel = _kernel(group.tasks[0]) if group.tasks else ("", False)
        if kernel in self.ended or self.timeouts[kernel] < MOST_ENDLESS:
            return []
        tasks = list(group.tasks)
        group.tasks.clear()
        message = (
            f"not tried: the compiler did not finish {self.timeouts[kernel]} other configs of this kernel within "
            f"{time_limit:g} seconds each, and none at all (--time-limit)"
        )
        answer = {"failure": FailureKind.TIMEOUT.value, "message": message, "position": None, "kept": False}
        return [(task, dict(answer)) for task in tasks]


def _kernel(task: Task) -> tuple[str, bool]:
    """Shared memory and the binary are two questions: that the first one ends says nothing of the second."""
    return task.job.kernel.digest, "rest" in task.request
