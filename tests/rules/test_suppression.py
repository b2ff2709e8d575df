"""Comments that silence findings, and those that silence nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Job, Outcome
from smemcheck.rules.example import dot_kernel, needs
from smemcheck.rules.suppression import read_suppressions

CONFIG = '        triton.Config({"BLOCK": 256}),'
SOURCE = dot_kernel('{"BLOCK": 32}', '{"BLOCK": 64}', '{"BLOCK": 256}')
BYTES = (2_048, 8_192, 131_072)


def found(folder: Path, source: str, **settings) -> list[tuple[str, str]]:
    (folder / "kernel.py").write_text(source, encoding="utf-8")

    def answers(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        yield from enumerate(needs(size) for size in BYTES)

    report = pipeline.check(
        [str(folder / "kernel.py")], Settings(targets=("sm_120",), cache=False, **settings), lower=answers
    )
    return [(finding.rule, finding.message) for finding in report.findings]


def test_without_a_comment_there_is_a_finding(tmp_path: Path) -> None:
    assert [rule for rule, _ in found(tmp_path, SOURCE)] == ["SMC101"]


@pytest.mark.parametrize(
    ("line", "commented"),
    [
        (CONFIG, f"{CONFIG}  # smemcheck: ignore[SMC101]"),
        (CONFIG, f"{CONFIG}  # smemcheck: ignore[SMC101] this tile is for the H100"),
        (CONFIG, f"{CONFIG}  # smemcheck: ignore[shared-memory-exceeded]"),
        (CONFIG, f"{CONFIG}  # smemcheck: ignore[SMC1]"),
        (CONFIG, f"{CONFIG}  # smemcheck: ignore"),
        (CONFIG, f"{CONFIG}  # noqa  # smemcheck: ignore[SMC101]"),
        (CONFIG, f"        # smemcheck: ignore[SMC101]\n{CONFIG}"),
        ("@triton.autotune(", "@triton.autotune(  # smemcheck: ignore[SMC101]"),
        ("BLOCK: tl.constexpr):", "BLOCK: tl.constexpr):  # smemcheck: ignore[SMC101]"),
    ],
)
def test_a_comment_on_the_config_the_decorator_or_the_kernel_silences(
    tmp_path: Path, line: str, commented: str
) -> None:
    assert line in SOURCE
    assert found(tmp_path, SOURCE.replace(line, commented)) == []


@pytest.mark.parametrize(
    ("line", "commented", "findings"),
    [
        (
            CONFIG,
            f"{CONFIG}  # smemcheck: ignore[SMC104]",
            ["SMC101", "the comment silences SMC104, which finds nothing here"],
        ),
        (
            '"BLOCK": 32}),',
            '"BLOCK": 32}),  # smemcheck: ignore[SMC101]',
            ["the comment silences SMC101, which finds nothing here", "SMC101"],
        ),
        ("import triton\n", "import triton  # smemcheck: ignore\n", ["the comment silences nothing", "SMC101"]),
        (
            CONFIG,
            f"{CONFIG}  # smemcheck: ignore[SMC101, shared-memory-exceded]",
            [
                "the comment names 'shared-memory-exceded', which no rule is called; did you mean 'shared-memory-exceeded'?"
            ],
        ),
        (CONFIG, f'{CONFIG}\n        *("# smemcheck: ignore[SMC101]" and []),', ["SMC101"]),
    ],
)
def test_a_comment_that_silences_nothing_is_reported(
    tmp_path: Path, line: str, commented: str, findings: list[str]
) -> None:
    said = found(tmp_path, SOURCE.replace(line, commented, 1))
    assert [message if rule == "SMC903" else rule for rule, message in said] == findings


def test_a_rule_that_needs_registers_cannot_be_unused_without_them(tmp_path: Path) -> None:
    source = SOURCE.replace(CONFIG, f"{CONFIG}  # smemcheck: ignore[SMC101, SMC111]")
    assert found(tmp_path, source) == []
    assert [rule for rule, _ in found(tmp_path, source, registers=True)] == ["SMC903"]


def test_sites_alone_cannot_tell_what_is_unused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE.replace(CONFIG, f"{CONFIG}  # smemcheck: ignore[SMC101]"))
    assert pipeline.sites([str(path)], Settings(targets=("sm_120",))).findings == ()


@pytest.mark.parametrize(
    "data", [b"\xff# smemcheck: ignore", b"x = (  # smemcheck: ignore[SMC101]\n", b"\t x\n  # smemcheck: ignore"]
)
def test_a_file_that_python_cannot_read_breaks_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd.py").write_bytes(data)
    assert len(list(read_suppressions(str(tmp_path / "odd.py")))) <= 1
    assert list(read_suppressions(str(tmp_path / "absent.py"))) == []
