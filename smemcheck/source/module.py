"""A source file as the evaluator sees it: statements that are parsed only when a question touches them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from symtable import SymbolTable
from typing import Any

import libcst as cst

from smemcheck.model import Position
from smemcheck.source.members import Member, Method, alone, outline_of
from smemcheck.source.pieces import parsed
from smemcheck.source.positions import Positions
from smemcheck.source.scan import Span, assignable, header_end, identifiers, imports_all, split_statements
from smemcheck.source.tokens import Tokens, share
from smemcheck.source.values import Blocked, Obstacle

_COMMON = 120  # characters of an import that other files may have too
_UNPACKED = 4_000_000  # characters of texts that are held as they are
_TOKENS = 200_000  # libcst takes some 30 µs for each
_TOKEN = re.compile(r"\w+|[^\w\s]")

_KERNEL = re.compile(r"(?<!torch\.)jit")
_KIND = re.compile(r"(?:async\s+)?(def|class|import|from|if|for|while|try|with|del|global)\b")
_DEFINITION = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


class Unit:
    """A piece of parsed source that nodes belong to. Positions are computed once, when the first one is asked for."""

    def __init__(self, module: Module, text: str, line: int, tree: cst.Module) -> None:
        self.module = module
        self.text = text
        self.line = line
        self.tree = tree
        self.members: Mapping[int, Member] = {}
        """In the outline of a class, the methods of which bodies were left out, by the identity of their nodes."""
        self.part_of: Statement | None = None
        """The class that an outline or a method is of."""

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

    def span(self, node: cst.CSTNode) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Where ``node`` starts and ends in the unit's own text; ``None`` for a node of another tree."""
        start = self._positions.start(node)
        return None if start is None else (start, self._positions.end(node))

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

    # A run has many thousands of them, and looks into few: the text is the module's, and what is parsed can be let go.
    __slots__ = (
        "_assignable",
        "_definition",
        "_end",
        "_header",
        "_members",
        "_mentions",
        "_outline",
        "_start",
        "_unit",
        "defined_name",
        "entered",
        "index",
        "kind",
        "line",
        "module",
    )

    def __init__(self, module: Module, index: int, span: Span) -> None:
        self.module = module
        self.index = index
        self._start, self._end = span.start, span.end
        self.line = span.line
        """The line that it starts on, with its decorators."""
        text = module.text[span.start : span.end]
        match = _KIND.match(text)
        self.kind = match.group(1) if match else "simple"
        self.defined_name: str | None = None
        """The name that a ``def`` or ``class`` statement binds."""
        self._definition: int | None = None  # where it starts behind its decorators
        if text.startswith(("@", "def", "class", "async")):
            definition = _DEFINITION.search(text)
            if text.startswith("@"):
                self.kind = "class" if definition and "class" in definition.group(0).split() else "def"
            if definition:
                self._definition = definition.start()
                self.defined_name = sys.intern(definition.group(1)) if self.kind in ("def", "class") else None
        self.entered = False
        """Whether anybody looked into the body of a ``def``, beyond its decorators and its signature, who does not keep
        account of it (:meth:`Held.noting`)."""
        self._mentions: frozenset[str] | None = None
        self._assignable: frozenset[str] | None = None
        self._unit: Unit | None = None
        self._header: Unit | None = None
        self._outline: Unit | None = None
        self._members: dict[int, Unit] | None = None  # a class's methods that were parsed, by where they start in it

    def enter(self) -> None:
        """Note that somebody looks into the body of a ``def``."""
        noted = self.module.held.entered
        if noted is None:
            self.entered = True
        else:
            noted.add(self)

    def release(self) -> None:
        """Let go of what was parsed; who asks again gets another tree."""
        self._mentions = self._assignable = None
        self._unit = self._header = self._outline = self._members = None

    @property
    def text(self) -> str:
        return self.module.text[self._start : self._end]

    @property
    def decorated(self) -> bool:
        return bool(self._definition)

    @property
    def decorator_text(self) -> str:
        return self.text[: self._definition] if self._definition else ""

    @property
    def is_tuned(self) -> bool:
        """Whether its decorators speak of tuning."""
        return "tun" in self.decorator_text.lower()

    @property
    def mentions(self) -> frozenset[str]:
        if self._mentions is None:
            self._mentions = identifiers(self.text)
        return self._mentions

    @property
    def assignable(self) -> frozenset[str]:
        """The names of a simple statement that stand before an assignment or a colon: it binds no others."""
        if self._assignable is None:
            self._assignable = assignable(self.text)
        return self._assignable

    @property
    def unit(self) -> Unit:
        """The whole statement, parsed. Raises :class:`SyntaxProblem`."""
        if self._unit is None:
            self._unit = self.module.parse(self.text, self.line)
        return self._unit

    @property
    def outline(self) -> Unit:
        """A ``class`` without the bodies of its methods: what most questions about it need. Raises :class:`SyntaxProblem`."""
        if self._outline is None:
            self._outline = outline_of(self)
        return self._outline

    def member(self, method: Method) -> Unit:
        """A method of a class, parsed, in a class without a name. Raises :class:`SyntaxProblem`."""
        if self._members is None:
            self._members = {}
        if method.start not in self._members:
            line = self.line + self.text.count("\n", 0, method.start) - 1
            unit = self._members[method.start] = self.module.parse(alone(self.text, method), line)
            unit.part_of = self
        return self._members[method.start]

    @property
    def header(self) -> Unit:
        """A ``def`` with its decorators and signature but an empty body: what most questions about a kernel need."""
        if self._header is None:
            text = self.header_text
            self._header = self.unit if len(text) == len(self.text) else self.module.parse(text + " pass\n", self.line)
        return self._header

    @property
    def header_text(self) -> str:
        """The decorators and the signature of a ``def``, up to the colon; the whole of any other statement."""
        text = self.text
        return (
            text[: header_end(text, self._definition)] if self._definition is not None and self.kind == "def" else text
        )

    @property
    def is_kernel(self) -> bool:
        """Whether it is a ``def`` that a decorator makes a kernel of, by the decorator's text."""
        return self.kind == "def" and _KERNEL.search(self.decorator_text) is not None

    @property
    def body_text(self) -> str:
        """What follows the signature of a ``def``; nothing of any other statement."""
        return self.text[len(self.header_text) :]

    @property
    def position(self) -> Position:
        return Position(self.module.path, self.line)

    @property
    def definition_text(self) -> str:
        """A ``def`` or ``class`` without its decorators."""
        return self.text[self._definition :] if self._definition else self.text

    @property
    def definition_line(self) -> int:
        """The line of the word ``def`` or ``class``."""
        return self.line + self.decorator_text.count("\n")


