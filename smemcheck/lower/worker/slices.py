"""A kernel's slice → JITFunctions that Triton's frontend compiles as if it had imported the user's module.

No statement of the user's file runs, not even the ``def``: the code object is taken out of the compiled syntax tree and
wrapped in a function by hand, with the bound defaults and with the canonical annotations. Triton reads the body from the
syntax tree (``parse``), whose parameters carry neither annotations nor defaults, since the frontend would evaluate them.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import linecache
import textwrap
import types
from typing import Any, Dict, Iterator, List, Tuple

from .values import Placeholder, value


class SliceError(Exception):
    """This interpreter cannot read a function of the slice (its syntax is newer than the interpreter)."""

    def __init__(self, message: str, position: Any) -> None:
        super().__init__(message)
        self.position = position


class Slice:
    """The functions of one kernel, built for Triton; ``functions[0]`` is the kernel itself."""

    def __init__(self, kernel: Dict[str, Any]) -> None:
        definitions = kernel["functions"]
        _fill_linecache(definitions)
        files = sorted({definition["path"] for definition in definitions})
        self.definitions = definitions
        self.functions: List[Any] = [
            _function(definition, f"smemcheck_slice_{files.index(definition['path'])}") for definition in definitions
        ]
        for definition, function in zip(definitions, self.functions):  # noqa: B905 (Python 3.9)
            if not isinstance(function, Placeholder):
                function.fn.__defaults__, function.fn.__kwdefaults__ = _defaults(
                    definition, function.fn.__code__, self.function
                )
                namespace = function.fn.__globals__
                namespace.update((name, value(item, self.function)) for name, item in definition["globals"])
                function.signature = inspect.signature(function.fn)
        self.kernel = self.functions[0]

    def function(self, index: int) -> Any:
        return self.functions[index]

    def owner(self, source: Any) -> Any:
        """The definition that a CompilationError's ``src`` belongs to, with the JITFunction; ``None`` if it is Triton's."""
        for definition, function in zip(self.definitions, self.functions):  # noqa: B905 (Python 3.9)
            if not isinstance(function, Placeholder) and function.src == source:
                return definition
        return None


def _function(definition: Dict[str, Any], module: str) -> Any:
    """The JITFunction of one definition, its namespace and its defaults still empty."""
    position = [definition["path"], definition["line"], definition["column"]]
    if definition["jit"] != "jit":
        return Placeholder(f"{definition['name']} is a {definition['jit']}, which Triton would run as Python", position)
    tree = _tree(definition, position)
    for argument in _arguments(tree):
        argument.annotation = None
    tree.args.defaults, tree.args.kw_defaults = [], [None] * len(tree.args.kwonlyargs)
    tree.decorator_list, tree.returns = [], None
    compiled = compile(_shell(tree, definition["line"]), definition["path"], "exec", dont_inherit=True)
    code = next(constant for constant in compiled.co_consts if isinstance(constant, types.CodeType))
    cells = tuple(types.CellType() for _ in code.co_freevars)
    function = types.FunctionType(code, {}, definition["name"], None, cells)
    function.__module__ = module
    function.__annotations__ = {p["name"]: p["annotation"] for p in definition["parameters"] if p["annotation"]}
    with _source_lines(function, _lines(definition), definition["line"]):
        return _sliced_function_class()(
            function,
            ast.Module([tree], []),
            do_not_specialize=[p["name"] for p in definition["parameters"] if p["do_not_specialize"]],
            do_not_specialize_on_alignment=[
                p["name"] for p in definition["parameters"] if p["do_not_specialize_on_alignment"]
            ],
            debug=definition["debug"],
            noinline=definition["noinline"],
        )


@contextlib.contextmanager
def _source_lines(function: Any, lines: List[str], first: int) -> Iterator[None]:
    """Inside, ``inspect`` is told the function's lines, instead of looking for its end token by token."""
    names, real = vars(inspect), inspect.getsourcelines
    names["getsourcelines"] = lambda asked: (lines, first) if asked is function else real(asked)
    try:
        yield
    finally:
        names["getsourcelines"] = real


