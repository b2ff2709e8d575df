"""What to assume next when a kernel does not compile as its launch was assumed to be.

Only open assumptions give way: a dtype that is the caller's choice, a constexpr that no launch says, a type that the body
only suggests. What the user gave, what was recorded and what the launch code computes stay.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from smemcheck.model import Assumption, Dtype, Failure, FailureKind, Kernel, Parameter, Site, Specialization, Value
from smemcheck.specialize.dtypes import is_float, is_integer, is_pointer, value_text
from smemcheck.specialize.given import argument_of_type
from smemcheck.specialize.kinds import Kind, parameter_kinds
from smemcheck.specialize.launches.guesses import LARGEST_MODE, cases_of, innermost_strides

_HOPELESS = re.compile(
    r"unexpected keyword argument|unrecognised|module .* has no attribute|have been removed in favor of"
    r"|Cannot access global variable"
)
"""Messages about the kernel's text or its options: no other type or constant makes the kernel compile."""
_ADDRESS = re.compile(r"ptr type|is_ptr|pointer")
_SHAPE = re.compile(
    r"[Ss]hape|>= ?16|numel|arange|power of (2|two)|broadcast|[Mm]ismatch|size|[Rr]eshape|dim|divi|modulo|rank|must be 1"
)
_RUNTIME = re.compile(r"_semantic|must be 1\b|[Ss]trides?\b")  # a number of the launch stands where a constant must
_NONE = re.compile(r"NoneType|\bNone\b")
_NAME = re.compile(r"is not defined|NameError|has no attribute|NoneType|unbound")
_SIZES = (128, 32, 16, 256)
_FLOATS = ("fp32", "bf16", "fp16")


def may_retry(specialization: Specialization, failure: Failure) -> bool:
    """Whether an assumption, and not the kernel, is the likely cause of the compiler's refusal."""
    refused = failure.kind in (FailureKind.COMPILATION_ERROR, FailureKind.STATIC_ASSERTION)
    return refused and specialization.recorded_line is None and not is_of_the_text(failure)


def is_of_the_text(failure: Failure) -> bool:
    """Whether the compiler refuses the kernel's text or options as they stand, under whatever types and constants."""
    return bool(_HOPELESS.search(failure.message))


def next_assumptions(site: Site, specialization: Specialization, failure: Failure) -> Iterator[Specialization]:
    """Specialisations that assume something else, the most sensible first; each says what was given up and why."""
    kernel = next((answer.kernel for answer in site.answers.values() if isinstance(answer.kernel, Kernel)), None)
    attempt = _Attempt(site, specialization, failure, kernel)
    seen = {specialization}
    for row in itertools.zip_longest(
        *(way(attempt) for way in _ways(failure))
    ):  # one of each way before the next of any
        for changed in row:
            made = attempt.with_changes(changed or {})
            if made not in seen:
                seen.add(made)
                yield made


