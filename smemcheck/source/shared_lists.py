"""Lists of configs that are changed in place from outside: which modules were imported decides what such a list holds.

An ``Autotuner`` keeps the list it was given, not a copy (``triton/runtime/autotuner.py``, 3.2 to 3.9), so a change counts
even after the decorator ran. Read from the text of top-level statements; nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from smemcheck.model import Position, Site, SiteKind
from smemcheck.source.freeze import posix
from smemcheck.source.module import Module, Statement
from smemcheck.source.project import Project

_CHANGE = re.compile(
    r"^[ \t]*([A-Za-z_][\w.]*?)[ \t]*(?:\+=|\.(?:append|extend|insert|remove|pop|clear)\()", re.MULTILINE
)
_LIST_NAME = re.compile(
    r"\w*tune\w*[ \t]*\(\s*(?:configs[ \t]*=[ \t]*)?([A-Za-z_][\w.]*)\s*[,)]|\bconfigs[ \t]*=[ \t]*([A-Za-z_][\w.]*)\s*[,)]"
)
_CHANGING_KINDS = frozenset({"simple", "for", "if", "with", "try", "while"})
_REEXPORTS = 8


@dataclass(frozen=True, slots=True)
class _Change:
    """A statement that changes a list in place, and where."""

    module: Module
    statement: Statement
    name: str
    line: int

    @property
    def position(self) -> Position:
        return Position(posix(self.module.path), self.line)


def with_list_changes(project: Project, sites: Iterable[Site], scanned: Iterable[str]) -> tuple[Site, ...]:
    """The sites, those with options that say so whose list is changed elsewhere or after the tuner was made.

    ``changed_elsewhere`` and ``changed_later`` are the positions of the changes; ``list_name`` is the list's name. Changes
    are looked for in the ``scanned`` files.
    """
    sites = tuple(sites)
    names = set().union(*(list_names(project, site) for site in sites))
    if not names:
        return sites
    changes = [change for path in scanned for change in changes_in(project, path, names)]
    if not changes:
        return sites
    resolved: dict[tuple[str, str], list[_Change]] = {}
    for change in changes:
        origin = _origin(project, change.module, change.name)
        if origin is not None:
            resolved.setdefault((origin[0].path, origin[1]), []).append(change)
    return tuple(_with_changes(project, site, resolved) for site in sites)


def list_names(project: Project, site: Site) -> set[str]:
    """The names of a site's list of configs, where it is made and where it is used; a file that changes it mentions one."""
    decorated = _decorated(project, site)
    origin = _origin(project, decorated[0], decorated[2]) if decorated else None
    return {decorated[2].rpartition(".")[2], origin[1]} if decorated and origin else set()


def _decorated(project: Project, site: Site) -> tuple[Module, Statement, str] | None:
    """The module of a site, the kernel's statement, and the name that its decorator gives the list by."""
    module = project.module(site.position.path) if site.kind is SiteKind.AUTOTUNE else None
    statement = _statement_of(site, module)
    match = _LIST_NAME.search(statement.decorator_text) if statement else None
    return (module, statement, match[1] or match[2]) if module and statement and match else None


def _with_changes(project: Project, site: Site, resolved: dict[tuple[str, str], list[_Change]]) -> Site:
    decorated = _decorated(project, site)
    origin = _origin(project, decorated[0], decorated[2]) if decorated else None
    if decorated is None or origin is None:
        return site
    module, statement, name = decorated
    changes = resolved.get((origin[0].path, origin[1]), [])
    known = {module.path, origin[0].path, *_imported(project, module)}
    elsewhere = tuple(change.position for change in changes if change.module.path not in known)
    later = tuple(
        change.position for change in changes if change.module is module and _is_later(change, statement, name)
    )
    if not elsewhere and not later:
        return site
    options = {**site.options, "list_name": name, "changed_elsewhere": elsewhere, "changed_later": later}
    return replace(site, options=options)


def changes_in(project: Project, path: str, names: Iterable[str]) -> Iterator[_Change]:
    """Statements at the top level of a file that change something in place, if the file mentions one of the names."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return
    if any(name.encode() in data for name in names):
        module = project.module(path)
        if module is not None and _CHANGE.search(module.text):
            yield from _changes(module)


def _changes(module: Module) -> Iterator[_Change]:
    for statement in module.statements:
        if statement.kind not in _CHANGING_KINDS:
            continue
        for match in _CHANGE.finditer(statement.text):
            line = statement.line + statement.text.count("\n", 0, match.start())
            yield _Change(module, statement, match[1], line)


def _statement_of(site: Site, module: Module | None) -> Statement | None:
    statements = module.statements if module is not None else ()
    return next((s for s in statements if s.kind == "def" and s.definition_line == site.position.line), None)


def _is_later(change: _Change, tuner: Statement, name: str) -> bool:
    """Whether the change comes after the tuner and still means the same list."""
    if change.statement.index <= tuner.index:
        return False
    between = change.module.statements[tuner.index + 1 : change.statement.index]
    return not any(_binds(statement, name) for statement in between)


def _binds(statement: Statement, name: str) -> bool:
    return bool(re.search(rf"^[ \t]*{re.escape(name)}[ \t]*(?::[^=\n]*)?=(?!=)", statement.text, re.MULTILINE))


def _origin(project: Project, module: Module, name: str, depth: int = _REEXPORTS) -> tuple[Module, str] | None:
    """The module that binds a list, and the name it has there; imports are followed."""
    first, _, rest = name.partition(".")
    for statement in reversed(module.statements):
        if first not in statement.mentions:
            continue
        if statement.kind in ("import", "from"):
            found = _imported_as(project, module, statement, first)
            if found is not None:
                target, original = found
                full = ".".join(part for part in (original, rest) if part)
                return _origin(project, target, full, depth - 1) if full and depth else None
        elif not rest and statement.kind == "simple" and _binds(statement, first):
            return module, first
    return None


def _imported_as(project: Project, module: Module, statement: Statement, name: str) -> tuple[Module, str] | None:
    """The module that an import statement binds to ``name``, or takes it from, and what ``name`` is in it."""
    for node in _parsed(statement):
        for alias in node.names:
            if (alias.asname or alias.name) != name:
                continue
            if isinstance(node, ast.Import):
                found = project.find(alias.name, module)
                return (found, "") if found else None
            source = _source(project, module, node)
            submodule = project.submodule(source, alias.name) if source else None
            return (submodule, "") if submodule else (source, alias.name) if source else None
    return None


def _imported(project: Project, module: Module) -> set[str]:
    """The files whose modules are imported whenever ``module`` is, as far as its own top-level statements say."""
    found: set[str] = set()
    for statement in module.statements:
        if statement.kind not in ("import", "from"):
            continue
        for node in _parsed(statement):
            source = _source(project, module, node) if isinstance(node, ast.ImportFrom) else None
            names = [alias.name for alias in node.names]
            targets: list[Module | None] = [source]
            targets += [project.submodule(source, name) for name in names] if source else []
            targets += [project.find(name, module) for name in names] if isinstance(node, ast.Import) else []
            found.update(target.path for target in targets if target is not None)
    return found


def _source(project: Project, module: Module, node: ast.ImportFrom) -> Module | None:
    if node.level:
        return project.relative(module, node.level, node.module or "")
    return project.find(node.module, module) if node.module else None


def _parsed(statement: Statement) -> list[ast.Import | ast.ImportFrom]:
    try:
        body = ast.parse(statement.text).body
    except SyntaxError:
        return []
    return [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
