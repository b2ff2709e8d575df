"""``# smemcheck: HEAD_DIM=64, q_ptr=*bf16``: values that a comment at a kernel's definition gives for its parameters."""

from __future__ import annotations

import re
from typing import Any

from smemcheck.config import ParameterValues, parse_bindings
from smemcheck.errors import UsageError
from smemcheck.model import Position, Site, Unknown
from smemcheck.source.analysis import Analysis

_COMMENT = re.compile(r"#\s*smemcheck:\s*(?!ignore\b)(?P<values>\w+\s*=.*)$")
_BETWEEN = re.compile(r",\s*(?=\w+\s*=)")


def values_in_comments(site: Site, project: Any) -> tuple[ParameterValues, ...] | Unknown:
    """What comments from the line above the first decorator to the end of the signature say.

    Unknown, with the comment's line, when one cannot be read.
    """
    if not isinstance(project, Analysis):
        return ()
    module = project.project.module(site.position.path)
    if module is None:
        return ()
    first = (site.decorator or site.position).line - 1
    found: list[ParameterValues] = []
    for number, line in enumerate(module.lines[max(first - 1, 0) :], start=max(first, 1)):
        match = _COMMENT.search(line)
        if match:
            try:
                found.extend(parse_bindings(_BETWEEN.split(match["values"].strip())))
            except UsageError as error:
                return Unknown(f"a comment cannot be read: {error}", Position(site.position.path, number))
        code = line.partition("#")[0].rstrip()
        if number >= site.position.line and code.endswith(":"):
            break
    return tuple(found)
