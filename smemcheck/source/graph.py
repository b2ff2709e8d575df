"""Who leads to whom. Small on purpose: importing a library of graphs takes a third of what a run after one change may take."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Graph(Generic[Node]):
    """A directed graph. Nodes and the edges of each keep the order in which they were added."""

    def __init__(self) -> None:
        self.successors: dict[Node, dict[Node, None]] = {}

    def add_node(self, node: Node) -> None:
        self.successors.setdefault(node, {})

    def add_edge(self, start: Node, end: Node) -> None:
        self.add_node(start)
        self.add_node(end)
        self.successors[start][end] = None

    def __iter__(self) -> Iterator[Node]:
        return iter(self.successors)

    def __contains__(self, node: object) -> bool:
        return node in self.successors

    def reachable(self, start: Node, steps: int | None = None) -> set[Node]:
        """The nodes at the end of a path from ``start`` of at most so many edges, itself included."""
        found = {start}
        front = [start]
        while front and (steps is None or steps > 0):
            steps = None if steps is None else steps - 1
            front = list({end: None for node in front for end in self.successors.get(node, ()) if end not in found})
            found.update(front)
        return found

    def preorder(self, start: Node) -> list[Node]:
        """The nodes that ``start`` leads to, depth first, each before those that are found from it."""
        found = {start: None}
        path = [iter(self.successors[start])]
        while path:
            node = next((end for end in path[-1] if end not in found), None)
            if node is None:
                path.pop()
            else:
                found[node] = None
                path.append(iter(self.successors[node]))
        return list(found)
