"""What each top-level statement of a file is to those who do not run the file: what it binds, and when it matters.

A definition, an import or an assignment of one name matters to whoever mentions a name that it binds. Anything else (a
condition, a call, a change in place) matters to everybody who looks into the file.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Sequence

from smemcheck.source.effects import CHANGES, called_by, decorating
from smemcheck.source.mentions import EXPORTS
from smemcheck.source.module import Module, Statement
from smemcheck.source.scan import STRINGS_AND_COMMENTS, identifiers

_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=\n]*)?=(?!=)")
_ALIAS = re.compile(r"(\w+)\s+as\s+(\w+)")
# The name before is bound nowhere; of a dotted one each part may be.
_RENAMED = re.compile(r"(?<![\w.])\w+\s+as\s+(?=\w)")
_GLOBAL = re.compile(r"^[ \t]+global\b", re.MULTILINE)


class Role(enum.Enum):
    """What a statement does at its top level."""

    FUNCTION = "f"
    CLASS = "c"
    IMPORT = "i"
    ASSIGNMENT = "a"
    EFFECT = "e"
    EXPORTS = "x"  # the names for importers that ask for all: texts, of which none is looked up
    NOTHING = "n"


def role_of(statement: Statement) -> tuple[Role, tuple[str, ...]]:
    """The role of a statement, and the names that it binds (none where it is an effect, whose names are not told)."""
    name = statement.defined_name
    if statement.kind in ("def", "class") and name is not None:
        return Role.FUNCTION if statement.kind == "def" else Role.CLASS, (name,)
    text = statement.text
    if statement.kind in ("import", "from") and statement.index not in statement.module.star_imports:
        code = STRINGS_AND_COMMENTS.sub("", text)
        named = _RENAMED.sub("", code[code.index("import") + len("import") :])
        return Role.IMPORT, tuple(sorted(identifiers(named) - {"as"}))
    if statement.kind == "simple" and (_ASSIGNED.match(text) or text[0] in "\"'"):
        return _simple(text)
    return Role.EFFECT, ()


def _simple(text: str) -> tuple[Role, tuple[str, ...]]:
    """The role of what may be an assignment or a documentation string."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Role.EFFECT, ()
    if len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return Role.NOTHING, ()
    if len(body) != 1 or not isinstance(body[0], ast.Assign | ast.AnnAssign) or ":=" in text or CHANGES.search(text):
        return Role.EFFECT, ()
    targets = body[0].targets if isinstance(body[0], ast.Assign) else [body[0].target]
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None
    if name == EXPORTS:
        return Role.EXPORTS, (EXPORTS,)
    return (Role.ASSIGNMENT, (name,)) if name else (Role.EFFECT, ())


class Roles:
    """The roles of a module's statements, and which of them matter beyond their names."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.of: Sequence[tuple[Role, tuple[str, ...]]] = [role_of(statement) for statement in module.statements]
        called: dict[Statement, None] = {}
        self.always: set[int] = set()
        """Statements that matter to everybody who looks into the module; of functions, decorators and signature do."""
        self.whole: set[int] = set()
        """Functions of which the body says something of the module's own names, whoever calls them."""
        for index, (statement, (role, names)) in enumerate(zip(module.statements, self.of, strict=True)):
            if role in (Role.EFFECT, Role.ASSIGNMENT):
                called.update(dict.fromkeys(called_by(statement)))
            if role in (Role.EFFECT, Role.EXPORTS):
                self.always.add(index)
            elif role is Role.FUNCTION:
                decorators = dict.fromkeys(decorating(statement))
                called |= decorators
                if decorators or names[0].startswith("__"):
                    self.always.add(index)
                if declares_global(statement):
                    self.always.add(index)
                    self.whole.add(index)
        self.called = frozenset(function.defined_name for function in called)
        """Functions that the module itself calls at its top level, or decorates with."""
        self.whole.update(function.index for function in called)


def declares_global(statement: Statement) -> bool:
    """Whether a function binds names of its module."""
    return "global" in statement.text and _GLOBAL.search(statement.text) is not None


def changes_objects(statement: Statement) -> bool:
    """Whether a statement, or a function when it is called, may change objects in place, by its text."""
    return CHANGES.search(statement.text) is not None


def aliases(texts: Iterable[str]) -> dict[str, set[str]]:
    """By the name that an import gives something, what it is called where it comes from."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for original, name in _ALIAS.findall(text):
            found.setdefault(name, set()).add(original)
    return found
