"""What a tensor's attributes and methods give launch code: dtypes and sizes, never numbers of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from smemcheck.source.models.torch_model import itemsize
from smemcheck.source.values import Builtin, Call, External, Instance, Obstacle
from smemcheck.specialize.launches.tensors import (
    Geometry,
    Tensor,
    dtype_of,
    path_of,
    shape_of,
    tensor,
)

_FLOAT32, _INT64, _BOOL = External("torch.float32"), External("torch.int64"), External("torch.bool")
_CASTS = {
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
}
SAME = frozenset(
    {
        "contiguous",
        "clone",
        "detach",
        "cuda",
        "cpu",
        "requires_grad_",
        "zero_",
        "fill_",
        "abs",
        "exp",
        "neg",
        "sigmoid",
        "tanh",
        "relu",
        "masked_fill",
        "masked_fill_",
        "clamp",
        "clamp_",
        "clamp_min",
        "add",
        "add_",
        "mul",
        "mul_",
        "div",
        "div_",
        "sub",
        "sub_",
        "pow",
        "sqrt",
        "rsqrt",
        "copy_",
        "flip",
        "roll",
        "pin_memory",
        "coalesce",
        "softmax",
        "log",
        "log2",
        "detach_",
        "softplus",
        "round",
        "triu",
        "tril",
        "record_stream",
        "normal_",
        "uniform_",
        "expand_as",
        "view_as",
        "reshape_as",
        "type_as",
        "to_local",
        "floor",
        "ceil",
        "trunc",
        "sign",
        "square",
        "reciprocal",
        "nan_to_num",
        "clip",
        "clamp_max",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "remainder",
        "logsigmoid",
    }
)
_NUMBERS = frozenset({"size", "stride", "dim", "numel", "nelement", "__len__", "element_size"})
_RETURNS_BOOL = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf"})


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among ``values``, inside lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def promoted(values: Iterable[Tensor]) -> tuple[Any, bool]:
    """The dtype of an operation over tensors, and whether the code never said it."""
    found = list(values)
    for path in ("torch.float64", "torch.float32"):
        wide = [t for t in found if isinstance(t.dtype, External) and path_of(t.dtype) == path]
        if wide:
            return wide[0].dtype, wide[0].assumed
    floats = [t for t in found if not t.integral]
    best = (floats or found)[0]
    return best.dtype, best.assumed


def like(value: Tensor, dtype: Any = None, geometry: Geometry | None = None) -> Tensor:
    """A tensor like ``value``, of another dtype or other sizes."""
    if dtype is not None:
        return tensor(dtype, geometry or value.geometry, name=value.name)
    return tensor(value.dtype, geometry or value.geometry, assumed=value.assumed, name=value.name)


def contiguous(geometry: Geometry) -> Geometry:
    return geometry if geometry.is_contiguous else Geometry(geometry.sizes, list(geometry.settled()))


def broadcast(found: list[Tensor]) -> Geometry:
    """The sizes of an elementwise operation over tensors."""
    first: Geometry = found[0].geometry
    shapes = [one.geometry.dims for one in found]
    if len(found) == 1 or any(dims is None for dims in shapes):
        return first
    aligned = [[1] * (max(map(len, shapes)) - len(dims)) + dims for dims in shapes]
    sizes = [max(column) for column in zip(*aligned, strict=True)]
    return first if sizes == first.dims else Geometry(first.sizes, sizes)


# ---------------------------------------------------------------------------------------------------------- attributes


def attribute(value: Tensor, name: str) -> Any:
    """``tensor.name``; ``None`` in a tuple's place when it is not modelled, so that the caller can say so."""
    if name == "shape":
        return shape_of(value)
    if name == "dtype":
        return value.dtype if value.dtype is not None else Obstacle("the dtype of a tensor is not known")
    if name in ("data", "grad"):
        return value
    if name == "ndim":
        return len(value.geometry.settled())
    if name == "is_cuda":
        return True
    if name in ("is_leaf", "is_sparse", "is_quantized", "is_meta", "is_cpu", "is_nested"):
        return False
    if name == "requires_grad":
        return True
    if name == "device":
        return Instance(External("torch.device"), {"type": "cuda", "index": 0})
    if name == "itemsize":
        return (
            itemsize(value.dtype.path)
            if isinstance(value.dtype, External)
            else Obstacle("an element's size is not known")
        )
    if name in ("T", "mT", "H"):
        rank = len(value.geometry.settled())
        return like(
            value, geometry=value.geometry.permuted([*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [0])
        )
    if name == "__class__":
        return value.cls
    return Builtin(f"Tensor.{name}", lambda call: method(value, name, call))


def method(value: Tensor, name: str, call: Call) -> Any:
    """The result of calling a tensor's method."""
    known = METHODS.get(name)
    if known is not None:
        try:
            return known(value, call)
        except (IndexError, TypeError, ZeroDivisionError, ValueError):
            if name in _NUMBERS:
                return call.unknown(f"{name}() of a tensor of unknown sizes is not known")
            return like(value, geometry=Geometry(value.geometry.sizes))
    if name in _CASTS:
        return like(value, External(f"torch.{_CASTS[name]}"))
    if name in SAME or (name.endswith("_") and name[:-1] in SAME):
        dtype = dtype_of(call.keywords.get("dtype"))
        return like(value, dtype, contiguous(value.geometry) if name == "contiguous" else None)
    if name in _RETURNS_BOOL:
        return like(value, _BOOL)
    if name.startswith("new_"):
        return _new(value, name, call)
    if name == "is_contiguous":
        return value.geometry.is_contiguous
    if name in ("tolist", "numpy"):
        return call.unknown("the elements of a tensor are not known")
    if name in ("item", "any", "all", "equal"):
        return (
            value.geometry.sizes.sequence
            if name == "item" and value.integral
            else call.unknown("an element of a tensor is not known")
        )
    if name in ("register_hook", "backward", "retain_grad", "share_memory_", "set_"):
        return None
    if name in ("unbind", "split", "chunk", "tensor_split"):
        return _parts(value, name, call)
    dtype = dtype_of(call.keywords.get("dtype"))
    return like(value, dtype, Geometry(value.geometry.sizes))


def integers(call: Call) -> list[int]:
    """The sizes that a call gives, each on its own or all in a list. Raises :class:`TypeError` where one is not known."""
    values = call.arguments
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = list(values[0])
    if not values:
        given = call.keywords.get("size", call.keywords.get("shape"))
        values = list(given) if isinstance(given, (list, tuple)) else []
    if not all(isinstance(v, int) for v in values):
        raise TypeError("a size is not known")
    return [int(v) for v in values]


def _view(value: Tensor, call: Call) -> Tensor:
    first = call.arguments[0] if call.arguments else call.keywords.get("dtype")
    dtype = dtype_of(first)
    if dtype is not None:
        return like(value, dtype)
    sizes = integers(call)
    if -1 in sizes:
        total = math.prod(value.geometry.settled())
        rest = math.prod(s for s in sizes if s != -1)
        sizes = [max(total // rest, 1) if s == -1 else s for s in sizes]
    return like(value, geometry=Geometry(value.geometry.sizes, sizes))


def _to(value: Tensor, call: Call) -> Tensor:
    for one in [*call.arguments, *call.keywords.values()]:
        if isinstance(one, Tensor):
            return like(value, one.dtype) if not one.assumed else tensor(one.dtype, value.geometry, assumed=True)
        dtype = dtype_of(one)
        if dtype is not None:
            return like(value, dtype)
    return value


def _transpose(value: Tensor, call: Call) -> Tensor:
    first, second = call.argument(0, "dim0"), call.argument(1, "dim1")
    rank = len(value.geometry.settle(max(first, second, 1) + 1))
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    return like(value, geometry=value.geometry.permuted(order))


def _permute(value: Tensor, call: Call) -> Tensor:
    order = integers(call)
    rank = len(value.geometry.settle(len(order)))
    return like(value, geometry=value.geometry.permuted([i % rank for i in order]))


def _unsqueeze(value: Tensor, call: Call) -> Tensor:
    index = call.argument(0, "dim")
    dims, strides = list(value.geometry.settled()), value.geometry.strides
    index = index if index >= 0 else index + len(dims) + 1
    geometry = Geometry(value.geometry.sizes, [*dims[:index], 1, *dims[index:]])
    if strides is not None:
        step = strides[index] * dims[index] if index < len(dims) else 1
        geometry.strides = [*strides[:index], step, *strides[index:]]
    return like(value, geometry=geometry)


def _squeeze(value: Tensor, call: Call) -> Tensor:
    dims = list(value.geometry.settled())
    index = call.argument(0, "dim")
    kept = (
        [d for d in dims if d != 1]
        if index is None
        else [d for i, d in enumerate(dims) if i != index % len(dims) or d != 1]
    )
    return like(value, geometry=Geometry(value.geometry.sizes, kept))


def _size(value: Tensor, call: Call) -> Any:
    index = call.argument(0, "dim")
    return shape_of(value) if index is None else value.geometry.size(index)


def _stride(value: Tensor, call: Call) -> Any:
    index = call.argument(0, "dim")
    return tuple(value.geometry.all_strides()) if index is None else value.geometry.stride(index)


def _expand(value: Tensor, call: Call) -> Tensor:
    sizes, dims = integers(call), value.geometry.settled()
    strides = value.geometry.all_strides()
    extra = len(sizes) - len(dims)
    new = [dims[i - extra] if s == -1 and i >= extra else s for i, s in enumerate(sizes)]
    steps = [0 if i < extra or dims[i - extra] != new[i] else strides[i - extra] for i in range(len(new))]
    return like(value, geometry=Geometry(value.geometry.sizes, new, steps))


def _flatten(value: Tensor, call: Call) -> Tensor:
    dims = value.geometry.settled()
    start, end = call.argument(0, "start_dim", 0) % len(dims), call.argument(1, "end_dim", -1) % len(dims)
    return like(
        value,
        geometry=Geometry(value.geometry.sizes, [*dims[:start], math.prod(dims[start : end + 1]), *dims[end + 1 :]]),
    )


def _reduce(value: Tensor, call: Call) -> Tensor:
    dtype = dtype_of(call.keywords.get("dtype"))
    index = call.keywords.get("dim", call.keywords.get("axis", call.arguments[0] if call.arguments else None))
    indices = list(index) if isinstance(index, (list, tuple)) else [index]
    numbers = [one for one in indices if isinstance(one, int)]
    if value.geometry.dims is not None and len(numbers) == len(indices):
        dims = list(value.geometry.dims)
        kept = call.keywords.get("keepdim") or (len(call.arguments) > 1 and call.arguments[1] is True)
        gone = {one % len(dims) for one in numbers}
        left = [1 if at in gone else size for at, size in enumerate(dims) if kept or at not in gone]
        return like(value, dtype, Geometry(value.geometry.sizes, left))
    return like(value, dtype, Geometry(value.geometry.sizes))


def _sum(value: Tensor, call: Call) -> Tensor:
    """Sums of integers are 64-bit (``torch.sum``, ``prod``)."""
    made = _reduce(value, call)
    return like(made, _INT64) if value.integral and dtype_of(call.keywords.get("dtype")) is None else made


def _cumulated(value: Tensor, call: Call) -> Tensor:
    dtype = dtype_of(call.keywords.get("dtype"))
    return like(value, dtype or (_INT64 if value.integral else None))


def _arg(value: Tensor, call: Call) -> Tensor:
    return like(_reduce(value, call), _INT64)


def _new(value: Tensor, name: str, call: Call) -> Tensor:
    dtype = dtype_of(call.keywords.get("dtype"))
    if name == "new_tensor":
        return like(value, dtype, Geometry(value.geometry.sizes))
    arguments = call.arguments[:1] if name == "new_full" else call.arguments
    inner = Call(call.interpreter, list(arguments), call.keywords, call.place, call.open)
    try:
        geometry = Geometry(value.geometry.sizes, integers(inner))
    except TypeError:
        geometry = Geometry(value.geometry.sizes)
    return like(value, dtype, geometry)


def _parts(value: Tensor, name: str, call: Call) -> Any:
    dims = list(value.geometry.settled())
    index = call.keywords.get(
        "dim", call.arguments[-1] if name == "unbind" and call.arguments else call.argument(1, "dim", 0)
    )
    index = index if isinstance(index, int) else 0
    if name == "unbind":
        count, sizes = dims[index], [[*dims[:index], *dims[index + 1 :]] if index >= 0 else dims[:-1]]
        if count > 64:
            return call.unknown("a tensor is split into many parts")
        return tuple(like(value, geometry=Geometry(value.geometry.sizes, list(sizes[0]))) for _ in range(count))
    number = call.argument(0, "chunks")
    if isinstance(number, (list, tuple)) and all(isinstance(n, int) for n in number):
        return tuple(like(value, geometry=Geometry(value.geometry.sizes, _resized(dims, index, n))) for n in number)
    if not isinstance(number, int) or number <= 0:
        return call.unknown("how a tensor is split is not known")
    count = number if name == "chunk" else -(-dims[index] // number)
    size = -(-dims[index] // number) if name == "chunk" else number
    if count > 64:
        return call.unknown("a tensor is split into many parts")
    return tuple(
        like(value, geometry=Geometry(value.geometry.sizes, _resized(dims, index, size))) for _ in range(count)
    )


def _resized(dims: list[int], index: int, size: int) -> list[int]:
    new = list(dims)
    new[index] = size
    return new


METHODS: dict[str, Callable[[Tensor, Call], Any]] = {
    "view": _view, "reshape": _view, "to": _to, "type": _to, "transpose": _transpose, "swapaxes": _transpose, "permute": _permute,
    "unsqueeze": _unsqueeze, "squeeze": _squeeze, "size": _size, "stride": _stride, "expand": _expand, "flatten": _flatten,
    "sum": _sum, "mean": _reduce, "amax": _reduce, "prod": _sum, "cumsum": _cumulated, "logsumexp": _reduce, "argmax": _arg, "argmin": _arg, "argsort": _arg,
    "dim": lambda value, call: len(value.geometry.settled()), "numel": lambda value, call: math.prod(value.geometry.settled()),
    "nelement": lambda value, call: math.prod(value.geometry.settled()),
    "__len__": lambda value, call: value.geometry.settled()[0],
    "element_size": lambda value, call: itemsize(value.dtype.path),
    "data_ptr": lambda value, call: 4096, "storage_offset": lambda value, call: 0, "get_device": lambda value, call: 0,
    "is_floating_point": lambda value, call: not value.integral, "is_complex": lambda value, call: False,
    "t": lambda value, call: like(value, geometry=value.geometry.permuted([1, 0])),
    "max": lambda value, call: _reduce(value, call) if not call.arguments and "dim" not in call.keywords else call.unknown("max with indices"),
    "min": lambda value, call: _reduce(value, call) if not call.arguments and "dim" not in call.keywords else call.unknown("min with indices"),
}  # fmt: skip


def subscripted(value: Tensor, key: Any) -> Tensor:
    """``value[key]``."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(k, (Obstacle, Tensor)) for k in keys) or (
        value.geometry.dims is None and External("builtins.Ellipsis") in keys
    ):
        return like(value, geometry=Geometry(value.geometry.sizes))
    ellipsis = External("builtins.Ellipsis")
    dims, strides = list(value.geometry.settled()), value.geometry.all_strides()
    if ellipsis in keys:
        at = keys.index(ellipsis)
        used = sum(1 for k in keys if k is not None and k != ellipsis)
        keys[at : at + 1] = [slice(None, None, None)] * max(len(dims) - used, 0)
    new_dims, new_strides, at = [], [], 0
    for one in keys:
        if one is None:
            new_dims.append(1)
            new_strides.append(1)
            continue
        if at >= len(dims):
            return like(value, geometry=Geometry(value.geometry.sizes))
        if isinstance(one, slice):
            try:
                new_dims.append(max(len(range(*one.indices(max(dims[at], 0)))), 1))
            except TypeError:
                new_dims.append(dims[at])
            new_strides.append(strides[at])
        at += 1
    new_dims += dims[at:]
    new_strides += strides[at:]
    geometry = Geometry(value.geometry.sizes, new_dims)
    if geometry.all_strides() != new_strides if new_dims else False:
        geometry.strides = new_strides
    return like(value, geometry=geometry)
