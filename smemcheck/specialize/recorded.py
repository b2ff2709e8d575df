"""Recorded specialisations: JSON lines of what real launches had, as ``smemcheck record`` writes them.

One line is ``{"kernel": …, "path": …, "line": …, "signature": {…}, "constexprs": {…}, "divisible_by_16": […],
"environment": {…}, "config": {…}}``; ``line``, ``constexprs``, ``divisible_by_16``, ``environment`` and ``config`` are
optional. Lines belong to sites by the kernel's name, the longest common tail of the path, and the line of ``def``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smemcheck.errors import UsageError
from smemcheck.model import Config, ConstexprValue, Dtype, FunctionValue, Site, Specialization, Unknown, Value


class RecordedError(UsageError):
    """A file of recorded specialisations cannot be used: names the file, the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One line. ``line`` is its number in the file, ``definition`` the recorded line of ``def``."""

    line: int
    kernel: str
    path: str
    definition: int | None
    specialization: Specialization
    unknown: tuple[tuple[str, Unknown], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedSpecializations:
    """The lines of one file, by kernel name. ``lines`` is how many lines the file has, blank ones included."""

    path: str
    by_kernel: Mapping[str, tuple[Recorded, ...]]
    lines: int
    names_configs: bool

    def matching(self, site: Site) -> tuple[Recorded, ...]:
        """The lines that are about ``site``, in the file's order, as far as one site alone can tell."""
        entries = [
            entry for entry in self.by_kernel.get(site.kernel_name, ()) if common_tail(entry.path, site.position.path)
        ]
        longest = max((common_tail(entry.path, site.position.path) for entry in entries), default=0)
        return tuple(entry for entry in entries if common_tail(entry.path, site.position.path) == longest)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which recorded lines belong to which site: for each site its own narrowed files; and the lines that belong to none."""

    by_site: tuple[tuple[RecordedSpecializations, ...], ...]
    unmatched: tuple[tuple[str, Recorded], ...]


def assign(sites: Sequence[Site], files: Sequence[RecordedSpecializations]) -> Assignment:
    """Give every recorded line to exactly one site: the longest common tail wins, then the nearest ``def``, then the first."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, site in enumerate(sites):
        by_name[site.kernel_name].append(index)
    given: list[list[dict[str, list[Recorded]]]] = [[defaultdict(list) for _ in files] for _ in sites]
    unmatched = []
    for number, file in enumerate(files):
        for kernel, entries in file.by_kernel.items():
            for entry in entries:
                best = _best_site(entry, sites, by_name[kernel])
                if best is None:
                    unmatched.append((file.path, entry))
                else:
                    given[best][number][kernel].append(entry)
    narrowed = tuple(
        tuple(
            replace(file, by_kernel={kernel: tuple(entries) for kernel, entries in found.items()})
            for file, found in zip(files, of_site, strict=True)
        )
        for of_site in given
    )
    return Assignment(narrowed, tuple(sorted(unmatched, key=lambda item: item[1].line)))


def _best_site(entry: Recorded, sites: Sequence[Site], candidates: Sequence[int]) -> int | None:
    def rank(index: int) -> tuple[int, int, int]:
        position = sites[index].position
        distance = abs(position.line - entry.definition) if entry.definition is not None else 0
        return -common_tail(entry.path, position.path), distance, index

    found = [index for index in candidates if common_tail(entry.path, sites[index].position.path)]
    return min(found, key=rank, default=None)


def common_tail(left: str, right: str) -> int:
    """How many of the last components two paths share."""
    count = 0
    for one, other in zip(reversed(left.split("/")), reversed(right.split("/")), strict=False):
        if one != other:
            break
        count += 1
    return count


