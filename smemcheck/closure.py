"""Which statements of which files an answer can rest on: those whose names are mentioned by what it starts from, and so on.

The evaluator reads a statement because a name was looked up, in the text of another statement that it read. So whatever it
may touch is found by names alone, without regard to which of them are really looked up: a bare name in its own file, and in
others where it is imported or stands behind a dot. Exceptions are noted while it works: names that are computed, lists that
are changed in place (:attr:`~smemcheck.source.module.Module.is_indivisible`). Of a function that no run for the kernels looked
into, the decorators and the signature are all that was read. The body of a kernel is read where it is part of one that is
compiled, not where it is launched.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from smemcheck.model import Position
from smemcheck.source.module import Module, Statement
from smemcheck.source.project import Project
from smemcheck.source.roles import Role, Roles, aliases
from smemcheck.source.scan import identifiers, imports_all

Extent: TypeAlias = "tuple[int, int]"
"""Of a file: the statements of which decorators and signature are rested on, and those that are rested on as a whole.

Bit ``i + 1`` stands for statement ``i``, bit 0 of the second for what the text as a whole says. All bits: the whole file.
"""

Leads: TypeAlias = "Mapping[str, Mapping[int, frozenset[str]]]"
"""By file and number of a statement: what of some names the body of a kernel mentions. Nothing else of it is rested on."""

WHOLE: Extent = (-1, -1)
_TEXT_AS_A_WHOLE = 1
_ELSEWHERE = re.compile(r"(?:\.[\s\\]*|[\"'])([^\W\d]\w*)")
_ATTRIBUTE = re.compile(r"\.([^\W\d]\w*)")
_OF_TEXTS = (Role.IMPORT, Role.EXPORTS, Role.NOTHING)
"""Statements that mention names without looking them up: for an import that is done where its name is mentioned."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, and those behind a dot."""

    every: frozenset[str]
    attributes: frozenset[str]


def words_of(text: str) -> Words:
    """The words of a text."""
    return Words(identifiers(text), frozenset(_ATTRIBUTE.findall(text)))


def leads_of(words: Words, names: Collection[str]) -> frozenset[str]:
    """What of the names a text mentions by its words, and the attributes in it that begin with one of these."""
    found = words.every.intersection(names)
    return found.union(f".{one}" for one in words.attributes if one.startswith(tuple(found))) if found else found


def makes_kernels(text: str) -> bool:
    """Whether a text may make kernels, or put tuners around them, so that what it mentions is compiled."""
    return "jit" in text or "tun" in text


def rests_on_text(extent: Extent) -> bool:
    """Whether what a file's text says as a whole is rested on."""
    return bool(extent[1] & _TEXT_AS_A_WHOLE)


