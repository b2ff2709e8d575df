"""Which findings are shown, and how severe they are."""

from __future__ import annotations

import pytest

from handmade import config, needs, refuses, report, story
from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.model import FailureKind, Severity
from smemcheck.rules import findings


def codes(made=None, **settings) -> list[str]:
    return [finding.rule for finding in findings(made or story(), Settings(**settings))]


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, ["SMC302", "SMC101", "SMC101"]),
        ({"select": ("SMC101",)}, ["SMC101", "SMC101"]),
        ({"select": ("SMC3",)}, ["SMC302"]),
        ({"select": ("one-config-survives",)}, ["SMC302"]),
        ({"ignore": ("SMC1",)}, ["SMC302"]),
        ({"select": ("SMC1", "SMC302"), "ignore": ("SMC101",)}, ["SMC302"]),
        ({"select": ("SMC101",), "ignore": ("SMC1",)}, ["SMC101", "SMC101"]),
        ({"select": ("SMC101",), "ignore": ("SMC101",)}, []),
    ],
)
def test_the_longer_code_is_stronger(settings, left: list[str]) -> None:
    assert codes(**settings) == left


@pytest.mark.parametrize(
    "setting", [{"select": ("SMC999",)}, {"ignore": ("SMC999",)}, {"severity": (("SMC999", Severity.NOTE),)}]
)
def test_a_rule_that_does_not_exist_is_an_error(setting) -> None:
    with pytest.raises(UsageError, match="no rule is called 'SMC999'; did you mean 'SMC903'"):
        codes(**setting)


@pytest.mark.parametrize(
    ("pattern", "silent"), [("pkg/", True), ("*.py", True), ("/decode.py", False), ("pkg/decode.py", True)]
)
def test_patterns_of_files_are_those_of_gitignore(pattern: str, silent: bool) -> None:
    left = codes(root="/repo", per_file_ignores=((pattern, ("SMC1",)),))
    assert left == (["SMC302"] if silent else ["SMC302", "SMC101", "SMC101"])


def test_the_user_decides_how_severe_a_rule_is() -> None:
    made = findings(story(), Settings(severity=(("SMC101", Severity.NOTE), ("one-config-survives", Severity.ERROR))))
    assert [finding.severity.value for finding in made] == ["error", "note", "note"]


def test_strict_makes_what_could_not_be_judged_an_error() -> None:
    pairs = [(config(22, B=1), refuses(FailureKind.UNAVAILABLE, "Triton is missing")), (config(23, B=2), needs(1))]
    made = report({"sm_90": pairs})
    assert [(f.rule, f.severity.value) for f in findings(made, Settings())] == [("SMC901", "warning")]
    assert [(f.rule, f.severity.value) for f in findings(made, Settings(strict=True))] == [("SMC901", "error")]
