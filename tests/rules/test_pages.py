"""docs/rules is made from the rules and must not drift from them."""

from __future__ import annotations

from pathlib import Path

from smemcheck.rules import RULES
from smemcheck.rules.pages import pages

FOLDER = Path(__file__).parents[2] / "docs" / "rules"


def test_the_committed_pages_are_what_the_rules_say() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert committed == pages(RULES), "run: python -m smemcheck.rules.pages docs/rules"
