"""What a program asks of the machine is answered for the target, not for the machine that smemcheck runs on."""

from __future__ import annotations

import pytest
from listing import TARGETS, blocks, shown

CUDA = ("sm_80", "sm_90", "sm_120")
KERNEL = """
@triton.autotune([Config({"B": VALUE})], key=["x"])
@triton.jit
def kernel(x, B: tl.constexpr):
    pass
"""


@pytest.fixture
def values(package):
    """The value of an expression on each of the four targets, read back from a config; a reason where it is unknown."""

    def ask(expression, before="", **options):
        site = package({"kernels.py": f"import torch\n{before}\nVALUE = {expression}\n{KERNEL}"}, **options).site()
        found = {target: site.answers[target].configs for target in TARGETS}
        return [dict(c[0].kwargs)["B"] if isinstance(c, tuple) else c.reason for c in found.values()]

    return ask


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.cuda.get_device_capability()", [(8, 0), (9, 0), (12, 0), (9, 4)]),
        ("torch.cuda.get_device_capability(0)[0]", [8, 9, 12, 9]),
        ("torch.cuda.get_device_capability() >= (9, 0)", [False, True, True, True]),
        ("torch.cuda.get_device_properties(0).major", [8, 9, 12, 9]),
        ("torch.cuda.get_device_properties('cuda').shared_memory_per_multiprocessor", [167936, 233472, 102400, 65536]),
        ("torch.cuda.get_device_properties(0).shared_memory_per_block_optin", [166912, 232448, 101376, 65536]),
        ("torch.cuda.get_device_properties(0).multi_processor_count", [108, 132, 170, 304]),
        ("torch.cuda.get_device_properties(0).warp_size", [32, 32, 32, 64]),
        ("torch.cuda.get_device_name()",
         ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 5090", "AMD Instinct MI300X"]),
        ("'H100' in torch.cuda.get_device_properties(0).name", [False, True, False, False]),
        ("torch.cuda.is_available()", [True] * 4),
        ("torch.version.hip is not None", [False, False, False, True]),
        ("torch.version.cuda is None", [False, False, False, True]),
        ("bool(torch.version.hip)", [False, False, False, True]),
        ("triton.runtime.driver.active.get_current_target().backend", ["cuda", "cuda", "cuda", "hip"]),
        ("triton.runtime.driver.active.get_current_target().arch", [80, 90, 120, "gfx942"]),
        ("triton.runtime.driver.active.get_current_target().warp_size", [32, 32, 32, 64]),
        ("triton.runtime.driver.active.utils.get_device_properties(0)['max_shared_mem']", [166912, 232448, 101376, 65536]),
        ("triton.runtime.driver.active.utils.get_device_properties(triton.runtime.driver.active.get_current_device())"
         "['multiprocessor_count']", [108, 132, 170, 304]),
        ("getattr(torch.cuda.get_device_properties(0), 'gcnArchName', 'none').split(':')[0]",
         ["none", "none", "none", "gfx942"]),
        ("hasattr(torch.version, 'hip') and torch.version.hip is not None", [False, False, False, True]),
        ("torch.cuda.device_count()", [1] * 4),
        ("hasattr(torch, 'npu') or torch.xpu.is_available()", [False] * 4),
    ],
)  # fmt: skip
def test_a_question(values, expression, expected):
    assert values(expression) == expected


def test_questions_wrapped_in_helpers(values):
    helpers = """
import functools

def is_hip():
    return triton.runtime.driver.active.get_current_target().backend == "hip"

def is_cuda():
    target = triton.runtime.driver.active.get_current_target()
    return target is not None and target.backend == "cuda"

class Backend:
    ADA = 101376
    AMPERE = 166912
    HOPPER = 232448

@functools.lru_cache(maxsize=None)
def check_shared_mem(arch="none", tensor_idx=0):
    try:
        limit = triton.runtime.driver.active.utils.get_device_properties(tensor_idx)["max_shared_mem"]
        return limit >= getattr(Backend, arch.upper(), 0)
    except Exception:
        return False
"""
    assert values("(is_hip(), is_cuda())", helpers) == [(False, True)] * 3 + [(True, False)]
    assert values("check_shared_mem('ampere')", helpers) == [True, True, False, False]
    assert values("check_shared_mem('hopper')", helpers) == [False, True, False, False]


