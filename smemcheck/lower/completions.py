"""Registers are asked of modules, not of configs: those of equal code are compiled to the binary once, the longest first."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from smemcheck.lower.groups import Answer, Group, Task

_Code = tuple[tuple[tuple[str, str], ...], str]


class Completions:
    """What is on its way from TTGIR to the binary; a directory of it lies where temporary files do until :meth:`close`."""

    def __init__(self) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._waiting: dict[_Code, list[Answer]] = {}
        self._done: dict[_Code, dict[str, Any]] = {}

    @property
    def directory(self) -> str:
        """Where workers lay modules down."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="smemcheck-")
        return self._directory.name

    def close(self) -> None:
        """Remove the directory and forget all."""
        if self._directory is not None:
            self._directory.cleanup()
        self._directory = None
        self._waiting.clear()
        self._done.clear()

    def begin(self, task: Task, answer: dict[str, Any]) -> Group | list[Answer]:
        """What an answer that says ``rest`` asks for: work, or nothing because equal code waits or is done."""
        rest, cost = answer.pop("rest"), answer.pop("cost")
        code = (tuple(task.environment.items()), rest)
        if code in self._done:
            return [_merged(task, answer, self._done[code])]
        waiting = self._waiting.setdefault(code, [])
        waiting.append((task, answer))
        if len(waiting) > 1:
            return []
        request = {"method": "", "handover": self.directory, "rest": rest, "allocated": answer}
        completion = Task(task.index, task.job, task.environment, None, request)
        return Group(task.environment, deque([completion]), cost=cost, is_completion=True)

    def end(self, completion: Task, answer: dict[str, Any], *, is_unfinished: bool) -> list[Answer]:
        """The whole answers of all configs of the code; where it was not finished, what is known without, not to be kept."""
        rest = completion.request["rest"]
        code = (tuple(completion.environment.items()), rest)
        self._done[code] = {"kept": False} if is_unfinished else answer
        Path(self.directory, rest).unlink(missing_ok=True)
        return [_merged(task, known, self._done[code]) for task, known in self._waiting.pop(code)]


def _merged(task: Task, known: dict[str, Any], answer: dict[str, Any]) -> Answer:
    return task, {**answer} if "failure" in answer else {**known, **answer}
