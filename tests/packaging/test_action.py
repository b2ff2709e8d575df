"""The GitHub Action's steps, run as the runner would run them: bash with the inputs in the environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
KERNEL = """\
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def outer(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + rows[None, :])
    tl.store(y_ptr + rows[:, None] * BLOCK + rows[None, :], tl.dot(x, x))
"""


def step(index: int, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run one step: expressions of its ``env`` are replaced as the runner replaces them."""
    given = {name: spec["default"] for name, spec in ACTION["inputs"].items()} | inputs
    definition = ACTION["runs"]["steps"][index]

    def value(text: str) -> str:
        text = text.replace("${{ github.action_path }}", str(ROOT))
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: given[match[1]], text)

    environment = {
        **os.environ,
        **{name: value(text) for name, text in definition["env"].items()},
        "RUNNER_TEMP": str(folder / "runner"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", definition["run"]]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_check_annotates_and_summarises(tmp_path: Path) -> None:
    """The installed program stands in for the one that the first step would install."""
    pytest.importorskip("triton", reason="there is no Triton here, so no config is judged")
    (tmp_path / "kernel.py").write_text(KERNEL)
    programs = tmp_path / "runner" / "smemcheck" / "bin"
    programs.mkdir(parents=True)
    (programs / "smemcheck").write_text(f'#!/bin/sh\nexec {sys.executable} -m smemcheck "$@"\n')
    (programs / "smemcheck").chmod(0o755)
    found = step(1, tmp_path, paths="kernel.py", arch="sm_120 sm_90", sarif="out.sarif", args="--ignore SMC302")
    assert found.returncode == 1, found.stderr
    [line] = found.stdout.splitlines()
    assert line.startswith("::error file=kernel.py,line=5,col=57,title=SMC101 shared-memory-exceeded::outer: BLOCK=256")
    assert (tmp_path / "summary.md").read_text().startswith("## smemcheck")
    assert '"2.1.0"' in (tmp_path / "out.sarif").read_text()
    assert step(1, tmp_path, paths="kernel.py", arch="sm_90").returncode == 0


@pytest.mark.slow
def test_the_installation(tmp_path: Path) -> None:
    installed = step(0, tmp_path)
    assert installed.returncode == 0, installed.stderr
    version = subprocess.run(
        [tmp_path / "runner" / "smemcheck" / "bin" / "smemcheck", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.startswith("smemcheck ")


def test_inputs_reach_the_shell_as_variables_only() -> None:
    """An expression inside a script would let the text of a pull request become a command."""
    assert all("${{" not in definition["run"] for definition in ACTION["runs"]["steps"])
