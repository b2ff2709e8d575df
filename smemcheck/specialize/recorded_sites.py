"""Sites for recorded lines: a kernel that a line names is judged, whether or not an autotuner stands around it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from smemcheck.config import Settings
from smemcheck.model import Config, Position, Site, SiteKind, Target, TargetAnswer, Unknown
from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import python_files
from smemcheck.source.freeze import posix
from smemcheck.source.plain import Definition, definitions, kernel_site
from smemcheck.specialize.recorded import Recorded, RecordedSpecializations, common_tail

_Asked: TypeAlias = "tuple[str, str, int | None]"
_Place: TypeAlias = "tuple[str, int]"


class RecordedSites:
    """Sites for definitions that recorded lines of ``files`` are about, and that no autotuner is put around."""

    def __init__(
        self,
        analysis: Analysis,
        roots: Sequence[str],
        targets: Sequence[Target],
        settings: Settings,
        files: Sequence[RecordedSpecializations],
    ) -> None:
        self._analysis, self._roots, self._targets, self._files = analysis, roots, targets, files
        self._sources = _Sources(roots, settings)
        self._nearest_to: dict[_Asked, tuple[Definition, str] | None] = {}
        self._made: dict[_Place, Site | None] = {}

    def likely(self) -> Iterator[Site]:
        """Those whose lines name configs, found before the autotuned sites are known: none of them looks like one."""
        for file in self._files:
            for kernel, path, line, entry in _asked(file):
                found = self._nearest(kernel, path, line) if entry.specialization.config is not None else None
                if found is None or found[0].statement.is_tuned or _place(found[0]) in self._made:
                    continue
                site = self._site(*found, file, entry)
                if site is not None:
                    yield site

    def beside(self, known: Sequence[Site]) -> tuple[Site, ...]:
        """A site for every definition that a line is about and that is not among the ``known`` sites.

        Lines that name a config and whose kernel stands nowhere get a site too, without a kernel: so each has its result.
        """
        places = {(site.position.path, site.position.line) for site in known}
        made: list[Site] = []
        for file in self._files:
            for kernel, path, line, entry in _asked(file):
                found = self._nearest(kernel, path, line)
                if found is None:
                    if entry.specialization.config is not None:
                        made.append(_stand_in(file, entry, self._roots, self._targets))
                    continue
                place = _place(found[0])
                if place in places or (line is None and _has_site(known, kernel, place[0])):
                    continue
                places.add(place)
                made.append(self._site(*found, file, entry) or _stand_in(file, entry, self._roots, self._targets))
        return tuple(made)

    def _site(self, definition: Definition, root: str, file: RecordedSpecializations, entry: Recorded) -> Site | None:
        place = _place(definition)
        if place not in self._made:
            no_configs = _no_configs(file.path, entry)
            self._made[place] = kernel_site(self._analysis, definition, root, self._targets, no_configs)
        return self._made[place]

    def _nearest(self, kernel: str, path: str, line: int | None) -> tuple[Definition, str] | None:
        """The definition that a line is about, as :func:`~smemcheck.specialize.recorded.assign` will see it, and its root."""
        asked = kernel, path, line
        if asked not in self._nearest_to:
            self._nearest_to[asked] = _nearest(self._analysis, self._sources, *asked)
        return self._nearest_to[asked]


def _asked(file: RecordedSpecializations) -> Iterator[tuple[str, str, int | None, Recorded]]:
    """The kernels that lines are about: name, path, line of the definition, and the last of those lines."""
    for kernel, lines in file.by_kernel.items():
        for (path, line), entry in {(one.path, one.definition): one for one in lines}.items():
            yield kernel, path, line, entry


def _place(definition: Definition) -> _Place:
    return posix(definition.statement.module.path), definition.line


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
