"""One worker process: how it is started, asked, watched and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smemcheck.lower.jobs import is_triton_variable

# Loads the worker's directory as a package of its own, so that neither our other modules nor our site-packages leak into
# an interpreter that may be another one. The current directory goes first: a triton.py lying there is not Triton.
BOOTSTRAP = """
import importlib.util, sys
sys.path[:] = [p for p in sys.path if p not in ("", ".")]
spec = importlib.util.spec_from_file_location("smemcheck_worker", sys.argv[1] + "/__init__.py",
                                              submodule_search_locations=[sys.argv[1]])
sys.modules["smemcheck_worker"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from smemcheck_worker.main import main
main()
"""

_AT_ONCE = 64 * 1024  # bytes that are read at once
STDERR_TAIL = 64 * 1024  # bytes of what a worker printed last that are kept for messages


class WorkerProcess:
    """A running worker. Its answers and its output come through two pipes that the pool selects on."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        """Start it. ``environment`` holds the variables for Triton; those of the calling shell are not passed on."""
        self.environment = dict(environment)
        self.scratch = tempfile.mkdtemp(prefix="smemcheck-")
        inherited = {name: value for name, value in os.environ.items() if not is_triton_variable(name)}
        self.process = subprocess.Popen(
            [python, "-c", BOOTSTRAP, str(Path(__file__).parent / "worker")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # triton.compile writes to its cache whatever happens; here into a directory of the worker's own.
            env={
                **inherited,
                **environment,
                "TRITON_CACHE_DIR": str(Path(self.scratch, "cache")),
                "TRITON_ALWAYS_COMPILE": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            # Its own group: an interrupt at the terminal reaches us alone, and ptxas ends together with its worker.
            start_new_session=True,
            bufsize=0,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.answers, self.output = self.process.stdout.fileno(), self.process.stderr.fileno()
        os.set_blocking(self.answers, False)
        os.set_blocking(self.output, False)
        self.received = b""
        self.tail = b""
        self.jobs_done = 0
        self.started = time.monotonic()

    def ask(self, request: Mapping[str, Any]) -> bool:
        """Send one job; false when the worker is gone."""
        self.tail = b""
        try:
            assert self.process.stdin
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            return False
        return True

    def read_answers(self) -> list[dict[str, Any]] | None:
        """What was answered since the last call; ``None`` once the worker has closed its end."""
        chunk = _read_available(self.answers, None)
        if chunk is None:
            return None
        *lines, self.received = (self.received + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

    def read_output(self) -> bool:
        """Take in what was printed, keeping the end of it; false once the worker has closed its end."""
        chunk = _read_available(self.output, STDERR_TAIL)
        if chunk is None:
            return False
        self.tail = (self.tail + chunk)[-STDERR_TAIL:]
        return True

    def memory(self) -> int:
        """Resident bytes of the worker and the programs it runs; 0 where /proc does not tell."""
        return sum(_resident(process) for process in [self.process.pid, *_children(self.process.pid)])

    def end(self, *, grace: float = 0.0) -> int:
        """End it with everything it started; its exit status, negative for a signal. ``grace`` seconds to end by itself."""
        assert self.process.stdin
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        if grace:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        status = self.process.poll()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        killed = self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return killed if status is None else status


def _read_available(descriptor: int, keep: int | None) -> bytes | None:
    """All bytes that wait in a pipe (at most the last ``keep`` of them); ``None`` at its end."""
    collected = b""
    while True:
        try:
            chunk = os.read(descriptor, _AT_ONCE)
        except BlockingIOError:
            return collected
        except OSError:
            return collected or None
        if not chunk:
            return collected or None
        collected = (collected + chunk)[-keep:] if keep else collected + chunk
        if len(chunk) < _AT_ONCE:  # each call hands the interpreter to another thread, which is slow to give it back
            return collected


def _resident(process: int) -> int:
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (OSError, ValueError):
        return []
