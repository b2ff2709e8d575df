"""Going over a parsed tree. libcst's own ``visit`` rebuilds every node that it passes, which takes five times as long."""

from __future__ import annotations

import dataclasses
import functools

import libcst as cst


def walk(node: cst.CSTNode, visitor: cst.CSTVisitor) -> None:
    """Call the visitor's ``visit_`` methods for ``node`` and all below it, in order; one that returns ``False`` ends a branch.

    Its ``leave_`` methods are not called, and white space is not visited.
    """
    if visitor.on_visit(node) is False:
        return
    for name in _parts(type(node)):
        part = getattr(node, name)
        if isinstance(part, cst.CSTNode):
            walk(part, visitor)
        elif isinstance(part, (list, tuple)):
            for one in part:
                if isinstance(one, cst.CSTNode):
                    walk(one, visitor)


@functools.lru_cache(maxsize=512)
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold other nodes that mean something."""
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if not field.name.startswith(
            ("whitespace", "lpar", "rpar", "lbracket", "rbracket", "leading_lines", "trailing")
        )
        and field.name not in ("comma", "equal", "semicolon", "header", "footer", "lines_after_decorators", "indent")
    )
