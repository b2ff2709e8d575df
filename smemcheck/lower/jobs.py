"""Job → the worker's line and the key of its answer; the worker's answer → Footprint, Failure or Unknown.

Positions travel absolute to and from the worker. In the store they are relative to the slice's functions, because the key
does not hold paths and line numbers: an answer stays good when a file moves or grows above the kernel.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from smemcheck.lower.worker import PROTOCOL
from smemcheck.model import (
    AttributeValue,
    Buffer,
    ConstexprValue,
    Dtype,
    Failure,
    FailureKind,
    Footprint,
    FunctionValue,
    Job,
    Kernel,
    NamespaceValue,
    Outcome,
    Position,
    Unknown,
    Value,
)

# What the compiler reads: names in libtriton and triton/knobs.py of 3.2 to 3.9. Everything with these beginnings counts,
# so that a variable of a later Triton is never overlooked; a variable too many costs a compilation, one too few a wrong answer.
_PREFIXES = ("TRITON_", "AMDGCN_", "LLVM_", "MLIR_", "NVPTX_", "PTXAS_", "DISABLE_", "ENABLE_", "ALLOW_", "USE_IR_")
_WITHOUT_INFLUENCE = re.compile(
    r"TRITON_(CACHE_.*|HOME|DUMP_DIR|OVERRIDE_DIR|PRINT_AUTOTUNING|REDIS_.*|REMOTE_CACHE_BACKEND|KERNEL_DUMP|KERNEL_OVERRIDE"
    r"|ALWAYS_COMPILE|STORE_BINARY_ONLY|INTERPRET|FRONT_END_DEBUGGING|REPRODUCER_PATH|PROTON_.*|DUMP_PTXAS_LOG|DUMP_MIR"
    r"|ENABLE_NVTX|ENABLE_HW_TRACE|PROFILE_.*|ENABLE_LLVM_DEBUG|LLVM_DEBUG_ONLY|ENABLE_PYTHON_STACKTRACE)"
    r"|.*_ENABLE_(DUMP|TIMING|DIAGNOSTICS)|MLIR_DUMP_PATH|LLVM_IR_ENABLE_DUMP|USE_IR_LOC"
)


_PLAIN = frozenset({int, float, str, bool, type(None)})  # types whose values are JSON as they are


def is_compile_variable(name: str) -> bool:
    """Whether an environment variable can change what Triton compiles."""
    return name.startswith(_PREFIXES) and not _WITHOUT_INFLUENCE.fullmatch(name)


def is_triton_variable(name: str) -> bool:
    """Whether an environment variable speaks to Triton's compiler at all; those of the calling shell are not passed on."""
    return name.startswith(_PREFIXES)


def environment(own: Iterable[tuple[str, str]], base: Mapping[str, str]) -> dict[str, str]:
    """The variables that the compiler sees for a job: the run's, and over them the specialisation's ``own``."""
    merged = {**base, **dict(own)}
    return {name: value for name, value in sorted(merged.items()) if is_compile_variable(name)}


def digest(
    job: Job, environment_: Mapping[str, str], triton: str, encoded: dict[str, Any] | Unknown | None = None
) -> str | None:
    """The key under which the job's answer is kept; ``None`` when something outside decides it (``ir_override`` files).

    ``triton`` identifies the installation, see :func:`smemcheck.lower.installation.identify`; ``encoded`` is what
    :func:`encode` gave, if it was asked already.
    """
    encoded = encoded or encode(job)
    if isinstance(encoded, Unknown) or any(name == "ir_override" for name, _ in encoded["options"]):
        return None
    encoded = {**encoded, "kernel": job.kernel.digest}
    key = [PROTOCOL, triton, sorted(environment_.items()), encoded]
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def frontend_key(job: Job, environment_: Mapping[str, str]) -> tuple[Any, ...]:
    """Jobs with the same key build the same slice in a worker, so they belong to the same one."""
    return (tuple(sorted(environment_.items())), job.kernel.digest, job.specialization.signature)


