"""What is judged, not how: device tables, the verdict on a config, and one module per family of rules."""

from __future__ import annotations

from dataclasses import replace

from smemcheck.config import Settings
from smemcheck.model import Finding, Report
from smemcheck.rules import analysis, autotune_use, capacity, failure, whole_list
from smemcheck.rules.engine import Rule, doubted, in_source_order, run
from smemcheck.rules.selection import select
from smemcheck.rules.suppression import silence
from smemcheck.rules.verdict import judge

_FAMILIES = (capacity, failure, whole_list, autotune_use, analysis)

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Rule)),
        key=lambda rule: rule.code,
    )
)
"""Every rule, by code."""


def findings(report: Report, settings: Settings | None = None) -> tuple[Finding, ...]:
    """What the rules say about a report, in the order of the source.

    Comments in the source silence findings, and the settings select rules and set their severity.
    """
    settings = settings or Settings()
    found, unused = silence(report, run(RULES, report), RULES, registers=settings.registers)
    with_unused = run((analysis.unused_suppression,), replace(report, unused_suppressions=unused))
    return select(in_source_order(report, (*found, *with_unused)), RULES, settings)


__all__ = ["RULES", "Rule", "doubted", "findings", "judge"]
