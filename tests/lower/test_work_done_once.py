"""Jobs that ask for the same work: it is done once, and each answer is the one that the job gets alone."""

from __future__ import annotations

from typing import Any

import pytest
from slicing import job, requests_for, slice_kernel

from smemcheck.model import Config

triton = pytest.importorskip("triton", reason="lowering needs Triton")
from smemcheck.lower.worker import lowering, passes  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning:triton"), pytest.mark.usefixtures("own_driver")]

WITHOUT_LOOP = """
    import triton.language as tl

    @tl.jit
    def kernel(x, y, z, B: tl.constexpr):
        rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        left, right = tl.load(x + rows * B + columns), tl.load(y + rows * B + columns)
        tl.store(z + rows * B + columns, tl.dot(left, right))
"""
WITH_LOOP = """
    import triton.language as tl

    @tl.jit
    def kernel(x, y, z, B: tl.constexpr):
        rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        total = tl.zeros((B, B), tl.float32)
        for k in range(0, 1024, B):
            left, right = tl.load(x + rows * 1024 + k + columns), tl.load(y + (k + rows) * B + columns)
            total += tl.dot(left, right)
        tl.store(z + rows * B + columns, total)
"""
WITH_LOOP_OVER_REGISTERS = """
    import triton.language as tl

    @tl.jit
    def kernel(x, y, z, B: tl.constexpr):
        rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
        left, right = tl.load(x + rows * B + columns), tl.load(y + rows * B + columns)
        total = tl.zeros((B, B), tl.float32)
        for k in range(0, 64):
            total = tl.dot(left, right, total)
        tl.store(z + rows * B + columns, total)
"""
TYPES = {"x": "*fp16", "y": "*fp16", "z": "*fp32", "B": "constexpr"}


def requests(source: str, target: str, configs: list[Config]) -> list[Any]:
    kernel = slice_kernel(source, "kernel")
    return requests_for([job(kernel, target, types=TYPES, config=config) for config in configs])


def codes(source: str, target: str, configs: list[Config]) -> list[str]:
    lower = lowering.Lower()
    return [lower(one, lowering.Wanted(), "allocation")["code_digest"] for one in requests(source, target, configs)]


def answered(monkeypatch: pytest.MonkeyPatch, source: str, target: str, configs: list[Config]) -> tuple[list[int], int]:
    """Bytes of shared memory for each config, each equal to what it is alone, and how many were lowered for that."""
    lowered = []
    finish = lowering._finish
    monkeypatch.setattr(lowering, "_finish", lambda *arguments: lowered.append(1) or finish(*arguments))
    asked = requests(source, target, configs)
    lower = lowering.Lower()
    answers = [lower(one, lowering.Wanted(), "allocation") for one in asked]
    assert answers == [lowering.allocate(one, lowering.Frontend()) for one in asked]
    return [answer["shared_memory"] for answer in answers], len(lowered)


def staged(*stages: int) -> list[Config]:
    return [Config((("B", 64),), num_stages=number) for number in stages]


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120", "gfx942"])
def test_without_a_loop_the_number_of_stages_changes_nothing(monkeypatch, target):
    bytes_, lowered = answered(monkeypatch, WITHOUT_LOOP, target, staged(1, 2, 3, 5))
    assert len(set(bytes_)) == 1
    assert lowered == 1


def test_before_ampere_nothing_is_pipelined(monkeypatch):
    assert answered(monkeypatch, WITH_LOOP, "sm_75", staged(2, 3, 4))[1] == 1