@functools.lru_cache(maxsize=None)
def _sliced_function_class() -> Any:
    """The subclass of this Triton's JITFunction; made on demand because Triton is imported late."""
    from triton.runtime.jit import JITFunction

    class SlicedFunction(JITFunction):  # type: ignore[misc]
        """A JITFunction that answers from its slice where Triton would look at the module it was defined in."""

        def __init__(self, function: Any, tree: ast.Module, **options: Any) -> None:
            super().__init__(function, **options)
            self.tree = tree

        def parse(self) -> ast.Module:
            return self.tree

        def get_capture_scope(self) -> Dict[str, Any]:
            scope: Dict[str, Any] = self.fn.__globals__
            return scope

        # Triton hashes the source and looks at each global for its disk cache, unknown ones included. Nothing of it is
        # cached here, and the identity of the object is all that the frontend itself needs.
        cache_key = property(lambda self: str(id(self)))

        def __hash__(self) -> int:
            return id(self)

    return SlicedFunction


def _tree(definition: Dict[str, Any], position: List[Any]) -> ast.FunctionDef:
    """The definition's syntax tree as Triton sees it: the first line is 1, columns are relative to the ``def``."""
    try:
        body = ast.parse(textwrap.dedent(_indented(definition))).body
    except SyntaxError as error:
        raise SliceError(f"Python cannot parse {definition['name']}: {error.msg}", position) from error
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise SliceError(f"{definition['name']} is not one plain def", position)
    return body[0]


def _shell(tree: ast.FunctionDef, line: int) -> ast.Module:
    """The ``def`` without its body, standing on its line of the file: Triton asks the function object for no more."""
    shell = ast.FunctionDef(tree.name, tree.args, [ast.Pass()], [], None, None)
    if "type_params" in shell._fields:
        vars(shell)["type_params"] = []
    module = copy.deepcopy(ast.Module([shell], []))
    for node in ast.walk(module):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg)):
            vars(node).update(lineno=line, end_lineno=line, col_offset=0, end_col_offset=0)
    return module


def _arguments(tree: ast.FunctionDef) -> List[ast.arg]:
    args = tree.args
    rest = [argument for argument in (args.vararg, args.kwarg) if argument]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def _indented(definition: Dict[str, Any]) -> str:
    """The source with its first line indented like the others, whether or not the slice kept that indentation."""
    source = str(definition["source"])
    if source[:1] in {" ", "\t"}:
        return source
    body = source.split("\n")[1:]
    tabs = any(line.startswith("\t") for line in body)
    return ("\t" if tabs else " ") * int(definition["column"] - 1) + source


def _lines(definition: Dict[str, Any]) -> List[str]:
    """The definition's lines, each with its end, as ``inspect`` gives them."""
    return [line + "\n" for line in _indented(definition).rstrip("\n").split("\n")]


def _fill_linecache(definitions: List[Dict[str, Any]]) -> None:
    """Give ``inspect`` the files' lines without reading files: blank, but for the slice's functions where they stand.

    An entry without a modification time is never checked against the disk (Lib/linecache.py, ``checkcache``).
    """
    files: Dict[str, List[str]] = {}
    for definition in definitions:
        lines = files.setdefault(definition["path"], [])
        own = _lines(definition)
        first = definition["line"] - 1
        lines.extend(["\n"] * (first + len(own) - len(lines)))
        lines[first : first + len(own)] = own
    for path, lines in files.items():
        linecache.cache[path] = (sum(map(len, lines)), None, lines, path)


def _defaults(definition: Dict[str, Any], code: types.CodeType, function: Any) -> Tuple[Any, Any]:
    """(``__defaults__``, ``__kwdefaults__``) from the bound constants; keyword-only parameters are told by the code."""
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    bound = [(p["name"], value(p["default"], function)) for p in definition["parameters"] if p["has_default"]]
    positional = tuple(item for name, item in bound if name not in keyword_only)
    keywords = {name: item for name, item in bound if name in keyword_only}
    return positional or None, keywords or None
