"""Constexprs that no launch and no config gives: small domains, by how the kernel uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from smemcheck.model import Assumption, Dtype, Kernel, Parameter, Site, Value
from smemcheck.specialize.dtypes import value_text
from smemcheck.specialize.given import Argument
from smemcheck.specialize.kinds import KernelUse
from smemcheck.specialize.launches.arguments import Proposal

_FLAG_NAME = re.compile(
    r"^(IS|HAS|USE|WITH|STORE|OUTPUT|DO|CAUSAL|EVEN|REVERSE|SAVE|NEED|ENABLE|INPLACE|TRANS\w*|ALLOW\w*)(_|$)|CAUSAL|^is_|^has_|^use_",
    re.IGNORECASE,
)

_SIZE_NAME = re.compile(r"BLOCK|DIM|SIZE|HEAD|LEN|WIDTH|CHUNK|PAD|POW|NUM|^[A-Z]{1,2}$|^N_", re.IGNORECASE)
_LARGEST_MODE = 8  # a number above it is a size


def with_guesses(site: Site, use: KernelUse, proposals: Sequence[Proposal], elsewhere: set[str]) -> list[Proposal]:
    """The proposals with a value for every constexpr: numbers 64 and 128 in step, flags off and on."""
    needed = [p for p in site.parameters if p.is_constexpr and p.name not in elsewhere]
    source = _source(site)
    start = list(proposals) or [Proposal({}, (), 1, 0)]
    found: list[Proposal] = []
    for proposal in start:
        missing = [p for p in needed if p.name not in proposal.arguments]
        found.extend(_filled(proposal, missing, use, source) if missing else [proposal])
    if not proposals and not any(p.name not in elsewhere for p in needed):
        return []
    return sorted(found, key=lambda one: (one.unknown > 0, one.effort))


def _source(site: Site) -> str:
    kernel = next((answer.kernel for answer in site.answers.values() if isinstance(answer.kernel, Kernel)), None)
    return kernel.entry.source if kernel is not None else ""


def _filled(proposal: Proposal, missing: Sequence[Parameter], use: KernelUse, source: str) -> Iterator[Proposal]:
    for step in range(4):
        arguments = dict(proposal.arguments)
        assumptions = list(proposal.assumptions)
        for parameter in missing:
            value, because = _guess(parameter.name, use, source, step)
            arguments[parameter.name] = Argument("constexpr", value)
            assumptions.append(Assumption(parameter.name, value_text(value), because))
        yield replace(proposal, arguments=arguments, assumptions=tuple(assumptions), effort=proposal.effort + 3 * step)


def _guess(name: str, use: KernelUse, source: str, step: int) -> tuple[Value, str]:
    if name in use.dtypes:
        return Dtype("fp32" if step == 3 else "fp16"), "no launch says it; the kernel uses it as a dtype"
    if name in use.texts:
        texts = re.findall(rf"\b{re.escape(name)}\s*(?:==|!=)\s*['\"]([^'\"\n]*)['\"]", source)
        return texts[step % len(texts)] if texts else "", "no launch says it; the kernel compares it with this text"
    word = re.escape(name)
    if _FLAG_NAME.search(name) or re.search(
        rf"\b(if|elif|and|or|not|while)\s+\(?\s*{word}\s*\)?\s*(:|and\b|or\b|else\b|\)|$)", source
    ):
        return step >= 2, "no launch says it; the kernel uses it as a flag, so both are tried"
    cases = _cases(name, source)
    if cases:
        listed = ", ".join(map(str, cases))
        return cases[step % len(cases)], f"no launch says it; the kernel tells {listed} apart, and each is tried"
    return 64 if step % 2 == 0 else 128, "no launch says it; 64 and 128 are tried"


def _cases(name: str, source: str) -> list[int]:
    """The values that comparisons with small numbers tell apart: a parameter that stands for one of a few modes."""
    if _SIZE_NAME.search(name):
        return []
    found: set[int] = set()
    for operator, text in re.findall(rf"\b{re.escape(name)}\s*(==|!=|<=|>=|<|>)\s*(\d+)\b(?!\s*[.*/+-])", source):
        number = int(text)
        if number > _LARGEST_MODE:
            return []
        found |= {number} if operator in {"==", "!="} else {number, number + (1 if operator in {"<=", ">"} else -1)}
    if len(found) == 1:
        found.add(max(found) + 1)
    return sorted(number for number in found if number >= 0)
