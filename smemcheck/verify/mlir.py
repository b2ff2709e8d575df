"""What Triton's own IR text says of a kernel's entry: its arguments, where it stands, and which tile sizes it works with."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"tt\.func public @[\w.$\"]+\(")
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_ARGUMENT = re.compile(r"%([\w.$-]+): ")
_SHAPE = re.compile(r"tensor<((?:\d+x)+)")
_DESCRIPTOR = re.compile(r"!tt\.tensordesc<(?:tensor<)?((?:\d+x)+)(\w+)")

# MLIR's element types by Triton's names. Signedness is not part of MLIR's types, and u8, u16, … become i8, i16, ….
_ELEMENTS = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5",
    "f8E4M3FNUZ": "fp8e4b8", "f8E5M2FNUZ": "fp8e5b16", "f8E4M3B11FNUZ": "fp8e4b15", "i1": "u1",
    "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """A run-time argument of a compiled kernel: Triton's type string, and whether it is a known multiple of 16."""

    name: str
    type: str
    divisible_by_16: bool


def entry_arguments(text: str) -> tuple[Argument, ...] | None:
    """The arguments of the entry, in order; ``None`` without an entry or when one has a type that Triton's signature lacks.

    A host tensor descriptor arrives as a descriptor, its shape and its strides; only the descriptor is an argument.
    """
    signature = _signature(text)
    if signature is None:
        return None
    aliases = dict(_ALIAS.findall(text))
    found: dict[str, Argument] = {}
    skipped = 0
    starts = list(_ARGUMENT.finditer(signature))
    ends = [match.start() for match in starts[1:]] + [len(signature)]
    for match, end in zip(starts, ends, strict=True):
        body = signature[match.end() : end]
        if skipped:
            skipped -= 1
            continue
        descriptor = _DESCRIPTOR.match(body)
        if descriptor:
            sizes = descriptor[1].rstrip("x").split("x")
            skipped = 2 * len(sizes)
            kind: str | None = f"tensordesc<{_ELEMENTS.get(descriptor[2], '')}[{', '.join(sizes)}]>"
        else:
            kind = _type(body)
        if kind is None or "<[" in kind:
            return None
        name = _location_name(body, aliases) or match[1]
        found[name] = Argument(name, kind, "tt.divisibility = 16" in body)
    return tuple(found.values())


def entry_place(text: str) -> tuple[str, int] | None:
    """The file and line that the module's first location names: the kernel's first decorator or ``def``."""
    match = re.search(r'^#loc = loc\("([^"]+)":(\d+):\d+\)', text, re.MULTILINE)
    return (match[1], int(match[2])) if match else None


def tile_sizes(text: str) -> frozenset[int]:
    """Every extent of every tensor in the text."""
    return frozenset(int(size) for shape in _SHAPE.findall(text) for size in shape.split("x") if size)


def _signature(text: str) -> str | None:
    match = _ENTRY.search(text)
    if not match:
        return None
    depth, quoted = 1, False
    for index in range(match.end(), len(text)):
        character = text[index]
        quoted ^= character == '"'
        depth += 0 if quoted else (character == "(") - (character == ")")
        if not depth:
            return text[match.end() : index]
    return None


def _type(body: str) -> str | None:
    pointer = re.match(r"!tt\.ptr<(?:!tt\.ptr<)*(\w+)", body)
    if pointer:
        element = _ELEMENTS.get(pointer[1])
        return element and f"*{element}"
    scalar = re.match(r"\w+", body)
    return _ELEMENTS.get(scalar[0]) if scalar else None


def _location_name(body: str, aliases: dict[str, str]) -> str:
    """The argument's own name: locations are ``loc("a"(#loc))``, written out or by alias."""
    match = re.search(r"loc\((.*)\)", body, re.DOTALL)
    if not match:
        return ""
    content = aliases.get(match[1].strip(), match[1])
    named = re.match(r'"([^"]*)"\(', content)
    return named[1] if named else ""
