"""``# smemcheck: ignore[SMC101] reason``: findings that a comment in the source silences.

The comment stands at the end of the line of the config, of the decorator or of the kernel's ``def``, or alone on the line
above. ``# smemcheck: ignore`` without codes silences every rule there. A comment that silences nothing is reported.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from smemcheck.errors import UsageError, did_you_mean
from smemcheck.model import Finding, Position, Problem, Report
from smemcheck.rules.engine import Rule
from smemcheck.rules.selection import codes_of

_COMMENT = re.compile(r"#\s*smemcheck:\s*ignore\b(?:\[(?P<names>[^\]]*)\])?")
_NEEDS_REGISTERS = frozenset({"SMC105", "SMC111"})
_NEEDS_NO_REGISTERS = frozenset({"SMC110"})  # where they are measured, SMC111 says it


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: where it stands, the line it is about, and the names it gives; ``None`` stands for every rule."""

    position: Position
    line: int
    names: tuple[str, ...] | None


def silence(
    report: Report, findings: Sequence[Finding], rules: Sequence[Rule], *, registers: bool
) -> tuple[tuple[Finding, ...], tuple[Problem, ...]]:
    """The findings that no comment silences, and the comments that silence nothing.

    Comments about rules that this run could not have found (nothing was lowered, or not to registers) are left alone.
    """
    paths = dict.fromkeys([*(site.position.path for site in report.sites), *(f.position.path for f in findings)])
    suppressions = {path: list(read_suppressions(path)) for path in paths}
    used: set[tuple[Position, str | None]] = set()
    loud = []
    for finding in findings:
        lines = _lines_of(report, finding)
        silenced = False
        for suppression in suppressions.get(finding.position.path, ()):
            covering = _covering(suppression, finding, rules) if suppression.line in lines else ()
            used.update((suppression.position, name) for name in covering)
            silenced = silenced or bool(covering)
        if not silenced:
            loud.append(finding)
    unused = tuple(
        Problem(sentence, suppression.position)
        for found in suppressions.values()
        for suppression in found
        for sentence in _complaints(suppression, used, rules, judged=bool(report.results), registers=registers)
    )
    return tuple(loud), unused


def read_suppressions(path: str) -> Iterator[Suppression]:
    """The suppressing comments of a file; none when it cannot be read, which is reported elsewhere."""
    try:
        data = Path(path).read_bytes()
        if b"smemcheck:" not in data:
            return
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    for line, column, comment, alone in _comments(text):
        match = _COMMENT.search(comment)
        if match:
            names = match["names"]
            given = None if names is None else tuple(name.strip() for name in names.split(",") if name.strip())
            yield Suppression(Position(path, line, column + match.start() + 1), line + 1 if alone else line, given)


def _comments(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """Line, column (from 0), text, and whether it stands alone, of every comment. Ends where Python cannot read on."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                yield line, column, token.string, not token.line[:column].strip()
    except (tokenize.TokenError, SyntaxError):
        return


def _lines_of(report: Report, finding: Finding) -> set[int]:
    """The lines on which a comment can be about the finding: its own, the config's, the decorator's and the kernel's."""
    lines = {finding.position.line}
    path = finding.position.path
    places: list[Position | None] = [finding.config.position if finding.config else None]
    if finding.site is not None:
        site = report.sites[finding.site]
        places += [site.decorator, site.position]
    return lines | {place.line for place in places if place is not None and place.path == path}


def _covering(suppression: Suppression, finding: Finding, rules: Sequence[Rule]) -> tuple[str | None, ...]:
    """The names in the comment that cover the finding; ``None`` stands for a comment that covers all."""
    if suppression.names is None:
        return (None,)
    return tuple(name for name in suppression.names if finding.rule in _known_codes(name, rules))


def _complaints(
    suppression: Suppression,
    used: Set[tuple[Position, str | None]],
    rules: Sequence[Rule],
    *,
    judged: bool,
    registers: bool,
) -> Iterator[str]:
    if suppression.names is None:
        if judged and (suppression.position, None) not in used:
            yield "the comment silences nothing"
        return
    for name in suppression.names:
        codes = _known_codes(name, rules)
        if not codes:
            known = [word for rule in rules for word in (rule.code, rule.name)]
            yield f"the comment names '{name}', which no rule is called{did_you_mean(name, known)}"
        elif (
            judged
            and (suppression.position, name) not in used
            and not codes <= (_NEEDS_NO_REGISTERS if registers else _NEEDS_REGISTERS)
        ):
            yield f"the comment silences {name}, which finds nothing here"


def _known_codes(name: str, rules: Sequence[Rule]) -> frozenset[str]:
    try:
        return codes_of(name, rules)
    except UsageError:
        return frozenset()