def encode(job: Job) -> dict[str, Any] | Unknown:
    """The job as the worker reads it, without id, method and time limit; Unknown when a constexpr has no value."""
    entry = job.kernel.entry
    indices = _indices(job.kernel)
    given = dict(job.specialization.signature)
    chosen = {**_named_options(job), **dict(job.config.kwargs)}
    signature: list[tuple[str, Any]] = []
    for parameter in entry.parameters:
        kind = given.get(parameter.name, "constexpr" if parameter.is_constexpr or parameter.name in chosen else None)
        if kind is None:
            return Unknown(f"the type of parameter {parameter.name} is not known", entry.position)
        signature.append((parameter.name, kind))
    constexprs: dict[tuple[int, ...], Value] = {}
    values = {name: chosen[name] for name in chosen if name in indices} | dict(job.specialization.constexprs)
    for name, value in values.items():
        path = _path(name, indices)
        if path is not None:
            constexprs.update(_constexpr_leaves(_kind_at(signature, path), value, path))
    for index, (_, kind) in enumerate(signature):
        if isinstance(kind, str) and kind != "constexpr":
            continue
        for path, inner in _leaves(kind, (index,)):
            if inner == "constexpr" and path not in constexprs:
                return Unknown(f"constexpr parameter {_spelled(path, entry.parameters)} has no value", entry.position)
    options = {**chosen, **dict(job.config.options)}
    limited = job.registers and job.target.shared_memory_limit is not None
    return {
        "kernel": "",
        "signature": signature,
        "constexprs": [[path, encode_value(constexprs[path], job.kernel)] for path in sorted(constexprs)],
        "divisible": sorted(_divisible(job.specialization.divisible_by_16, signature, indices)),
        "options": [[name, encode_value(value, job.kernel)] for name, value in sorted(options.items())],
        "target": {"backend": job.target.backend, "arch": job.target.arch, "warp_size": job.target.warp_size},
        "registers": job.registers,
        "shared_memory_limit": job.target.shared_memory_limit if limited else None,
    }


@functools.lru_cache(maxsize=16)
def _indices(kernel: Kernel) -> dict[str, int]:
    """The places of the parameters by name; the jobs of a kernel come in a row."""
    return {parameter.name: index for index, parameter in enumerate(kernel.entry.parameters)}


def _named_options(job: Job) -> dict[str, Value]:
    """What ``triton.Config.all_kwargs`` adds to the config's own kwargs; ``maxnreg`` only when it is set."""
    config = job.config
    named = {"num_warps": config.num_warps, "num_stages": config.num_stages, "num_ctas": config.num_ctas}
    return {**named, **({} if config.maxnreg is None else {"maxnreg": config.maxnreg})}


def _path(name: str, indices: Mapping[str, int]) -> tuple[int, ...] | None:
    """``strides.0.1`` is element 1 of element 0 of the tuple ``strides``; ``None`` when there is no such parameter."""
    index = indices.get(name)
    if index is not None:
        return (index,)
    first, *rest = name.split(".")
    if first not in indices or not all(part.isdigit() for part in rest):
        return None
    return (indices[first], *map(int, rest))


def _spelled(path: tuple[int, ...], parameters: Any) -> str:
    return ".".join([parameters[path[0]].name, *map(str, path[1:])])


def _leaves(kinds: Any, path: tuple[int, ...] = ()) -> Iterable[tuple[tuple[int, ...], str]]:
    if isinstance(kinds, str):
        yield path, kinds
    else:
        for index, kind in enumerate(kinds):
            yield from _leaves(kind, (*path, index))


def _kind_at(signature: list[tuple[str, Any]], path: tuple[int, ...]) -> Any:
    kind = signature[path[0]][1]
    for index in path[1:]:
        kind = kind[index] if not isinstance(kind, str) and index < len(kind) else None
    return kind


def _constexpr_leaves(kind: Any, value: Value, path: tuple[int, ...]) -> dict[tuple[int, ...], Value]:
    """The constants of one argument: all of it, or those elements of a tuple that its type calls constexpr."""
    if kind == "constexpr":
        return {path: value}
    if isinstance(kind, list | tuple) and isinstance(value, tuple):
        pairs = zip(kind, value, strict=False)
        return {
            k: v for i, (inner, item) in enumerate(pairs) for k, v in _constexpr_leaves(inner, item, (*path, i)).items()
        }
    return {}


def _divisible(
    names: Iterable[str], signature: list[tuple[str, Any]], indices: Mapping[str, int]
) -> set[tuple[int, ...]]:
    """Paths of the arguments that are multiples of 16. The name of a tuple stands for all its elements."""
    found: set[tuple[int, ...]] = set()
    for name in names:
        path = _path(name, indices)
        kind = None if path is None else _kind_at(signature, path)
        if path is None or kind is None:
            continue
        if isinstance(kind, str) and kind != "constexpr":
            found.add(path)
        else:
            found.update(leaf for leaf, inner in _leaves(kind, path) if inner != "constexpr")
    return found


