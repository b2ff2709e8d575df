"""``smemcheck verdict``: a cache that an H200 left, caches that the real Triton makes without a GPU, and broken ones."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from smemcheck.cli import cli
from smemcheck.verify.mlir import entry_arguments
from smemcheck.verify.triton_cache import folders, read_cache

DATA = Path(__file__).parent / "data"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TRITON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))


@pytest.fixture
def real_cache(tmp_path: Path) -> Path:
    """A folder that Triton 3.6.0 filled on an H200 (its text files only)."""
    with tarfile.open(DATA / "real_cache.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "realcache"


def verdict(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["verdict", *map(str, arguments)])


def document(*arguments: object, exit_code: int = 0) -> dict:
    result = verdict(*arguments, "--format", "json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.output)


# ------------------------------------------------------------------------------------------------- a real GPU's cache


def test_the_winner_and_the_pruned_of_a_real_cache(real_cache: Path) -> None:
    (kernel,) = document("transpose_copy", "--cache-dir", real_cache)["kernels"]
    (decision,) = kernel["decisions"]
    assert decision["winner"]["kwargs"] == {"BM": 64, "BN": 64}
    assert [row["pruned"] for row in decision["configs"]] == [False, False, True]
    assert decision["configs"][0]["milliseconds"] == [0.01360000018030405, 0.013088000006973743, 0.013952000066637993]
    pruned = decision["configs"][2]
    assert (pruned["cause"], pruned["shared_memory"], pruned["shared_memory_limit"]) == (
        "shared memory",
        524288,
        232448,
    )
    assert [entry["value"] for entry in decision["key"]] == ["torch.float32", "torch.float32"]


def test_winners_are_those_that_triton_would_load(real_cache: Path) -> None:
    """As ``check_disk_cache`` reads a file: the smallest list of timings, the first of equals."""
    files = {str(path): json.loads(path.read_text()) for path in real_cache.rglob("*.autotune.json")}
    found = document("--cache-dir", real_cache, exit_code=1)
    decisions = [decision for kernel in found["kernels"] for decision in kernel["decisions"]]
    assert len(decisions) == len(files) == 5
    for decision in decisions:
        config, timings = min(files[decision["path"]]["configs_timings"], key=lambda entry: entry[1])
        if math.isinf(timings[0]):
            assert decision["winner"] is None
        else:
            kept = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg")
            assert decision["winner"] == {name: config[name] for name in kept}


def test_every_pruned_config_of_the_real_cache_is_explained(real_cache: Path) -> None:
    found = document("--cache-dir", real_cache, exit_code=1)
    pruned = [
        (row["config"]["kwargs"], row["shared_memory"])
        for kernel in found["kernels"]
        for decision in kernel["decisions"]
        for row in decision["configs"]
        if row["pruned"]
    ]
    assert sorted(pruned, key=str) == [
        ({"BM": 256, "BN": 128, "BK": 128}, 589824),
        ({"BM": 256, "BN": 128, "BK": 128}, 589824),
        ({"BM": 256, "BN": 256, "BK": 128}, 524288),
        ({"BM": 256, "BN": 256, "BK": 128}, 524288),
        ({"BM": 256, "BN": 512}, 524288),
    ]


def test_decisions_come_newest_first(real_cache: Path) -> None:
    (kernel,) = document("mm_plain", "--cache-dir", real_cache, exit_code=1)["kernels"]
    times = [decision["written"] for decision in kernel["decisions"]]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)


def test_the_text_names_winner_cause_key_and_the_cuda_graph(real_cache: Path) -> None:
    text = verdict("mm_plain", "--cache-dir", real_cache).output
    assert "winner: BM=128, BN=128, BK=64, num_warps=8, num_stages=4" in text
    assert "needs 589,824 B of shared memory, 357,376 B over the limit of 232,448 B on sm_90" in text
    assert "key 1=512, key 2=512, key 3=512, tensors of torch.float16, torch.float16, torch.float16" in text
    assert "illegal while a CUDA graph is captured" in text


def test_all_pruned_is_a_finding(real_cache: Path) -> None:
    result = verdict("mm_plain", "--cache-dir", real_cache)
    assert result.exit_code == 1
    assert "every config was pruned; Triton launches the first: BM=256, BN=256, BK=128" in result.output


def test_without_a_decision_the_variants_tell(real_cache: Path) -> None:
    for path in real_cache.rglob("transpose_copy.autotune.json"):
        path.unlink()
    (kernel,) = document("transpose_copy", "--cache-dir", real_cache)["kernels"]
    (elimination,) = kernel["eliminations"]
    assert [variant["shared_memory"] for variant in elimination["out"]] == [524288]
    assert sorted(variant["shared_memory"] for variant in elimination["left"]) == [16384, 65536]
    assert elimination["conclusion"] == "2 compiled variants can be loaded: any of them may have won"


def test_the_only_variant_that_loads_has_won(real_cache: Path) -> None:
    for path in [*real_cache.rglob("transpose_copy.autotune.json"), *real_cache.rglob("transpose_copy.json")]:
        if '"shared": 16384' in path.read_text() or path.name.endswith(".autotune.json"):
            path.unlink()
    (kernel,) = document("transpose_copy", "--cache-dir", real_cache)["kernels"]
    (elimination,) = kernel["eliminations"]
    assert elimination["conclusion"] == "the winner is the only compiled variant that can be loaded"
    assert [variant["shared_memory"] for variant in elimination["left"]] == [65536]


# ------------------------------------------------------------------------------------------- why there is no decision


HEAD = """import triton
import triton.language as tl

