"""What is said of a worker that ended or refused: in the words that it printed last."""

from __future__ import annotations

import re
import signal
from typing import Any

from smemcheck.model import FailureKind, Position


def how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


# The lines that say why: LLVM's fatal errors, C++ and C assertions, MLIR's diagnostics.
_TELLING = re.compile(
    r"LLVM ERROR|[Aa]ssertion|error:|terminate called|what\(\):|UNREACHABLE|Segmentation fault|bad_alloc"
)


def last_words(tail: bytes) -> str:
    lines = [line.strip() for line in tail.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    said = (telling or lines)[-1:] if not telling else telling[:1]
    return f": {said[0][:300]}" if said else ""


_DIAGNOSTIC = re.compile(r"^(?P<path>\S.*?):(?P<line>\d+):(?P<column>\d+): error: (?P<message>.+)$", re.MULTILINE)


def with_diagnostics(answer: dict[str, Any], tail: bytes) -> dict[str, Any]:
    """A failed pass says only that it failed; the reason was printed, with the user's line."""
    if answer.get("failure") != FailureKind.COMPILATION_ERROR.value or answer.get("position"):
        return answer
    found = _DIAGNOSTIC.search(tail.decode(errors="replace"))
    if found is None:
        return answer
    position = Position(found["path"], int(found["line"]), int(found["column"]))
    return {
        **answer,
        "message": f"{found['message'][:300]} ({answer['message']})",
        "position": [position.path, position.line, position.column],
    }
