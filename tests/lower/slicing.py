"""Slices made from a kernel's text, as the source stage makes them from files; only what these tests write is understood."""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smemcheck.lower.jobs import encode, encode_kernel
from smemcheck.lower.pool import Pool
from smemcheck.model import (
    AttributeValue,
    Config,
    ConstexprValue,
    FunctionValue,
    Job,
    Kernel,
    KernelFunction,
    Parameter,
    Position,
    Specialization,
    Unknown,
)
from smemcheck.rules.devices import resolve_target

TARGETS = {
    name: resolve_target(name)
    for name in (
        *(f"sm_{arch}" for arch in (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)),
        *(f"gfx{arch}" for arch in ("90a", "942", "950", "1100", "1151", "1200", "1201")),
    )
}


def slice_kernel(source: str, name: str, path: str = "/project/kernels.py", **bindings: Any) -> Kernel:
    """The slice of the kernel ``name`` in ``source``. ``bindings`` replace what the text says of a name."""
    text = textwrap.dedent(source)
    lines = text.splitlines(keepends=True)
    definitions = {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    known = _module_bindings(ast.parse(text), definitions)
    order = [name, *(other for other in definitions if other != name)]
    functions = tuple(
        _function(definitions[each], lines, path, lambda read: bindings.get(read, known(read, order))) for each in order
    )
    return Kernel(
        functions, hashlib.sha256(repr([(f.name, f.source, f.globals_) for f in functions]).encode()).hexdigest()
    )


def _module_bindings(module: ast.Module, definitions: Mapping[str, ast.FunctionDef]) -> Callable[[str, list[str]], Any]:
    found: dict[str, Any] = {}
    for node in module.body:
        if isinstance(node, ast.Import):
            found.update({item.asname or item.name: AttributeValue(item.name) for item in node.names})
        elif isinstance(node, ast.ImportFrom):
            found.update({i.asname or i.name: AttributeValue(f"{node.module}.{i.name}") for i in node.names})
        elif isinstance(node, ast.Assign):
            call = node.value if isinstance(node.value, ast.Call) else None
            value = ast.literal_eval(call.args[0] if call else node.value)
            found[node.targets[0].id] = ConstexprValue(value) if call else value  # type: ignore[attr-defined]

    def binding(name: str, order: list[str]) -> Any:
        if name in definitions:
            return FunctionValue(name, order.index(name))
        return found.get(name, Unknown(f"{name} is defined nowhere"))

    return binding


def _function(node: ast.FunctionDef, lines: list[str], path: str, binding: Callable[[str], Any]) -> KernelFunction:
    decorator = next((d for d in node.decorator_list if isinstance(d, ast.Call)), None)
    options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords} if decorator else {}
    written = " ".join(map(ast.unparse, node.decorator_list))
    parameters = []
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    defaults = [*[None] * (len(arguments) - len(node.args.defaults) - len(node.args.kw_defaults)), *node.args.defaults]
    for argument, default in zip(arguments, [*defaults, *node.args.kw_defaults], strict=True):
        annotation = "constexpr" if argument.annotation and "constexpr" in ast.unparse(argument.annotation) else ""
        parameters.append(
            Parameter(
                argument.arg,
                annotation,
                bool(annotation),
                default is not None,
                _default(default, binding),
                argument.arg in options.get("do_not_specialize", ()),
            )
        )
    bound = {argument.arg for argument in arguments}
    bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = {n.id for statement in node.body for n in ast.walk(statement) if isinstance(n, ast.Name)} - bound
    read = sorted(name for name in names if not hasattr(builtins, name))
    return KernelFunction(
        node.name,
        Position(path, node.lineno, node.col_offset + 1),
        "".join(lines[node.lineno - 1 : node.end_lineno]),
        tuple(parameters),
        tuple((name, binding(name)) for name in read),
        jit="constexpr_function" if "constexpr_function" in written else "jit",
        noinline=options.get("noinline", False),
    )


def _default(node: ast.expr | None, binding: Callable[[str], Any]) -> Any:
    if node is None:
        return None
    if isinstance(node, ast.Name):
        return binding(node.id)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return Unknown(f"{ast.unparse(node)} is not evaluated")


def job(
    kernel: Kernel,
    target: str = "sm_90",
    *,
    types: Mapping[str, Any],
    constexprs: Mapping[str, Any] | None = None,
    config: Config | None = None,
    not_divisible: tuple[str, ...] = (),
    environment: tuple[tuple[str, str], ...] = (),
    registers: bool = False,
) -> Job:
    """A job whose pointers and integers are all multiples of 16, but for those named."""
    divisible = frozenset(name for name, kind in types.items() if kind != "constexpr") - set(not_divisible)
    specialization = Specialization(tuple(types.items()), tuple((constexprs or {}).items()), divisible, environment)
    return Job(kernel, specialization, config or Config(), TARGETS[target], registers)


def requests_for(jobs: Sequence[Job]) -> list[Any]:
    """Jobs of one kernel as a worker in this process would read them; needs Triton."""
    from smemcheck.lower.worker.request import Request
    from smemcheck.lower.worker.slices import Slice

    functions = Slice(json.loads(encode_kernel(jobs[0].kernel)))
    return [Request(json.loads(json.dumps(encode(one))), functions) for one in jobs]


def outcome(pool: Pool, one: Job) -> Any:
    """The outcome of a single job."""
    ((index, answer),) = pool.run([one])
    assert index == 0
    return answer
