"""A report in parts, one a file: what each part rests on, and an earlier run's parts put together with new ones.

A part is everything that a report says of the kernels of one file. It holds as long as the files that its answers came from
are as they were, and no other file comes to mention what leads to a launch of its kernels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smemcheck.cache.launches import read, written
from smemcheck.cache.reports import Basis, Kept
from smemcheck.closure import WHOLE, Closures, makes_kernels, merged, rests_on_text
from smemcheck.config import Settings
from smemcheck.model import Kernel, Position, Report, Result, Site, SiteKind
from smemcheck.source.analysis import Analysis
from smemcheck.source.module import Module, Statement
from smemcheck.source.project import Project
from smemcheck.source.shared_lists import changes_in, list_names
from smemcheck.specialize import callers_of
from smemcheck.specialize.launches.noted import Notes
from smemcheck.specialize.recorded import RecordedSpecializations

if TYPE_CHECKING:
    from smemcheck.specialize.launches.entries import Callers


def parts_of(
    report: Report,
    files: Sequence[str],
    roots: Sequence[str],
    analysis: Analysis,
    settings: Settings,
    kept: Kept | None,
) -> dict[str, Basis]:
    """What the part about each of the scanned ``files`` rests on; ``analysis`` has made those that were not kept."""
    project = analysis.project
    earlier = kept.parts if kept else {}
    sites: dict[str, list[Site]] = defaultdict(list)
    for site in report.sites:
        sites[site.position.path].append(site)
    made = {path: project.loaded(path) for path in files if path not in earlier}
    lists = {path: set().union(*(list_names(project, site) for site in sites[path])) for path in made}
    # Every file is looked at once for all lists, and then only those that change something for each.
    every = set().union(*lists.values())
    changing = [path for path in files if every and any(True for _ in changes_in(project, path, every))]
    starts: dict[str, _Start] = {}
    for path, module in made.items():
        # A recorded line can ask for a kernel that another file's decorator makes.
        may_hold_kernel = sites[path] or settings.specializations or (module and makes_kernels(module.text))
        if module is not None and may_hold_kernel:
            callers = [one for root in roots for one in callers_of(analysis, root, settings)]
            starts[path] = _start(project, callers, module, sites[path], lists[path], changing)
    groups = _together(starts, analysis.found_in)
    closures = Closures(project, set().union(*((*start.files, *start.launched) for start in starts.values())))
    known = kept.launched if kept else {}
    bases = {path: _basis(path, start, closures, known.get(path)) for path, start in starts.items()}
    for group in groups:
        shared = merged(bases[path].files for path in group)
        bases.update((path, replace(bases[path], files=shared, launched={})) for path in group)
    alone = Basis({}, frozenset(), frozenset())
    return {path: earlier.get(path) or bases.get(path) or replace(alone, files={path: WHOLE}) for path in files}


def _together(starts: dict[str, _Start], found_in: Mapping[str, set[str]]) -> list[set[str]]:
    """Groups of files where one puts tuners around the kernels of another: since these are made at one time, they start from
    the same.
    """
    groups: list[set[str]] = []
    for path, others in found_in.items():
        group = {path, *others} & starts.keys()
        apart = [one for one in groups if one.isdisjoint(group)]
        groups = [*apart, group.union(*(one for one in groups if one not in apart))]
    for group in groups:
        members = [starts[path] for path in group]
        sets = ("names", "statements", "entered", "files", "launched", "modules", "changing", "slices")
        together = _Start(
            **{name: set().union(*(getattr(one, name) for one in members)) for name in sets},
            is_sliced=all(one.is_sliced for one in members),
        )
        starts.update(dict.fromkeys(group, together))
    return groups


def notes_of(kept: Kept | None) -> Notes:
    """What an earlier run found of kernels and still holds, of files that are no parts."""
    known = kept.launched if kept else ()
    texts = kept.launches if kept else {}
    return Notes(dict(found for path in known if path in texts for found in read(path, texts[path])))


def launches_of_parts(parts: Mapping[str, Basis], analysis: Analysis, kept: Kept | None) -> dict[str, str]:
    """Notes of what the kernels of parts are launched with, by file."""
    made = written(analysis.notes.found) if analysis.notes is not None else {}
    found = {**(kept.launches if kept else {}), **made}
    return {path: found[path] for path, basis in parts.items() if path in found and basis.launched}


def outlines_of(parts: Mapping[str, Basis], analysis: Analysis, kept: Kept | None) -> dict[str, str]:
    """The outlines of the files that parts rest on."""
    from smemcheck.cache.outline import is_silent, outline_of

    earlier = kept.outlines if kept else {}
    says: dict[str, bool] = {}
    for basis in parts.values():
        for path, extent in basis.files.items():
            says[path] = says.get(path, False) or (extent != WHOLE and rests_on_text(extent))
    found = {}
    for path, wanted in says.items():
        if path in earlier and not (wanted and is_silent(earlier[path])):
            found[path] = earlier[path]
        elif (module := analysis.project.loaded(path) or analysis.project.module(path)) is not None:
            found[path] = outline_of(module, says=wanted).dumps()
    return found


@dataclass(frozen=True, slots=True)
class _Start:
    """What the part about a file comes from: the words that lead to its kernels, statements that have one, and the functions
    that example runs for them looked into.

    ``files`` are those that the file itself led to, ``launched`` those that such statements led to; ``changing`` are files
    that matter as a whole. ``slices`` are where the functions start that its kernels are made of, unless that is not known of
    each, and then it is not ``is_sliced``.
    """

    names: set[str]
    statements: set[Statement]
    entered: set[Statement]
    files: set[str]
    launched: set[str]
    modules: set[str]
    changing: set[str]
    slices: set[Position]
    is_sliced: bool


def _start(
    project: Project,
    every: Sequence[Callers],
    module: Module,
    sites: Sequence[Site],
    lists: set[str],
    changing: Sequence[str],
) -> _Start:
    names = _kernels(module, sites)
    statements: set[Statement] = set()
    entered: set[Statement] = set()
    for callers in every:
        entered.update(*callers.entered.get(module.path, ()))
        names |= callers.looked.get(module.path, set())
        statements.update(statement for name in names for statement in callers.mentioning(name))
    changed = {other for other in changing if lists and any(True for _ in changes_in(project, other, lists))}
    files, modules = project.reach({module.path, *changed})
    launched, more = project.reach({module.path, *(statement.module.path for statement in statements)})
    kernels = [answer.kernel for site in sites for answer in site.answers.values()]
    slices = {function.position for kernel in kernels if isinstance(kernel, Kernel) for function in kernel.functions}
    is_sliced = all(isinstance(kernel, Kernel) for kernel in kernels)
    return _Start(names | lists, statements, entered, files, launched, modules | more, changed, slices, is_sliced)


def _basis(path: str, start: _Start, closures: Closures, known: Basis | None) -> Basis:
    """What the part about a file rests on; ``known`` is what launches rest on that an earlier run found."""
    names, modules = frozenset(start.names), frozenset(start.modules)
    if known is not None:
        names, modules = names | known.names, modules | known.modules
    launched, leads = closures.of_launches(path, start.statements, names, start.launched, start.entered)
    if known is not None:
        launched, leads = merged((launched, known.files)), {**known.leads, **leads}
    source = closures.of_source(path, start.files, start.slices if start.is_sliced else None)
    files = merged((launched, source, dict.fromkeys(start.changing, WHOLE)))
    return Basis(files, names, modules, launched, leads)


def _kernels(module: Module, sites: Iterable[Site]) -> set[str]:
    """Names by which launches can find the kernels of a file: their own, and those of the definitions that make them."""
    names = {site.kernel_name for site in sites}
    for statement in module.statements:
        if statement.defined_name and "jit" in statement.text:
            names.add(statement.defined_name)
    return names


def apart_from_lines(
    kept: Kept | None, recorded: Sequence[RecordedSpecializations]
) -> tuple[Kept | None, Sequence[RecordedSpecializations]]:
    """The parts that hold whatever recorded lines the other kernels get, and the lines that are for those others.

    A line goes to one of the kernels of its name. So kernels of one name are read again together; that no changed or new
    file has a kernel of a kept name is part of what parts rest on.
    """
    if kept is None or not recorded:
        return kept, recorded
    parts = dict(kept.parts)
    by_path: dict[str, set[str]] = defaultdict(set)
    for site in kept.report.sites:
        by_path[site.position.path].add(site.kernel_name)
    while True:
        again = set().union(*(names for path, names in by_path.items() if path not in parts))
        mixed = [path for path in parts if not by_path[path].isdisjoint(again)]
        if not mixed:
            break
        for path in mixed:
            del parts[path]
    names = set().union(*(by_path[path] for path in parts))
    lines = [
        replace(file, by_kernel={name: found for name, found in file.by_kernel.items() if name not in names})
        for file in recorded
    ]
    return (replace(kept, parts=parts), lines) if parts else (None, recorded)


def _renumbered(result: Result, site: int, specialization: int | None) -> Result:
    if (result.site, result.specialization) == (site, specialization):
        return result
    return replace(result, site=site, specialization=specialization)


def with_kept(
    report: Report, kept: Kept | None, files: Sequence[str], recorded: Sequence[RecordedSpecializations] = ()
) -> Report:
    """The new report with the parts of an earlier one that still hold, in the order of a report made at once.

    That is the order of the ``files``; what is a site because of a ``recorded`` line has the order of the lines, as results
    for single configs have.
    """
    if kept is None:
        return report
    order = {path: index for index, path in enumerate(files)}
    asked = {
        name: index for index, name in enumerate(dict.fromkeys(name for file in recorded for name in file.by_kernel))
    }

    def place(site: Site) -> tuple[bool, int]:
        if site.kind is SiteKind.LAUNCH and recorded:
            return True, asked.get(site.kernel_name, len(asked))
        return site.kind is SiteKind.LAUNCH, order.get(site.position.path, len(order))

    both = (report, kept.report)
    sites = [(0, index, site) for index, site in enumerate(report.sites)]
    sites += [(1, index, site) for index, site in enumerate(kept.report.sites) if site.position.path in kept.parts]
    sites.sort(key=lambda entry: place(entry[2]))
    site_numbers = {(which, index): number for number, (which, index, _) in enumerate(sites)}
    specialized = [
        (which, index, replace(one, site=site_numbers[which, one.site]))
        for which, whole in enumerate(both)
        for index, one in enumerate(whole.specializations)
        if (which, one.site) in site_numbers
    ]
    specialized.sort(key=lambda entry: entry[2].site)
    numbers: Mapping[tuple[int, int | None], int] = {
        (which, index): number for number, (which, index, _) in enumerate(specialized)
    }
    results = [
        _renumbered(result, site_numbers[which, result.site], numbers.get((which, result.specialization)))
        for which, whole in enumerate(both)
        for result in whole.results
        if (which, result.site) in site_numbers
    ]
    lines = [(one.config and one.recorded_line) or 0 for one in (entry[2].specialization for entry in specialized)]

    def turn(result: Result) -> tuple[int, int]:
        return 0 if result.specialization is None else lines[result.specialization], result.site

    problems = [*report.problems, *(p for p in kept.report.problems if p.position.path in kept.parts)]
    return replace(
        report,
        triton=report.triton or kept.report.triton,
        sites=tuple(site for _, _, site in sites),
        specializations=tuple(one for _, _, one in specialized),
        results=tuple(sorted(results, key=turn)),
        problems=tuple(sorted(problems, key=lambda problem: order.get(problem.position.path, len(order)))),
    )
