"""Whether a file may look up a name of another one, by its text."""

from __future__ import annotations

import re

from smemcheck.source.module import Module
from smemcheck.source.scan import imports_all, places

EXPORTS = "__all__"
"""The names of a module that an import of all of them takes."""


def looks_up(text: str, name: str, is_own: bool = False) -> bool:
    """Whether the code of a file may look up ``name`` in some other module, or in its own one where ``is_own`` says so.

    Another module's names are found behind a dot, in a text (for ``getattr``), by an import of that name, or because all its
    names were imported.
    """
    if name == EXPORTS and imports_all(text):
        return True
    if next(places(name, text), None) is None:
        return False
    if is_own or imports_all(text) or re.search(rf"\.[\s\\]*{name}\b|[\"']{name}\b", text):
        return True
    module = Module("", text, "", is_package=False)
    return any(
        "import" in statement.text and statement.kind != "import"
        for statement in map(module.statements.__getitem__, module.mentioning(name))
    )
