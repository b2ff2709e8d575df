"""Sites for recorded lines: a kernel that a line names is judged, whether or not an autotuner stands around it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from smemcheck.config import Settings
from smemcheck.model import Config, Position, Site, SiteKind, Target, TargetAnswer, Unknown
from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import python_files
from smemcheck.source.freeze import posix
from smemcheck.source.plain import Definition, definitions, kernel_site
from smemcheck.specialize.recorded import Recorded, RecordedSpecializations, common_tail


def recorded_sites(
    analysis: Analysis,
    roots: Sequence[str],
    targets: Sequence[Target],
    settings: Settings,
    files: Sequence[RecordedSpecializations],
    known: Sequence[Site],
) -> tuple[Site, ...]:
    """A site for every definition that a recorded line is about and that is not among the ``known`` ones.

    Lines that name a config and whose kernel stands nowhere get a site too, without a kernel: so each has its result.
    """
    places = {(site.position.path, site.position.line) for site in known}
    sources = _Sources(roots, settings)
    made: list[Site] = []
    for file in files:
        for kernel, lines in file.by_kernel.items():
            for path, line, entry in {
                (one.path, one.definition): (one.path, one.definition, one) for one in lines
            }.values():
                found = _nearest(analysis, sources, kernel, path, line)
                if found is None:
                    if entry.specialization.config is not None:
                        made.append(_stand_in(file, entry, roots, targets))
                    continue
                definition, root = found
                place = (posix(definition.statement.module.path), definition.line)
                if place in places or (line is None and _has_site(known, kernel, place[0])):
                    continue
                places.add(place)
                site = kernel_site(analysis, definition, root, targets, _no_configs(file.path, entry))
                made.append(site if site is not None else _stand_in(file, entry, roots, targets))
    return tuple(made)


class _Sources:
    """The scanned files by base name, with their text: read when a line may be about them."""

    def __init__(self, roots: Sequence[str], settings: Settings) -> None:
        self._by_name: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._texts: dict[str, str] = {}
        for root in roots:
            for path in python_files(root, settings.exclude, settings.respect_gitignore):
                self._by_name[posix(path).rpartition("/")[2]].append((path, root))

    def defining(self, kernel: str, path: str) -> Iterator[tuple[str, str]]:
        """The files, with their roots, that hold a ``def`` of ``kernel``, the longest common tail with ``path`` first."""
        written = re.compile(rf"^[ \t]*def[ \t]+{re.escape(kernel)}[ \t]*\(", re.MULTILINE)
        candidates = self._by_name.get(path.rpartition("/")[2], [])
        for candidate, root in sorted(candidates, key=lambda one: -common_tail(path, posix(one[0]))):
            if written.search(self._text(candidate)):
                yield candidate, root

    def _text(self, path: str) -> str:
        if path not in self._texts:
            try:
                self._texts[path] = Path(path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                self._texts[path] = ""
        return self._texts[path]


def _nearest(
    analysis: Analysis, sources: _Sources, kernel: str, path: str, line: int | None
) -> tuple[Definition, str] | None:
    """The definition that a line is about, as :func:`~smemcheck.specialize.recorded.assign` will see it, and its root."""
    for candidate, root in sources.defining(kernel, path):
        module = analysis.project.module(candidate)
        found = [] if module is None else definitions(module, kernel)
        if found:
            return min(found, key=lambda one: abs(one.line - line) if line is not None else 0), root
    return None


def _has_site(known: Sequence[Site], kernel: str, path: str) -> bool:
    return any(site.kernel_name == kernel and site.position.path == path for site in known)


def _no_configs(path: str, entry: Recorded) -> Callable[[Target], tuple[Config, ...] | Unknown]:
    reason = "no autotuner stands around the kernel, and its recorded line names no config"
    return lambda _: Unknown(reason, Position(posix(path), entry.line))


def _stand_in(file: RecordedSpecializations, entry: Recorded, roots: Sequence[str], targets: Sequence[Target]) -> Site:
    """A site for lines whose kernel stands nowhere, at the place where they say it was."""
    seen_in = Position(posix(file.path), entry.line)
    reason = Unknown(f"no kernel {entry.kernel} was found in a file like {entry.path}", seen_in)
    answers = {target.name: TargetAnswer(reason, reason) for target in targets}
    root = Path(roots[0])
    folder = root if root.is_dir() else root.parent
    position = Position(posix(str(folder / entry.path.lstrip("/"))), entry.definition or 1)
    return Site(entry.kernel, position, roots[0], SiteKind.LAUNCH, (), answers)
