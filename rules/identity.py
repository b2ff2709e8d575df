"""What makes a finding the same one after lines have moved: its rule, file name, kernel, config and target."""

from __future__ import annotations

import hashlib
import posixpath

from smemcheck.model import Finding, Report
from smemcheck.rules.wording import config_text


def identity(report: Report, finding: Finding) -> tuple[str, str, str, str, str]:
    """Rule, file name, kernel, config and target; empty where the finding is about none."""
    kernel = report.sites[finding.site].kernel_name if finding.site is not None else ""
    config = config_text(finding.config) if finding.config else ""
    return finding.rule, posixpath.basename(finding.position.path), kernel, config, finding.target or ""


def fingerprint(report: Report, finding: Finding) -> str:
    """:func:`identity` as 64 hexadecimal digits."""
    return hashlib.sha256("\0".join(identity(report, finding)).encode()).hexdigest()
