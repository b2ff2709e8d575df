"""The search for launches comes to an end, and holds little: counted in runs, steps and trees, whatever the clock says."""

from __future__ import annotations

import gc
from collections import Counter

import pytest
from reading import specializations, types_of

from smemcheck.source import module, namespace
from smemcheck.source.module import Held, Module, Unit
from smemcheck.specialize.launches import search

KERNEL = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x, y, bias, n, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
"""
LAUNCH = "kernel[(1,)](x, torch.empty_like(x), bias, x.shape[0], HAS_BIAS=bias is not None)"


@pytest.fixture
def runs(monkeypatch):
    """Every example run that is made, in order: the plan that it followed."""
    made = []
    start = search.start

    def starting(interpreter, entry):
        made.append(interpreter.plan)
        start(interpreter, entry)

    monkeypatch.setattr(search, "start", starting)
    return made


def choices_by_rank(runs):
    return Counter(plan.choices for plan in runs), [plan.sizes.rank for plan in runs]


def test_what_fails_whatever_the_rank_is_not_tried_with_every_rank(read, runs):
    specializations(
        read,
        KERNEL
        + f"""
def call(x, bias=None, scale=None, mask: bool = False, fast: bool = False):
    x = not_defined_anywhere(x)
    {LAUNCH}
""",
    )
    ranks = [plan.sizes.rank for plan in runs]
    assert ranks[:6] == [4, 3, 2, 4, 3, 2]
    assert len(ranks) > 10
    assert set(ranks[6:]) == {4}


def test_another_rank_is_tried_again_where_a_plan_gets_further(read):
    found = specializations(
        read,
        KERNEL
        + f"""
def call(x, a=None, b=None, bias=None):
    a = a * (1 if bias is None else 2) if bias is not None else missing
    rows = {{3: x.shape[0]}}[x.dim()]
    {LAUNCH}
""",
    )
    assert {types_of(one)["HAS_BIAS"] for one in found} == {True}


def test_an_entry_whose_runs_go_on_for_long_is_given_up_after_so_many_steps(read, runs, monkeypatch):
    monkeypatch.setattr(search, "_MOST_STEPS_IN_ALL", 50_000)
    text = (
        KERNEL
        + f"""
def call(x, bias=None, scale=None, mask: bool = False, fast: bool = False, other: bool = False):
    total = 0
    while total >= 0:
        total += 1
    {LAUNCH}
"""
    )
    specializations(read, text)
    assert len(runs) == 3  # of at most 20,000 steps each
    runs.clear()
    monkeypatch.setattr(search, "_MOST_STEPS_IN_ALL", 90_000)
    specializations(read, text)
    assert len(runs) > 3


TABLES = (
    KERNEL
    + f"""
FORMATS = {{"half": lambda x: x.half(), "same": lambda x: x}}
NAMES = ["half", "same"]

def call(x, bias=None, mask: bool = False, fast: bool = False):
    if len(FORMATS) != 2 or len(NAMES) != 2:
        raise RuntimeError("an earlier call left something behind")
    FORMATS["last"] = None
    NAMES.append("last")
    if mask or fast:
        x = FORMATS[NAMES[0]](x)
    {LAUNCH}
"""
)


def test_a_table_that_a_module_writes_out_is_not_evaluated_again_for_every_run(read, runs, monkeypatch):
    ran = Counter()
    run = namespace.run_statement

    def run_statement(interpreter, statement, frame):
        ran[statement.text.partition(" ")[0]] += 1
        return run(interpreter, statement, frame)

    monkeypatch.setattr(namespace, "run_statement", run_statement)
    found = specializations(read, TABLES)
    assert len(runs) > 5
    assert (ran["FORMATS"], ran["NAMES"]) == (1, 1)
    # Each run has a table of its own: what one run puts into it the next one does not see.
    assert {types_of(one)["HAS_BIAS"] for one in found} == {True, False}
    assert {types_of(one)["x"] for one in found} >= {"*fp16", "*fp32"}


MANY = (
    TABLES
    + f"""
def other(x, bias=None, mask: bool = False):
    if ask_somebody(x):
        x = x.float()
    for _ in range(2 if mask else 1):
        {LAUNCH}

class Layer:
    def forward(self, x, bias=None):
        {LAUNCH}
"""
)


def test_what_was_parsed_is_let_go_once_it_is_much_and_nothing_else_is_found_then(read, monkeypatch):
    gc.collect()
    before = sum(type(one) is Unit for one in gc.get_objects())
    whole = specializations(read, MANY)
    assert len(whole) > 4
    releases = []
    release = Held.release

    def releasing(held):
        releases.append(held.parsed)
        release(held)
        gc.collect()
        assert sum(type(one) is Unit for one in gc.get_objects()) < before + 12  # those of the site and of its kernel

    monkeypatch.setattr(search, "_MOST_PARSED", 0)
    monkeypatch.setattr(Held, "release", releasing)
    assert specializations(read, MANY) == whole
    assert len(releases) >= 3  # before each entry


def test_texts_are_packed_in_turn_and_say_the_same(monkeypatch):
    monkeypatch.setattr(module, "_UNPACKED", 30)
    held = Held()
    texts = [f"x = {number}\n# ä – 文 \U0001f600\n" for number in range(5)]
    modules = [Module(f"{number}.py", text, "m", False, held) for number, text in enumerate(texts)]
    assert list(held.texts) == modules[-1:]
    assert [one.text for one in modules] == texts
    assert held.characters == len(texts[0])
    tree = modules[0].statements[0].unit.tree
    held.release()
    assert modules[0].text == texts[0]
    assert modules[0].statements[0].unit.tree is not tree
    assert modules[0].statements[0].unit.tree.code == tree.code
