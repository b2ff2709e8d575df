"""Source that would take for ever, fill the memory or nest without end costs seconds at most, and says why it is not known."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from listing import PREAMBLE, Package, blocks

SECONDS = 10
KILOBYTES = 500_000
TUNED = '\n@triton.autotune(L, ["x"])\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n'

BOMBS = {
    "a huge range": "L = [Config({'B': 16}) for _ in range(10 ** 12)]",
    "a huge range of ranges": "L = [Config({'B': 16}) for _ in range(10**4) for _ in range(10**4) for _ in range(10**4)]",
    "a huge product": "import itertools\nL = [Config({'B': 16}) for _ in itertools.product(range(100), repeat=20)]",
    "permutations": "import itertools\nL = [Config({'B': len(p)}) for p in itertools.permutations(range(30))]",
    "a tower of powers": "L = [Config({'B': 10 ** 10 ** 8})]",
    "a shift": "L = [Config({'B': 1 << 10 ** 10})]",
    "pow": "L = [Config({'B': pow(10, 10 ** 9)})]",
    "factorial": "import math\nL = [Config({'B': math.factorial(10 ** 7)})]",
    "repeated squaring": "n = 7\nfor _ in range(60):\n    n = n * n\nL = [Config({'B': n})]",
    "a long text": "L = [Config({'B': 'x' * 10 ** 10})]",
    "a doubled text": "t = 'x'\nfor _ in range(60):\n    t += t\nL = [Config({'B': t})]",
    "a doubled list": "t = [1]\nfor _ in range(60):\n    t += t\nL = [Config({'B': len(t)})]",
    "a wide format": "L = [Config({'B': '%999999999d' % 1})]",
    "a wide format field": "L = [Config({'B': f'{1:999999999d}'})]",
    "a wide str.format": "L = [Config({'B': '{:999999999d}'.format(1)})]",
    "a wide zfill": "L = [Config({'B': '1'.zfill(10 ** 9)})]",
    "replaced texts": "t = 'a' * 90000\nL = [Config({'B': t.replace('a', t)})]",
    "joined texts": "t = 'a' * 90000\nL = [Config({'B': t.join([t] * 90000)})]",
    "expanded tabs": "L = [Config({'B': ('\\t' * 90000).expandtabs(90000)})]",
    "many long texts": "L = [Config({'B': len(['x' * 90000 for _ in range(90000)])})]",
    "many long numbers": "L = [Config({'B': len([1 << 6000000 for _ in range(90000)])})]",
    "a formatted list of texts": "t = 'a' * 90000\nL = [Config({'B': '%s' * 20000 % ((t,) * 20000)})]",
    "bytes": "L = [Config({'B': len(bytes(10 ** 11))})]",
    "an endless loop": "n = 0\nwhile True:\n    n += 1\nL = [Config({'B': n})]",
    "an endless generator": "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\nL = [Config({'B': n}) for n in count()]",
    "a list that grows while it is read": "t = [1]\nfor x in t:\n    t.append(x)\nL = [Config({'B': len(t)})]",
    "recursion": "def f(n):\n    return f(n + 1)\nL = [Config({'B': f(0)})]",
    "doubling recursion": "def f(n):\n    return f(n - 1) + f(n - 1) if n else 1\nL = [Config({'B': f(40)})]",
    "mutual recursion": "def f(n):\n    return g(n)\ndef g(n):\n    return f(n)\nL = [Config({'B': f(0)})]",
    "a property that reads itself": "class A:\n    @property\n    def p(self):\n        return self.p\nL = [Config({'B': A().p})]",
    "a list in itself": "t = []\nt.append(t)\nL = [Config({'B': str(t)})]",
    "a list in itself, compared": "t = []\nt.append(t)\nu = []\nu.append(u)\nL = [Config({'B': t == u})]",
    "a config of itself": "t = []\nt.append(t)\nL = [Config({'B': t})]",
    "a copy of itself": "import copy\nt = []\nt.append(t)\nL = [Config({'B': len(copy.deepcopy(t))})]",
    "many unknown conditions": "import somewhere\nL = [Config({'B': 1})]\n"
    + "".join(f"if somewhere.c{i}:\n    L.append(Config({{'B': {i}}}))\n" for i in range(60)),
    "a bad pattern": "import re\nL = [Config({'B': bool(re.match('(a+)+$', 'a' * 40 + 'b'))})]",
    "another bad pattern": "import re\nL = [Config({'B': bool(re.match('(a|aa)+$', 'a' * 60 + 'b'))})]",
    "deep brackets": "L = " + "[" * 150 + "]" * 150,
    "deep lists made in a loop": "t = []\nfor _ in range(50000):\n    t = [t]\nL = [Config({'B': t})]",
}  # fmt: skip


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb(lists, text):
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = lists(text + TUNED)["kernel"]
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < KILOBYTES
    assert isinstance(found, str)
    assert found


def test_other_sites_of_the_file_stay_known(lists):
    found = lists(f"""{BOMBS["doubling recursion"]}{TUNED}

