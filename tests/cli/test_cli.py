"""The command line: what is printed, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handmade import story
from smemcheck import __version__, cli, pipeline
from smemcheck.config import Settings
from smemcheck.model import Report
from smemcheck.rules.example import copy_kernel


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

    def answer(paths, settings: Settings, progress=None, watch=None) -> Report:
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
    monkeypatch.setattr(pipeline, "check", lambda *_, **__: replace(made, findings=warnings))
    assert run(".").exit_code == 0
    assert run(".", "--fail-on", "warning").exit_code == 1


def test_options_reach_the_pipeline(run, settings_seen) -> None:
    run(
        *(".", "--arch", "sm_90", "--arch", "rtx-5090", "--registers", "--jobs", "2", "--time-limit", "30"),
        *("--memory-limit", "2.5"),
        *(
            "--no-launches",
            "--max-specializations",
            "16",
            "--no-cache",
            "--cache-dir",
            "kept",
            "--env",
            "A=1",
            "--env",
            "B=x=y",
            "--specializations",
            "recorded.jsonl",
        ),
    )
    [settings] = settings_seen
    assert settings.targets == ("sm_90", "rtx-5090")
    assert (settings.registers, settings.jobs, settings.time_limit, settings.cache) == (True, 2, 30.0, False)
    assert settings.memory_limit == 2.5
    assert (settings.cache_directory, settings.specializations) == ("kept", ("recorded.jsonl",))
    assert settings.environment == (("A", "1"), ("B", "x=y"))
    assert (settings.launches, settings.max_specializations) == (False, 16)


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
    def broken(*_, **__):
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
            "import sys\nfrom smemcheck.cli import cli\n"
            f"try:\n    cli([{option!r}])\nexcept SystemExit:\n    pass\n"
            f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
        )
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert answer.stderr.strip() == "[]"


def test_the_version_is_printed_at_once() -> None:
    """The best of five starts, interpreter included, in seconds of processor time, since the machine may be busy."""
    times = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-m", "smemcheck", "--version"], capture_output=True, check=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(times) < 0.2


def test_rules_are_selected_and_ignored(run, settings_seen) -> None:
    run(".", "--select", "SMC1", "--select", "SMC302", "--ignore", "SMC104", "--strict", "--exclude", "third_party/")
    [settings] = settings_seen
    assert (settings.select, settings.ignore, settings.strict) == (("SMC1", "SMC302"), ("SMC104",), True)
    assert settings.exclude == ("third_party/",)


def test_bindings_are_numbers_truth_values_and_types(run, settings_seen) -> None:
    run(
        ".",
        "--bind",
        "HEAD_DIM=64,128",
        "--bind",
        "q_ptr=*bf16",
        "--bind",
        "CAUSAL=True",
        "--bind",
        "d=tensordesc<fp16[64, 64]>",
    )
    assert [(binding.parameter, binding.values) for binding in settings_seen[0].bind] == [
        ("HEAD_DIM", (64, 128)),
        ("q_ptr", ("*bf16",)),
        ("CAUSAL", (True,)),
        ("d", ("tensordesc<fp16[64, 64]>",)),
    ]


@pytest.mark.parametrize("text", ["HEAD_DIM", "=3", "HEAD_DIM=", "HEAD_DIM=64,,128"])
def test_a_binding_of_another_form_is_one_sentence(run, text: str) -> None:
    result = run(".", "--bind", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"smemcheck: --bind {text}: must be NAME=VALUE, or NAME=VALUE,VALUE for several\n"


def test_several_outputs_in_one_run(run, settings_seen, tmp_path: Path) -> None:
    result = run(".", "--output", "sarif:out.sarif", "--output", "junit:out.xml", "--output", "markdown:out.md")
    assert "SMC101" in result.stdout
    assert json.loads((tmp_path / "out.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "out.xml").read_text().startswith("<?xml")
    assert (tmp_path / "out.md").read_text().startswith("## smemcheck")


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("sarif", "--output sarif: must be FORMAT:FILE, with a format of text, json, sarif, github, junit, markdown"),
        ("pdf:x", "--output pdf:x: must be FORMAT:FILE, with a format of text, json, sarif, github, junit, markdown"),
        ("json:no/where", "--output json:no/where: the file cannot be written: No such file or directory"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_sentence(run, settings_seen, output: str, sentence: str) -> None:
    result = run(".", "--output", output)
    assert (result.exit_code, result.stderr) == (2, f"smemcheck: {sentence}\n")


def test_exit_zero_and_statistics(run, settings_seen) -> None:
    result = run(".", "--exit-zero", "--statistics")
    assert (result.exit_code, result.stdout) == (
        0,
        "     2  SMC101  shared-memory-exceeded\n     1  SMC302  one-config-survives\n",
    )


def test_a_baseline_is_written_once_and_then_known(run, settings_seen) -> None:
    written = run(".", "--write-baseline", "known.json", "-q")
    assert (written.exit_code, written.stdout.count("SMC")) == (0, 0)
    compared = run(".", "--baseline", "known.json", "-q")
    assert (compared.exit_code, compared.stdout.count("SMC")) == (0, 0)
    assert run(".", "--baseline", "absent.json").stderr == (
        "smemcheck: absent.json: there is no such baseline; write one with --write-baseline absent.json\n"
    )


def test_standard_input_is_a_file(monkeypatch, tmp_path: Path) -> None:
    source = "import triton  # autotune\nx = (\n"
    result = CliRunner().invoke(cli.cli, ["sites", "-", "--arch", "sm_90"], input=source)
    assert result.exit_code == 0
    assert "stdin.py:2:" in result.stdout
    assert result.stdout.endswith("1 file, 0 kernel sites; 1 warning\n")


def on_a_terminal(folder: Path, **environment: str) -> str:
    """What ``smemcheck sites kernel.py`` writes to a terminal that knows no size."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    (folder / "kernel.py").write_text(copy_kernel('{"BLOCK": 64}'), encoding="utf-8")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "smemcheck", "sites", "kernel.py", "--arch", "sm_90"],
        cwd=folder,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={
            **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
            "TERM": "xterm",
            **environment,
        },
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux reports the end of a pseudo-terminal as an input/output error
            piece = b""
        if not piece:
            break
        written += piece
    os.close(ours)
    assert process.wait() == 0
    return written.decode()


