"""Which version of a distribution is installed, as importlib.metadata would say it."""

import importlib.metadata
import sys
from pathlib import Path

import pytest

from smemcheck.distributions import distribution, version_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that distributions are looked for in."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing")])
    return tmp_path


def test_every_installed_distribution_has_the_version_that_the_library_says():
    installed = {one.metadata["Name"] for one in importlib.metadata.distributions()}
    assert "click" in installed
    assert {name: version_of(name) for name in installed} == {n: importlib.metadata.version(n) for n in installed}


@pytest.mark.parametrize("name", ["some-thing", "Some.Thing", "some_thing"])
def test_names_are_normalized(name, folder):
    (folder / "Some_Thing-1.2+cu1.dist-info").mkdir()
    metadata = folder / "Some_Thing-1.2+cu1.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: Some-Thing\nVersion: 1.2+cu1\n\nVersion: no\n")
    (folder / "Some_Thing-1.2+cu1.dist-info" / "RECORD").write_text("thing.py,,\n")
    assert distribution(name) == ("1.2+cu1", "thing.py,,\n")


def test_another_name_is_another_distribution(folder):
    (folder / "thing_more-1.2.dist-info").mkdir()
    assert version_of("thing") is None


def test_what_is_no_wheel_is_left_to_the_library(folder):
    (folder / "thing.egg-info").mkdir()
    (folder / "thing.egg-info" / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: thing\nVersion: 3\n")
    assert version_of("thing") == "3"
