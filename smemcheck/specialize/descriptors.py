"""The block shapes of tensor descriptors, where a ``pre_hook`` of the configs sets them before each launch.

What a kernel's offsets are multiples of only suggests the shape; ``nargs["x_desc"].block_shape = [BLOCK_M, 64]`` says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from smemcheck.model import Position, Site
from smemcheck.source.analysis import Analysis
from smemcheck.source.module import Module
from smemcheck.specialize.kinds import KernelUse, Kind, ParameterKind

_HOOK = re.compile(r"\bpre_hook\s*=\s*(\w+)")
_SET = re.compile(r"""\[\s*["'](\w+)["']\s*\]\s*\.block_shape\s*=\s*[\[(]([^\n]*?)[\])][ \t]*(?:#.*)?$""", re.MULTILINE)
_LOCAL = re.compile(r"""^[ \t]+(\w+)\s*=\s*\w+\s*\[\s*["'](\w+)["']\s*\][ \t]*$""", re.MULTILINE)
_LOOKED_UP = re.compile(r"""^\w+\s*\[\s*["'](\w+)["']\s*\]$""")


def with_hook_shapes(use: KernelUse, site: Site, project: object) -> KernelUse:
    """The uses with the block shapes that the hooks of the site's configs set, where they are sizes or constexprs by name."""
    if not isinstance(project, Analysis) or all(kind.kind is not Kind.DESCRIPTOR for kind in use.kinds):
        return use
    module = project.project.module(site.position.path)
    shapes = _shapes(module, site) if module is not None else {}
    return replace(use, kinds=tuple(_shaped(kind, shapes) for kind in use.kinds)) if shapes else use


def _shapes(module: Module, site: Site) -> Mapping[str, tuple[str, Position]]:
    """By parameter: its block shape as text, and where it is set. A parameter that hooks disagree about is left out."""
    decorated = [s for s in module.statements if s.definition_line == site.position.line]
    hooks = {name for statement in decorated for name in _HOOK.findall(statement.decorator_text)}
    constexprs = {parameter.name for parameter in site.parameters if parameter.is_constexpr}
    found: dict[str, tuple[str, Position] | None] = {}
    for statement in module.statements:
        if statement.kind != "def" or (hooks and statement.defined_name not in hooks):
            continue
        locals_ = dict(_LOCAL.findall(statement.text))
        for match in _SET.finditer(statement.text):
            parts = [_LOOKED_UP.sub(r"\1", part.strip()) for part in match[2].split(",") if part.strip()]
            sizes = [locals_.get(part, part) for part in parts]
            if not all(size.isdigit() or size in constexprs for size in sizes):
                continue
            line = statement.line + statement.text.count("\n", 0, match.start())
            shape = ", ".join(sizes)
            known = found.get(match[1], (shape, None))
            same = known is not None and known[0] == shape
            found[match[1]] = (shape, Position(site.position.path, line)) if same else None
    return {name: one for name, one in found.items() if one is not None}


def _shaped(kind: ParameterKind, shapes: Mapping[str, tuple[str, Position]]) -> ParameterKind:
    if kind.kind is not Kind.DESCRIPTOR or kind.parameter not in shapes:
        return kind
    shape, position = shapes[kind.parameter]
    element = kind.type.partition("<")[2].partition("[")[0]
    because = f"{kind.because.rpartition('; ')[0]}; its block shape is what the configs' pre_hook sets"
    return replace(kind, type=f"tensordesc<{element}[{shape}]>", because=because, position=position)
