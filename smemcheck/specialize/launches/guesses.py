"""Constexprs that no launch and no config gives: small domains, by how the kernel uses them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from smemcheck.model import Assumption, Dtype, Kernel, Parameter, Site, Value
from smemcheck.source.scan import places
from smemcheck.specialize.dtypes import value_text
from smemcheck.specialize.given import Argument
from smemcheck.specialize.kinds import KernelUse
from smemcheck.specialize.launches.arguments import EXAMPLE_SIZES, Proposal

_FLAG_NAME = re.compile(
    r"^(IS|HAS|USE|WITH|STORE|OUTPUT|DO|CAUSAL|EVEN|REVERSE|SAVE|NEED|ENABLE|INPLACE|TRANS\w*|ALLOW\w*)(_|$)|CAUSAL|^is_|^has_|^use_",
    re.IGNORECASE,
)

_SIZE_NAME = re.compile(r"BLOCK|DIM|SIZE|HEAD|LEN|WIDTH|CHUNK|PAD|POW|NUM|^[A-Z]{1,2}$|^N_", re.IGNORECASE)
_STRIDE = re.compile(r"(?i)^(\w*stride\w*?)(_?[a-z0-9])$")
INNERMOST = "the last stride of a tensor is mostly 1"
_DTYPE_NAME = re.compile(r"(?i)dtype$|(^|_)(acc|out|output|in|input|compute|element)_type$")
_WIDE_DTYPE = re.compile(r"(?i)acc|compute")
_MOST_UNROLLED, _UNROLLED = 256, 8  # steps of a loop; a literal above it would end no compiler either
LARGEST_MODE = 8  # a number above it is a size
_USUAL: tuple[tuple[re.Pattern[str], int, str], ...] = (
    (re.compile(r"(?i)^num_?stages$"), 3, "Triton's own default"),
    (re.compile(r"(?i)^num_?warps$"), 4, "Triton's own default"),
    (re.compile(r"(?i)^group(_size)?_?[mn]$"), 8, "as many blocks share a group in matrix multiplications"),
    (re.compile(r"(?i)^split_?k(_iters?)?$"), 1, "one part"),
    (re.compile(r"(?i)n?bits$"), 4, "as quantised weights mostly have"),
    (re.compile(r"(?i)sizeof|element_?size$"), 2, "16-bit elements"),
)
"""What numbers of these names mostly are, where no launch says it."""


_KEYWORDS: dict[str, tuple[str, ...]] = {
    "input_precision": ("tf32", "ieee"),
    "eviction_policy": ("",),
    "cache_modifier": ("",),
    "sem": ("relaxed",),
    "scope": ("gpu",),
}
"""Texts that operations of Triton's take under these names; the first is the default or the usual one."""


def with_guesses(site: Site, use: KernelUse, proposals: Sequence[Proposal], elsewhere: set[str]) -> list[Proposal]:
    """The proposals with a value for every constexpr: numbers 64 and 128 in step, flags off and on."""
    needed = [p for p in site.parameters if p.is_constexpr and p.name not in elsewhere]
    source = _source(site)
    start = list(proposals) or [Proposal({}, (), 1, 0)]
    found: list[Proposal] = []
    unit_strides = innermost_strides(site)
    for proposal in start:
        missing = [p for p in needed if p.name not in proposal.arguments]
        found.extend(_filled(proposal, missing, use, source, unit_strides) if missing else [proposal])
    if not proposals and not any(p.name not in elsewhere for p in needed):
        return []
    return sorted(found, key=lambda one: (one.unknown > 0, one.effort))


