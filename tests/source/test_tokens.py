"""Tokens of parsed text are shared, and what the tree says stays the same."""

import textwrap

import libcst as cst
import pytest

from smemcheck.source.module import Module
from smemcheck.source.tokens import share

TEXT = '''
@decorate(a, b = 1)   # behind
def f(x , y: int=3,
      *, z = (1 , 2)) -> None:
    """Text."""

    # a comment
    if not x and y <= z or (x + y)*z:
        return x . y [1 : 2 , ...]
    x += 1 ; del y
'''


@pytest.mark.parametrize(
    "text", [TEXT, "x = 1", "", "\n\n# only\n", "x = [\n  1,\n  2,  # two\n]\n", textwrap.dedent(TEXT) * 2]
)
def test_the_tree_writes_out_as_it_did(text):
    tree = cst.parse_module(text)
    share(tree, {})
    assert tree.code == text
    assert tree.deep_equals(cst.parse_module(text))


def test_alike_tokens_of_a_module_are_one_object():
    module = Module("k.py", "", "k", is_package=False)
    trees = [module.parse(text, 1).tree for text in ("f(a, b)\n", "g(c, d)\n")]
    commas = [tree.body[0].body[0].value.args[0].comma for tree in trees]
    assert isinstance(commas[0], cst.Comma)
    assert commas[0] is commas[1]
    names = [tree.body[0].body[0].value.func for tree in trees]
    assert names[0] is not names[1]