"""
BODY = """@triton.jit
def softmax_rows(x, y, N, sx, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < N), mask=o < N)
"""


def kernel_file(folder: Path, decorator: str, head: str = "") -> Path:
    path = folder / "kernel.py"
    path.write_text(HEAD + head + decorator + "\n" + BODY)
    return path


def reasons(kernel: dict) -> dict[str, bool | None]:
    return {reason["what"].split(",")[0].split(":")[0]: reason["holds"] for reason in kernel["reasons"]}


OFF = "caching of results is not enabled"
HOOK = "a config has a pre_hook"
ONE = "the list has one config"
EMPTY = "the key is empty"
ELSEWHERE = "the cache lies elsewhere or was cleared"
OTHER = "the file belongs to another version of the kernel"
TWO_CONFIGS = "configs=[triton.Config({'B': 1024}), triton.Config({'B': 2048}, num_warps=8)]"


@pytest.mark.parametrize(
    ("decorator", "head", "holding"),
    [
        (f"@triton.autotune({TWO_CONFIGS}, key=['N'])", "", {OFF}),
        (f"@triton.autotune({TWO_CONFIGS}, key=['N'], cache_results=True)", "", set()),
        ("@triton.autotune([triton.Config({'B': 64})], key=['N'], cache_results=True)", "", {ONE}),
        (
            "@triton.autotune([triton.Config({'B': 64}, pre_hook=clear), triton.Config({'B': 32})], key=['N'], cache_results=True)",
            "def clear(arguments):\n    arguments['y'].zero_()\n\n\n",
            {HOOK},
        ),
    ],
)
def test_reasons_in_the_source(real_cache: Path, tmp_path: Path, decorator: str, head: str, holding: set[str]) -> None:
    for path in real_cache.rglob("softmax_rows.autotune.json"):
        path.unlink()
    file = kernel_file(tmp_path, decorator, head)
    (kernel,) = document("softmax_rows", file, "--cache-dir", real_cache)["kernels"]
    assert {what for what, holds in reasons(kernel).items() if holds} == holding
    assert kernel["line"] == file.read_text().split("\n").index("def softmax_rows(x, y, N, sx, B: tl.constexpr):") + 1


def test_the_variable_enables_caching_for_every_decorator(
    real_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    file = kernel_file(tmp_path, f"@triton.autotune({TWO_CONFIGS}, key=['N'])")
    (kernel,) = document("mine", file, "--cache-dir", real_cache)["kernels"]
    assert reasons(kernel)[OFF] is False


def test_an_empty_key_cannot_be_judged_without_the_launch(real_cache: Path, tmp_path: Path) -> None:
    for path in real_cache.rglob("softmax_rows.autotune.json"):
        path.unlink()
    file = kernel_file(tmp_path, f"@triton.autotune({TWO_CONFIGS}, key=[], cache_results=True)")
    (kernel,) = document("softmax_rows", file, "--cache-dir", real_cache)["kernels"]
    assert reasons(kernel)[EMPTY] is None


def test_a_cache_that_was_cleared(tmp_path: Path) -> None:
    file = kernel_file(tmp_path, f"@triton.autotune({TWO_CONFIGS}, key=['N'], cache_results=True)")
    empty = tmp_path / "empty"
    empty.mkdir()
    (kernel,) = document("softmax_rows", file, "--cache-dir", empty)["kernels"]
    assert {what for what, holds in reasons(kernel).items() if holds} == {ELSEWHERE}


def test_a_cache_that_lies_elsewhere_is_found(
    real_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(real_cache))
    (kernel,) = document("softmax_rows", "--cache-dir", empty)["kernels"]
    (reason,) = (reason for reason in kernel["reasons"] if reason["what"] == ELSEWHERE)
    assert reason["holds"] is True
    assert str(real_cache) in reason["evidence"]


def test_a_decision_of_another_version_of_the_kernel(real_cache: Path, tmp_path: Path) -> None:
    file = kernel_file(
        tmp_path,
        "@triton.autotune([triton.Config({'B': 512}), triton.Config({'B': 256})], key=['N'], cache_results=True)",
    )
    (kernel,) = document("softmax_rows", file, "--cache-dir", real_cache)["kernels"]
    assert {what for what, holds in reasons(kernel).items() if holds} == {OTHER}
    assert [decision["current"] for decision in kernel["decisions"]] == [False]
    assert kernel["eliminations"]


def test_the_key_is_named_by_the_source(real_cache: Path, tmp_path: Path) -> None:
    file = kernel_file(tmp_path, f"@triton.autotune({TWO_CONFIGS}, key=['N'])")
    (kernel,) = document("softmax_rows", file, "--cache-dir", real_cache)["kernels"]
    (decision,) = kernel["decisions"]
    assert decision["current"] is True
    assert [entry["name"] for entry in decision["key"]] == ["N", "dtype", "dtype"]
    assert "a new value of N" in kernel["retunes"][0]


# ------------------------------------------------------------------------------------- folders, damage, other inputs


def test_the_cache_is_found_as_triton_finds_it(tmp_path: Path) -> None:
    assert [folder.path for folder in folders({"TRITON_HOME": "/h"})] == [
        "/h/.triton/cache",
        "/h/.triton/dump",
        "/h/.triton/override",
    ]
    chosen = folders({"TRITON_HOME": "/h", "TRITON_CACHE_DIR": "/c", "TRITON_DUMP_DIR": "/d"})
    assert [(folder.path, folder.chosen_by) for folder in chosen] == [
        ("/c", "TRITON_CACHE_DIR"),
        ("/d", "TRITON_DUMP_DIR"),
        ("/h/.triton/override", "TRITON_HOME"),
    ]
    assert folders({}, str(tmp_path))[0].chosen_by == "--cache-dir"


def test_damaged_and_foreign_files_are_named_and_skipped(real_cache: Path) -> None:
    folder = real_cache / "DAMAGED"
    folder.mkdir()
    (folder / "half.autotune.json").write_text('{"key": [1], "configs_timings": [[{"kwargs"')
    (folder / "other.autotune.json").write_text('{"timings": []}')
    (folder / "shape.autotune.json").write_text('{"key": [1], "configs_timings": [[{"num_warps": 4}, [1.0]]]}')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "package.json").write_text('{"name": "left-pad"}')
    (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
    (folder / "notes.md").write_text("mine")
    found = document("softmax_rows", "--cache-dir", real_cache)
    messages = {Path(problem["path"]).name: problem["message"] for problem in found["problems"]}
    assert messages["half.autotune.json"].startswith("is damaged: Expecting")
    assert messages["other.autotune.json"].startswith("is not a file of Triton's autotuner")
    assert messages["shape.autotune.json"].startswith("is damaged: a config")
    assert messages["list.json"].startswith("is not a file of Triton's")
    assert messages["package.json"].startswith("is not a file of Triton's")
    assert messages["binary.json"].startswith("is damaged")
    assert messages["notes.md"] == "is not a file of Triton's"
    assert found["kernels"][0]["decisions"][0]["winner"]["kwargs"] == {"B": 1024}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_unreadable_folders_are_named_and_skipped(real_cache: Path) -> None:
    locked = next(path.parent for path in real_cache.rglob("transpose_copy.autotune.json"))
    locked.chmod(0)
    try:
        found = document("softmax_rows", "--cache-dir", real_cache)
    finally:
        locked.chmod(0o755)
    assert [(problem["path"], problem["message"]) for problem in found["problems"]] == [
        (str(locked), "cannot be read: Permission denied")
    ]


def test_an_interrupted_write_is_no_decision(real_cache: Path) -> None:
    (source,) = real_cache.rglob("softmax_rows.autotune.json")
    half = source.parent / "tmp.pid_17_abc"
    half.mkdir()
    (half / source.name).write_text("{")
    found = document("softmax_rows", "--cache-dir", real_cache)
    assert len(found["kernels"][0]["decisions"]) == 1
    assert found["problems"] == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    result = verdict("--cache-dir", tmp_path / "absent")
    assert result.exit_code == 2
    assert "no such folder" in result.output


def test_a_misspelt_kernel(real_cache: Path) -> None:
    assert "did you mean 'softmax_rows'?" in verdict("softmax_row", "--cache-dir", real_cache).output


def test_arguments_of_every_way_to_print_them() -> None:
    """3.4 to 3.9 print arguments by position with named locations, by name, and descriptors with shapes and strides."""
    text = """#loc = loc("k.py":5:0)
