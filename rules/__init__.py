"""What is judged, not how: device tables, the verdict on a config, and one module per family of rules."""

from __future__ import annotations

from smemcheck.model import Finding, Report
from smemcheck.rules import analysis, autotune_use, capacity, failure, whole_list
from smemcheck.rules.engine import Rule, run
from smemcheck.rules.verdict import judge

_FAMILIES = (capacity, failure, whole_list, autotune_use, analysis)

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (value for family in _FAMILIES for value in vars(family).values() if isinstance(value, Rule)),
        key=lambda rule: rule.code,
    )
)
"""Every rule, by code."""


def findings(report: Report) -> tuple[Finding, ...]:
    """What all rules say about a report, in the order of the source."""
    return run(RULES, report)


__all__ = ["RULES", "Rule", "findings", "judge"]
