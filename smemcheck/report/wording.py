"""What several formats share: sentences, and results by site."""

from __future__ import annotations

from collections import Counter

from smemcheck.model import Report, Result, Severity, VerdictKind
from smemcheck.report.places import within
from smemcheck.rules.engine import is_left_out


def summary(report: Report, folder: str = "") -> str:
    """One line: what was read, what came out, what was found."""
    if not report.files:
        return f"no Python file was found under {', '.join(within(folder, root) for root in report.roots)}"
    parts = [f"{count(report.files, 'file')}, {count(len(report.sites), 'kernel site')}"]
    if report.results:
        listed = [result for result in report.results if not is_left_out(result)]
        verdicts = Counter(result.verdict.kind for result in listed)
        counted = ", ".join(f"{verdicts[kind]:,} {kind.value}" for kind in VerdictKind if verdicts[kind])
        left_out = len(report.results) - len(listed)
        if left_out:
            counted += f"{', ' if counted else ''}{left_out:,} left out by early_config_prune"
        parts.append(f"{count(len(report.results), 'result')} on {count(len(report.targets), 'target')}: {counted}")
    severities = Counter(finding.severity for finding in report.findings)
    found = ", ".join(count(severities[severity], severity.value) for severity in Severity if severities[severity])
    parts.append(found or "nothing found")
    triton = f" (Triton {report.triton})" if report.triton and report.results else ""
    return "; ".join(parts) + triton


def count(number: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def results_by_site(report: Report) -> list[list[Result]]:
    """For each site of the report its results, in their order."""
    grouped: list[list[Result]] = [[] for _ in report.sites]
    for result in report.results:
        grouped[result.site].append(result)
    return grouped
