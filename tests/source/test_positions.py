"""Positions of parsed nodes are those of libcst's own provider, on text with everything that moves them."""

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from smemcheck.source.positions import Positions

TEXT = '''\
# a comment, and an empty line

@decorate(  # behind
    [Config({"B": b}, num_warps=w) for b in (16, 32) for w in (4, 8)],
    key=["n"],
)
def kernel(x, *, n: int = 4, **more) -> None:
    """Two
    lines."""
    if (x
            and n):

        y = x[1:2, ...] ; z = -y  # two statements
    else: pass
    with open(f"{x!r:>{n}}") as a, b: return lambda q, /: (yield q)
    text = "one" "two" \\
        "three"

class C(Base, metaclass=M):
    async def f(self): await g(); x: int
'''


@pytest.mark.parametrize("text", [TEXT, TEXT.rstrip("\n"), "x = 1", "", "\n\n"])
def test_positions_are_those_of_libcst(text):
    tree = cst.parse_module(text)
    wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
    positions = Positions(tree)
    for node, expected in wrapper.resolve(PositionProvider).items():
        if isinstance(node, cst.Module):
            continue  # its end is the file's, with or without a last empty line
        assert positions.start(node) == (expected.start.line, expected.start.column)
        assert positions.end(node) == (expected.end.line, expected.end.column)


def test_a_node_of_another_tree_has_none():
    assert Positions(cst.parse_module("x = 1")).start(cst.Name("x")) is None
