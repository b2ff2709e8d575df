"""A summary in Markdown, for a pull request's comment or a job's summary page."""

from __future__ import annotations

from collections import Counter

from smemcheck.model import Finding, Report, Result, Severity, Site, VerdictKind
from smemcheck.report.places import within
from smemcheck.report.wording import count, results_by_site, summary
from smemcheck.rules.wording import config_text

_MOST_FINDINGS = 50
_MARKS = {Severity.ERROR: "🔴", Severity.WARNING: "🟡", Severity.NOTE: "🔵"}


def render(report: Report, *, folder: str) -> str:
    """Kernels × targets with how many configs fit, then the findings, the most important first."""
    parts = ["## smemcheck\n", f"{summary(report, folder)}.\n"]
    judged = [pair for pair in zip(report.sites, results_by_site(report), strict=True) if pair[1]]
    if judged:
        names = [target.name for target in report.targets]
        parts.append(f"| kernel | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
        parts += [_kernel_row(site, results, names, folder) for site, results in judged]
        parts.append("")
    if report.findings:
        ordered = sorted(report.findings, key=lambda finding: -finding.severity.rank)
        parts.append("| | rule | where | what |\n|---|---|---|---|")
        parts += [_finding_row(finding, folder) for finding in ordered[:_MOST_FINDINGS]]
        if len(ordered) > _MOST_FINDINGS:
            parts.append(f"\n{count(len(ordered) - _MOST_FINDINGS, 'more finding')} left out.")
        parts.append("")
    return "\n".join(parts)


def _kernel_row(site: Site, results: list[Result], names: list[str], folder: str) -> str:
    cells = []
    for name in names:
        verdicts = Counter(result.verdict.kind for result in results if result.target == name)
        total = sum(verdicts.values())
        others = [
            f"{verdicts[kind]} {kind.value}" for kind in VerdictKind if kind is not VerdictKind.FITS and verdicts[kind]
        ]
        cells.append(
            f"{verdicts[VerdictKind.FITS]}/{total} fit" + (f" ({', '.join(others)})" if others else "")
            if total
            else "–"
        )
    place = f"{within(folder, site.position.path)}:{site.position.line}"
    return f"| `{site.kernel_name}`<br>{_cell(place)} | {' | '.join(cells)} |"


def _finding_row(finding: Finding, folder: str) -> str:
    place = f"{within(folder, finding.position.path)}:{finding.position.line}"
    config = (
        f"`{_cell(config_text(finding.config))}`: "
        if finding.config and config_text(finding.config) not in finding.message
        else ""
    )
    return f"| {_MARKS[finding.severity]} | {finding.rule} | {_cell(place)} | {config}{_cell(finding.message)} |"


def _cell(text: str) -> str:
    """Text that stays in its cell and is no markup."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")
