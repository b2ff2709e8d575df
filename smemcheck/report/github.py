"""Findings as workflow commands of GitHub Actions, which shows them as annotations in a pull request.

GitHub shows ten annotations of a level a step, so the most important come first. See "Workflow commands for GitHub Actions"
for the commands and for what must be escaped.
"""

from __future__ import annotations

from smemcheck.model import Finding, Report, Severity
from smemcheck.report.places import within

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, *, folder: str) -> str:
    """One command a finding, errors before warnings before notes, else in the order of the source."""
    ordered = sorted(report.findings, key=lambda finding: -finding.severity.rank)
    return "".join(_command(finding, folder) + "\n" for finding in ordered)


def _command(finding: Finding, folder: str) -> str:
    properties = {
        "file": within(folder, finding.position.path),
        "line": str(finding.position.line),
        "col": str(finding.position.column),
        "title": f"{finding.rule} {finding.name}",
    }
    given = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {given}::{_escape(finding.message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
