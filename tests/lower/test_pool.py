"""Whatever happens to a worker costs the job it was on, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slicing import job, outcome, slice_kernel

from smemcheck.lower import process
from smemcheck.lower.feed import Feed
from smemcheck.lower.groups import Task, grouped
from smemcheck.lower.installation import Installation
from smemcheck.lower.pool import Pool
from smemcheck.model import Config, Failure, FailureKind, Footprint, Job

SCRIPT = Path(__file__).with_name("scripted_worker.py")
KERNEL = """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x):
        tl.store(x, 0.0)
"""


TARGETS = [job(slice_kernel(KERNEL, "kernel"), types={"x": "*fp32"}).target]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers follow scripted_worker.py, and an interpreter without Triton passes for one that has it."""
    monkeypatch.setattr(process, "BOOTSTRAP", SCRIPT.read_text(encoding="utf-8"))
    monkeypatch.setattr("smemcheck.lower.pool.identify", lambda _: Installation("0.0.0", "scripted"))


def acting(*actions: str, seconds: float = 0) -> list[Job]:
    kernel = slice_kernel(KERNEL, "kernel")
    return [
        job(kernel, types={"x": "*fp32"}, config=Config((("do", action), ("number", n), ("seconds", seconds))))
        for n, action in enumerate(actions)
    ]


def numbers(answers: dict[int, Any]) -> dict[int, int]:
    return {index: answer.shared_memory for index, answer in answers.items() if isinstance(answer, Footprint)}


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("scripted")
def test_answers_belong_to_their_jobs_and_workers_are_kept() -> None:
    with Pool(workers=2) as pool:
        answers = dict(pool.run(acting(*["answer"] * 20)))
        again = dict(pool.run(acting(*["answer"] * 20)))
    assert numbers(answers) == numbers(again) == {n: n for n in range(20)}
    workers = {answer.num_warps for answer in [*answers.values(), *again.values()]}
    assert len(workers) <= 2


@pytest.mark.usefixtures("scripted")
def test_more_jobs_come_in_while_others_are_worked_on() -> None:
    with Pool(workers=2) as pool, Feed() as feed:
        feed.put(acting("answer"))
        answers = pool.run(feed)
        assert next(answers)[0] == 0
        feed.put(acting("answer", seconds=1))
        feed.put([])
        feed.put(acting("answer"))
        feed.end()
        assert sorted(index for index, _ in answers) == [1, 2]


@pytest.mark.usefixtures("scripted")
def test_a_run_that_nobody_wants_any_more_leaves_no_job_behind() -> None:
    with Pool(workers=2) as pool, Feed() as feed:
        feed.put(acting("answer", "hang"))
        answers = pool.run(feed)
        assert next(answers)[0] == 0
        feed.abandon()
        assert list(answers) == []
        assert [slot.task for slot in pool._crew.slots] == [None, None]


@pytest.mark.usefixtures("scripted")
def test_workers_that_were_started_early_do_the_work() -> None:
    with Pool(workers=3) as pool:
        pool.start(2, TARGETS)
        pool.start(2, TARGETS)
        early = [slot.worker.process.pid for slot in pool._crew.slots if slot.worker is not None]
        answers = dict(pool.run(acting(*["answer"] * 4, seconds=0.2)))
        assert len(early) == 2
        assert {answer.num_warps for answer in answers.values()} >= set(early)
    assert [pid for pid in early if exists(pid)] == []


@pytest.mark.usefixtures("scripted")
def test_a_target_is_tried_once_while_the_source_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    ask = process.WorkerProcess.ask
    monkeypatch.setattr(
        process.WorkerProcess, "ask", lambda self, one: asked.append(bool(one.get("check"))) or ask(self, one)
    )
    with Pool(workers=2) as pool:
        pool.start(2, TARGETS)
        assert asked == [True]
        assert numbers(dict(pool.run(acting("answer", "answer")))) == {0: 0, 1: 1}
        assert numbers(dict(pool.run(acting("answer")))) == {0: 0}
    assert asked == [True, False, False, False]


@pytest.mark.usefixtures("scripted")
def test_a_worker_that_dies_over_an_early_trial_costs_another_trial() -> None:
    with Pool(workers=1) as pool:
        pool.start(1, TARGETS)
        os.kill(pool._crew.slots[0].worker.process.pid, signal.SIGKILL)
        assert numbers(dict(pool.run(acting("answer")))) == {0: 0}


@pytest.mark.usefixtures("scripted")
def test_workers_that_were_started_for_other_variables_are_replaced() -> None:
    with Pool(workers=1, environment={"TRITON_F32_DEFAULT": "ieee"}) as pool:
        pool.start(1, TARGETS, [("TRITON_F32_DEFAULT", "tf32")])
        early = pool._crew.slots[0].worker.process.pid
        answers = dict(pool.run(acting("answer")))
    assert numbers(answers) == {0: 0}
    assert answers[0].num_warps != early


