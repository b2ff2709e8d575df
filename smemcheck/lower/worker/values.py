"""JSON → the Python objects that Triton's frontend works with: constants, dtypes, functions, and what stays unknown."""

from __future__ import annotations

import contextlib
import importlib
import types
from typing import Any, Callable, Dict

from . import torch_limits

# Python modules whose functions Triton lets a kernel call on constants (triton/runtime/jit.py, DependenciesFinder).
ALLOWED_ROOTS = ("triton", "math", "copy")

_DTYPE_NAMES = {
    "i1": "int1",
    "u1": "int1",
    "bool": "int1",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
_DTYPE_NAMES.update({f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)})


class UnknownReadError(BaseException):
    """Triton read a name that has no known value. Not an ``Exception``: the frontend would wrap it and lose the reason."""

    def __init__(self, reason: str, position: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


class Placeholder:
    """Stands for an unknown value: harmless while nobody looks, raises :class:`UnknownReadError` when Triton reads it."""

    def __init__(self, reason: str, position: Any = None) -> None:
        self.__dict__["_unknown"] = (reason, position)

    def __getattr__(self, name: str) -> Any:
        raise UnknownReadError(*self.__dict__["_unknown"])

    def _read(self, *_: Any, **__: Any) -> Any:
        raise UnknownReadError(*self.__dict__["_unknown"])

    __call__ = __getitem__ = __iter__ = __bool__ = __len__ = __index__ = _read
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __lt__ = __gt__ = __le__ = __ge__ = _read


def attribute(path: str) -> Any:
    """What a dotted path under ``triton`` (or ``math``, ``copy``) leads to; a :class:`Placeholder` when nothing."""
    parts = path.split(".")
    if parts[0] == "torch" and len(parts) == 2 and torch_limits.member(parts[1]) is not None:
        return torch_limits.member(parts[1])
    if parts[0] not in ALLOWED_ROOTS:
        return Placeholder(f"{path} is not Triton's")
    found: Any = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            _import(".".join(parts[:count]))
        if not hasattr(found, part):
            return Placeholder(f"this Triton has no {path}")
        found = getattr(found, part)
    return found


def _import(module: str) -> None:
    """Import a submodule, which makes it an attribute of its package, if there is one."""
    with contextlib.suppress(ImportError):
        importlib.import_module(module)


def dtype(name: str) -> Any:
    """Triton's dtype object of a short name (``fp16``, ``i32``, ``int32``, ``*fp16``)."""
    from triton import language as tl

    if name.startswith("*"):
        return tl.pointer_type(dtype(name[1:]))
    return tl.dtype(_DTYPE_NAMES.get(name, name))


def value(encoded: Any, function: Callable[[int], Any]) -> Any:
    """Decode one value of a job; ``function`` gives the object that stands for a function of the slice, by its index."""
    if isinstance(encoded, list):
        return tuple(value(item, function) for item in encoded)
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "dtype":
        return dtype(content)
    if kind == "function":
        return function(content)
    if kind == "attribute":
        return attribute(content)
    if kind == "constexpr":
        from triton import language as tl

        inner = value(content, function)
        return inner if isinstance(inner, Placeholder) else tl.constexpr(inner)
    if kind == "namespace":
        return _user_module(content[0], {name: value(item, function) for name, item in content[1]})
    if kind == "unknown":
        return Placeholder(*content)
    raise ValueError(f"value of unknown kind {kind}")


def _user_module(name: str, members: Dict[str, Any]) -> types.ModuleType:
    """A module or class of the user's. Triton accepts exactly ``ModuleType``; what is not among its members is unknown."""

    def absent(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UnknownReadError(f"{name}.{attribute} is not part of the kernel's slice")

    module = types.ModuleType(name)
    module.__dict__.update(members, __getattr__=absent)
    return module