@dataclass(slots=True)
class Held:
    """What is in memory of modules besides their packed texts."""

    texts: dict[Module, None] = field(default_factory=dict)  # modules with an unpacked text, in the order they got it
    characters: int = 0  # of these
    modules: dict[Module, None] = field(default_factory=dict)  # those of which something is parsed
    parsed: int = 0  # characters that were
    releases: int = 0  # how often that was let go
    entered: set[Statement] | None = None  # the functions that somebody looked into who keeps account of it

    @contextlib.contextmanager
    def noting(self, entered: set[Statement] | None) -> Iterator[None]:
        """For a while, note here which functions are looked into; ``None``: nobody keeps account of it."""
        before, self.entered = self.entered, entered
        try:
            yield
        finally:
            self.entered = before

    def unpacked(self, module: Module, characters: int) -> None:
        """Note a text that was unpacked. Where that makes many, those unpacked first are packed again."""
        self.texts[module] = None
        self.characters += characters
        while self.characters > _UNPACKED and len(self.texts) > 1:
            next(iter(self.texts)).pack()

    def packed(self, module: Module, characters: int) -> None:
        """Note a text that is no longer there unpacked."""
        self.characters -= characters
        del self.texts[module]

    def release(self) -> None:
        """Let go of all of it. Whoever holds a tree keeps that one, and who asks anew gets another."""
        for module in self.modules:
            module.release()
        self.modules.clear()
        self.parsed = 0
        # The C library keeps the gaps that texts and the parser leave; on Linux it gives them back when it is told to.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        self.releases += 1


