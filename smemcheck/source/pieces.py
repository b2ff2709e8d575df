"""Parsing a large text piece by piece.

libcst's parser tries many rules at every bracket and keeps what each of them made: tables of nested calls take it 2 kB of
memory a character. An expression in brackets means the same wherever it stands, so inside the large brackets of a statement
smaller ones are parsed by themselves and put into the tree of the rest. In a block they are not: a tree has the white space
of lines in brackets without the indentation of the block.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

import libcst as cst

from smemcheck.source.scan import STRINGS_AND_COMMENTS
from smemcheck.source.tokens import replace_nodes

_LARGE = 4_000  # characters between brackets
_FEWEST = 100  # of a piece
_TOKEN = re.compile(STRINGS_AND_COMMENTS.pattern + r"|[()\[\]{}]", re.DOTALL)
_WORD = re.compile(r"\w+\Z")
_CALLED = re.compile(r"[^\W\d][\w.]*\Z")
# Before an opening bracket: it continues an expression; behind a closing one likewise.
_JOINED = re.compile(r"[\w)\]}'\"]")
_BLOCK = re.compile(r"@|(?:async|def|class|if|for|while|try|with|match)\b")
_MOST_CALLED = 200  # characters of what is called


def parsed(text: str) -> cst.Module:
    """The tree of a text, as ``cst.parse_module`` gives it. Raises :class:`~libcst.ParserSyntaxError`."""
    pieces = list(pieces_of(text)) if len(text) > _LARGE and not _BLOCK.match(text) else []
    name = "_piece"
    while name in text:
        name += "_"
    written: list[str] = []
    trees: dict[str, cst.BaseExpression] = {}
    at = 0
    try:
        for start, end in pieces:
            tree = cst.parse_module(text[start:end]).body[0]
            line = tree.body[0] if isinstance(tree, cst.SimpleStatementLine) else None
            assert isinstance(line, cst.Expr)
            trees[f"{name}{start}"] = line.value
            written += text[at:start], f"{name}{start}"
            at = end
        whole = cst.parse_module("".join([*written, text[at:]]))
    except cst.ParserSyntaxError:
        if not pieces:
            raise
        return cst.parse_module(text)  # so that the place of what is wrong is that in the whole text
    if pieces:
        replace_nodes(whole, lambda node: trees.get(node.value) if isinstance(node, cst.Name) else None)
    return whole


def pieces_of(text: str) -> Iterator[tuple[int, int]]:
    """Where the expressions in brackets begin and end that are parsed by themselves: the largest ones inside large brackets."""
    opened: list[tuple[int, list[tuple[int, int]]]] = []
    found: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        bracket = match.group()
        if bracket in "([{":
            opened.append((match.start(), found))
            found = []
        elif bracket in ")]}":
            if not opened:
                return
            start, before = opened.pop()
            end = match.end()
            inside, found = found, before
            if end - start > _LARGE:
                found += inside
            elif opened and end - start >= _FEWEST and (begin := _beginning(text, start, end)) is not None:
                found.append((begin, end))
    if not opened:
        yield from found


def _beginning(text: str, start: int, end: int) -> int | None:
    """Where the expression of a bracket begins, the name before it included where it is called; ``None`` if it has none."""
    if _JOINED.match(text, end):
        return None
    above = text[max(0, start - _MOST_CALLED) : start]
    before = above.rstrip()
    word = _WORD.search(before)
    if before != above or word is None:
        is_apart = keyword.iskeyword(word.group()) if word else not _JOINED.match(before, len(before) - 1)
        return start if is_apart else None
    called = _CALLED.search(before) if text[start] == "(" else None
    if called is None or any(map(keyword.iskeyword, called.group().split("."))):
        return None
    owner = before[: called.start()].rstrip()
    return None if owner.endswith(".") or _JOINED.match(before, called.start() - 1) else start - len(called.group())
