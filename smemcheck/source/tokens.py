"""Parsed trees without copies of what is only written between their nodes.

libcst makes one object for every space, comma and operator, and for every mention of a name one text. Most of a tree's
memory is that, and the garbage collector goes over all of it again and again. Nobody asks where a comma stands, so within a
module those that are alike can be one object; the tree writes out as it did.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import libcst as cst

Tokens: TypeAlias = dict[Any, cst.CSTNode]
"""The first of all tokens that are alike, by what it consists of."""

_TOKENS = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Newline,
    cst.Comma,
    cst.Dot,
    cst.Colon,
    cst.Semicolon,
    cst.AssignEqual,
    cst.LeftParen,
    cst.RightParen,
    cst.LeftSquareBracket,
    cst.RightSquareBracket,
    cst.BaseBinaryOp,
    cst.BaseBooleanOp,
    cst.BaseCompOp,
    cst.BaseUnaryOp,
)
_OTHER, _TEXT, _SEQUENCE, _NODE, _TOKEN = range(1, 6)
_KINDS: dict[type, int] = {}  # of what stands in a field, by its class: one of these five

_put = object.__setattr__  # nodes are frozen for their users; what is put there is equal to what was


def share(node: cst.CSTNode, tokens: Tokens) -> None:
    """Put in the place of every token below ``node`` the one of ``tokens`` that is like it."""
    pending = [node]
    while pending:
        one = pending.pop()
        for name in _fields(type(one)):
            part = getattr(one, name)
            kind = _KINDS.get(type(part)) or _kind(type(part))
            if kind == _TOKEN:
                _put(one, name, _shared(part, tokens))
            elif kind == _NODE:
                pending.append(part)
            elif kind == _TEXT:
                _put(one, name, sys.intern(part))
            elif kind == _SEQUENCE and part:
                if _kind(type(part[0])) == _TOKEN:
                    _put(one, name, type(part)([_shared(token, tokens) for token in part]))
                else:
                    pending += part


def replace_nodes(node: cst.CSTNode, other: Callable[[cst.CSTNode], cst.CSTNode | None]) -> None:
    """Put what ``other`` gives in the place of nodes below ``node`` that stand in a field of their own."""
    pending = [node]
    while pending:
        one = pending.pop()
        for name in _fields(type(one)):
            part = getattr(one, name)
            kind = _KINDS.get(type(part)) or _kind(type(part))
            if kind == _NODE:
                instead = other(part)
                if instead is None:
                    pending.append(part)
                else:
                    _put(one, name, instead)
            elif kind == _SEQUENCE and part and _kind(type(part[0])) == _NODE:
                pending += part


def _shared(token: cst.CSTNode, tokens: Tokens) -> cst.CSTNode:
    if isinstance(token, cst.SimpleWhitespace):
        return tokens.setdefault(token.value, token)
    key: list[Any] = [type(token)]
    for name in _fields(type(token)):
        part = getattr(token, name)
        kind = _KINDS.get(type(part)) or _kind(type(part))
        if kind == _TOKEN:
            shared = _shared(part, tokens)
            _put(token, name, shared)
            key.append(id(shared))
        elif kind == _NODE:
            return token  # a comment
        elif kind == _SEQUENCE:
            key.append(tuple([id(_shared(one, tokens)) for one in part]))
        else:
            key.append(part)
    return tokens.setdefault(tuple(key), token)


def _kind(of: type[Any]) -> int:
    known = _KINDS.get(of)
    if known is None:
        bases = ((str, _TEXT), ((list, tuple), _SEQUENCE), (_TOKENS, _TOKEN), (cst.CSTNode, _NODE))
        known = _KINDS[of] = next((kind for base, kind in bases if issubclass(of, base)), _OTHER)
    return known


@functools.lru_cache(maxsize=512)
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
