"""The printed module → its shared-memory buffers: Python variable, source line, offset and size.

Triton's Python binding gives operations no locations, so the text is read. After the allocation each operation that owns
shared memory carries ``allocation.offset`` and a trailing ``loc(…)``; locations are mostly aliases (``#loc7``) that are
defined anywhere in the text and nest: names, call sites, fusions.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

_OFFSET = "allocation.offset = "
_NUMBER = re.compile(r"\d+")
_MEMDESC = re.compile(r"->\s*!(?:ttg|tt|triton_gpu)\.memdesc<((?:\d+x)*)([a-z]\w*|!tt\.ptr<\w+>)(?:, (#\w+))?")
_PADDED = re.compile(r"^(#\w+) = #ttg\.padded_shared<\[([^\]]*)\]", re.MULTILINE)
_REGION_OWNERS = ("tt.reduce", "tt.scan", "tt.map_elementwise")
_OPCODE = re.compile(r"^\s*(?:%[\w#:, %]+ = )?\"?([a-z_]\w*\.[\w.]+)\"?")
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(#loc\d*)\b|([A-Za-z_]\w*)|(\d+)|([()\[\]<>:,])')


def read(text: str, total: int, columns_start_at: int) -> List[Dict[str, Any]]:
    """The buffers of a module in the order of their offsets.

    ``size`` is in bytes. For the scratch space of a conversion, reduction or scan the text gives no size: when the buffer
    is the only one that can reach the end of the allocation (``total`` bytes), the size follows; otherwise it is 0.
    """
    aliases = _aliases(text)
    paddings: Dict[str, str] = dict(_PADDED.findall(text)) if "#ttg.padded_shared" in text else {}
    found = []
    for place, offset in _offsets(text):
        start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
        line = text[start : end if end >= 0 else len(text)]
        described = _MEMDESC.search(line)
        name = _operation_name(line, text, start)
        variable, position = _place(_trailing_location(line), aliases)
        if position:
            position = [position[0], position[1], position[2] + 1 - columns_start_at]
        found.append(
            {
                "variable": variable,
                "position": position,
                "offset": offset,
                "size": _bytes(described, paddings.get(described.group(3) or "", "")) if described else 0,
                "type": _type(described) if described else name,
            }
        )
    _fill_last(found, total)
    return sorted(found, key=lambda buffer: (buffer["offset"], buffer["variable"]))


def _offsets(text: str) -> Iterator[Tuple[int, int]]:
    """Where the text gives an offset, and the offset."""
    place = text.find(_OFFSET)
    while place >= 0:
        number = _NUMBER.match(text, place + len(_OFFSET))
        if number:
            yield place, int(number.group())
        place = text.find(_OFFSET, place + len(_OFFSET))


def _aliases(text: str) -> Dict[str, str]:
    """``#loc7 = loc(…)`` stands on a line of its own."""
    lines = (line.partition(" = loc(") for line in text.split("\n") if line.startswith("#loc"))
    return {name: location.rstrip()[:-1] for name, _, location in lines}


def _operation_name(line: str, text: str, start: int) -> str:
    """``ttg.convert_layout``; a reduction or scan carries its attributes behind its region, so its name stands further up."""
    opcode = _OPCODE.match(line)
    if opcode:
        return opcode.group(1)
    above, name = max((text.rfind(f'"{owner}"(', 0, start), owner) for owner in _REGION_OWNERS)
    return name if above >= 0 else ""


