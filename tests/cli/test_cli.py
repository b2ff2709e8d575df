"""The command line: what is printed, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handmade import story
from smemcheck import __version__, cli, pipeline
from smemcheck.config import Settings
from smemcheck.model import Report


@pytest.fixture
def run(tmp_path: Path, monkeypatch):
    """Run the command line in an empty folder; without a GPU, whatever this machine has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smemcheck.local_gpu.local_architectures", lambda: ())

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(cli.cli, list(arguments), prog_name="smemcheck")

    return invoke


@pytest.fixture
def settings_seen(monkeypatch) -> list[Settings]:
    """The story stands in for the pipeline's answer; what it was asked with is kept."""
    seen: list[Settings] = []

    def answer(paths, settings: Settings, progress=None) -> Report:
        seen.append(settings)
        return story()

    monkeypatch.setattr(pipeline, "check", answer)
    monkeypatch.setattr(pipeline, "sites", answer)
    return seen


def test_a_path_alone_is_short_for_check(run, settings_seen) -> None:
    short, long = run("."), run("check", ".")
    assert short.stdout == long.stdout
    assert short.exit_code == long.exit_code == 1
    assert "SMC101" in short.stdout


def test_options_before_the_path_are_short_for_check_too(run, settings_seen) -> None:
    assert run("--arch", "sm_120", ".").exit_code == 1
    assert settings_seen[0].targets == ("sm_120",)


def test_sites_lists_configs(run, settings_seen) -> None:
    assert "    BLOCK_T=16, num_warps=4, num_stages=1 (line 22)\n" in run("sites", ".").stdout


def test_json_is_one_document(run, settings_seen) -> None:
    assert json.loads(run(".", "--format", "json").stdout)["schema"] == 1


@pytest.mark.parametrize(("level", "code"), [("error", 1), ("warning", 1), ("note", 1)])
def test_findings_at_or_above_the_level_fail(run, settings_seen, level: str, code: int) -> None:
    assert run(".", "--fail-on", level).exit_code == code


def test_findings_below_the_level_do_not_fail(run, monkeypatch) -> None:
    made = story()
    warnings = tuple(finding for finding in made.findings if finding.rule == "SMC302")
    monkeypatch.setattr(pipeline, "check", lambda *_: replace(made, findings=warnings))
    assert run(".").exit_code == 0
    assert run(".", "--fail-on", "warning").exit_code == 1


def test_options_reach_the_pipeline(run, settings_seen) -> None:
    run(
        *(".", "--arch", "sm_90", "--arch", "rtx-5090", "--registers", "--jobs", "2", "--time-limit", "30"),
        *("--no-cache", "--cache-dir", "kept", "--env", "A=1", "--env", "B=x=y", "--specializations", "recorded.jsonl"),
    )
    [settings] = settings_seen
    assert settings.targets == ("sm_90", "rtx-5090")
    assert (settings.registers, settings.jobs, settings.time_limit, settings.cache) == (True, 2, 30.0, False)
    assert (settings.cache_directory, settings.specializations) == ("kept", ("recorded.jsonl",))
    assert settings.environment == (("A", "1"), ("B", "x=y"))


def test_the_command_line_is_stronger_than_pyproject(run, settings_seen, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.smemcheck]\ntargets = ['sm_75']\nregisters = true\nenvironment = {A = '0', C = '2'}\n"
    )
    run(".", "--arch", "sm_90", "--env", "A=1")
    assert settings_seen[0].targets == ("sm_90",)
    assert settings_seen[0].registers is True
    assert settings_seen[0].environment == (("A", "1"), ("C", "2"))


def test_without_a_target_the_local_gpu_is_taken(run, settings_seen, monkeypatch) -> None:
    monkeypatch.setattr("smemcheck.local_gpu.local_architectures", lambda: ("sm_90", "sm_999"))
    run(".")
    assert settings_seen[0].targets == ("sm_90",)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.py"], "smemcheck: nowhere.py: no such file or directory\n"),
        (
            [".", "--arch", "sm_130"],
            "smemcheck: no device table knows 'sm_130'; did you mean 'sm_120'? ('smemcheck devices' lists the names)\n",
        ),
        ([".", "--env", "NOVALUE"], "smemcheck: --env NOVALUE: must be NAME=VALUE\n"),
        ([".", "--config", "absent.toml"], "smemcheck: absent.toml: cannot be read: No such file or directory\n"),
    ],
)
def test_input_that_cannot_be_used_is_one_sentence(run, arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)


def test_a_broken_pyproject_is_one_sentence(run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.smemcheck\n")
    result = run(".")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"smemcheck: {tmp_path}/pyproject.toml: is not valid TOML: ")
    assert result.stderr.count("\n") == 1


def test_an_internal_error_is_one_sentence_that_says_how_to_report_it(run, monkeypatch) -> None:
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(pipeline, "check", broken)
    result = run(".")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "smemcheck: internal error (ZeroDivisionError: division by zero). This is a defect of smemcheck: please report it "
        "with the kernel's source and the output of the same command with --traceback\n"
    )
    assert "Traceback" in run(".", "--traceback").stderr


def test_both_names_of_the_program_print_the_version() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "smemcheck", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout == f"smemcheck {__version__}\n"


def test_version_and_help_import_nothing_heavy() -> None:
    """They are what editors and hooks call first; 0.15 s is the goal, and the heavy imports are what would break it."""
    heavy = ("libcst", "triton", "networkx", "rich", "torch", "smemcheck.source", "smemcheck.lower", "smemcheck.rules")
    for option in ("--version", "--help"):
        code = (
            "import sys\nfrom smemcheck.cli import main\n"
            f"sys.argv = ['smemcheck', {option!r}]\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
        )
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert answer.stderr.strip() == "[]"


def test_the_version_is_printed_at_once() -> None:
    """The best of five starts, since the machine may be busy; interpreter start included."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "smemcheck", "--version"], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3