def read_recorded(path: str) -> RecordedSpecializations:
    """Read a file of recorded specialisations. Raises :class:`RecordedError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise RecordedError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RecordedError(f"{path}: is not UTF-8, so it holds no recorded specialisations") from None
    by_kernel: dict[str, list[Recorded]] = defaultdict(list)
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            entry = _Line(path, number).read(line)
            by_kernel[entry.kernel].append(entry)
    names_configs = any(entry.specialization.config is not None for entries in by_kernel.values() for entry in entries)
    return RecordedSpecializations(
        path, {name: tuple(entries) for name, entries in by_kernel.items()}, len(lines), names_configs
    )


_WORDS: dict[type[Any], str] = {dict: "an object", str: "a string", list: "a list"}


class _Line:
    """Reads one line; every complaint names it."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number

    def read(self, text: str) -> Recorded:
        try:
            row = json.loads(text)
        except ValueError as error:
            raise self.error(f"is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise self.error("must be a JSON object with kernel, path and signature")
        signature = self.signature(self.field(row, "signature", dict))
        constexprs: list[tuple[str, Value]] = []
        unknown: list[tuple[str, Unknown]] = []
        for name, encoded in self.field(row, "constexprs", dict, {}).items():
            for key, value in self.constants(name, encoded, dict(signature).get(name)):
                if isinstance(value, Unknown):
                    unknown.append((key, value))
                else:
                    constexprs.append((key, value))
        config = self.field(row, "config", dict, None)
        specialization = Specialization(
            signature=signature,
            constexprs=tuple(constexprs),
            divisible_by_16=frozenset(self.names(row, "divisible_by_16")),
            environment=self.environment(row),
            config=None if config is None else self.config(config),
        )
        definition = row.get("line")
        return Recorded(
            self.number,
            self.field(row, "kernel", str),
            self.field(row, "path", str).replace("\\", "/"),
            definition if isinstance(definition, int) else None,
            specialization,
            tuple(unknown),
        )

    def error(self, what: str) -> RecordedError:
        return RecordedError(f"{self.path}:{self.number}: the recorded specialisation {what}")

    def field(self, row: Mapping[str, Any], name: str, kind: type[Any], *default: Any) -> Any:
        value = row.get(name)
        if value is None and default:
            return default[0]
        if not isinstance(value, kind):
            raise self.error(f"needs '{name}', {_WORDS[kind]}")
        return value

    def names(self, row: Mapping[str, Any], name: str) -> list[str]:
        found = self.field(row, name, list, [])
        if not all(isinstance(item, str) for item in found):
            raise self.error(f"must hold names of parameters in '{name}'")
        return list(found)

    def environment(self, row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        found = self.field(row, "environment", dict, {})
        if not all(isinstance(value, str) for value in found.values()):
            raise self.error("must hold strings in 'environment'")
        return tuple(sorted(found.items()))

    def signature(self, found: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        return tuple((name, self.kind(name, kind)) for name, kind in found.items())

    def kind(self, name: str, kind: Any) -> Any:
        if isinstance(kind, str) and kind:
            return kind
        if isinstance(kind, list):
            return tuple(self.kind(name, one) for one in kind)
        raise self.error(
            f"has no type for '{name}' in 'signature': a string such as \"*fp16\", or a list of them for a tuple"
        )

    def constants(self, name: str, encoded: Any, kind: Any) -> list[tuple[str, Value | Unknown]]:
        """The constants of one parameter; those of a tuple's elements are keyed ``name.0``, ``name.1.2``."""
        if isinstance(kind, tuple) and isinstance(encoded, dict):
            return [(f"{name}.{path}", self.value(value)) for path, value in encoded.items()]
        return [(name, self.value(encoded))]

    def value(self, encoded: Any) -> Value | Unknown:
        if encoded is None or isinstance(encoded, (bool, int, float, str)):
            return encoded
        if isinstance(encoded, list):
            items = [self.value(item) for item in encoded]
            unknown = next((item for item in items if isinstance(item, Unknown)), None)
            return unknown if unknown is not None else tuple(items)  # type: ignore[arg-type]
        if isinstance(encoded, dict) and len(encoded) == 1:
            (tag, content), *_ = encoded.items()
            if tag == "dtype" and isinstance(content, str):
                return Dtype(content)
            if tag == "jit" and isinstance(content, str):
                return FunctionValue(content)
            if tag == "constexpr":
                inner = self.value(content)
                return inner if isinstance(inner, Unknown) else ConstexprValue(inner)
            if tag == "repr":
                return Unknown(f"the recorded value {content} is an object that no file can hold")
        raise self.error(f"holds a constant that cannot be read: {json.dumps(encoded)}")

    def config(self, found: Mapping[str, Any]) -> Config:
        kwargs = []
        for name, encoded in self.field(found, "kwargs", dict, {}).items():
            value = self.value(encoded)
            if isinstance(value, Unknown):
                raise self.error(f"has a config whose '{name}' cannot be read")
            kwargs.append((name, value))
        return Config(
            tuple(kwargs),
            num_warps=self.integer(found, "num_warps", 4),
            num_stages=self.integer(found, "num_stages", 3),
            num_ctas=self.integer(found, "num_ctas", 1),
            maxnreg=self.integer(found, "maxnreg", 0) or None,
            omits_stages=found.get("num_stages") is None,
        )

    def integer(self, found: Mapping[str, Any], name: str, default: int) -> int:
        number = found.get(name)
        if number is None:
            return default
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.error(f"has a config whose '{name}' is no integer")
        return number
