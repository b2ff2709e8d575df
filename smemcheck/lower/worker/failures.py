"""Exceptions of the compiler → the kind of failure, one sentence, and the user's line.

What the autotuner takes for "this config does not work" (triton/runtime/autotuner.py, ``_bench``): ``OutOfResources``,
``CompileTimeAssertionFailure``, and from 3.3 on ``PTXASError``. Anything else ends the user's program. It looks at the
exception that arrives, so an assertion inside a called function, which arrives wrapped, is not among them.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, List, Optional

from .slices import Slice


def describe(error: BaseException, kernel: Optional[Slice]) -> Dict[str, Any]:
    """The answer to a job whose compilation raised ``error``."""
    chain = _chain(error)
    names = {base.__name__ for base in type(error).__mro__}
    kind = "compilation error"
    if "CompileTimeAssertionFailure" in names:
        kind = "static assertion"
    elif "PTXASError" in names:
        kind = "ptxas"
    return {
        "failure": kind,
        "message": _message(chain, kind),
        "position": _position(chain, kernel),
        "exception": type(error).__name__,
    }


def _chain(error: BaseException) -> List[BaseException]:
    """The exception and what it was raised from, outermost first."""
    chain: List[BaseException] = []
    current: Optional[BaseException] = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return chain


def _message(chain: List[BaseException], kind: str) -> str:
    if kind == "ptxas":
        return _ptxas_message(str(chain[0]))
    for error in reversed(chain):
        text = getattr(error, "error_message", None)
        if text:
            return _sentence(_unquoted(str(text)))
        if not hasattr(error, "error_message") and str(error):
            return _sentence(f"{type(error).__name__}: {_unquoted(str(error))}")
    asserted = next((error for error in chain if "AssertionFailure" in type(error).__name__), None)
    if asserted is not None:
        return _sentence(f"the static assertion is false: {ast.unparse(asserted.node.args[0])}")  # type: ignore[attr-defined]
    return _sentence(str(chain[-1]) or type(chain[-1]).__name__)


def _unquoted(text: str) -> str:
    """``NameError('…')``, which the frontend makes of exceptions with ``repr``, read as ``NameError: …``."""
    match = re.fullmatch(r"(\w+)\((['\"])(.*)\2,?\)", text, re.DOTALL)
    return f"{match.group(1)}: {match.group(3)}" if match else text


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "…"


def _ptxas_message(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if re.search(r"\b(error|fatal)\b", line) and line.startswith("ptxas")]
    return _sentence((said or [line for line in lines if line] or ["ptxas failed"])[0])


def _position(chain: List[BaseException], kernel: Optional[Slice]) -> Optional[List[Any]]:
    """[path, line, column] of the innermost error that stands in one of the slice's functions; lines of the file."""
    for error in reversed(chain):
        node: Any = getattr(error, "node", None)
        source = getattr(error, "src", None)
        owner = kernel.owner(source) if kernel and isinstance(source, str) else None
        if owner and hasattr(node, "lineno"):
            column = node.col_offset + owner["column"]
            return [owner["path"], owner["line"] + node.lineno - 1, column]
    return None
