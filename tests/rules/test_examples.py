"""Every rule's own examples: what must be found, and what must be left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Job, Outcome, Report
from smemcheck.rules import RULES, Rule
from smemcheck.rules.example import Example

INVALID = [(rule, example) for rule in RULES for example in rule.invalid]
VALID = [(rule, example) for rule in RULES for example in rule.valid]


def name(value: object) -> str:
    return value.code if isinstance(value, Rule) else value.about if isinstance(value, Example) else str(value)


def judged(example: Example, folder: Path) -> Report:
    """The example as a file, judged with the compiler's answers that it gives; source rules ask for none."""
    (folder / "kernel.py").write_text(example.source, encoding="utf-8")
    for file, text in example.files.items():
        (folder / file).write_text(text, encoding="utf-8")
    settings = Settings(targets=(example.target,), cache=False, **example.settings)

    def answers(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        assert not jobs or len(jobs) == len(example.compiler), "an example gives one answer a config"
        yield from enumerate(example.compiler[: len(jobs)])

    if example.compiler:
        return pipeline.check([str(folder / "kernel.py")], settings, lower=answers)
    return pipeline.sites([str(folder / "kernel.py")], settings)


@pytest.mark.parametrize(("rule", "example"), INVALID, ids=name)
def test_an_invalid_example_is_found(rule: Rule, example: Example, tmp_path: Path) -> None:
    assert rule.code in {finding.rule for finding in judged(example, tmp_path).findings}


@pytest.mark.parametrize(("rule", "example"), VALID, ids=name)
def test_a_valid_example_is_left_alone(rule: Rule, example: Example, tmp_path: Path) -> None:
    assert rule.code not in {finding.rule for finding in judged(example, tmp_path).findings}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "example"),
    [
        (rule, example)
        for rule, example in INVALID + VALID
        if example.compiler and rule.code in {"SMC100", "SMC101", "SMC103", "SMC104", "SMC201"}
    ],
    ids=name,
)
def test_the_real_compiler_agrees(rule: Rule, example: Example, tmp_path: Path) -> None:
    """What the examples let the compiler say is what it says, as far as the rule goes."""
    pytest.importorskip("triton", reason="there is no Triton here, so no config is judged")
    (tmp_path / "kernel.py").write_text(example.source, encoding="utf-8")
    report = pipeline.check([str(tmp_path / "kernel.py")], Settings(targets=(example.target,), cache=False))
    found = rule.code in {finding.rule for finding in report.findings}
    assert found is (example in rule.invalid)


@pytest.mark.parametrize("rule", RULES, ids=name)
def test_a_rule_is_documented_and_has_examples_of_both_kinds(rule: Rule) -> None:
    assert rule.summary.endswith(".")
    assert len(rule.documentation.splitlines()) > 1
    assert rule.invalid
    assert rule.valid


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