def test_colour_is_for_terminals_that_want_it(run, settings_seen, tmp_path: Path) -> None:
    assert "\x1b[" not in run(".").stdout
    assert "\x1b[1mkernel\x1b[0m" in on_a_terminal(tmp_path)
    plain = on_a_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[" not in plain
    assert "kernel.py:12 kernel" in plain


def test_a_rule_is_explained_by_code_or_name(run) -> None:
    by_code, by_name = run("rule", "SMC101"), run("rule", "shared-memory-exceeded")
    assert by_code.stdout == by_name.stdout
    assert by_code.stdout.startswith(
        "# SMC101 shared-memory-exceeded\n\nSeverity: error\n\nA config needs more shared memory"
    )
    assert run("rule", "smc101").stdout == by_code.stdout
    unknown = run("rule", "SMC777")
    assert (unknown.exit_code, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("smemcheck: no rule is called 'SMC777'")


def test_rules_and_devices_are_listed(run) -> None:
    assert "SMC101  shared-memory-exceeded         error    A config needs more" in run("rules").stdout
    listed = run("devices").stdout.splitlines()
    assert listed[0].split() == ["target", "shared", "memory", "tensor", "memory", "threads", "names"]
    assert any(line.startswith("sm_107         unknown    576 columns") for line in listed)
    assert "    NVIDIA/cccl libcudacxx/" in run("devices", "--sources").stdout


def test_config_shows_what_is_in_force(run, tmp_path: Path) -> None:
    assert run("config").stdout.startswith("# no [tool.smemcheck] was found\ntargets = []\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.smemcheck]\ntargets = ['sm_75']\n[tool.smemcheck.kernels.f]\nD = [64, 128]\n"
    )
    shown = run("config").stdout
    assert shown.startswith(f"# {tmp_path}/pyproject.toml\ntargets = [sm_75]   # set\n")
    assert "kernels = [f {D = 64, 128}]   # set\n" in shown


def test_what_is_said_arrives_and_the_exit_code_counts_although_nothing_is_taken_apart(tmp_path: Path) -> None:
    """The process ends without visiting its objects: only what was flushed before arrives."""
    code = (
        "import sys\nfrom smemcheck.cli import main\n"
        "class Left:\n    def __del__(self): print('taken apart')\n"
        "left = Left()\n"
        "sys.argv = ['smemcheck', *sys.argv[1:]]\n"
        "main()\n"
    )
    found = subprocess.run([sys.executable, "-c", code, "devices"], capture_output=True, text=True, check=False)
    assert found.returncode == 0
    assert found.stdout.splitlines()[-1].strip()
    assert "taken apart" not in found.stdout
    wrong = subprocess.run([sys.executable, "-c", code, "nowhere"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert wrong.stderr == "smemcheck: nowhere: no such file or directory\n"
