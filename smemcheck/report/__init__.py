"""How a report is shown: one module a format, each with one function from Report to text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from smemcheck.model import Report, Site

WIDTH_OF_A_FILE = 160
"""Columns of text that goes to a file or a pipe."""

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")


@dataclass(frozen=True, slots=True)
class View:
    """How a reader looks at a report.

    ``folder`` is what paths are shown relative to; ``color``, ``width`` (columns) and ``detail`` (0 findings only, 1 with
    tables, 2 with every assumption) are for text; ``lowered`` is false for what the source stages alone say. ``seen`` is
    what the reader was shown of kernels while the compiler worked (:func:`rendered_site`), which is not shown again.
    """

    folder: str
    color: bool = False
    width: int = WIDTH_OF_A_FILE
    detail: int = 1
    lowered: bool = True
    seen: frozenset[str] = frozenset()


def rendered_site(report: Report, site: Site, view: View) -> str:
    """The table of one site as text, of a report that has no other results."""
    from smemcheck.report import text

    return text.render_site(report, site, folder=view.folder, color=view.color, width=view.width, detail=view.detail)


def written(report: Report, format_: str, view: View) -> Iterator[str]:
    """The report in one of :data:`FORMATS`, in pieces where the whole of it may be large."""
    if format_ == "json":
        from smemcheck.report import json_report

        yield from json_report.render(report)
    else:
        yield _rendered(report, format_, view)


def _rendered(report: Report, format_: str, view: View) -> str:
    if format_ == "text":
        from smemcheck.report import text

        if not view.lowered:
            return text.render_sites(report, folder=view.folder, color=view.color, width=view.width)
        return text.render(
            report,
            folder=view.folder,
            color=view.color,
            width=view.width,
            detail=view.detail,
            without=view.seen,
        )
    if format_ == "sarif":
        from smemcheck.report import sarif

        return sarif.render(report, folder=view.folder)
    if format_ == "github":
        from smemcheck.report import github

        return github.render(report, folder=view.folder)
    if format_ == "junit":
        from smemcheck.report import junit

        return junit.render(report, folder=view.folder)
    if format_ == "markdown":
        from smemcheck.report import markdown

        return markdown.render(report, folder=view.folder)
    raise ValueError(f"no format {format_}")
