"""A class is parsed without the bodies of its methods, which are parsed one by one when they are asked for."""

from __future__ import annotations

import libcst as cst
import pytest
from listing import PREAMBLE

from smemcheck.model import Position
from smemcheck.source import members
from smemcheck.source.module import Module, SyntaxProblem

CLASS = '''\
@register(name="c", of=[1,
    2])
class C(Base, metaclass=M):  # a class
    """What it is.

    def no_method(self): of the text
    """

    size: int = 4
    table = {
    "a": 1,  # not indented
    }

    # Above the first one.
    def first(self, a, b=(1, 2), *, c: dict[str, int] = {}) -> int:  # behind
        """Says
    def what(): it does
        """
        x = f(a,
    b)
        return x
        # Still in it.

    # Above the decorators.
    @decorate(
    1, 2)
    # Between them.
    @property
    async def second(
        self,
    ):

        def inner():
            return 1

        return """
# no comment"""

    def short(self): return 1
    if size > 3:
        def third(self):
            return 3
    else:
        def fourth(self):
            return 4

    class Inner:
        def fifth(self):
            return 5

    def sixth(self):
        y = 1 + \\
    2
        return y
# in column one
    def first(self):
        raise ValueError
# at the end
'''


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch):
    monkeypatch.setattr(members, "_LARGE", 0)


def statement_of(text):
    (statement,) = Module("k.py", "\n\n" + text, "k", is_package=False).statements
    return statement


def written(node):
    return cst.Module([]).code_for_node(node)


def methods_in(unit):
    return [node for node in unit.tree.body[0].body.body if isinstance(node, cst.FunctionDef)]


def test_an_outline_has_the_signatures_where_they_stand():
    statement = statement_of(CLASS)
    whole, outline = statement.unit, statement.outline
    assert outline is not whole
    assert [type(node) for node in outline.tree.body[0].body.body] == [
        type(node) for node in whole.tree.body[0].body.body
    ]
    signature = {"body": cst.SimpleStatementSuite([cst.Pass()]), "leading_lines": ()}
    for expected, found in zip(methods_in(whole), methods_in(outline), strict=True):
        assert written(found.with_changes(**signature)) == written(expected.with_changes(**signature))
        assert outline.position(found) == whole.position(expected)
        assert outline.lines(found) == whole.lines(expected)
    assert "return x" in whole.tree.code
    assert not any(text in outline.tree.code for text in ("return x", "inner", "1 + ", "raise ValueError"))


def test_a_method_is_what_it_is_in_its_class():
    statement = statement_of(CLASS)
    outline = statement.outline
    cut = [node for node in methods_in(outline) if id(node) in outline.members]
    assert [node.name.value for node in cut] == ["first", "second", "sixth", "first"]
    whole = [node for node in methods_in(statement.unit) if node.name.value != "short"]
    for expected, found in zip(whole, cut, strict=True):
        unit, node = outline.members[id(found)].full()
        assert written(node).strip() == written(expected).strip()
        assert (unit.position(node), unit.lines(node)) == (
            statement.unit.position(expected),
            statement.unit.lines(expected),
        )
        assert unit is outline.members[id(found)].full()[0]


@pytest.mark.parametrize(
    "text",
    [
        "class C: x = 1\n",
        "class C:\n    x = 1\n",
        "class C:\n    def f(self): return 1\n",
    ],
    ids=["one line", "no method", "a method on one line"],
)
def test_other_classes_are_parsed_as_a_whole(text):
    statement = statement_of(text)
    assert statement.outline is statement.unit


def test_a_method_that_is_no_python_costs_itself_only():
    statement = statement_of("class C:\n    def f(self):\n        return 1 +\n\n    def g(self):\n        return 1\n")
    broken, other = (statement.outline.members[id(node)] for node in methods_in(statement.outline))
    with pytest.raises(SyntaxProblem):
        broken.full()
    assert "return 1" in written(other.full()[1])


LISTS = """
class Space:
    warps = (4, 8)

    def unused(self):
        return nothing_of_this()

    def listed(self, sizes=(16, 32)):
        return [triton.Config({"B": size}, num_warps=warps) for size in sizes for warps in self.warps]

@triton.autotune(configs=Space().listed(), key=["x"])
@triton.jit
def kernel(x, B: tl.constexpr):
    pass
"""


def test_only_methods_that_are_called_are_parsed(package, monkeypatch):
    parsed = []
    parse = cst.parse_module
    monkeypatch.setattr(cst, "parse_module", lambda text: parsed.append(text) or parse(text))
    configs = package({"k.py": LISTS}).site().answers["sm_90"].configs
    assert [(dict(config.kwargs)["B"], config.num_warps) for config in configs] == [(16, 4), (16, 8), (32, 4), (32, 8)]
    assert not any("nothing_of_this" in text for text in parsed)
    assert sum("for warps in" in text for text in parsed) == 1


def test_what_stops_a_method_is_told_with_its_line(package):
    text = LISTS.replace("return [triton", "self[unknown_name()] = 1\n        return [triton")
    unknown = package({"k.py": text}).site().answers["sm_90"].configs
    assert (PREAMBLE + text).splitlines()[unknown.position.line - 1].strip() == "self[unknown_name()] = 1"


def test_let_go_of_its_trees_a_class_parses_its_methods_again():
    statement = statement_of(CLASS)
    outline = statement.outline
    member = outline.members[id(methods_in(outline)[0])]
    unit, _ = member.full()
    statement.release()
    again, node = member.full()
    assert again is not unit
    assert again.position(node) == Position("k.py", 17, 5)
