"""How many elements of a tensor a thread holds, counted once however often the layout repeats them.

The arithmetic is that of Triton's linear layouts (lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp) for the layouts that
NVIDIA's backend uses. A layout that is not known here counts as no elements, which suits a lower bound.
"""

from __future__ import annotations

import functools
import math
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

_TENSOR = re.compile(r"^tensor<((?:\d+x)+)([^,]+?)(?:, (.*))?>$")
_SLICE = re.compile(r"^#\w+\.slice<\{dim = (\d+), parent = (.*)\}>$")
_OPERAND = re.compile(r"^#\w+\.dot_op<\{opIdx = (\d), parent = (.*?)(?:, kWidth = \d+)?\}>$")
_REGISTER_BASES = re.compile(r"register = (\[(?:\[[^\]]*\](?:, )?)*\])")

_MOST_TYPES = 4096  # that are remembered from module to module; a kernel's configs have many in common

Shape = Tuple[int, ...]


class Tensor(NamedTuple):
    """A tensor's type. ``varied`` has a bit for each dimension that is longer than 1."""

    shape: Shape
    element: str
    layout: str
    varied: int


@functools.lru_cache(maxsize=_MOST_TYPES)
def tensor(text: str) -> Optional[Tensor]:
    """The type that ``text`` spells; ``None`` for what is no tensor of a known rank."""
    match = _TENSOR.match(text)
    if match is None:
        return None
    shape = tuple(int(extent) for extent in match.group(1)[:-1].split("x"))
    varied = sum(1 << dimension for dimension, extent in enumerate(shape) if extent > 1)
    return Tensor(shape, match.group(2), match.group(3) or "", varied)


class Layouts:
    """The layouts of one module, by their aliases."""

    def __init__(self, aliases: Dict[str, str]) -> None:
        self._aliases = aliases
        self._known: Dict[Tuple[Tensor, int], int] = {}

    def elements(self, kind: Tensor, dimensions: int) -> int:
        """Different elements that a thread holds if the tensor varies along these dimensions (a bit each) only."""
        key = kind, dimensions
        if key not in self._known:
            self._known[key] = self._elements(kind.layout, kind.shape, dimensions) or 0
        return self._known[key]

    def meets_at_barrier(self, kind: Tensor, axis: int) -> bool:
        """Whether a reduction along the axis goes from warp to warp, that is through shared memory behind a barrier."""
        layout, shape = self._aliases.get(kind.layout, kind.layout), kind.shape
        while match := _SLICE.match(layout):
            sliced, parent = int(match.group(1)), match.group(2)
            axis += axis >= sliced
            layout, shape = self._aliases.get(parent, parent), (*shape[:sliced], 1, *shape[sliced:])
        warps = _numbers(layout, "warpsPerCTA")
        if axis >= len(warps) or warps[axis] == 1:
            return False
        if ".blocked<" in layout:
            return shape[axis] > _numbers(layout, "sizePerThread")[axis] * _numbers(layout, "threadsPerWarp")[axis]
        columns = _numbers(layout, "instrShape")[1:2] if _mma_version(layout) == 3 else []
        return bool(columns) and shape[axis] > (columns[0] if axis == len(shape) - 1 else 16)

    def _elements(self, layout: str, shape: Shape, dimensions: int) -> Optional[int]:
        layout = self._aliases.get(layout, layout)
        match = _SLICE.match(layout)
        if match:
            sliced, below = int(match.group(1)), (1 << int(match.group(1))) - 1
            shape = (*shape[:sliced], 1, *shape[sliced:])
            return self._elements(match.group(2), shape, dimensions & below | (dimensions & ~below) << 1)
        if ".linear<" in layout:
            return _of_linear(layout, shape, dimensions)
        match = _OPERAND.match(layout)
        if match:
            parent = self._aliases.get(match.group(2), match.group(2))
            held = _of_operand(int(match.group(1)), parent, shape)
        elif ".blocked<" in layout:
            held = _of_blocked(layout, shape)
        else:
            held = _of_mma(layout, shape)
        if held is None:
            return None
        return math.prod(count for dimension, count in enumerate(held) if dimensions >> dimension & 1)


def _numbers(layout: str, key: str) -> List[int]:
    match = re.search(rf"\b{key} = \[([^\]]+)\]", layout)
    return [int(number) for number in match.group(1).split(",")] if match else []


def _mma_version(layout: str) -> int:
    match = re.search(r"\.nvidia_mma<\{versionMajor = (\d+)", layout)
    return int(match.group(1)) if match else 0


def _of_blocked(layout: str, shape: Shape) -> List[int]:
    keys = ("sizePerThread", "threadsPerWarp", "warpsPerCTA")
    rows = zip(shape, *(_numbers(layout, key) for key in keys))  # noqa: B905 (Python 3.9)
    return [min(size, extent) * max(1, extent // (size * lanes * warps)) for extent, size, lanes, warps in rows]


def _of_mma(layout: str, shape: Shape) -> Optional[List[int]]:
    """Accumulators of mma.sync (tiles of 16 × 8) and wgmma (16 rows a warp × its columns): 2 rows, a quarter of a row's columns."""
    version = _mma_version(layout)
    warps, instruction = _numbers(layout, "warpsPerCTA"), _numbers(layout, "instrShape")
    if version not in (2, 3) or len(warps) != len(shape) or len(shape) < 2:
        return None
    columns = instruction[1] if version == 3 else 8
    held = [max(1, extent // count) for extent, count in zip(shape, warps)]  # noqa: B905
    held[-2] = 2 * max(1, shape[-2] // (16 * warps[-2])) if shape[-2] >= 16 else 1
    held[-1] = max(1, min(columns, shape[-1]) // 4) * max(1, shape[-1] // (columns * warps[-1]))
    return held


def _of_operand(index: int, parent: str, shape: Shape) -> Optional[List[int]]:
    """A (``index`` 0) or B of a dot. Multiplied element by element, a thread has the whole inner axis; by mma a quarter."""
    inner, outer = (-1, -2) if index == 0 else (-2, -1)
    if ".blocked<" in parent:
        held = _of_blocked(parent, shape)
        held[inner] = shape[inner]
        return held
    warps = _numbers(parent, "warpsPerCTA")
    if _mma_version(parent) not in (2, 3) or len(warps) != len(shape):
        return None
    held = [max(1, extent // count) for extent, count in zip(shape, warps)]  # noqa: B905
    held[inner] = max(1, shape[inner] // 4)
    rows = max(1, shape[outer] // ((16 if index == 0 else 8) * warps[outer]))
    held[outer] = 2 * rows if index == 0 and shape[outer] >= 16 else rows
    return held


def _of_linear(layout: str, shape: Shape, dimensions: int) -> Optional[int]:
    """2 to the rank of the register bases over GF(2), along the dimensions alone."""
    match = _REGISTER_BASES.search(layout)
    if match is None:
        return None
    rows = []
    for basis in re.findall(r"\[([\d, ]+)\]", match.group(1)):
        coordinates = [int(number) for number in basis.split(",")]
        row = 0
        for dimension, extent in enumerate(shape):
            kept = coordinates[dimension] & (extent - 1) if dimensions >> dimension & 1 else 0
            row = row << 20 | kept
        rows.append(row)
    rank = 0
    while any(rows):
        pivot = max(rows)
        top = 1 << pivot.bit_length() - 1
        rows = [row ^ pivot if row & top else row for row in rows]
        rank += 1
    return 1 << rank
