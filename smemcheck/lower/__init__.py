"""Specialization × Config × Target → Footprint: Triton itself is asked, in processes that may die.

    Job ──jobs──▶ line of JSON ──pool──▶ process ──▶ worker (Triton's interpreter): slice, TTIR, TTGIR, allocation, stop
                                   │                                                      │ registers: to the binary
                               store (SQLite)  ◀──── answer, positions relative ◀─────────┘

``jobs`` knows both forms of a job and an answer, ``pool`` decides who works on what and what a death means, ``process`` is
one worker process, ``store`` keeps answers between runs, and ``worker`` is the only package that imports Triton.
"""

from smemcheck.lower.pool import Pool

__all__ = ["Pool"]
