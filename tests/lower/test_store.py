"""Answers are kept between runs and shared; a store that cannot be used is a note, never an error."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from slicing import job, slice_kernel
from test_pool import acting

from smemcheck.lower import process
from smemcheck.lower.installation import Installation
from smemcheck.lower.jobs import digest, environment, is_compile_variable
from smemcheck.lower.pool import Pool
from smemcheck.lower.store import FILE_NAME, Store
from smemcheck.model import Config, FailureKind, Job

SCRIPT = Path(__file__).with_name("scripted_worker.py")
SOURCE = """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x, B: tl.constexpr):
        tl.store(x + tl.arange(0, B), 0.0)
"""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "BOOTSTRAP", SCRIPT.read_text(encoding="utf-8"))
    monkeypatch.setattr("smemcheck.lower.pool.identify", lambda _: Installation("0.0.0", "scripted"))


def test_what_is_put_is_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", {"shared_memory": 1})
    store.put("a", {"shared_memory": 2})
    store.close()
    again = Store(tmp_path)
    assert again.get("a") == {"shared_memory": 2}
    assert again.get("b") is None
    assert again.notes == []
    again.close()


@pytest.mark.parametrize(
    "content", [b"this is not a database, but it is long enough " * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_store_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    store = Store(tmp_path)
    store.put("a", {"shared_memory": 1})
    assert store.get("a") == {"shared_memory": 1}
    store.close()
    (note,) = store.notes
    assert "was damaged" in note
    (aside,) = tmp_path.glob("*.damaged-*")
    assert aside.read_bytes() == content


def test_a_store_with_another_table_is_set_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as other:
        other.execute("CREATE TABLE answers (something TEXT)")
    other.close()
    store = Store(tmp_path)
    store.put("a", {"shared_memory": 1})
    assert store.get("a") == {"shared_memory": 1}
    store.close()
    assert "was damaged" in store.notes[0]


def test_damage_that_shows_later_ends_the_use_of_the_store(tmp_path: Path) -> None:
    first = Store(tmp_path)
    for number in range(2000):
        first.put(f"key {number}", {"message": "x" * 200})
    first.close()
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    store = Store(tmp_path)
    assert [answer for answer in (store.get(f"key {number}") for number in range(2000)) if answer is None]
    store.put("a", {"shared_memory": 1})
    store.close()
    assert len(store.notes) == 1
    assert Store(tmp_path).notes == []


def test_a_directory_that_cannot_be_made_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "cache")
    store.put("a", {"shared_memory": 1})
    assert store.get("a") is None
    assert "answers of this run are not kept" in store.notes[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write where writing is forbidden")
def test_a_read_only_directory_is_a_note(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    store = Store(tmp_path)
    tmp_path.chmod(0o700)
    assert "answers of this run are not kept" in store.notes[0]


def test_a_full_disk_is_a_note(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store._connection is not None
    store._connection.execute("PRAGMA max_page_count = 3")
    for number in range(200):
        store.put(f"key {number}", {"message": "x" * 1000})
    (note,) = store.notes
    assert "full" in note
    assert "answers of this run are not kept" in note


def _fill(directory: str, start: int) -> None:
    store = Store(directory)
    for number in range(start, start + 300):
        store.put(str(number), {"number": number})
    assert store.notes == []
    store.close()


def test_two_processes_share_one_cold_store(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=_fill, args=(str(tmp_path), start)) for start in (0, 200)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert [one.exitcode for one in both] == [0, 0]
    store = Store(tmp_path)
    assert [store.get(str(number)) for number in range(500)] == [{"number": number} for number in range(500)]
    store.close()


@pytest.mark.usefixtures("scripted")
def test_a_second_run_asks_no_worker(tmp_path: Path) -> None:
    with Pool(workers=1, cache_directory=tmp_path) as pool:
        first = dict(pool.run(acting("answer", "answer")))
    with Pool(workers=1, cache_directory=tmp_path) as pool:
        second = dict(pool.run(acting("answer", "answer")))
        assert pool._crew.slots[0].worker is None
    assert second == first
    assert [answer.cached for answer in second.values()] == [True, True]


@pytest.mark.usefixtures("scripted")
def test_what_depends_on_the_moment_is_not_kept(tmp_path: Path) -> None:
    with Pool(workers=1, cache_directory=tmp_path, time_limit=0.3) as pool:
        first = dict(pool.run(acting("abort", "hang")))
    assert [first[index].kind for index in (0, 1)] == [FailureKind.ABORT, FailureKind.TIMEOUT]
    with Pool(workers=1, cache_directory=tmp_path, time_limit=0.3) as pool:
        second = dict(pool.run(acting("abort", "hang")))
    assert [second[index].cached for index in (0, 1)] == [True, False]


def key(one: Job, **variables: str) -> str | None:
    return digest(one, environment(one.specialization.environment, variables), "3.6.0+abc")


def asked(source: str = SOURCE, path: str = "/project/kernels.py", **changes: Any) -> Job:
    config = changes.pop("config", Config((("B", 64),)))
    return job(slice_kernel(source, "kernel", path), types={"x": "*fp32", "B": "constexpr"}, config=config, **changes)


def test_the_key_holds_what_decides_and_nothing_else() -> None:
    same = [
        asked(),
        asked(path="/elsewhere/moved.py"),
        asked("\n\n\n" + SOURCE),
    ]
    other = [
        asked(SOURCE.replace("0.0", "1.0")),
        asked(config=Config((("B", 128),))),
        asked(config=Config((("B", 64),), num_warps=8)),
        asked(config=Config((("B", 64),), maxnreg=64)),
        asked(target="sm_80"),
        asked(not_divisible=("x",)),
        asked(registers=True),
        asked(environment=(("TRITON_F32_DEFAULT", "ieee"),)),
    ]
    assert len({key(one) for one in same}) == 1
    assert len({key(one) for one in [same[0], *other]}) == 1 + len(other)
    assert key(same[0], TRITON_F32_DEFAULT="ieee") == key(other[-1])
    assert key(same[0], TRITON_CACHE_DIR="/tmp/x", EDITOR="vi") == key(same[0])


def test_a_config_with_an_ir_file_has_no_key() -> None:
    assert key(asked(config=Config((("B", 64),), options=(("ir_override", "kernel.ttgir"),)))) is None


@pytest.mark.parametrize(
    "name", ["TRITON_F32_DEFAULT", "DISABLE_LLVM_OPT", "AMDGCN_USE_BUFFER_OPS", "TRITON_OF_TOMORROW"]
)
def test_variables_that_the_compiler_reads_count(name: str) -> None:
    assert is_compile_variable(name)


@pytest.mark.parametrize("name", ["TRITON_CACHE_DIR", "TRITON_PRINT_AUTOTUNING", "MLIR_ENABLE_DUMP", "PATH"])
def test_variables_that_change_no_code_do_not_count(name: str) -> None:
    assert not is_compile_variable(name)


@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux only")
def test_positions_are_those_of_the_file_as_it_is_now(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="lowering needs Triton")
    failing = SOURCE.replace("tl.arange(0, B)", "tl.arange(0, B + 1)")
    with Pool(workers=1, cache_directory=tmp_path) as pool:
        ((_, first),) = pool.run([asked(failing)])
        ((_, moved),) = pool.run([asked("\n" * 7 + failing, "/elsewhere/moved.py")])
    assert moved.cached
    assert (first.position.path, first.position.line) == ("/project/kernels.py", 7)
    assert (moved.position.path, moved.position.line) == ("/elsewhere/moved.py", 14)
    assert first.message == moved.message
