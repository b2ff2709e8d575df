"""Which Triton a project asks for, as its files say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from smemcheck.source.pins import read_pins

FILES = [
    ("requirements.txt", "numpy\ntriton==3.4.0  # kernels\n", "==3.4.0", 2),
    ("requirements-gpu.txt", "--extra-index-url https://example.org\ntriton >= 3.5, < 3.7 ; sys_platform == 'linux'\n", "<3.7,>=3.5", 2),
    ("requirements.txt", "pytorch-triton==9\ntorch==2.8.0+cu128\n", "==3.4.0", 2),
    ("pyproject.toml", '[project]\nname = "x"\ndependencies = ["triton~=3.6.0"]\n', "~=3.6.0", 3),
    ("pyproject.toml", '[project.optional-dependencies]\ngpu = ["torch==2.9.1"]\n', "==3.5.1", 2),
    ("pyproject.toml", '[dependency-groups]\ntest = [{include-group = "a"}, "triton==3.6.0"]\n', "==3.6.0", 2),
    ("pyproject.toml", '[tool.poetry.dependencies]\ntriton = "3.5.1"\n', "==3.5.1", 2),
    ("uv.lock", '[[package]]\nname = "triton"\nversion = "3.7.1"\n', "==3.7.1", 2),
    ("poetry.lock", '[[package]]\nname = "torch"\nversion = "2.6.0"\n', "==3.2.0", 2),
    ("requirements.txt", "torch==2.12.1\n", "==3.7.1", 1),
    ("requirements.txt", "torch==2.14.1\n", "~=3.8.0", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "specifier", "line"), FILES)
def test_a_file_that_names_one(tmp_path: Path, name: str, text: str, specifier: str, line: int) -> None:
    (tmp_path / name).write_text(text)
    (pin,), _ = read_pins([str(tmp_path)])
    assert (pin.specifier, pin.position.line) == (specifier, line)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "triton\ntorch>=2.8\ntriton-kernels==1.0\n"),
        ("requirements.txt", "triton @ https://example.org/triton.whl\n"),
        ("pyproject.toml", '[project]\ndependencies = ["triton"]\n'),
        ("pyproject.toml", "[project\ntriton"),
        ("pyproject.toml", '[tool]\npoetry = "triton"\n'),
        ("uv.lock", 'package = "triton"\n'),
    ],
)
def test_a_file_that_names_none(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_pins([str(tmp_path)])[0] == ()


def test_a_lock_file_goes_before_what_is_declared(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["triton>=3.4"]\n')
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "triton"\nversion = "3.6.0"\n')
    assert [pin.written for pin in read_pins([str(tmp_path)])[0]] == ["triton==3.6.0"]


def test_the_project_is_looked_for_upwards_to_the_top_of_its_repository(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("triton==3.2.0\n")
    repository = tmp_path / "repository"
    (repository / "pkg" / "ops").mkdir(parents=True)
    (repository / ".git").mkdir()
    (repository / "pkg" / "ops" / "kernel.py").touch()
    assert read_pins([str(repository / "pkg" / "ops" / "kernel.py")])[0] == ()
    (repository / "requirements.txt").write_text("triton==3.4.0\n")
    (pin,), files = read_pins([str(repository / "pkg" / "ops" / "kernel.py")])
    assert pin.written == "triton==3.4.0"
    assert str(repository / "requirements.txt") in files
