"""Parsed trees without copies of what is only written between their nodes.

libcst makes one object for every space, comma and operator, and for every mention of a name one text. Most of a tree's
memory is that, and the garbage collector goes over all of it again and again. Nobody asks where a comma stands, so within a
module those that are alike can be one object; the tree writes out as it did.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
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
_KINDS: dict[type, bool] = {}  # of nodes, and whether they are tokens


def share(node: cst.CSTNode, tokens: Tokens) -> None:
    """Put in the place of every token below ``node`` the one of ``tokens`` that is like it."""
    pending = [node]
    while pending:
        one = pending.pop()
        for name in _fields(type(one)):
            part = getattr(one, name)
            if isinstance(part, cst.CSTNode):
                if _is_token(part):
                    _put(one, name, _shared(part, tokens))
                else:
                    pending.append(part)
            elif isinstance(part, str):
                _put(one, name, sys.intern(part))
            elif isinstance(part, (list, tuple)) and part:
                if _is_token(part[0]):
                    _put(one, name, type(part)(_shared(token, tokens) for token in part))
                else:
                    pending += part


def _shared(token: cst.CSTNode, tokens: Tokens) -> cst.CSTNode:
    key: list[Any] = [type(token)]
    for name in _fields(type(token)):
        part = getattr(token, name)
        if isinstance(part, cst.CSTNode):
            if not _is_token(part):
                return token  # a comment
            shared = _shared(part, tokens)
            _put(token, name, shared)
            key.append(id(shared))
        elif isinstance(part, (list, tuple)):
            key.append(tuple(id(_shared(one, tokens)) for one in part))
        else:
            key.append(part)
    return tokens.setdefault(tuple(key), token)


def _put(node: cst.CSTNode, name: str, value: Any) -> None:
    object.__setattr__(node, name, value)  # nodes are frozen for their users; what is put there is equal to what was


def _is_token(part: Any) -> bool:
    kind = type(part)
    known = _KINDS.get(kind)
    if known is None:
        known = _KINDS[kind] = issubclass(kind, _TOKENS)
    return known


@functools.lru_cache(maxsize=512)
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
