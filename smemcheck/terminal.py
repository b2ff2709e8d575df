"""What a person at a terminal sees while the compiler works: a bar, and above it the tables of kernels that are done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from smemcheck.model import Report, Site
from smemcheck.report import View, rendered_site

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class Terminal:
    """``progress`` and ``watch`` are for :func:`smemcheck.pipeline.check`; ``seen`` is what was shown of kernels."""

    def __init__(self, bar: Bar | None, view: View | None) -> None:
        self._bar, self._view = bar, view
        self._task: TaskID | None = bar.add_task("reading", total=None) if bar else None
        self._seen: list[str] = []

    @property
    def seen(self) -> frozenset[str]:
        return frozenset(self._seen)

    def progress(self, what: str, done: int, total: int) -> None:
        """Move the bar on."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=what, completed=done, total=total)

    def watch(self, report: Report, site: Site) -> None:
        """Show a kernel's table; nothing without a view."""
        if self._view is None:
            return
        text = rendered_site(report, site, self._view)
        self._seen.append(text)
        if self._bar is not None:
            self._bar.stop()
        sys.stdout.write(text)
        sys.stdout.flush()
        if self._bar is not None:
            self._bar.start()


@contextmanager
def terminal(*, quiet: bool, view: View | None) -> Iterator[Terminal]:
    """The bar is on stderr, where that is a terminal. Tables are shown as ``view`` says, and with ``None`` not before the end."""
    if quiet or not sys.stderr.isatty():
        yield Terminal(None, view)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Terminal(bar, view)