@pytest.mark.usefixtures("scripted")
def test_an_idle_worker_takes_the_last_waiting_job_of_a_kernel_that_takes_long() -> None:
    with Pool(workers=2) as pool:
        quick = dict(pool.run(acting("answer", "answer")))
        slow = dict(pool.run(acting("answer", "answer", seconds=1.5)))
    assert len({answer.num_warps for answer in quick.values()}) == 1  # one worker makes the kernel's frontend work once
    assert len({answer.num_warps for answer in slow.values()}) == 2


@pytest.mark.usefixtures("scripted")
def test_an_abort_costs_its_job_and_says_how_it_ended() -> None:
    with Pool(workers=1) as pool:
        answers = dict(pool.run(acting("answer", "abort", "answer")))
    assert numbers(answers) == {0: 0, 2: 2}
    assert answers[1] == Failure(
        FailureKind.ABORT,
        "the compiler process was ended by SIGABRT: "
        "python: Allocation.cpp:101: size(): Assertion `offset < size' failed.",
        "0.0.0",
    )


@pytest.mark.usefixtures("scripted")
def test_a_worker_that_exits_costs_its_job() -> None:
    with Pool(workers=1) as pool:
        answers = dict(pool.run(acting("exit", "answer")))
    assert answers[0].message == "the compiler process ended with status 3"
    assert numbers(answers) == {1: 1}


@pytest.mark.usefixtures("scripted")
def test_a_hang_is_a_timeout() -> None:
    with Pool(workers=2, time_limit=0.5) as pool:
        answers = dict(pool.run(acting("answer", "hang", "answer")))
    assert numbers(answers) == {0: 0, 2: 2}
    assert answers[1].kind is FailureKind.TIMEOUT
    assert answers[1].message == "the compiler did not finish within 0.5 seconds (--time-limit)"


@pytest.mark.usefixtures("scripted")
def test_a_kernel_of_which_no_config_ends_is_given_up() -> None:
    with Pool(workers=1, time_limit=0.5) as pool:
        answers = dict(pool.run(acting(*["hang"] * 20)))
    assert {answer.kind for answer in answers.values()} == {FailureKind.TIMEOUT}
    tried = [index for index, answer in answers.items() if answer.message.startswith("the compiler did not finish")]
    assert sorted(tried) == [0, 1, 2]
    assert answers[19].message == (
        "not tried: the compiler did not finish 3 other configs of this kernel within 0.5 seconds each, and none at all "
        "(--time-limit)"
    )


@pytest.mark.usefixtures("scripted")
def test_a_kernel_is_given_up_for_all_types_and_other_kernels_are_not() -> None:
    other = slice_kernel(KERNEL.replace("0.0", "1.0"), "kernel")
    hanging = acting(*["hang"] * 4)
    wide = [replace(one, specialization=replace(one.specialization, signature=(("x", "*fp64"),))) for one in hanging]
    jobs = [*hanging, *wide, *(replace(one, kernel=other) for one in acting("answer", "answer"))]
    with Pool(workers=1, time_limit=0.5) as pool:
        answers = dict(pool.run(jobs))
    assert numbers(answers) == {8: 0, 9: 1}
    assert sum(answers[index].message.startswith("not tried") for index in range(8)) == 5


@pytest.mark.usefixtures("scripted")
def test_a_kernel_of_which_a_config_ended_is_tried_to_the_end() -> None:
    with Pool(workers=1, time_limit=0.5) as pool:
        answers = dict(pool.run(acting("answer", *["hang"] * 4, "answer")))
    assert numbers(answers) == {0: 0, 5: 5}


@pytest.mark.usefixtures("scripted")
def test_registers_that_take_too_long_cost_the_registers_only() -> None:
    jobs = [replace(one, registers=True) for one in acting("answer", "spill", "hang")]
    with Pool(workers=2, time_limit=0.5) as pool:
        answers = dict(pool.run(jobs))
    assert numbers(answers) == {0: 0, 1: 1}
    assert answers[1].registers is None
    assert answers[2].kind is FailureKind.TIMEOUT
    assert pool.notes == (
        "the registers of 1 config are not known: the compiler did not finish within 0.5 seconds (--time-limit)",
    )


@pytest.mark.usefixtures("scripted")
def test_a_single_job_that_may_be_long_goes_before_lists_that_can_be_shared_out() -> None:
    several = acting("answer", "answer", "answer")
    alone = replace(several[0], kernel=slice_kernel(KERNEL.replace("0.0", "1.0"), "kernel"))
    with Pool(workers=1) as pool:
        assert [index for index, _ in pool.run([*several, alone])] == [3, 0, 1, 2]


