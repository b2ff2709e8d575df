"""The hook, run by the real pre-commit on a temporary git repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
TOO_LARGE = """\
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def outer(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK + rows[None, :])
    tl.store(y_ptr + rows[:, None] * BLOCK + rows[None, :], tl.dot(x, x))
"""


def git(repository: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, capture_output=True)


def repository(folder: Path, hooks: dict) -> Path:
    folder.mkdir()
    git(folder, "init")
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [hooks]}), encoding="utf-8")
    (folder / "plain.py").write_text("print('no kernel here')\n", encoding="utf-8")
    (folder / "notes.txt").write_text("@triton.autotune in a text file\n", encoding="utf-8")
    git(folder, "add", ".")
    return folder


def pre_commit(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home), "XDG_CACHE_HOME": str(home)},
        check=False,
    )


def check_that_it_stops_the_commit(folder: Path, home: Path) -> None:
    clean = pre_commit(folder, home)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "1 file, 0 kernel sites; nothing found" in clean.stdout
    (folder / "kernel.py").write_text(TOO_LARGE, encoding="utf-8")
    git(folder, "add", "kernel.py")
    stopped = pre_commit(folder, home)
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert "kernel.py:5:" in stopped.stdout
    assert "SMC101" in stopped.stdout


def test_the_hook_runs_once_over_python_files() -> None:
    assert (HOOK["id"], HOOK["types"], HOOK["require_serial"]) == ("smemcheck", ["python"], True)


def test_the_hook_as_a_local_one(tmp_path: Path) -> None:
    """The installed program under the hook's own settings: nothing is downloaded."""
    pytest.importorskip("pre_commit", reason="pre-commit is not installed (pip install -e '.[dev]')")
    pytest.importorskip("triton", reason="there is no Triton here, so no config is judged")
    hook = {**HOOK, "language": "system", "args": ["--arch", "sm_120"]}
    check_that_it_stops_the_commit(repository(tmp_path / "repo", {"repo": "local", "hooks": [hook]}), tmp_path)


@pytest.mark.slow
def test_the_hook_from_its_repository(tmp_path: Path) -> None:
    """As a user has it: pre-commit clones the last commit and installs it, Triton included."""
    pytest.importorskip("pre_commit", reason="pre-commit is not installed (pip install -e '.[dev]')")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode:
        pytest.skip("this is no git checkout, so pre-commit cannot clone it")
    hooks = {
        "repo": str(ROOT),
        "rev": head.stdout.strip(),
        "hooks": [{"id": "smemcheck", "args": ["--arch", "sm_120"]}],
    }
    check_that_it_stops_the_commit(repository(tmp_path / "repo", hooks), tmp_path)
