"""Whether a Triton lowers for a target at all, and whether stopping early says what its full compile says: tried once each."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from smemcheck.lower.groups import Group, Task
from smemcheck.lower.installation import Installation
from smemcheck.lower.store import Answers
from smemcheck.model import Config, FailureKind, Job, Kernel, Specialization, Target

Question: TypeAlias = "tuple[tuple[tuple[str, str], ...], Target]"
"""The variables that the compiler sees, and the target."""

_KERNEL = Kernel((), "check")  # the worker has the source (worker/main.py)
_TRIALS = 2  # of a target in a run, when the first trial's worker was ended from outside


class Checks:
    """What is known of targets, from the store or from a worker's trial. ``notes`` are for the report.

    ``unavailable`` says why Triton cannot be asked anything, once that is known.
    """

    def __init__(self, store: Answers) -> None:
        self._store = store
        self._known: dict[Question, dict[str, Any]] = {}
        self._begun: set[Question] = set()
        self._tried: Counter[Question] = Counter()
        self.notes: list[str] = []
        self.unavailable = ""

    def missing(self, questions: Iterable[Question], installation: Installation) -> list[Group]:
        """Trials for what is neither known nor begun."""
        groups = []
        for question in dict.fromkeys(questions):
            if question in self._known or question in self._begun:
                continue
            key = stored_under(question, installation)
            kept = self._store.get(key)
            if kept is not None:
                self._known[question] = kept
                continue
            self._begun.add(question)
            variables, target = question
            described = {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size}
            job = Job(_KERNEL, Specialization(()), Config(), target)
            trial = Task(-1 - len(self._begun), job, dict(variables), key, {"check": True, "target": described})
            groups.append(Group(trial.environment, deque([trial]), cost=math.inf))  # others wait for it
        return groups

    def keep(self, trial: Task, answer: dict[str, Any], installation: Installation) -> None:
        """Take in a trial's answer. If its worker was ended from outside it is as if never begun, unless it was the last."""
        question, target = asked(trial), trial.job.target
        self._begun.discard(question)
        self._tried[question] += 1
        if answer.get("failure") == FailureKind.UNAVAILABLE.value:
            self.unavailable = answer["message"]
            return
        if was_ended_from_outside(answer) and self._tried[question] < _TRIALS:
            return
        if "checked" not in answer:  # the compiler died over a trivial kernel
            answer = {"checked": "unsupported", "message": answer["message"], "kept": answer.get("kept", False)}
        if answer["checked"] == "unsupported":
            answer["message"] = f"Triton {installation.version} cannot lower for {target.name}: {answer['message']}"
        if answer["checked"] == "full":
            self.notes.append(
                f"Triton {installation.version} on {target.name}: the full compile is used, {answer['message']}"
            )
        if trial.key is not None and answer.get("kept", True):
            self._store.put(trial.key, answer)
        self._known[question] = answer

    def of(self, question: Question) -> Mapping[str, Any] | None:
        """``checked``: ``allocation``, ``full`` (the early stop does not hold) or ``unsupported``; and a ``message``.

        ``None`` while it is not known.
        """
        return self._known.get(question)

    def forget_begun(self) -> None:
        """What was begun has come to nothing."""
        self._begun.clear()
        self._tried.clear()


def asked(task: Task) -> Question:
    """The question that a task's answer rests on."""
    return tuple(task.environment.items()), task.job.target


def was_ended_from_outside(answer: Mapping[str, Any]) -> bool:
    """Whether the worker did not end by itself; what it was asked is worth asking again."""
    return answer.get("failure") in (FailureKind.ABORT.value, FailureKind.ENDED.value) and not answer.get("kept", True)


def stored_under(question: Question, installation: Installation) -> str:
    """The key of the answer in the store."""
    variables, target = question
    return f"check {installation.key} {(variables, target.backend, target.arch, target.warp_size)!r}"
