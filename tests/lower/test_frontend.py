"""One run of Triton's frontend serves all jobs for which it would do the same, and a copy lowers as the original does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from slicing import job, requests_for, slice_kernel
from test_exact import CASES

from smemcheck.lower.jobs import encode, encode_kernel
from smemcheck.model import Config

triton = pytest.importorskip("triton", reason="lowering needs Triton")
from smemcheck.lower.worker import lowering  # noqa: E402
from smemcheck.lower.worker.frontend import Frontend  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning:triton"), pytest.mark.usefixtures("own_driver")]
DATA = Path(__file__).with_name("data")
CUDA = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("name", CASES)
def test_a_copy_lowers_as_the_original(name: str) -> None:
    path = DATA / f"{name}.py"
    kernel = slice_kernel(path.read_text(encoding="utf-8"), name, str(path))
    kwargs = CASES[name]["configs"][0].kwargs
    jobs = [
        job(kernel, target, types=CASES[name]["types"], config=Config(kwargs, num_warps=warps, num_stages=stages))
        for target in (*CUDA, "gfx942")
        for warps, stages in ((4, 2), (8, 3))
    ]
    shared = Frontend()
    for one in requests_for(jobs):
        alone = lowering.allocate(one, Frontend())
        assert lowering.allocate(one, shared) == alone
    kept = {key: len(modules) for key, modules in shared._kept.items()}
    assert sorted(kept.values()) == [1, 1], "one module for all NVIDIA targets, one for AMD's"


def test_what_the_frontend_asks_of_the_target_keeps_modules_apart() -> None:
    source = """
        import triton.language as tl
        from triton.language.target_info import cuda_capability_geq

        @tl.jit
        def kernel(x, y, B: tl.constexpr):
            at = tl.arange(0, B)
            value = tl.load(x + at)
            if cuda_capability_geq(10, 0):
                value = tl.flip(value, 0)
            tl.store(y + at, value)
    """
    pytest.importorskip("triton.language.target_info", reason="this Triton has no target_info")
    kernel = slice_kernel(source, "kernel")
    types = {"x": "*fp32", "y": "*fp32", "B": "constexpr"}
    asked = requests_for([job(kernel, target, types=types, config=Config((("B", 1024),))) for target in CUDA])
    shared = Frontend()
    needs = {target: lowering.allocate(one, shared)["shared_memory"] for target, one in zip(CUDA, asked, strict=True)}
    assert needs == {"sm_80": 0, "sm_89": 0, "sm_90": 0, "sm_100": needs["sm_100"], "sm_120": needs["sm_100"]}
    assert needs["sm_100"] > 0


def test_triton_may_be_imported_while_a_slice_is_built() -> None:
    """A slice tells ``inspect`` its own functions' lines; those that Triton's library has are read from its files."""
    path = DATA / "softmax.py"
    kernel = slice_kernel(path.read_text(encoding="utf-8"), "softmax", str(path))
    case = CASES["softmax"]
    asked = job(kernel, "sm_90", types=case["types"], config=case["configs"][0])
    (request,) = requests_for([asked])
    encoded = {**encode(asked), "kernel": encode_kernel(kernel), "method": "allocation", "common": "", "handover": ""}
    script = """
import json, sys
from smemcheck.lower.worker.main import Worker
assert "triton" not in sys.modules
print(json.dumps(Worker().answer(json.load(sys.stdin))))
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        input=json.dumps(encoded),
        capture_output=True,
        text=True,
        check=True,
    )
    alone = lowering.allocate(request, Frontend())
    assert json.loads(ran.stdout.splitlines()[-1])["shared_memory"] == alone["shared_memory"] > 0
