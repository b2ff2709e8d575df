"""Cheap reading of source text: which files can hold a site, and where their top-level statements begin and end.

Parsing a whole file with libcst is the most expensive thing the source stage could do, so nothing here parses. The
splitter looks at lines that begin in column one and leaves out those inside strings and brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STRINGS_AND_COMMENTS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""'
    r"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'"
    r"|#[^\n]*",
    re.DOTALL,
)
_COLUMN_ONE = re.compile(r"^[^\s#)\]}]", re.MULTILINE)
_CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")
_WORD = re.compile(r"\b[^\W\d]\w*")
_ANNOTATED = re.compile(r"\b([^\W\d]\w*)\s*:")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_IMPORT_OF_ALL = re.compile(r"\bimport\s*\(?\s*\*")


@dataclass(frozen=True, slots=True)
class Span:
    """A top-level statement's text: offsets into the file's text and the 1-based line it starts on (decorators included)."""

    start: int
    end: int
    line: int


def may_hold_tuner(data: bytes) -> bool:
    """Whether a file's bytes can hold an autotuned kernel: it speaks of Triton and of tuning."""
    return b"triton" in data and b"tun" in data


def imports_all(text: str) -> bool:
    """Whether a text may import all names of some module."""
    return "*" in text and _IMPORT_OF_ALL.search(text) is not None


def may_lead_to_launches(data: bytes) -> bool:
    """Whether a file's bytes can hold what leads to a launch."""
    return (b"torch" in data or b"triton" in data) and b"import jax" not in data


def count_kernels(data: bytes) -> int:
    """About how many kernels a file's bytes hold: how often a decorator's line in column one ends in ``jit``."""
    return sum(map(data.count, (b".jit\n", b"\n@jit\n", b".jit("))) if b"triton" in data else 0


def split_statements(text: str) -> list[Span]:
    """The spans of the top-level statements of ``text``, in order.

    Comments that stand in column one between two of them belong to neither: they say nothing of the first, and what they
    say of the second is read from the file's lines.
    """
    inside = [(m.start(), m.end()) for m in STRINGS_AND_COMMENTS.finditer(text) if "\n" in m.group()]
    starts: list[int] = []
    position = 0
    decorated = False
    for match in _COLUMN_ONE.finditer(text):
        at = match.start()
        while position < len(inside) and inside[position][1] <= at:
            position += 1
        if position < len(inside) and inside[position][0] < at:
            continue
        if at and text[at - 2 : at] == "\\\n":
            continue
        if _CONTINUES.match(text, at) and starts:
            continue
        if decorated:
            decorated = match.group() == "@"
            continue
        starts.append(at)
        decorated = match.group() == "@"
    starts = outside_brackets(text, starts)
    spans = []
    line, counted = 1, 0
    for index, start in enumerate(starts):
        line += text.count("\n", counted, start)
        counted = start
        end = starts[index + 1] if index + 1 < len(starts) else len(text)
        last = _without_comments(text, start, end)
        spans.append(Span(start, end if any(a < last < b for a, b in inside) else last, line))
    return spans


def _without_comments(text: str, start: int, end: int) -> int:
    """Where the comments in column one begin, with empty lines among them, that ``text[start:end]`` ends with."""
    first, below = end, end
    while (line := text.rfind("\n", start, below - 1) + 1) > start:
        if text[line] == "#":
            first = line
        elif text[line:below].strip():
            break
        below = line
    return first


def outside_brackets(text: str, starts: list[int]) -> list[int]:
    """``starts`` without those that stand inside a bracket opened by an earlier statement."""
    kept: list[int] = []
    opened = 0
    for index, start in enumerate(starts):
        if opened <= 0:
            kept.append(start)
            opened = 0
        end = starts[index + 1] if index + 1 < len(starts) else len(text)
        opened += _balance(text[start:end])
    return kept


def _balance(text: str) -> int:
    """How many brackets ``text`` opens and does not close."""
    balance = _count(text)
    return _count(STRINGS_AND_COMMENTS.sub("", text)) if balance else 0


def _count(text: str) -> int:
    opened = text.count("(") + text.count("[") + text.count("{")
    return opened - text.count(")") - text.count("]") - text.count("}")


def identifiers(text: str) -> frozenset[str]:
    """Every identifier-like word of ``text``, those in strings and comments included: a superset of the names it mentions."""
    return frozenset(_IDENTIFIER.findall(text))


def places(word: str, text: str) -> Iterator[int]:
    """Where an identifier begins in a text, as a word of its own. Much faster than a pattern that starts with it."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (at and _is_of_word(text[at - 1])) and not (end < len(text) and _is_of_word(text[end])):
            yield at
        at = text.find(word, end)


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def assignable(text: str) -> frozenset[str]:
    """The words of ``text`` behind which, before the next ``=`` of any kind, one stands that assigns, or a colon at once."""
    parts = text.split("=")
    last = len(parts) - 1
    before = [
        part
        for index, part in enumerate(parts[:-1])
        if part and part[-1] not in "<>!" and (parts[index + 1] or index + 1 == last)  # no comparison
    ]
    return frozenset([*_WORD.findall(" ".join(before)), *_ANNOTATED.findall(text)])


def header_end(text: str, start: int) -> int | None:
    """The offset just past the colon that ends the ``def`` or ``class`` header starting at ``start``; ``None`` if there is none."""
    depth = 0
    token = re.compile(STRINGS_AND_COMMENTS.pattern + r"|[()\[\]{}:]|\blambda\b", re.DOTALL)
    lambdas = 0
    for match in token.finditer(text, start):
        piece = match.group()
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth -= 1
        elif piece == "lambda" and depth == 0:
            lambdas += 1
        elif piece == ":" and depth == 0:
            if lambdas:
                lambdas -= 1
            else:
                return match.end()
    return None
