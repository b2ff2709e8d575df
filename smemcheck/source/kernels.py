"""The slice of a kernel: the functions it is made of and what each name they read stands for, across files.

Which names a body reads is asked of Python's own symbol table (``symtable``), because a kernel's body is read by Triton with
``ast`` and never evaluated here.
"""

from __future__ import annotations

import hashlib
import re
import symtable
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import libcst as cst

from smemcheck.model import (
    AttributeValue,
    Binding,
    FunctionValue,
    Kernel,
    KernelFunction,
    NamespaceValue,
    Parameter,
    Position,
    Unknown,
)
from smemcheck.source.attributes import get_attribute, innermost_kernel
from smemcheck.source.expressions import lookup
from smemcheck.source.freeze import freeze, posix, text, triton_dtype
from smemcheck.source.interpreter import Interpreter
from smemcheck.source.scan import STRINGS_AND_COMMENTS, header_end
from smemcheck.source.values import (
    Blocked,
    Builtin,
    External,
    Frame,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Raised,
    Silent,
    UserClass,
    UserFunction,
)


def parameter_names(kernel: KernelValue) -> list[str]:
    """The kernel's parameters in order, as ``JITFunction.arg_names``."""
    return [p.name.value for p in _parameters(kernel.function)]


def _parameters(function: UserFunction) -> list[cst.Param]:
    parameters = function.node.params
    every = [*parameters.posonly_params, *parameters.params]
    if isinstance(parameters.star_arg, cst.Param):
        every.append(parameters.star_arg)
    return [*every, *parameters.kwonly_params]


def describe_parameters(interpreter: Interpreter, kernel: KernelValue) -> tuple[Parameter, ...]:
    """The kernel's parameters as the model has them: canonical annotation, default, what ``jit`` was told of them."""
    function = kernel.function
    unspecialized = _named(interpreter, kernel, "do_not_specialize")
    unaligned = _named(interpreter, kernel, "do_not_specialize_on_alignment")
    found = []
    for index, parameter in enumerate(_parameters(function)):
        name = parameter.name.value
        annotation = _annotation(interpreter, function, parameter)
        default = freeze(function.defaults[name]) if name in function.defaults else None
        found.append(
            Parameter(
                name,
                annotation,
                "constexpr" in annotation,
                name in function.defaults,
                default,
                name in unspecialized or index in unspecialized,
                name in unaligned or index in unaligned,
            )
        )
    return tuple(found)


def _named(interpreter: Interpreter, kernel: KernelValue, option: str) -> set[Any]:
    value = kernel.options.get(option)
    return {v for v in value if isinstance(v, (str, int))} if isinstance(value, (list, tuple, set)) else set()


def _annotation(interpreter: Interpreter, function: UserFunction, parameter: cst.Param) -> str:
    if parameter.annotation is None:
        return ""
    node = parameter.annotation.annotation
    last = node.attr if isinstance(node, cst.Attribute) else node
    if isinstance(last, cst.Name) and last.value == "constexpr":
        return "constexpr"
    written = text(node)
    if isinstance(node, cst.SimpleString):
        return str(node.evaluated_value)
    frame = function.parent or Frame(function.unit, function.module, {}, None, "module")
    try:
        value = interpreter.evaluate(node, frame)
    except (Raised, Blocked):
        return written
    if isinstance(value, str):
        return value
    if isinstance(value, External):
        if value.path == "triton.language.constexpr":
            return "constexpr"
        return triton_dtype(value.path) or value.path.rpartition(".")[2]
    return value.name if isinstance(value, Builtin) else written


def build_kernel(interpreter: Interpreter, kernel: KernelValue) -> Kernel:
    """The slice of ``kernel``. Names that cannot be known are unknown bindings; raises :class:`Blocked` without source text."""
    builder = _Builder(interpreter)
    entry = builder.node(kernel)
    order = builder.order(entry)
    position = {node: index for index, node in enumerate(order)}
    functions = tuple(builder.freeze(node, position) for node in order)
    return Kernel(functions, _digest(functions))


