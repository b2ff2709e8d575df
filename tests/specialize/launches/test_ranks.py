"""Ranks of tensors by what a text unpacks and indexes of their shapes."""

from __future__ import annotations

import libcst as cst
import pytest

from smemcheck.source import members
from smemcheck.source.module import Module, Unit
from smemcheck.specialize.launches.ranks import ranks_in


def ranks_of(text):
    (statement,) = Module("k.py", text, "k", is_package=False).statements
    return dict(ranks_in(statement.outline if statement.kind == "class" else statement.unit))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("b, t, d = x.shape", {"x": (3, ("b", "t", "d"))}),
        ("[b, t] = x.size()", {"x": (2, ("b", "t"))}),
        ("s[0], s1 = x.stride()", {"x": (2, ("", "s1"))}),
        ("b, h, t, d = *q.shape, v.shape[-1]", {"q": (3, ("b", "h", "t"))}),
        ("n, t, d = n, *x.shape[-2:]", {"x": (2, ())}),
        ("a = b, c = x.shape", {"x": (2, ("b", "c"))}),
        ("d = x.shape[0] + x.shape[1]", {"x": (2, ())}),
        ("d = x.stride(1) + x.stride(2)", {"x": (3, ())}),
        ("d = x.shape[3]", {}),
        ("b, *rest = x.shape", {}),
        ("b, d = f(x).shape", {}),
        ("b, d = x.size(0)", {}),
        (
            "if a:\n        pass\n    elif b:\n        m, n = y.shape\n    else:\n        m, = y.shape",
            {"y": (2, ("m", "n"))},
        ),
        ("try:\n        pass\n    except E:\n        m, n = y.shape", {"y": (2, ("m", "n"))}),
        ("def inner():\n        with a:\n            m, n = y.shape", {"y": (2, ("m", "n"))}),
    ],
)
def test_what_is_unpacked_or_indexed(line, found):
    assert ranks_of(f"def call(x, a, b):\n    {line}\n") == found


def test_methods_of_a_class_speak_of_the_same_tensors(monkeypatch):
    monkeypatch.setattr(members, "_LARGE", 0)
    text = "class C:\n    def f(self, x):\n        b, d = x.shape\n\n    def g(self, y):\n        return y.stride(0) + y.stride(1)\n"
    assert ranks_of(text) == {"x": (2, ("b", "d")), "y": (2, ())}


def test_a_text_that_this_python_cannot_read_is_asked_for_indices_only():
    text = "b, d = x.shape\nfuture syntax = y.shape[0] + y.shape[1]\n"
    unit = Unit(Module("k.py", text, "k", is_package=False), text, 1, cst.Module([]))
    assert ranks_in(unit) == {"y": (2, ())}
