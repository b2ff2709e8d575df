"""Every way of writing a list of configs gives the list that importing the file would give."""

from __future__ import annotations

import pytest
from listing import blocks

HELPERS = """
import math
import itertools
import functools
import operator
import copy
from itertools import product
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import NamedTuple

SIZES = [16, 32, 64]
TABLE = {"small": 16, "large": 64}
BASE = [Config({"B": 16}), Config({"B": 32})]
"""


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("[Config({'B': 16}), triton.Config({'B': 32})]", [16, 32]),
        ("[Config(dict(B=16))]", [16]),
        ("[Config(kwargs={'B': 16})]", [16]),
        ("[Config({'B': b}) for b in (16, 32)]", [16, 32]),
        ("[Config({'B': b}) for b in SIZES if b > 16]", [32, 64]),
        ("[Config({'B': a * b}) for a in [1, 2] for b in [8, 16] if a * b != 16]", [8, 32]),
        ("[Config({'B': b}) for a in [1, 2, 3] if a % 2 for b in range(a) if b]", [1, 2]),
        ("[Config({'B': b}) for b in range(16, 64, 16)]", [16, 32, 48]),
        ("[Config({'B': 2 ** e}) for e in range(4, 7)]", [16, 32, 64]),
        ("[Config({'B': 1 << e}) for e in range(4, 6)]", [16, 32]),
        ("[Config({'B': b}) for b, _ in [(16, 1), (32, 2)]]", [16, 32]),
        ("[Config({'B': a + b}) for (a, (b, *_)) in [(16, (1, 2, 3))]]", [17]),
        ("[Config({'B': a * b}) for a, b in product([1, 2], [8, 16])]", [8, 16, 16, 32]),
        ("[Config({'B': a * b}) for a, b in itertools.product([1, 2], repeat=2)]", [1, 2, 2, 4]),
        ("[Config({'B': b}) for b in itertools.chain([16], (32,))]", [16, 32]),
        ("[Config({'B': sum(c)}) for c in itertools.combinations(SIZES, 2)]", [48, 80, 96]),
        ("BASE + [Config({'B': 64})]", [16, 32, 64]),
        ("[*BASE, Config({'B': 64})]", [16, 32, 64]),
        ("BASE * 2", [16, 32, 16, 32]),
        ("BASE[1:] + BASE[:1]", [32, 16]),
        ("BASE[::-1]", [32, 16]),
        ("list(reversed(BASE))", [32, 16]),
        ("sum([[Config({'B': b})] for b in SIZES], [])", [16, 32, 64]),
        ("functools.reduce(operator.add, [[c] for c in BASE])", [16, 32]),
        ("BASE if len(SIZES) == 3 else []", [16, 32]),
        ("tuple(BASE)", [16, 32]),
        ("(Config({'B': b}) for b in SIZES)", [16, 32, 64]),
        ("list(map(lambda b: Config({'B': b}), SIZES))", [16, 32, 64]),
        ("list(filter(lambda c: c.kwargs['B'] > 16, BASE))", [32]),
        ("[c for c in BASE if c.kwargs.get('B', 0) < 32]", [16]),
        ("[c for c in BASE if 'B' in c.kwargs and not c.kwargs['B'] & 16]", [32]),
        ("sorted(BASE, key=lambda c: -c.kwargs['B'])", [32, 16]),
        ("sorted(BASE, key=lambda c: c.kwargs['B'], reverse=True)", [32, 16]),
        ("[max(BASE, key=lambda c: c.kwargs['B'])]", [32]),
        ("[Config({'B': b}) for b in sorted({64, 16, 32})]", [16, 32, 64]),
        ("[Config({'B': b}) for b in sorted(set(SIZES) - {16} | {8})]", [8, 32, 64]),
        ("[Config({'B': b}) for b in TABLE.values()]", [16, 64]),
        ("[Config({'B': TABLE[k]}) for k in TABLE]", [16, 64]),
        ("[Config({'B': b}) for k, b in TABLE.items() if k.startswith('l')]", [64]),
        ("[Config({**{'B': 8}, **{'B': b}}) for b in SIZES]", [16, 32, 64]),
        ("[Config({'B': 8} | {'B': 16})]", [16]),
        ("[Config({f'{name}': 16}) for name in 'B']", [16]),
        ("[Config({'block'.upper()[0]: 16})]", [16]),
        ("[Config({'B': int('16')}), Config({'B': int(math.sqrt(1024))})]", [16, 32]),
        ("[Config({'B': math.prod([2, 8])}), Config({'B': math.gcd(64, 48)})]", [16, 16]),
        ("[Config({'B': max(16, min(b, 32))}) for b in SIZES]", [16, 32, 32]),
        ("[Config({'B': b}) for b in map(int, '16,32'.split(','))]", [16, 32]),
        ("[Config({'B': b}) for i, b in enumerate(SIZES, 1) if i != 2]", [16, 64]),
        ("[Config({'B': a + b}) for a, b in zip(SIZES, SIZES[1:])]", [48, 96]),
        ("[Config({'B': triton.next_power_of_2(20)}), Config({'B': triton.cdiv(100, 32)})]", [32, 4]),
        ("(lambda sizes: [Config({'B': b}) for b in sizes])(SIZES)", [16, 32, 64]),
        ("[Config({'B': (n := 16)}), Config({'B': n + 1})]", [16, 17]),
        ("[Config({'B': b}) for b in SIZES if not any(b == x for x in (16, 64))]", [32]),
        ("[Config({'B': b}) for b in SIZES if all((b > 16, b < 64))]", [32]),
        ("[Config({'B': 8 if b == 16 else b}) for b in SIZES]", [8, 32, 64]),
        ("copy.deepcopy(BASE)", [16, 32]),
        ("[Config({'B': b}) for b in (16, 32) for _ in [0] * (2 if b == 16 else 1)]", [16, 16, 32]),
        ("[Config({'B': 16})] * (16 < 32 <= 32)", [16]),
        ("[c for group in ([Config({'B': 16})], BASE) for c in group]", [16, 16, 32]),
        ("[Config({'B': b}) for b in {s: None for s in SIZES}]", [16, 32, 64]),
    ],
)
def test_an_expression(configs, written, values):
    assert configs(written, HELPERS) == blocks(*values)