class _Builder:
    """The graph of the functions a kernel reaches: an edge from each function to those whose names it reads."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.edges: list[tuple[int, int]] = []
        self.kernels: dict[int, KernelValue] = {}
        self.globals: dict[int, dict[str, Any]] = {}
        self.sources: dict[int, tuple[str, Position]] = {}

    def node(self, kernel: KernelValue) -> int:
        key = id(kernel.function)
        if key in self.kernels:
            return key
        self.kernels[key] = kernel
        self.sources[key] = source, _ = source_text(kernel.function)
        self.globals[key] = found = {}
        for name, paths in read_names(kernel.function, source).items():
            value = self._resolve(kernel, name)
            found[name] = self._convert(key, kernel, name, value, paths)
        return key

    def order(self, entry: int) -> list[int]:
        """The functions, each before those that it reaches first."""
        if all(caller == entry for caller, _ in self.edges):  # they call nothing further
            return list(dict.fromkeys([entry, *(called for _, called in self.edges)]))
        import networkx as nx  # only here: most runs after one change meet no deeper kernels

        return list(nx.dfs_preorder_nodes(nx.DiGraph(self.edges), entry))

    def _resolve(self, kernel: KernelValue, name: str) -> Any:
        function = kernel.function
        frame = function.parent or Frame(function.unit, function.module, {}, None, "module")
        try:
            return lookup(self.interpreter, name, frame, function.node)
        except Raised as raised:
            return Obstacle(f"{name}: {raised}", raised.place)
        except Blocked as blocked:
            return blocked.obstacle

    def _convert(self, key: int, kernel: KernelValue, name: str, value: Any, paths: frozenset[tuple[str, ...]]) -> Any:
        """A binding, with functions still as graph nodes (ints wrapped in :class:`_Node`)."""
        inner = innermost_kernel(value)
        if isinstance(inner, KernelValue):
            target = self.node(inner)
            self.edges.append((key, target))
            return _Node(target)
        if isinstance(value, ModuleValue) or (isinstance(value, UserClass) and value.kind == "enum"):
            return self._namespace(key, kernel, name, value, paths)
        if isinstance(value, Builtin) or (isinstance(value, External) and value.path.startswith("builtins.")):
            return _PYTHON
        if isinstance(value, External):
            if any(paths) and value.path.split(".")[0] == "torch":  # torch.version.hip
                return self._namespace(key, kernel, name, value, paths)
            return AttributeValue(value.path)
        if isinstance(value, UserFunction):
            return Unknown(f"'{name}' is a plain Python function, which a kernel cannot call", value.place.position)
        if isinstance(value, (Silent, UserClass, Instance)) and not (
            isinstance(value, Instance) and value.cls == External("triton.language.constexpr")
        ):
            return Unknown(f"'{name}' is an object that a kernel cannot read", kernel.place.position)
        return freeze(value)

    def _namespace(
        self, key: int, kernel: KernelValue, name: str, value: Any, paths: frozenset[tuple[str, ...]]
    ) -> Any:
        members: dict[str, Any] = {}
        for path in sorted(paths):
            if not path:
                continue
            rest = frozenset(p[1:] for p in paths if p[:1] == path[:1])
            try:
                member = get_attribute(self.interpreter, value, path[0], kernel.place)
            except Raised as raised:
                member = Obstacle(f"{name}.{path[0]}: {raised}", raised.place)
            except Blocked as blocked:
                member = blocked.obstacle
            if isinstance(member, Instance) and ("value",) in rest:
                member = Obstacle(f"{name}.{path[0]} is an enum member", kernel.place)
            members[path[0]] = self._convert(key, kernel, f"{name}.{path[0]}", member, rest)
        return _Members(name, members)

    def freeze(self, node: int, position: dict[int, int]) -> KernelFunction:
        kernel = self.kernels[node]
        source, place = self.sources[node]
        bindings = tuple(
            (name, _bound(value, position, self.kernels))
            for name, value in sorted(self.globals[node].items())
            if value is not _PYTHON
        )
        debug = kernel.options.get("debug")
        return KernelFunction(
            kernel.function.name,
            place,
            source,
            describe_parameters(self.interpreter, kernel),
            bindings,
            kernel.kind,
            kernel.options.get("noinline") is True,
            debug if isinstance(debug, bool) else None,
        )


class _Node(int):
    """A function of the slice, by its node in the graph."""


class _Members:
    """A module or class of which a kernel reads attributes."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        self.name = name
        self.members = members


