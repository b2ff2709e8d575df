"""Targets of one family: lowered once for all of them, and each answer is the one that the target gets alone."""

from __future__ import annotations

from typing import Any

import pytest
from slicing import job, requests_for, slice_kernel
from test_exact import CASES, KERNELS

from smemcheck.model import Config

triton = pytest.importorskip("triton", reason="lowering needs Triton")
from smemcheck.lower.worker import lowering  # noqa: E402
from smemcheck.lower.worker.versions import FAMILIES  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning:triton"), pytest.mark.usefixtures("own_driver")]

SMALL_FLOATS = """
    import triton.language as tl

    @tl.jit
    def kernel(x, y, z, B: tl.constexpr):
        rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        total = tl.zeros((B, B), tl.float32)
        for k in range(0, 1024, B):
            total = tl.dot(tl.load(x + rows * 1024 + k + columns), tl.load(y + (k + rows) * B + columns), total)
        tl.store(z + rows * B + columns, total)
"""


def answers(source: str, name: str, types: dict[str, str], config: Config, targets: list[str]) -> tuple[list[Any], int]:
    """What one worker answers for each target, equal to what it is asked alone, and how often it went all the way."""
    kernel = slice_kernel(source, name)
    asked = requests_for([job(kernel, target, types=types, config=config) for target in targets])
    lower = lowering.Lower()
    together = [lower(one, lowering.Wanted(), "allocation") for one in asked]
    assert together == [lowering.Lower()(one, lowering.Wanted(), "allocation") for one in asked]
    return together, len({id(answer) for answer in together})


def supported(capability: int) -> bool:
    """Triton 3.2 knows nothing of Blackwell."""
    return capability < 100 or tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 3)


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if supported(family[0])], ids=lambda family: f"sm_{family[0]}"
)
@pytest.mark.parametrize("name", CASES)
def test_a_family_is_lowered_once(name: str, family: tuple[int, ...]) -> None:
    source = (KERNELS / f"{name}.py").read_text(encoding="utf-8")
    for config in CASES[name]["configs"]:
        targets = [f"sm_{capability}" for capability in family]
        together, ways = answers(source, name, CASES[name]["types"], config, targets)
        assert ways == 1
        assert len({answer["shared_memory"] for answer in together}) == 1


def test_families_are_kept_apart() -> None:
    source = (KERNELS / "matmul.py").read_text(encoding="utf-8")
    case = CASES["matmul"]
    assert answers(source, "matmul", case["types"], case["configs"][0], ["sm_75", "sm_80", "sm_90"])[1] == 3


def test_floats_of_8_bits_leave_the_family() -> None:
    types = {"x": "*fp8e5", "y": "*fp8e5", "z": "*fp32", "B": "constexpr"}
    together, ways = answers(SMALL_FLOATS, "kernel", types, Config((("B", 64),), num_stages=3), ["sm_80", "sm_89"])
    assert ways == 2
    assert together[0]["code_digest"] != together[1]["code_digest"]
