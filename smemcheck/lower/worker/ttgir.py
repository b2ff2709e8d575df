"""The printed TTGIR → its operations and values, as far as the count of registers needs them (:mod:`.registers`).

Triton's Python binding differs from version to version, the text hardly does. An SSA name is good for its region: a later
one may use it again.
"""

from __future__ import annotations

import functools
import re
from typing import Dict, List, Optional, Tuple

from .layouts import tensor

_LINE = re.compile(r"^[ \t]*(?:((?:%[\w$.:-]+(?:, )?)+) = )?\"?([a-z_]\w*(?:\.\w+)+)\"?(.*)$")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_PAIR = re.compile(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)")
_PARAMETER = re.compile(r"(%[\w$.-]+): ")
_ALIAS = re.compile(r"^(#\w+) = (.*)$")
_LOCATION = re.compile(r" loc\([^()]*(?:\([^()]*\)[^()]*)*\)$")
_LOADED = re.compile(r"!tt\.ptr<([^<>]+)>")

_MOST_TAILS = 4096  # ends of lines, remembered from module to module: a kernel's configs have many in common

Path = Tuple[Tuple[int, int], ...]


class Value:
    """One SSA value. ``inputs`` are the values that it is made of; of a loop's argument the initial one, ``back`` is the next.

    ``kind`` is its type as a tensor. The fields below ``back`` are filled in by :mod:`.registers`.
    """

    __slots__ = ("address", "back", "content", "index", "inputs", "is_useful", "kind", "operation", "registers", "type")

    def __init__(self, index: int, type_: str, operation: "Optional[Operation]") -> None:
        self.index, self.type, self.operation = index, type_, operation
        self.kind = tensor(type_)
        self.inputs: List[Value] = []
        self.back: Optional[Value] = None
        self.address = self.content = self.registers = 0
        self.is_useful = False


class Operation:
    """One operation. ``path`` leads to it: (index of an operation, number of its region), outermost first.

    ``bounds`` are a ``scf.for``'s lower bound, upper bound and step, ``arguments`` the values that a loop carries.
    """

    __slots__ = ("arguments", "bounds", "index", "name", "operands", "path", "results", "text")

    def __init__(self, index: int, name: str, operands: List[Value], path: Path, text: str) -> None:
        self.index, self.name, self.operands, self.path, self.text = index, name, operands, path, text
        self.results: List[Value] = []
        self.arguments: List[Value] = []
        self.bounds: List[Optional[Value]] = []