class _Attempt:
    """A specialisation that did not lower, and what of it may change."""

    def __init__(self, site: Site, specialization: Specialization, failure: Failure, kernel: Kernel | None) -> None:
        self.site = site
        self.parameters: Mapping[str, Parameter] = {p.name: p for p in site.parameters}
        self.specialization = specialization
        self.failure = failure
        self.kernel = kernel
        self.types: dict[str, Any] = dict(specialization.signature)
        self.constexprs: dict[str, Value] = dict(specialization.constexprs)
        self.source = "\n".join(function.source for function in kernel.functions) if kernel else ""
        computed = {a.parameter for a in specialization.assumptions if "computed from example sizes" in a.because}
        numbers = {n: v for n, v in self.constexprs.items() if n in computed and isinstance(v, int)}
        self.nonsense = [n for n, value in numbers.items() if value <= 0]  # sizes of an example that does not fit
        self.ones = [n for n, value in numbers.items() if value == 1]
        self.large = [n for n, value in numbers.items() if value > LARGEST_MODE]
        self.given = {a.parameter for a in specialization.assumptions if a.because.startswith("given ")}
        self.open = [a.parameter for a in specialization.assumptions if a.is_open and a.parameter in self.parameters]

    def refused_line(self) -> str:
        """The text of the line that the compiler points to."""
        position = self.failure.position
        for function in self.kernel.functions if self.kernel and position else ():
            lines = function.source.splitlines()
            at = position.line - function.position.line if position else -1
            if position and function.position.path == position.path and 0 <= at < len(lines):
                return lines[at]
        return ""

    def with_changes(self, changed: Mapping[str, Any]) -> Specialization:
        """The specialisation with other types (strings) and constants (:class:`_Constant`), and why."""
        signature, constexprs = dict(self.types), dict(self.constexprs)
        divisible = set(self.specialization.divisible_by_16)
        texts = {}
        for name, new in changed.items():
            if isinstance(new, _Constant):
                signature[name] = "constexpr"
                divisible.discard(name)
                constexprs[name] = new.value
                texts[name] = value_text(new.value)
                continue
            argument = argument_of_type(new, self.parameters[name])
            signature[name] = texts[name] = argument.type
            constexprs.pop(name, None)
            divisible.discard(name)
            divisible |= {name} if argument.divisible else set()
        return replace(
            self.specialization,
            signature=tuple(signature.items()),
            constexprs=tuple(constexprs.items()),
            divisible_by_16=frozenset(divisible),
            assumptions=tuple(self._again(a, texts) for a in self.specialization.assumptions),
            launch_values=tuple((n, v) for n, v in self.specialization.launch_values if n not in changed),
        )

    def _again(self, assumption: Assumption, texts: Mapping[str, Any]) -> Assumption:
        if assumption.parameter not in texts:
            return assumption
        because = f"with {assumption.value} it did not lower: {self.failure.message}; {assumption.because}"
        return replace(assumption, value=str(texts[assumption.parameter]), because=because)


