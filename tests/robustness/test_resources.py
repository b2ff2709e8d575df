"""Source that would take for ever, or all memory: ten seconds a file, and a reason in place of the list."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 10.0
MEMORY = 3 << 30  # bytes of address space that the analyzer may take

HEAD = "import triton\nimport triton.language as tl\nfrom triton import Config\n"
TUNED = """
@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0)
"""

LISTS = {
    "a long comprehension": "CONFIGS = [Config({'BLOCK': 64}) for _ in range(10**12)]",
    "nested comprehensions": "CONFIGS = [Config({'BLOCK': a * b * c}) for a in range(10**6) for b in range(10**6) for c in range(9)]",
    "a repeated list": "CONFIGS = [Config({'BLOCK': 64})] * 10**10",
    "a list that doubles": "CONFIGS = [Config({'BLOCK': 64})]\nfor _ in range(200):\n    CONFIGS += CONFIGS",
    "a list of lists that doubles": "CONFIGS = [1]\nfor _ in range(200):\n    CONFIGS = [CONFIGS, CONFIGS]",
    "an endless loop": "CONFIGS = []\nwhile True:\n    CONFIGS.append(Config({'BLOCK': 64}))",
    "an endless loop that does nothing": "while True:\n    pass\nCONFIGS = []",
    "an endless generator": "import itertools\nCONFIGS = [Config({'BLOCK': n}) for n in itertools.count()]",
    "a long product": "import itertools\nCONFIGS = [Config({'BLOCK': sum(p)}) for p in itertools.product(range(100), repeat=50)]",
    "permutations": "import itertools\nCONFIGS = [Config({'BLOCK': p[0]}) for p in itertools.permutations(range(90))]",
    "a large power": "CONFIGS = [Config({'BLOCK': 10 ** 10 ** 10})]",
    "a power of powers": "N = 3\nfor _ in range(60):\n    N = N ** N\nCONFIGS = [Config({'BLOCK': N})]",
    "a large shift": "CONFIGS = [Config({'BLOCK': 1 << (1 << 60)})]",
    "a large product": "N = 10\nfor _ in range(100):\n    N = N * N\nCONFIGS = [Config({'BLOCK': N})]",
    "a large factorial": "import math\nCONFIGS = [Config({'BLOCK': math.factorial(10**9)})]",
    "a large combination": "import math\nCONFIGS = [Config({'BLOCK': math.comb(10**9, 5 * 10**8)})]",
    "a text that doubles": "S = 'x'\nfor _ in range(100):\n    S = S + S\nCONFIGS = [Config({'BLOCK': len(S)})]",
    "a repeated text": "CONFIGS = [Config({'BLOCK': len('x' * 10**12)})]",
    "a padded text": "CONFIGS = [Config({'BLOCK': len('x'.ljust(10**12))})]",
    "a wide format": "CONFIGS = [Config({'BLOCK': len(f'{1:1000000000000}')})]",
    "an old wide format": "CONFIGS = [Config({'BLOCK': len('%1000000000000d' % 1)})]",
    "a format method": "CONFIGS = [Config({'BLOCK': len('{:1000000000000}'.format(1))})]",
    "replacements that grow": "S = 'aa'\nfor _ in range(60):\n    S = S.replace('a', 'aa')\nCONFIGS = [Config({'BLOCK': len(S)})]",
    "bytes": "CONFIGS = [Config({'BLOCK': len(bytes(10**13))})]",
    "a set of a range": "CONFIGS = [Config({'BLOCK': n}) for n in set(range(10**11))]",
    "a sum": "CONFIGS = [Config({'BLOCK': sum(range(10**13))})]",
    "a sorted range": "CONFIGS = [Config({'BLOCK': sorted(range(10**12))[0]})]",
    "a value in a range of floats": "CONFIGS = [Config({'BLOCK': 64}) if 0.5 in range(10**15) else 0]",
    "a slow regular expression": "import re\nCONFIGS = [Config({'BLOCK': 64})] if not re.match(r'(a+)+$', 'a' * 64 + 'b') else []",
    "a recursive function": "def f(n):\n    return f(n + 1)\nCONFIGS = [Config({'BLOCK': f(0)})]",
    "two functions that call each other": "def f(n):\n    return g(n)\ndef g(n):\n    return f(n)\nCONFIGS = [Config({'BLOCK': f(0)})]",
    "a function that calls itself twice": "def f(n):\n    return f(n - 1) + f(n - 2) if n > 1 else 1\nCONFIGS = [Config({'BLOCK': f(60)})]",
    "a list that holds itself": "A = []\nA.append(A)\nCONFIGS = [Config({'BLOCK': A})]",
    "a table that holds itself": "A = {}\nA['a'] = A\nCONFIGS = [Config(A)]",
    "a name made of itself": "CONFIGS = CONFIGS + CONFIGS",
    "a property that asks itself": (
        "class A:\n    @property\n    def b(self):\n        return self.b\nCONFIGS = [Config({'BLOCK': A().b})]"
    ),
    "an iterator that never ends": (
        "class A:\n    def __iter__(self):\n        return self\n    def __next__(self):\n        return Config({'BLOCK': 64})\n"
        "CONFIGS = list(A())"
    ),
    "many unknown conditions": (
        "import os\nCONFIGS = []\n"
        + "".join(f"if unknown_{n}(): CONFIGS.append(Config({{'BLOCK': {n}}}))\n" for n in range(40))
    ),
}  # fmt: skip


TEXTS = {
    "deep parentheses": HEAD + "CONFIGS = " + "(" * 3000 + "[]" + ")" * 3000 + TUNED,
    "deep lists": HEAD + "CONFIGS = " + "[" * 150 + "]" * 150 + TUNED,
    "deep attributes": HEAD + "CONFIGS = x" + ".y" * 20_000 + TUNED,
    "deep calls": HEAD + "CONFIGS = f" + "()" * 20_000 + TUNED,
    "a long sum": HEAD + "CONFIGS = [Config({'BLOCK': " + " + ".join(["1"] * 20_000) + "})]" + TUNED,
    "a long chain of not": HEAD + "CONFIGS = [Config({'BLOCK': " + "not " * 5_000 + "1})]" + TUNED,
    "deep blocks": HEAD + "".join(" " * n + "if True:\n" for n in range(95)) + " " * 95 + "pass\nCONFIGS = []" + TUNED,
    "a long elif chain": HEAD + "if 0: pass\n" + "elif unknown(): CONFIGS = []\n" * 3_000 + "CONFIGS = []" + TUNED,
    "a long line": HEAD + "A = '" + "x" * 15_000_000 + "'\nCONFIGS = []" + TUNED,
    "a long list": HEAD + "A = [" + "1," * 200_000 + "]\nCONFIGS = [Config({'BLOCK': len(A)})]" + TUNED,
    "many definitions": HEAD + "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(5_000)) + "CONFIGS = [Config({'BLOCK': f0()})]" + TUNED,
    "many decorators": HEAD + "CONFIGS = []\n" + "@unknown\n" * 2_000 + TUNED.strip(),
    "odd line ends": (HEAD + "CONFIGS = []" + TUNED).replace("\n", "\r"),
    "form feeds and nulls": HEAD + "\f\fCONFIGS = []\x00" + TUNED,
    "an open string": HEAD + "CONFIGS = '''" + TUNED,
    "an open bracket": HEAD + "CONFIGS = [" + TUNED,
    "a file of another encoding": "# -*- coding: utf-7 -*-\n" + HEAD + "CONFIGS = []" + TUNED,
    "a large file": HEAD + "CONFIGS = []" + TUNED + "# padding\n" * 2_500_000,
}  # fmt: skip


FILES = {**{name: HEAD + before + TUNED for name, before in LISTS.items()}, **TEXTS}


def test_all_of_them_at_once(tmp_path: Path) -> None:
    """Each file has a site or a problem; none costs another its own."""
    for name, text in FILES.items():
        (tmp_path / f"{name.replace(' ', '_')}.py").write_bytes(text.encode())
    report = _report(tmp_path, files=len(FILES))
    told = {site["path"] for site in report["sites"]} | {finding["path"] for finding in report["findings"]}
    assert {path.name for path in tmp_path.iterdir()} - told == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_ten_seconds_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "kernels.py"
    path.write_bytes(FILES[name].encode())
    report = _report(path)
    assert report["sites"] or any(finding["rule"] == "SMC901" for finding in report["findings"])


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .a import *\n")
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        text = (
            f"from .{other} import *\nfrom .{other} import CONFIGS\nfrom . import {other}\nCONFIGS = {other}.CONFIGS\n"
        )
        (tmp_path / "pkg" / f"{name}.py").write_text(HEAD + text + TUNED)
    assert len(_sites(tmp_path)) == 3


def test_folders_that_hold_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "kernels.py").write_text(HEAD + "from pkg.inner.pkg.inner import nothing\nCONFIGS = []" + TUNED)
    (folder / "inner").symlink_to(tmp_path, target_is_directory=True)
    (folder / "itself.py").symlink_to(folder / "itself.py")
    (folder / "nowhere.py").symlink_to(tmp_path / "missing.py")
    assert [site["kernel"] for site in _sites(tmp_path)] == ["fill"]


def test_things_that_are_no_files(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be read for ever."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "kernels.py").write_text(HEAD + "from pipe import CONFIGS" + TUNED)
    assert [site["kernel"] for site in _sites(tmp_path)] == ["fill"]


def _sites(path: Path) -> list[dict]:
    return _report(path)["sites"]


def _report(path: Path, files: int = 1) -> dict:
    """What ``smemcheck sites`` says, from a process with little memory and time."""
    ran = subprocess.run(
        [sys.executable, "-m", "smemcheck", "sites", str(path), "--arch", "sm_90", "--exit-zero", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=_patience() * files,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert ran.returncode == 0, f"{path.name}: {ran.stderr[-2000:]}"
    assert "Traceback" not in ran.stderr
    return json.loads(ran.stdout)


def _patience() -> float:
    """Ten seconds of a machine that has nothing else to do: more where others wait for the same cores."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return SECONDS * max(1.0, waiting)
