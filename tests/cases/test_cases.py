"""Public reports of kernels that a GPU had no room for: kernels of the same shape need the reported bytes.

Each case is called by its project and number. The kernels in ``kernels/`` are ours; blocks, warps, stages, dtypes and the
target are those of the report, and where a report leaves something open (a page size, how many heads share a key) the case
says so. Bytes are compared with the installed Triton, whose version decides; the slow test asks other ones
(``SMEMCHECK_TRITONS``, see ``tests/versions``).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.lower import pool_for
from smemcheck.lower.installation import identify
from smemcheck.lower.pool import Pool
from smemcheck.model import Footprint, Report, Result

pytest.importorskip("triton", reason="the reported bytes are those that a compiler says")

KERNELS = Path(__file__).parent / "kernels"
FILES = {
    "tile_product": "products.py",
    "persistent_product": "products.py",
    "expert_product": "products.py",
    "grouped_decode": "attention.py",
    "paged_attention": "attention.py",
    "added": "elementwise.py",
}
INTERPRETERS = [python for python in os.environ.get("SMEMCHECK_TRITONS", "").split(os.pathsep) if python]


@dataclass(frozen=True)
class Case:
    """A report. ``required`` and ``limit`` are in the unit of the cause; ``bytes_of`` holds versions that need another number.

    ``triton``: versions for which the report's number was confirmed; others are not asserted unless ``bytes_of`` has them.
    """

    name: str
    kernel: str
    target: str
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    num_warps: int
    num_stages: int
    required: int
    limit: int
    triton: tuple[str, ...]
    cause: str = "shared memory"
    bytes_of: Mapping[str, int] = field(default_factory=dict)
    tensor_memory: int = 0
    odd: tuple[str, ...] = ()  # integers that are no multiple of 16

    def __str__(self) -> str:
        return self.name

    def line(self) -> dict[str, Any]:
        """The launch as a recorded specialisation."""
        return {
            "kernel": self.kernel,
            "path": FILES[self.kernel],
            "signature": {**self.types, **dict.fromkeys(self.constants, "constexpr")},
            "constexprs": dict(self.constants),
            "divisible_by_16": [n for n, kind in self.types.items() if kind != "fp32" and n not in self.odd],
            "config": {"kwargs": {}, "num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": 1},
        }

    def needs(self, version: str) -> int | None:
        """What the case needs with a version such as ``3.6``; ``None`` where nothing is known of it."""
        return self.bytes_of.get(version, self.required if version in self.triton else None)


def product(dtype: str, **constants: Any) -> dict[str, Any]:
    """The arguments of a product: row-major operands unless ``constants`` say otherwise."""
    unit = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, **constants}
    if "stride_bk" in constants and "N" not in constants:  # the weight is a transposed view
        del unit["stride_bn"]
    names = ("M", "N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn")
    types = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{dtype}"), **{n: "i32" for n in names if n not in unit}}
    return {"types": types, "constants": unit}


def attention(dtype: str, **constants: Any) -> dict[str, Any]:
    strides = (
        "table", "q_token", "q_head", "out_token", "out_head", "k_page", "k_slot", "k_head", "v_page", "v_slot", "v_head"
    )  # fmt: skip
    types = {
        **dict.fromkeys(("out_ptr", "q_ptr", "k_cache", "v_cache"), f"*{dtype}"),
        **dict.fromkeys(("page_table", "lengths", "starts"), "*i32"),
        "softmax_scale": "fp32",
        **{f"stride_{name}": "i32" for name in strides},
    }
    return {"types": types, "constants": {"GROUP": 2, "PAGE": 16, **constants}}  # both guessed


def decode(cache: str) -> dict[str, Any]:
    strides = ("table", "q_row", "q_head", "k_page", "k_row", "out_row", "out_head", "out_split")
    types = {
        "q_ptr": "*bf16", "k_cache": f"*{cache}", "softmax_scale": "fp32", "k_scale_ptr": "*fp32", "page_table": "*i32",
        "lengths": "*i32", "partial_ptr": "*fp32", **{f"stride_{name}": "i32" for name in strides},
    }  # fmt: skip
    sizes = {"HEADS": 16, "DIM": 512, "ROTARY": 64, "BLOCK_T": 32, "BLOCK_H": 16}
    return {
        "types": types,
        "constants": {**sizes, "PAGE": 16, "SPLITS": 4},
        "odd": ("stride_out_head", "stride_out_split"),
    }


def experts(dtype: str, **constants: Any) -> dict[str, Any]:
    types = {
        "a_ptr": f"*{dtype}", "b_ptr": f"*{dtype}", "c_ptr": "*bf16", "a_scale_ptr": "*fp32", "b_scale_ptr": "*fp32",
        **dict.fromkeys(("token_ids", "expert_ids", "padded_ptr"), "*i32"),
        **dict.fromkeys(("N", "K", "tokens", "stride_am", "stride_be", "stride_bn", "stride_cm"), "i32"),
    }  # fmt: skip
    return {"types": types, "constants": {"stride_ak": 1, "stride_bk": 1, "stride_cn": 1, "TOP_K": 8, **constants}}


def added(block: int) -> dict[str, Any]:
    types = {**dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32"), "n": "i32"}
    return {"types": types, "constants": {"BLOCK": block}}


LARGE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
FP32 = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128}
ONES = dict.fromkeys(("N", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn"), 1)
ALL = ("3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
RDNA = {"3.4": 67_584, "3.5": 67_584, "3.8": 66_048, "3.9": 66_048}  # padding changed

CASES = (
    # The weight of a linear layer: column-major, so its inner stride is 1.
    Case("sgl-34486", "persistent_product", "sm_89", **product("bf16", stride_bk=1, **LARGE, PROGRAMS=142),
         num_warps=8, num_stages=3, required=106_496, limit=101_376, triton=ALL, bytes_of={"3.4": 115_200}),
    Case("vllm-52960", "persistent_product", "sm_89",
         **product("fp32", **ONES, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, PROGRAMS=92),
         num_warps=8, num_stages=3, required=131_072, limit=101_376, triton=ALL, bytes_of={"3.4": 82_944, "3.7": 98_304, "3.8": 98_304, "3.9": 98_304}),
    Case("vllm-52960 with more columns", "persistent_product", "sm_89",
         **product("fp32", BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, PROGRAMS=92),
         num_warps=8, num_stages=3, required=81_920, limit=101_376, triton=ALL, bytes_of={"3.4": 82_432}),
    # Before 3.6 there was no sm_121.
    Case("vllm-54013-fp8-s2", "grouped_decode", "sm_121", **decode("fp8e4nv"),
         num_warps=4, num_stages=2, required=102_400, limit=101_376, triton=ALL[2:]),
    Case("vllm-54013-bf16-s1", "grouped_decode", "sm_121", **decode("bf16"),
         num_warps=4, num_stages=1, required=59_392, limit=101_376, triton=ALL[2:]),
    Case("vllm-46721", "grouped_decode", "sm_120", **decode("fp8e4nv"),
         num_warps=4, num_stages=2, required=102_400, limit=101_376, triton=ALL),
    Case("vllm-57712", "paged_attention", "sm_75", **attention("fp16", DIM=512, BLOCK_M=16, BLOCK_Q=8, TILE=32),
         num_warps=4, num_stages=3, required=98_304, limit=65_536, triton=ALL),
    # The limit is inclusive.
    Case("vllm-57712 with the tile of its fix", "paged_attention", "sm_75",
         **attention("fp16", DIM=512, BLOCK_M=16, BLOCK_Q=8, TILE=16),
         num_warps=4, num_stages=3, required=65_536, limit=65_536, triton=ALL),
    Case("aiter-4385", "paged_attention", "gfx1201", **attention("bf16", DIM=256, BLOCK_M=16, BLOCK_Q=8, TILE=64),
         num_warps=2, num_stages=2, required=65_792, limit=65_536, triton=ALL, bytes_of=RDNA),
    Case("aiter-4385 on gfx1200", "paged_attention", "gfx1200",
         **attention("bf16", DIM=256, BLOCK_M=16, BLOCK_Q=8, TILE=64),
         num_warps=2, num_stages=2, required=65_792, limit=65_536, triton=ALL, bytes_of=RDNA),
    Case("aiter-4385 with one stage", "paged_attention", "gfx1201",
         **attention("bf16", DIM=256, BLOCK_M=16, BLOCK_Q=8, TILE=64),
         num_warps=2, num_stages=1, required=32_768, limit=65_536, triton=ALL),
    Case("rocm-vllm-919", "paged_attention", "gfx1151", **attention("bf16", DIM=512, BLOCK_M=128, BLOCK_Q=64, TILE=16),
         num_warps=4, num_stages=1, required=131_072, limit=65_536, triton=ALL),
    Case("sgl-8513", "expert_product", "sm_89", **experts("fp8e4nv", BLOCK_M=128, BLOCK_N=256, BLOCK_K=128),
         num_warps=8, num_stages=4, required=147_456, limit=101_376, triton=ALL),
    Case("sgl-8513 on sm_120", "expert_product", "sm_120",
         **experts("fp8e4nv", BLOCK_M=128, BLOCK_N=256, BLOCK_K=128),
         num_warps=8, num_stages=4, required=147_456, limit=101_376, triton=ALL),
    # Reported with a Triton of 2023 that kept one buffer more; since then it fits.
    Case("triton-1561", "tile_product", "sm_80", **product("fp16", **LARGE, PRECISION="tf32"),
         num_warps=4, num_stages=4, required=147_456, limit=166_912, triton=ALL),
    Case("triton-1561 on sm_90", "tile_product", "sm_90", **product("fp16", **LARGE, PRECISION="tf32"),
         num_warps=4, num_stages=4, required=196_608, limit=232_448, triton=ALL),
    Case("triton-1561 on sm_100", "tile_product", "sm_100", **product("fp16", **LARGE, PRECISION="tf32"),
         num_warps=4, num_stages=4, required=196_624, limit=232_448, tensor_memory=256, triton=ALL),
    Case("pt-181198", "tile_product", "sm_90", **product("fp32", **FP32, PRECISION="ieee"),
         num_warps=4, num_stages=4, required=294_912, limit=232_448, triton=ALL),
    Case("pt-181198 on sm_100", "tile_product", "sm_100", **product("fp32", **FP32, PRECISION="ieee"),
         num_warps=4, num_stages=4, required=294_912, limit=232_448, triton=ALL),
    Case("pt-181198 with tf32", "tile_product", "sm_90", **product("fp32", **FP32, PRECISION="tf32"),
         num_warps=4, num_stages=4, required=393_216, limit=232_448, triton=ALL),
    Case("triton-threads-test", "added", "sm_90", **added(128),
         num_warps=128, num_stages=3, required=4_096, limit=1_024, cause="threads", triton=ALL),
    Case("triton-1099", "added", "sm_80", **added(65_536),
         num_warps=64, num_stages=3, required=2_048, limit=1_024, cause="threads", triton=ALL),
)  # fmt: skip
"""Not among them: reports of private kernels, of languages that are forks, and those that leave the blocks or dtypes open."""


def judged(case: Case, folder: Path, pool: Pool | None = None, tritons: tuple[str, ...] = ()) -> Report:
    recorded = folder / "recorded.jsonl"
    recorded.write_text(json.dumps(case.line()) + "\n", encoding="utf-8")
    settings = Settings(targets=(case.target,), specializations=(str(recorded),), cache=False, jobs=1, tritons=tritons)
    return pipeline.check([str(KERNELS / FILES[case.kernel])], settings, lower=pool.run if pool is not None else None)


def asserted(case: Case, result: Result, version: str, limit: int | None) -> None:
    """The result is what the report says for this version."""
    needed = case.needs(version)
    if needed is None:
        pytest.skip(f"{case.name} was confirmed with Triton {', '.join(case.triton)}, and this is {version}")
    assert isinstance(result.outcome, Footprint), result.verdict
    over = needed > case.limit
    if case.cause == "threads":
        assert result.outcome.threads == needed
    else:
        assert (result.outcome.shared_memory, limit) == (needed, case.limit)
        assert result.outcome.tensor_memory == case.tensor_memory
    assert (result.verdict.kind.value, result.verdict.cause) == (("pruned", case.cause) if over else ("fits", None))
    if over:
        assert (result.verdict.need, result.verdict.limit) == (needed, case.limit)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_for(Settings(cache=False, jobs=1), sys.executable) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reported_bytes_and_verdict(case: Case, tmp_path: Path, pool: Pool) -> None:
    report = judged(case, tmp_path, pool)
    (result,) = report.results
    assert report.triton
    version = ".".join(report.triton.split(".")[:2])
    asserted(case, result, version, report.targets[0].shared_memory_limit)
    # None of these kernels is autotuned: nothing prunes the config, so the user's program would end.
    rules = {finding.rule: finding.severity.value for finding in report.findings}
    assert rules.get("SMC100") == ("error" if (case.needs(version) or 0) > case.limit else None)


@pytest.mark.slow
@pytest.mark.skipif(not INTERPRETERS, reason="SMEMCHECK_TRITONS names no interpreters")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reported_bytes_with_other_versions(case: Case, tmp_path: Path) -> None:
    report = judged(case, tmp_path, tritons=tuple(INTERPRETERS))
    asked = {identify(python) for python in INTERPRETERS} - {None}
    assert len(report.others) >= len(asked) - 1
    for other in report.others:
        version = ".".join(other.name.split()[0].split(".")[:2])
        if case.needs(version) is not None:
            asserted(case, other.results[0], version, report.targets[0].shared_memory_limit)
