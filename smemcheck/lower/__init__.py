"""Specialization × Config × Target → Footprint: Triton itself is asked, in processes that may die.

    Job ──jobs──▶ line of JSON ──pool──▶ process ──▶ worker (Triton's interpreter): slice, TTIR, TTGIR, allocation, stop
                                   │                                                      │ registers: to the binary
                               store (SQLite)  ◀──── answer, positions relative ◀─────────┘

``jobs`` knows both forms of a job and an answer, ``pool`` decides who works on what and what a death means, ``process`` is
one worker process, ``store`` keeps answers between runs and ``shared`` between machines, ``cluster`` lets other machines
work, and ``worker`` is the only package that imports Triton.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smemcheck.config import Settings
    from smemcheck.lower.pool import Pool
    from smemcheck.lower.store import Answers

__all__ = ["pool_for"]


def pool_for(settings: Settings, python: str = sys.executable) -> Pool:
    """The pool that the settings ask for: processes of this machine or a Dask cluster, a store near and perhaps far.

    ``python`` is the interpreter whose Triton is asked; a cluster has its own.

    Raises :class:`~smemcheck.errors.UsageError` when a package for it is missing or the scheduler does not answer.
    """
    # Not at the top: a run that lowers nothing only asks which Triton there is.
    from smemcheck.errors import UsageError
    from smemcheck.lower.pool import Pool
    from smemcheck.lower.store import Store

    store: Answers = Store(settings.cache_directory if settings.cache else None)
    if settings.cache and settings.shared_cache:
        from smemcheck.lower.shared import SharedStore

        store = SharedStore(settings.shared_cache, store)
    environment = dict(settings.environment)
    memory_limit = int(settings.memory_limit * (1 << 30))
    if settings.scheduler:
        if python != sys.executable:
            raise UsageError(
                "--triton cannot be used together with --scheduler: the workers there have their own Triton"
            )
        from smemcheck.lower.cluster import ClusterPool

        return ClusterPool(
            settings.scheduler,
            time_limit=settings.time_limit,
            memory_limit=memory_limit,
            environment=environment,
            store=store,
        )
    return Pool(
        workers=settings.jobs,
        time_limit=settings.time_limit,
        memory_limit=memory_limit,
        python=python,
        environment=environment,
        store=store,
    )
