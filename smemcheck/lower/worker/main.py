"""The worker's loop: a line of JSON in, a line of JSON out, and nothing that the compiler prints in between."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Optional

from . import PROTOCOL, failures, lowering
from .frontend import Frontend
from .request import Request
from .slices import Slice, SliceError
from .values import UnknownReadError

_COLLECTED = 20_000, 10, 10  # objects made, and collections of them, before the next generation is looked at too

_CHECK_SOURCE = """def smemcheck_check(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, n, BLOCK):
        x = tl.load(a + i[:, None] * n + (k + i)[None, :])
        y = tl.load(b + (k + i)[:, None] * n + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * n + i[None, :], total)
"""


def main() -> None:
    """Answer jobs until the other end closes. The real stdout carries the answers; what is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def send(answer: Dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    send({"hello": PROTOCOL, **_triton()})
    collect_seldom()
    worker = Worker()
    for line in jobs:
        job = json.loads(line)
        # The pool watches the time; this is for the day when the pool itself is gone.
        signal.setitimer(signal.ITIMER_REAL, job.get("alarm", 0))
        answer = worker.check(job) if job.get("check") else worker.answer(job)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.flush()
        send({"id": job["id"], **answer})


def collect_seldom() -> None:
    """Spare the garbage collector Triton's own modules, which stay, and let it look at what jobs made less often."""
    gc.freeze()
    gc.set_threshold(*_COLLECTED)


def _triton() -> Dict[str, Any]:
    try:
        import triton
        import triton.backends.compiler
        import triton.compiler

    except Exception as error:  # noqa: BLE001 (a broken installation may raise anything)
        return {"triton": None, "error": f"{type(error).__name__}: {error}"}
    return {"triton": triton.__version__}


class Worker:
    """Answers jobs one after the other, and keeps the slice it built last: the configs of a kernel come in a row.

    A job without the text of a slice is about the one before.
    """

    def __init__(self) -> None:
        self.kernel_text = ""
        self.kernel: Optional[Slice] = None
        self.lower = lowering.Lower()

    def answer(self, job: Dict[str, Any]) -> Dict[str, Any]:
        """A footprint, a failure or an unknown; whatever the compiler raises becomes one of them."""
        try:
            return self._lower(job)
        except UnknownReadError as error:
            return {"unknown": error.reason, "position": error.position}
        except SliceError as error:
            return {"unknown": str(error), "position": error.position}
        except Exception as error:  # noqa: BLE001 (what the compiler raises is the answer)
            return failures.describe(error, self.kernel)
        finally:
            shutil.rmtree(os.environ.get("TRITON_CACHE_DIR", os.devnull), ignore_errors=True)

    def _lower(self, job: Dict[str, Any]) -> Dict[str, Any]:
        if job["kernel"] not in ("", self.kernel_text):
            self.kernel, self.kernel_text = None, job["kernel"]
        if self.kernel is None:
            self.kernel = Slice(json.loads(self.kernel_text))
        request = Request(job, self.kernel)
        if "rest" in job:
            text = Path(job["handover"], job["rest"]).read_text(encoding="utf-8")
            return lowering.complete(request, text, job["allocated"])
        wanted = lowering.Wanted(job["registers"], job["shared_memory_limit"], job["handover"])
        return self.lower(request, wanted, job["method"], job["common"])

    def check(self, job: Dict[str, Any]) -> Dict[str, Any]:
        """Whether this Triton lowers for the target at all, and whether the stop gives what the full compile gives."""
        plain = {
            "annotation": "",
            "has_default": False,
            "do_not_specialize": False,
            "do_not_specialize_on_alignment": False,
        }
        parameters = [{**plain, "name": name} for name in "abcn"]
        parameters.append({**plain, "name": "BLOCK", "annotation": "constexpr"})
        definition = {
            "name": "smemcheck_check",
            "path": "<smemcheck check>",
            "line": 1,
            "column": 1,
            "source": _CHECK_SOURCE,
            "jit": "jit",
            "noinline": False,
            "debug": None,
            "parameters": parameters,
            "globals": [["tl", {"attribute": "triton.language"}]],
        }
        kinds = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        request = {
            "target": job["target"],
            "signature": list(kinds.items()),
            "constexprs": [[[4], 32]],
            "divisible": [[0], [1], [2], [3]],
            "options": [["num_warps", 4], ["num_stages", 3]],
        }
        kernel = Slice({"functions": [definition]})
        try:
            full = lowering.compile_fully(Request(request, kernel))
        except Exception as error:  # noqa: BLE001
            return {"checked": "unsupported", "message": failures.describe(error, kernel)["message"]}
        try:
            early = lowering.allocate(Request(request, kernel), Frontend())
        except Exception as error:  # noqa: BLE001
            return {"checked": "full", "message": failures.describe(error, kernel)["message"]}
        same = all(full[name] == early[name] for name in ("shared_memory", "tensor_memory", "num_warps", "threads"))
        return {"checked": "allocation" if same else "full", "message": "" if same else "the early stop differs"}