def with_short_loops(site: Site, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals; a loop that is unrolled goes on for a few steps where only an example's size makes it long.

    Nobody unrolls a loop over a thousand rows, and no compiler ends on one.
    """
    source = _source(site)
    return [_with_short_loops(site, proposal, source) for proposal in proposals]


def _with_short_loops(site: Site, proposal: Proposal, source: str) -> Proposal:
    computed = {one.parameter for one in proposal.assumptions if EXAMPLE_SIZES in one.because}
    long = [
        name
        for name, argument in proposal.arguments.items()
        if name in computed
        and type(argument.value) is int
        and argument.value > _MOST_UNROLLED
        and re.search(rf"\bstatic_range\((?:[^()]*,)?\s*{re.escape(name)}\s*[,)]", source)
    ]
    if not long:
        return proposal
    kept = [one for one in proposal.assumptions if one.parameter not in long]
    because = "no launch says how long this unrolled loop is"
    assumed = [Assumption(name, str(_UNROLLED), because, site.position, is_open=True) for name in long]
    arguments = {**proposal.arguments, **dict.fromkeys(long, Argument("constexpr", _UNROLLED))}
    return replace(proposal, arguments=arguments, assumptions=(*kept, *assumed))


def _source(site: Site) -> str:
    """The text of the kernel and of what it calls: a flag is often compared in a function that it is passed to."""
    kernel = next((answer.kernel for answer in site.answers.values() if isinstance(answer.kernel, Kernel)), None)
    return "\n".join(function.source for function in kernel.functions) if kernel is not None else ""


def innermost_strides(site: Site) -> set[str]:
    """Of each run of two or more strides that share their name but for the last letter, the last one."""
    found = set()
    matches = [_STRIDE.match(parameter.name) for parameter in site.parameters]
    for index, match in enumerate(matches):
        before = matches[index - 1] if index else None
        after = matches[index + 1] if index + 1 < len(matches) else None
        if match and before and before[1] == match[1] and not (after and after[1] == match[1]):
            found.add(match[0])
    return found


def _filled(
    proposal: Proposal, missing: Sequence[Parameter], use: KernelUse, source: str, unit_strides: set[str]
) -> Iterator[Proposal]:
    for step in range(4):
        arguments = dict(proposal.arguments)
        assumptions = list(proposal.assumptions)
        for parameter in missing:
            if parameter.name in unit_strides:
                value: Value = 1
                because = f"no launch says it; {INNERMOST}"
            else:
                value, because = _guess(parameter.name, use, source, step)
            arguments[parameter.name] = Argument("constexpr", value)
            assumptions.append(Assumption(parameter.name, value_text(value), because, is_open=True))
        yield replace(proposal, arguments=arguments, assumptions=tuple(assumptions), effort=proposal.effort + 3 * step)


def _guess(name: str, use: KernelUse, source: str, step: int) -> tuple[Value, str]:
    if name in use.dtypes or (_DTYPE_NAME.search(name) and not _is_flag(name, source)):
        wide = step == 3 or _WIDE_DTYPE.search(name) is not None
        return Dtype("fp32" if wide else "fp16"), "no launch says it; the kernel uses it as a dtype"
    keyword = _passed_as(name, source)
    if keyword is not None:
        usual = _KEYWORDS[keyword]
        return usual[step % len(usual)], f"no launch says it; the kernel passes it on as {keyword}"
    texts = _texts(name, source)
    if name in use.texts or texts:
        return texts[step % len(texts)] if texts else "", "no launch says it; the kernel compares it with this text"
    if _is_flag(name, source):
        return step >= 2, "no launch says it; the kernel uses it as a flag, so both are tried"
    cases = _cases(name, source)
    if cases:
        listed = ", ".join(map(str, cases))
        return cases[step % len(cases)], f"no launch says it; the kernel tells {listed} apart, and each is tried"
    for pattern, value, why in _USUAL:
        if pattern.search(name):
            return value, f"no launch says it; {why}"
    return 64 if step % 2 == 0 else 128, "no launch says it; 64 and 128 are tried"


def cases_of(name: str, source: str, known: Value) -> list[Value]:
    """What a constexpr that holds ``known`` may hold besides: both values of a flag, the texts and modes told apart."""
    if isinstance(known, bool):
        return [False, True]
    if isinstance(known, str):
        return list(_texts(name, source))
    return list(_cases(name, source)) if isinstance(known, int) else []


@functools.lru_cache(maxsize=4096)
def _texts(name: str, source: str) -> list[str]:
    """The strings that a name is compared with."""
    word = re.escape(name)
    found = re.findall(rf"\b{word}\s*(?:==|!=)\s*['\"]([^'\"\n]*)['\"]", source)
    for group in re.findall(rf"\b{word}\s+(?:not\s+)?in\s*[\[({{]([^\])}}]*)[\])}}]", source):
        found += re.findall(r"['\"]([^'\"\n]+)['\"]", group)
    return list(dict.fromkeys(found))


@functools.lru_cache(maxsize=4096)
def _passed_as(name: str, source: str) -> str | None:
    """The keyword of an operation of Triton's that a name is given for."""
    value = re.compile(rf"\s*=\s*{re.escape(name)}\b")
    for keyword in _KEYWORDS:
        if any(value.match(source, at + len(keyword)) for at in places(keyword, source)):
            return keyword
    return None


@functools.lru_cache(maxsize=4096)
def _is_flag(name: str, source: str) -> bool:
    word = re.escape(name)
    tested = rf"\b(if|elif|and|or|not|while)\s+\(?\s*{word}\s*\)?\s*(:|and\b|or\b|else\b|\)|$)"
    return _FLAG_NAME.search(name) is not None or re.search(tested, source, re.MULTILINE) is not None


@functools.lru_cache(maxsize=4096)
def _cases(name: str, source: str) -> list[int]:
    """The values that comparisons with small numbers tell apart: a parameter that stands for one of a few modes."""
    if _SIZE_NAME.search(name):
        return []
    found: set[int] = set()
    for operator, text in re.findall(rf"\b{re.escape(name)}\s*(==|!=|<=|>=|<|>)\s*(\d+)\b(?!\s*[.*/+-])", source):
        number = int(text)
        if number > LARGEST_MODE:
            return []
        found |= {number} if operator in {"==", "!="} else {number, number + (1 if operator in {"<=", ">"} else -1)}
    if len(found) == 1:
        found.add(max(found) + 1)
    return sorted(number for number in found if number >= 0)
