"""Example tensors: what launch code sees of a tensor that nobody has made yet.

Sizes are plain integers, chosen for an example launch, so that everything computed from them is plain Python. What is not
known of a tensor (its rank, at first) is settled by the first code that needs it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from smemcheck.source.models.torch_model import canonical_dtype, itemsize
from smemcheck.source.values import External, Instance

_MOST_DIMENSIONS = 16  # an index beyond it is an example's size where code wants the number of a dimension
GUESSED = "<guessed>"  # the attribute of an example tensor that only a parameter's use makes one
TENSOR = External("torch.Tensor")
DESCRIPTOR = External("triton.tools.tensor_descriptor.TensorDescriptor")

_BATCH = re.compile(r"(?i)^(b|bs|bsz|nb|z|batch\w*)$")
_DIMENSION = re.compile(
    r"(?i)^(d|k|v|c|e|dk|dv|dqk|dhqk|dhhv|dhv|\w*dim\w*|\w*hidden\w*|\w*feat\w*|\w*cols?|\w*channels?|dstate|vocab\w*)$"
)
_VALUES = re.compile(r"(?i)^(v|dv|dhhv|dhv|d_?v|v_?dim|v_?head_?dim|head_?v_?dim|head_?dim_?v|\w*_dim_v|\w*_v_dim)$")
_OF_VALUES = re.compile(r"(?i)^(v|values?|d?o|out|d?v|v_\w+|\w+_v|mat_?v|d?h|mat(delta)?h\w*)$")
_WIDTH = re.compile(r"(?i)^(w|width|d_?conv|(conv|kernel)_?(width|size|dim))$")
_HEADS = re.compile(r"(?i)^(h|hq|hk|hv|hkv|nh|n?q?k?v?_?heads?\w*|\w*n?heads?\w*|num_heads)$")
_GROUPS = re.compile(r"(?i)^(g|\w*groups?)$")
_SEQUENCE = re.compile(
    r"(?i)^(t|s|l|m|n|tq|tk|tv|seq\w*|\w*len\w*|\w*ctx\w*|\w*tokens?\w*|\w*rows?|total\w*|n_?frames)$"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of one example: elements in each kind of dimension."""

    dimension: int = 64
    values: int = 0  # the dimension of values where it is another one than that of queries and keys
    batch: int = 2
    sequence: int = 1024
    heads: int = 4
    groups: int = 2
    features: int = 1024  # that a layer of a model takes
    width: int = 4  # of a convolution over a sequence
    rank: int = 4  # of tensors of which the code never says it

    def of_tensor(self, name: str) -> Sizes:
        """The sizes for a tensor of this name: values and outputs of attention have a dimension of their own."""
        return replace(self, dimension=self.values) if self.values and _OF_VALUES.match(name) else self

    def of(self, name: str, index: int, rank: int) -> int:
        """An example size for a dimension by its name in the code, and by its position where it has none."""
        last = index == rank - 1
        if name.isdigit():
            return int(name)
        if _WIDTH.match(name):
            return self.width
        if self.values and _VALUES.match(name) and not (index == 0 and rank > 1):
            return self.values
        if _DIMENSION.match(name) and not (index == 0 and rank > 1):
            return self.dimension
        if last and rank > 1 and not re.match(r"(?i)^(t|s|l|\w*len\w*|h|\w*heads)$", name):
            return self.dimension
        for pattern, size in (
            (_BATCH, self.batch),
            (_GROUPS, self.groups),
            (_HEADS, self.heads),
            (_SEQUENCE, self.sequence),
        ):
            if name and pattern.match(name):
                return size
        if rank == 1:
            return self.dimension
        if index == 0 and rank > 2:
            return self.batch
        if rank == 4 and index == 2:
            return self.heads
        return self.sequence


