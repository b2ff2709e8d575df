"""A file by its statements, as it was when a report was kept, and what of it another state of the file leaves as it was."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from smemcheck.closure import WHOLE, Extent, Words, words_of
from smemcheck.source.effects import called_by, decorating
from smemcheck.source.module import Module, Statement
from smemcheck.source.roles import Role, Roles, changes_objects, declares_global
from smemcheck.source.scan import identifiers, may_lead_to_launches


@dataclass(frozen=True, slots=True)
class Row:
    """A statement: its role, the names that it binds, the line it starts on, and digests of its header and its text."""

    role: Role
    names: tuple[str, ...]
    line: int
    header: str
    text: str


@dataclass(frozen=True, slots=True)
class Outline:
    """The rows of a file, whether launches are looked for in it, and a digest of what its text says as a whole.

    The last is empty where nobody asked for it.
    """

    rows: tuple[Row, ...]
    is_searched: bool
    said: str

    def dumps(self) -> str:
        rows = [[row.role.value, " ".join(row.names), row.line, row.header, row.text] for row in self.rows]
        return json.dumps([self.is_searched, self.said, rows], separators=(",", ":"))


def loads(text: str) -> Outline:
    """The outline that was dumped. Raises ``ValueError`` or ``TypeError`` for another text."""
    is_searched, said, rows = json.loads(text)
    return Outline(
        tuple(Row(Role(role), tuple(names.split()), line, header, text) for role, names, line, header, text in rows),
        is_searched,
        said,
    )


def is_silent(text: str) -> bool:
    """Whether a dumped outline does not tell what the file says as a whole."""
    return not json.loads(text)[1]


def outline_of(module: Module, roles: Roles | None = None, says: bool = False) -> Outline:
    """The outline of a module, with what it ``says`` if that is wanted."""
    from smemcheck.specialize.launches.around import around

    rows = []
    for statement, (role, names) in zip(module.statements, (roles or Roles(module)).of, strict=True):
        text = statement.text.rstrip()  # how many empty lines follow says nothing
        header = statement.header_text.rstrip() if role is Role.FUNCTION else text
        digest = _digest(text)
        rows.append(Row(role, names, statement.line, digest if header == text else _digest(header), digest))
    said = _digest(around(module).written) if says else ""
    return Outline(tuple(rows), may_lead_to_launches(module.text.encode(errors="surrogatepass")), said)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=9).hexdigest()


@dataclass(slots=True)
class Change:
    """What of a file is not as it was, as bits by the statements of its old outline (see :mod:`smemcheck.closure`).

    ``headers`` and ``texts`` are rested on by decorators and signature, and as a whole. ``names`` are newly bound: they
    matter where a text that is rested on mentions one. ``mentioned`` are the words of new statements, and ``bodies`` those of
    the new bodies of functions that are else as they were, by number. ``moved`` tells where statements of the old outline, by number,
    stand in the new one.
    """

    headers: int = 0
    texts: int = 0
    names: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)
    bodies: dict[int, Words] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    lines: list[tuple[int, int | None]] = field(default_factory=list)
    """First lines of old statements, in order, and by how much their lines moved; ``None`` where they are gone."""
    same: str = ""
    """The text of the statements that are as they were."""

    def touches(self, extent: Extent) -> bool:
        """Whether something that is rested on changed."""
        if self.headers == -1 or extent == WHOLE:
            return True
        return bool(self.headers & extent[0] or self.texts & extent[1])

    def carried(self, extent: Extent) -> Extent:
        """The same extent of the new file, where nothing of it is touched."""
        headers, texts = extent
        moved = [(old + 1, new + 1) for old, new in self.moved.items()]
        return (
            sum(1 << new for old, new in moved if headers >> old & 1),
            sum(1 << new for old, new in moved if texts >> old & 1) | texts & 1,
        )

    def line(self, line: int) -> int:
        """Where an old line stands now; a line of something that is gone stays."""
        shift: int | None = 0
        for first, moved in self.lines:
            if first > line:
                break
            shift = moved
        return line + (shift or 0)


def everything(text: str) -> Change:
    """The change of a file of which nothing is known to be as it was."""
    return Change(-1, -1, set(), set(identifiers(text)))


def change(old: Outline, text: str) -> Change:
    """What of a file of that outline is not as it was, now that its text is this one."""
    module = Module("", text, "", is_package=False)
    roles = Roles(module)
    new = outline_of(module, roles, says=bool(old.said))
    if old.is_searched != new.is_searched:
        return everything(text)
    found = Change(texts=int(old.said != new.said))
    pairs = _pairs(old.rows, new.rows)
    found.moved = {i: j for i, j, _ in pairs}
    matched = {j for _, j, _ in pairs}
    for i, _, is_same in pairs:
        if not is_same:
            found.texts |= 2 << i
    bound: dict[str, list[int]] = {}
    for i, row in enumerate(old.rows):
        for name in row.names:
            bound.setdefault(name, []).append(i)
        if i not in found.moved:
            found.headers |= 2 << i
            found.texts |= 2 << i
    altered = _altered(len(new.rows), pairs)
    gone = any(row.role is Role.EFFECT for i, row in enumerate(old.rows) if i not in found.moved)
    if gone or any(_is_felt(roles, j, j not in matched) for j in altered):
        return everything(text)
    for j, row in enumerate(new.rows):
        if j in matched:
            continue
        for name in row.names:
            for i in bound.get(name, ()):
                found.headers |= 2 << i
                found.texts |= 2 << i
            if name not in bound:
                found.names.add(name)
    statements = module.statements
    found.bodies = {i: words_of(statements[j].body_text) for i, j, is_same in pairs if not is_same}
    found.mentioned = set().union(*(_led_by(statements[j], new.rows[j].role) for j in altered if j not in matched))
    found.same = "\n".join(statement.text for j, statement in enumerate(statements) if j not in altered)
    found.lines = [
        (row.line, new.rows[found.moved[i]].line - row.line if i in found.moved else None)
        for i, row in enumerate(old.rows)
    ]
    return found


def _pairs(old: Sequence[Row], new: Sequence[Row]) -> list[tuple[int, int, bool]]:
    """Statements that are the same, or functions of which the body alone changed, in one order; and whether they are the same."""
    found: list[tuple[int, int, bool]] = []
    matcher = SequenceMatcher(None, [row.text for row in old], [row.text for row in new], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found += [(i1 + step, j1 + step, True) for step in range(i2 - i1)]
        elif tag == "replace":
            found += _bodies(old, new, range(i1, i2), range(j1, j2))
    alone = Counter(name for row in new for name in row.names if row.role is Role.FUNCTION)
    before = Counter(name for row in old for name in row.names if row.role is Role.FUNCTION)
    return [one for one in found if one[2] or alone[new[one[1]].names[0]] == 1 == before[new[one[1]].names[0]]]


def _bodies(old: Sequence[Row], new: Sequence[Row], olds: range, news: range) -> Iterator[tuple[int, int, bool]]:
    first = news.start
    for i in olds:
        for j in range(first, news.stop):
            if old[i].role is new[j].role is Role.FUNCTION and (old[i].names, old[i].header) == (
                new[j].names,
                new[j].header,
            ):
                yield i, j, False
                first = j + 1
                break


def _altered(count: int, pairs: Sequence[tuple[int, int, bool]]) -> list[int]:
    """The new statements that are not word for word old ones."""
    same = {j for _, j, is_same in pairs if is_same}
    return [j for j in range(count) if j not in same]


def _is_felt(roles: Roles, index: int, is_new: bool) -> bool:
    """Whether a new or changed statement may matter to those who mention none of its names.

    Of a function that is not new, decorators and signature are as they were.
    """
    role, names = roles.of[index]
    statement = roles.module.statements[index]
    if role is Role.FUNCTION:
        if declares_global(statement) or (is_new and (names[0].startswith("__") or any(decorating(statement)))):
            return True
        return names[0] in roles.called and changes_objects(statement)
    if role is Role.ASSIGNMENT:
        return any(map(changes_objects, called_by(statement)))
    return role is Role.EFFECT


def _led_by(statement: Statement, role: Role) -> Iterable[str]:
    """The words by which a new statement can lead to launches; a list of names leads to none."""
    words = identifiers(statement.text)
    return words if role in (Role.FUNCTION, Role.CLASS) else {word for word in words if not word.startswith("__")}