class _Constant:
    """A new value for a constexpr, told apart from a type."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


_Way = Callable[[_Attempt], Iterator[dict[str, Any]]]


def _ways(failure: Failure) -> list[_Way]:
    """The ways to change assumptions, the one that the message speaks for first."""
    ways: list[_Way] = [_other_elements, _other_cases, _other_sizes]
    if _ADDRESS.search(failure.message):
        return [_pointers, *ways]
    if _RUNTIME.search(failure.message):
        return [_not_one, _unit_strides, *ways]
    if _NONE.search(failure.message):
        return [_not_none, _other_cases, _other_elements, _other_sizes]
    if _NAME.search(failure.message):
        return [_other_cases, _other_elements, _other_sizes]
    if failure.kind is FailureKind.STATIC_ASSERTION or _SHAPE.search(failure.message):
        return [_other_sizes, _other_cases, _other_elements]
    return ways


def _pointers(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """Numbers on the line that the compiler points to, or whose name says so, as pointers to what is likeliest there."""
    line = attempt.refused_line()
    numbers = [
        n for n in attempt.open if attempt.types[n] in ("i32", "i64", "fp32", "u1") and not _is_constant(attempt, n)
    ]
    named = [n for n in numbers if re.search(r"(?i)ptr|pointer", n)]
    here = [n for n in numbers if re.search(rf"\b{re.escape(n)}\b", line) and not re.search(r"(?i)stride|size|len$", n)]
    for names in (named, here):
        if names:
            for element in ("fp32", "fp16", "i32"):
                yield dict.fromkeys(names, f"*{element}")


def _not_none(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """What an example left out: first what stands on the line that the compiler points to, then all of it."""
    kinds = {kind.parameter: kind for kind in parameter_kinds(attempt.kernel).kinds} if attempt.kernel else {}
    absent = {
        name: kind.type
        for name, kind in kinds.items()
        if attempt.types.get(name) == "constexpr"
        and attempt.constexprs.get(name) is None
        and name not in attempt.given
        and kind.kind in (Kind.POINTER, Kind.INTEGER, Kind.FLOAT)
    }
    line = attempt.refused_line()
    here = {name: type_ for name, type_ in absent.items() if re.search(rf"\b{re.escape(name)}\b", line)}
    for changed in (here, absent):
        if changed:
            yield dict(changed)


def _not_one(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """Sizes that are 1 in the example as any integers: a tensor of one row or column has no strides that a descriptor takes."""
    ones = [n for n in attempt.ones if attempt.types[n] == "constexpr" and not attempt.parameters[n].is_constexpr]
    line = attempt.refused_line()
    here = [n for n in ones if re.search(rf"\b{re.escape(n)}\b", line)]
    for names in (here, ones):
        if names:
            yield dict.fromkeys(names, "i32")


def _unit_strides(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """Integers of the launch on the refused line as the constant 1: the last one, then all that are strides by name."""
    line = attempt.refused_line()
    strides = [n for n in attempt.open if is_integer(attempt.types[n]) and re.search(r"(?i)stride", n)]
    here = sorted((n for n in strides if re.search(rf"\b{re.escape(n)}\b", line)), key=line.rindex)
    if here:
        yield {here[-1]: _Constant(1)}
    if strides:
        by_letter = {n: _Constant(1) for n in innermost_strides(attempt.site) or strides[-1:] if n in strides}
        if by_letter:
            yield by_letter


def _other_elements(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """All pointers whose elements are assumed, and dtypes that no launch says, in another float type; then integers."""
    pointers = [n for n in attempt.open if is_pointer(attempt.types[n])]
    floats = [n for n in pointers if is_float(_element(attempt, n))]
    integers = [n for n in pointers if is_integer(_element(attempt, n))]
    dtypes = [n for n in attempt.open if isinstance(attempt.constexprs.get(n), Dtype)]
    narrow = [n for n in floats if _element(attempt, n) in ("fp16", "bf16")]
    if re.search(r"int(8|32)\b", attempt.failure.message) and narrow:  # an integer matrix product
        yield dict.fromkeys(narrow, "*i8")
    for element in _FLOATS:
        changed = dict.fromkeys(narrow if element == "fp32" else floats, f"*{element}")
        constants = {n: _Constant(Dtype(element)) for n in dtypes}
        if changed or constants:
            yield {**changed, **constants}
        if integers and element == _FLOATS[0]:
            yield dict.fromkeys(integers, "*fp16")
    if integers:
        yield dict.fromkeys(integers, "*u8")
    for name in narrow:
        yield {name: "*i32"}


def _other_cases(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """Flags, texts and modes that no launch says: all of them moved on, then one at a time."""
    moves: dict[str, list[Value]] = {}
    for name in (*attempt.open, *attempt.large):  # a size where the kernel tells a few modes apart
        if _is_constant(attempt, name):
            known = attempt.constexprs.get(name)
            others = [value for value in cases_of(name, attempt.source, known) if value != known]
            if others:
                moves[name] = others
    if len(moves) > 1:
        yield {name: _Constant(others[0]) for name, others in moves.items()}
    for step in range(max(map(len, moves.values()), default=0)):
        for name, others in moves.items():
            if step < len(others):
                yield {name: _Constant(others[step])}


def _other_sizes(attempt: _Attempt) -> Iterator[dict[str, Any]]:
    """All numbers above 8 that no launch says, and sizes of 0, in step."""
    names = [
        n
        for n in attempt.open
        if _is_constant(attempt, n)
        and isinstance(attempt.constexprs.get(n), int)
        and not isinstance(attempt.constexprs[n], bool)
        and attempt.constexprs[n] > LARGEST_MODE  # type: ignore[operator]
    ]
    names += [n for n in attempt.nonsense if _is_constant(attempt, n)]
    strides = [n for n in names if "stride" in n.lower()]
    if strides and "must be 1" in attempt.failure.message:
        yield dict.fromkeys(strides, _Constant(1))
    for size in _SIZES if names else ():
        yield {name: _Constant(size) for name in names if name not in strides}


def _is_constant(attempt: _Attempt, name: str) -> bool:
    return attempt.types[name] == "constexpr" and attempt.parameters[name].is_constexpr


def _element(attempt: _Attempt, name: str) -> str:
    return str(attempt.types[name]).lstrip("*").removeprefix("k")
