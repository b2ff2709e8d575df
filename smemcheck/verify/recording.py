"""Runs a command with the hook inside its Python processes, and merges what they wrote into one file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smemcheck.errors import UsageError
from smemcheck.model import Target

_STARTUP = Path(__file__).parent / "startup"


@dataclass(frozen=True, slots=True)
class Recording:
    """What came of a command: its exit status, the distinct lines, and how many processes imported Triton."""

    status: int
    lines: tuple[Mapping[str, Any], ...]
    processes: int


def record(command: Sequence[str], without_gpu: Target | None = None) -> Recording:
    """Run the command to its end with recording on. ``without_gpu`` is the target that stands in for a GPU.

    Raises :class:`~smemcheck.errors.UsageError` when the command cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="smemcheck-record-") as folder:
        environment = {**os.environ, "SMEMCHECK_RECORD": folder}
        # An entry that is empty would mean the current folder.
        entries = [str(_STARTUP), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(entries)
        if without_gpu:
            environment["SMEMCHECK_WITHOUT_GPU"] = json.dumps(device_document(without_gpu))
        try:
            process = subprocess.Popen(list(command), env=environment)
        except OSError as error:
            raise UsageError(f"record: {command[0]} cannot be started: {error.strerror}") from None
        status = _waited(process)
        rows, processes = read_parts(Path(folder))
    return Recording(status, rows, processes)


def _waited(process: subprocess.Popen[bytes]) -> int:
    """The exit status. An interrupt at the terminal reaches the command too; what it recorded is kept."""
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue
        return status if status >= 0 else 128 + min(-status, int(max(signal.Signals)))


def device_document(target: Target) -> dict[str, Any]:
    """A target as the hook needs it: what Triton's driver and torch answer for its representative device."""
    return {
        "name": target.name,
        "backend": target.backend,
        "arch": target.arch,
        "warp_size": target.warp_size,
        "shared_memory_limit": target.shared_memory_limit,
        "facts": dict(target.facts),
        "worker": str(Path(__file__).parent.parent / "lower" / "worker"),
    }


def read_parts(folder: Path) -> tuple[tuple[Mapping[str, Any], ...], int]:
    """The distinct lines of all processes, with what was observed when they were loaded; and the number of processes.

    The end of a line that a killed process left unfinished is skipped.
    """
    rows: list[dict[str, Any]] = []
    loaded: dict[str, Mapping[str, Any]] = {}
    processes = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if "process" in row:
                processes += 1
            elif "loaded" in row:
                loaded.setdefault(row["hash"], row["loaded"])
            else:
                rows.append(row)
    for row in rows:
        row["observed"] = {**row["observed"], **loaded.get(row.pop("hash", ""), {})}
    return tuple(merged((), rows)), processes


def merged(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The distinct lines, the earlier first; of lines for the same specialisation the one that observed more, then the newer."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in (*old, *new):
        key = json.dumps({name: value for name, value in row.items() if name != "observed"}, sort_keys=True)
        if key not in found or len(row.get("observed", ())) >= len(found[key].get("observed", ())):
            found[key] = row
    return list(found.values())


def add_to_file(path: Path, lines: Sequence[Mapping[str, Any]]) -> int:
    """Merge lines into a file, which is replaced in one step; how many lines it then has.

    Raises :class:`~smemcheck.errors.UsageError` when the file holds something else or cannot be written.
    """
    old = _existing(path)
    rows = merged(old, lines)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)  # noqa: PTH101 - a temporary file is its owner's alone, a recording is not
        Path(file.name).replace(path)
    except OSError as error:
        raise UsageError(f"--output {path}: cannot be written: {error.strerror}") from None
    return len(rows)


def _existing(path: Path) -> list[Mapping[str, Any]]:
    if not path.exists():
        return []
    from smemcheck.specialize.recorded import read_recorded

    read_recorded(str(path))  # says with file and line what is wrong with it
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