@pytest.mark.parametrize(
    ("before", "values"),
    [
        ("L = [Config({'B': 16})]\nL += [Config({'B': 32})]", [16, 32]),
        ("L = [Config({'B': 16})]\nL.append(Config({'B': 32}))", [16, 32]),
        ("L = [Config({'B': 16})]\nL.extend(Config({'B': b}) for b in SIZES)", [16, 16, 32, 64]),
        ("L = [Config({'B': 16})]\nL = L + L\nL.pop()\nL.insert(0, Config({'B': 8}))", [8, 16]),
        ("L = []\nfor b in SIZES:\n    L.append(Config({'B': b}))", [16, 32, 64]),
        ("L = []\nfor b in SIZES:\n    if b == 32:\n        continue\n    L += [Config({'B': b})]", [16, 64]),
        ("L = []\nfor b in SIZES:\n    if b == 32:\n        break\n    L += [Config({'B': b})]\nelse:\n    L = []", [16]),
        ("L = []\nb = 16\nwhile b <= 64:\n    L.append(Config({'B': b}))\n    b *= 2", [16, 32, 64]),
        ("if len(SIZES) > 2:\n    L = BASE\nelse:\n    L = []", [16, 32]),
        ("try:\n    L = TABLE['huge']\nexcept KeyError:\n    L = BASE", [16, 32]),
        ("try:\n    L = BASE\nfinally:\n    L = L[:1]", [16]),
        ("L, M = BASE, []", [16, 32]),
        ("*L, last = BASE + [None]", [16, 32]),
        ("L: list = BASE", [16, 32]),
        ("L = M = list(BASE)\nM.append(Config({'B': 64}))", [16, 32, 64]),
        ("L = list(BASE)\ndel L[0]", [32]),
        ("L = [*BASE]\nL[0] = Config({'B': 8})", [8, 32]),
        ("L = [*BASE]\nL[:1] = []", [32]),
        ("L = copy.deepcopy(BASE)\nfor c in L:\n    c.kwargs['B'] *= 2", [32, 64]),
        ("L = [*BASE]\nL.sort(key=lambda c: c.kwargs['B'], reverse=True)", [32, 16]),
        ("def make():\n    return BASE\nL = make()", [16, 32]),
        ("def make(sizes, *more, scale=1):\n    return [Config({'B': s * scale}) for s in (*sizes, *more)]\n"
         "L = make([16], 32, scale=2)", [32, 64]),
        ("def make():\n    found = []\n    for b in SIZES:\n        if b < 32:\n            continue\n"
         "        found.append(Config({'B': b}))\n    return found\nL = make()", [32, 64]),
        ("def make(large=False):\n    if large:\n        return [Config({'B': 64})]\n    return BASE\n"
         "L = make(large=True)", [64]),
        ("def make():\n    for b in SIZES:\n        yield Config({'B': b})\nL = list(make())", [16, 32, 64]),
        ("def make():\n    def inner(b):\n        return Config({'B': b * scale})\n    scale = 2\n"
         "    return [inner(8)]\nL = make()", [16]),
        ("@functools.lru_cache(maxsize=None)\ndef make():\n    return BASE\nL = make()", [16, 32]),
        ("@functools.cache\ndef make():\n    return BASE\nL = make()", [16, 32]),
        ("def make(b, scale):\n    return [Config({'B': b * scale})]\nL = functools.partial(make, scale=2)(16)", [32]),
        ("def valid(c):\n    return c.kwargs['B'] != 16\nL = list(filter(valid, BASE))", [32]),
        ("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nL = [Config({'B': fib(10)})]", [55]),
        ("options = dict(kwargs={'B': 16})\nL = [Config(**options)]", [16]),
        ("arguments = ({'B': 16},)\nL = [Config(*arguments)]", [16]),
        ("@dataclass\nclass Tile:\n    m: int\n    n: int = 2\nL = [Config({'B': t.m * t.n}) for t in (Tile(8), Tile(8, n=4))]",
         [16, 32]),
        ("@dataclass(frozen=True)\nclass Tile:\n    m: int\n    more: list = field(default_factory=list)\n"
         "t = replace(Tile(8), m=16)\nL = [Config({'B': t.m + len(t.more)})]", [16]),
        ("@dataclass\nclass Tile:\n    m: int\n    n: int = 2\n    def sizes(self):\n"
         "        return [getattr(self, name) for name in self.__annotations__]\n"
         "L = [Config({'B': b}) for b in Tile(8).sizes()] + [Config({'B': len(Tile.__annotations__)})]", [8, 2, 2]),
        ("class Tile(NamedTuple):\n    m: int\n    n: int = 2\nL = [Config({'B': m * n}) for m, n in (Tile(8), Tile(8, 4))]",
         [16, 32]),
        ("class Tile(NamedTuple):\n    m: int\n    n: int = 2\nL = [Config({'B': Tile(8)[0] + Tile(8).n + len(Tile(1))})]",
         [12]),
        ("from collections import namedtuple\nTile = namedtuple('Tile', ['m', 'n'])\n"
         "L = [Config({'B': t.m * t.n}) for t in [Tile(8, 2)]]", [16]),
        ("@dataclass(frozen=True)\nclass Key:\n    m: int\nT = {Key(1): 16, Key(2): 32}\nL = [Config({'B': T[Key(2)]})]", [32]),
        ("class Size(Enum):\n    SMALL = 16\n    LARGE = 64\nL = [Config({'B': s.value}) for s in Size]", [16, 64]),
        ("class Size(IntEnum):\n    SMALL = 16\nL = [Config({'B': Size.SMALL + 1}), Config({'B': Size['SMALL'].value})]",
         [17, 16]),
        ("class Tuning:\n    SIZES = (16, 32)\n    @staticmethod\n    def make():\n        return BASE\n"
         "    @classmethod\n    def all(cls):\n        return [Config({'B': b}) for b in cls.SIZES]\nL = Tuning.all()", [16, 32]),
        ("class Tuning:\n    def __init__(self, scale):\n        self.scale = scale\n    @property\n    def size(self):\n"
         "        return 16 * self.scale\nclass Wide(Tuning):\n    def __init__(self):\n        super().__init__(4)\n"
         "L = [Config({'B': Wide().size})]", [64]),
        ("from collections import defaultdict\nd = defaultdict(list)\nfor b in SIZES:\n    d[b > 16].append(b)\n"
         "L = [Config({'B': b}) for b in d[True]]", [32, 64]),
        ("import re\nL = [Config({'B': int(re.match(r'b(\\d+)', 'b16').group(1))})]", [16]),
        ("L = [Config({'B': 16})]\nassert L, 'nothing to tune'", [16]),
        ("with open_ if False else __import__('contextlib').nullcontext():\n    L = BASE", [16, 32]),
        ("it = iter(SIZES)\nnext(it)\nL = [Config({'B': b}) for b in it]", [32, 64]),
        ("L = [*BASE]\nfor c in L:\n    if c.kwargs['B'] == 16:\n        L.remove(c)", [32]),
        ("N = 16\ndef size():\n    return N\nN = 32\nL = [Config({'B': size()})]", [32]),
        ("def grow():\n    global N\n    N = 64\nN = 16\ngrow()\nL = [Config({'B': N})]", [64]),
        ("def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 8\n        return n\n    return up\n"
         "up = counter()\nup()\nL = [Config({'B': up()})]", [16]),
    ],
)  # fmt: skip
def test_statements_before(configs, before, values):
    assert configs("L", HELPERS + before) == blocks(*values)


