"""A large statement is parsed piece by piece, to the tree that it has as a whole."""

from __future__ import annotations

import libcst as cst
import pytest

from smemcheck.source import pieces

TABLE = """TABLE: dict[str, Any] = {  # of configs
    "a": {
        (1, 2): Config(3, 4, of=(5, 6)),  # (one
        (7, -8): shapes.Config ( 9 ),
    },
    **other, "b": [x for x in (1, 2) if x in(3, 4)], not (5): f(6)(7)[8].g(9),
    'c': lambda a=(1,), *b: {"d": [f"{a!r}", (yield)], }, h(1)[2:3]: i . j(4).k(5)if m(6)else(7),
    "d": "text" "(", await_it(8): (9) ** -n(1), o: p[(2,
        3)], q(*r(4), **s(5)): u[6](7),
}
"""


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch):
    monkeypatch.setattr(pieces, "_LARGE", 60)
    monkeypatch.setattr(pieces, "_FEWEST", 3)


@pytest.fixture
def parsed_texts(monkeypatch):
    texts = []
    parse = cst.parse_module
    monkeypatch.setattr(cst, "parse_module", lambda text: texts.append(text) or parse(text))
    return texts


@pytest.mark.parametrize("text", [TABLE, TABLE.replace("\n    ", "\n"), f"call({TABLE[24:]})\n"])
def test_the_tree_is_that_of_the_whole(text, parsed_texts):
    tree = pieces.parsed(text)
    assert len(parsed_texts) > 10
    assert "(3, 4, of=(5, 6))" in "".join(parsed_texts[:-1])
    assert "Config(3" not in parsed_texts[-1]
    assert tree.code == text
    assert tree.deep_equals(cst.parse_module(text))


@pytest.mark.parametrize(
    "text",
    ["x = (1, 2)\n", f"def f(a=(1, 2)):\n    return g([{'(3, 4), ' * 20}])\n", f"if x:\n    y = [{'(3, 4), ' * 20}]\n"],
    ids=["small", "function", "block"],
)
def test_what_is_small_or_in_a_block_is_parsed_as_a_whole(text, parsed_texts):
    assert pieces.parsed(text).code == text
    assert parsed_texts == [text]


def test_a_name_of_the_text_is_no_piece(parsed_texts):
    text = f"_piece10 = [_piece, {'(3, 4), ' * 20}]\n"
    assert pieces.parsed(text).deep_equals(cst.parse_module(text))


def test_what_is_wrong_is_where_it_stands_in_the_text():
    text = f"x = [\n{'(3, 4),' * 20}\n    (5, 6 7),\n]\n"
    errors = []
    for parse in (pieces.parsed, cst.parse_module):
        with pytest.raises(cst.ParserSyntaxError) as raised:
            parse(text)
        errors.append((raised.value.raw_line, raised.value.raw_column))
    assert errors[0] == errors[1]