_PYTHON = object()
_FORMAT_STRING = re.compile(r"(?i)\b(?:f|rf|fr|t)['\"]")


def _bound(value: Any, position: dict[int, int], kernels: dict[int, KernelValue]) -> Binding:
    if isinstance(value, _Node):
        return FunctionValue(kernels[int(value)].function.name, position[int(value)])
    if isinstance(value, _Members):
        return NamespaceValue(
            value.name,
            tuple(
                (name, _bound(member, position, kernels))
                for name, member in sorted(value.members.items())
                if member is not _PYTHON
            ),
        )
    return value  # type: ignore[no-any-return]


def source_text(function: UserFunction) -> tuple[str, Position]:
    """The text of a function's ``def`` with the file's own indentation, and where it starts. Raises :class:`Blocked`."""
    path = posix(function.module.path)
    if function.statement is not None:
        lines = function.statement.definition_text.splitlines(keepends=True)
        position = Position(path, function.statement.definition_line, 1)
    elif isinstance(function.node, cst.FunctionDef):
        start = function.unit.position(function.node)
        _, last = function.unit.lines(function.node)
        lines = function.module.lines[start.line - 1 : last]
        position = Position(path, start.line, start.column)
    else:
        raise Blocked(Obstacle("a lambda is used as a kernel", function.place))
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines = lines[:-1]
    return "".join(lines), position


def read_names(function: UserFunction, source: str) -> Mapping[str, frozenset[tuple[str, ...]]]:
    """The global names a function's body reads, each with the attribute paths that are read of it.

    Decorators are not part of its ``source``; annotations and defaults are bound elsewhere and not read here.
    """
    module, statement = function.module, function.statement
    known = module.read_names.get(source)
    if known is None:
        table = module.symbols.get((function.name, statement.definition_line)) if statement is not None else None
        known = module.read_names[source] = _read_names(source, table)
    return known


def _read_names(source: str, table: symtable.SymbolTable | None) -> Mapping[str, frozenset[tuple[str, ...]]]:
    """:func:`read_names`; ``table`` is that of the function in its file, where that is known."""
    dedented = textwrap.dedent(source) if table is None else source
    try:
        tables = symtable.symtable(dedented, "<kernel>", "exec").get_children() if table is None else [table]
    except (SyntaxError, RecursionError):
        return {}
    names = {name for table in tables for name in _globals(table)}
    paths: dict[str, set[tuple[str, ...]]] = {name: set() for name in names}
    start = header_end(dedented, 0)
    for root, path in _reads(dedented[start:], names):
        paths[root].add(path)
    return {name: frozenset(found) for name, found in paths.items()}


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)


def _reads(source: str, names: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each place where one of the names stands in the code, with the attributes that follow it.

    Found in the text, without its strings and comments; what a format string reads is taken from the string.
    """
    if not names:
        return
    kept = r"\g<0>" if _FORMAT_STRING.search(source) else "''"
    code = STRINGS_AND_COMMENTS.sub(lambda match: "" if match[0][0] == "#" else match.expand(kept), source)
    known = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, sorted(names)))})\b((?:\s*\.\s*[^\W\d]\w*)*)")
    for match in known.finditer(code):
        yield match[1], tuple(part.strip() for part in match[2].split(".")[1:])


def _digest(functions: tuple[KernelFunction, ...]) -> str:
    digest = hashlib.sha256()
    for function in functions:
        bindings = [(name, _without_positions(value)) for name, value in function.globals_]
        parameters = [
            (
                p.name,
                p.annotation,
                p.is_constexpr,
                _without_positions(p.default),
                p.has_default,
                p.do_not_specialize,
                p.do_not_specialize_on_alignment,
            )
            for p in function.parameters
        ]
        parts = (function.name, function.source, parameters, bindings, function.jit, function.noinline, function.debug)
        digest.update(repr(parts).encode())
    return digest.hexdigest()


def _without_positions(value: Any) -> Any:
    if isinstance(value, Unknown):
        return ("unknown", value.reason)
    if isinstance(value, NamespaceValue):
        return (value.name, tuple((name, _without_positions(member)) for name, member in value.members))
    return value
