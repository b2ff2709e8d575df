"""Notes of what kernels are launched with, as text by file: :mod:`smemcheck.specialize.launches.noted` makes and reads them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from smemcheck.model import Position

if TYPE_CHECKING:
    from smemcheck.specialize.launches.noted import Kernel, Note


def written(notes: Mapping[Kernel, Note]) -> dict[str, str]:
    """The notes as JSON, by the kernels' files."""
    rows: dict[str, list[object]] = {}
    for kernel, note in notes.items():
        positions = [(place.path, place.line, place.column) for place in note.positions]
        data = base64.b64encode(note.data).decode() if note.data is not None else None
        row = [kernel.root, kernel.name, kernel.line, note.is_plain, note.is_listed, positions, data]
        rows.setdefault(kernel.path, []).append(row)
    return {path: json.dumps(found, separators=(",", ":")) for path, found in rows.items()}


def read(path: str, text: str) -> Iterable[tuple[Kernel, Note]]:
    """The notes about the kernels of a file."""
    from smemcheck.specialize.launches.noted import Kernel, Note

    for root, name, line, is_plain, is_listed, positions, data in json.loads(text):
        places = [Position(*place) for place in positions]
        raw = base64.b64decode(data) if data is not None else None
        yield Kernel(root, path, name, line), Note(is_plain, is_listed, raw, places)


def moved(path: str, text: str, lines: Mapping[str, Callable[[int], int]]) -> str:
    """The notes about the kernels of a file, ``lines`` telling by file where what stood on a line stands now."""
    if path not in lines and not any(json.dumps(one) in text for one in lines):
        return text
    rows = json.loads(text)
    for row in rows:
        row[2] = lines[path](row[2]) if path in lines else row[2]
        row[5] = [(one, lines[one](line) if one in lines else line, column) for one, line, column in row[5]]
    return json.dumps(rows, separators=(",", ":"))
