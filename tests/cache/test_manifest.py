"""What makes a kept report stale: each file's content and each folder's entries, whatever the time stamps say."""

import os
import time
from pathlib import Path

import pytest

from smemcheck.cache import manifest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text("BLOCK = 64\n")
    (tmp_path / "notes.txt").write_text("nothing\n")
    return tmp_path


def taken(package: Path) -> manifest.Manifest:
    return manifest.take([str(package / "kernels.py"), str(package / "absent.py")], [str(package)])


def test_nothing_changed(package):
    assert not manifest.different(taken(package))


def test_a_changed_file(package):
    before = taken(package)
    (package / "kernels.py").write_text("BLOCK = 32\n")
    assert manifest.different(before)


def test_a_change_that_keeps_size_and_modification_time(package):
    path = package / "kernels.py"
    old = time.time() - 100
    os.utime(path, (old, old))
    before = taken(package)
    path.write_text("BLOCK = 32\n")
    os.utime(path, (old, old))
    assert manifest.different(before)


def test_a_file_that_was_only_touched(package):
    before = taken(package)
    os.utime(package / "kernels.py", (1, 1))
    assert not manifest.different(before)


@pytest.mark.parametrize("name", ["new.py", "absent.py"])
def test_a_new_python_file(package, name):
    before = taken(package)
    (package / name).write_text("")
    assert manifest.different(before)


def test_a_new_file_of_another_kind(package):
    before = taken(package)
    (package / "more.txt").write_text("")
    (package / "__pycache__").mkdir()
    assert not manifest.different(before)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-gpu.txt"])
def test_a_file_that_comes_to_match_a_pattern(package, name):
    before = manifest.take([str(package / "requirements*.txt")], [])
    (package / "more.txt").write_text("")
    assert not manifest.different(before)
    (package / name).write_text("triton==3.4.0\n")
    assert manifest.different(before)


def test_a_python_file_whose_name_looks_like_a_pattern(package):
    path = package / "a*b.py"
    path.write_text("BLOCK = 64\n")
    before = manifest.take([str(path)], [])
    path.write_text("BLOCK = 32\n")
    assert manifest.different(before)


def test_a_removed_file(package):
    before = taken(package)
    (package / "kernels.py").unlink()
    assert manifest.different(before)


def test_a_symbolic_link_that_points_elsewhere(package):
    (package / "old.py").write_text("BLOCK = 1\n")
    (package / "link").symlink_to("old.py")
    before = taken(package)
    (package / "link").unlink()
    (package / "link").symlink_to("kernels.py")
    assert manifest.different(before)


def test_a_file_that_changed_while_it_was_read(package):
    started = time.time_ns()
    before = manifest.take([str(package / "kernels.py")], [str(package)])
    (package / "kernels.py").write_text("BLOCK = 32\n")
    assert not manifest.is_still(before, taken(package), started)


def test_a_file_that_was_not_looked_at_before_must_be_old(package):
    other = package / "other.py"
    other.write_text("")
    started = time.time_ns()
    before = manifest.take([str(package / "kernels.py")], [str(package)])
    assert not manifest.is_still(before, manifest.take([str(other)], [str(package)]), started)


def test_a_file_with_the_stamps_of_an_earlier_look_is_not_read_again(package, monkeypatch):
    monkeypatch.setattr(manifest, "_SETTLED", 0)
    before = taken(package)
    monkeypatch.setattr(manifest, "_digest_of", lambda path: "read")
    assert manifest.take(before, [str(package)], before) == before
    (package / "kernels.py").write_text("BLOCK = 32\n")
    assert manifest.take(before, (), before)[str(package / "kernels.py")][-1] == "read"


def test_a_file_that_was_fresh_at_an_earlier_look_is_read_again(package, monkeypatch):
    before = taken(package)
    monkeypatch.setattr(manifest, "_digest_of", lambda path: "read")
    assert manifest.take(before, (), before)[str(package / "kernels.py")][-1] == "read"
