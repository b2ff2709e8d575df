"""Which findings the user wants to see, and how severe they are: select, ignore, per-file ignores, severities, strict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from smemcheck.config import Settings
from smemcheck.errors import UsageError, did_you_mean
from smemcheck.model import Finding, Severity
from smemcheck.rules.engine import Rule

STRICT = ("SMC202", "SMC203", "SMC901")
"""Rules that speak of what could not be judged: ``--strict`` makes them errors."""


def select(findings: Iterable[Finding], rules: Sequence[Rule], settings: Settings) -> tuple[Finding, ...]:
    """The findings of the selected rules, with the severities the user gave.

    Rules are named by code, by the beginning of a code (``SMC1``) or by name. A longer code is stronger than a shorter one,
    so that ``--select SMC1 --ignore SMC104`` and ``--ignore SMC1 --select SMC104`` both mean what they say. Raises
    :class:`UsageError` for a name that no rule has.
    """
    chosen = {rule.code for rule in rules if _selected(rule, settings.select, settings.ignore, rules)}
    severities = {code: level for name, level in settings.severity for code in codes_of(name, rules)}
    ignored_in = _PerFile(settings, rules)
    kept = []
    for finding in findings:
        if finding.rule in chosen and finding.rule not in ignored_in.codes(finding.position.path):
            severity = severities.get(finding.rule, finding.severity)
            if settings.strict and finding.rule in STRICT:
                severity = Severity.ERROR
            kept.append(replace(finding, severity=severity))
    return tuple(kept)


def codes_of(name: str, rules: Sequence[Rule]) -> frozenset[str]:
    """The codes that a code, the beginning of one, or a rule's name stands for. Raises :class:`UsageError` for none."""
    codes = frozenset(rule.code for rule in rules if rule.code.startswith(name) or rule.name == name)
    if not codes or not name:
        known = [word for rule in rules for word in (rule.code, rule.name)]
        raise UsageError(f"no rule is called '{name}'{did_you_mean(name, known)} ('smemcheck rules' lists them)")
    return codes


def _selected(rule: Rule, select_: Sequence[str], ignore: Sequence[str], rules: Sequence[Rule]) -> bool:
    def strength(names: Sequence[str]) -> int:
        lengths = [
            len(rule.code) if name == rule.name else len(name) for name in names if rule.code in codes_of(name, rules)
        ]
        return max(lengths, default=0)

    chosen = strength(select_) if select_ else 1
    return chosen > strength(ignore)


class _PerFile:
    """``per-file-ignores``: patterns as in .gitignore, relative to the folder of pyproject.toml."""

    def __init__(self, settings: Settings, rules: Sequence[Rule]) -> None:
        self._root = settings.root.rstrip("/") + "/"
        self._patterns = []
        if settings.per_file_ignores:
            from pathspec import GitIgnoreSpec

            for pattern, names in settings.per_file_ignores:
                codes = frozenset(code for name in names for code in codes_of(name, rules))
                self._patterns.append((GitIgnoreSpec.from_lines([pattern]), codes))

    def codes(self, path: str) -> frozenset[str]:
        relative = path.removeprefix(self._root)
        return frozenset().union(*(codes for pattern, codes in self._patterns if pattern.match_file(relative)))