def encode_value(value: Value | Unknown, kernel: Kernel) -> Any:
    """A value as JSON; ``smemcheck/lower/worker/values.py`` reads it."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        return [encode_value(item, kernel) for item in value]
    if isinstance(value, Dtype):
        return {"dtype": value.name}
    if isinstance(value, AttributeValue):
        return {"attribute": value.path}
    if isinstance(value, ConstexprValue):
        return {"constexpr": encode_value(value.value, kernel)}
    if isinstance(value, NamespaceValue):
        return {"namespace": [value.name, [[name, encode_value(item, kernel)] for name, item in value.members]]}
    if isinstance(value, FunctionValue):
        index = _function_index(value, kernel)
        reason = f"the function {value.name} is not part of the kernel's slice"
        return {"unknown": [reason, None]} if index is None else {"function": index}
    if isinstance(value, Unknown):
        return {"unknown": [value.reason, _encode_position(value.position)]}
    return value


def _function_index(value: FunctionValue, kernel: Kernel) -> int | None:
    if value.index is not None:
        return value.index
    named = [index for index, function in enumerate(kernel.functions) if function.name == value.name]
    return named[0] if len(named) == 1 else None


def encode_kernel(kernel: Kernel) -> str:
    """The slice as text; a worker keeps what it built of it until it gets another."""
    functions = [
        {
            "name": function.name,
            "path": function.position.path,
            "line": function.position.line,
            "column": function.position.column,
            "source": function.source,
            "jit": function.jit,
            "noinline": function.noinline,
            "debug": function.debug,
            "parameters": [
                {
                    "name": parameter.name,
                    "annotation": "constexpr" if parameter.is_constexpr else parameter.annotation,
                    "has_default": parameter.has_default,
                    "default": encode_value(parameter.default, kernel),
                    "do_not_specialize": parameter.do_not_specialize,
                    "do_not_specialize_on_alignment": parameter.do_not_specialize_on_alignment,
                }
                for parameter in function.parameters
            ],
            "globals": [[name, encode_value(binding, kernel)] for name, binding in function.globals_],
        }
        for function in kernel.functions
    ]
    return json.dumps({"functions": functions})


def _encode_position(position: Position | None) -> list[Any] | None:
    return None if position is None else [position.path, position.line, position.column]


def decode(answer: Mapping[str, Any], triton: str, *, cached: bool = False) -> Outcome:
    """The worker's answer, or one that :func:`absolute` made of a stored one, as the other stages know it."""
    position = _decode_position(answer.get("position"))
    if "unknown" in answer:
        return Unknown(answer["unknown"], position)
    if "failure" in answer:
        kind = FailureKind(answer["failure"])
        return Failure(kind, answer["message"], triton, position, answer.get("exception", ""), cached=cached)
    buffers = tuple(
        Buffer(
            _one(item["variable"]), _decode_position(item["position"]), item["offset"], item["size"], _one(item["type"])
        )
        for item in answer["buffers"]
    )
    return Footprint(
        shared_memory=answer["shared_memory"],
        tensor_memory=answer["tensor_memory"],
        num_warps=answer["num_warps"],
        threads=answer["threads"],
        triton=triton,
        buffers=buffers,
        registers=answer.get("registers"),
        spill_bytes=answer.get("spill_bytes"),
        registers_at_least=answer.get("registers_at_least"),
        register_files=tuple(answer.get("register_files", {}).items()),
        method=answer["method"],
        code_digest=answer.get("code_digest", ""),
        cached=cached,
    )


def _decode_position(position: list[Any] | None) -> Position | None:
    return None if position is None else Position(_one(str(position[0]).replace("\\", "/")), position[1], position[2])


_one = sys.intern  # a kernel's answers say the same words; a run may have a hundred thousand answers


def relative(answer: Mapping[str, Any], kernel: Kernel) -> dict[str, Any]:
    """The answer with each position in the slice as [index of the function, lines below its ``def``, column]."""

    def convert(position: list[Any]) -> list[Any] | None:
        for index, function in enumerate(kernel.functions):
            below = position[1] - function.position.line
            if position[0] == function.position.path and 0 <= below < function.source.count("\n") + 1:
                return [index, below, position[2] - function.position.column]
        return None

    return _converted(answer, convert)


def absolute(answer: Mapping[str, Any], kernel: Kernel) -> dict[str, Any]:
    """The reverse of :func:`relative`, for where the slice stands now."""

    def convert(position: list[Any]) -> list[Any]:
        place = kernel.functions[position[0]].position
        return [place.path, place.line + position[1], place.column + position[2]]

    return _converted(answer, convert)


def _converted(answer: Mapping[str, Any], convert: Any) -> dict[str, Any]:
    converted = dict(answer)
    if converted.get("position"):
        converted["position"] = convert(converted["position"])
    if "buffers" in converted:
        converted["buffers"] = [
            {**item, "position": convert(item["position"]) if item["position"] else None} for item in answer["buffers"]
        ]
    return converted
