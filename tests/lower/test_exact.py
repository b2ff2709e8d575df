"""The early stop gives what the full compile of the same Triton reports, on every target."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from slicing import TARGETS, job, outcome, slice_kernel

from smemcheck.lower.pool import Pool
from smemcheck.model import Config, Failure, FailureKind, Footprint

pytest.importorskip("triton", reason="lowering needs Triton")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:triton")

KERNELS = Path(__file__).with_name("data")
CASES: dict[str, dict[str, Any]] = {
    "matmul": {
        "types": {
            **dict.fromkeys(("a", "b", "c"), "*fp16"),
            **dict.fromkeys(("M", "N", "K", "sam", "sbk", "scm"), "i32"),
            **dict.fromkeys(("BM", "BN", "BK"), "constexpr"),
        },
        "configs": [
            Config((("BM", 128), ("BN", 128), ("BK", 32)), num_warps=4, num_stages=3),
            Config((("BM", 64), ("BN", 128), ("BK", 64)), num_warps=8, num_stages=4),
        ],
    },
    "softmax": {
        "types": {"x": "*bf16", "y": "*fp32", "n": "i32", "stride": "i32", "BLOCK": "constexpr"},
        "configs": [Config((("BLOCK", 4096),), num_warps=8), Config((("BLOCK", 256),), num_warps=1)],
    },
    "attention": {
        "types": {
            **dict.fromkeys("qkvo", "*fp16"),
            "scale": "fp32",
            "n": "i32",
            "stride": "i32",
            **dict.fromkeys(("D", "BM", "BN"), "constexpr"),
        },
        "configs": [Config((("D", 64), ("BM", 128), ("BN", 64)), num_warps=4, num_stages=2)],
    },
}
ROWS = [
    (name, target, index) for name, case in CASES.items() for target in TARGETS for index in range(len(case["configs"]))
]


def full_compile(name: str, target: str, config: Config, cache: Path) -> Any:
    """What ``triton.compile`` reports when the kernel's module is imported, as a user's program would."""
    import triton
    from triton.backends.compiler import GPUTarget

    spec = importlib.util.spec_from_file_location(f"imported_{name}", KERNELS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = TARGETS[target]
    chip = GPUTarget(wanted.backend, wanted.arch, wanted.warp_size)
    backend = triton.compiler.make_backend(chip)
    types = CASES[name]["types"]
    letters = [("D" if kind != "constexpr" else "") + ("S" if kind[0] == "*" else "") for kind in types.values()]
    if wanted.backend == "cuda":
        letters = [letter.replace("S", "") for letter in letters]
    attributes = {(index,): backend.parse_attr(letter) for index, letter in enumerate(letters) if letter}
    source = triton.compiler.ASTSource(getattr(module, name), types, dict(config.kwargs), attributes)
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages, "num_ctas": 1}
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    try:
        return triton.compile(source, target=chip, options=options)
    finally:
        os.environ.pop("TRITON_CACHE_DIR")
        if before is not None:
            os.environ["TRITON_CACHE_DIR"] = before


def asked(pool: Pool, name: str, target: str, config: Config, **more: Any) -> Any:
    path = KERNELS / f"{name}.py"
    kernel = slice_kernel(path.read_text(encoding="utf-8"), name, str(path))
    return outcome(pool, job(kernel, target, types=CASES[name]["types"], config=config, **more))


def lowered(pool: Pool, name: str, target: str, config: Config, **more: Any) -> Footprint:
    footprint = asked(pool, name, target, config, **more)
    assert isinstance(footprint, Footprint), footprint
    return footprint


def assert_equal(pool: Pool, name: str, target: str, index: int, cache: Path) -> None:
    config = CASES[name]["configs"][index]
    try:
        metadata = full_compile(name, target, config, cache).metadata
    except Exception as refusal:  # noqa: BLE001 (what a Triton raises for a target that it cannot lower for)
        failure = asked(pool, name, target, config)
        assert isinstance(failure, Failure), f"the full compile raises {refusal!r}"
        assert failure.kind is FailureKind.UNSUPPORTED
        assert failure.message.startswith(f"Triton {failure.triton} cannot lower for {target}: ")
        return
    footprint = lowered(pool, name, target, config)
    assert footprint.method == "allocation"
    assert footprint.shared_memory == metadata.shared
    assert footprint.tensor_memory == (getattr(metadata, "tmem_size", 0) or 0)
    assert footprint.num_warps == metadata.num_warps
    assert footprint.threads == metadata.num_warps * TARGETS[target].warp_size


def test_a_matmul_needs_what_the_full_compile_says(pool: Pool, tmp_path: Path) -> None:
    assert_equal(pool, "matmul", "sm_90", 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target", "index"), ROWS, ids=["-".join(map(str, row)) for row in ROWS])
def test_each_kernel_needs_what_the_full_compile_says(
    pool: Pool, tmp_path: Path, name: str, target: str, index: int
) -> None:
    assert_equal(pool, name, target, index, tmp_path)


def test_registers_and_spills_come_from_the_binary(pool: Pool, tmp_path: Path) -> None:
    config = CASES["softmax"]["configs"][1]
    footprint = lowered(pool, "softmax", "sm_90", config, registers=True)
    ptx = full_compile("softmax", "sm_90", config, tmp_path).asm["ptx"]
    assert ".entry softmax" in ptx
    assert footprint.method == "full"
    assert footprint.spill_bytes == 0
    assert footprint.registers is not None
    assert 8 <= footprint.registers <= 255


def test_amd_registers_come_from_the_code_objects_metadata(pool: Pool) -> None:
    footprint = lowered(pool, "softmax", "gfx942", CASES["softmax"]["configs"][1], registers=True)
    files = dict(footprint.register_files)
    assert set(files) == {"vgpr", "agpr", "sgpr", "scratch"}
    assert footprint.registers == files["vgpr"] > 0
    assert footprint.spill_bytes == files["scratch"] == 0


def test_registers_of_a_kernel_over_the_limit_are_not_asked_for(pool: Pool) -> None:
    config = Config((("BM", 256), ("BN", 128), ("BK", 64)), num_warps=8, num_stages=4)
    footprint = lowered(pool, "matmul", "sm_120", config, registers=True)
    assert footprint.shared_memory > TARGETS["sm_120"].shared_memory_limit
    assert footprint.registers is None


def test_buffers_name_the_variable_and_its_line(pool: Pool) -> None:
    text = (KERNELS / "matmul.py").read_text(encoding="utf-8").splitlines()
    footprint = lowered(pool, "matmul", "sm_90", CASES["matmul"]["configs"][0])
    left, right = (next(b for b in footprint.buffers if b.variable == name) for name in ("left", "right"))
    assert "left = tl.load(" in text[left.position.line - 1]
    assert "right = tl.load(" in text[right.position.line - 1]
    assert left.position.path == str(KERNELS / "matmul.py")
    # three stages of 128 × 32 halves each
    assert (left.type, left.size) == ("3x128x32xf16", 24_576)
    assert (right.type, right.size) == ("3x32x128xf16", 24_576)
    spans = sorted((buffer.offset, buffer.offset + buffer.size) for buffer in (left, right))
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))


def test_a_kernel_that_stands_elsewhere_has_its_positions_there(pool: Pool) -> None:
    source = (KERNELS / "matmul.py").read_text(encoding="utf-8")
    config = CASES["matmul"]["configs"][0]
    moved = slice_kernel("\n" * 1000 + source, "matmul", "/nowhere/on/this/disk.py")
    footprint = outcome(pool, job(moved, types=CASES["matmul"]["types"], config=config))
    here = lowered(pool, "matmul", "sm_90", config)
    assert footprint.shared_memory == here.shared_memory
    shifted = [(b.variable, b.position.line - 1000) for b in footprint.buffers if b.position]
    assert shifted == [(b.variable, b.position.line) for b in here.buffers if b.position]
    assert {b.position.path for b in footprint.buffers if b.position} == {"/nowhere/on/this/disk.py"}


def test_the_environment_of_a_specialisation_decides(pool: Pool) -> None:
    """Single precision, with and without tensor cores."""
    types = {name: kind.replace("fp16", "fp32") for name, kind in CASES["matmul"]["types"].items()}
    path = KERNELS / "matmul.py"
    kernel = slice_kernel(path.read_text(encoding="utf-8"), "matmul", str(path))
    config = CASES["matmul"]["configs"][0]
    fast = outcome(pool, job(kernel, types=types, config=config))
    exact = outcome(pool, job(kernel, types=types, config=config, environment=(("TRITON_F32_DEFAULT", "ieee"),)))
    assert exact.shared_memory != fast.shared_memory


def test_the_worker_runs_on_the_interpreter_it_is_given() -> None:
    with Pool(workers=1, python=sys.executable) as own:
        import triton

        assert own.triton_version() == triton.__version__
