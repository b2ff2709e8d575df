"""Mutated kernels: whatever stands in a file, it has sites, problems or nothing; never a traceback, never a hang."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.report.json_report import render
from smemcheck.rules.example import needs

FIXTURES = sorted(path for path in (Path(__file__).parents[2] / "fixtures").glob("*.py") if path.stat().st_size > 200)
SOURCES = [path.read_text() for path in FIXTURES]
SECONDS = 60  # for one file, whatever else the machine does; ten are promised on an idle one

PIECES = st.sampled_from(
    [
        "(", ")", "[", "]", "{", "}", ":", ",", ".", "=", "*", "**", "@", "\n", "    ", "\t", "\\\n", "'", '"', '"""', "#", "\x00", "\f",
        "lambda: ", "yield ", "await ", "async ", "return ", "del ", "global ", "nonlocal ", "import ", "from . import *\n", "pass\n",
        "None", "True", "...", "-1", "0", "10**100", "1e999", "float('nan')", "b''", "f'{x!r:>{y}}'", "\u00e9", "\U0001f600", "\ud800",
        "triton.Config({})", "triton.jit", "triton.autotune", "tl.constexpr", "configs=", "key=", "range(10**9)", "unknown()", "*unknown",
        "**unknown", "[x for x in ", "if ", "else ", " and ", " or ", "not ", ":= ", "match x:\n    case _: ", "while True: ", "try: ",
        "except: ", "with x: ", "class A: ", "def f(): ", "raise ", "assert ", "print(", "exec(", "__import__('os')", "self.", "super().",
    ]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A fixture with pieces put in, taken out, doubled, or with lines in another order."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 60))
        kind = draw(st.sampled_from(("insert", "remove", "replace", "double", "lines", "cut", "indent")))
        if kind == "insert":
            text = text[:at] + draw(PIECES) + text[at:]
        elif kind == "remove":
            text = text[:at] + text[at + length :]
        elif kind == "replace":
            text = text[:at] + draw(PIECES) + text[at + length :]
        elif kind == "double":
            text = text[: at + length] + text[at:]
        elif kind == "cut":
            text = text[:at]
        else:
            lines = text.split("\n")
            first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            if kind == "lines":
                lines[first], lines[second] = lines[second], lines[first]
            else:
                lines[first] = draw(st.sampled_from((" ", "    ", "\t"))) + lines[first]
            text = "\n".join(lines)
    return text


def judge(folder: Path, text: str) -> None:
    path = folder / "kernels.py"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    started = time.monotonic()
    report = pipeline.check([str(path)], Settings(targets=("sm_90",), cache=False), lower=answers)
    assert "".join(render(report))
    assert time.monotonic() - started < SECONDS
    said = [problem.message for problem in report.problems] + [
        result.verdict.message or "" for result in report.results
    ]
    assert not [message for message in said if "internal error" in message]


def answers(jobs):
    yield from ((index, needs(1_024)) for index, _ in enumerate(jobs))


_FEW = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


def test_a_decorator_whose_function_is_gone(folder: Path) -> None:
    text = """
import triton
import triton.language as tl

CONFIGS = [triton.Config({}, num_warps=4)]

@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))

@triton.autotune(configs=CONFIGS, key=["n"])
    y = torch.empty_like(x)
    copy[(1,)](x, y, BLOCK=64)
"""
    judge(folder, text)


@_FEW
@given(text=mutated())
def test_a_mutated_fixture(folder: Path, text: str) -> None:
    judge(folder, text)


@_FEW
@given(text=st.text(st.characters(codec="utf-8"), max_size=200))
def test_any_text_behind_an_import(folder: Path, text: str) -> None:
    judge(folder, f"import triton  # autotune\n{text}")


@pytest.mark.slow
@settings(_FEW, max_examples=2_000, derandomize=False)
@given(text=mutated())
def test_many_mutated_fixtures(folder: Path, text: str) -> None:
    judge(folder, text)
