"""Recorded specialisations out of a Triton cache: what the IR of compiled variants says of the launches they were for.

A cache holds no constants. Parameters that the IR has lost are looked up in the source, where it is known: constexprs stay
open (the config, a default, a heuristic or ``--bind`` gives them), others were 1 or ``None``, and the line says which was
taken under ``"assumed"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from smemcheck.model import Parameter, Site
from smemcheck.verify.triton_cache import Variant

_NUMBERED = re.compile(r"arg\d+")
_POINTER_LIKE = re.compile(r"(ptr|pointer|bias|mask|desc|tensor|buffer|out|_p)$|^(p_|ptr_)", re.IGNORECASE)


def harvested_lines(variants: Iterable[Variant], sites: Mapping[str, Site]) -> list[dict[str, Any]]:
    """One line (FORMATS: recorded specialisation) for each kernel and each way its arguments were specialised.

    ``sites`` are known sites by the kernel's name. Variants without IR give no line. ``observed`` lists what was compiled.
    """
    grouped: dict[tuple[Any, ...], list[Variant]] = {}
    for variant in (_named(variant, sites.get(variant.kernel)) for variant in variants):
        if variant.arguments is not None:
            key = (variant.kernel, variant.source, variant.arguments, variant.environment)
            grouped.setdefault(key, []).append(variant)
    all_of: dict[str, list[Variant]] = {}
    for variant in (variant for members in grouped.values() for variant in members):
        all_of.setdefault(variant.kernel, []).append(variant)
    return [_line(members, all_of[members[0].kernel], sites.get(members[0].kernel)) for members in grouped.values()]


def _named(variant: Variant, site: Site | None) -> Variant:
    """The variant with its arguments named. 3.4 prints them by number; then the source tells, if none was lost on the way.

    Without a name for each argument there is no line: the variant's arguments become unknown.
    """
    arguments = variant.arguments or ()
    if not any(_NUMBERED.fullmatch(argument.name) for argument in arguments):
        return variant
    names = [parameter.name for parameter in site.parameters if not parameter.is_constexpr] if site else []
    if len(names) != len(arguments):
        return replace(variant, arguments=None)
    renamed = tuple(replace(argument, name=name) for argument, name in zip(arguments, names, strict=True))
    return replace(variant, arguments=renamed)


def _line(members: Sequence[Variant], alike: Sequence[Variant], site: Site | None) -> dict[str, Any]:
    first = members[0]
    arguments = {argument.name: argument for argument in first.arguments or ()}
    signature: dict[str, Any] = {}
    constexprs: dict[str, Any] = {}
    assumed: dict[str, Any] = {}
    for parameter in site.parameters if site else ():
        if parameter.name in arguments:
            signature[parameter.name] = arguments[parameter.name].type
            continue
        signature[parameter.name] = "constexpr"
        if not parameter.is_constexpr and not _set_by_a_config(parameter, site):
            constexprs[parameter.name] = assumed[parameter.name] = _lost_value(parameter, alike)
    for argument in arguments.values():
        signature.setdefault(argument.name, argument.type)
    line: dict[str, Any] = {
        "kernel": first.kernel,
        "path": site.position.path if site else first.source[0] if first.source else "",
        "line": site.position.line if site else first.source[1] if first.source else None,
        "signature": signature,
        "constexprs": constexprs,
        "divisible_by_16": [argument.name for argument in arguments.values() if argument.divisible_by_16],
    }
    if first.environment:
        line["environment"] = dict(first.environment)
    if assumed:
        line["assumed"] = assumed
    line["observed"] = [
        {
            "num_warps": variant.asked_warps,
            "num_stages": variant.num_stages,
            "num_ctas": variant.num_ctas,
            "maxnreg": variant.maxnreg,
            "shared_memory": variant.shared_memory,
            "tensor_memory": variant.tensor_memory,
            "triton": variant.triton,
        }
        for variant in members
    ]
    return line


def _set_by_a_config(parameter: Parameter, site: Site | None) -> bool:
    answers = site.answers.values() if site else ()
    lists = [answer.configs for answer in answers if isinstance(answer.configs, tuple)]
    return any(parameter.name == name for configs in lists for config in configs for name, _ in config.kwargs)


def _lost_value(parameter: Parameter, alike: Sequence[Variant]) -> int | None:
    """What a run-time parameter without a place in the IR was: 1, or ``None`` where anything speaks for it."""
    if parameter.has_default and parameter.default is None:
        return None
    kinds = {
        argument.type for variant in alike for argument in variant.arguments or () if argument.name == parameter.name
    }
    if kinds:
        return None if any(kind.startswith(("*", "tensordesc")) for kind in kinds) else 1
    if parameter.annotation:
        return None if "*" in parameter.annotation else 1
    return None if _POINTER_LIKE.search(parameter.name) else 1


def lines_text(lines: Iterable[Mapping[str, Any]]) -> str:
    """JSON lines."""
    return "".join(json.dumps(line) + "\n" for line in lines)
