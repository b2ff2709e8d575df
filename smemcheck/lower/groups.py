"""Jobs on their way to workers: those of one slice together, the groups that will take longest first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
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


Answer: TypeAlias = "tuple[Task, dict[str, Any]]"


@dataclass(slots=True)
class Group:
    """Jobs of one slice and one environment, in the order in which they are sent."""

    environment: dict[str, str]
    tasks: deque[Task] = field(default_factory=deque)
    seconds: float = 0.0  # that its finished tasks took
    finished: int = 0


def grouped(tasks: list[Task]) -> deque[Group]:
    """Jobs of one slice together; the groups that will take longest first, so that no worker is left alone with one."""
    groups: dict[tuple[Any, ...], Group] = {}
    for task in tasks:
        key = codec.frontend_key(task.job, task.environment)
        groups.setdefault(key, Group(task.environment)).tasks.append(task)
    return deque(sorted(groups.values(), key=_cost, reverse=True))


def _cost(group: Group) -> int:
    """A guess at a group's time: jobs × characters of source, which is what can be told before compiling."""
    return len(group.tasks) * sum(len(function.source) for function in group.tasks[0].job.kernel.functions)


@dataclass(slots=True)
class Endless:
    """Kernels of which some jobs took too long and none came to an end: the rest would, one after the other, as well."""

    ended: set[str] = field(default_factory=set)
    timeouts: Counter[str] = field(default_factory=Counter)

    def note(self, task: Task, answer: Mapping[str, Any]) -> bool:
        """Count an answer. Whether it is one after which jobs may have to be given up."""
        digest = task.job.kernel.digest
        if answer.get("failure") != FailureKind.TIMEOUT.value:
            self.ended.add(digest)
            return False
        self.timeouts[digest] += 1
        return True

    def given_up(self, group: Group, time_limit: float) -> list[Answer]:
        """The answers for the waiting tasks of a group when its kernel is one of these; they are taken out of it."""
        digest = group.tasks[0].job.kernel.digest if group.tasks else ""
        if digest in self.ended or self.timeouts[digest] < MOST_ENDLESS:
            return []
        tasks = list(group.tasks)
        group.tasks.clear()
        message = (
            f"not tried: the compiler did not finish {self.timeouts[digest]} other configs of this kernel within "
            f"{time_limit:g} seconds each, and none at all (--time-limit)"
        )
        answer = {"failure": FailureKind.TIMEOUT.value, "message": message, "position": None, "kept": False}
        return [(task, dict(answer)) for task in tasks]
