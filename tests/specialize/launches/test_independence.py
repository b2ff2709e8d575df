"""What is found for a kernel does not depend on what was evaluated before it."""

from __future__ import annotations

import pytest
from reading import specializations, types_of

from smemcheck.config import Settings
from smemcheck.specialize import specialize
from smemcheck.specialize.launches.search import Launches

KERNELS = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def first(x, n, N: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)

@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def second(x, n, N: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)
"""


def constants(read, text):
    """The values of the constant N that the one kernel of a text is launched with."""
    return {types_of(one)["N"] for one in specializations(read, text)}


@pytest.mark.parametrize(
    "state",
    [
        "class State:\n    calls = 0\n\ndef count():\n    State.calls += 1\n    return State.calls\n",
        "def state():\n    pass\n\ndef count():\n"
        "    state.calls = getattr(state, 'calls', 0) + 1\n    return state.calls\n",
        "class Base:\n    calls = []\n\nclass State(Base):\n    pass\n\ndef count():\n"
        "    State.calls.append(1)\n    return len(State.calls)\n",
    ],
    ids=["class", "function", "inherited list"],
)
def test_what_a_run_sets_is_no_part_of_the_next_one(read, state):
    one_kernel = KERNELS.split("\n\n", maxsplit=1)[0]
    call = """
def call(x: torch.Tensor, flag: bool = False, other: bool = False, third: bool = False):
    if flag or other or third:
        x = x.contiguous()
    first[(1,)](x, 16, N=count() + (2 if flag else 4 if other else 8 if third else 0))
"""
    assert constants(read, f"{one_kernel}\n\n{state}\n{call}") == {1, 3, 5, 9}


COSTLY = """
def made(count):
    total = 0
    for i in range(count):
        total += 1
    return total

SIZE = made(1500)

def call_first(x: torch.Tensor, flag: bool = False):
    for i in range(1500):
        x = x.contiguous()
    first[(1,)](x, SIZE, N=1 if flag else 2)

def call_second(x: torch.Tensor, flag: bool = False):
    for i in range(1500):
        x = x.contiguous()
    second[(1,)](x, SIZE, N=1 if flag else 2)
"""


@pytest.mark.parametrize("backwards", [False, True])
def test_which_kernel_is_asked_for_first_makes_no_difference(read, backwards):
    sites, project = read(KERNELS + COSTLY)
    found = {}
    for site in reversed(sites) if backwards else sites:
        found[site.kernel_name] = [types_of(one) for one in specialize(site, project, Settings(), ())]
    assert found["first"] == found["second"]
    assert found["first"][0]["N"] == 2
    assert {one["N"] for one in found["first"]} == {1, 2}


def test_nothing_remembered_makes_no_difference(read, monkeypatch):
    text = KERNELS.split("\n\n", maxsplit=1)[0] + "\n\n" + COSTLY.split("\n\ndef call_second", maxsplit=1)[0]
    remembered = specializations(read, text)
    run = Launches._run_once

    def run_from_nothing(launches, exploration, plan):
        launches._begin()
        return run(launches, exploration, plan)

    monkeypatch.setattr(Launches, "_run_once", run_from_nothing)
    assert specializations(read, text) == remembered


def test_a_tuner_that_a_run_changes_is_as_it_was_in_the_next_run(read):
    text = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def first(x, n, N: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), n)

def call(x: torch.Tensor, flag: bool = False, other: bool = False):
    if flag or other:
        x = x.contiguous()
    first.configs.append(first.configs[0])
    first[(1,)](x, 16, N=len(first.configs) + (10 if flag else 0))
"""
    assert constants(read, text) == {2, 12}