class _Outlined:
    """A module, and what each of its statements mentions of the names that any module binds."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.roles = Roles(module)
        self.aliases = aliases(
            statement.text
            for statement, (role, _) in zip(module.statements, self.roles.of, strict=True)
            if role is Role.IMPORT
        )
        self.takes_all = imports_all(module.text)
        self.binders: dict[str, list[int]] = {}
        """By name, the statements that bind it."""
        self._imported: set[str] = set()
        for index, (role, names) in enumerate(self.roles.of):
            for name in names:
                self.binders.setdefault(name, []).append(index)
                if role is Role.IMPORT:
                    self._imported.add(name)
        self._mentions: dict[tuple[int, bool], tuple[frozenset[str], frozenset[str]]] = {}

    def mentions(self, index: int, header: bool, known: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
        """What a statement mentions of the ``known`` names: those of this file, and those that may be of any other.

        Another file's names are found behind a dot, in a text, by an import in the statement, and where this file imports
        them by name or all of them.
        """
        found = self._mentions.get((index, header))
        if found is None:
            statement = self.module.statements[index]
            text = statement.header_text if header else statement.text
            every = identifiers(text).intersection(known)
            elsewhere = every
            if not self.takes_all and "import" not in text:
                elsewhere = every.intersection(self._imported.union(_ELSEWHERE.findall(text)))
            here = (every - elsewhere).intersection(self.binders)
            found = self._mentions[index, header] = here, elsewhere
        return found


class Closures:
    """The closures of several answers over the modules of a project."""

    def __init__(self, project: Project, paths: Iterable[str]) -> None:
        """``paths`` are all the files that some closure is taken over."""
        self._modules: dict[str, _Outlined] = {}
        self._binders: dict[str, list[tuple[_Outlined, int]]] = {}
        for path in paths:
            module = project.loaded(path)
            if module is not None:
                outlined = self._modules[path] = _Outlined(module)
                for name, indices in outlined.binders.items():
                    self._binders.setdefault(name, []).extend((outlined, index) for index in indices)

    def of_source(self, own: str, files: Iterable[str], slices: Iterable[Position] | None) -> Mapping[str, Extent]:
        """What the kernels in the file ``own`` rest on, their launches apart.

        ``files`` are all that the file led to; the names in it are looked up nowhere else. ``slices`` are where the functions
        start that the kernels are made of; ``None`` where that is not known of each kernel.
        """
        walk = _Walk(self._modules, self._binders, files)
        if own in self._modules:
            walk.own(self._modules[own], slices is None)
        for position in slices or ():
            if position.path in self._modules:
                walk.slice(self._modules[position.path], position.line)
        walk.go()
        return {**walk.extents(), own: WHOLE}

    def of_launches(
        self,
        own: str,
        starts: Iterable[Statement],
        names: Collection[str],
        files: Iterable[str],
        entered: Collection[Statement],
    ) -> tuple[Mapping[str, Extent], Leads]:
        """What the launches of the kernels in the file ``own`` rest on, of kernels decorators and signature alone, and what of
        the names the bodies of kernels mention.

        ``starts`` are statements that may lead to a launch, since they mention one of the ``names``. ``entered`` are the
        functions that example runs for these kernels looked into.
        """
        walk = _Walk(self._modules, self._binders, files, entered)
        if own in self._modules:
            walk.kernels(self._modules[own])
        for statement in starts:
            if statement.module.path in self._modules:
                walk.start(self._modules[statement.module.path], statement, names)
        walk.go()
        return walk.extents(), walk.leads


def merged(extents: Iterable[Mapping[str, Extent]]) -> dict[str, Extent]:
    """What is rested on together."""
    found: dict[str, Extent] = {}
    for one in extents:
        for path, (headers, texts) in one.items():
            before = found.get(path, (0, 0))
            found[path] = (before[0] | headers, before[1] | texts)
    return found


class _Walk:
    def __init__(
        self,
        modules: Mapping[str, _Outlined],
        binders: Mapping[str, list[tuple[_Outlined, int]]],
        files: Iterable[str],
        entered: Collection[Statement] = (),
    ) -> None:
        self._binders = binders
        self._entered = frozenset(entered)
        self._opened = {path: modules[path] for path in files if path in modules}
        self._headers: dict[str, int] = dict.fromkeys(files, 0)
        self._texts: dict[str, int] = dict.fromkeys(files, 0)
        # Names of one file, or of any where there is none; and whether kernels mention them.
        self._seen: dict[tuple[_Outlined | None, str], bool] = {}
        self._pending: list[tuple[_Outlined | None, str, bool]] = []
        self.leads: dict[str, dict[int, frozenset[str]]] = {}
        self._takes_all = any(outlined.takes_all for outlined in self._opened.values())
        for outlined in self._opened.values():
            self._open(outlined)

    def _open(self, outlined: _Outlined) -> None:
        """Rest on what matters to everybody who looks into a module."""
        if outlined.module.is_indivisible:
            for index in range(len(outlined.roles.of)):
                self._whole(outlined, index, False)
            return
        for index in outlined.roles.always:
            if self._takes_all or outlined.roles.of[index][0] is not Role.EXPORTS:
                self._found(outlined, index, False)

    def own(self, outlined: _Outlined, device: bool) -> None:
        """Start from all statements of a file; imports and functions nobody looked into matter as far as they are mentioned.

        ``device``: it is not known which kernels are compiled, so what any statement mentions may be.
        """
        for index, (role, _) in enumerate(outlined.roles.of):
            if role is Role.FUNCTION:
                self._found(outlined, index, device)
            elif role not in _OF_TEXTS:
                self._whole(outlined, index, device)

    def slice(self, outlined: _Outlined, line: int) -> None:
        """Start from a function that is compiled: the statement that the line is part of."""
        starts = [statement.line for statement in outlined.module.statements]
        self._whole(outlined, bisect_right(starts, line) - 1, False)

    def kernels(self, outlined: _Outlined) -> None:
        """Start from the kernels of a file as those see them that launch them."""
        for index, (role, _) in enumerate(outlined.roles.of):
            statement = outlined.module.statements[index]
            if statement.is_kernel:
                self._found(outlined, index, False)
            elif role in (Role.FUNCTION, Role.CLASS) and "jit" in statement.text:
                self._whole(outlined, index, False)

    def start(self, outlined: _Outlined, statement: Statement, names: Collection[str]) -> None:
        """Start from a statement that was found by what it mentions."""
        role, _ = outlined.roles.of[statement.index]
        if statement.is_kernel and not self._is_entered(statement):
            self._found(outlined, statement.index, False)
            leads = leads_of(words_of(statement.body_text), names)
            if leads:
                self.leads.setdefault(statement.module.path, {})[statement.index] = leads
            return
        if role is Role.FUNCTION and not self._is_entered(statement):
            self._found(outlined, statement.index, False)
        elif role not in _OF_TEXTS:
            self._whole(outlined, statement.index, False)
        self._texts[statement.module.path] = self._texts.get(statement.module.path, 0) | 2 << statement.index

    def _is_entered(self, statement: Statement) -> bool:
        """Whether the body of a function was looked into, for these kernels or for everybody."""
        return statement.entered or statement in self._entered

    def _found(self, outlined: _Outlined, index: int, device: bool) -> None:
        """Rest on a statement, because a name that it binds is mentioned."""
        statement = outlined.module.statements[index]
        role, _ = outlined.roles.of[index]
        if role is Role.FUNCTION and not (device or self._is_entered(statement) or index in outlined.roles.whole):
            path = outlined.module.path
            if not self._headers[path] >> (index + 1) & 1:
                self._headers[path] |= 2 << index
                self._mentioned_in(outlined, index, True, False)
        elif role in _OF_TEXTS:
            self._texts[outlined.module.path] |= 2 << index
        else:
            self._whole(outlined, index, device)

    def _whole(self, outlined: _Outlined, index: int, device: bool) -> None:
        path = outlined.module.path
        self._headers[path] = self._headers.get(path, 0) | 2 << index
        self._texts[path] = self._texts.get(path, 0) | 2 << index
        self._mentioned_in(outlined, index, False, device)

    def _mentioned_in(self, outlined: _Outlined, index: int, header: bool, device: bool) -> None:
        here, elsewhere = outlined.mentions(index, header, self._binders)
        self._mention(outlined, here, device)
        self._mention(None, elsewhere, device)

    def _mention(self, where: _Outlined | None, names: Iterable[str], device: bool) -> None:
        for name in names:
            key = where, name
            if not self._seen.get(key, False) and (device or key not in self._seen):
                self._seen[key] = device
                self._pending.append((where, name, device))

    def go(self) -> None:
        """Follow names until nothing new is mentioned."""
        while self._pending:
            where, name, device = self._pending.pop()
            binders = self._binders[name] if where is None else ((where, index) for index in where.binders[name])
            for outlined, index in binders:
                if outlined.module.path in self._opened:
                    self._found(outlined, index, device)
                    if name in outlined.aliases:
                        self._mention(None, outlined.aliases[name] & self._binders.keys(), device)

    def extents(self) -> dict[str, Extent]:
        found: dict[str, Extent] = {}
        for path, outlined in self._opened.items():
            if outlined.module.is_indivisible:
                found[path] = WHOLE
            else:
                said = _TEXT_AS_A_WHOLE if outlined.module.said is not None else 0
                found[path] = self._headers[path], self._texts[path] | said
        return {**dict.fromkeys(self._headers, WHOLE), **found}
