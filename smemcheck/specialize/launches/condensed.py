"""A launch without the run that it was made in: of its arguments only what a specialisation is made from.

An example run holds modules, frames and tensors by the thousand, and most runs repeat launches that another run made. So
what is kept of a tensor is its dtype and where that comes from, as one object for all tensors that are alike.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from smemcheck.source.values import External, Instance, Obstacle
from smemcheck.specialize.launches.plans import Launch, Plan
from smemcheck.specialize.launches.tensors import DESCRIPTOR, GUESSED, TENSOR, CallersDtype, Tensor, path_of

UNKNOWN = Obstacle("it is not known in an example launch")
_OBJECT = Instance(External("builtins.object"))


def condensed(launch: Launch) -> Launch:
    """The launch as it is kept once its run has ended."""
    arguments = {name: _kept(value) for name, value in launch.arguments.items()}
    options = {name: _kept(value) for name, value in launch.options.items()}
    return replace(launch, arguments=arguments, options=options, made=None)


def key_of(launch: Launch, plan: Plan) -> Hashable | None:
    """Equal for condensed launches that say the same under their plans; ``None`` where that cannot be told."""
    said = (*map(_key, launch.arguments.items()), *map(_key, launch.options.items()))
    key = (
        launch.kernel,
        launch.position,
        launch.consulted_target,
        plan.dtype,
        plan.side,
        plan.wide,
        plan.index,
        plan.label,
        said,
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _key(value: Any) -> Hashable:
    if isinstance(value, (tuple, list)):
        return type(value), *map(_key, value)
    # Alike tensors and dtypes are one object here; a dtype of the caller's would compare equal to any of the same path.
    return type(value), id(value) if isinstance(value, (Tensor, CallersDtype)) else value


def _kept(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        dtype = value.dtype
        path = path_of(dtype) if isinstance(dtype, External) else None
        group = dtype.group if isinstance(dtype, CallersDtype) else None
        return kept_tensor(path, group, value.assumed, value.given, GUESSED in value.attributes)
    if isinstance(value, CallersDtype):
        return kept_dtype(value.unseen, value.group)
    if isinstance(value, (tuple, list)):
        return type(value)(map(_kept, value)) if type(value) in (tuple, list) else value
    if isinstance(value, Obstacle):
        return UNKNOWN
    if type(value) is Instance:
        if value.cls == DESCRIPTOR:
            return Instance(DESCRIPTOR, {name: _kept(part) for name, part in value.attributes.items()})
        return value if "value" in value.attributes else _OBJECT
    return value


@functools.cache
def kept_tensor(path: str | None, group: str | None, assumed: bool, given: bool, guessed: bool) -> Tensor:
    dtype = None if path is None else kept_dtype(path, group)
    return Tensor(TENSOR, {GUESSED: True} if guessed else {}, dtype, None, assumed, "", given)


@functools.cache
def kept_dtype(path: str, group: str | None) -> External:
    return External(path) if group is None else CallersDtype(path, group, "", set())