class Module:
    """A Python file: its text, its dotted name, and its top-level statements."""

    def __init__(self, path: str, text: str, name: str, is_package: bool, held: Held | None = None) -> None:
        self.path = path
        self._text: str | None = text
        self._packed: bytes | None = None
        self.held = Held() if held is None else held
        self.held.unpacked(self, len(text))
        self.name = name
        self.is_package = is_package
        self.bound_names: dict[int, frozenset[str]] = {}  # filled by smemcheck.source.effects
        self.binders: dict[str, tuple[int, ...]] = {}  # likewise
        self.concerned: dict[str, tuple[int, ...]] = {}  # likewise
        self.changers: dict[tuple[int, str], bool] = {}  # likewise
        # Python's own symbol tables of the kernels at the top level, by name and line, once the file's syntax was checked.
        self.symbols: dict[tuple[str, int], SymbolTable] = {}
        self.is_indivisible = False
        """Whether answers may rest on any of its statements, those included that nothing mentions by name."""
        self.said: Any = None  # what its text says as a whole, see smemcheck.specialize.launches.around
        self.read_names: dict[str, Mapping[str, frozenset[tuple[str, ...]]]] = {}  # by smemcheck.source.kernels
        self._tokens: Tokens = {}

    @property
    def text(self) -> str:
        if self._text is None:
            assert self._packed is not None
            self._text = zlib.decompress(self._packed).decode(errors="surrogatepass")
            self.held.unpacked(self, len(self._text))
        return self._text

    def pack(self) -> None:
        """Keep the text in a quarter of its size until somebody asks for it: of thousands of files few are looked into."""
        if self._text is None:
            return
        if self._packed is None:
            self._packed = zlib.compress(self._text.encode(errors="surrogatepass"), level=1)
        self.held.packed(self, len(self._text))
        self._text = None

    def release(self) -> None:
        """Let go of all that can be made again: the unpacked text, trees, and what was found in them."""
        self.pack()
        self._tokens = {}
        for name in ("lines", "_mentioned", "_binding_calls"):
            self.__dict__.pop(name, None)
        for statement in self.__dict__.get("statements", ()):
            statement.release()

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
            for name in identifiers(statement.text):
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
        return [s.index for s in self.statements if s.kind == "from" and imports_all(s.text)]

    def parse(self, text: str, line: int) -> Unit:
        """Parse ``text``, which starts on ``line`` of the file. Raises :class:`SyntaxProblem` and :class:`Blocked`."""
        if len(text) > _TOKENS and len(_TOKEN.findall(text)) > _TOKENS:
            raise Blocked(Obstacle("the statement is too long to be parsed in time", Position(self.path, line)))
        is_common = text.startswith(("import ", "from ")) and len(text) < _COMMON
        try:
            tree = _common(text) if is_common else parsed(text)
        except cst.ParserSyntaxError as error:
            raise SyntaxProblem(error.message.splitlines()[0], line + error.raw_line - 1) from None
        except RecursionError:
            raise SyntaxProblem("the expression is nested too deeply", line) from None
        if not is_common:
            share(tree, self._tokens)
        self.held.modules[self] = None
        self.held.parsed += len(text)
        return Unit(self, text, line, tree)


@functools.lru_cache(maxsize=1024)
def _common(text: str) -> cst.Module:
    """The tree of a statement that many files have word for word; where it stands is in each file's :class:`Unit`."""
    return cst.parse_module(text)
