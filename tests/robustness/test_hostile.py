"""Hostile source does not run: each file writes a file when anything of it is executed, and none is ever written."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from smemcheck import cli

KERNEL = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0)
"""

PLACES = {
    "module": "boom()" + KERNEL,
    "default": """
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr = boom()):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "annotation": """
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x: boom(), BLOCK: tl.constexpr) -> boom():
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "annotation as text": """
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x: "__import__('pathlib').Path('ran').touch()", BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "decorator": """
        @boom()
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        @boom
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "argument of the autotuner": """
        @triton.autotune([triton.Config({"BLOCK": boom() or 64})], key=[boom()], prune_configs_by=boom(), do_bench=boom())
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "constexpr_function": """
        @triton.constexpr_function
        def size(n):
            boom()
            return n
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, size(BLOCK)), 0)
        """,
    "plain function that a kernel calls": """
        def size(n):
            boom()
            return n
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.static_print(size(BLOCK))
            tl.store(x + tl.arange(0, size(BLOCK)), 0)
        """,
    "class body and metaclass": """
        class Meta(type):
            def __new__(cls, *arguments):
                boom()
                return super().__new__(cls, *arguments)
        class Sizes(metaclass=Meta):
            boom()
            BLOCK = 64
            def __class_getitem__(cls, item):
                boom()
        @triton.autotune([triton.Config({"BLOCK": Sizes.BLOCK})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), Sizes.BLOCK)
        """,
    "f-string": """
        SIZE = f"{boom()!r:{boom()}}"
        @triton.autotune([triton.Config({"BLOCK": 64, "NAME": f"{boom()}"})], key=[f"{boom()}"])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr, NAME: tl.constexpr):
            tl.device_print(f"{boom()}")
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "__getattr__ of a module": """
        def __getattr__(name):
            boom()
        import sys
        @triton.autotune([triton.Config({"BLOCK": sys.modules[__name__].anything})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "__getattr__ and operators of an object": """
        class Sizes:
            def __getattr__(self, name): boom()
            def __int__(self): boom()
            def __index__(self): boom()
            def __hash__(self): boom()
            def __eq__(self, other): boom()
            def __repr__(self): boom()
            def __del__(self): boom()
        sizes = Sizes()
        @triton.autotune([triton.Config({"BLOCK": sizes.block, sizes: 1}, num_warps=sizes)], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), sizes)
        """,
    "eval, exec and import": """
        eval("boom()")
        exec("boom()")
        getattr(__builtins__, "exec")("boom()")
        __import__("harm")
        import harm
        SIZE = eval("boom() or 64")
        @triton.autotune([triton.Config({"BLOCK": eval("boom() or 64")})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            exec("boom()")
            __import__("harm")
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "heuristic and hooks": """
        @triton.autotune([triton.Config({"BLOCK": 64}, pre_hook=boom)], key=[], pre_hook=boom, post_hook=boom)
        @triton.heuristics({"EVEN": lambda args: boom() or True})
        @triton.jit
        def fill(x, BLOCK: tl.constexpr, EVEN: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "subprocess and files": """
        import os, subprocess, pathlib, pickle
        os.system("touch ran")
        subprocess.run(["touch", "ran"])
        pathlib.Path("ran").write_text("")
        open("ran", "w").write("")
        os.environ["SIZE"] = str(os.popen("touch ran").read())
        @triton.autotune([triton.Config({"BLOCK": int(os.popen("touch ran; echo 64").read())})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "assertion in the kernel": """
        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.static_assert(boom() or True)
            tl.static_assert((lambda: boom())() or True)
            tl.store(x + tl.arange(0, BLOCK), [boom() for _ in range(3)][0])
        """,
}

HEAD = """
import pathlib
import triton
import triton.language as tl

def boom(*arguments, **keywords):
    pathlib.Path(__file__).with_name("ran").touch()
    pathlib.Path("ran").touch()
"""


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> dict:
    monkeypatch.chdir(folder)
    arguments = [
        "check",
        str(folder),
        "--arch",
        "sm_90",
        "--no-cache",
        "--jobs",
        "1",
        "--exit-zero",
        "--format",
        "json",
    ]
    ran = CliRunner().invoke(cli.cli, [*arguments, *more])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def answered(report: dict) -> bool:
    """Every site has results, or a reason why there are none."""
    with_results = {result["site"] for result in report["results"]}
    return all(index in with_results or site["unknown"] for index, site in enumerate(report["sites"]))


@pytest.mark.parametrize("place", PLACES)
def test_nothing_of_the_file_runs(tmp_path: Path, monkeypatch, place: str) -> None:
    (tmp_path / "kernels.py").write_text(HEAD + textwrap.dedent(PLACES[place]))
    (tmp_path / "harm.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    report = check(tmp_path, monkeypatch)
    assert not (tmp_path / "ran").exists()
    assert [site["kernel"] for site in report["sites"]] == ["fill"]
    assert answered(report)


@pytest.mark.parametrize(
    "name", ["triton.py", "triton/__init__.py", "math.py", "json.py", "torch.py", "sitecustomize.py", "copy.py"]
)
def test_a_file_that_shadows_a_library_is_not_imported(tmp_path: Path, monkeypatch, name: str) -> None:
    """The user's folder is the current one, and holds modules with the names that smemcheck and its worker import."""
    shadow = tmp_path / name
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    (tmp_path / "kernels.py").write_text(HEAD + KERNEL)
    report = check(tmp_path, monkeypatch)
    assert not list(tmp_path.rglob("ran"))
    assert answered(report)


def test_a_recorded_line_runs_nothing_either(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "kernels.py").write_text(
        HEAD + textwrap.dedent(PLACES["constexpr_function"]) + "\nclass Holder:\n    boom()\n"
    )
    line = {
        "kernel": "fill",
        "path": "kernels.py",
        "signature": {"x": "*fp32", "BLOCK": "constexpr"},
        "constexprs": {"BLOCK": {"repr": "boom()"}},
        "config": {"num_warps": 4},
    }
    (tmp_path / "seen.jsonl").write_text(json.dumps(line) + "\n")
    report = check(tmp_path, monkeypatch, "--specializations", "seen.jsonl")
    assert not (tmp_path / "ran").exists()
    (result,) = report["results"]
    assert result["verdict"] == "unknown"
    assert "the recorded value boom() is an object that no file can hold" in result["message"]
