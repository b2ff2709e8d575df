"""A call in a kernel's body, as the functions that model Triton's own see it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smemcheck.specialize.abstract import UNKNOWN, Abstract

if TYPE_CHECKING:
    from smemcheck.specialize.body import BodyReader


@dataclass(slots=True)
class Call:
    """A call of one of Triton's functions, with its arguments read. ``beside`` is what its result is added to."""

    reader: BodyReader
    node: ast.Call
    arguments: list[Abstract]
    keywords: dict[str, Abstract]
    beside: Abstract = UNKNOWN

    def argument(self, index: int, *names: str) -> Abstract:
        """The argument at a position or under one of its names; ``UNKNOWN`` when it was not given."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.arguments[index] if index < len(self.arguments) else UNKNOWN

    def has(self, index: int, name: str) -> bool:
        return name in self.keywords or index < len(self.arguments)


Operation = Callable[[Call], Abstract]
"""What a function of Triton's does with a call: it notes what the arguments must be and gives the result."""
