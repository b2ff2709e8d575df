"""How findings speak of configs, bytes, assumptions and conditions: one way for all rules."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence

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

    At most ``most`` parameters of a kind are named, and then strides of 1, which torch's tensors have, are left out. Plain
    integers and floats always are: they rarely decide bytes.
    """
    assumed = {assumption.parameter: assumption.value for assumption in specialization.assumptions}
    values = {name: value for name, value in specialization.constexprs if name in assumed}
    unit = [name for name, value in values.items() if value == 1 and "stride" in name.lower()]
    constants = [f"{name}={assumed[name]}" for name in values if name not in unit]
    by_type: dict[str, list[str]] = {}
    for name, kind in specialization.signature:
        if name in assumed and isinstance(kind, str) and kind.startswith(("*", "tensordesc")):
            by_type.setdefault(kind, []).append(name)
    parts = [_listed(constants, most)] if constants else []
    parts += [f"{kind}: {_listed(names, most)}" for kind, names in by_type.items()]
    parts += [f"1: {_listed(unit, most)}"] if unit and not most else []
    return "; ".join(parts)


def _listed(names: Sequence[str], most: int | None) -> str:
    more = [f"{len(names) - most} more"] if most and len(names) > most else []
    return ", ".join([*names[:most], *more])


def one_line(text: str) -> str:
    """Text as one line without control characters: a compiler's message may hold line breaks, a file name anything."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(text.split())


def place_text(path: str, line: int) -> str:
    """``attention.py:30``: a place in another file, short enough for the middle of a sentence."""
    return f"{posixpath.basename(path)}:{line}"