def test_with_a_loop_it_does(monkeypatch):
    bytes_, lowered = answered(monkeypatch, WITH_LOOP, "sm_120", staged(2, 3, 4))
    assert len(set(bytes_)) == 3
    assert lowered == 3


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])  # AMD's backend reads them later once more
def test_a_loop_that_loads_nothing_is_the_same_for_every_number_of_stages(monkeypatch, target):
    assert answered(monkeypatch, WITH_LOOP_OVER_REGISTERS, target, staged(2, 3, 4))[1] == 1


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx1201"])
def test_the_passes_before_the_stages_are_read_run_once_for_all_stages(monkeypatch, target):
    ran: list[str] = []
    run = passes.run

    def counted(module: Any, steps: list[Any], name: tuple[str, ...]) -> None:
        ran.extend(step.name.rpartition(".")[2] for step in steps)
        run(module, steps, name)

    monkeypatch.setattr(passes, "run", counted)
    asked = requests(WITH_LOOP, target, [*staged(2, 3, 4), Config((("B", 64),), num_warps=8, num_stages=3)])
    lower = lowering.Lower()
    together = [lower(one, lowering.Wanted(), "allocation") for one in asked]
    assert ran.count("add_combine") == 1, "TTIR is the same for all of them"
    assert ran.count("add_coalesce") == 2, "the layouts depend on the number of warps"
    assert together == [lowering.Lower()(one, lowering.Wanted(), "allocation") for one in asked]


def test_nothing_is_kept_for_others_where_there_are_none():
    (one,) = requests(WITH_LOOP, "sm_90", staged(2))
    lower = lowering.Lower()
    assert lower(one, lowering.Wanted(), "allocation", "") == lowering.Lower()(one, lowering.Wanted(), "allocation")
    assert not lower._beginnings._texts


def test_a_config_that_comes_twice(monkeypatch):
    assert answered(monkeypatch, WITH_LOOP, "sm_120", staged(3, 3))[1] == 1


def test_other_warps_and_other_blocks_are_other_work(monkeypatch):
    configs = [Config((("B", block),), num_warps=warps) for block in (32, 64) for warps in (4, 8)]
    assert answered(monkeypatch, WITHOUT_LOOP, "sm_120", configs)[1] == 4


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_registers_are_another_question(target, tmp_path):
    (one,) = requests(WITH_LOOP, target, staged(2))
    lower = lowering.Lower()
    wanted = lowering.Wanted(registers=True, handover=str(tmp_path))
    allocated = lower(one, lowering.Wanted(), "allocation")
    assert "rest" not in allocated
    handed = lower(one, wanted, "allocation")
    assert allocated == {name: item for name, item in handed.items() if name not in ("rest", "cost")}
    completed = lowering.complete(one, (tmp_path / handed["rest"]).read_text(), handed)
    full = lowering.compile_fully(one)
    assert completed == {name: full[name] for name in completed}
    assert completed["registers"] > 0


def test_over_the_limit_registers_are_asked_of_nobody(tmp_path):
    (one,) = requests(WITH_LOOP, "sm_90", staged(2))
    wanted = lowering.Wanted(registers=True, limit=1024, handover=str(tmp_path))
    assert "rest" not in lowering.Lower()(one, wanted, "allocation")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_configs_of_the_same_code_are_known_by_it(target):
    two, three = codes(WITHOUT_LOOP, target, staged(2, 3))
    assert two == three
    two, three, again = codes(WITH_LOOP, target, staged(2, 3, 3))
    assert two != three
    assert three == again
    assert len(set(codes(WITHOUT_LOOP, target, [Config((("B", 64),), num_warps=warps) for warps in (4, 8)]))) == 2


def test_a_stage_that_looks_into_its_module_is_left_to_the_full_compile(monkeypatch, tmp_path):
    """As a backend of a later Triton may do under conditions that the check of the target does not meet."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    (one,) = requests(WITH_LOOP, "sm_90", staged(2))
    alone = lowering.Lower()(one, lowering.Wanted(), "allocation")
    backend = type(one.backend)
    make_ttgir = backend.make_ttgir

    def looking(module: Any, *arguments: Any) -> Any:
        assert module.get_function("kernel") is not None
        return make_ttgir(module, *arguments)

    monkeypatch.setattr(backend, "make_ttgir", staticmethod(looking))
    answer = lowering.Lower()(one, lowering.Wanted(), "allocation")
    assert answer["method"] == "full"
    assert answer["shared_memory"] == alone["shared_memory"]