def with_registers(*codes: int) -> list[Job]:
    kernel = slice_kernel(KERNEL, "kernel")
    given = [(("do", "answer"), ("number", number), ("code", code)) for number, code in enumerate(codes)]
    return [replace(job(kernel, types={"x": "*fp32"}, config=Config(one)), registers=True) for one in given]


@pytest.mark.usefixtures("scripted")
def test_configs_of_equal_code_are_compiled_to_the_binary_once() -> None:
    with Pool(workers=2, time_limit=60) as pool:
        answers = dict(pool.run(with_registers(7, 8, 7, 7)))
    assert [answers[index].registers for index in range(4)] == [7, 8, 7, 7]
    assert numbers(answers) == {0: 0, 1: 1, 2: 2, 3: 3}
    when = [answers[index].spill_bytes for index in range(4)]  # the scripted worker answers with the time
    assert when[0] == when[2] == when[3] != when[1]


@pytest.mark.usefixtures("scripted")
def test_what_takes_longest_is_compiled_to_the_binary_first() -> None:
    with Pool(workers=1, time_limit=60) as pool:
        order = [outcome.registers for _, outcome in pool.run(with_registers(20, 1000, 3, 500))]
    assert order == [1000, 500, 20, 3]


@pytest.mark.usefixtures("scripted")
def test_kernels_whose_binaries_never_end_are_given_up_for_their_registers_alone() -> None:
    jobs = [replace(one, registers=True) for one in acting(*["spill"] * 8)]
    with Pool(workers=1, time_limit=0.3) as pool:
        answers = dict(pool.run(jobs))
    assert numbers(answers) == {index: index for index in range(8)}
    assert {answer.registers for answer in answers.values()} == {None}
    assert pool.notes == (
        "the registers of 3 configs are not known: the compiler did not finish within 0.3 seconds (--time-limit)",
        "the registers of 5 configs are not known: not tried: the compiler did not finish 3 other configs of this kernel "
        "within 0.3 seconds each, and none at all (--time-limit)",
    )


@pytest.mark.usefixtures("scripted")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_registers_that_take_too_much_memory_cost_the_registers_only() -> None:
    jobs = [replace(one, registers=True) for one in acting("answer", "swell")]
    with Pool(workers=1, memory_limit=256 << 20, time_limit=60) as pool:
        answers = dict(pool.run(jobs))
    assert numbers(answers) == {0: 0, 1: 1}
    assert answers[1].registers is None
    assert pool.notes == (
        "the registers of 1 config are not known: the compiler took more than the 0.25 GiB of memory that it may have here "
        "(--memory-limit)",
    )


@pytest.mark.usefixtures("scripted")
def test_a_flood_of_output_neither_blocks_nor_fills_memory() -> None:
    with Pool(workers=1, time_limit=60) as pool:
        answers = dict(pool.run(acting("flood", "answer")))
        tail = pool._crew.slots[0].worker.tail
    assert numbers(answers) == {0: 0, 1: 1}
    assert len(tail) <= process.STDERR_TAIL


@pytest.mark.usefixtures("scripted")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_a_compiler_that_eats_memory_is_ended() -> None:
    with Pool(workers=1, memory_limit=256 << 20, time_limit=60) as pool:
        answers = dict(pool.run(acting("grow", "answer")))
    assert numbers(answers) == {1: 1}
    assert answers[0].kind is FailureKind.ENDED
    assert answers[0].message == (
        "the compiler took more than the 0.25 GiB of memory that it may have here (--memory-limit)"
    )


@pytest.mark.usefixtures("scripted")
def test_a_worker_killed_by_hand_loses_one_job_at_most() -> None:
    with Pool(workers=2, time_limit=60) as pool:
        answers = {}
        for index, answer in pool.run(acting(*["answer"] * 30, seconds=0.01)):
            answers[index] = answer
            if len(answers) == 5:
                os.kill(pool._crew.slots[0].worker.process.pid, signal.SIGKILL)
    assert set(answers) == set(range(30))
    lost = [answer for answer in answers.values() if not isinstance(answer, Footprint)]
    assert len(lost) <= 1
    assert all(answer.kind is FailureKind.ENDED and "SIGKILL" in answer.message for answer in lost)


@pytest.mark.usefixtures("scripted")
def test_a_worker_that_died_between_two_runs_costs_nothing() -> None:
    with Pool(workers=1) as pool:
        dict(pool.run(acting("answer")))
        worker = pool._crew.slots[0].worker.process
        worker.kill()
        worker.wait()
        assert numbers(dict(pool.run(acting("answer", "answer")))) == {0: 0, 1: 1}


