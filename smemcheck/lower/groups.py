"""Jobs on their way to workers: those of one slice together, the groups that will take longest first."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from smemcheck.lower import jobs as codec
from smemcheck.model import Job


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
