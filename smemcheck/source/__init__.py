"""The source stage: text → sites. Discovery, module index, evaluator, decorators, kernel slices.

    files ──discovery──▶ paths ──scan──▶ statements ──interpreter──▶ tuners ──kernels──▶ Site

Nothing of the analysed source is imported or run: the evaluator of :mod:`smemcheck.source.interpreter` reads it.
"""

from __future__ import annotations

import symtable
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from smemcheck.config import Settings
from smemcheck.errors import defect
from smemcheck.model import Position, Problem, Site, SiteKind, Target
from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import python_files
from smemcheck.source.freeze import posix
from smemcheck.source.module import Module
from smemcheck.source.scan import may_hold_tuner
from smemcheck.source.shared_lists import with_list_changes
from smemcheck.source.sites import FileSites, find_sites, make_sites

_CACHE_VARIABLE = "TRITON_CACHE_AUTOTUNING"
_TRUE = frozenset({"1", "true", "on", "yes", "y"})  # getenv_bool of libtriton 3.6 and 3.9, tried

__all__ = ["Analysis", "SourceReading", "read_sites"]

Found: TypeAlias = Callable[[Analysis, Sequence[Site]], None]


@dataclass(frozen=True, slots=True)
class SourceReading:
    """What the source stage found in ``files``. ``project`` answers later questions about the same files."""

    sites: tuple[Site, ...]
    problems: tuple[Problem, ...]
    files: tuple[str, ...]
    project: Analysis


def read_sites(
    paths: Sequence[str],
    targets: Sequence[Target],
    settings: Settings,
    kept: Collection[str] = (),
    found: Found | None = None,
) -> SourceReading:
    """Every site under ``paths``, in the order of the files, with its configs on each target.

    ``kept`` are files whose sites are known from an earlier run: theirs are left out. ``found`` is told of a file's sites as
    soon as it is read; of some, later files can change the options.
    """
    analysis = Analysis(targets, settings, paths)
    sites: list[Site] = []
    problems: list[Problem] = []
    seen: dict[str, None] = {}
    for root in paths:
        for path in python_files(root, settings.exclude, settings.respect_gitignore):
            if path in seen:
                continue
            seen[path] = None
            if path in kept:
                continue
            before = len(sites)
            try:
                _read_file(analysis, path, root, sites, problems)
            except Exception as error:  # noqa: BLE001 - a defect of ours costs this file, not the others
                problems.append(Problem(defect(error), Position(path, 1)))
            if found:
                found(analysis, sites[before:])
    told = with_list_changes(analysis.project, _with_cache_variable(sites, settings), seen)
    return SourceReading(told, tuple(problems), tuple(seen), analysis)


def _read_file(analysis: Analysis, path: str, root: str, sites: list[Site], problems: list[Problem]) -> None:
    """Add the sites of one file, and what could not be read of it."""
    if not _may_matter(path, problems):
        return
    module = analysis.project.module(path)
    problem = analysis.project.problems[path] if module is None else syntax_problem(module)
    if problem is not None:
        problems.append(problem)
    elif module is not None:
        found = _on_each_target(analysis, module)
        made = make_sites(found, root)
        sites.extend(made)
        others = {site.position.path for site in made} - {posix(module.path)}
        if others:
            analysis.found_in[path] = others
        problems.extend(dict.fromkeys(p for one in found.values() for p in one.problems))


def _with_cache_variable(sites: Sequence[Site], settings: Settings) -> Sequence[Site]:
    """``TRITON_CACHE_AUTOTUNING`` is ``cache_results`` for every kernel (``Autotuner.__init__``, triton/runtime/autotuner.py)."""
    value = dict(settings.environment).get(_CACHE_VARIABLE, "")
    if value.lower() not in _TRUE:
        return sites
    return [
        replace(site, options={**site.options, "cache_results": site.options.get("cache_results") or _CACHE_VARIABLE})
        if site.kind is SiteKind.AUTOTUNE
        else site
        for site in sites
    ]


def _may_matter(path: str, problems: list[Problem]) -> bool:
    try:
        with open(path, "rb") as file:
            return may_hold_tuner(file.read())
    except OSError as error:
        problems.append(Problem(f"the file cannot be read: {error.strerror or error}", Position(path, 1)))
        return False


def syntax_problem(module: Module) -> Problem | None:
    """Why Python would refuse to import the file, if it would: checked with Python's own parser, which runs nothing.

    What that tells of the names in kernels is kept for their slices.
    """
    try:
        table = symtable.symtable(module.text, module.path, "exec")
    except SyntaxError as error:
        return Problem(
            f"Python cannot parse the file: {error.msg}", Position(module.path, error.lineno or 1, error.offset or 1)
        )
    except (RecursionError, MemoryError, ValueError) as error:
        return Problem(f"Python cannot parse the file: {error or 'it is nested too deeply'}", Position(module.path, 1))
    if "__future__" in module.text:  # with annotations left for later, Python's tables leave out some that Triton reads
        return None
    kernels = {(one.defined_name, one.definition_line) for one in module.statements if "jit" in one.decorator_text}
    found = {(child.get_name(), child.get_lineno()): child for child in table.get_children()}
    module.symbols = {key: child for key, child in found.items() if key in kernels}
    return None


def _on_each_target(analysis: Analysis, module: Module) -> dict[str, FileSites]:
    """The file's sites on each target; evaluated once when nothing that was asked depends on the target."""
    found: dict[str, FileSites] = {}
    shared: FileSites | None = None
    for name, evaluator in analysis.evaluators.items():
        if shared is None:
            one = find_sites(evaluator, module)
            if not one.consulted_target:
                shared = one
        else:
            one = shared
        found[name] = one
    return found
