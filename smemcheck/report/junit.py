"""Results as JUnit XML: a suite per kernel, a case per config and target, so that CI servers show what was judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from smemcheck.model import Finding, Footprint, Report, Result, Severity, VerdictKind
from smemcheck.report.places import within
from smemcheck.report.wording import results_by_site
from smemcheck.rules.wording import assumptions_text, config_text

# What XML 1.0 cannot hold, whatever it is escaped as.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def render(report: Report, *, folder: str) -> str:
    """Pruned and crashing configs are failures, what could not be judged is skipped. Other findings form a suite of their own."""
    root = ET.Element("testsuites", name="smemcheck")
    for site, results in zip(report.sites, results_by_site(report), strict=True):
        name = f"{within(folder, site.position.path)}::{site.kernel_name}"
        if results:
            _suite(root, name, [_case(report, result, name) for result in results])
    others = [finding for finding in report.findings if finding.config is None and finding.severity is Severity.ERROR]
    if others:
        _suite(root, "findings", [_finding_case(finding, folder) for finding in others])
    for total in ("tests", "failures", "skipped"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, name: str, cases: list[ET.Element]) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(name), tests=str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.extend(cases)


def _case(report: Report, result: Result, suite: str) -> ET.Element:
    name = " ".join(
        part for part in (f"[{result.target}]", config_text(result.config), _assumed(report, result)) if part
    )
    case = ET.Element("testcase", classname=_text(suite), name=_text(name))
    verdict = result.verdict
    message = _text(verdict.message or "")
    if verdict.kind in {VerdictKind.PRUNED, VerdictKind.CRASHES}:
        ET.SubElement(case, "failure", type=verdict.cause or verdict.kind.value, message=message)
    elif verdict.kind is not VerdictKind.FITS:
        ET.SubElement(case, "skipped", message=message)
    for line in _measured(result):
        output = case.find("system-out")
        output = ET.SubElement(case, "system-out") if output is None else output
        output.text = (output.text or "") + line
    return case


def _assumed(report: Report, result: Result) -> str:
    if result.specialization is None:
        return ""
    text = assumptions_text(report.specializations[result.specialization].specialization, most=None)
    return f"({text})" if text else ""


def _measured(result: Result) -> Iterator[str]:
    if isinstance(result.outcome, Footprint):
        yield f"shared memory {result.outcome.shared_memory} B"
        if result.outcome.registers is not None:
            yield f", {result.outcome.registers} registers, {result.outcome.spill_bytes or 0} B spilled"


def _finding_case(finding: Finding, folder: str) -> ET.Element:
    place = f"{within(folder, finding.position.path)}:{finding.position.line}"
    case = ET.Element("testcase", classname=finding.rule, name=_text(place))
    ET.SubElement(case, "failure", type=finding.name, message=_text(finding.message))
    return case


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)
