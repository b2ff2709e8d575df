"""Launches with fixed options: which configs a site has where they come from tables, files, and what the device says."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.config import Settings
from smemcheck.model import Report, SiteKind
from smemcheck.rules.example import needs

PREAMBLE = """\
import functools
import json
import os

import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


"""


@pytest.fixture
def report(tmp_path: Path):
    """The report over a file with this launch code; ``files`` lie beside it."""

    def read(text: str, *targets: str, **files: str) -> Report:
        (tmp_path / "kernels.py").write_text(PREAMBLE + textwrap.dedent(text), encoding="utf-8")
        for name, content in files.items():
            (tmp_path / f"{name}.json").write_text(content, encoding="utf-8")
        settings = Settings(targets=targets or ("sm_90",), cache=False, max_specializations=64)
        return pipeline.check(
            [str(tmp_path)], settings, lower=lambda jobs: ((index, needs(0)) for index in range(len(jobs)))
        )

    return read


def options(report: Report, target: str = "sm_90") -> set[tuple[int, int, int]]:
    """Block, warps and stages of every result on a target."""
    (site,) = report.sites
    assert site.kind is SiteKind.LAUNCH
    found = set()
    for result in report.results:
        if result.target == target and result.specialization is not None:
            one = report.specializations[result.specialization].specialization
            found.add((dict(one.constexprs)["BLOCK"], result.config.num_warps, result.config.num_stages))
    return found


CAPABILITY = """
def run(x: torch.Tensor):
    y = torch.empty_like(x)
    if torch.cuda.get_device_capability()[0] >= 9:
        scale[(4,)](x, y, x.numel(), BLOCK=2048, num_warps=8, num_stages=4)
    else:
        scale[(4,)](x, y, x.numel(), BLOCK=512, num_warps=4, num_stages=2)
"""


def test_a_launch_that_asks_for_the_device_is_judged_for_each_target(report):
    found = report(CAPABILITY, "sm_80", "sm_90", "sm_120")
    assert options(found, "sm_80") == {(512, 4, 2)}
    assert options(found, "sm_90") == options(found, "sm_120") == {(2048, 8, 4)}
    (site,) = found.sites
    assert {t: len(site.answers[t].configs) for t in site.answers} == {"sm_80": 1, "sm_90": 1, "sm_120": 1}


def test_a_constant_of_the_module_may_be_what_asks(report):
    text = """
    LARGE = torch.cuda.get_device_capability() >= (9, 0)

    def run(x: torch.Tensor):
        y = torch.empty_like(x)
        scale[(4,)](x, y, x.numel(), BLOCK=2048 if LARGE else 512, num_warps=4)
    """
    found = report(text, "sm_80", "sm_90")
    assert options(found, "sm_80") == {(512, 4, 3)}
    assert options(found, "sm_90") == {(2048, 4, 3)}


def test_where_the_code_raises_on_a_device_the_launches_of_another_stand_for_it(report):
    text = """
    def run(x: torch.Tensor):
        if torch.cuda.get_device_capability()[0] < 9:
            raise RuntimeError("too old")
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=2048, num_warps=8)
    """
    assert options(report(text, "sm_80", "sm_90"), "sm_80") == {(2048, 8, 3)}


def test_code_that_asks_nothing_is_the_same_everywhere(report):
    text = """
    def run(x: torch.Tensor):
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=1024, num_warps=8)
    """
    found = report(text, "sm_80", "sm_90")
    assert {one.specialization.targets for one in found.specializations} == {()}
    assert options(found, "sm_80") == options(found, "sm_90") == {(1024, 8, 3)}


TABLE = """
TABLE = {
    torch.float16: {"BLOCK": 1024, "num_warps": 4},
    torch.bfloat16: {"BLOCK": 1024, "num_warps": 4},
    torch.float32: {"BLOCK": 512, "num_warps": 8},
}

def run(x: torch.Tensor):
    scale[(4,)](x, torch.empty_like(x), x.numel(), **TABLE[x.dtype])
