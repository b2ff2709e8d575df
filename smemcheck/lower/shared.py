"""Answers shared between machines: any file system that fsspec knows (a directory, S3, GCS, …), behind the near store.

One object an answer, ``ab/abcd….json``, under a checksum: half-written ones are not there. What is read is kept near.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from smemcheck.errors import UsageError
from smemcheck.lower.store import Answers

_BATCH = 64  # answers that travel together: an object store answers many requests at once, each of them late


class SharedStore:
    """Looks near, then far; keeps near and far. A far side that fails is done without, and :attr:`notes` say so."""

    def __init__(self, url: str, near: Answers) -> None:
        """``url`` is a folder as fsspec writes it (``s3://bucket/smemcheck``, ``/mnt/shared``).

        Raises :class:`~smemcheck.errors.UsageError` when fsspec, or its package for this kind of URL, is missing.
        """
        try:
            import fsspec.core
        except ImportError:
            raise UsageError(f"--cache {url}: needs fsspec: pip install 'smemcheck[shared]'") from None
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"--cache {url}: {error}") from None
        self._url, self._near = url, near
        self._fetched: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, bytes] = {}
        self._reachable = True
        self._own_notes: list[str] = []

    @property
    def notes(self) -> list[str]:
        return [*self._near.notes, *self._own_notes]

    def prefetch(self, keys: Sequence[str]) -> None:
        """Fetch the answers that the near side lacks."""
        missing = [key for key in dict.fromkeys(keys) if self._near.get(key) is None]
        for start in range(0, len(missing), _BATCH):
            self._fetch(missing[start : start + _BATCH])

    def get(self, key: str) -> dict[str, Any] | None:
        near = self._near.get(key)
        if near is not None:
            return near
        if key not in self._fetched and key.isalnum():
            self._fetch([key])
        return self._fetched.get(key)

    def put(self, key: str, answer: Mapping[str, Any]) -> None:
        self._near.put(key, answer)
        if key.isalnum():  # checks of the compiler on this machine stay here
            self._waiting[self._path(key)] = _packed(answer)
        if len(self._waiting) >= _BATCH:
            self._send()

    def close(self) -> None:
        self._send()
        self._near.close()

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}.json"

    def _fetch(self, keys: Sequence[str]) -> None:
        paths = {self._path(key): key for key in keys}
        found = self._guarded(lambda: self._files.cat(list(paths), on_error="return")) if paths else None
        for path, data in (found or {}).items():
            answer = _unpacked(data) if isinstance(data, bytes) else None
            key = paths.get(path)
            if answer is not None and key is not None:
                self._fetched[key] = answer
                self._near.put(key, answer)
        refused = [
            e for e in (found or {}).values() if isinstance(e, Exception) and not isinstance(e, FileNotFoundError)
        ]
        if refused:
            self._give_up(refused[0])

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}

        def send() -> None:
            for folder in {path.rpartition("/")[0] for path in waiting}:
                self._files.makedirs(folder, exist_ok=True)
            self._files.pipe(waiting)

        if waiting:
            self._guarded(send)

    def _guarded(self, action: Any) -> Any:
        if not self._reachable:
            return None
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - each file system raises its own
            self._give_up(error)
            return None

    def _give_up(self, error: Exception) -> None:
        self._reachable = False
        self._own_notes.append(f"the shared cache {self._url} cannot be used ({type(error).__name__}: {error})")


def _packed(answer: Mapping[str, Any]) -> bytes:
    text = json.dumps(answer).encode()
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _unpacked(data: bytes) -> dict[str, Any] | None:
    checksum, _, text = data.partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != checksum:
        return None
    answer = json.loads(text)
    return answer if isinstance(answer, dict) else None
