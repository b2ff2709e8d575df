"""One run of Triton's frontend serves all jobs for which it would do the same, and a copy lowers as the original does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slicing import job, slice_kernel
from test_exact import CASES

from smemcheck.lower.jobs import encode, encode_kernel
from smemcheck.model import Config, Job

triton = pytest.importorskip("triton", reason="lowering needs Triton")
from smemcheck.lower.worker import lowering  # noqa: E402
from smemcheck.lower.worker.frontend import Frontend  # noqa: E402
from smemcheck.lower.worker.request import Request  # noqa: E402
from smemcheck.lower.worker.slices import Slice  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:triton")
DATA = Path(__file__).with_name("data")
CUDA = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.fixture(autouse=True)
def _own_driver() -> Iterator[None]:
    """The worker replaces the active driver of its process; here it is put back."""
    from triton.runtime.driver import driver

    before = getattr(driver, "_active", None)
    yield
    driver._active = before


def request(one: Job, kernel: Slice) -> Any:
    encoded = json.loads(json.dumps(encode(one)))
    return Request(encoded, kernel)


def built(one: Job) -> Slice:
    return Slice(json.loads(encode_kernel(one.kernel)))


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
    functions = built(jobs[0])
    shared = Frontend()
    for one in jobs:
        alone = lowering.allocate(request(one, functions), Frontend())
        assert lowering.allocate(request(one, functions), shared) == alone
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
    jobs = {target: job(kernel, target, types=types, config=Config((("B", 1024),))) for target in CUDA}
    functions = built(jobs["sm_80"])
    shared = Frontend()
    needs = {name: lowering.allocate(request(one, functions), shared)["shared_memory"] for name, one in jobs.items()}
    assert needs == {"sm_80": 0, "sm_89": 0, "sm_90": 0, "sm_100": needs["sm_100"], "sm_120": needs["sm_100"]}
    assert needs["sm_100"] > 0
