"""The compiler as a run sees it: one interpreter's Triton, asked through a pool that stays open between questions."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from smemcheck.config import Settings
from smemcheck.model import Job, Outcome, Target, Unknown

if TYPE_CHECKING:
    from smemcheck.lower import Pool

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

Lower: TypeAlias = Callable[[Sequence[Job]], Iterable[tuple[int, Outcome]]]
"""Answers jobs, in any order, each with its index."""

Answer: TypeAlias = "tuple[dict[Job, Outcome], str, tuple[str, ...]]"
"""What one Triton says of every distinct job, its version, and what the user should know of how it went."""

Heard: TypeAlias = Callable[[Job, Outcome], None]

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
        outcomes: dict[Job, Outcome] = {}
        version = (installed_triton() if self._python == sys.executable else None) or ""
        notes: tuple[str, ...] = ()
        if self._lower:
            outcomes = self._collected(jobs, self._lower(jobs), heard)
        elif jobs or not version:
            pool = self._opened()
            version = version or pool.triton_version() or ""
            outcomes = self._collected(jobs, pool.run(jobs), heard)
            notes = pool.notes
        answered = (outcome.triton for outcome in outcomes.values() if not isinstance(outcome, Unknown))
        return outcomes, next(answered, "") or version, notes

    def _opened(self) -> Pool:
        if self._pool is None:
            from smemcheck.lower import pool_for

            self._pool = pool_for(self._settings, self._python)
        return self._pool

    def _collected(
        self, jobs: Sequence[Job], answers: Iterable[tuple[int, Outcome]], heard: Heard | None
    ) -> dict[Job, Outcome]:
        outcomes: dict[Job, Outcome] = {}
        for number, (index, outcome) in enumerate(answers, start=1):
            outcomes[jobs[index]] = outcome
            if heard:
                heard(jobs[index], outcome)
            if self._progress:
                self._progress("configs lowered", number, len(jobs))
        return outcomes


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
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return None
