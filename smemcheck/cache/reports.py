"""Where reports are kept: one file a report, under a key of everything that decides it except the analysed files."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from smemcheck.cache import manifest as manifests
from smemcheck.config import Settings
from smemcheck.model import Failure, FailureKind, Outcome, Report

_FORMAT = b"smemcheck report 1\n"
_MOST_REPORTS = 32
_PASSING = frozenset({FailureKind.TIMEOUT, FailureKind.UNAVAILABLE, FailureKind.ABORT})
"""Failures that may not come again: a report that holds one is not kept."""


class ReportStore:
    """The report of one question: these paths under these settings, with this Triton and this smemcheck."""

    def __init__(self, paths: Sequence[str], settings: Settings, triton: str) -> None:
        """``triton`` identifies the installation, see :func:`smemcheck.lower.process.identify`."""
        assert settings.cache_directory is not None
        self.started = time.time_ns()
        asked: list[object] = [
            os.getcwd(),
            list(paths),
            [os.path.realpath(path) for path in paths],
            repr(settings),
            triton,
        ]
        asked += [sys.version, sys.executable, sys.platform, _version("torch"), _own_files()]
        key = hashlib.blake2b(json.dumps(asked).encode(errors="surrogateescape"), digest_size=20).hexdigest()
        self._path = Path(settings.cache_directory, "reports", key)
        self._paths, self._settings = paths, settings
        self._before: manifests.Manifest = {}

    def load(self) -> Report | None:
        """The kept report, if everything it rests on is unchanged. If not, the work on a new one may begin."""
        report = self._load()
        if report is None:
            self._before = self._state((), ())
        return report

    def _load(self) -> Report | None:
        try:
            data = self._path.read_bytes()
            head, checksum, rest = data[: len(_FORMAT)], data[len(_FORMAT) :][:20], data[len(_FORMAT) + 20 :]
            if head != _FORMAT or hashlib.blake2b(rest, digest_size=20).digest() != checksum:
                return None
            manifest, _, pickled = rest.partition(b"\n")
            if not manifests.holds(json.loads(manifest)):
                return None
            from smemcheck.cache.pickled import loads

            report = loads(pickled)
        except Exception:  # noqa: BLE001 - whatever a damaged file leads to, the report is made anew
            return None
        with contextlib.suppress(OSError):
            os.utime(self._path)  # the least recently used report goes first
        return report

    def save(self, report: Report, files: Iterable[str], folders: Iterable[str]) -> None:
        """Keep the report. ``files`` and ``folders`` are what it rests on besides the paths; if in doubt, nothing is kept."""
        if report.notes or any(_may_pass(result.outcome) for result in report.results):
            return
        manifest = self._state(files, folders)
        if not manifests.is_still(self._before, manifest, self.started):
            return
        from smemcheck.cache.pickled import dumps

        try:
            rest = json.dumps(manifest).encode() + b"\n" + dumps(report)
            data = _FORMAT + hashlib.blake2b(rest, digest_size=20).digest() + rest
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)
            self._forget_old()
        except Exception:  # noqa: BLE001 - a report that cannot be kept is still a report
            return

    def _state(self, files: Iterable[str], folders: Iterable[str]) -> manifests.Manifest:
        """The state of these files and folders and of all that the paths hold, the rules of what to ignore included."""
        from smemcheck.source.discovery import ignore_files, python_files

        every = [*files, *self._settings.specializations]
        listed = list(folders)
        for path in self._paths:
            every += python_files(path, self._settings.exclude, self._settings.respect_gitignore, listed)
            if self._settings.respect_gitignore:
                every += ignore_files(os.path.realpath(path), listed)
        return manifests.take(every, listed)

    def _forget_old(self) -> None:
        kept = sorted(self._path.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_MOST_REPORTS:]:
            path.unlink()


def _may_pass(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failure) and outcome.kind in _PASSING


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _own_files() -> list[tuple[str, int, int]]:
    """Our own modules and tables as they are on disk: a report that other code made is not read back."""
    found = []
    for folder, folders, names in os.walk(Path(__file__).parents[1], followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            found.append((path, status.st_size, status.st_mtime_ns))
    return sorted(found)
