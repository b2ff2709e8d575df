"""The lower bound of registers: what counts, what does not, and that ptxas never needs fewer.

The rows of a real H200 are the large test of it: of 4,395 with known registers none that did not spill had fewer than the
bound. Here stand the cases that decide how it counts, and small kernels of our own against the installed Triton's ptxas.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from slicing import job, outcome, slice_kernel

from smemcheck.lower.pool import Pool
from smemcheck.lower.worker import registers
from smemcheck.lower.worker.layouts import Layouts, tensor
from smemcheck.model import Config, Footprint

LAYOUTS = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
#mma2 = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#linear = #ttg.linear<{register = [[0, 1], [0, 2], [0, 0], [64, 0]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], block = []}>
"""
ALIASES = dict(line.split(" = ", 1) for line in LAYOUTS.strip().splitlines())


@pytest.mark.parametrize(
    ("kind", "elements"),
    [
        ("tensor<128x128xf32, #mma>", 128),
        ("tensor<64x256xf32, #mma>", 128),
        # 16 rows for 4 warps of 16: the warps hold the same.
        ("tensor<16x128xf32, #mma>", 64),
        ("tensor<128x128xf32, #mma2>", 128),
        ("tensor<64x64xf32, #blocked>", 32),
        # 64 columns fill a row of lanes, 16 columns only a quarter of it.
        ("tensor<64x16xf32, #blocked>", 32),
        ("tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>", 8),
        ("tensor<64xf32, #ttg.slice<{dim = 0, parent = #blocked}>>", 4),
        ("tensor<1x64xf32, #blocked>", 4),
        ("tensor<65536xf32, #row>", 512),
        ("tensor<128x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>", 64),
        ("tensor<64x128xf16, #ttg.dot_op<{opIdx = 1, parent = #mma2, kWidth = 2}>>", 128),
        # Of four register bases one repeats.
        ("tensor<128x16xf32, #linear>", 8),
        ("tensor<64x64xf32, #ttg.unheard_of<{}>>", 0),
    ],
)
def test_elements_of_a_thread(kind: str, elements: int) -> None:
    described = tensor(kind)
    assert described is not None
    assert Layouts(ALIASES).elements(described, described.varied) == elements


def test_a_dimension_along_which_nothing_varies_is_held_once() -> None:
    described = tensor("tensor<128x128xf32, #mma>")
    assert described is not None
    assert Layouts(ALIASES).elements(described, 0b01) == 4


def module(body: str) -> str:
    return (
        f'{LAYOUTS}module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32}} {{\n'
        "  tt.func public @kernel(%p: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {\n"
        "    %zero = arith.constant dense<0.000000e+00> : tensor<128x128xf32, #mma>\n"
        "    %none = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #blocked>\n"
        "    %c0_i32 = arith.constant 0 : i32\n    %c64_i32 = arith.constant 64 : i32\n"
        "    %a = ttg.local_alloc : () -> !ttg.memdesc<128x64xf16, #shared, #smem, mutable>\n"
        "    %rows = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>>\n"
        "    %row = tt.expand_dims %rows {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #blocked}>> -> tensor<1x64xi32, #blocked>\n"
        "    %one = tt.splat %p : !tt.ptr<f32> -> tensor<1x64x!tt.ptr<f32>, #blocked>\n"
        "    %line = tt.addptr %one, %row : tensor<1x64x!tt.ptr<f32>, #blocked>, tensor<1x64xi32, #blocked>\n"
        "    %many = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #blocked>\n"
        "    %wide = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32, #row>\n"
        "    %all = tt.splat %p : !tt.ptr<f32> -> tensor<4096x!tt.ptr<f32>, #row>\n"
        "    %each = tt.addptr %all, %wide : tensor<4096x!tt.ptr<f32>, #row>, tensor<4096xi32, #row>\n"
        f"{textwrap.indent(textwrap.dedent(body), '    ')}    tt.return\n  }}\n}}\n"
    )


ACCUMULATE = """\
%r = scf.for %i = %c0_i32 to %n step %c64_i32 iter_args(%acc = %zero) -> (tensor<128x128xf32, #mma>)  : i32 {
  %next = ttng.warp_group_dot %a, %a, %acc {inputPrecision = 0 : i32} : !ttg.memdesc<128x64xf16> * !ttg.memdesc<64x128xf16> -> tensor<128x128xf32, #mma>
  scf.yield %next : tensor<128x128xf32, #mma>
}
"""
STORE = "%s = ttg.local_alloc %r : (tensor<128x128xf32, #mma>) -> !ttg.memdesc<128x128xf32>\nttng.async_tma_copy_local_to_global %s : !ttg.memdesc<128x128xf32>\n"


def test_an_accumulator_is_held_around_the_loop() -> None:
    assert registers.at_least(module(ACCUMULATE + STORE)) == 128


