"""Where knowledge ends, the answer says why and where; what can be known beside it stays known."""

from __future__ import annotations

import pytest
from listing import blocks, shown

TUNED = '@triton.autotune({}, ["x"])\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n'


def test_the_line_of_each_config(package):
    site = package({"kernels.py": """
        CONFIGS = [
            Config({"B": 16}),
            Config({"B": 32}),
        ]
        CONFIGS += [
            Config({"B": b})
            for b in (64, 128)
        ]

        @triton.autotune(CONFIGS, ["x"])
        @triton.jit
        def kernel(x, B: tl.constexpr):
            pass
    """}).site()  # fmt: skip
    assert [config.position.line for config in site.answers["sm_90"].configs] == [6, 7, 10, 10]


@pytest.mark.parametrize(
    ("before", "written", "reason", "line"),
    [
        ("import somewhere", "[Config({'B': somewhere.size()})]", "the result of somewhere.size() is not known", 5),
        ("import os\nn = os.cpu_count()", "[Config({'B': n})]", "the user's machine is not known", 5),
        ("import random", "random.sample([Config({})], 1)", "the result of random.sample() is not known", 5),
        ("", "[Config({'B': 16}), 3]", "the list of configs holds a int", 5),
        ("", "[Config({'B': 16}, num_warps='many')]", "num_warps of a Config is a str", 5),
        ("", "UNDEFINED", "importing the module raises NameError: name 'UNDEFINED' is not defined", 5),
        ("", "[Config({'B': 1 // 0})]",
         "importing the module raises ZeroDivisionError: integer division or modulo by zero", 5),
        ("", "[Config({'B': 16}, num_wraps=4)]",
         "importing the module raises TypeError: Config.__init__() got an unexpected keyword argument 'num_wraps'", 5),
        ("import time\nT = time.time()", "[Config({'B': 16})] if T > 3 else []", "the list depends on the time is not known", 6),
    ],
)  # fmt: skip
def test_a_reason_and_its_place(package, before, written, reason, line):
    site = package({"kernels.py": f"{before}\n{TUNED.format(written)}"}).site()
    unknown = site.answers["sm_90"].configs
    assert unknown.reason == reason
    assert unknown.position.line == line


def test_one_unknown_list_does_not_hide_another(lists):
    found = lists("""
        from somewhere import sizes

        @triton.autotune([Config({"B": b}) for b in sizes], ["x"])
        @triton.jit
        def one(x, B: tl.constexpr):
            pass

        @triton.autotune([Config({"B": 16})], ["x"])
        @triton.jit
        def two(x, B: tl.constexpr):
            pass
    """)
    assert found == {"one": "the elements of somewhere.sizes are not known", "two": blocks(16)}


@pytest.mark.parametrize(
    "before",
    [
        "L = [Config({'B': 16})]\nif somewhere.fast:\n    X = 1\nelse:\n    X = 2",
        "if somewhere.fast:\n    L = [Config({'B': 16})]\nelse:\n    L = [Config({'B': 16})]",
        "try:\n    import somewhere.more\n    MORE = True\nexcept ImportError:\n    MORE = False\nL = [Config({'B': 16})]",
        "L = [Config({'B': 16 if somewhere.fast is somewhere.slow else 16})]",
        "def pick():\n    if somewhere.fast:\n        print('fast')\n    return [Config({'B': 16})]\nL = pick()",
        "for thing in somewhere.things:\n    Y = thing\nL = [Config({'B': 16})]",
    ],
)
def test_what_does_not_depend_on_it_stays_known(lists, before):
    assert lists(f"import somewhere\n{before}\n{TUNED.format('L')}") == {"kernel": blocks(16)}


@pytest.mark.parametrize(
    "before",
    [
        "L = [Config({'B': 16})]\nif somewhere.fast:\n    L.append(Config({'B': 32}))",
        "L = [Config({'B': 16})]\nfor thing in somewhere.things:\n    L.append(Config({'B': 32}))",
        "L = [Config({'B': 16}) for b in (1, 2) if b in somewhere.sizes]",
        "L = [Config({'B': 16})] if somewhere.fast else [Config({'B': 32})]",
        "try:\n    somewhere.check()\n    L = [Config({'B': 16})]\nexcept Exception:\n    L = [Config({'B': 32})]",
        "L = [Config({'B': 16})]\nL.extend(somewhere.more)",
        "L = [Config({'B': 16})]\nL[somewhere.index] = Config({'B': 32})",
        "L = sorted([Config({'B': 16}), Config({'B': 32})], key=somewhere.rank)",
        "L = [Config({'B': 16})][: somewhere.count]",
        "L = [Config({'B': 16})] * somewhere.count",
        "while somewhere.more():\n    L = [Config({'B': 16})]",
        "D = {'B': 16}\nD.update(somewhere.options)\nL = [Config(D)]",
        "D = {'B': 16, **somewhere.options}\nL = [Config(D)]",
        "L = [Config({'B': 16}, **somewhere.options)]",
        "L = list(filter(somewhere.fits, [Config({'B': 16})]))",
    ],
)
def test_what_depends_on_it_is_unknown(lists, before):
    (found,) = lists(f"import somewhere\n{before}\n{TUNED.format('L')}").values()
    assert isinstance(found, str)


def test_the_key_may_be_unknown_where_the_list_is_not(package):
    site = package({"kernels.py": "from somewhere import KEY\n@triton.autotune([Config({'B': 16})], KEY)\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n"}).site()  # fmt: skip
    assert shown(site.answers["sm_90"].configs) == blocks(16)
    assert site.key.reason == "the elements of somewhere.KEY are not known"
