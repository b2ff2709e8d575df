"""``smemcheck record``: real scripts with the real Triton, which compiles without a GPU; with torch also launches stood in for."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from smemcheck.cli import cli
from smemcheck.errors import UsageError
from smemcheck.verify.recording import add_to_file, merged, read_parts

ROOT = Path(__file__).parent.parent.parent
DATA = Path(__file__).parent / "data"

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None,
    reason="torch or Triton is not installed",
)

KERNEL = """import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.autotune([triton.Config({"BLOCK": 64}, num_stages=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def product(a, b, c, n, stride, TYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        x = tl.load(a + i[:, None] * n + (k + i)[None, :] * stride)
        y = tl.load(b + (k + i)[:, None] * n + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * n + i[None, :], total.to(TYPE))


def compiled(block):
    kinds = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "n": "i32"}
    kinds |= {"stride": "constexpr", "TYPE": "constexpr", "BLOCK": "constexpr"}
    constants = {"stride": 1, "TYPE": tl.float16, "BLOCK": block}
    attributes = {(index,): [["tt.divisibility", 16]] for index in range(4)}
    source = ASTSource(product.fn, kinds, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TRITON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton-cache"))
    path = tmp_path / "script.py"
    path.write_text(KERNEL + "\n\nif __name__ == '__main__':\n    print(compiled(64).metadata.shared)\n")
    return path


def record(output: Path, *command: object, options: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(cli, ["record", "--output", str(output), *options, "--", *map(str, command)])


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@needs_triton
def test_a_compiled_kernel_becomes_a_line(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    result = record(output, sys.executable, script)
    assert result.exit_code == 0, result.output
    (line,) = lines_of(output)
    assert line["kernel"] == "product"
    assert line["path"] == str(script)
    assert line["line"] == KERNEL.split("\n").index(next(row for row in KERNEL.split("\n") if "def product" in row)) + 1
    assert line["signature"]["a"] == "*fp16"
    assert line["constexprs"] == {"stride": 1, "TYPE": {"dtype": "fp16"}, "BLOCK": 64}
    assert line["divisible_by_16"] == ["a", "b", "c", "n"]
    assert line["config"] == {"kwargs": {"BLOCK": 64}, "num_warps": 4, "num_stages": 2, "num_ctas": 1, "maxnreg": None}
    assert line["target"] == {"backend": "cuda", "arch": 90, "warp_size": 32}
    assert line["observed"]["shared_memory"] > 0


@needs_triton
def test_the_recorded_line_is_judged_with_the_same_bytes(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    record(output, sys.executable, script)
    arguments = [
        "check",
        str(script),
        "--specializations",
        str(output),
        "--arch",
        "sm_90",
        "--format",
        "json",
        "--no-cache",
    ]
    report = json.loads(CliRunner().invoke(cli, arguments).output)
    (result,) = [row for row in report["results"] if row["specialization"] is not None]
    assert result["shared_memory"] == lines_of(output)[0]["observed"]["shared_memory"]


@needs_triton
def test_variables_that_the_compiler_reads_are_recorded(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    record(tmp_path / "lines.jsonl", sys.executable, script)
    assert lines_of(tmp_path / "lines.jsonl")[0]["environment"] == {"TRITON_F32_DEFAULT": "ieee"}


@needs_triton
def test_child_processes_are_recorded(script: Path, tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import os, subprocess, sys\n"
        "import script\n"
        "script.compiled(64)\n"
        "if os.fork() == 0:\n"
        "    script.compiled(128)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "subprocess.run([sys.executable, '-c', 'import script; script.compiled(32)'], check=True, cwd=sys.path[0])\n"
    )
    output = tmp_path / "lines.jsonl"
    result = record(output, sys.executable, parent)
    assert result.exit_code == 0, result.output
    assert sorted(line["constexprs"]["BLOCK"] for line in lines_of(output)) == [32, 64, 128]


@needs_triton
def test_a_second_run_adds_only_what_is_new(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    record(output, sys.executable, script)
    record(output, sys.executable, script)
    assert len(lines_of(output)) == 1
    (tmp_path / "more.py").write_text("import script\nscript.compiled(32)\n")
    record(output, sys.executable, tmp_path / "more.py")
    assert [line["constexprs"]["BLOCK"] for line in lines_of(output)] == [64, 32]


def test_the_commands_status_and_output_are_its_own(tmp_path: Path) -> None:
    result = record(tmp_path / "lines.jsonl", sys.executable, "-c", "import sys; sys.exit(7)")
    assert result.exit_code == 7
    assert "no Python process of the command imported Triton" in result.output
    assert not (tmp_path / "lines.jsonl").exists()


def test_the_users_sitecustomize_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.from_the_user = 41\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = "import sys; sys.exit(from_the_user + ('triton' in sys.modules) + ('torch' in sys.modules))"
    assert record(tmp_path / "lines.jsonl", sys.executable, "-c", check).exit_code == 41


def test_commands_that_cannot_be_used(tmp_path: Path) -> None:
    absent = record(tmp_path / "lines.jsonl", tmp_path / "absent")
    assert absent.exit_code == 2
    assert "cannot be started" in absent.output
    nothing = CliRunner().invoke(cli, ["record"])
    assert nothing.exit_code == 2
    assert "give the command to run after --" in nothing.output
    alone = CliRunner().invoke(cli, ["record", "--arch", "sm_90", "--", "true"])
    assert "--arch goes with --without-gpu" in alone.output
    unnamed = CliRunner().invoke(cli, ["record", "--without-gpu", "--", "true"])
    assert "--without-gpu needs --arch" in unnamed.output


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(UsageError, match=r"notes\.txt:1"):
        add_to_file(path, [{"kernel": "k", "path": "k.py", "signature": {}}])
    assert path.read_text() == "mine\n"


def test_half_a_line_of_a_killed_process_is_skipped(tmp_path: Path) -> None:
    row = {"kernel": "k", "path": "k.py", "signature": {"n": "i32"}, "hash": "h", "observed": {"shared_memory": 8}}
    loaded = {"hash": "h", "loaded": {"load": "ok", "registers": 32, "spill_bytes": 0}}
    text = "\n".join(map(json.dumps, [{"process": 1}, row, loaded])) + '\n{"kernel": "half'
    (tmp_path / "1-a.jsonl").write_text(text)
    lines, processes = read_parts(tmp_path)
    assert processes == 1
    assert [line["observed"] for line in lines] == [
        {"shared_memory": 8, "load": "ok", "registers": 32, "spill_bytes": 0}
    ]


def test_of_two_lines_for_one_specialization_the_fuller_stays() -> None:
    plain = {"kernel": "k", "observed": {"shared_memory": 8}}
    full = {"kernel": "k", "observed": {"shared_memory": 8, "load": "ok"}}
    assert merged([full], [plain]) == [full]
    assert merged([plain], [full]) == [full]


# ------------------------------------------------------------------------------------------------------ without a GPU


@needs_torch
@pytest.mark.slow
def test_launches_without_a_gpu(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from fixtures.matmul import matmul\n"
        "assert torch.cuda.get_device_capability() == (12, 0)\n"
        "a = torch.randn(256, 512, device='cuda', dtype=torch.bfloat16)\n"
        "assert a.is_cuda and a.device.type == 'cuda'\n"
        "assert matmul(a, a.t().contiguous(), 'leaky_relu').shape == (256, 256)\n"
    )
    output = tmp_path / "lines.jsonl"
    result = record(output, sys.executable, script, options=("--without-gpu", "--arch", "sm_120"))
    assert result.exit_code == 0, result.output
    lines = lines_of(output)
    assert len(lines) == 5
    assert {line["signature"]["a_ptr"] for line in lines} == {"*bf16"}
    over = [line["observed"] for line in lines if line["observed"]["load"] != "ok"]
    assert [(row["shared_memory"], row["load"]["limit"]) for row in over] == [(131072, 101376)]


# -------------------------------------------------------------------------------------------------------- from a cache


def test_a_real_cache_gives_lines(tmp_path: Path) -> None:
    with tarfile.open(DATA / "real_cache.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    output = tmp_path / "lines.jsonl"
    result = CliRunner().invoke(cli, ["record", "--from-cache", "--output", str(output), str(tmp_path / "realcache")])
    assert result.exit_code == 0, result.output
    lines = {line["kernel"]: line for line in lines_of(output)}
    assert sorted(lines) == ["mm_plain", "softmax_rows", "transpose_copy"]
    assert lines["softmax_rows"]["signature"] == {"x": "*fp32", "y": "*fp32", "N": "i32", "sx": "i32"}
    assert lines["softmax_rows"]["divisible_by_16"] == ["x", "y"]
    assert sorted(row["shared_memory"] for row in lines["transpose_copy"]["observed"]) == [16384, 65536, 524288]


@needs_triton
def test_harvested_lines_are_judged_with_the_caches_bytes(script: Path, tmp_path: Path) -> None:
    """A cache that the real Triton made here; the constexpr that no file holds is given with --bind."""
    assert record(tmp_path / "unused.jsonl", sys.executable, script).exit_code == 0
    output = tmp_path / "harvested.jsonl"
    result = CliRunner().invoke(cli, ["record", "--from-cache", "--output", str(output)])
    assert result.exit_code == 0, result.output
    (line,) = lines_of(output)
    assert line["assumed"] == {"stride": 1}
    arguments = ["check", str(script), "--specializations", str(output), "--bind", "TYPE=fp16", "--arch", "sm_90"]
    report = json.loads(CliRunner().invoke(cli, [*arguments, "--format", "json", "--no-cache"]).output)
    bytes_by_block = {row["config"]["kwargs"]["BLOCK"]: row["shared_memory"] for row in report["results"]}
    (observed,) = line["observed"]
    assert bytes_by_block[64] == observed["shared_memory"]


def test_a_cache_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["record", "--from-cache", str(tmp_path / "absent")])
    assert result.exit_code == 2
    assert "no such folder" in result.output


def test_arguments_that_are_printed_by_number_are_named_by_the_source(tmp_path: Path) -> None:
    """As Triton 3.4 prints them; a launch whose arguments were not all kept cannot be told, and gives no line."""
    source = tmp_path / "kernel.py"
    source.write_text(KERNEL.replace("stride, TYPE", "TYPE"))
    folder = tmp_path / "cache" / "HASH"
    folder.mkdir(parents=True)
    metadata = {
        "hash": "h",
        "name": "product",
        "shared": 64,
        "num_warps": 4,
        "num_stages": 2,
        "triton_version": "3.4.0",
    }
    metadata["target"] = {"backend": "cuda", "arch": 90, "warp_size": 32}
    (folder / "product.json").write_text(json.dumps(metadata))
    kinds = ["!tt.ptr<f16>", "!tt.ptr<f16>", "!tt.ptr<f16>", "i32"]
    for count, expected in ((4, [["a", "b", "c", "n"]]), (3, [])):
        arguments = ", ".join(f"%arg{index}: {kind} loc(unknown)" for index, kind in enumerate(kinds[:count]))
        (folder / "product.ttir").write_text(f"module {{\n  tt.func public @product({arguments}) attributes {{}} {{\n")
        output = tmp_path / f"{count}.jsonl"
        command = ["record", "--from-cache", "--source", str(source), "--output", str(output), str(folder.parent)]
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, result.output
        names = [[name for name, kind in line["signature"].items() if kind != "constexpr"] for line in lines_of(output)]
        assert names == expected