def test_what_nobody_reads_is_not_held() -> None:
    assert registers.at_least(module(ACCUMULATE)) == 0


def test_a_carried_tile_of_data_is_held_with_its_sum() -> None:
    body = """\
    %pq = tt.addptr %many, %many : tensor<64x64x!tt.ptr<f32>, #blocked>, tensor<64x64xi32, #blocked>
    %x = ttg.local_load %a : !ttg.memdesc<64x64xf32> -> tensor<64x64xf32, #blocked>
    %r:2 = scf.for %i = %c0_i32 to %n step %c64_i32 iter_args(%sum = %none, %tile = %x) -> (tensor<64x64xf32, #blocked>, tensor<64x64xf32, #blocked>)  : i32 {
      %more = arith.addf %sum, %tile : tensor<64x64xf32, #blocked>
      %next = ttg.local_load %a : !ttg.memdesc<64x64xf32> -> tensor<64x64xf32, #blocked>
      scf.yield %more, %next : tensor<64x64xf32, #blocked>, tensor<64x64xf32, #blocked>
    }
    tt.store %many, %r#0 : tensor<64x64x!tt.ptr<f32>, #blocked>
    """
    assert registers.at_least(module(body)) == 64


def test_a_sum_of_constants_and_indices_is_not_held() -> None:
    body = """\
    %c = arith.constant dense<1.000000e+00> : tensor<64x64xf32, #blocked>
    %r = scf.for %i = %c0_i32 to %n step %c64_i32 iter_args(%sum = %none) -> (tensor<64x64xf32, #blocked>)  : i32 {
      %more = arith.addf %sum, %c : tensor<64x64xf32, #blocked>
      scf.yield %more : tensor<64x64xf32, #blocked>
    }
    tt.store %many, %r : tensor<64x64x!tt.ptr<f32>, #blocked>
    """
    assert registers.at_least(module(body)) == 0


def test_a_row_that_is_spread_over_a_tile_is_held_once() -> None:
    body = """\
    %r = scf.for %i = %c0_i32 to %n step %c64_i32 iter_args(%sum = %none) -> (tensor<64x64xf32, #blocked>)  : i32 {
      %x = tt.load %line : tensor<1x64x!tt.ptr<f32>, #blocked>
      %tile = tt.broadcast %x : tensor<1x64xf32, #blocked> -> tensor<64x64xf32, #blocked>
      %more = arith.addf %sum, %tile : tensor<64x64xf32, #blocked>
      scf.yield %more : tensor<64x64xf32, #blocked>
    }
    tt.store %many, %r : tensor<64x64x!tt.ptr<f32>, #blocked>
    """
    assert registers.at_least(module(body)) == 4


REDUCE = """\
%x = tt.load %each : tensor<4096x!tt.ptr<f32>, #row>
%m = "tt.reduce"(%x) <{axis = 0 : i32}> ({
^bb0(%l: f32, %o: f32):
  %z = arith.maxnumf %l, %o : f32
  tt.reduce.return %z : f32
}) : (tensor<4096xf32, #row>) -> f32
%s = tt.splat %m : f32 -> tensor<4096xf32, #row>
"""


def test_what_a_reduction_reads_and_what_follows_reads_again_is_held_meanwhile() -> None:
    body = (
        REDUCE
        + "%y = arith.subf %x, %s : tensor<4096xf32, #row>\ntt.store %each, %y : tensor<4096x!tt.ptr<f32>, #row>\n"
    )
    assert registers.at_least(module(body)) == 32


def test_what_only_the_reduction_reads_is_not() -> None:
    body = REDUCE + "tt.store %each, %s : tensor<4096x!tt.ptr<f32>, #row>\n"
    assert registers.at_least(module(body)) == 0


def test_half_precision_is_held_in_half_the_registers() -> None:
    body = (
        REDUCE
        + "%y = arith.subf %x, %s : tensor<4096xf32, #row>\ntt.store %each, %y : tensor<4096x!tt.ptr<f32>, #row>\n"
    )
    narrow = body.replace("%x = tt.load", "%h = tt.load").replace(
        "%m = ", "%x = arith.extf %h : tensor<4096xf16, #row> to tensor<4096xf32, #row>\n%m = ", 1
    )
    narrow = narrow.replace(
        "%h = tt.load %each : tensor<4096x!tt.ptr<f32>", "%h = tt.load %each : tensor<4096x!tt.ptr<f16>"
    )
    assert registers.at_least(module(narrow)) == 16