@dataclass(eq=False, slots=True)
class Geometry:
    """Sizes and strides, shared by tensors that have the same. ``dims`` is ``None`` while the rank is not known."""

    sizes: Sizes
    dims: list[int] | None = None
    strides: list[int] | None = None  # of a view that is not contiguous
    known: dict[int, int] = field(default_factory=dict)  # by index as written, until the rank is known
    names: dict[int, str] = field(default_factory=dict)

    def settle(self, rank: int, names: Sequence[str] = ()) -> list[int]:
        """Give the tensor ``rank`` dimensions, unless it has them already. Raises :class:`IndexError` for more than tensors have."""
        if self.dims is None:
            if rank > _MOST_DIMENSIONS:
                raise IndexError(rank)
            dims = [self.sizes.of(names[i] if i < len(names) else "", i, rank) for i in range(rank)]
            for index, size in self.known.items():
                if -rank <= index < rank:
                    dims[index] = size
            self.dims = dims
        return self.dims

    def settled(self) -> list[int]:
        if self.dims is not None:
            return self.dims
        return self.settle(max(self.deepest, self.sizes.rank))

    @property
    def deepest(self) -> int:
        """The rank that the dimensions asked for need at least."""
        return max((i + 1 if i >= 0 else -i for i in self.known), default=0)

    def size(self, index: int, name: str = "") -> int:
        """The size of one dimension. Raises :class:`IndexError`."""
        if self.dims is None:
            if index not in self.known:
                rank = 4 if index < 0 else index + 2
                self.known[index] = self.sizes.of(name, index % rank, rank)
            return self.known[index]
        return self.dims[index]

    def stride(self, index: int) -> int:
        """The stride of one dimension in elements. Raises :class:`IndexError`."""
        dims = self.settle(max(index + 1, self.sizes.rank)) if index >= 0 and self.dims is None else self.settled()
        if self.strides is not None:
            return self.strides[index]
        position = index if index >= 0 else index + len(dims)
        if not 0 <= position < len(dims):
            raise IndexError(index)
        return math.prod(dims[position + 1 :])

    def all_strides(self) -> list[int]:
        return [self.stride(i) for i in range(len(self.settled()))]

    @property
    def is_contiguous(self) -> bool:
        """As torch sees it: the strides of dimensions of one element do not count."""
        if self.strides is None or self.dims is None:
            return self.strides is None
        step = 1
        for size, stride in zip(reversed(self.dims), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True

    def permuted(self, order: Sequence[int]) -> Geometry:
        dims, strides = self.settled(), self.all_strides()
        return Geometry(self.sizes, [dims[i] for i in order], [strides[i] for i in order])


class GuessedNumber(int):
    """A number for a parameter that only its name makes one. What is computed from it is a plain number."""


class GuessedFloat(float):
    """A float for a parameter of which only its name or its default says that it is one: callers may give a tensor."""


def plain_number(value: float) -> float:
    """The number without what was guessed about it."""
    if isinstance(value, GuessedNumber):
        return int(value)
    return float(value) if isinstance(value, GuessedFloat) else value


class CallersDtype(External):
    """A dtype that the caller chooses, with its value in this run. ``group`` is which dtypes change together.

    Code that looks at it (compares it, uses it as a key, asks for its size) is noted in ``seen``. While nothing does, the
    run holds for every other dtype too, so that it need not be made again.
    """

    __slots__ = ("_path", "group", "name", "seen")
    group: str
    name: str
    seen: set[str]

    def __init__(self, path: str, group: str, name: str, seen: set[str]) -> None:
        for slot, value in (("_path", path), ("group", group), ("name", name), ("seen", seen)):
            object.__setattr__(self, slot, value)

    @property
    def path(self) -> str:
        self.seen.add(self.group)
        return self.unseen

    @property
    def unseen(self) -> str:
        """The path, for what is no code of the user's."""
        return str(object.__getattribute__(self, "_path"))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, External) and self.path == other.path)

    def __hash__(self) -> int:
        return hash((self.path,))


def path_of(dtype: External) -> str:
    """The path of a dtype, without the user's code having looked at it."""
    return dtype.unseen if isinstance(dtype, CallersDtype) else dtype.path


def dtype_of(value: Any) -> External | None:
    """A torch dtype given as a value."""
    if isinstance(value, CallersDtype):
        return value
    if isinstance(value, External) and value.path.startswith("torch."):
        path = canonical_dtype(value.path)
        return External(path) if itemsize(path) is not None else None
    return None


@dataclass(eq=False, slots=True)
class Tensor(Instance):
    """A tensor. ``dtype`` is a torch dtype, an obstacle, or a parameter's; ``assumed`` tells that the code never said it."""

    dtype: Any = None
    geometry: Any = None
    assumed: bool = False
    name: str = ""
    given: bool = False  # the caller's own, not one made from another

    @property
    def integral(self) -> bool:
        path = path_of(self.dtype) if isinstance(self.dtype, External) else ""
        return "int" in path or path == "torch.bool"


def tensor(dtype: Any, geometry: Geometry, *, assumed: bool = False, name: str = "") -> Tensor:
    return Tensor(TENSOR, {}, dtype, geometry, assumed, name)


@dataclass(eq=False, slots=True)
class Shape(Instance):
    """``x.shape`` of a tensor whose rank is not known yet."""

    of: Any = None


def shape_of(value: Tensor) -> Any:
    """``value.shape``: a tuple once the rank is known."""
    dims = value.geometry.dims
    return tuple(dims) if dims is not None else Shape(External("torch.Size"), {}, value)
