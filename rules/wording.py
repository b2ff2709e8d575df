"""How findings speak of configs, bytes, assumptions and conditions: one way for all rules."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from smemcheck.model import (
    AttributeValue,
    Config,
    ConstexprValue,
    Dtype,
    Footprint,
    FunctionValue,
    NamespaceValue,
    Specialization,
    Value,
)

_BUFFERS_NAMED = 3
_ASSUMPTIONS_NAMED = 6


def value_text(value: Value) -> str:
    """A value as the user would write it in a launch."""
    if isinstance(value, ConstexprValue):
        return value_text(value.value)
    if isinstance(value, Dtype | FunctionValue | NamespaceValue):
        return value.name
    if isinstance(value, AttributeValue):
        return value.path
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def config_text(config: Config) -> str:
    """``BLOCK_M=128, num_warps=8, num_stages=3``; what equals Triton's default is left out, warps and stages excepted."""
    parts = [f"{name}={value_text(value)}" for name, value in config.kwargs]
    parts += [f"num_warps={config.num_warps}", f"num_stages={config.num_stages}"]
    if config.num_ctas != 1:
        parts.append(f"num_ctas={config.num_ctas}")
    if config.maxnreg is not None:
        parts.append(f"maxnreg={config.maxnreg}")
    parts += [f"{name}={value_text(value)}" for name, value in config.options]
    return ", ".join(parts)


def difference_text(config: Config, other: Config) -> str:
    """What ``config`` sets otherwise than ``other``, as :func:`config_text` would say it."""
    theirs = settings_of(other)
    different = [f"{name}={value}" for name, value in settings_of(config).items() if theirs.get(name) != value]
    return ", ".join(different) or config_text(config)


def settings_of(config: Config) -> Mapping[str, str]:
    """Everything that a config sets, by name, as text that can be compared."""
    return {
        **{name: value_text(value) for name, value in config.kwargs},
        "num_warps": str(config.num_warps),
        "num_stages": str(config.num_stages),
        "num_ctas": str(config.num_ctas),
        "maxnreg": str(config.maxnreg),
        **{name: value_text(value) for name, value in config.options},
    }


def buffers_text(footprint: Footprint) -> str:
    """The biggest shared-memory buffers by variable and line, or nothing when the compiler named none."""
    alike = Counter(
        (buffer.variable, buffer.position.line if buffer.position else None, buffer.size)
        for buffer in footprint.buffers
        if buffer.size and (buffer.variable or buffer.position)
    )
    parts = []
    for (variable, line, size), count in sorted(alike.items(), key=lambda item: -item[0][2] * item[1])[:_BUFFERS_NAMED]:
        times = f"{count} × " if count > 1 else ""
        parts.append(
            f"{variable or 'compiler scratch'} ({f'line {line}' if line else 'line unknown'}) {times}{size:,} B"
        )
    return ", ".join(parts)


def assumptions_text(specialization: Specialization, most: int | None = _ASSUMPTIONS_NAMED) -> str:
    """The constants and types that a number rests on: ``HEAD_DIM=128; *bf16: q_ptr, k_ptr``.

    At most ``most`` parameters of a type are named. Plain integers and floats are left out: they rarely decide bytes.
    """
    assumed = {assumption.parameter: assumption.value for assumption in specialization.assumptions}
    constants = [f"{name}={assumed[name]}" for name, _ in specialization.constexprs if name in assumed]
    by_type: dict[str, list[str]] = {}
    for name, kind in specialization.signature:
        if name in assumed and isinstance(kind, str) and kind.startswith(("*", "tensordesc")):
            by_type.setdefault(kind, []).append(name)
    parts = [", ".join(constants)] if constants else []
    for kind, names in by_type.items():
        more = [f"{len(names) - most} more"] if most and len(names) > most else []
        parts.append(f"{kind}: {', '.join([*names[:most], *more])}")
    return "; ".join(parts)


def condition_text(holds: Sequence[Specialization], fails: Sequence[Specialization]) -> str:
    """Under which of the judged specialisations something holds: ``HEAD_DIM ≥ 128``, ``q_ptr = *fp32``; empty for all."""
    if not fails:
        return ""
    conditions = [_bound(name, here, there) for name, (here, there) in deciding(holds, fails).items()]
    total = len(holds) + len(fails)
    return " and ".join(conditions[:2]) if conditions else f"{len(holds)} of {total} specialisations"


def deciding(
    holds: Sequence[Specialization], fails: Sequence[Specialization]
) -> dict[str, tuple[frozenset[Value], frozenset[Value]]]:
    """The parameters whose value or type tells the one group from the other, with the values in each."""
    held, failed = [facts_of(s) for s in holds], [facts_of(s) for s in fails]
    found = {}
    for name in dict.fromkeys(name for facts in held for name in facts):
        here = frozenset(facts.get(name) for facts in held)
        there = frozenset(facts.get(name) for facts in failed)
        if None not in here | there and not here & there:
            found[name] = (here, there)
    return found


def facts_of(specialization: Specialization) -> dict[str, Value]:
    """What a specialisation says of each parameter: the type of an argument, the value of a constexpr."""
    types = {name: str(kind) for name, kind in specialization.signature if kind != "constexpr"}
    return {**types, **dict(specialization.constexprs)}


def _bound(name: str, here: Iterable[Value], there: Iterable[Value]) -> str:
    ours, theirs = list(here), list(there)
    numbers = [v for v in (*ours, *theirs) if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(ours) + len(theirs):
        low, high = sorted(numbers[: len(ours)]), sorted(numbers[len(ours) :])
        if low[0] > high[-1]:
            return f"{name} ≥ {low[0]}"
        if low[-1] < high[0]:
            return f"{name} ≤ {low[-1]}"
    texts = sorted(v if isinstance(v, str) else value_text(v) for v in ours)
    return f"{name} = {' or '.join(texts)}"


def one_line(text: str) -> str:
    """Text as one line without control characters: a compiler's message may hold line breaks, a file name anything."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def place_text(path: str, line: int) -> str:
    """``attention.py:30``: a place in another file, short enough for the middle of a sentence."""
    return f"{posixpath.basename(path)}:{line}"
