"""A package on disk that runs are made over, one after the other, and what each of them read of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from smemcheck import source
from smemcheck.cache import manifest

TICK = 0.05  # s, longer than the file system's clock stands still


@pytest.fixture
def laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, str]], Path]:
    """Writes files by their names into a package, whose folder it gives."""

    def lay_out(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "project" / "pkg"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        # Time stamps are believed at once here; otherwise each test would have to wait until they are two seconds old.
        monkeypatch.setattr(manifest, "_SETTLED", 0)
        time.sleep(TICK)
        return folder

    return lay_out


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose sites were looked for since the list was last cleared."""
    found: list[str] = []
    of_one: Callable[..., None] = source._read_file

    def noting(analysis: object, path: str, *rest: object) -> None:
        found.append(Path(path).name)
        of_one(analysis, path, *rest)

    monkeypatch.setattr(source, "_read_file", noting)
    return found
