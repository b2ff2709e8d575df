"""Methods of classes, parsed when somebody asks for their bodies.

Classes are large, and most of what is asked of them is their bases, their fields and the signatures of their methods. So a
class is parsed as an outline, in which each method has its signature and a text of as many lines as its body has: all else
stands where it stands in the file. An outline that is no Python, or has other methods than were cut out, tells that the
text was split wrongly; then the whole class is parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from smemcheck.source.scan import STRINGS_AND_COMMENTS, header_end, outside_brackets

if TYPE_CHECKING:
    from smemcheck.source.module import Statement, Unit

_LARGE = 2_000  # characters of a class; below, the outline takes as long as the whole
_METHOD = re.compile(r"(?:async[ \t]+)?def[ \t]+(\w+)")
_CODE = re.compile(r"^([ \t]*)[^\s#]", re.MULTILINE)
_COMMENT = re.compile(r"^([ \t]*)#", re.MULTILINE)
_REST = re.compile(r"[)\]}]|(?:else|elif|except|finally)\b")  # begins a line that goes on with what stands above it
_BELOW = re.compile(r"[ \t]*(?:#[^\n]*)?\n")


@dataclass(frozen=True, slots=True)
class Method:
    """A method, by offsets into the text of its class."""

    name: str
    start: int  # of it with its decorators and the comments above
    body: int  # behind the colon
    last: int  # behind the last line of its body
    end: int  # behind the comments that follow in its body


class Member:
    """A method of a class at the top level of a module. Its body is parsed when it is asked for."""

    __slots__ = ("_method", "_statement")

    def __init__(self, statement: Statement, method: Method) -> None:
        self._statement = statement
        self._method = method

    def full(self) -> tuple[Unit, cst.FunctionDef]:
        """The method with its body, and the unit its nodes belong to. Raises :class:`SyntaxProblem`."""
        unit = self._statement.member(self._method)
        around = unit.tree.body[0]
        assert isinstance(around, cst.ClassDef)
        node = around.body.body[0]
        assert isinstance(node, cst.FunctionDef)
        return unit, node


def outline_of(statement: Statement) -> Unit:
    """A class with the signatures of its methods; the whole of it where it is small or written in an uncommon way.

    Raises :class:`SyntaxProblem`.
    """
    from smemcheck.source.module import SyntaxProblem

    text = statement.text
    methods = list(methods_of(text, len(statement.decorator_text))) if len(text) >= _LARGE else []
    if not methods:
        return statement.unit
    try:
        unit = statement.module.parse(outlined(text, methods), statement.line)
    except SyntaxProblem:
        return statement.unit
    nodes = [node for node in _methods_in(unit) if _is_cut(node)]
    if [node.name.value for node in nodes] != [method.name for method in methods]:
        return statement.unit
    unit.part_of = statement
    unit.members = {id(node): Member(statement, method) for node, method in zip(nodes, methods, strict=True)}
    return unit


def _methods_in(unit: Unit) -> Iterator[cst.FunctionDef]:
    whole = unit.tree.body[0]
    for node in whole.body.body if isinstance(whole, cst.ClassDef) else ():
        if isinstance(node, cst.FunctionDef):
            yield node


def _is_cut(node: cst.FunctionDef) -> bool:
    """Whether there is a text of empty lines in the place of a body, as :func:`outlined` puts it there."""
    first = node.body.body[0]
    text = first.value if isinstance(first, cst.Expr) and isinstance(node.body, cst.SimpleStatementSuite) else None
    return isinstance(text, cst.SimpleString) and not text.value.strip('"\n')


def outlined(text: str, methods: Sequence[Method]) -> str:
    """The text of a class with a text of as many lines in the place of each method's body."""
    pieces: list[str] = []
    at = 0
    for method in methods:
        lines = "\n" * text.count("\n", method.body, method.last)
        pieces += text[at : method.body], f' """{lines}"""'
        at = method.last
    return "".join([*pieces, text[at:]])


def alone(text: str, method: Method) -> str:
    """The text of one method in a class of its own, a line further down and in its own columns."""
    return "class _:\n" + text[method.start : method.end]


def methods_of(text: str, definition: int) -> Iterator[Method]:
    """The methods of a class whose bodies stand below their signatures.

    ``definition`` is where the word ``class`` stands.
    """
    begin = header_end(text, definition)
    if begin is None:
        return
    strings = [match.span() for match in STRINGS_AND_COMMENTS.finditer(text, begin) if "\n" in match.group()]
    ends = [end for _, end in strings]
    code: list[int] = []  # where lines of code begin
    indents: dict[int, int] = {}  # of those of them that may begin a statement
    for match in _CODE.finditer(text, begin):
        at = match.start()
        following = bisect_left(ends, at + 1)
        if at <= begin or (following < len(strings) and strings[following][0] < at):
            continue
        code.append(at)
        if text[at - 2 : at] != "\\\n" and not _REST.match(text, match.end() - 1):
            indents[at] = len(match[1])
    if not code:
        return
    indent = indents.get(code[0], 0)
    starts = outside_brackets(text, [at for at, width in indents.items() if width <= indent])
    if not indent or any(indents[start] < indent for start in starts):
        return

    def behind(offset: int) -> int:
        """Behind the last line of code before an offset."""
        lines, closed = bisect_left(code, offset), bisect_left(ends, offset)
        last = max(code[lines - 1] if lines else begin, ends[closed - 1] if closed else begin)
        return text.find("\n", last) + 1 or len(text)

    first: int | None = None  # of the decorators above
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        first = start if first is None else first
        if text[start + indent] == "@":
            continue
        found = _METHOD.match(text, start + indent)
        body = header_end(text, start + indent) if found else None
        above, first = first, None
        if found is None or body is None or not _BELOW.match(text, body):
            continue
        last = behind(end)
        yield Method(
            found[1],
            _below_comments(text, behind(above), above, indent),
            body,
            last - 1,
            _below_comments(text, last, end, indent),
        )


def _below_comments(text: str, start: int, end: int, indent: int) -> int:
    """Behind the last of the comments between two offsets that are indented more; they belong to what stands above."""
    deeper = [match.end() for match in _COMMENT.finditer(text, start, end) if len(match[1]) > indent]
    return text.find("\n", deeper[-1]) + 1 or len(text) if deeper else start
