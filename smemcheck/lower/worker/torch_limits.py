"""``torch.finfo`` and ``torch.iinfo``, which kernels may ask for a dtype's limits while they are compiled, without torch.

The numbers are those of the formats: IEEE 754, bfloat16, and the 8-bit floats of the OCP specification (fn: no infinities;
fnuz: no negative zero either).
"""

from __future__ import annotations

from typing import Any

_FLOATS = {  # bits, largest, distance from 1 to the next, smallest normal
    "float64": (64, 1.7976931348623157e308, 2.0**-52, 2.0**-1022),
    "float32": (32, (2 - 2.0**-23) * 2.0**127, 2.0**-23, 2.0**-126),
    "float16": (16, 65504.0, 2.0**-10, 2.0**-14),
    "bfloat16": (16, (2 - 2.0**-7) * 2.0**127, 2.0**-7, 2.0**-126),
    "float8_e4m3fn": (8, 448.0, 2.0**-3, 2.0**-6),
    "float8_e5m2": (8, 57344.0, 2.0**-2, 2.0**-14),
    "float8_e4m3fnuz": (8, 240.0, 2.0**-3, 2.0**-7),
    "float8_e5m2fnuz": (8, 57344.0, 2.0**-2, 2.0**-15),
}
_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8}


class TorchDtype:
    """A dtype of torch's, of which a kernel can only ask the limits."""

    def __init__(self, name: str) -> None:
        self.name = name


class FloatLimits:
    """``torch.finfo(dtype)``. Raises :class:`TypeError` as torch does when the dtype is no float."""

    def __init__(self, dtype: TorchDtype) -> None:
        dtype = getattr(dtype, "value", dtype)  # Triton may have wrapped it
        if dtype.name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type, not torch.{dtype.name}")
        self.bits, self.max, self.eps, self.smallest_normal = _FLOATS[dtype.name]
        self.min, self.tiny = -self.max, self.smallest_normal


class IntegerLimits:
    """``torch.iinfo(dtype)``. Raises :class:`TypeError` as torch does when the dtype is no integer."""

    def __init__(self, dtype: TorchDtype) -> None:
        dtype = getattr(dtype, "value", dtype)
        if dtype.name not in _INTEGERS:
            raise TypeError(f"torch.iinfo() requires an integer input type, not torch.{dtype.name}")
        self.bits = _INTEGERS[dtype.name]
        signed = not dtype.name.startswith("u")
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0


def member(name: str) -> Any:
    """What ``torch.NAME`` is to a kernel, or ``None`` when it is nothing that it can use."""
    if name in _FLOATS or name in _INTEGERS:
        return TorchDtype(name)
    return {"finfo": FloatLimits, "iinfo": IntegerLimits}.get(name)
