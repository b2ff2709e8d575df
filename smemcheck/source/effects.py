"""What running a top-level statement can bind or change, told from its text and its tree without running it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from smemcheck.source.imports import dotted
from smemcheck.source.module import Module, Statement, SyntaxProblem
from smemcheck.source.operations import MUTATING
from smemcheck.source.statements import bound_and_changed
from smemcheck.source.walk import walk

_METHODS = "|".join(sorted(MUTATING))
CHANGES = re.compile(
    rf"\.(?:{_METHODS})\("
    r"|\]\s*=[^=]|[-+*/|&]=|\w\.\w+\s*=[^=]|\bdel\b|\bnext\("
)

_DECORATOR = re.compile(r"@\s*(\w+)")
_CALLED = re.compile(r"(\w+)\s*\(")


def binds(statement: Statement) -> frozenset[str]:
    """The names that a top-level statement may bind; empty when it cannot be parsed."""
    cache = statement.module.bound_names
    if statement.index in cache:
        return cache[statement.index]
    if statement.defined_name is not None:
        names = frozenset({statement.defined_name})
    elif statement.kind == "def":
        names = frozenset()
    else:
        try:
            names = frozenset(_bound_in(statement.unit.tree))
        except SyntaxProblem:
            names = frozenset()
    cache[statement.index] = names
    return names


def touched(statement: Statement) -> list[str]:
    """The names that a statement binds or whose objects it changes: what is not known when it could not be run."""
    try:
        _, changed = (
            bound_and_changed(statement.unit.tree) if statement.kind not in ("def", "class") else (set(), set())
        )
    except SyntaxProblem:
        changed = set()
    return sorted(binds(statement) | changed)


def makes_container(statement: Statement) -> bool:
    """Whether a statement does nothing but bind one name to a list, set or dict that it writes out, so that no other name has it."""
    if statement.kind != "simple":  # told without parsing what can be long
        return False
    try:
        line = statement.unit.tree.body
    except SyntaxProblem:
        return False
    if len(line) != 1 or not isinstance(line[0], cst.SimpleStatementLine) or len(line[0].body) != 1:
        return False
    node = line[0].body[0]
    targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else []
    targets += [node.target] if isinstance(node, cst.AnnAssign) else []
    return (
        isinstance(node, (cst.Assign, cst.AnnAssign))
        and len(targets) == 1
        and isinstance(targets[0], cst.Name)
        and isinstance(node.value, (cst.BaseList, cst.BaseSet, cst.BaseDict))
    )


def has_constant_defaults(statement: Statement) -> bool:
    """Whether the defaults of a ``def`` are numbers, texts and names of constants, so that making it evaluates nothing."""
    try:
        node = statement.header.tree.body[0]
    except SyntaxProblem:
        return False
    assert isinstance(node, cst.FunctionDef)
    parameters = node.params
    every = (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params)
    return all(one.default is None or _is_constant(one.default) for one in every)


def _is_constant(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
        return isinstance(node, (cst.Integer, cst.Float))
    if isinstance(node, cst.Name):
        return node.value in ("None", "True", "False")
    return isinstance(node, (cst.Integer, cst.Float, cst.SimpleString))


class _Imports(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        bound = dotted(node.name).partition(".")[0] if node.asname is None else dotted(node.asname.name)
        self.names.add(bound)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False


def _bound_in(tree: cst.CSTNode) -> set[str]:
    bound, _ = bound_and_changed(tree)
    imports = _Imports()
    walk(tree, imports)
    return bound | imports.names


def binders(module: Module, name: str) -> tuple[int, ...]:
    """The statements of a module that can bind ``name``."""
    found = module.binders.get(name)
    if found is None:
        found = module.binders[name] = tuple(i for i in module.mentioning(name) if may_bind(module.statements[i], name))
    return found


def may_bind(statement: Statement, name: str) -> bool:
    """Whether running the statement can bind ``name``."""
    if statement.kind in ("def", "class"):
        return statement.defined_name == name
    if statement.kind == "simple" and name not in statement.assignable:
        return False
    return name in binds(statement)


def mentioning_or_calling(module: Module, name: str) -> Sequence[int]:
    """Statements that mention ``name``, or call a function of the module that changes the object behind it."""
    known = module.concerned.get(name)
    if known is None:
        found = list(module.mentioning(name))
        for index in module.mentioning(name):
            statement = module.statements[index]
            if statement.kind == "def" and statement.defined_name and _changes_global(statement, name):
                found.extend(i for i in module.mentioning(statement.defined_name) if i > index)
        known = module.concerned[name] = tuple(found)
    return known


def may_change(statement: Statement, name: str) -> bool:
    """Whether running the statement can change the object that ``name`` stands for, in place."""
    cache = statement.module.changers
    key = (statement.index, name)
    if key not in cache:
        cache[key] = _may_change(statement, name)
    return cache[key]


def _may_change(statement: Statement, name: str) -> bool:
    if statement.kind in ("import", "from", "class"):
        return False
    if statement.kind == "def":
        return any(_changes_global(function, name) for function in decorating(statement))
    given = name in statement.mentions
    for function in called_by(statement):
        if _changes_global(function, name) or (given and CHANGES.search(function.definition_text)):
            return True
    if not given or not CHANGES.search(statement.text):
        # Whether a function of another module changes what it is given is found by calling it, where that is all it is for.
        return given and bool(re.match(r"[\w.]+\(", statement.text))
    try:
        _, changed = bound_and_changed(statement.unit.tree)
    except SyntaxProblem:
        return False
    if name in changed:
        return True
    # ``for c in NAME: c.kwargs[...] = …`` and ``other = NAME; other.append(…)`` change it under another name.
    return bool(changed) and statement.kind in ("for", "while", "with", "if", "try")


def decorating(statement: Statement) -> Iterator[Statement]:
    """The functions of the module by whose names a definition is decorated."""
    for word in _DECORATOR.findall(statement.decorator_text):
        yield from _functions(statement.module, word)


def called_by(statement: Statement) -> Iterator[Statement]:
    """The functions of the module that a statement calls, by its text."""
    for word in _CALLED.findall(statement.text):
        yield from _functions(statement.module, word)


def _functions(module: Module, name: str) -> list[Statement]:
    """The functions of that name at the module's top level."""
    statements = (module.statements[index] for index in module.mentioning(name))
    return [statement for statement in statements if statement.kind == "def" and statement.defined_name == name]


def _changes_global(function: Statement, name: str) -> bool:
    """Whether the function, when it is called, may change the object of the module's name ``name``."""
    text = function.definition_text
    if name not in text:  # most lists are mentioned by decorators only
        return False
    return bool(re.search(rf"\b{re.escape(name)}\s*(?:\.(?:{_METHODS})\(|\[[^\n]*\]\s*=[^=]|[+|]=)", text))
