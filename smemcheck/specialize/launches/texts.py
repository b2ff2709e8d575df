"""Which files are read for what leads to launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from smemcheck.source.analysis import Analysis
from smemcheck.source.module import Module
from smemcheck.source.scan import may_lead_to_launches


def modules_that_may_launch(analysis: Analysis, paths: Iterable[str]) -> Iterator[Module]:
    """The modules in those of the files that can hold what leads to a launch."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                data = file.read()
            if not may_lead_to_launches(data):
                continue
        except OSError:
            continue
        module = analysis.project.module(path)
        if module is not None:
            yield module
