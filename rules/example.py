"""Examples of rules: files a user could write, with what the compiler would answer. They are documentation and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from smemcheck.model import Failure, FailureKind, Footprint, Outcome


@dataclass(frozen=True, slots=True)
class Example:
    """A file that a user could write.

    ``compiler`` holds what the compiler answers for the configs of the list, in order, where a rule depends on it.
    ``about`` says in a clause what the example shows. ``settings`` are fields of ``Settings`` that it needs, ``files`` what
    lies beside the file.
    """

    about: str
    source: str
    compiler: tuple[Outcome, ...] = ()
    target: str = "sm_120"
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def needs(
    shared_memory: int, *, tensor_memory: int = 0, num_warps: int = 4, warp_size: int = 32, **more: Any
) -> Footprint:
    """The compiler's answer: these bytes per block."""
    footprint = Footprint(shared_memory, tensor_memory, num_warps, threads=num_warps * warp_size, triton="3.6.0")
    return replace(footprint, **more)


def refuses(kind: FailureKind, message: str, exception: str = "") -> Failure:
    """The compiler's answer: no."""
    return Failure(kind, message, "3.6.0", exception=exception)


_COPY = """\
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
_DOT = """\
    rows = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * n + rows[None, :])
    tl.store(y_ptr + rows[:, None] * n + rows[None, :], tl.dot(x, x))
"""


def copy_kernel(*configs: str, decorator: str = 'key=["n"]', parameters: str = "x_ptr, y_ptr, n") -> str:
    """A file with an autotuned copy kernel; each config is the text inside ``triton.Config(…)``."""
    return _kernel(configs, decorator, parameters, _COPY)


def dot_kernel(*configs: str, decorator: str = 'key=["n"]', body: str = _DOT) -> str:
    """A file with an autotuned kernel that multiplies a tile by itself."""
    return _kernel(configs, decorator, "x_ptr, y_ptr, n", body)


def launched_kernel(launch: str) -> str:
    """A file with a kernel that has no autotuner, and the function that launches it with what is given."""
    return (
        "import torch\nimport triton\nimport triton.language as tl\n\n\n"
        "@triton.jit\ndef kernel(x_ptr, y_ptr, n: tl.constexpr, BLOCK: tl.constexpr):\n"
        f"{_DOT}\n\n"
        "def square(x: torch.Tensor):\n"
        "    y = torch.empty(x.shape, dtype=torch.float16)\n"
        f"    kernel[(1,)](x.to(torch.float16), y, 256, {launch})\n"
        "    return y\n"
    )


def _kernel(configs: tuple[str, ...], decorator: str, parameters: str, body: str) -> str:
    listed = "".join(f"        triton.Config({config}),\n" for config in configs)
    return (
        "import triton\nimport triton.language as tl\n\n\n"
        f"@triton.autotune(\n    configs=[\n{listed}    ],\n    {decorator},\n)\n"
        f"@triton.jit\ndef kernel({parameters}, BLOCK: tl.constexpr):\n{body}"
    )