@pytest.mark.usefixtures("scripted")
def test_a_consumer_that_stops_early_can_run_again() -> None:
    with Pool(workers=2, time_limit=60) as pool:
        for _, _answer in pool.run(acting("answer", "hang", "hang")):
            break
        assert numbers(dict(pool.run(acting("answer", "answer")))) == {0: 0, 1: 1}


@pytest.mark.usefixtures("scripted")
def test_a_slow_consumer_does_not_make_a_timeout() -> None:
    with Pool(workers=2, time_limit=0.6) as pool:
        answers = {}
        for index, answer in pool.run(acting("answer", *["answer"] * 4, seconds=0.3)):
            answers[index] = answer
            time.sleep(0.7)
    assert numbers(answers) == {n: n for n in range(5)}


def test_an_interrupt_leaves_no_process_behind(tmp_path: Path) -> None:
    program = f"""
        import sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(process.__file__).parents[2])!r}]
        from smemcheck.lower import pool, process
        from smemcheck.lower.installation import Installation
        from smemcheck.lower.pool import Pool
        process.BOOTSTRAP = open({str(SCRIPT)!r}).read()
        pool.identify = lambda _: Installation("0.0.0", "scripted")
        from test_pool import acting
        with Pool(workers=2, time_limit=60) as workers:
            for _, answer in workers.run(acting("answer", "answer", "hang", "hang", "hang")):
                print(answer.num_warps, flush=True)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with run:
        assert run.stdout
        workers = {int(run.stdout.readline()) for _ in range(2)}
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)
    assert run.returncode != 0
    assert [pid for pid in workers if exists(pid)] == []


def test_without_triton_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smemcheck.lower.pool.identify", lambda _: None)
    with Pool(workers=1) as pool:
        assert pool.triton_version() is None
        answer = outcome(pool, acting("answer")[0])
    assert answer.kind is FailureKind.UNAVAILABLE
    assert answer.message.startswith("smemcheck needs Triton to lower kernels: pip install triton")


def test_another_interpreter_without_triton_is_named(tmp_path: Path) -> None:
    with Pool(workers=1, python=str(tmp_path / "python")) as pool:
        answer = outcome(pool, acting("answer")[0])
    assert answer.kind is FailureKind.UNAVAILABLE
    assert answer.message == f"{tmp_path / 'python'} is no interpreter with Triton"


def test_a_triton_that_cannot_be_imported_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "triton"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('libtriton.so: undefined symbol')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Pool(workers=1) as pool:
        answers = dict(pool.run(acting("answer", "answer")))
    assert {answer.kind for answer in answers.values()} == {FailureKind.UNAVAILABLE}
    assert "ImportError: libtriton.so: undefined symbol" in answers[0].message


def test_a_directory_called_triton_where_the_user_stands_is_not_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="lowering needs Triton")
    (tmp_path / "triton.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    with Pool(workers=1) as pool:
        assert isinstance(outcome(pool, job(slice_kernel(KERNEL, "kernel"), types={"x": "*fp32"})), Footprint)
    assert not (tmp_path / "ran").exists()


def test_jobs_are_told_what_others_have_in_common_with_them() -> None:
    kernel = slice_kernel(KERNEL, "kernel")
    given = [(64, 4, 2), (64, 4, 3), (64, 8, 2), (128, 4, 2)]  # BLOCK, warps, stages
    jobs = [
        job(kernel, types={"x": "*fp32"}, config=Config((("BLOCK", block),), num_warps=warps, num_stages=stages))
        for block, warps, stages in given
    ]
    (group,) = grouped([Task(index, one, {}, None) for index, one in enumerate(jobs)])
    assert [task.request["common"] for task in group.tasks] == ["stages", "stages", "ttir", ""]


def test_every_config_of_a_slice_that_cannot_be_built_says_so_and_the_next_kernel_is_lowered() -> None:
    pytest.importorskip("triton", reason="lowering needs Triton")
    kernel = slice_kernel(KERNEL, "kernel")
    strange = replace(kernel, functions=(replace(kernel.entry, source="kernel = None"),), digest="strange")
    configs = [Config((), num_warps=warps) for warps in (1, 2, 4)]
    jobs = [job(one, types={"x": "*fp32"}, config=config) for one in (strange, kernel) for config in configs]
    with Pool(workers=1) as pool:
        answers = dict(pool.run(jobs))
    assert [str(getattr(answers[n], "reason", "")) for n in range(3)] == ["kernel is not one plain def"] * 3
    assert [type(answers[n]) for n in range(3, 6)] == [Footprint] * 3
