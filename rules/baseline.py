"""Findings that are known: written to a file once, and not reported again while they stay the same.

A finding is known by :func:`~smemcheck.rules.identity.identity`, so moved lines and folders change nothing. Two findings of
one identity are two entries: a third one is new.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from smemcheck.errors import UsageError
from smemcheck.model import Finding, Report
from smemcheck.rules.identity import identity

_FIELDS = ("rule", "file", "kernel", "config", "target")


def write_baseline(path: str, report: Report) -> None:
    """Write the report's findings to a file, sorted, one a line. Raises :class:`UsageError` when it cannot be written."""
    entries = sorted(identity(report, finding) for finding in report.findings)
    lines = ",\n  ".join(json.dumps(dict(zip(_FIELDS, entry, strict=True)), ensure_ascii=False) for entry in entries)
    text = f'{{"schema": 1, "findings": [\n  {lines}\n]}}\n' if entries else '{"schema": 1, "findings": []}\n'
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: the baseline cannot be written: {error.strerror}") from None


def unknown_findings(path: str, report: Report) -> tuple[Finding, ...]:
    """The report's findings that the baseline does not hold. Raises :class:`UsageError` when it cannot be read."""
    known = _read(path)
    left = []
    for finding in report.findings:
        entry = identity(report, finding)
        if known[entry]:
            known[entry] -= 1
        else:
            left.append(finding)
    return tuple(left)


def _read(path: str) -> Counter[tuple[str, ...]]:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        if document["schema"] != 1:
            raise UsageError(f"{path}: the baseline has schema {document['schema']}, this smemcheck reads 1")
        return Counter(tuple(str(entry[name]) for name in _FIELDS) for entry in document["findings"])
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such baseline; write one with --write-baseline {path}") from None
    except OSError as error:
        raise UsageError(f"{path}: the baseline cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: is no baseline; write one with --write-baseline {path}") from None
