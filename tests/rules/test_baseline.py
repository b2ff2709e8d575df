"""Known findings, written once and not reported again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from handmade import FILE, buffer, config, needs, report, story
from smemcheck.errors import UsageError
from smemcheck.model import Position
from smemcheck.rules.baseline import unknown_findings, write_baseline
from smemcheck.rules.identity import fingerprint


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "baseline.json")
    write_baseline(path, story())
    return path


def moved(made, lines: int, folder: str):
    """The same report after lines were inserted above and the folder was renamed."""
    findings = tuple(
        replace(f, position=Position(f.position.path.replace("/repo/pkg", folder), f.position.line + lines))
        for f in made.findings
    )
    return replace(made, findings=findings)


def test_what_is_known_is_not_reported_again(file: str) -> None:
    assert unknown_findings(file, story()) == ()


def test_moved_lines_and_folders_change_nothing(file: str) -> None:
    assert unknown_findings(file, moved(story(), 17, "/elsewhere/kernels")) == ()


def test_another_number_of_bytes_is_the_same_finding(file: str) -> None:
    larger = needs(110_000, buffers=(buffer("kv", 60, 90_000),))
    pairs = [
        (config(22, BLOCK_T=16), needs(83_968)),
        (config(23, BLOCK_T=32), larger),
        (config(24, BLOCK_T=32, num_warps=8), larger),
    ]
    assert unknown_findings(file, report({"sm_120": pairs})) == ()


def test_another_config_or_target_is_new(file: str) -> None:
    pairs = [
        (config(22, BLOCK_T=16), needs(1)),
        (config(23, BLOCK_T=64), needs(200_000)),
        (config(24, BLOCK_T=8), needs(1)),
    ]
    assert [f.rule for f in unknown_findings(file, report({"sm_120": pairs}))] == ["SMC101"]
    pairs = [
        (config(22, BLOCK_T=16), needs(1)),
        (config(23, BLOCK_T=32), needs(102_400)),
        (config(24, BLOCK_T=8), needs(1)),
    ]
    assert [f.target for f in unknown_findings(file, report({"sm_89": pairs}))] == ["sm_89"]


def test_a_second_finding_of_one_identity_is_new(file: str) -> None:
    doubled = replace(story(), findings=(*story().findings, story().findings[1]))
    assert unknown_findings(file, doubled) == (story().findings[1],)


def test_the_file_is_sorted_and_has_one_finding_a_line(file: str) -> None:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    assert lines[0] == '{"schema": 1, "findings": ['
    assert lines[1] == (
        '  {"rule": "SMC101", "file": "decode.py", "kernel": "decode", '
        '"config": "BLOCK_T=32, num_warps=4, num_stages=1", "target": "sm_120"},'
    )
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no baseline; write one with --write-baseline"),
        ("[]", "is no baseline; write one with --write-baseline"),
        ('{"schema": 2, "findings": []}', "the baseline has schema 2, this smemcheck reads 1"),
    ],
)
def test_a_file_that_is_no_baseline_is_an_error(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        unknown_findings(str(tmp_path / "b.json"), story())
    with pytest.raises(UsageError, match="there is no such baseline; write one with --write-baseline"):
        unknown_findings(str(tmp_path / "absent.json"), story())
    with pytest.raises(UsageError, match="the baseline cannot be written"):
        write_baseline(str(tmp_path / "no" / "folder.json"), story())


def test_fingerprints_tell_configs_and_targets_apart() -> None:
    made = story()
    assert len({fingerprint(made, finding) for finding in made.findings}) == 3
    assert fingerprint(made, made.findings[0]) == fingerprint(made, moved(made, 3, "/x").findings[0])
    assert FILE.endswith("decode.py")
