"""What an example run is told, and what it met: plans, choices and launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from smemcheck.model import Config, Position
from smemcheck.source.values import External
from smemcheck.specialize.launches.tensors import CallersDtype, Sizes, Tensor


@dataclass(frozen=True, slots=True)
class Plan:
    """What an example run is told: sizes, the 16- or 32-bit float dtype, and choices by their key."""

    sizes: Sizes = field(default_factory=Sizes)
    dtype: str = "torch.float16"
    index: str = "torch.int32"
    choices: tuple[tuple[Hashable, int], ...] = ()
    optional: bool = False  # every optional tensor is given, tensors of indices apart
    indices: bool = False  # every optional tensor of indices (``cu_seqlens``) is given
    flags: bool = False  # every boolean and text is another than its default
    moves: tuple[str, ...] = ()  # what makes it differ from the plainest one
    label: str = "torch.int64"
    side: str = ""  # of weights, biases and gates; like the others when empty
    case: int | None = None  # which of the cases that a test was written for
    wide: str = (
        "torch.float32"  # of tensors that are 32-bit among 16-bit ones by their names: gates, states, statistics
    )

    def dtype_path(self, dtype: External) -> str:
        """A dtype under this plan, in a run that did not look at it."""
        return self.chosen_dtype(dtype.group) if isinstance(dtype, CallersDtype) else dtype.path

    def chosen_dtype(self, group: str) -> str:
        """The path of the dtype that tensors of a group have."""
        side = self.side or self.dtype
        return {"float": self.dtype, "side": side, "wide": self.wide, "index": self.index, "label": self.label}[group]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that a run made: among how many, which, and of what kind (``optional``, ``flag``, ``text``, ``condition``)."""

    key: Hashable
    kind: str
    count: int
    taken: int


@dataclass(slots=True)
class Launch:
    """One launch of a kernel in an example run, its arguments by the kernel's parameter names."""

    kernel: Position  # of its ``def``
    arguments: dict[str, Any]
    options: dict[str, Any]
    position: Position
    made: Callable[[], tuple[Config, ...] | None] | None = (
        None  # gives the configs of the autotuner around it in this run
    )
    configs: tuple[Config, ...] | None = None  # what that gave, where it was asked for
    consulted_target: bool = False  # what led to it was told something of the device, so on another one it may differ

    def kinds(self, plan: Plan) -> Hashable:
        """What distinguishes this launch under a plan apart from numbers: dtypes, what is not given, flags and texts."""
        options = tuple((name, value) for name, value in self.options.items() if isinstance(value, (int, str)))
        return (*(_pair(name, _kind(value, plan)) for name, value in self.arguments.items()), options)


@functools.lru_cache(maxsize=1 << 16)
def _pair(name: str, kind: Hashable) -> tuple[str, Hashable]:
    """What is said of one argument, as one object: thousands of launches are kept, and most say the same of most."""
    return name, kind


def _kind(value: Any, plan: Plan) -> Hashable:
    if isinstance(value, Tensor):
        return plan.dtype_path(value.dtype) if isinstance(value.dtype, External) else "tensor"
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, External):
        return plan.dtype_path(value)
    if isinstance(value, (tuple, list)):
        return tuple(_kind(one, plan) for one in value)
    return "one" if isinstance(value, int) and value == 1 else type(value).__name__