def _bytes(described: Any, padding: str) -> int:
    elements = math.prod(int(extent) for extent in described.group(1).split("x") if extent)
    # Padding stands after each whole interval, but not at the end (PaddedSharedEncodingAttr::getPaddedSize).
    pairs = re.findall(r"(\d+):\+(\d+)", padding)
    count = elements + sum((elements - 1) // int(interval) * int(extra) for interval, extra in pairs)
    width = re.search(r"\d+", described.group(2).replace("bf", "f"))
    # f8E4M3FN and its kin carry their width first; index and pointers are 64 bits wide.
    bits = int(width.group(0)) if width and not described.group(2).startswith("!") else 64
    return count * max(bits, 8) // 8


def _type(described: Any) -> str:
    return str(described.group(1) + described.group(2))


def _fill_last(found: List[Dict[str, Any]], total: int) -> None:
    reached = max((buffer["offset"] + buffer["size"] for buffer in found), default=0)
    unsized = [buffer for buffer in found if not buffer["size"]]
    if reached < total and len({buffer["offset"] for buffer in unsized}) == 1:
        for buffer in unsized[:1] if len(unsized) == 1 else []:
            buffer["size"] = total - buffer["offset"]


def _trailing_location(line: str) -> str:
    start = line.rfind(" loc(")
    return line[start + 5 :].rstrip()[:-1] if start >= 0 else ""


Place = Tuple[str, Optional[List[Any]]]


def _place(location: str, aliases: Dict[str, str]) -> Place:
    """(variable, [path, line, column]) of a location; of a call site the caller when the callee is Triton's own."""
    return _parse(_tokens(location), aliases, 0)


def _tokens(location: str) -> "_Tokens":
    return _Tokens(_TOKEN.finditer(location))


class _Tokens:
    """The tokens of one location's text, with one token of look-ahead."""

    def __init__(self, matches: Iterator[Any]) -> None:
        self.items = [(match.lastindex, match.group(match.lastindex)) for match in matches]
        self.index = 0

    def peek(self) -> Tuple[int, str]:
        return self.items[self.index] if self.index < len(self.items) else (0, "")

    def take(self) -> Tuple[int, str]:
        token = self.peek()
        self.index += 1
        return token


def _parse(tokens: _Tokens, aliases: Dict[str, str], depth: int) -> Place:
    kind, text = tokens.take()
    if depth > 64:
        return "", None
    if kind == 2:
        return _parse(_tokens(aliases.get(text, "unknown")), aliases, depth + 1)
    if kind == 1:
        return _parse_string(tokens, text, aliases, depth)
    if text == "callsite":
        tokens.take()
        callee = _parse(tokens, aliases, depth + 1)
        tokens.take()
        caller = _parse(tokens, aliases, depth + 1)
        tokens.take()
        inside = callee[1] is None or "/triton/language/" in callee[1][0].replace("\\", "/")
        return (callee[0] or caller[0], caller[1]) if inside and caller[1] else callee
    if text == "fused":
        return _parse_fused(tokens, aliases, depth)
    return "", None


def _parse_string(tokens: _Tokens, text: str, aliases: Dict[str, str], depth: int) -> Place:
    """``"file":line:column [to …]`` is a place, ``"name"(location)`` or ``"name"`` a variable."""
    content = text.replace('\\"', '"').replace("\\\\", "\\")
    if tokens.peek()[1] == "(":
        tokens.take()
        place = _parse(tokens, aliases, depth + 1)
        tokens.take()
        return content, place[1]
    if tokens.peek()[1] != ":":
        return content, None
    numbers = []
    while tokens.peek()[1] in {":", "to"} or tokens.peek()[0] == 4:
        kind, token = tokens.take()
        if kind == 4:
            numbers.append(int(token))
    return "", [content, numbers[0], numbers[1]] if len(numbers) > 1 else None


def _parse_fused(tokens: _Tokens, aliases: Dict[str, str], depth: int) -> Place:
    """``fused[a, b]`` or ``fused<metadata>[a, b]``: the first part that names a place."""
    while tokens.peek()[1] not in {"[", ""}:
        tokens.take()
    best: Place = ("", None)
    while tokens.peek()[1] not in {"]", ""}:
        tokens.take()
        place = _parse(tokens, aliases, depth + 1)
        if place[1] and not best[1]:
            best = (best[0] or place[0], place[1])
    tokens.take()
    return best
