"""A rule as a page of documentation, made from the rule itself."""

from __future__ import annotations

from collections.abc import Sequence

from smemcheck.model import Failure, Footprint, Outcome
from smemcheck.rules import Rule
from smemcheck.rules.example import Example


def page(rule: Rule) -> str:
    """One rule's page: documentation, then its examples."""
    parts = [f"# {rule.code} {rule.name}\n", f"Severity: {rule.severity.value}\n", rule.documentation]
    for title, examples in (("Found", rule.invalid), ("Left alone", rule.valid)):
        if examples:
            parts.append(f"\n## {title}")
            parts += [_example(example) for example in examples]
    return "\n".join(parts) + "\n"


def index(rules: Sequence[Rule]) -> str:
    """The table of all rules."""
    rows = [
        f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.severity.value} | {rule.summary} |" for rule in rules
    ]
    return "\n".join(["# Rules\n", "| code | name | severity | what it finds |", "|---|---|---|---|", *rows]) + "\n"


def _example(example: Example) -> str:
    lines = [f"\nOn {example.target}, {example.about}:\n", "```python", example.source.rstrip(), "```"]
    for name, text in example.files.items():
        lines += [f"\nwith `{name}`:\n", "```", text.rstrip(), "```"]
    if example.compiler:
        answers = "; ".join(map(_answer, example.compiler))
        lines.append(f"\nThe compiler's answers, config by config: {answers}.")
    return "\n".join(lines)


def _answer(outcome: Outcome) -> str:
    if isinstance(outcome, Footprint):
        parts = [f"{outcome.shared_memory:,} B"]
        parts += [f"{outcome.tensor_memory:,} columns of tensor memory"] if outcome.tensor_memory else []
        parts += [f"{outcome.threads:,} threads"] if outcome.threads > 1024 else []
        parts += [f"{outcome.registers} registers"] if outcome.registers else []
        parts += [f"{outcome.spill_bytes} B spilled"] if outcome.spill_bytes else []
        return ", ".join(parts)
    return f"{outcome.kind.value}, {outcome.message}" if isinstance(outcome, Failure) else outcome.reason
