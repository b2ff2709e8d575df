"""Where reports are kept: one file a report, under a key of everything that decides it except the analysed files.

A report can be read back whole, when nothing changed, or without the parts about files that are not as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smemcheck.cache import manifest as manifests
from smemcheck.cache.launches import moved
from smemcheck.config import Settings
from smemcheck.distributions import version_of
from smemcheck.model import Failure, FailureKind, Outcome, Report

if TYPE_CHECKING:
    from smemcheck.cache.outline import Change

_FORMAT = b"smemcheck report 3\n"
_MOST_REPORTS = 32
_WHOLE = ""
"""A key of the manifest that is no path: the report may be read back as a whole."""
_PASSING = frozenset({FailureKind.TIMEOUT, FailureKind.UNAVAILABLE, FailureKind.ABORT, FailureKind.ENDED})
"""Failures that may not come again: a report that holds one is not kept."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What the part of a report about one file rests on.

    ``files`` are those that its answers came from, each with how much of it they rest on (see :mod:`smemcheck.closure`).
    ``names`` are words that no other statement may come to mention; ``modules`` are parts of module names that were looked
    for, which no other file or folder may come to bear.
    """

    files: Mapping[str, tuple[int, int]]
    names: frozenset[str]
    modules: frozenset[str]
    launched: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of ``files``, what the launches of its kernels rest on; nothing where these are not kept."""
    leads: Mapping[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)
    """What of ``names`` the bodies of kernels mention that are not rested on otherwise, by file and number of the statement."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An earlier report, and the files of which what it says still holds, with what that rests on.

    ``files`` and ``folders`` are all that the report rested on; what is kept of it still does. ``outlines`` are those of the
    files as they were, without those that changed, as text. ``launches`` are notes of what kernels are launched with, by file
    (see :mod:`smemcheck.cache.launches`), of all files of which these still hold, and ``launched`` what those rest on that
    are no parts.
    """

    report: Report
    parts: Mapping[str, Basis]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    outlines: Mapping[str, str]
    launches: Mapping[str, str]
    launched: Mapping[str, Basis]


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A kept report as it was written: what it rests on, its parts, outlines of files, launches, its bytes, and what of the
    first is not as it was.
    """

    manifest: manifests.Manifest
    parts: bytes
    outlines: bytes
    launches: bytes
    report: bytes
    is_whole: bool
    different: list[str]


class ReportStore:
    """The report of one question: these paths under these settings, with this Triton and this smemcheck."""

    def __init__(self, paths: Sequence[str], settings: Settings, triton: str) -> None:
        """``triton`` identifies the installation, see :func:`smemcheck.lower.installation.identify`."""
        assert settings.cache_directory is not None
        self.started = time.time_ns()
        asked: list[object] = [
            os.getcwd(),
            list(paths),
            [os.path.realpath(path) for path in paths],
            repr(settings),
            triton,
        ]
        asked += [sys.version, sys.executable, sys.platform, version_of("torch"), _own_files()]
        key = hashlib.blake2b(json.dumps(asked).encode(errors="surrogateescape"), digest_size=20).hexdigest()
        self._path = Path(settings.cache_directory, "reports", key)
        self._paths, self._settings = paths, settings
        self._before: manifests.Manifest = {}
        self._earlier: _Earlier | None = None
        self._scanned: dict[str, None] = {}  # Python files below the paths and of the tests beside them

    def load(self) -> Report | None:
        """The kept report, if everything it rests on is unchanged. If not, the work on a new one may begin."""
        report = None
        try:
            earlier = self._read()
            if earlier.is_whole and not earlier.different:
                report = self._loaded(earlier.report)
            self._earlier = earlier
        except Exception:  # noqa: BLE001 - whatever a damaged file leads to, the report is made anew
            report = None
        if report is None:
            self._before = self._state((), ())
        return report

    def kept(self) -> Kept | None:
        """The parts of the report that :meth:`load` found that still hold, when it does not hold as a whole."""
        if self._earlier is None:
            return None
        try:
            manifest = self._earlier.manifest
            found = manifests.changes(manifest, self._earlier.different)
            if found is None:
                return None
            scanned = self._scanned
            outlines: dict[str, str] = json.loads(self._earlier.outlines)
            changed = _changes({*found[0], *(path for path in scanned if path not in manifest)}, outlines)
            check = _Check(changed, found[1])
            parts = {path: basis for path, basis in _parts(self._earlier.parts).items() if path in scanned}
            still = {path: one for path, basis in parts.items() if path not in changed and (one := check.still(basis))}
            launched = {
                path: one
                for path, basis in parts.items()
                if path not in still and basis.launched and (one := check.still(replace(basis, files=basis.launched)))
            }
            if not still and not launched:
                return None
            folders = tuple(path for path, entry in manifest.items() if len(entry) == 3)
            files = tuple(path for path, entry in manifest.items() if len(entry) != 3)
            lines = {Path(path).as_posix(): change.line for path, change in changed.items() if change.lines}
            for path in changed:
                outlines.pop(path, None)
            launches = json.loads(self._earlier.launches)
            launches = {path: moved(path, launches[path], lines) for path in (*still, *launched) if path in launches}
            report = self._loaded(self._earlier.report, lines)
            return Kept(report, still, files, folders, outlines, launches, launched)
        except Exception:  # noqa: BLE001 - as above
            return None

    def _read(self) -> _Earlier:
        """What was written, and what changed since. Raises what a missing or damaged file leads to."""
        data = self._path.read_bytes()
        head, checksum, rest = data[: len(_FORMAT)], data[len(_FORMAT) :][:20], data[len(_FORMAT) + 20 :]
        if head != _FORMAT or hashlib.blake2b(rest, digest_size=20).digest() != checksum:
            raise ValueError("no report of this format")
        line, parts, outlines, launches, pickled = rest.split(b"\n", 4)
        manifest = json.loads(line)
        is_whole = manifest.pop(_WHOLE, None) is not None
        return _Earlier(manifest, parts, outlines, launches, pickled, is_whole, manifests.different(manifest))

    def _loaded(self, pickled: bytes, lines: Mapping[str, Callable[[int], int]] | None = None) -> Report:
        """The report; ``lines`` tell by file where what stood on a line stands now."""
        from smemcheck.cache.pickled import loads

        report = loads(pickled, lines or {})
        with contextlib.suppress(OSError):
            os.utime(self._path)  # the least recently used report goes first
        return report

    def save(
        self,
        report: Report,
        files: Iterable[str],
        folders: Iterable[str],
        parts: Mapping[str, Basis] | None = None,
        outlines: Mapping[str, str] | None = None,
        launches: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the report. ``files`` and ``folders`` are what it rests on besides the paths, ``parts`` what each file's part
        rests on, ``outlines`` those of the files that parts rest on, and ``launches`` notes of what kernels are launched
        with, by file. If in doubt, nothing is kept.
        """
        passing = {report.sites[result.site].position.path for result in report.results if _may_pass(result.outcome)}
        parts = {path: basis for path, basis in (parts or {}).items() if path not in passing}
        if report.notes or (passing and not parts):
            return
        manifest = self._state(files, folders)
        if not manifests.is_still(self._before, manifest, self.started):
            return
        from smemcheck.cache.pickled import dumps

        try:
            lines = [json.dumps({_WHOLE: [], **manifest} if not passing else manifest), _written(parts)]
            lines += [json.dumps(dict(outlines or {})), json.dumps(dict(launches or {})), ""]
            rest = "\n".join(lines).encode() + dumps(report)
            data = _FORMAT + hashlib.blake2b(rest, digest_size=20).digest() + rest
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)
            self._forget_old()
        except Exception:  # noqa: BLE001 - a report that cannot be kept is still a report
            return

    def _state(self, files: Iterable[str], folders: Iterable[str]) -> manifests.Manifest:
        """The state of these files and folders and of all that the paths hold, the rules of what to ignore included."""
        from smemcheck.source.discovery import folders_of_tests, ignore_files

        every = [*files, *self._settings.specializations]
        listed = list(folders)
        self._scanned = dict.fromkeys(path for root in self._paths for path in self._python_files(root, listed))
        every += self._scanned
        for path in self._paths:
            every += folders_of_tests(path)
            if self._settings.respect_gitignore:
                every += ignore_files(os.path.realpath(path), listed)
        known = self._before or (self._earlier.manifest if self._earlier else {})
        return manifests.take(every, listed, known)

    def _python_files(self, path: str, listed: list[str]) -> Iterable[str]:
        from smemcheck.source.discovery import files_of_tests, python_files

        rules = self._settings.exclude, self._settings.respect_gitignore
        return [*python_files(path, *rules, listed), *files_of_tests(path, *rules, listed)]

    def _forget_old(self) -> None:
        kept = sorted(self._path.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[_MOST_REPORTS:]:
            path.unlink()


def _changes(paths: Iterable[str], outlines: Mapping[str, str]) -> dict[str, Change]:
    """What changed in these files: new ones, gone ones, and those that are not as they were."""
    from smemcheck.cache.outline import change, everything, loads

    found = {}
    for path in paths:
        text = _text(path)
        found[path] = change(loads(outlines[path]), text) if path in outlines and text else everything(text)
    return found


def _text(path: str) -> str:
    """The text of a file as the analysis reads it; none of a file that is gone or is no text."""
    from smemcheck.source.project import decoded

    try:
        return decoded(Path(path).read_bytes())
    except (OSError, UnicodeDecodeError):
        return ""


class _Check:
    """Whether what rests on files still holds although some ``changed`` and entries of these names were ``moved``."""

    def __init__(self, changed: Mapping[str, Change], moved: set[str]) -> None:
        self._changed, self._moved = changed, moved
        self._mentioned = set().union(*(change.mentioned for change in changed.values()))
        self._bound = _Bound(changed)

    def still(self, basis: Basis) -> Basis | None:
        """The basis as it is now; ``None`` where it is no longer."""
        changed = self._changed
        touched = [path for path in changed if path in basis.files]
        if (
            not basis.names.isdisjoint(self._mentioned)
            or any(changed[path].touches(basis.files[path]) for path in touched)
            or not basis.modules.isdisjoint(self._moved)
            or any(self._bound.matters(path, basis.files) for path in touched)
            or any(self._leads_elsewhere(path, basis) for path in changed)
        ):
            return None
        if not touched:
            return basis
        files, launched = (
            {**one, **{path: changed[path].carried(one[path]) for path in touched if path in one}}
            for one in (basis.files, basis.launched)
        )
        leads = {
            path: {changed[path].moved[index]: words for index, words in found.items()} if path in changed else found
            for path, found in basis.leads.items()
        }
        return replace(basis, files=files, launched=launched, leads=leads)

    def _leads_elsewhere(self, path: str, basis: Basis) -> bool:
        """Whether a changed body of a function mentions others of the names than before."""
        from smemcheck.closure import leads_of

        before = basis.leads.get(path, {})
        bodies = self._changed[path].bodies
        return any(leads_of(body, basis.names) != before.get(index, frozenset()) for index, body in bodies.items())


class _Bound:
    """Names that changed files bind now and did not bind before: they matter where a text may look them up in that file."""

    def __init__(self, changed: Mapping[str, Change]) -> None:
        self._changed = changed
        self._mentioning: dict[tuple[str, str], bool] = {}

    def matters(self, path: str, files: Collection[str]) -> bool:
        """Whether one of the files may look up a name that the file at ``path`` binds now."""
        return any(self._mentions(other, path) for other in files) if self._changed[path].names else False

    def _mentions(self, path: str, binding: str) -> bool:
        known = self._mentioning.get((path, binding))
        if known is None:
            from smemcheck.source.mentions import looks_up

            text = self._changed[path].same if path in self._changed else _text(path)
            is_own = path == binding
            known = any(looks_up(text, name, is_own) for name in self._changed[binding].names)
            self._mentioning[path, binding] = known
        return known


def _written(parts: Mapping[str, Basis]) -> str:
    """JSON: all words and extents of files once, and for each part what of them it rests on, by number."""
    words: dict[str, int] = {}
    extents: dict[tuple[int, int, int], int] = {}
    rows = {}
    for path, basis in parts.items():
        named = [[words.setdefault(word, len(words)) for word in group] for group in (basis.names, basis.modules)]
        rested = [
            [
                extents.setdefault((words.setdefault(file, len(words)), *extent), len(extents))
                for file, extent in one.items()
            ]
            for one in (basis.files, basis.launched)
        ]
        leads = [
            [words.setdefault(file, len(words)), index, [words.setdefault(word, len(words)) for word in found]]
            for file, by_index in basis.leads.items()
            for index, found in by_index.items()
        ]
        rows[path] = [*rested, *named, leads]
    return json.dumps([list(words), list(extents), rows], separators=(",", ":"))


def _parts(line: bytes) -> dict[str, Basis]:
    words, extents, rows = json.loads(line)
    extent = [(words[file], (headers, texts)) for file, headers, texts in extents]
    return {
        path: Basis(
            dict(extent[i] for i in files),
            frozenset(words[i] for i in names),
            frozenset(words[i] for i in modules),
            dict(extent[i] for i in launched),
            _leads(words, leads),
        )
        for path, (files, launched, names, modules, leads) in rows.items()
    }


def _leads(words: Sequence[str], rows: Sequence[tuple[int, int, list[int]]]) -> dict[str, dict[int, frozenset[str]]]:
    found: dict[str, dict[int, frozenset[str]]] = {}
    for file, index, mentioned in rows:
        found.setdefault(words[file], {})[index] = frozenset(words[i] for i in mentioned)
    return found


def _may_pass(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failure) and outcome.kind in _PASSING


def _own_files() -> list[tuple[str, int, int]]:
    """Our own modules and tables as they are on disk: a report that other code made is not read back."""
    found = []
    for folder, folders, names in os.walk(Path(__file__).parents[1], followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            found.append((path, status.st_size, status.st_mtime_ns))
    return sorted(found)
