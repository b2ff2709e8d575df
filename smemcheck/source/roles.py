"""What each top-level statement of a file is to those who do not run the file: what it binds, and when it matters.

A definition, an import or an assignment of one name matters to whoever mentions a name that it binds. Anything else (a
condition, a call, a change in place) matters to everybody who looks into the file.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Iterable, Sequence

from smemcheck.source.effects import CHANGES
from smemcheck.source.module import Module, Statement
from smemcheck.source.scan import STRINGS_AND_COMMENTS, identifiers

_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=\n]*)?=(?!=)")
_DECORATOR = re.compile(r"@\s*(\w+)")
_CALLED = re.compile(r"(\w+)\s*\(")
_ALIAS = re.compile(r"(\w+)\s+as\s+(\w+)")
_GLOBAL = re.compile(r"^[ \t]+global\b", re.MULTILINE)
_STAR = re.compile(r"import\s*\(?\s*\*")


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
    if statement.kind in ("import", "from") and not _STAR.search(text):
        code = STRINGS_AND_COMMENTS.sub("", text)
        return Role.IMPORT, tuple(sorted(identifiers(code[code.index("import") + len("import") :]) - {"as"}))
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
    if name == "__all__":
        return Role.EXPORTS, ()
    return (Role.ASSIGNMENT, (name,)) if name else (Role.EFFECT, ())


class Roles:
    """The roles of a module's statements, and which of them matter beyond their names."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.of: Sequence[tuple[Role, tuple[str, ...]]] = [role_of(statement) for statement in module.statements]
        self._functions: dict[str, list[int]] = {}
        for index, (role, names) in enumerate(self.of):
            if role is Role.FUNCTION:
                self._functions.setdefault(names[0], []).append(index)
        called: set[str] = set()
        self.always: set[int] = set()
        """Statements that matter to everybody who looks into the module; of functions, decorators and signature do."""
        self.whole: set[int] = set()
        """Functions of which the body says something of the module's own names, whoever calls them."""
        for index, (statement, (role, names)) in enumerate(zip(module.statements, self.of, strict=True)):
            if role in (Role.EFFECT, Role.ASSIGNMENT):
                called.update(_CALLED.findall(statement.text))
            if role in (Role.EFFECT, Role.EXPORTS):
                self.always.add(index)
            elif role is Role.FUNCTION:
                decorating = self._functions.keys() & _DECORATOR.findall(statement.decorator_text)
                called |= decorating
                if decorating or names[0].startswith("__"):
                    self.always.add(index)
                if declares_global(statement):
                    self.always.add(index)
                    self.whole.add(index)
        self.called = called & self._functions.keys()
        """Functions that the module itself calls at its top level, or decorates with."""
        self.whole.update(index for name in self.called for index in self._functions[name])

    def is_decorated_here(self, index: int) -> bool:
        """Whether a function has a decorator that the module defines."""
        words = _DECORATOR.findall(self.module.statements[index].decorator_text)
        return not self._functions.keys().isdisjoint(words)

    def called_by(self, index: int) -> list[Statement]:
        """The module's own functions that a statement calls, by its text."""
        names = self._functions.keys() & _CALLED.findall(self.module.statements[index].text)
        return [self.module.statements[one] for name in names for one in self._functions[name]]


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
