"""A cache that several machines share: what one of them compiled, the others read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_pool import acting
from test_store import scripted  # noqa: F401 - a fixture

from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.lower import pool_for
from smemcheck.lower.pool import Pool
from smemcheck.lower.shared import SharedStore
from smemcheck.lower.store import Store
from smemcheck.model import Footprint

fsspec = pytest.importorskip("fsspec", reason="the extra 'shared' is not installed")

KEY = "ab" * 32


@pytest.fixture(params=["directory", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path):
    """A folder that all machines mount, and a file system without folders, as object stores are."""
    if request.param == "directory":
        yield str(tmp_path / "shared")
    else:
        yield f"memory://{tmp_path.name}"
        fsspec.filesystem("memory").store.clear()


def machine(folder: Path, url: str) -> SharedStore:
    return SharedStore(url, Store(folder))


def test_another_machine_reads_what_one_has_written(tmp_path, url):
    one = machine(tmp_path / "one", url)
    one.put(KEY, {"shared_memory": 7})
    one.close()
    other = machine(tmp_path / "other", url)
    other.prefetch([KEY, "cd" * 32])
    assert other.get(KEY) == {"shared_memory": 7}
    assert other.get("cd" * 32) is None
    assert other.notes == []
    other.close()
    near = Store(tmp_path / "other")  # it is near now: the next run does not travel
    assert near.get(KEY) == {"shared_memory": 7}
    near.close()


def test_a_half_written_answer_is_not_there(tmp_path, url):
    one = machine(tmp_path / "one", url)
    one.put(KEY, {"shared_memory": 7})
    one.close()
    files, root = fsspec.core.url_to_fs(url)
    path = f"{root}/ab/{KEY}.json"
    files.pipe_file(path, files.cat_file(path)[:-3])
    other = machine(tmp_path / "other", url)
    assert other.get(KEY) is None
    other.close()


def test_checks_of_the_compiler_stay_on_their_machine(tmp_path, url):
    one = machine(tmp_path / "one", url)
    one.put("check 3.9.0 sm_90", {"checked": "allocation"})
    one.close()
    other = machine(tmp_path / "other", url)
    assert other.get("check 3.9.0 sm_90") is None
    other.close()


def test_a_place_that_cannot_be_reached_costs_a_note(tmp_path):
    (tmp_path / "file").write_text("no folder")
    one = machine(tmp_path / "one", str(tmp_path / "file"))
    one.put(KEY, {"shared_memory": 7})
    one.close()
    assert one.get(KEY) is None
    (note,) = one.notes
    assert "cannot be used" in note
    near = Store(tmp_path / "one")
    assert near.get(KEY) == {"shared_memory": 7}
    near.close()


def test_an_unknown_kind_of_place_is_said_at_once():
    with pytest.raises(UsageError, match="--cache nowhere://x"):
        SharedStore("nowhere://x", Store(None))


@pytest.mark.usefixtures("scripted")
def test_a_pool_asks_no_worker_for_what_another_machine_knows(tmp_path, url):
    jobs = acting("answer")
    with Pool(workers=1, store=machine(tmp_path / "one", url)) as pool:
        ((_, first),) = pool.run(jobs)
    with Pool(workers=1, store=machine(tmp_path / "other", url)) as pool:
        ((_, second),) = pool.run(jobs)
    assert isinstance(first, Footprint)
    assert not first.cached
    assert second == first
    assert second.cached


def test_the_settings_choose_the_store(tmp_path, url):
    settings = Settings(cache_directory=str(tmp_path / "one"), shared_cache=url)
    with pool_for(settings) as pool:
        pool._store.put(KEY, {"shared_memory": 7})
    with pool_for(replace(settings, cache_directory=str(tmp_path / "other"))) as pool:
        assert pool._store.get(KEY) == {"shared_memory": 7}
    with pool_for(replace(settings, cache=False)) as pool:
        assert pool._store.get(KEY) is None
