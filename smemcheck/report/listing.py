"""What smemcheck knows and what is in force, as text: rules, devices, settings."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from smemcheck.config import OPTIONS, KernelSettings, ParameterValues, Settings
from smemcheck.model import Report, Target
from smemcheck.rules import Rule


def rules_text(rules: Sequence[Rule]) -> str:
    """One line a rule: code, name, severity, what it is about."""
    widest = max(len(rule.name) for rule in rules)
    return "".join(f"{rule.code}  {rule.name:{widest}}  {rule.severity.value:7}  {rule.summary}\n" for rule in rules)


def devices_text(targets: Mapping[str, Target], *, with_sources: bool) -> str:
    """One line a target: limits and the names under which it may be asked for."""
    header = ("target", "shared memory", "tensor memory", "threads", "names")
    rows = [header, *(_device_row(target) for target in targets.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header) - 1)]
    lines = []
    for row, target in zip(rows, (None, *targets.values()), strict=True):
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:], strict=True))
        lines.append(f"{row[0]:{widths[0]}}  {numbers}  {row[-1]}".rstrip())
        if with_sources and target is not None:
            lines += [f"    {source}" for source in target.sources]
    return "\n".join(lines) + "\n"


def _device_row(target: Target) -> tuple[str, ...]:
    limit = f"{target.shared_memory_limit:,} B" if target.shared_memory_limit is not None else "unknown"
    tensor_memory = f"{target.tensor_memory_limit} columns" if target.tensor_memory_limit else "–"
    return target.name, limit, tensor_memory, f"{target.max_threads_per_block:,}", ", ".join(target.aliases)


def settings_text(settings: Settings) -> str:
    """Every setting in force, by the key it has in ``[tool.smemcheck]``; those that differ from the default are marked."""
    defaults = Settings()
    lines = [f"# {settings.pyproject or 'no [tool.smemcheck] was found'}"]
    for option in OPTIONS:
        value = getattr(settings, option.field)
        mark = "" if value == getattr(defaults, option.field) else "   # set"
        lines.append(f"{option.key} = {plain(value)}{mark}")
    return "\n".join(lines) + "\n"


def statistics_text(report: Report) -> str:
    """How often each rule was found, the most frequent first."""
    counted = Counter((finding.rule, finding.name) for finding in report.findings)
    return "".join(f"{number:>6,}  {code}  {name}\n" for (code, name), number in counted.most_common())


def plain(value: Any) -> str:
    """A setting's value as a user would read it."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, KernelSettings):
        name = f"{value.path}::{value.name}" if value.path else value.name
        return f"{name} {{{', '.join(map(plain, value.parameters))}}}"
    if isinstance(value, ParameterValues):
        return f"{value.parameter} = {', '.join(map(str, value.values))}"
    if dataclasses.is_dataclass(value):
        raise TypeError(f"no text for {type(value).__name__}")
    if isinstance(value, tuple):
        return f"[{', '.join(map(plain, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "default" if value is None else str(value)
