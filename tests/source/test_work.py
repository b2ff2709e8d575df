"""Reading costs what is asked: what a file's statements are parsed and run for, counted."""

from __future__ import annotations

import re
import symtable
from collections import Counter

import libcst as cst
import pytest

from smemcheck.source import namespace
from smemcheck.source.scan import assignable, count_kernels

FILE = """
import triton
import triton.language as tl
from triton import Config

WARPS = [4, 8]
UNRELATED = compute(a_value, [1, 2, 3])

@triton.jit
def helper(x):
    return x

@triton.autotune([Config({"B": 16}, num_warps=w) for w in WARPS], ["x"])
@triton.jit
def kernel(x, B: tl.constexpr):
    tl.store(x, helper(1))

def unrelated(x):
    return [x for x in compute(x)]
"""


@pytest.fixture
def counted(monkeypatch):
    """What was run, parsed by libcst and parsed by Python, by text."""
    ran, parsed, tables = Counter(), Counter(), Counter()
    run, parse, table = namespace.run_statement, cst.parse_module, symtable.symtable

    def run_statement(interpreter, statement, frame):
        ran[statement.defined_name or statement.text.strip()] += 1
        return run(interpreter, statement, frame)

    def parse_module(text):
        parsed[text.strip()] += 1
        return parse(text)

    def counting_table(text, path, kind):
        tables[path] += 1
        return table(text, path, kind)

    monkeypatch.setattr(namespace, "run_statement", run_statement)
    monkeypatch.setattr(cst, "parse_module", parse_module)
    monkeypatch.setattr(symtable, "symtable", counting_table)
    return ran, parsed, tables


def test_a_tuned_kernel_is_run_once_and_what_does_not_matter_never(package, counted):
    ran, parsed, _ = counted
    assert len(package({"kernels.py": FILE}, preamble=False).site().answers["sm_90"].configs) == 2
    assert ran["kernel"] == 1
    assert not any("unrelated" in text.lower() for text in parsed)
    assert not any("tl.store" in text for text in parsed)  # bodies are the compiler's
    assert max(parsed.values()) == 1


def test_an_import_that_files_have_word_for_word_is_parsed_once(package, counted):
    _, parsed, _ = counted
    text = FILE.replace("import triton\n", "import triton\nimport triton as word_for_word\n").replace(
        "tl.store", "word_for_word.x"
    )
    sites = package({"a.py": text, "b.py": "\n\n" + text}, preamble=False).sites()
    kernels = [site.answers["sm_90"].kernel.entry for site in sites]
    assert [dict(kernel.globals_)["word_for_word"].path for kernel in kernels] == ["triton"] * 2
    assert parsed["import triton as word_for_word"] == 1


def test_the_names_in_kernels_come_from_the_table_that_checked_the_syntax(package, counted):
    *_, tables = counted
    assert [f.name for f in package({"kernels.py": FILE}, preamble=False).site().answers["sm_90"].kernel.functions] == [
        "kernel",
        "helper",
    ]
    assert sum(tables.values()) == 1


def test_annotations_in_a_body_are_read_although_python_leaves_them_for_later(package):
    text = FILE.replace("tl.store(x, helper(1))", "y: WIDE = helper(1)").replace("WARPS =", "WIDE = tl.int64\nWARPS =")
    site = package({"kernels.py": "from __future__ import annotations\n" + text}, preamble=False).site()
    assert {"WIDE", "helper"} <= set(dict(site.answers["sm_90"].kernel.entry.globals_))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = b", {"a"}),
        ("a, b = c", {"a", "b"}),
        ("a[i] += b", {"a", "i"}),
        ("a = b = c", {"a", "b"}),
        ("a: int = 3", {"a", "int"}),
        ("a: int", {"a"}),
        ("a == b", set()),
        ("a <= b", set()),
        ("a != b", set()),
        ("f(a, b)", set()),
        ("f(a, b=c)", {"f", "a", "b"}),
        ("{a: b}", {"a"}),
        ("a = (b == c)", {"a"}),
        ("é = 1", {"é"}),
        ("=", set()),
        ("", set()),
    ],
)
def test_names_before_an_assignment(text, names):
    assert assignable(text) == names
    words = set(re.findall(r"\b[^\W\d]\w*", text))
    binding = {w for w in words if re.search(rf"\b{w}\b(?:[^=]*[^=<>!])?=(?!=)|\b{w}\s*:", text)}
    assert names == binding


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (FILE, 2),
        ("from triton import jit\n@jit\ndef f(): pass\n@jit\ndef g(): pass\n", 2),
        ("import triton\n@triton.jit(debug=True)\ndef f(): pass\n", 1),
        ("import jax\n@jax.jit\ndef f(): pass\n", 0),
    ],
)
def test_kernels_are_counted_from_afar(text, count):
    assert count_kernels(text.encode()) == count
