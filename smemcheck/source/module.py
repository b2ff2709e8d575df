"""A source file as the evaluator sees it: statements that are parsed only when a question touches them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from functools import cached_property
from symtable import SymbolTable

import libcst as cst

from smemcheck.model import Position
from smemcheck.source.positions import Positions
from smemcheck.source.scan import Span, assignable, header_end, identifiers, split_statements
from smemcheck.source.tokens import Tokens, share
from smemcheck.source.values import Blocked, Obstacle

_COMMON = 120  # characters of an import that other files may have too
_TOKENS = 200_000  # libcst takes some 30 µs for each
_TOKEN = re.compile(r"\w+|[^\w\s]")

_KIND = re.compile(r"(?:async\s+)?(def|class|import|from|if|for|while|try|with|del|global)\b")
_DEFINITION = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


class Unit:
    """A piece of parsed source that nodes belong to. Positions are computed once, when the first one is asked for."""

    def __init__(self, module: Module, text: str, line: int, tree: cst.Module) -> None:
        self.module = module
        self.text = text
        self.line = line
        self.tree = tree

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self.tree)

    def position(self, node: cst.CSTNode) -> Position:
        """Where ``node`` starts in its file."""
        is_whole = isinstance(node, cst.FunctionDef) and node is self.tree.body[0]
        if is_whole and "_positions" not in self.__dict__:
            definition = _DEFINITION.search(self.text)  # known without writing the tree out
            if definition is not None:
                return Position(self.module.path, self.line + self.text.count("\n", 0, definition.start()), 1)
        found = self._positions.start(node)
        if found is None:
            return Position(self.module.path, self.line)
        line, column = found
        return Position(self.module.path, line + self.line - 1, column + 1)

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """The first and last line of ``node`` in its file, 1-based, inclusive."""
        start = self._positions.start(node)
        assert start is not None
        return start[0] + self.line - 1, self._positions.end(node)[0] + self.line - 1


class SyntaxProblem(Exception):
    """The text is no Python that libcst can read. ``line`` is in the file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Statement:
    """One top-level statement of a module, by its text. ``kind`` is its keyword, or ``simple``."""

    def __init__(self, module: Module, index: int, span: Span) -> None:
        self.module = module
        self.index = index
        self.span = span

    @property
    def text(self) -> str:
        return self.module.text[self.span.start : self.span.end]

    @cached_property
    def _definition(self) -> re.Match[str] | None:
        return _DEFINITION.search(self.text) if self.text.startswith(("@", "def", "class", "async")) else None

    @cached_property
    def kind(self) -> str:
        if self.text.startswith("@"):
            return "class" if self._definition and "class" in self._definition.group(0).split() else "def"
        match = _KIND.match(self.text)
        return match.group(1) if match else "simple"

    @cached_property
    def defined_name(self) -> str | None:
        """The name that a ``def`` or ``class`` statement binds."""
        return self._definition.group(1) if self._definition and self.kind in ("def", "class") else None

    @property
    def decorated(self) -> bool:
        return self.text.startswith("@")

    @property
    def decorator_text(self) -> str:
        return self.text[: self._definition.start()] if self._definition else ""

    @cached_property
    def mentions(self) -> frozenset[str]:
        return identifiers(self.text)

    @cached_property
    def assignable(self) -> frozenset[str]:
        """The names of a simple statement that stand before an assignment or a colon: it binds no others."""
        return assignable(self.text)

    @cached_property
    def unit(self) -> Unit:
        """The whole statement, parsed. Raises :class:`SyntaxProblem`."""
        return self.module.parse(self.text, self.span.line)

    @cached_property
    def header(self) -> Unit:
        """A ``def`` with its decorators and signature but an empty body: what most questions about a kernel need."""
        if self._definition is None or self.kind != "def":
            return self.unit
        end = header_end(self.text, self._definition.start())
        if end is None:
            return self.unit
        return self.module.parse(self.text[:end] + " pass\n", self.span.line)

    @property
    def position(self) -> Position:
        return Position(self.module.path, self.span.line)

    @property
    def definition_text(self) -> str:
        """A ``def`` or ``class`` without its decorators."""
        return self.text[self._definition.start() :] if self._definition else self.text

    @property
    def definition_line(self) -> int:
        """The line of the word ``def`` or ``class``."""
        return self.span.line + self.decorator_text.count("\n")


