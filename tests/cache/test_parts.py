"""One file changed: what the others' kernels say is read back, and the report is the one that a run from nothing gives."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Report
from smemcheck.report.json_report import document

_TICK = 0.05  # s, longer than the file system's clock stands still

COPY = """
import triton
import triton.language as tl
from pkg.lists import {blocks}

@triton.autotune([triton.Config({{"BLOCK": block}}) for block in {blocks}], key=[])
@triton.jit
def {name}(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

def run_{name}(x):
    import torch
    y = torch.empty_like(x)
    {name}[(1,)](x, y, x.numel())
    return y
"""

PLAIN = """
import torch
import triton
import triton.language as tl

@triton.jit
def plain(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
"""

FILES = {
    "__init__.py": "",
    "lists.py": "FIRST = [64]\nSECOND = [64, 128]\n",
    "first.py": COPY.format(name="first", blocks="FIRST"),
    "plain.py": PLAIN,
    "second.py": COPY.format(name="second", blocks="SECOND"),
    "callers.py": "import torch\nfrom pkg.second import run_second\n\ndef call():\n"
    "    return run_second(torch.empty(1024, dtype=torch.bfloat16))\n",
    "unrelated.py": "import torch\nVALUE = 1\n",
}


@pytest.fixture
def package(laid_out: Callable[[Mapping[str, str]], Path]) -> Path:
    return laid_out(FILES)


def run(package: Path, cache: bool = True, recorded: tuple[str, ...] = ()) -> dict:
    settings = Settings(
        targets=("sm_90",),
        jobs=1,
        cache=cache,
        cache_directory=str(package.parents[1] / "cache"),
        specializations=recorded,
    )
    report: Report = pipeline.check([str(package)], settings)
    assert report.results
    said = document(report)
    for result in said["results"]:
        result.pop("cached", None)
    return said


def edited(package: Path, **texts: str | None) -> None:
    for name, text in texts.items():
        path = package / f"{name}.py"
        path.unlink() if text is None else path.write_text(text)
    time.sleep(_TICK)


LONGER_LIST = FILES["lists.py"].replace("SECOND = [64, 128]", "SECOND = [64, 128, 256]")
LAUNCH = "import torch\nfrom pkg.plain import plain\n\ndef launch():\n    plain[(1,)](torch.empty(64), BLOCK=64)\n"
EDITS = {
    "a kernel": ({"first": FILES["first.py"].replace("FIRST]", "[32, *FIRST]]")}, {"first.py"}, {"second.py"}),
    "a list that kernels import": ({"lists": LONGER_LIST}, {"second.py"}, {"first.py", "plain.py"}),
    "a caller": ({"callers": FILES["callers.py"].replace("bfloat16", "float32")}, {"second.py"}, {"first.py"}),
    "a new launch": ({"launches": LAUNCH}, {"plain.py", "launches.py"}, {"first.py", "second.py"}),
    "a caller goes": ({"callers": None}, {"second.py"}, {"first.py"}),
    "nothing that matters": ({"unrelated": "import torch\nVALUE = 2\n"}, {"unrelated.py"}, {"first.py", "second.py"}),
    "a file of the same name": ({"FIRST": "import torch\n"}, set(), set()),
    "a kernel goes": ({"first": None}, set(), {"second.py"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_after_a_change(edit, package, read):
    texts, again, kept = EDITS[edit]
    run(package)
    edited(package, **texts)
    read.clear()
    incremental = run(package)
    assert again <= set(read)
    assert kept.isdisjoint(read)
    assert incremental == run(package, cache=False)


def line(kernel: str, file: str, block: int, *pointers: str) -> str:
    signature = {**dict.fromkeys(pointers, "*fp16"), "BLOCK": "constexpr"} | ({"n": "i32"} if "y" in pointers else {})
    config = {"kwargs": {}, "num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
    if "y" in pointers:
        config["kwargs"] = {"BLOCK": block}
    constexprs = {} if "y" in pointers else {"BLOCK": block}
    path = f"/elsewhere/pkg/{file}.py"
    return json.dumps(
        {"kernel": kernel, "path": path, "signature": signature, "constexprs": constexprs, "config": config}
    )


LINES = [
    line("second", "second", 32, "x", "y"),
    line("plain", "plain", 16, "x"),
    line("first", "first", 64, "x", "y"),
    line("nowhere", "second", 16, "x"),
    line("plain", "plain", 32, "x"),
    line("second", "second", 64, "x", "y"),
    line("third", "third", 64, "x", "y"),
]
THIRD = COPY.format(name="third", blocks="FIRST")
RECORDED_EDITS = {
    "a kernel": (EDITS["a kernel"][0], {"first.py"}, {"second.py", "plain.py"}),
    "the kernel of a line between others": ({"plain": PLAIN + "# changed\n"}, {"plain.py"}, {"first.py", "second.py"}),
    "a list that kernels import": EDITS["a list that kernels import"],
    "a kernel goes": EDITS["a kernel goes"],
    "a kernel comes for a line that had none": ({"third": THIRD}, {"third.py"}, {"first.py", "plain.py"}),
    "a second kernel of a name": ({"third": PLAIN}, {"plain.py", "third.py"}, {"first.py"}),
    "a kernel moves": ({"plain": "", "third": PLAIN}, {"plain.py", "third.py"}, {"first.py"}),
    "a kernel is renamed": ({"first": THIRD}, {"first.py"}, {"plain.py"}),
    "nothing that matters": EDITS["nothing that matters"],
}


@pytest.mark.parametrize("edit", RECORDED_EDITS)
def test_after_a_change_under_recorded_lines(edit, package, read):
    texts, again, kept = RECORDED_EDITS[edit]
    recorded = package.parent / "seen.jsonl"
    recorded.write_text("\n".join(LINES) + "\n")
    time.sleep(_TICK)
    first = run(package, recorded=(str(recorded),))
    assert {result["verdict"] for result in first["results"]} >= {"fits", "unknown"}
    edited(package, **texts)
    read.clear()
    incremental = run(package, recorded=(str(recorded),))
    assert again <= set(read)
    assert kept.isdisjoint(read)
    assert incremental == run(package, cache=False, recorded=(str(recorded),))


def test_kernels_of_one_name_are_read_again_together(package, read):
    """Which of them a line is about depends on all of them."""
    recorded = package.parent / "seen.jsonl"
    recorded.write_text("\n".join(LINES) + "\n")
    (package / "third.py").write_text(PLAIN)
    time.sleep(_TICK)
    run(package, recorded=(str(recorded),))
    edited(package, third="import torch\n")
    read.clear()
    incremental = run(package, recorded=(str(recorded),))
    assert {"third.py", "plain.py"} <= set(read)
    assert "first.py" not in read
    assert incremental == run(package, cache=False, recorded=(str(recorded),))


def test_other_lines_are_another_question(package, read):
    recorded = package.parent / "seen.jsonl"
    recorded.write_text("\n".join(LINES) + "\n")
    time.sleep(_TICK)
    run(package, recorded=(str(recorded),))
    recorded.write_text("\n".join(LINES[1:]) + "\n")
    time.sleep(_TICK)
    read.clear()
    incremental = run(package, recorded=(str(recorded),))
    assert {"first.py", "second.py", "plain.py"} <= set(read)
    assert incremental == run(package, cache=False, recorded=(str(recorded),))


TEST = "import torch\nfrom pkg.plain import plain\n\ndef test_plain():\n    plain[(1,)](torch.empty(64), BLOCK={})\n"


def test_tests_beside_the_package_are_watched(package, read):
    top = package.parent
    (top / "pyproject.toml").write_text("")
    run(package)
    (top / "tests").mkdir()
    for number, block in enumerate((32, 16)):  # a new folder, then a changed file
        (top / "tests" / "test_plain.py").write_text(TEST.format(block))
        time.sleep(_TICK)
        read.clear()
        incremental = run(package)
        assert "plain.py" in read
        assert number == 0 or "first.py" not in read
        assert incremental == run(package, cache=False)


def test_a_change_after_a_change(package, read):
    run(package)
    edited(package, first=FILES["first.py"].replace("FIRST]", "[32, *FIRST]]"))
    run(package)
    edited(package, callers=FILES["callers.py"].replace("bfloat16", "float32"))
    read.clear()
    incremental = run(package)
    assert "second.py" in read
    assert "first.py" not in read
    assert incremental == run(package, cache=False)


def test_what_a_kept_part_rests_on_is_still_watched(package, read):
    outside = package.parent / "blocks.py"
    outside.write_text("OUTSIDE = [64]\n")
    (package / "second.py").write_text(COPY.format(name="second", blocks="OUTSIDE").replace("pkg.lists", "blocks"))
    time.sleep(_TICK)
    run(package)
    edited(package, first=FILES["first.py"].replace("FIRST]", "[32, *FIRST]]"))
    run(package)
    outside.write_text("OUTSIDE = [64, 128]\n")
    read.clear()
    incremental = run(package)
    assert "second.py" in read
    assert "first.py" not in read
    assert incremental == run(package, cache=False)


def test_a_package_that_becomes_another_is_read_as_a_whole(package, read):
    (package / "nested").mkdir()
    (package / "nested" / "more.py").write_text(FILES["first.py"])
    run(package)
    (package / "nested" / "__init__.py").write_text("")
    read.clear()
    incremental = run(package)
    assert {"first.py", "second.py", "more.py"} <= set(read)
    assert incremental == run(package, cache=False)


def test_recorded_specializations_belong_to_all_kernels(package, read):
    recorded = package.parents[1] / "recorded.jsonl"
    recorded.write_text("")
    settings = Settings(
        targets=("sm_90",),
        jobs=1,
        cache=True,
        cache_directory=str(package.parents[1] / "cache"),
        specializations=(str(recorded),),
    )
    pipeline.check([str(package)], settings)
    edited(package, first=FILES["first.py"].replace("FIRST]", "[32, *FIRST]]"))
    read.clear()
    pipeline.check([str(package)], settings)
    assert "second.py" in read
