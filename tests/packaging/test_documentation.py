"""Pages in docs/ are made from the code and must not drift from it; what the README says is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from smemcheck.documentation import pages, write
from smemcheck.rules import RULES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_committed_pages_are_what_the_code_says() -> None:
    made = pages()
    committed = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in made}
    assert committed == made, "run: python -m smemcheck.documentation docs"
    assert {path.stem for path in (ROOT / "docs" / "rules").glob("SMC*.md")} == {rule.code for rule in RULES}


def test_writing_removes_pages_of_rules_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "SMC000.md").touch()
    write(tmp_path)
    assert not (tmp_path / "rules" / "SMC000.md").exists()
    assert (tmp_path / "rules" / "SMC101.md").exists()


def test_the_readme_names_rules_and_hooks_that_exist() -> None:
    codes = set(re.findall(r"SMC\d{3}", README))
    assert codes <= {rule.code for rule in RULES}
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert f"id: {hook['id']}" in README


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
