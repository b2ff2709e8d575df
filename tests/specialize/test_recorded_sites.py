"""Recorded lines and their results: every line that names a config has one, in its place, whatever is known of its kernel."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import SiteKind
from smemcheck.rules.example import needs

PACKAGE = {
    "ops/plain.py": """\
        import triton
        import triton.language as tl

        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)

        def factory():
            @triton.jit
            def inner(x, BLOCK: tl.constexpr):
                tl.store(x + tl.arange(0, BLOCK), 1)
            return inner

        if True:
            @triton.jit
            def guarded(x, BLOCK: tl.constexpr):
                tl.store(x + tl.arange(0, BLOCK), 2)
        """,
    "ops/tuned.py": """\
        import triton
        import triton.language as tl

        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def tuned(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
    "other/plain.py": """\
        import triton
        import triton.language as tl

        @triton.autotune([triton.Config({"BLOCK": 64})], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 0)
        """,
}


def line(kernel: str, path: str, block: int, **more: object) -> dict[str, object]:
    return {
        "kernel": kernel,
        "path": path,
        "signature": {"x": "*fp32", "BLOCK": "constexpr"},
        "constexprs": {"BLOCK": block},
        "config": {"kwargs": {}, "num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None},
        **more,
    }


@pytest.fixture
def check(tmp_path: Path, write_package):
    """Check the package under recorded lines; in place of the compiler, a kernel needs ``BLOCK`` bytes."""
    write_package(PACKAGE)

    def run(*lines: dict[str, object], arch: str = "sm_90"):
        recorded = tmp_path / "seen.jsonl"
        recorded.write_text("".join(json.dumps(one) + "\n" for one in lines))
        settings = Settings(targets=(arch,), specializations=(str(recorded),))
        return pipeline.check([str(tmp_path / "pkg")], settings, lower=answers)

    def answers(jobs):
        for index, job in enumerate(jobs):
            yield index, needs(dict(job.specialization.constexprs)["BLOCK"])

    return run


@pytest.fixture
def write_package(tmp_path: Path):
    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / "pkg" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    return write


def test_results_stand_in_the_order_of_the_lines(check):
    report = check(
        line("tuned", "ops/tuned.py", 64),
        line("fill", "ops/plain.py", 128),
        line("tuned", "ops/tuned.py", 256),
        line("fill", "ops/plain.py", 512),
    )
    assert [result.outcome.shared_memory for result in report.results] == [64, 128, 256, 512]
    assert [report.sites[result.site].kernel_name for result in report.results] == ["tuned", "fill", "tuned", "fill"]


@pytest.mark.parametrize(("kernel", "at"), [("fill", 5), ("inner", 10), ("guarded", 16)])
def test_a_kernel_without_an_autotuner_is_found_where_it_is_defined(check, kernel, at):
    report = check(line(kernel, "ops/plain.py", 128, line=at))
    (result,) = report.results
    site = report.sites[result.site]
    assert (site.kernel_name, site.kind, site.position.line) == (kernel, SiteKind.LAUNCH, at)
    assert result.verdict.kind.value == "fits"


def test_a_kernel_of_another_file_with_the_same_name_is_not_taken(check):
    report = check(line("fill", "ops/plain.py", 64), line("fill", "other/plain.py", 64))
    paths = [report.sites[result.site].position.path.split("/pkg/")[1] for result in report.results]
    assert paths == ["ops/plain.py", "other/plain.py"]


def test_a_line_whose_kernel_is_nowhere_has_its_result_and_the_reason(check):
    report = check(
        line("tuned", "ops/tuned.py", 64), line("lost", "ops/lost.py", 64), line("tuned", "ops/tuned.py", 32)
    )
    assert [result.verdict.kind.value for result in report.results] == ["fits", "unknown", "fits"]
    assert report.results[1].verdict.message == "no kernel lost was found in a file like ops/lost.py"


def test_a_line_with_a_parameter_that_the_kernel_lacks_has_its_result_and_the_reason(check):
    strange = line("tuned", "ops/tuned.py", 64)
    strange["signature"] = {"y": "*fp32", "BLOCK": "constexpr"}
    report = check(line("fill", "ops/plain.py", 64), strange, line("fill", "ops/plain.py", 32))
    assert [result.verdict.kind.value for result in report.results] == ["fits", "unknown", "fits"]
    assert "names 'y', which is no parameter of tuned" in report.results[1].verdict.message


def test_the_result_carries_the_config_of_its_line(check):
    config = {"kwargs": {}, "num_warps": 8, "num_stages": 5, "num_ctas": 2, "maxnreg": 96}
    (result,) = check(line("fill", "ops/plain.py", 64, config=config)).results
    found = result.config
    assert (found.kwargs, found.num_warps, found.num_stages, found.num_ctas, found.maxnreg) == ((), 8, 5, 2, 96)


@pytest.mark.parametrize(("arch", "given", "stages"), [("sm_90", None, 3), ("gfx942", None, 2), ("gfx942", 3, 3)])
def test_a_line_that_leaves_the_stages_to_the_backend(check, arch, given, stages):
    config = {"num_warps": 4} if given is None else {"num_warps": 4, "num_stages": given}
    (result,) = check(line("fill", "ops/plain.py", 64, config=config), arch=arch).results
    assert result.config.num_stages == stages
