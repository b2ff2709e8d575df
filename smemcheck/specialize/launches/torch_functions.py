"""What torch's functions give launch code: example tensors of the dtypes and sizes that they are asked for."""

from __future__ import annotations

from typing import Any

from smemcheck.source.values import Call, External, Obstacle
from smemcheck.specialize.launches.tensors import Geometry, Sizes, Tensor, dtype_of, tensor
from smemcheck.specialize.launches.torch_calls import (
    METHODS,
    SAME,
    contiguous,
    integers,
    like,
    method,
    promoted,
    tensors_in,
)
from smemcheck.specialize.launches.torch_modules import linear

_FLOAT32, _INT64 = External("torch.float32"), External("torch.int64")
_MAKES = frozenset(f"torch.{name}" for name in ("empty", "zeros", "ones", "rand", "randn", "full", "empty_strided"))
_HOLDS_DATA = frozenset(
    f"torch.{name}" for name in ("arange", "tensor", "randint", "randperm", "as_tensor", "linspace")
)
_DTYPE_CLASSES = {
    "LongTensor": "int64",
    "IntTensor": "int32",
    "BoolTensor": "bool",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "FloatTensor": "float32",
    "ByteTensor": "uint8",
}
_KEEPS_SIZES = frozenset(
    ("pad", "softplus", "silu", "gelu", "sigmoid", "logsigmoid", "softmax", "dropout")
)  # of torch.nn.functional


def function(path: str, call: Call, sizes: Sizes) -> Any:
    """The result of a function of torch (or of a library that works on its tensors); ``None`` when it gives no tensor."""
    name = path.rpartition(".")[2]
    if path in _MAKES:
        return _made(name, call, sizes)
    if path == "torch.nn.Parameter" or path.endswith(".nn.parameter.Parameter"):
        return _parameter(call)
    if path == "torch.nn.Linear":
        return linear(call)
    if path in _HOLDS_DATA:
        return _data(name, call, sizes)
    if name in _DTYPE_CLASSES and path.startswith(("torch.", "torch.cuda.")):
        return tensor(External(f"torch.{_DTYPE_CLASSES[name]}"), Geometry(sizes))
    found = list(tensors_in([*call.arguments, *call.keywords.values()]))
    if not found:
        return None
    if name.endswith("_like"):
        return like(found[0], dtype_of(call.keywords.get("dtype")), contiguous(found[0].geometry))
    if path == "torch.is_tensor":
        return True
    if name == "broadcast_tensors":
        return tuple(found)
    if name in ("is_floating_point", "numel"):
        return method(found[0], name, Call(call.interpreter, [], {}, call.place))
    if path in ("torch.allclose", "torch.equal", "torch.any", "torch.all", "torch.isnan"):
        return None
    if path in ("torch.cat", "torch.concat", "torch.stack"):
        dtype, assumed = promoted(found)
        return tensor(dtype, _joined(name, found, call), assumed=assumed)
    if isinstance(call.arguments[0] if call.arguments else None, Tensor) and (
        name in METHODS or name in SAME or name in ("unbind", "split", "chunk")
    ):
        return method(found[0], name, Call(call.interpreter, call.arguments[1:], call.keywords, call.place, call.open))
    dtype, assumed = promoted(found)
    given = dtype_of(call.keywords.get("dtype"))
    kept = path.startswith("torch.nn.functional.") and name in _KEEPS_SIZES
    geometry = found[0].geometry if kept else Geometry(sizes)
    return tensor(given or dtype, geometry, assumed=assumed and given is None)


def _made(name: str, call: Call, sizes: Sizes) -> Tensor:
    arguments = call.arguments[:1] if name in ("full", "empty_strided") else call.arguments
    inner = Call(call.interpreter, list(arguments), call.keywords, call.place, call.open)
    dtype = call.keywords.get("dtype")
    try:
        geometry = Geometry(sizes, integers(inner))
    except TypeError:
        geometry = Geometry(sizes)
    return tensor(dtype if isinstance(dtype, Obstacle) else dtype_of(dtype) or _FLOAT32, geometry)


def _parameter(call: Call) -> Any:
    """A parameter of a module. One that is never trained holds what was quantised, which no cast of the module reaches."""
    first = next(tensors_in(call.arguments), None)
    if first is None:
        return None
    if call.keywords.get("requires_grad") is False or first.integral:
        return first
    return call.interpreter.parameter(first)  # type: ignore[attr-defined]


def _data(name: str, call: Call, sizes: Sizes) -> Tensor:
    """A tensor of numbers that the code lists or counts: its sizes are those of the list."""
    dtype = dtype_of(call.keywords.get("dtype"))
    first = call.arguments[0] if call.arguments else call.keywords.get("data")
    if isinstance(first, Tensor):
        return like(first, dtype)
    if name in ("tensor", "as_tensor") and not isinstance(first, Obstacle):
        dims, floating = _listed(first)
        return tensor(dtype or (_FLOAT32 if floating else _INT64), Geometry(sizes, dims))
    length = first if name == "arange" and isinstance(first, int) else sizes.sequence
    return tensor(dtype or (_FLOAT32 if isinstance(first, float) else _INT64), Geometry(sizes, [length]))


def _listed(data: Any) -> tuple[list[int], bool]:
    """The sizes of nested lists of numbers, and whether any number is a float."""
    if not isinstance(data, (list, tuple)):
        return [], isinstance(data, float)
    inner = [_listed(one) for one in data]
    return [len(data), *(inner[0][0] if inner else [])], any(floating for _, floating in inner) or not data


def _joined(name: str, found: list[Tensor], call: Call) -> Geometry:
    dims = [t.geometry.dims for t in found]
    index = call.argument(1, "dim", 0)
    first = dims[0]
    if first is None or any(d is None or len(d) != len(first) for d in dims) or not isinstance(index, int):
        return Geometry(found[0].geometry.sizes)
    if name == "stack":
        position = index % (len(first) + 1)
        return Geometry(found[0].geometry.sizes, [*first[:position], len(found), *first[position:]])
    if not -len(first) <= index < len(first):  # the example has another rank than the code expects
        return Geometry(found[0].geometry.sizes)
    new = list(first)
    new[index] = sum(d[index] for d in dims if d is not None)
    return Geometry(found[0].geometry.sizes, new)