def test_the_options_of_a_config(configs):
    assert configs(
        "[Config({'M': 64, 'N': 32}, num_warps=8, num_stages=2), Config({}, 2, 1), Config({}, num_ctas=2, maxnreg=128),"
        " Config({'waves_per_eu': 2}, pre_hook=lambda nargs: nargs['x'].zero_())]"
    ) == ["M=64 N=32 w8 s2", "w2 s1", "w4 s3 ctas2 regs128", "waves_per_eu=2 w4 s3 hook"]


def test_a_list_without_configs_is_tritons_default_config(configs):
    assert configs("[]") == ["w4 s3"]


def test_options_inside_kwargs_stay_there(configs):
    assert configs("[Config({'B': 16, 'num_warps': 8})]") == ["B=16 num_warps=8 w4 s3"]


def test_values_that_are_no_numbers(configs):
    assert configs("[Config({'T': tl.float16, 'ON': True, 'NAME': 'abc', 'NO': None})]") == [
        "T=Dtype(name='fp16') ON=True NAME=abc NO=None w4 s3"
    ]


def test_a_default_that_is_shared_between_calls_is_shared(configs):
    before = """
def add(b, found=[]):
    found.append(Config({"B": b}))
    return found
add(16)
"""
    assert configs("add(32)", before) == blocks(16, 32)


def test_names_are_read_at_the_time_of_the_call(lists):
    found = lists("""
        L = [Config({"B": 16})]

        @triton.autotune(L, [])
        @triton.jit
        def first(x):
            pass

        L = [Config({"B": 32})]

        @triton.autotune(L, [])
        @triton.jit
        def second(x):
            pass
    """)
    assert found == {"first": blocks(16), "second": blocks(32)}
