"""Arguments that give a launch a wanted specialisation, and keep every access inside its allocation.

Tensors are zero-filled, so that what is gathered with their elements stays in range; they lie in the middle of a large
allocation; sizes and strides are small, so that one program's tiles reach no further than the allocation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_DESCRIPTOR = re.compile(r"tensordesc<([^\[]+)\[([^\]]*)\]")
_TORCH = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz", "i1": "bool", "u1": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64",
}  # fmt: skip

_DIVISIBLE, _ODD = 128, 67  # sizes and strides; neither is 1, which would be a constant
_ROOM = 64 << 20  # bytes on either side of a tensor's start
_SMALLEST = {
    "i64": 1 << 31,
    "u64": 1 << 63,
    "u32": 1 << 31,
}  # what makes Triton take the wider type (native_specialize_impl)


class UnbuildableError(Exception):
    """No argument of ours gives this type; the clause says which."""


def build_arguments(signature: Mapping[str, Any], divisible: set[tuple[int, ...]]) -> dict[str, Any]:
    """Arguments by name for everything that is no constant.

    ``divisible`` holds the paths of what is a multiple of 16. Raises :class:`UnbuildableError`.
    """
    made = {}
    for index, (name, kind) in enumerate(signature.items()):
        if kind != "constexpr":
            made[name] = _argument(name, kind, (index,), divisible)
    return made


def _argument(name: str, kind: Any, path: tuple[int, ...], divisible: set[tuple[int, ...]]) -> Any:
    if not isinstance(kind, str):
        return tuple(_argument(name, one, (*path, index), divisible) for index, one in enumerate(kind))
    descriptor = _DESCRIPTOR.match(kind)
    if descriptor:
        return _descriptor(descriptor[1], [int(size) for size in descriptor[2].split(",")])
    if kind.startswith("*"):
        return _tensor(name, kind.lstrip("*").removeprefix("k"), path in divisible)
    if kind in {"u1", "i1"}:
        return False
    if kind.startswith(("i", "u")):
        return _SMALLEST.get(kind, 0) + (_DIVISIBLE if path in divisible else _ODD)
    if kind.startswith(("fp", "bf")):
        return 0.5
    raise UnbuildableError(f"no argument can be made for {name} of type {kind}; give the call with --verify-with")


def torch_dtype(element: str) -> Any:
    """Torch's dtype for Triton's name of an element type. Raises :class:`UnbuildableError`."""
    import torch

    dtype = getattr(torch, _TORCH.get(element, ""), None)
    if dtype is None:
        raise UnbuildableError(f"torch has no dtype for {element}; give the call with --verify-with")
    return dtype


def _tensor(name: str, element: str, aligned: bool) -> Any:
    """A tensor in the middle of zeros. The start of torch's allocations is aligned to more than 16 bytes."""
    import torch

    del name
    dtype = torch_dtype(element)
    size = torch.empty((), dtype=dtype).element_size()
    zeros = torch.zeros(2 * _ROOM, dtype=torch.uint8, device="cuda").view(dtype)
    return zeros[_ROOM // size + (0 if aligned else 1) :]


def _descriptor(element: str, block: list[int]) -> Any:
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    shape = [max(size, _DIVISIBLE) for size in block]
    strides = [math.prod(shape[index + 1 :]) for index in range(len(shape))]
    base = torch.zeros(shape, dtype=torch.uint8 if element in {"u1", "i1"} else torch_dtype(element), device="cuda")
    return TensorDescriptor(base, shape, strides, block)
