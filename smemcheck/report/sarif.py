"""The report as SARIF 2.1.0, for code scanning. ``partialFingerprints`` stay the same when lines move."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from smemcheck.model import Finding, Report, Severity
from smemcheck.report.json_report import config_as_json
from smemcheck.report.places import within
from smemcheck.rules import RULES, Rule
from smemcheck.rules.identity import fingerprint

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report, *, folder: str) -> str:
    """The findings as one SARIF log. Paths are given relative to ``folder``, which should be the top of the repository."""
    rules = {rule.code: index for index, rule in enumerate(RULES)}
    run = {
        "tool": {
            "driver": {
                "name": "smemcheck",
                "version": report.smemcheck,
                "semanticVersion": report.smemcheck,
                "rules": [_rule(rule) for rule in RULES],
            }
        },
        "columnKind": "unicodeCodePoints",
        "properties": {"triton": report.triton, "targets": [target.name for target in report.targets]},
        "results": [_result(report, finding, rules[finding.rule], folder) for finding in report.findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.documentation},
        "help": {"text": rule.documentation, "markdown": rule.documentation},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(report: Report, finding: Finding, rule_index: int, folder: str) -> dict[str, Any]:
    position = finding.position
    properties: dict[str, Any] = {"target": finding.target}
    if finding.site is not None:
        properties["kernel"] = report.sites[finding.site].kernel_name
    if finding.config is not None:
        properties["config"] = config_as_json(finding.config)
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(within(folder, position.path))},
                    "region": {"startLine": position.line, "startColumn": position.column},
                }
            }
        ],
        "partialFingerprints": {"smemcheck/v1": fingerprint(report, finding)},
        "properties": properties,
    }
