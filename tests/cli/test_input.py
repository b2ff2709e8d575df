"""Files and folders that are not what a user meant to give: what is said, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from smemcheck import cli

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


@pytest.fixture
def run(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(cli.cli, [*arguments, "--arch", "sm_120"], prog_name="smemcheck")

    return invoke


def test_a_file_is_never_imported(run, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    writes = f"open({str(sentinel)!r}, 'w').close()\n"
    code = f"import os\n{writes}{KERNEL}\n    # a comment\n{writes}\n\nclass Hostile:\n    {writes}\n\ndef f(x={writes.strip()}): ...\n"
    (tmp_path / "kernel.py").write_text(code)
    assert run("kernel.py").exit_code in {0, 1}
    assert not sentinel.exists()


def test_the_same_source_is_judged(run, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="there is no Triton here, so no config is judged")
    (tmp_path / "kernel.py").write_text(KERNEL)
    result = run("kernel.py")
    assert result.exit_code == 1
    assert "  BLOCK=256, num_warps=4, num_stages=3   131,072 B pruned\n" in result.stdout
    assert "kernel.py:5:57: SMC101 outer: BLOCK=256, num_warps=4, num_stages=3 needs 131,072 B" in result.stdout
    assert result.stdout.endswith(
        "results on 1 target: 1 fits, 1 pruned; 1 error, 1 warning (Triton " + _triton() + ")\n"
    )


def _triton() -> str:
    import importlib.metadata

    return importlib.metadata.version("triton")


def test_a_syntax_error_costs_that_file_only(run, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import triton  # autotune\n\ndef f(:\n    pass\n")
    (tmp_path / "kernel.py").write_text(KERNEL)
    result = run("sites", ".")
    assert result.exit_code == 0
    assert "kernel.py:7 outer\n" in result.stdout
    assert "broken.py:3:7: SMC901 Python cannot parse the file: " in result.stdout
    assert result.stdout.endswith("2 files, 1 kernel site; 1 warning\n")


def test_a_file_that_is_not_utf8_is_named(run, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# triton autotune\nname = '\xe9t\xe9'\n")
    result = run("sites", "latin.py")
    assert result.exit_code == 0
    assert "latin.py:" in result.stdout
    assert "SMC901" in result.stdout
    assert "utf-8" in result.stdout.casefold()


def test_an_empty_folder_holds_nothing(run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("empty")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "no Python file was found under empty\n", "")


def test_a_folder_without_kernels_is_clean(run, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('hello')\n")
    result = run("plain.py")
    assert (result.exit_code, result.stdout) == (0, "1 file, 0 kernel sites; nothing found\n")


def test_a_file_is_named_in_json_as_the_user_gave_it(run, tmp_path: Path) -> None:
    package = tmp_path / "pkg" / "ops"
    package.mkdir(parents=True)
    (package / "kernel.py").write_text(KERNEL)
    by_folder = json.loads(run("sites", ".", "--format", "json").stdout)
    by_file = json.loads(run("sites", "pkg/ops/kernel.py", "--format", "json").stdout)
    assert by_folder["sites"][0]["path"] == "pkg/ops/kernel.py"
    assert by_file["sites"][0]["path"] == "kernel.py"


def test_recorded_specialisations_that_cannot_be_read_are_one_sentence(run, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "recorded.jsonl").write_text("{}\nnonsense\n")
    result = run("kernel.py", "--specializations", "recorded.jsonl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("smemcheck: recorded.jsonl:1: ")
    assert result.stderr.count("\n") == 1


def test_excluded_and_ignored_files_are_left_out(run, tmp_path: Path) -> None:
    for name in ("kernel.py", "third_party/kernel.py", "build/kernel.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(KERNEL)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n")
    assert run("sites", ".").stdout.endswith("2 files, 2 kernel sites; nothing found\n")
    assert run("sites", ".", "--exclude", "third_party/").stdout.endswith("1 file, 1 kernel site; nothing found\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.smemcheck]\nexclude = ['third_party/']\nrespect-gitignore = false\n"
    )
    assert run("sites", ".").stdout.endswith("2 files, 2 kernel sites; nothing found\n")


def test_per_file_ignores_are_relative_to_pyproject(run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "kernel.py").write_text(KERNEL.replace('key=["n"]', 'key=["num"]'))
    assert "SMC401" in run("sites", "pkg").stdout
    (tmp_path / "pyproject.toml").write_text("[tool.smemcheck.per-file-ignores]\n'pkg/' = ['SMC4']\n")
    assert "SMC401" not in run("sites", "pkg").stdout


def test_kernels_without_an_autotuner_are_listed_when_asked_for(run, tmp_path: Path) -> None:
    launch = "\n\ndef launch(x):\n    plain[(1,)](x, BLOCK=64)\n"
    kernel = "\n\n@triton.jit\ndef plain(x_ptr, BLOCK: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, BLOCK), 0)\n"
    (tmp_path / "kernel.py").write_text(KERNEL + kernel + launch)
    assert "plain (launch)\n" in run("sites", "kernel.py", "--launches").stdout
    without = run("sites", "kernel.py").stdout
    assert "plain" not in without
    assert "kernel.py:7 outer\n" in without