@triton.autotune([Config({{"B": 16}})], ["x"])
@triton.jit
def other(x, B: tl.constexpr):
    pass
""")
    assert found["other"] == blocks(16)


def test_modules_that_import_each_other(package):
    files = {f"m{i}.py": f"from m{(i + 1) % 30} import L\n" for i in range(30)}
    found = package({**files, "kernels.py": "from m0 import L\n" + TUNED}).lists()
    assert isinstance(found["kernel"], str)


def test_a_long_chain_of_modules(package):
    files = {f"m{i}.py": f"from m{i + 1} import L\n" for i in range(200)}
    files["m200.py"] = "L = [Config({'B': 16})]\n"
    assert package({**files, "kernels.py": "from m0 import L\n" + TUNED}).lists() == {"kernel": blocks(16)}


def test_a_folder_that_links_to_itself(tmp_path):
    root = tmp_path / "src"
    root.mkdir()
    (root / "again").symlink_to(root)
    (root / "dead.py").symlink_to(root / "nowhere.py")
    assert Package(root, {"kernels.py": "L = [Config({'B': 16})]" + TUNED}).lists() == {"kernel": blocks(16)}


def test_a_kernel_that_is_nested_too_deeply_to_be_parsed(package):
    reading = package({
        "deep.py": "L = " + "(" * 5000 + "1" + ")" * 5000 + TUNED,
        "fine.py": "L = [Config({'B': 16})]" + TUNED,
    }).read(("sm_90",))  # fmt: skip
    assert [site.kernel_name for site in reading.sites if site.position.path.endswith("fine.py")] == ["kernel"]
    assert [Path(problem.position.path).name for problem in reading.problems] == ["deep.py"]
    assert "Python cannot parse the file" in reading.problems[0].message


MUTATIONS = ["", "(", ")", "]", ":", "'''", "\\", "\x00", "lambda", "yield", "@", "\n", "    ", "**", "async ", "=", "\ufeff", "#"]  # fmt: skip
VICTIM = """
import torch
SIZES = [16, 32]
def make(n=2, *, scale=1):
    found = []
    for size in SIZES[:n]:
        found.append(Config({"B": size * scale}, num_warps=4 if size < 32 else 8))
    return found
if torch.version.hip:
    SIZES += [64]
@triton.heuristics({"E": lambda args: args["x"] > 0})
@triton.autotune(configs=make(scale=2) + [Config({"B": b}) for b in SIZES if b != 16], key=["x"])
@triton.jit
def kernel(x, B: tl.constexpr, E: tl.constexpr):
    tl.store(x, B)
"""


def _mutated(seed):
    import random

    chance = random.Random(seed)
    text = VICTIM
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:at] + chance.choice(MUTATIONS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randint(1, 12) :]
        elif kind == 2:
            end = at + chance.randint(1, 40)
            text = text[:at] + text[at:end] * 2 + text[end:]
        else:
            words = [w for w in ("SIZES", "make", "kernel", "found", "size", "Config", "triton", "n") if w in text]
            text = text.replace(chance.choice(words), chance.choice(words), 1) if words else text
    return text


def _survives(root, seeds):
    for seed in seeds:
        started = time.process_time()
        path = root / "kernels.py"
        path.write_text(PREAMBLE + _mutated(seed), encoding="utf-8")
        reading = Package(root, {}).read(("sm_90",))
        assert time.process_time() - started < SECONDS, f"seed {seed}"
        assert not [p for p in reading.problems if "internal error" in p.message], f"seed {seed}"


def test_mutated_files(tmp_path):
    _survives(tmp_path, range(80))


@pytest.mark.slow
def test_many_mutated_files(tmp_path):
    _survives(tmp_path, range(1_000, 6_000))
