"""Where the nodes of a parsed text start and end.

libcst knows positions by writing the whole tree out again. Its own provider counts lines and columns at every token and
keeps them by node, which costs more than parsing; this one counts characters, and looks up lines when it is asked.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState


class Positions:
    """Offsets by node of one tree; lines are 1-based, columns 0-based, as in libcst."""

    def __init__(self, tree: cst.Module) -> None:
        state = _State(tree.default_indent, tree.default_newline)
        tree._codegen(state)  # noqa: SLF001 (libcst's own providers do the same; there is no other way to a custom state)
        self._tree = tree  # nodes are known by their identity, which holds as long as they live
        # As arrays, because a dict of pairs takes more memory than the tree itself.
        self._nodes = array("Q", sorted(state.spans))
        self._starts = array("L", [state.spans[node][0] for node in self._nodes])
        self._ends = array("L", [state.spans[node][1] for node in self._nodes])
        self._lines = array("L", state.lines)

    def start(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The line and column where a node starts; ``None`` for a node of another tree."""
        index = self._index(node)
        return None if index is None else self._place(self._starts[index])

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        """The line and column where a node ends, which is where what follows it starts. Raises :class:`KeyError`."""
        index = self._index(node)
        if index is None:
            raise KeyError(node)
        return self._place(self._ends[index])

    def _index(self, node: cst.CSTNode) -> int | None:
        index = bisect_left(self._nodes, id(node))
        return index if index < len(self._nodes) and self._nodes[index] == id(node) else None

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1]


class _State(CodegenState):
    """What libcst writes a tree to: nothing is kept but how long the text is when a node starts and ends."""

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.offset = 0
        self.lines = [0]  # where each line starts
        self.spans: dict[int, tuple[int, int]] = {}
        self._starts: list[int] = []

    def add_indent_tokens(self) -> None:
        self.offset += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        if "\n" in value:
            at = value.find("\n")
            while at >= 0:
                self.lines.append(self.offset + at + 1)
                at = value.find("\n", at + 1)
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        self.spans.setdefault(id(node), (start, self.offset))

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Any:
        return _Span(self, node, start_node, end_node)


class _Span:
    """Notes what is written while it is open as the extent of a node, without the white space around it."""

    __slots__ = ("_end_node", "_node", "_start", "_start_node", "_state")

    def __init__(
        self, state: _State, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self._state, self._node, self._start_node, self._end_node = state, node, start_node, end_node
        self._start = state.offset

    def __enter__(self) -> None:
        """Begin where the context was made."""

    def __exit__(self, *_: object) -> None:
        spans = self._state.spans
        start = self._start if self._start_node is None else spans[id(self._start_node)][0]
        end = self._state.offset if self._end_node is None else spans[id(self._end_node)][1]
        spans[id(self._node)] = (start, end)
