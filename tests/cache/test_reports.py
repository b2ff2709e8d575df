"""Reports read back: only when nothing changed, without the compiler, and never from bytes that are no report."""

import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from handmade import report, story
from smemcheck import rules
from smemcheck.cache import ReportStore, pickled
from smemcheck.config import Settings
from smemcheck.model import FailureKind, Heuristic
from smemcheck.rules.example import needs, refuses

KERNEL = """
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
"""

FORBIDDEN = (
    "triton",
    "libcst",
    "networkx",
    "torch",
    "yaml",
    "packaging.requirements",
    "smemcheck.specialize.launches.search",
)

WARM_RUN = f"""
import json, sys, time
from smemcheck.cli import cli
try:
    cli(sys.argv[1:], prog_name="smemcheck")
finally:
    print(json.dumps([name for name in {FORBIDDEN} if name in sys.modules]), file=sys.stderr)
"""


def smemcheck(folder: Path, *arguments: str) -> tuple[str, list[str]]:
    """The output of a run in a process of its own, and which heavy packages it imported."""
    command = [sys.executable, "-c", WARM_RUN, *arguments, "--cache-dir", str(folder / "cache"), "--exit-zero"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return ran.stdout, json.loads(ran.stderr.splitlines()[-1])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "kernel.py").write_text(KERNEL)
    (tmp_path / "pkg" / "plain.py").write_text("VALUE = 1\n")
    return tmp_path


def test_a_run_after_one_change_imports_only_what_reads_source(package):
    smemcheck(package, "pkg", "--arch", "sm_90")
    kernel = package / "pkg" / "kernel.py"
    kernel.write_text(kernel.read_text() + "# changed\n")
    _, imported = smemcheck(package, "pkg", "--arch", "sm_90")
    assert imported == ["libcst"]


def test_the_second_run_imports_no_compiler_and_says_the_same(package):
    cold, imported = smemcheck(package, "pkg", "--arch", "sm_90")
    assert "libcst" in imported
    warm, imported = smemcheck(package, "pkg", "--arch", "sm_90")
    assert imported == []
    assert warm == cold
    assert "2 results on 1 target" in warm


def test_a_changed_file_is_read_again(package):
    smemcheck(package, "pkg", "--arch", "sm_90")
    (package / "pkg" / "kernel.py").write_text(KERNEL.replace(', triton.Config({"BLOCK": 128})', ""))
    again, _ = smemcheck(package, "pkg", "--arch", "sm_90")
    assert "1 result on 1 target" in again


def test_requirements_that_come_later_are_heard(package):
    before, _ = smemcheck(package, "pkg", "--arch", "sm_90")
    (package / "requirements-gpu.txt").write_text("triton==3.2.0\n")
    after, _ = smemcheck(package, "pkg", "--arch", "sm_90")
    assert "3.2.0" not in before
    assert "triton==3.2.0" in after


def test_other_settings_are_another_question(package):
    smemcheck(package, "pkg", "--arch", "sm_90")
    other, imported = smemcheck(package, "pkg", "--arch", "sm_80")
    assert "libcst" in imported
    assert "sm_80" in other


# ------------------------------------------------------------------------------------------------------------- the store


def store(folder: Path, *paths: str, triton: str = "3.9.0+0") -> ReportStore:
    return ReportStore(paths or (str(folder / "pkg"),), Settings(cache_directory=str(folder / "cache")), triton)


def keep(folder: Path, kept=None) -> None:
    one = store(folder)
    assert one.load() is None
    one.save(kept or story(), (), ())


def without_passing_facts(kept):
    """Whether an answer had been kept is the only thing that differs."""
    return replace(kept, results=tuple(replace(r, outcome=replace(r.outcome, cached=True)) for r in kept.results))


def test_the_whole_report_comes_back(package):
    keep(package)
    back = store(package).load()
    assert back == without_passing_facts(story())
    assert [repr(result) for result in back.results] == [repr(r) for r in without_passing_facts(story()).results]
    assert rules.findings(back) == story().findings


def test_another_triton_is_another_question(package):
    keep(package)
    assert store(package, triton="3.9.0+1").load() is None


@pytest.mark.parametrize("path", ["pkg/new.py", "pkg/deeper/new.py", "pkg/.gitignore", ".gitignore"])
def test_a_new_file_that_can_matter(package, path):
    keep(package)
    (package / path).parent.mkdir(exist_ok=True)
    (package / path).write_text("kernel.py\n")
    assert store(package).load() is None


def test_a_file_that_the_answer_rested_on_from_elsewhere(package):
    elsewhere = package / "settings.json"
    elsewhere.write_text("{}")
    past = time.time() - 100
    os.utime(elsewhere, (past, past))
    one = store(package)
    one.load()
    time.sleep(2.1)  # its time of creation cannot be set back
    one = store(package)
    one.load()
    one.save(story(), [str(elsewhere), str(package / "absent.json")], ())
    assert store(package).load() is not None
    (package / "absent.json").write_text("{}")
    assert store(package).load() is None


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.UNAVAILABLE, FailureKind.ABORT, FailureKind.ENDED])
def test_a_failure_that_may_pass_is_asked_for_again(package, kind):
    config = story().results[0].config
    keep(package, report({"sm_90": [(config, refuses(kind, "later", ""))]}))
    assert store(package).load() is None


def test_a_refusal_of_the_compiler_is_kept(package):
    config = story().results[0].config
    keep(package, report({"sm_90": [(config, refuses(FailureKind.COMPILATION_ERROR, "no", "CompilationError"))]}))
    assert store(package).load() is not None


def test_a_damaged_report_is_made_anew(package):
    keep(package)
    (path,) = (package / "cache" / "reports").iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert store(package).load() is None


def test_closures_stay_behind():
    (site,) = story().sites
    site = replace(site, heuristics=(Heuristic("EVEN", lambda: None),), prune_configs_by=lambda: None)
    (back,) = pickled.loads(pickled.dumps(replace(story(), sites=(site,)))).sites
    assert back.heuristics == (Heuristic("EVEN"),)
    assert back.prune_configs_by is True


class _Attack:
    def __reduce__(self):
        return os.getenv, ("HOME",)


def test_only_the_model_is_ever_made():
    with pytest.raises(pickle.UnpicklingError, match="no part of a report"):
        pickled.loads(pickle.dumps(_Attack()))


def test_a_package_of_500_files_with_thousands_of_results(package):
    """One machine-independent part of "at most half a second": what is read back holds everything, and nothing else runs."""
    for number in range(498):
        (package / "pkg" / f"module_{number}.py").write_text("VALUE = 1\n")
    config = story().results[0].config
    one = report({"sm_90": [(config, needs(1024))]})
    many = replace(
        one,
        sites=one.sites * 240,
        specializations=tuple(replace(one.specializations[0], site=site) for site in range(240)),
        results=tuple(replace(one.results[0], site=i // 20, specialization=i // 20) for i in range(4800)),
    )
    keep(package, many)
    began = time.process_time()
    back = store(package).load()
    assert time.process_time() - began < 0.5
    assert back is not None
    assert len(back.results) == 4800
