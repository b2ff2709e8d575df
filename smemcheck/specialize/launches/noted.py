"""Launches of a kernel as bytes and back, so that a later run need not look for them again.

Positions are apart: lines move when something is written above them. Only classes that launches are made of are ever made
from such bytes, whoever wrote them.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

from smemcheck import model
from smemcheck.model import Position
from smemcheck.source.values import External, Instance, Obstacle
from smemcheck.specialize.launches.condensed import UNKNOWN, kept_dtype, kept_tensor
from smemcheck.specialize.launches.explorations import Recorded
from smemcheck.specialize.launches.plans import Launch, Plan
from smemcheck.specialize.launches.tensors import (
    GUESSED,
    CallersDtype,
    GuessedFloat,
    GuessedNumber,
    Sizes,
    Tensor,
    path_of,
)

_MODEL = (model.Config, model.Unknown, model.Dtype, model.FunctionValue, model.AttributeValue, model.ConstexprValue)


def _unknown() -> Obstacle:
    return UNKNOWN


def _at(index: int) -> Position:
    """Stands for a position by its number; a reader has its own."""
    raise NotImplementedError


_MADE_BY = (
    *_MODEL,
    Recorded,
    Launch,
    Plan,
    Sizes,
    External,
    Instance,
    GuessedFloat,
    GuessedNumber,
    kept_tensor,
    kept_dtype,
    _unknown,
    _at,
)
_KNOWN: Mapping[tuple[str, str], Any] = {(one.__module__, one.__qualname__): one for one in _MADE_BY}


class _Writer(pickle.Pickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=5)
        self.positions: dict[Position, int] = {}
        self._plans: dict[Plan, Plan] = {}

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is Position:
            return _at, (self.positions.setdefault(value, len(self.positions)),)
        if kind is Tensor:
            dtype = value.dtype
            path = path_of(dtype) if isinstance(dtype, External) else None
            group = dtype.group if isinstance(dtype, CallersDtype) else None
            return kept_tensor, (path, group, value.assumed, value.given, GUESSED in value.attributes)
        if kind is CallersDtype:
            return kept_dtype, (value.unseen, value.group)
        if kind is External:
            return External, (value.path,)
        if kind is Recorded:  # without the run that it was made in
            plan = value.plan
            plan = Plan(dtype=plan.dtype, index=plan.index, label=plan.label, side=plan.side, wide=plan.wide)
            return Recorded, (value.launch, self._plans.setdefault(plan, plan), None, value.effort, value.entry)
        if kind in (Launch, Plan, Sizes, *_MODEL):
            return kind, tuple([getattr(value, field.name) for field in dataclasses.fields(kind)])
        if kind is GuessedFloat or kind is GuessedNumber:
            return kind, (float(value) if kind is GuessedFloat else int(value),)
        if value is UNKNOWN:
            return _unknown, ()
        if kind is Instance and isinstance(value.cls, External):
            return Instance, (value.cls, value.attributes)
        if (getattr(value, "__module__", None), getattr(value, "__qualname__", None)) in _KNOWN:
            return NotImplemented
        raise pickle.PicklingError(f"a launch with a {kind.__name__} is not kept")


class _Reader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], positions: Sequence[Position]) -> None:
        super().__init__(file)
        self._positions = positions

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (_at.__module__, _at.__qualname__):
            return self._positions.__getitem__
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a launch")
        return _KNOWN[module, name]


def dumps(launches: Mapping[str, list[Recorded]]) -> tuple[bytes, list[Position]] | None:
    """The launches on each target, and the positions in them; ``None`` when one holds what cannot be written."""
    file = io.BytesIO()
    writer = _Writer(file)
    try:
        writer.dump(dict(launches))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    return zlib.compress(file.getvalue(), level=1), list(writer.positions)


def loads(data: bytes, positions: Sequence[Position]) -> dict[str, list[Recorded]]:
    """The launches. Raises whatever damaged bytes lead to."""
    found: dict[str, list[Recorded]] = _Reader(io.BytesIO(zlib.decompress(data)), positions).load()
    return found


class Kernel(NamedTuple):
    """A kernel that launches are looked for: the scanned path, its file, its name and the line of its ``def``."""

    root: str
    path: str
    name: str
    line: int


@dataclass(slots=True)
class Note:
    """What is known of a kernel's launches. ``is_listed`` tells that they were asked for the configs of the autotuner around
    it; ``is_plain``, whether it is launched at all, where that was asked for.
    """

    is_plain: bool | None = None
    is_listed: bool = False
    data: bytes | None = None
    positions: Sequence[Position] = ()


@dataclass(slots=True)
class Notes:
    """What an ``earlier`` run found of kernels and still holds, and what this one ``found``, for a later one."""

    earlier: Mapping[Kernel, Note] = field(default_factory=dict)
    found: dict[Kernel, Note] = field(default_factory=dict)
    _read: dict[Kernel, dict[str, list[Recorded]]] = field(default_factory=dict)

    def launches(self, kernel: Kernel, is_listed: bool) -> Mapping[str, list[Recorded]] | None:
        """The launches of a kernel on each target, if an earlier run found them."""
        note = self.earlier.get(kernel)
        if note is None or note.data is None or note.is_listed != is_listed:
            return None
        if kernel not in self._read:
            try:
                self._read[kernel] = loads(note.data, note.positions)
            except Exception:  # noqa: BLE001 - whatever damaged bytes lead to, launches can be looked for again
                return None
        self.found[kernel] = note
        return self._read[kernel]

    def is_plain(self, kernel: Kernel) -> bool | None:
        """Whether a kernel is launched, if an earlier run found that out."""
        note = self.earlier.get(kernel)
        if note is not None and note.is_plain is not None:
            self.found.setdefault(kernel, note)
            return note.is_plain
        return None

    def note_plain(self, kernel: Kernel, is_plain: bool) -> None:
        """Note whether a kernel is launched."""
        self.found.setdefault(kernel, Note()).is_plain = is_plain

    def note_launches(self, kernel: Kernel, is_listed: bool, launches: Mapping[str, list[Recorded]]) -> None:
        """Note the launches of a kernel, if they can be written."""
        note = self.found.setdefault(kernel, Note())
        written = dumps(launches) if note.data is None else None
        if written is not None:
            note.is_listed, (note.data, note.positions) = is_listed, written

    def forget(self) -> None:
        """Release launches that were read."""
        self._read.clear()