class Module:
    """A Python file: its text, its dotted name, and its top-level statements."""

    def __init__(self, path: str, text: str, name: str, is_package: bool) -> None:
        self.path = path
        self.text = text
        self.name = name
        self.is_package = is_package
        self.bound_names: dict[int, frozenset[str]] = {}  # filled by smemcheck.source.effects
        self.binders: dict[str, tuple[int, ...]] = {}  # likewise
        # Python's own symbol tables of the kernels at the top level, by name and line, once the file's syntax was checked.
        self.symbols: dict[tuple[str, int], SymbolTable] = {}
        self.read_names: dict[str, Mapping[str, frozenset[tuple[str, ...]]]] = {}  # by smemcheck.source.kernels
        self._tokens: Tokens = {}

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(Statement(self, index, span) for index, span in enumerate(split_statements(self.text)))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines(keepends=True)

    @property
    def package(self) -> str:
        """The dotted name that relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def _mentioned(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for statement in self.statements:
            for name in statement.mentions:
                found.setdefault(name, []).append(statement.index)
        return found

    def mentioning(self, name: str) -> list[int]:
        """Indices of the statements whose text has the word ``name``, in order."""
        return self._mentioned.get(name, [])

    @cached_property
    def declared_global(self) -> frozenset[str]:
        """The words on lines of functions that say ``global``."""
        lines = re.findall(r"^[ \t]+global\b([^\n]*)", self.text, re.MULTILINE) if "global " in self.text else ()
        return identifiers(" ".join(lines))

    @cached_property
    def _binding_calls(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for function in self.statements if "global " in self.text else ():
            if function.kind != "def" or function.defined_name is None:
                continue
            names = ",".join(re.findall(r"^[ \t]+global[ \t]+([\w, \t]+)", function.text, re.MULTILINE))
            call = re.compile(rf"{function.defined_name}\s*\(")
            for name in filter(None, re.split(r"[,\s]+", names)):
                calls = (i for i in self.mentioning(function.defined_name) if call.match(self.statements[i].text))
                found.setdefault(name, []).extend(calls)
        return found

    def calls_that_bind(self, name: str) -> list[int]:
        """Indices of the statements that are a call of a function which declares ``global name``."""
        return self._binding_calls.get(name, [])

    @cached_property
    def star_imports(self) -> list[int]:
        return [s.index for s in self.statements if s.kind == "from" and re.search(r"import\s*\(?\s*\*", s.text)]

    def parse(self, text: str, line: int) -> Unit:
        """Parse ``text``, which starts on ``line`` of the file. Raises :class:`SyntaxProblem` and :class:`Blocked`."""
        if len(text) > _TOKENS and len(_TOKEN.findall(text)) > _TOKENS:
            raise Blocked(Obstacle("the statement is too long to be parsed in time", Position(self.path, line)))
        is_common = text.startswith(("import ", "from ")) and len(text) < _COMMON
        try:
            tree = _common(text) if is_common else cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise SyntaxProblem(error.message.splitlines()[0], line + error.raw_line - 1) from None
        except RecursionError:
            raise SyntaxProblem("the expression is nested too deeply", line) from None
        if not is_common:
            share(tree, self._tokens)
        return Unit(self, text, line, tree)


@functools.lru_cache(maxsize=1024)
def _common(text: str) -> cst.Module:
    """The tree of a statement that many files have word for word; where it stands is in each file's :class:`Unit`."""
    return cst.parse_module(text)