"""


def test_a_table_by_dtype(report):
    assert options(report(TABLE)) == {(1024, 4, 3), (512, 8, 3)}


def test_a_table_whose_key_the_caller_chooses(report):
    text = """
    TABLE = {"small": (256, 2), "medium": (512, 4), "large": (2048, 16)}

    def run(x: torch.Tensor, mode: str):
        block, warps = TABLE[mode]
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=block, num_warps=warps)
    """
    assert options(report(text)) == {(256, 2, 3), (512, 4, 3), (2048, 16, 3)}


def test_a_table_by_a_key_that_is_no_size(report):
    text = """
    TABLE = {0: dict(BLOCK=256, num_warps=2), 1: dict(BLOCK=512, num_warps=4), 2: dict(BLOCK=2048, num_warps=16)}

    def run(x: torch.Tensor, mode: int):
        scale[(4,)](x, torch.empty_like(x), x.numel(), **TABLE[mode])
    """
    assert options(report(text)) == {(256, 2, 3), (512, 4, 3), (2048, 16, 3)}


def test_an_example_that_no_table_has_takes_one_of_its_entries(report):
    text = """
    DTYPES = {8: torch.int8, 16: torch.int16}

    def run(x: torch.Tensor, width: int):
        y = torch.empty(x.shape, dtype=DTYPES[width])
        scale[(4,)](x, y, x.numel(), BLOCK=1024, num_warps=8)
    """
    found = report(text)
    assert {dict(one.specialization.signature)["y"] for one in found.specializations} == {"*i8", "*i16"}


def test_a_table_by_a_measured_size(report):
    text = """
    TABLE = {64: (256, 2), 4096: (512, 4), 65536: (2048, 16)}

    def run(x: torch.Tensor):
        block, warps = TABLE[min(TABLE, key=lambda size: abs(size - x.shape[0]))]
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=block, num_warps=warps)
    """
    assert options(report(text)) == {(256, 2, 3), (512, 4, 3), (2048, 16, 3)}


def test_a_chain_of_conditions_on_a_size(report):
    text = """
    def run(x: torch.Tensor):
        n = x.shape[0]
        if n <= 64:
            block, warps = 256, 2
        elif n <= 4096:
            block, warps = 512, 4
        else:
            block, warps = 2048, 16
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=block, num_warps=warps)
    """
    assert options(report(text)) == {(256, 2, 3), (512, 4, 3), (2048, 16, 3)}


def test_an_entry_that_the_code_names_is_the_only_one(report):
    text = """
    TABLE = {"small": (256, 2), "large": (2048, 16)}

    def run(x: torch.Tensor):
        block, warps = TABLE["large"]
        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=block, num_warps=warps)
    """
    assert options(report(text)) == {(2048, 16, 3)}


TUNED = """
@functools.lru_cache
def tuned():
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "tuned.json")
    with open(path) as file:
        return {int(size): config for size, config in json.load(file).items()}

def run(x: torch.Tensor):
    configs = tuned()
    config = configs[min(configs.keys(), key=lambda size: abs(size - x.shape[0]))]
    scale[(4,)](x, torch.empty_like(x), x.numel(), **config)
"""
FILE = json.dumps({"1": {"BLOCK": 256, "num_warps": 2}, "64": {"BLOCK": 512, "num_warps": 4, "num_stages": 5}})


def test_a_file_of_tuned_configs(report):
    assert options(report(TUNED, tuned=FILE)) == {(256, 2, 3), (512, 4, 5)}


GUARD = """
def guard(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with torch.cuda.device(args[0].device.index):
            return function(*(a.contiguous() if isinstance(a, torch.Tensor) else a for a in args), **kwargs)
    return wrapper
"""


@pytest.mark.parametrize(
    "decorator",
    [
        "torch.no_grad()",
        "torch.inference_mode()",
        "torch.compiler.disable",
        "torch.jit.ignore",
        'torch.library.custom_op("library::run", mutates_args=())',
        'torch.library.impl("library::run", "CUDA")',
        "functools.lru_cache",
        "guard",
        "somewhere.unheard_of(1)",
    ],
)
def test_decorators_of_the_launching_function_are_seen_through(report, decorator):
    text = f"{GUARD}\nimport somewhere\n\n@{decorator}\ndef run(x: torch.Tensor):\n    y = torch.empty_like(x)\n"
    text += "    scale[(4,)](x, y, x.numel(), BLOCK=1024, num_warps=8)\n    return y\n"
    assert options(report(text)) == {(1024, 8, 3)}


@pytest.mark.parametrize(
    "decorator", ["torch.amp.custom_fwd(device_type='cuda')", "torch.cuda.amp.custom_fwd", "guard"]
)
def test_decorators_of_forward_are_seen_through(report, decorator):
    text = f"{GUARD}\nclass Scale(torch.autograd.Function):\n    @staticmethod\n    @{decorator}\n    def forward(ctx, x):\n"
    text += "        scale[(4,)](x, torch.empty_like(x), x.numel(), BLOCK=1024, num_warps=8)\n        return x\n\n"
    text += "def run(x: torch.Tensor):\n    return Scale.apply(x)\n"
    assert options(report(text)) == {(1024, 8, 3)}
