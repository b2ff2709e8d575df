"""SMC409: a list of configs that another module changes in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings

LIST = "import triton\n\nCONFIGS = [triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})]\n"
KERNEL = """

@triton.autotune(configs={name}, key=["n"])
@triton.jit
def {kernel}(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0)
"""
HEAD = "import triton\nimport triton.language as tl\n"


def kernel(kernel_name: str, name: str = "CONFIGS") -> str:
    return KERNEL.format(kernel=kernel_name, name=name)


def said(folder: Path, files: dict[str, str]) -> list[str]:
    package = folder / "pkg"
    package.mkdir()
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).write_text(text, encoding="utf-8")
    report = pipeline.sites([str(folder)], Settings(targets=("sm_90",), cache=False))
    return [finding.message for finding in report.findings if finding.rule == "SMC409"]


@pytest.mark.parametrize(
    "change",
    [
        "from pkg.shared import CONFIGS\n\nCONFIGS += [triton.Config({'BLOCK': 256})]\n",
        "from .shared import CONFIGS as listed\n\nlisted.append(triton.Config({'BLOCK': 256}))\n",
        "from . import shared\n\nfor block in (256, 512):\n    shared.CONFIGS.extend([triton.Config({'BLOCK': block})])\n",
        "import pkg.shared as shared\n\nshared.CONFIGS.insert(0, triton.Config({'BLOCK': 32}))\n",
    ],
    ids=["+=", "append under another name", "extend in a loop", "insert"],
)
def test_a_change_in_another_module_is_reported_for_those_who_share_the_list(tmp_path: Path, change: str) -> None:
    files = {
        "shared.py": LIST,
        "plain.py": HEAD + "from pkg.shared import CONFIGS\n" + kernel("plain"),
        "more.py": HEAD + change + kernel("more", "[triton.Config({'BLOCK': 16})]"),
    }
    line = 1 + next(i for i, text in enumerate(files["more.py"].splitlines()) if "BLOCK': " in text)
    assert said(tmp_path, files) == [
        f"CONFIGS, the list of configs of plain, is changed in place by another module (more.py:{line}): "
        "whether that is imported decides which configs are tried"
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"more.py": HEAD + "from pkg.shared import CONFIGS\n\nCONFIGS = CONFIGS + [1]\n" + kernel("more")},
        {"more.py": HEAD + "from pkg.shared import CONFIGS\n\nMINE = list(CONFIGS)\nMINE += [1]\n" + kernel("more")},
        {
            "more.py": HEAD + "from pkg.other import CONFIGS\n\nCONFIGS += [1]\n",
            "other.py": "CONFIGS = []  # triton tune\n",
        },
        {"plain.py": HEAD + "import pkg.more\nfrom pkg.shared import CONFIGS\n" + kernel("plain")},
        {"shared.py": LIST + "CONFIGS += [triton.Config({'BLOCK': 256})]\n"},
    ],
    ids=["a new list", "a copy", "another list", "the changing module is always imported", "where the list is made"],
)
def test_what_every_order_of_imports_gives_is_left_alone(tmp_path: Path, files: dict[str, str]) -> None:
    usual = {
        "shared.py": LIST,
        "plain.py": HEAD + "from pkg.shared import CONFIGS\n" + kernel("plain"),
    }
    if "plain.py" in files:
        usual["more.py"] = HEAD + "from pkg.shared import CONFIGS\n\nCONFIGS += [1]\n" + kernel("more", "[]")
    assert said(tmp_path, {**usual, **files}) == []
