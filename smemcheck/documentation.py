"""The pages in docs/ that are made from the code: ``python -m smemcheck.documentation docs`` writes them.

A test compares the committed pages with what the code says now.
"""

from __future__ import annotations

import sys
from pathlib import Path

from smemcheck.config import OPTIONS, Settings
from smemcheck.report.listing import plain
from smemcheck.rules import RULES
from smemcheck.rules.devices import targets
from smemcheck.rules.pages import index, page

_MADE = "<!-- Made by `python -m smemcheck.documentation docs`; edit the code it is made from instead. -->\n"


def pages() -> dict[str, str]:
    """Every generated page by its path under docs/."""
    rules = {f"rules/{rule.code}.md": page(rule) for rule in RULES}
    made = {"rules/index.md": index(RULES), **rules, "configuration.md": configuration(), "devices.md": devices()}
    return {name: _MADE + text for name, text in made.items()}


def configuration() -> str:
    """The reference of ``[tool.smemcheck]``."""
    defaults = Settings()
    rows = [
        f"| `{option.key}` | {option.takes} | {plain(getattr(defaults, option.field))} | {option.meaning} |"
        for option in OPTIONS
    ]
    return (
        "\n".join(["# `[tool.smemcheck]`\n", "| key | takes | default | meaning |", "|---|---|---|---|", *rows]) + "\n"
    )


def devices() -> str:
    """The limits of every target, with the sources of the numbers."""
    parts = ["# Devices\n", "| target | shared memory per block | tensor memory | GPUs |", "|---|---|---|---|"]
    for target in targets().values():
        limit = f"{target.shared_memory_limit:,} B" if target.shared_memory_limit is not None else "unknown"
        columns = f"{target.tensor_memory_limit} columns" if target.tensor_memory_limit else "–"
        parts.append(f"| {target.name} | {limit} | {columns} | {', '.join(target.aliases)} |")
    parts.append("\n## Sources\n")
    parts += [f"- {target.name}: {'; '.join(target.sources)}" for target in targets().values()]
    return "\n".join(parts) + "\n"


def write(folder: Path) -> None:
    """Write the pages, and remove those of rules that are gone."""
    made = pages()
    for stale in {*folder.glob("rules/*.md")} - {folder / name for name in made}:
        stale.unlink()
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
