"""What a report says of constexprs that ``@triton.heuristics`` gives."""

from __future__ import annotations

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Unknown
from smemcheck.report.json_report import document

KERNEL = """
import torch
import triton
import triton.language as tl

@triton.heuristics({
    "HAS_BIAS": lambda args: args["bias"] is not None,
    "EVEN": lambda args: args["D"] % args["BLOCK"] == 0,
})
@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=[])
@triton.jit
def add(x, bias, D: tl.constexpr, HAS_BIAS: tl.constexpr, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < D)
    if HAS_BIAS:
        v += tl.load(bias + i, mask=i < D)
    tl.store(x + i, v, mask=i < D)

def run(x, bias=None):
    add[(1,)](x, bias, D=x.shape[-1])
"""


def constants(tmp_path, **bound):
    """The constants of each specialisation in the JSON report."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    settings = Settings(targets=("sm_90",), cache=False)
    report = pipeline.check(
        [str(tmp_path)], settings, lower=lambda jobs: ((i, Unknown("not asked")) for i, _ in enumerate(jobs))
    )
    return [one["constexprs"] for one in document(report)["specializations"]]


def test_a_value_that_every_config_gets_is_said_one_that_depends_on_the_config_is_not(tmp_path):
    by_size = {(one["D"], "bias" not in one): one for one in constants(tmp_path)}
    assert by_size[64, True]["HAS_BIAS"] is True
    assert by_size[64, True].get("EVEN") is None  # true for a BLOCK of 64, false for 128
    assert by_size[128, False] == {"bias": None, "D": 128, "HAS_BIAS": False, "EVEN": True}