@pytest.mark.parametrize(
    ("bounds", "least"),
    [
        ("%c0_i32 to %n", 32),
        # One iteration at most is no loop, and few iterations may be unrolled and mixed.
        ("%c0_i32 to %c64_i32", 0),
        ("%c0_i32 to %short", 0),
        ("%n to %after", 0),
        ("%c0_i32 to %long", 32),
    ],
)
def test_a_loop_that_may_be_unrolled_holds_nothing(bounds: str, least: int) -> None:
    body = f"""\
    %c512_i32 = arith.constant 512 : i32
    %long = arith.constant 8192 : i32
    %short = arith.minsi %n, %c512_i32 : i32
    %after = arith.addi %n, %c64_i32 : i32
    %r = scf.for %i = {bounds} step %c64_i32 iter_args(%sum = %none) -> (tensor<64x64xf32, #blocked>)  : i32 {{
      %x = ttg.local_load %a : !ttg.memdesc<64x64xf32> -> tensor<64x64xf32, #blocked>
      %more = arith.addf %sum, %x : tensor<64x64xf32, #blocked>
      scf.yield %more : tensor<64x64xf32, #blocked>
    }}
    tt.store %many, %r : tensor<64x64x!tt.ptr<f32>, #blocked>
    """
    assert registers.at_least(module(body)) == least


def test_nothing_is_claimed_of_specialised_warps() -> None:
    assert registers.at_least(module("ttg.warp_specialize(%a)\n" + ACCUMULATE + STORE)) is None


# ------------------------------------------------------------------------------------- against the installed Triton

KERNELS = Path(__file__).with_name("data")
TYPES = {
    "matmul": {
        **dict.fromkeys(("a", "b", "c"), "*fp16"),
        **dict.fromkeys(("M", "N", "K", "sam", "sbk", "scm"), "i32"),
        **dict.fromkeys(("BM", "BN", "BK"), "constexpr"),
    },
    "attention": {
        **dict.fromkeys("qkvo", "*fp16"),
        "scale": "fp32",
        "n": "i32",
        "stride": "i32",
        **dict.fromkeys(("D", "BM", "BN"), "constexpr"),
    },
    "softmax": {"x": "*bf16", "y": "*fp32", "n": "i32", "stride": "i32", "BLOCK": "constexpr"},
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pytest.importorskip("triton", reason="lowering needs Triton")
    with Pool(workers=1, time_limit=300) as made:
        yield made


def lowered(pool: Pool, name: str, target: str, config: Config, *, registers: bool = False) -> Footprint:
    kernel = slice_kernel((KERNELS / f"{name}.py").read_text(encoding="utf-8"), name)
    footprint = outcome(pool, job(kernel, target, types=TYPES[name], config=config, registers=registers))
    assert isinstance(footprint, Footprint)
    return footprint


def tiles(**extents: int) -> Config:
    options = {key: extents.pop(key) for key in ("num_warps", "num_stages") if key in extents}
    return Config(tuple(extents.items()), **options)


@pytest.mark.parametrize(
    ("name", "target", "config", "least"),
    [
        # The accumulator of 128 × 128 in 128 threads, and of 256 × 256: more than a thread can have.
        ("matmul", "sm_90", tiles(BM=128, BN=128, BK=64, num_warps=4, num_stages=2), 128),
        ("matmul", "sm_90", tiles(BM=256, BN=256, BK=32, num_warps=4, num_stages=2), 512),
        # In tensor memory it takes no registers.
        ("matmul", "sm_100", tiles(BM=128, BN=128, BK=64, num_warps=4, num_stages=2), 0),
    ],
)
def test_accumulators(pool: Pool, name: str, target: str, config: Config, least: int) -> None:
    assert lowered(pool, name, target, config).registers_at_least == least


def test_amd_gets_no_bound(pool: Pool) -> None:
    config = tiles(BM=128, BN=128, BK=32, num_warps=4, num_stages=2)
    assert lowered(pool, "matmul", "gfx942", config).registers_at_least is None


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("name", "config", "spills"),
    [
        ("matmul", tiles(BM=128, BN=128, BK=32, num_warps=4, num_stages=2), False),
        ("matmul", tiles(BM=256, BN=256, BK=32, num_warps=4, num_stages=2), True),
        ("attention", tiles(D=64, BM=128, BN=64, num_warps=4, num_stages=2), False),
        ("attention", tiles(D=256, BM=128, BN=32, num_warps=4, num_stages=1), True),
        ("softmax", tiles(BLOCK=4096, num_warps=4), False),
        ("softmax", tiles(BLOCK=65536, num_warps=4), True),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_ptxas_never_needs_fewer(pool: Pool, name: str, config: Config, spills: bool, target: str) -> None:
    footprint = lowered(pool, name, target, config, registers=True)
    assert footprint.registers is not None
    assert footprint.registers_at_least is not None
    assert bool(footprint.spill_bytes) == spills
    assert (footprint.registers_at_least > 255) == spills
    assert spills or footprint.registers_at_least <= footprint.registers