class Module:
    """``layouts`` maps aliases (``#blocked``) to what they stand for."""

    def __init__(self, text: str) -> None:
        self.layouts: Dict[str, str] = {}
        self.operations: List[Operation] = []
        self.values: List[Value] = []
        self._scopes: List[Dict[str, Value]] = [{}]
        self._open: List[Tuple[Optional[Operation], int]] = []
        self._paths: List[Path] = [()]
        self._read(text)

    def _read(self, text: str) -> None:
        inner: Optional[Tuple[Operation, str]] = None  # a reduction or scan whose region of scalars is passed over
        for printed in text.split("\n"):
            line = _LOCATION.sub("", printed) if printed.endswith(")") and " loc(" in printed else printed
            if inner is not None:
                if line.lstrip().startswith("})"):
                    self._finish(inner[0], inner[1], line)
                    inner = None
                continue
            match = _LINE.match(line)
            if match is None:
                self._read_other(line.strip())
                continue
            names, name, rest = match.groups()
            if name == "tt.func":
                self._enter(None, 0)
                self._scopes[-1].update((found, self._value("", None)) for found in _PARAMETER.findall(rest))
            elif name in ("scf.for", "scf.while", "scf.if"):
                self._open_control(name, names or "", rest)
            elif name in ("scf.yield", "scf.condition"):
                self._close_region(name, rest)
            else:
                # The text of inline assembly has names of its own.
                operation = self._operation(name, rest, self._find_all(rest.rpartition('"')[2]))
                if rest.endswith("({"):
                    inner = operation, names or ""
                else:
                    self._finish(operation, names or "", rest)
                    if rest.endswith("{"):
                        self._enter(operation, 0)

    def _read_other(self, line: str) -> None:
        if line.startswith("}"):
            if len(self._scopes) > 1:
                self._scopes.pop()
                self._paths.pop()
                operation, region = self._open.pop()
                if line.endswith("{"):
                    self._enter(operation, region + 1)
        elif line.startswith("^"):
            self._block_arguments(line)
        elif line.startswith("#"):
            match = _ALIAS.match(line)
            if match:
                self.layouts[match.group(1)] = match.group(2)

    def _enter(self, operation: Optional[Operation], region: int) -> None:
        self._open.append((operation, region))
        self._paths.append(self._paths[-1] if operation is None else (*self._paths[-1], (operation.index, region)))
        self._scopes.append({})

    def _open_control(self, name: str, names: str, rest: str) -> None:
        head = rest.partition(" -> ")[0]
        control, _, carried = head.partition("iter_args(") if name == "scf.for" else (head, "", head)
        pairs = [] if name == "scf.if" else _PAIR.findall(carried)
        initial = [self._find(value) for _, value in pairs]
        operands = self._find_all(control) if name == "scf.if" else [value for value in initial if value is not None]
        operation = self._operation(name, rest, operands)
        types = _result_types(rest) if names else []
        operation.results = [self._value(kind, operation) for kind in types]
        self._bind(names, operation.results)
        if name == "scf.for":
            counter, *bounds = _VALUE.findall(control)
            operation.bounds = [self._find(value) for value in bounds[:3]]
        self._enter(operation, 0)
        if name == "scf.for":
            self._scopes[-1][counter] = self._value("", operation)
        for (argument, _), value in zip(pairs, initial):  # noqa: B905 (Python 3.9)
            carried_value = self._value(value.type if value is not None else "", operation)
            carried_value.inputs = [value] if value is not None else []
            operation.arguments.append(carried_value)
            self._scopes[-1][argument] = carried_value

    def _block_arguments(self, line: str) -> None:
        """Of the second region of a ``scf.while``: what ``scf.condition`` hands on."""
        owner = self._open[-1][0] if self._open else None
        if owner is None or owner.name != "scf.while":
            return
        for name, result in zip(_VALUE.findall(line), owner.results):  # noqa: B905
            value = self._value(result.type, owner)
            value.inputs = list(result.inputs)
            self._scopes[-1][name] = value

    def _close_region(self, name: str, rest: str) -> None:
        owner = self._open[-1][0] if self._open else None
        values = [self._find(found) for found in _VALUE.findall(rest)]
        known = [value for value in values if value is not None]
        self._operation(name, rest, known[:1] if name == "scf.condition" else known)
        if owner is None:
            return
        if name == "scf.condition" or owner.name == "scf.if":
            given = values[1:] if name == "scf.condition" else values
            for result, value in zip(owner.results, given):  # noqa: B905
                if value is not None:
                    result.inputs.append(value)
        else:
            for argument, value in zip(owner.arguments, values):  # noqa: B905
                argument.back = value
            if owner.name == "scf.for":
                for result, argument in zip(owner.results, owner.arguments):  # noqa: B905
                    result.inputs = argument.inputs + ([argument.back] if argument.back is not None else [])

    def _finish(self, operation: Operation, names: str, rest: str) -> None:
        if not names:
            return
        types = _result_types(rest)
        if operation.name == "tt.load":
            types = [_LOADED.sub(r"\1", kind) for kind in types[:1]]
        if ":" not in names and "," not in names:
            result = self._value(types[0] if types else "", operation)
            result.inputs = operation.operands
            operation.results = [result]
            self._scopes[-1][names] = result
            return
        count = names.count(",") + 1 if ":" not in names else _count(names)
        if len(types) < count:  # one type for all of them, or none that is understood
            types = types * count if len(types) == 1 else types + [""] * (count - len(types))
        operation.results = [self._value(kind, operation) for kind in types[:count]]
        for result in operation.results:
            result.inputs = operation.operands
        self._bind(names, operation.results)

    def _value(self, kind: str, operation: Optional[Operation]) -> Value:
        value = Value(len(self.values), kind, operation)
        self.values.append(value)
        return value

    def _operation(self, name: str, text: str, operands: List[Value]) -> Operation:
        operation = Operation(len(self.operations), name, operands, self._paths[-1], text)
        self.operations.append(operation)
        return operation

    def _find(self, name: str) -> Optional[Value]:
        """The value of a name; ``None`` for what the text does not introduce in a way known here."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _find_all(self, text: str) -> List[Value]:
        return [value for name in _VALUE.findall(text) if (value := self._find(name)) is not None]

    def _bind(self, names: str, results: List[Value]) -> None:
        scope = self._scopes[-1]
        if ":" not in names and "," not in names:
            if results:
                scope[names] = results[0]
            return
        rest = iter(results)
        for part in names.split(", "):
            name, _, count = part.partition(":")
            for index, value in zip(range(int(count or 1)), rest):  # noqa: B905
                scope[f"{name}#{index}" if count else name] = value


def _result_types(rest: str) -> List[str]:
    """The types at the end of a line: behind ``->``, behind ``to``, or those that operands and results share."""
    start = rest.rfind(" -> ")
    return list(_types(rest[start + 4 :], True) if start >= 0 else _types(rest[rest.rfind(" : ") + 3 :], False))


@functools.lru_cache(maxsize=_MOST_TAILS)
def _types(tail: str, is_behind_arrow: bool) -> Tuple[str, ...]:
    shown = tail.rstrip(" {")
    if not is_behind_arrow and " to " in shown:
        shown = shown[shown.rfind(" to ") + 4 :]
    if shown.startswith("("):
        shown = shown[1 : shown.rfind(")")]
    return tuple(_split(re.sub(r"\s+: i\d+$", "", shown)))


def _count(names: str) -> int:
    return sum(int(part.partition(":")[2] or 1) for part in names.split(", "))


def _split(text: str) -> List[str]:
    """At the commas that stand outside all brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}":
            depth -= 1
        elif character == "," and not depth:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]
