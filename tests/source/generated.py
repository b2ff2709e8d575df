"""Hypothesis strategies for Python text: expressions over plain data, and short programs with loops, functions and classes."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
ATOMS = st.one_of(
    st.integers(-3, 9).map(str),
    st.sampled_from(["True", "False", "None", "0.5", "2.0", "'ab'", "''", "'x1'", "[]", "()", "{}", "[1, 2, 3]"]),
    st.sampled_from(["(1, 'a')", "{'k': 1}", "{1, 2}", "range(3)", "[[1], [2, 3]]", "[('a', 1), ('b', 2)]"]),
    st.sampled_from(NAMES),
)
BINARY = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^")
COMPARE = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not")
CALLS = (
    "len({})", "list({})", "tuple({})", "sorted({})", "sum({})", "max({})", "min({})", "str({})", "int({})", "bool({})",
    "abs({})", "set({})", "dict({})", "any({})", "all({})", "list(reversed({}))", "list(enumerate({}))", "repr({})",
    "list(zip({0}, {0}))", "round({})", "float({})", "isinstance({}, int)", "isinstance({}, (list, tuple))", "hex({})",
    "list(map(str, {}))", "list(filter(None, {}))", "divmod({}, 3)", "callable({})", "frozenset({})", "bin({})",
)  # fmt: skip
METHODS = (
    "{}.upper()", "{}.split('b')", "{}.startswith('a')", "{}.replace('a', 'cc')", "{}.get('k')", "{}.get('z', 5)",
    "list({}.items())", "list({}.keys())", "{}.count(1)", "{}.index(2)", "{}.copy()", "','.join({})", "{}.bit_length()",
    "{}.strip()", "{}.zfill(4)", "{}.union([1])", "'{{}}'.format({})", "'%s' % ({},)", "f'<{{{}}}>'", "f'{{{}!r:>8}}'", "{}.find('b')",
)  # fmt: skip
SUBSCRIPTS = ("{}[0]", "{}[-1]", "{}[1:]", "{}[::-1]", "{}[:2]", "{}['k']", "{}[::2]", "{}[5]")


def _compound(inner):
    pair = st.tuples(inner, inner)
    triple = st.tuples(inner, inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(COMPARE), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        triple.map(lambda t: f"({t[0]} < {t[1]} <= {t[2]})"),
        st.tuples(st.sampled_from(("-", "+", "~", "not ")), inner).map(lambda t: f"({t[0]}{t[1]})"),
        st.tuples(inner, st.sampled_from(("and", "or")), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        triple.map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        pair.map(lambda t: f"[{t[0]}, {t[1]}]"),
        pair.map(lambda t: f"[*{t[0]}, {t[1]}]"),
        pair.map(lambda t: f"({t[0]}, {t[1]})"),
        pair.map(lambda t: f"{{'k': {t[0]}, 'm': {t[1]}}}"),
        pair.map(lambda t: f"{{**{t[0]}, 'k': {t[1]}}}"),
        pair.map(lambda t: f"[{t[0]} for i in {t[1]}]"),
        triple.map(lambda t: f"[(i, {t[0]}) for i in {t[1]} if {t[2]}]"),
        triple.map(lambda t: f"[j for i in {t[0]} for j in (i, {t[1]}) if j != {t[2]}]"),
        pair.map(lambda t: f"{{i: {t[0]} for i in {t[1]}}}"),
        pair.map(lambda t: f"{{{t[0]} for i in {t[1]}}}"),
        pair.map(lambda t: f"(lambda x, y={t[0]}: (x, y))({t[1]})"),
        pair.map(lambda t: f"[(n := {t[0]}), n, {t[1]}]"),
        st.tuples(st.sampled_from(CALLS + METHODS + SUBSCRIPTS), inner).map(
            lambda t: t[0].format(f"({t[1]})" if "f'" not in t[0] else f" ({t[1]}) ".replace("'", '"'))
        ),
        pair.map(lambda t: f"sorted({t[0]}, key=lambda x: {t[1]}, reverse=True)"),
        pair.map(lambda t: f"max({t[0]}, default={t[1]})"),
        pair.map(lambda t: f"sum({t[0]}, {t[1]})"),
        pair.map(lambda t: f"({t[0]})[{t[1]}]"),
    )


EXPRESSIONS = st.recursive(ATOMS, _compound, max_leaves=8)
SMALL = st.recursive(ATOMS, _compound, max_leaves=3)


def _indented(block):
    return "".join(f"    {line}\n" for line in block.splitlines())


TARGETS = st.sampled_from(NAMES)
SIMPLE = st.one_of(
    st.tuples(TARGETS, SMALL).map(lambda t: f"{t[0]} = {t[1]}\n"),
    st.tuples(TARGETS, st.sampled_from(BINARY), SMALL).map(lambda t: f"{t[0]} {t[1]}= {t[2]}\n"),
    st.tuples(TARGETS, TARGETS, SMALL).map(lambda t: f"{t[0]}, {t[1]} = {t[2]}\n"),
    st.tuples(TARGETS, TARGETS, SMALL).map(lambda t: f"{t[0]}, *{t[1]} = {t[2]}\n"),
    st.tuples(TARGETS, TARGETS, SMALL).map(lambda t: f"{t[0]} = {t[1]} = {t[2]}\n"),
    st.tuples(TARGETS, SMALL).map(lambda t: f"{t[0]}.append({t[1]})\n"),
    st.tuples(TARGETS, SMALL).map(lambda t: f"{t[0]}.extend({t[1]})\n"),
    st.tuples(TARGETS, SMALL, SMALL).map(lambda t: f"{t[0]}[{t[1]}] = {t[2]}\n"),
    st.tuples(TARGETS, SMALL).map(lambda t: f"del {t[0]}[{t[1]}]\n"),
    st.tuples(TARGETS, SMALL).map(lambda t: f"{t[0]}.update({t[1]})\n"),
    TARGETS.map(lambda t: f"{t}.pop()\n"),
    TARGETS.map(lambda t: f"{t}.sort()\n"),
    SMALL.map(lambda t: f"assert {t}\n"),
    st.sampled_from(["raise ValueError('no')\n", "raise KeyError\n", "pass\n"]),
)


def _blocks(inner):
    body = st.lists(inner, min_size=1, max_size=3).map("".join).map(_indented)
    return st.one_of(
        st.tuples(SMALL, body, body).map(lambda t: f"if {t[0]}:\n{t[1]}else:\n{t[2]}"),
        st.tuples(TARGETS, SMALL, body).map(lambda t: f"for {t[0]} in {t[1]}:\n{t[2]}"),
        st.tuples(TARGETS, SMALL, body, SMALL).map(
            lambda t: f"for {t[0]} in {t[1]}:\n{t[2]}    if {t[3]}:\n        break\nelse:\n    {t[0]} = 'else'\n"
        ),
        st.tuples(SMALL, body).map(lambda t: f"k = 0\nwhile {t[0]}:\n    k += 1\n    if k > 3:\n        break\n{t[1]}"),
        st.tuples(
            body, st.sampled_from(["ValueError", "(TypeError, KeyError)", "Exception", "LookupError as error"]), body
        ).map(lambda t: f"try:\n{t[0]}except {t[1]}:\n{t[2]}"),
        st.tuples(body, body, body).map(
            lambda t: f"try:\n{t[0]}except TypeError:\n{t[1]}else:\n{t[2]}finally:\n    d = 1\n"
        ),
        st.tuples(TARGETS, body, SMALL, SMALL).map(
            lambda t: (
                f"def f(x, y=2, *rest, z=3, **more):\n    a, b, c = x, [y], {{'z': z}}\n{t[1]}    return ({t[0]}, rest, more)\n{t[0]} = f({t[2]}, *[1], w={t[3]})\n"
            )
        ),
        st.tuples(SMALL, TARGETS).map(
            lambda t: f"def g(n):\n    for i in range(n):\n        yield (i, {t[0]})\n{t[1]} = list(g(3))\n"
        ),
        st.tuples(SMALL, TARGETS, SMALL).map(
            lambda t: (
                f"class K:\n    size = {t[0]}\n    def __init__(self, v):\n        self.v = v\n    def both(self):\n        return (self.v, self.size)\n    @property\n    def p(self):\n        return self.both()\n{t[1]} = K({t[2]}).p\n"
            )
        ),
        st.tuples(SMALL, TARGETS).map(
            lambda t: (
                f"def outer():\n    n = {t[0]}\n    def inner():\n        nonlocal n\n        n = [n, 1]\n        return n\n    inner()\n    return n\n{t[1]} = outer()\n"
            )
        ),
    )


PROGRAMS = st.lists(st.recursive(SIMPLE, _blocks, max_leaves=6), min_size=1, max_size=5).map("".join)