#loc1 = loc("a_ptr"(#loc))
module {
  tt.func public @k(%arg0: !tt.ptr<bf16> {tt.divisibility = 16 : i32} loc("a_ptr"(#loc)), %arg1: f32 loc(#loc1)) {
"""
    assert entry_arguments(text.replace("f32 loc(#loc1)", 'f32 loc("scale"(#loc))')) is not None
    first, second = (
        entry_arguments(
            text.replace('loc("a_ptr"(#loc)),', "loc(#loc1),").replace("f32 loc(#loc1)", 'i64 loc("n"(#loc))')
        )
        or ()
    )
    assert (first.name, first.type, first.divisible_by_16) == ("a_ptr", "*bf16", True)
    assert (second.name, second.type, second.divisible_by_16) == ("n", "i64", False)


def test_a_host_descriptor_is_one_argument() -> None:
    text = (
        "tt.func public @k(%a: !tt.tensordesc<tensor<64x32xf16>>, %a_0: i32, %a_1: i32, %a_2: i64, %a_3: i64, "
        "%N: i32 {tt.divisibility = 16 : i32}) attributes"
    )
    arguments = entry_arguments(text) or ()
    assert [(argument.name, argument.type) for argument in arguments] == [
        ("a", "tensordesc<fp16[64, 32]>"),
        ("N", "i32"),
    ]


def test_read_cache_of_an_empty_folder(tmp_path: Path) -> None:
    cache = read_cache(folders({}, str(tmp_path))[0])
    assert (cache.variants, cache.decisions, cache.problems) == ((), (), ())


# ---------------------------------------------------------------------------------------------------- lowered again


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_a_pruned_config_that_the_cache_does_not_explain_is_lowered_again(real_cache: Path, tmp_path: Path) -> None:
    """The variant that was pruned is gone from the cache; the source is there."""
    (decision,) = real_cache.rglob("transpose_copy.autotune.json")
    for path in real_cache.rglob("transpose_copy.json"):
        if '"shared": 524288' in path.read_text():
            for file in path.parent.iterdir():
                file.unlink()
    file = tmp_path / "kernel.py"
    configs = ", ".join(
        f"triton.Config({config['kwargs']}, num_warps={config['num_warps']}, num_stages={config['num_stages']})"
        for config, _ in json.loads(decision.read_text())["configs_timings"]
    )
    file.write_text(
        HEAD + f"@triton.autotune([{configs}], key=[])\n@triton.jit\n"
        "def transpose_copy(x, y, M, N, sx, sy, BM: tl.constexpr, BN: tl.constexpr):\n"
        "    om = tl.program_id(0) * BM + tl.arange(0, BM)\n"
        "    on = tl.program_id(1) * BN + tl.arange(0, BN)\n"
        "    mk = (om[:, None] < M) & (on[None, :] < N)\n"
        "    t = tl.load(x + om[:, None] * sx + on[None, :], mask=mk)\n"
        "    tl.store(y + om[:, None] + on[None, :] * sy, t, mask=mk)\n"
    )
    (kernel,) = document("transpose_copy", "--cache-dir", real_cache)["kernels"]
    unexplained = kernel["decisions"][0]["configs"][2]
    assert unexplained["cause"] is None
    assert unexplained["why"].startswith("not known: no variant with its options is in the cache")
    (kernel,) = document("transpose_copy", file, "--cache-dir", real_cache)["kernels"]
    explained = kernel["decisions"][0]["configs"][2]
    assert explained["cause"] == "shared memory"
    assert explained["why"].startswith("lowered again, it needs 5")
    assert explained["shared_memory"] > explained["shared_memory_limit"] == 232448
