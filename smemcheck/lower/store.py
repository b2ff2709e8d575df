"""Answers kept between runs, in SQLite under the user's cache directory. Any number of processes share one file.

A store that cannot be used is never an error: a damaged file is set aside, an unwritable one is done without, and what
happened is said in :attr:`Store.notes`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

FILE_NAME = "answers-1.sqlite"
_SCHEMA = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
_WAIT = 20.0  # seconds that one process waits for another to finish its write


class Answers(Protocol):
    """Where a pool keeps answers: this module's :class:`Store`, one shared between machines, or one in memory."""

    @property
    def notes(self) -> list[str]:
        """What the user should know of it."""

    def prefetch(self, keys: Sequence[str]) -> None:
        """Get ready to be asked for these keys: one journey where each ``get`` would be one."""

    def get(self, key: str) -> dict[str, Any] | None:
        """The answer under this key, if there is one."""

    def put(self, key: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer."""

    def close(self) -> None:
        """Nothing more is asked or kept."""


class Store:
    """A mapping from a job's digest to the worker's answer (positions relative to the slice)."""

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        """Open ``directory``/answers-1.sqlite, or keep answers for this run only when ``directory`` is ``None``."""
        self.notes: list[str] = []
        self._path = None if directory is None else Path(directory, FILE_NAME)
        self._connection: sqlite3.Connection | None = None
        if self._path is not None:
            self._connection = self._open(self._path) or self._open_again(self._path)

    def prefetch(self, keys: Sequence[str]) -> None:
        """Nothing: the file is near."""

    def get(self, key: str) -> dict[str, Any] | None:
        """The answer under this key, if there is one."""
        row = self._guarded(lambda db: db.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone())
        if row is None:
            return None
        try:
            answer = json.loads(row[0])
        except ValueError:
            return None
        return answer if isinstance(answer, dict) else None

    def put(self, key: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer; a later one under the same key replaces it."""
        text = json.dumps(answer)
        self._guarded(lambda db: db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text)))

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _guarded(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        if self._connection is None:
            return None
        try:
            return action(self._connection)
        except sqlite3.DatabaseError as error:
            self._give_up(error)
            return None

    def _give_up(self, error: sqlite3.DatabaseError) -> None:
        """Go on without the store. A damaged file is set aside, so that the next run starts a new one."""
        self.close()
        if self._path is not None and _is_damage(error):
            self._set_aside(self._path, error)
        else:
            self.notes.append(f"the store {self._path} cannot be used ({error}); answers of this run are not kept")

    def _open(self, path: Path) -> sqlite3.Connection | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.ExitStack() as undo:
                # A run may go on in another thread than the one that opens and closes; never in both at once.
                connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
                undo.callback(connection.close)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_SCHEMA)
                connection.execute("SELECT key, answer FROM answers LIMIT 1").fetchone()
                undo.pop_all()
                return connection
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._set_aside(path, error)
                return None
            self.notes.append(f"the store {path} cannot be used ({error}); answers of this run are not kept")
        except OSError as error:
            self.notes.append(f"the store {path} cannot be used ({error}); answers of this run are not kept")
        self._path = None
        return None

    def _open_again(self, path: Path) -> sqlite3.Connection | None:
        return None if self._path is None else self._open(path)

    def _set_aside(self, path: Path, error: Exception) -> None:
        aside = path.with_name(f"{path.name}.damaged-{int(time.time())}-{os.getpid()}")
        try:
            path.replace(aside)
        except OSError as refused:
            self.notes.append(f"the store {path} is damaged ({error}) and cannot be moved away ({refused})")
            self._path = None
            return
        for journal in _journals(path):
            with contextlib.suppress(OSError):
                journal.unlink()
        self.notes.append(
            f"the store {path} was damaged ({error}); it was set aside as {aside.name} and a new one begun"
        )


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return not isinstance(error, sqlite3.OperationalError) or "malformed" in text or "no such column" in text


def _journals(path: Path) -> Iterator[Path]:
    yield path.with_name(path.name + "-wal")
    yield path.with_name(path.name + "-shm")