def test_a_list_for_each_target(package):
    site = package({"kernels.py": """
        import torch

        if torch.version.hip is not None:
            CONFIGS = [Config({"waves_per_eu": 2})]
        elif torch.cuda.get_device_capability()[0] >= 9:
            CONFIGS = [Config({"B": 128})]
        else:
            CONFIGS = [Config({"B": 64})]

        @triton.autotune(CONFIGS, ["x"])
        @triton.jit
        def kernel(x, B: tl.constexpr = 1):
            pass
    """}).site()  # fmt: skip
    assert {target: shown(site.answers[target].configs) for target in TARGETS} == {
        "sm_80": blocks(64),
        "sm_90": blocks(128),
        "sm_120": blocks(128),
        "gfx942": blocks(2, name="waves_per_eu"),
    }


def test_a_kernel_that_one_target_does_not_have(package):
    site = package({"kernels.py": """
        import torch

        if torch.cuda.get_device_capability() >= (9, 0):
            @triton.autotune([Config({"B": 128})], ["x"])
            @triton.jit
            def kernel(x, B: tl.constexpr):
                pass
    """}).site(("sm_80", "sm_90"))  # fmt: skip
    assert shown(site.answers["sm_80"].configs) == "it is not defined on sm_80"
    assert shown(site.answers["sm_90"].configs) == blocks(128)


def test_a_representative_device_is_named_in_the_notes(package):
    site = package({"kernels.py": f"import torch\nVALUE = torch.cuda.get_device_properties(0).multi_processor_count\n{KERNEL}"}).site()  # fmt: skip
    assert site.answers["sm_120"].notes == ("sm_120 is represented by NVIDIA GeForce RTX 5090",)


@pytest.mark.parametrize(
    ("expression", "unset", "given"),
    [
        ("os.environ.get('TILE', '16')", "16", "64"),
        ("os.getenv('TILE')", None, "64"),
        ("'TILE' in os.environ", False, True),
        ("int(os.environ['TILE']) if 'TILE' in os.environ else 0", 0, 64),
        ("os.environ.get('TILE', '0') == '64'", False, True),
    ],
)
def test_environment_variables_are_unset_unless_given(values, tmp_path, expression, unset, given):
    assert values(expression, "import os") == [unset] * 4
    assert values(expression, "import os", environment={"TILE": "64"}) == [given] * 4


def test_the_environment_of_this_process_is_not_read(values, monkeypatch):
    monkeypatch.setenv("TILE", "64")
    assert values("os.environ.get('TILE')", "import os") == [None] * 4


def test_versions(values):
    import importlib.metadata

    installed = importlib.metadata.version("triton")
    assert values("triton.__version__") == [installed] * 4
    assert (
        values("version.parse(triton.__version__) >= version.parse('3.0')", "from packaging import version")
        == [True] * 4
    )
    assert values("sys.version_info >= (3, 8)", "import sys") == [True] * 4


def test_platform(values):
    assert values("(sys.platform, platform.system())", "import sys, platform") == [("linux", "Linux")] * 4


def test_what_no_table_holds_is_unknown_with_its_name(values):
    assert values("torch.cuda.mem_get_info()[0]") == ["the result of torch.cuda.mem_get_info() is not known"] * 4


def test_operator_functions_compare_and_other_vendors_devices_are_absent(values) -> None:
    """liger_kernel/ops/utils.py compares versions through ``operator`` and asks transformers for an NPU."""
    before = """
import operator
from packaging.version import Version
from transformers.utils import is_torch_npu_available

def at_least(version):
    return operator.ge(Version("3.1"), Version(version))
"""
    assert values("32 if at_least('3.0') and not is_torch_npu_available() else 16", before) == [32, 32, 32, 32]
