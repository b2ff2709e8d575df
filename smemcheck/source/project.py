"""The analysed source as a whole: which file a module name means, and each file's text, read once."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING

from smemcheck.model import Position, Problem
from smemcheck.source.module import Held, Module

if TYPE_CHECKING:
    from smemcheck.source.models import Models

_MAX_BYTES = 20_000_000
_ASCENT = 12  # how many folders above a file are searched for the modules it imports


def decoded(data: bytes) -> str:
    """A file's bytes as text, with the line ends that Python sees. Raises :class:`UnicodeDecodeError`."""
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


class Project:
    """Modules found on disk from the files that import them. Nothing is imported; files are read as text."""

    def __init__(self, models: Models, roots: Iterable[str] = ()) -> None:
        """``roots`` are the scanned paths: data files below them, or below the packages around them, are source too."""
        self.models = models
        self.problems: dict[str, Problem] = {}
        self.held = Held()
        self._modules: dict[str, Module | None] = {}
        self._found: dict[tuple[str, str], Module | None] = {}
        self._entries: dict[str, frozenset[str]] = {}
        self.consulted: dict[str, None] = {}  # files other than modules that were asked for, there or not
        self._imports: dict[str, set[str]] = {}  # from a module's file to the files that names in it led to
        self._asked: dict[str, set[str]] = {}  # by a module's file: parts of the module names that were looked for
        self._trees = [os.path.join(self._tree_of(os.path.realpath(root)), "") for root in roots]

    def module(self, path: str) -> Module | None:
        """The module in a file; ``None`` when it cannot be read, and then :attr:`problems` says why."""
        path = os.path.realpath(path)
        if path not in self._modules:
            text = self._read(path)
            if text is None:
                self._modules[path] = None
            else:
                name, is_package = self._name(path)
                self._modules[path] = Module(path, text, name, is_package, self.held)
        return self._modules[path]

    def loaded(self, path: str) -> Module | None:
        """The module in a file that was read before; ``None`` when it was not, or could not be."""
        return self._modules.get(path)

    def add(self, path: str, text: str) -> Module:
        """A module whose text is given instead of read (standard input)."""
        name, is_package = self._name(path)
        module = self._modules[path] = Module(path, text, name, is_package, self.held)
        return module

    def dependencies(self) -> tuple[list[str], list[str]]:
        """Files (there or not) and folders (their entries) that answers so far may depend on."""
        return [*self._modules, *self.problems, *self.consulted], list(self._entries)

    def reach(self, paths: Iterable[str]) -> tuple[set[str], set[str]]:
        """What the modules in ``paths`` led to so far: files, these included, and parts of the module names looked for."""
        files = {path if path in self._modules else os.path.realpath(path) for path in paths}
        last = files
        while last := set().union(*(self._imports.get(path, ()) for path in last)) - files:
            files = files | last
        return files, set().union(*(self._asked.get(path, ()) for path in files))

    def _led(self, importer: Module, names: Iterable[str], found: Module | None) -> Module | None:
        self._asked.setdefault(importer.path, set()).update(names)
        if found is not None and found is not importer:
            self._imports.setdefault(importer.path, set()).add(found.path)
        return found

    def _read(self, path: str) -> str | None:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):  # a pipe would be read for ever
                self.problems[path] = Problem("this is no regular file and was not read", Position(path, 1))
                return None
            if status.st_size > _MAX_BYTES:
                self.problems[path] = Problem(
                    f"the file is larger than {_MAX_BYTES} bytes and was not read", Position(path, 1)
                )
                return None
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            self.problems[path] = Problem(f"the file cannot be read: {error.strerror or error}", Position(path, 1))
            return None
        return self._decode(path, data)

    def _decode(self, path: str, data: bytes) -> str | None:
        try:
            return decoded(data)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self.problems[path] = Problem("the file is not UTF-8; save it as UTF-8", Position(path, line))
            return None

    def _name(self, path: str) -> tuple[str, bool]:
        folder, base = os.path.split(path)
        stem = base.removesuffix(".py")
        parts = [] if stem == "__init__" else [stem]
        while self._holds(folder, "__init__.py"):
            folder, package = os.path.split(folder)
            parts.append(package)
        return ".".join(reversed(parts)) or stem, stem == "__init__"

    def _holds(self, folder: str, entry: str) -> bool:
        if folder not in self._entries:
            try:
                self._entries[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._entries[folder] = frozenset()
        return entry in self._entries[folder]

    def root(self, module: Module) -> str:
        """The folder that absolute imports of a module's package start from."""
        folder = os.path.dirname(module.path)
        while self._holds(folder, "__init__.py"):
            folder = os.path.dirname(folder)
        return folder

    def is_analysed(self, path: str, module: Module) -> bool:
        """Whether a data file belongs to the analysed source: it lies below a scanned path, or beside ``module``'s package."""
        return path.startswith((os.path.join(self._tree_of(module.path), ""), *self._trees))

    def _tree_of(self, path: str) -> str:
        """A folder, or that of a file; of a package the folder that holds the whole of it."""
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        while (parent := os.path.dirname(folder)) != folder:
            # Asked for by itself: what else lies in a folder above the scanned ones does not matter.
            marker = os.path.join(parent, "__init__.py")
            self.consulted[marker] = None
            if not os.path.isfile(marker):
                break
            folder = parent
        return folder

    def distribution_version(self, module: Module, name: str) -> str | None:
        """The version of the distribution that ``module`` is part of, from the metadata beside the package (PKG-INFO, dist-info)."""
        folder = self.root(module)
        self._holds(folder, "")
        found = [e for e in self._entries[folder] if e == "PKG-INFO" or e.endswith(".dist-info")]
        if found:
            import email.parser  # slow to import, and seldom asked for
        for entry in found:
            path = os.path.join(folder, entry) if entry == "PKG-INFO" else os.path.join(folder, entry, "METADATA")
            self.consulted[path] = None
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    metadata = email.parser.HeaderParser().parse(file)
            except OSError:
                continue
            if re.sub(r"[-_.]+", "-", metadata.get("Name", "")).lower() == re.sub(r"[-_.]+", "-", name).lower():
                return metadata.get("Version")
        return None

    def find(self, name: str, importer: Module) -> Module | None:
        """The module of an absolute name as ``importer`` would see it; ``None`` when it is not in the analysed source."""
        first = name.partition(".")[0]
        if self.models.is_foreign(first):
            return None
        folder = self.root(importer)
        key = (folder, name)
        if key not in self._found:
            self._found[key] = self._search(folder, name)
        found = self._found[key] or self._own_copy(importer, name, first)
        return self._led(importer, name.split("."), found)

    def _own_copy(self, importer: Module, name: str, first: str) -> Module | None:
        """The module inside the copy of package ``first`` that ``importer`` itself is part of, however deep that copy lies."""
        folder = os.path.dirname(importer.path)
        key = (folder, name)
        if key not in self._found:
            self._found[key] = None
            while self._holds(folder, "__init__.py"):
                folder, base = os.path.split(folder)
                if base == first:
                    self._found[key] = self._at(folder, name)
                    break
        return self._found[key]

    def _search(self, folder: str, name: str) -> Module | None:
        first, _, _ = name.partition(".")
        for _ in range(_ASCENT):
            if self._holds(folder, first) or self._holds(folder, first + ".py"):
                found = self._at(folder, name)
                if found is not None:
                    return found
            parent = os.path.dirname(folder)
            if parent == folder:
                break
            folder = parent
        return None

    def _at(self, folder: str, name: str) -> Module | None:
        parts = name.split(".")
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
        last = parts[-1]
        if self._holds(folder, last) and self._holds(os.path.join(folder, last), "__init__.py"):
            return self.module(os.path.join(folder, last, "__init__.py"))
        if self._holds(folder, last + ".py"):
            return self.module(os.path.join(folder, last + ".py"))
        if self._holds(folder, last) and self._holds_python(os.path.join(folder, last)):
            return self._namespace_package(os.path.join(folder, last), name)
        return None

    def _holds_python(self, folder: str) -> bool:
        self._holds(folder, "")
        entries = self._entries[folder]
        return any(e.endswith(".py") for e in entries) or any(
            self._holds(os.path.join(folder, e), "__init__.py") for e in entries if "." not in e
        )

    def _namespace_package(self, folder: str, name: str) -> Module:
        path = os.path.join(folder, "__init__.py")
        if path not in self._modules:
            self._modules[path] = Module(path, "", name, is_package=True, held=self.held)
        module = self._modules[path]
        assert module is not None
        return module

    def submodule(self, module: Module, name: str) -> Module | None:
        """The module ``name`` inside a package."""
        if os.path.basename(module.path) != "__init__.py":
            return None
        return self._led(module, [name], self._at(os.path.dirname(module.path), name))

    def relative(self, importer: Module, level: int, name: str) -> Module | None:
        """The module that ``from ..name import`` means in ``importer``."""
        folder = os.path.dirname(importer.path)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        if name:
            found = self._at(folder, name)
        elif self._holds(folder, "__init__.py"):
            found = self.module(os.path.join(folder, "__init__.py"))
        else:
            found = self._namespace_package(folder, os.path.basename(folder))
        return self._led(importer, name.split("."), found)
