"""Where an example run starts: the functions and classes that may reach a launch.

Which function mentions which other one is read from the text; whether it really launches the kernel, the run tells.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from smemcheck.source.module import Module, Statement
from smemcheck.source.scan import identifiers
from smemcheck.specialize.launches.cases import is_test

_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=\n]*)?=[^=]")
_MODULE = re.compile(r"(?:@[^\n]*\n)*class\s+\w+\([^)]*\b\w*Module\b")
_ATTRIBUTE = re.compile(r"\.([^\W\d]\w*)")
_SOURCE = re.compile(r"from\s+([.\w]+)\s+import")
_MOST_ENTRIES = 8
_MOST_BUILDERS = 48
_MOST_HOLDERS = 8
_SWEPT = re.compile(r"parametrize\b|perf_report\b")
_MOST_TESTS = 6
_MOST_TESTS_SEEN = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A top-level function or class of the source to start from."""

    module: Module
    statement: Statement
    builds: bool = False  # a class whose objects make the modules that are called

    @property
    def key(self) -> tuple[str, int]:
        return self.module.path, self.statement.index

    @property
    def is_private(self) -> bool:
        """Whether only its own package is meant to call it."""
        return (self.statement.defined_name or "").startswith("_")


class Callers:
    """The graph of who mentions whom: an edge from a top-level definition to each one that mentions its name."""

    def __init__(self, modules: Iterable[Module], beside: Iterable[Module], root: str) -> None:
        """``modules`` lie below ``root``, the scanned path; folders above it say nothing of what is a test.

        ``beside`` are the tests and benchmarks of the repository elsewhere.
        """
        self.entries: dict[tuple[str, int], Entry] = {}
        self.defined: dict[str, list[Entry]] = {}
        self.mentions: dict[str, list[Statement]] = {}
        """The statements whose text has a name that some statement binds."""
        # So that who calls whom is found without a look at texts, most of which are packed.
        # Those that have it behind a dot, or a longer word that begins with it: modules are named for what they define.
        self._attributes: dict[str, set[Statement]] = {}
        self.bound: dict[Statement, str] = {}
        """The names that definitions and assignments bind."""
        self._sources: dict[Statement, str] = {}  # the last part of the module that a ``from … import`` names
        self._registering: set[Statement] = set()
        self.looked: dict[str, set[str]] = {}
        """By the file of the kernels that were asked about, the names of which mentions were looked for."""
        self.entered: dict[str, list[set[Statement]]] = {}
        """Likewise, the functions that the example runs for them looked into."""
        self._looked: set[str] = set()
        self.scanned = tuple(map(self._with_definitions, modules))
        others = tuple(map(self._with_definitions, beside))
        self.modules = list(dict.fromkeys([*self.scanned, *others]))
        self.tests = {module.path for module in self.scanned if is_test(module.path, root)}
        self.tests |= {module.path for module in others}
        # What each statement mentions is not kept: of thousands of files few are ever looked at again.
        for module in self.modules:
            for statement in module.statements:
                text = statement.text
                attributes = sorted(set(_ATTRIBUTE.findall(text))) if statement.kind in ("def", "class") else []
                for name in identifiers(text):
                    if name in self.mentions:
                        self.mentions[name].append(statement)
                        if attributes and _starts_one(name, attributes):
                            self._attributes.setdefault(name, set()).add(statement)
                if statement.kind == "from":
                    match = _SOURCE.match(text)
                    self._sources[statement] = match[1].rpartition(".")[2] if match else ""
                if "register_autograd(" in text:
                    self._registering.add(statement)
            module.pack()

    def _with_definitions(self, module: Module) -> Module:
        """The module, once its definitions and the names that it binds are noted."""
        for statement in module.statements:
            if statement.kind in ("def", "class") and statement.defined_name:
                entry = Entry(module, statement)
                if entry.key not in self.entries:
                    self.entries[entry.key] = entry
                    self.defined.setdefault(statement.defined_name, []).append(entry)
            name = bound_by(statement)
            if name:
                self.bound[statement] = sys.intern(name)
                self.mentions.setdefault(self.bound[statement], [])
        module.pack()
        return module

    def mentioning(self, name: str) -> Sequence[Statement]:
        """The statements whose text has the name of a definition."""
        return self.mentions.get(name, ())

    def _look(self, name: str) -> Sequence[Statement]:
        """:meth:`mentioning`, as part of the search for what leads to a launch."""
        self._looked.add(name)
        return self.mentioning(name)

    def _callers(self, entry: Entry) -> Iterator[Entry]:
        name = entry.statement.defined_name or ""
        alone = len(self.defined.get(name, ())) == 1
        seen = {
            statement.module.path
            for statement in self._look(name)
            if statement.kind == "from" and (alone or _may_be_of(self._sources[statement], entry))
        }
        names = {name: None}
        for statement in self._look(name):
            module = statement.module
            if statement in self._registering and module is entry.module:
                yield from self._operators(module, statement)
            if module is entry.module or module.path in seen:
                names |= dict.fromkeys(self._holders(module, statement, name))
        attributes = self._attributes.get(name, ())
        for alias in names:
            for statement in self._look(alias):
                module = statement.module
                here = module is entry.module or module.path in seen or alias != name or statement in attributes
                caller = self.entries.get((module.path, statement.index))  # none where a decorator has no definition
                if caller is not None and here and caller.key != entry.key:
                    yield caller

    def _holders(self, module: Module, statement: Statement, name: str) -> list[str]:
        """Variables of a module that hold a definition: itself, or a list or table with it, or what is made of that."""
        found: list[str] = []
        pending = [statement]
        while pending and len(found) < _MOST_HOLDERS:
            one = pending.pop(0)
            holder = self.bound.get(one) if one.kind == "simple" else None
            if holder and holder not in (name, *found):
                found.append(holder)
                here = (other for other in self._look(holder) if other.module is module)
                pending += [other for other in here if other.kind == "simple"]
        return found

    def _operators(self, module: Module, registration: Statement) -> Iterator[Entry]:
        """The custom operators that a ``register_autograd`` is about."""
        for statement in module.statements:
            name = re.search(r"custom_op\(\s*(['\"][^'\"]+['\"])", statement.decorator_text)
            of_name = name is not None and name[1] in registration.text
            entry = self.entries.get((module.path, statement.index))
            if entry is not None and (
                of_name or registration.text.startswith(f"{statement.defined_name}.register_autograd(")
            ):
                self._looked.add(statement.defined_name or "")
                yield entry

    def _applies(self, key: tuple[str, int]) -> bool:
        """Whether a function wraps an autograd function: users call it, whatever else does."""
        statement = self.entries[key].statement
        return statement.kind == "def" and ".apply(" in statement.text and not self.entries[key].is_private

    def _builders(self, graph: Mapping[tuple[str, int], Collection[tuple[str, int]]]) -> list[tuple[str, int]]:
        """Classes whose objects make modules: users make such an object for each format, whatever else the library does."""
        found: list[tuple[str, int]] = []
        pending = [key for key in graph if _MODULE.match(self.entries[key].statement.text)]
        while pending:
            made = pending.pop(0)
            used = re.compile(rf"\b{re.escape(self.entries[made].statement.defined_name or '')}\b\s*[()]")
            for key in graph[made]:
                entry = self.entries[key]
                text = entry.statement.text
                if key in found or entry.statement.kind != "class" or _MODULE.match(text) or "autograd" in text:
                    continue
                if used.search(text):
                    found.append(key)
                    pending.append(key)
        return [key for key in found if not self.entries[key].is_private][:_MOST_BUILDERS]

    def reaching(self, path: str, name: str, line: int) -> list[tuple[Entry, bool]]:
        """Definitions that may lead to a launch of the kernel ``name`` defined on ``line``, and whether nothing leads to them.

        Outermost ones come first, then the others from the launching function on.
        """
        self._looked = self.looked.setdefault(path, set())
        self._looked.add(name)
        start = next(
            (e for e in self.defined.get(name, ()) if e.module.path == path and e.statement.definition_line == line),
            None,
        )
        inside = False
        if start is None:
            start = next(
                (
                    e
                    for e in self.entries.values()
                    if e.module.path == path
                    and e.statement.line <= line < e.statement.line + e.statement.text.count("\n") + 1
                ),
                None,
            )
            if start is None:
                return []
            inside = True
        graph: dict[tuple[str, int], dict[tuple[str, int], None]] = {start.key: {}}
        level = {start.key: 0}
        tests: dict[tuple[str, int], int] = {}
        pending = [start]
        while pending and len(level) < 60:
            entry = pending.pop(0)
            if level[entry.key] >= 7:
                continue
            for caller in self._callers(entry):
                if caller.statement.is_kernel:
                    if caller.key not in level and level[entry.key] == 0:
                        level[caller.key] = 0
                        pending.append(caller)
                    continue
                if caller.module.path in self.tests and path not in self.tests:
                    tests.setdefault(caller.key, level[entry.key])
                    continue
                graph.setdefault(entry.key, {})[caller.key] = None
                graph.setdefault(caller.key, {})
                if caller.key not in level:
                    level[caller.key] = level[entry.key] + 1
                    pending.append(caller)
        reached = [key for key in graph if level.get(key, 0) > 0]
        tops = [key for key in reached if not graph[key] or self._applies(key)]
        tops.sort(key=lambda key: (self.entries[key].module.path != path, level[key]))
        rest = sorted((key for key in reached if key not in tops), key=lambda key: level[key])
        if inside:  # the kernel is made by a function, which may launch it itself
            rest.append(start.key)
        builders = self._builders(graph)
        outer = [key for key in tops[:5] if key not in builders]
        inner = [key for key in rest if key not in builders][: _MOST_ENTRIES - len(outer)]
        return [
            *((test, True) for test in self._testing(tests)),
            *((self.entries[key], True) for key in outer),
            *((replace(self.entries[key], builds=True), True) for key in builders),
            *((self.entries[key], key in tops) for key in inner),
        ]

    def _testing(self, found: dict[tuple[str, int], int]) -> list[Entry]:
        """The tests and benchmarks to start from, of those that call something which leads to the launch.

        A function that tests share stands for its callers. Those come first that say what they are called with.
        """
        outer: dict[tuple[str, int], tuple[bool, int]] = {}
        pending = [(self.entries[key], level) for key, level in found.items()]
        seen = set(found)
        while pending and len(seen) < _MOST_TESTS_SEEN:
            entry, level = pending.pop(0)
            swept = _SWEPT.search(entry.statement.decorator_text) is not None
            callers = [] if swept else [one for one in self._callers(entry) if one.module.path in self.tests]
            if not callers:
                outer[entry.key] = (not swept, level)
            pending += [(one, level + 1) for one in callers if one.key not in seen]
            seen.update(one.key for one in callers)
        return [self.entries[key] for key in sorted(outer, key=lambda key: (*outer[key], key))][:_MOST_TESTS]


def bound_by(statement: Statement) -> str | None:
    """The name that a definition or an assignment at a module's top level binds."""
    if statement.kind != "simple":
        return statement.defined_name
    match = _ASSIGNED.match(statement.text)
    return match[1] if match else None


def _starts_one(name: str, words: Sequence[str]) -> bool:
    """Whether one of the sorted words begins with a name."""
    index = bisect_left(words, name)
    return index < len(words) and words[index].startswith(name)


def _may_be_of(source: str, entry: Entry) -> bool:
    """Whether an import from a module of that name can be of an entry's file, where several files define its name."""
    return not source or source in re.split(r"[/\\.]", entry.module.path)
