"""Completes a specialisation for one config: the config's constexprs, heuristics, defaults, descriptors' block shapes."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from smemcheck.model import Config, FunctionValue, Kernel, Parameter, Site, Specialization, Target, Unknown, Value
from smemcheck.source.values import External, Instance
from smemcheck.specialize.dtypes import is_pointer
from smemcheck.specialize.given import argument_of_value

_DESCRIPTOR = re.compile(r"tensordesc<([^\[]+)\[([^\]]*)\]>")
_TORCH = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "u1": "bool",
}  # fmt: skip


class Evaluates(Protocol):
    """What :func:`bind` asks of the source stage's handle."""

    def call(self, function: Any, arguments: Mapping[str, Any], target: Target) -> Value | Unknown: ...

    def prune(
        self, site: Site, configs: Sequence[Config], arguments: Mapping[str, Any], target: Target
    ) -> tuple[Config, ...] | Unknown: ...


def bind(
    site: Site, specialization: Specialization, config: Config, target: Target, project: Evaluates
) -> Specialization | Unknown:
    """The specialisation with everything that depends on ``config`` filled in.

    Unknown, with the parameter and how to supply it, when a constexpr has no value.
    """
    if specialization.unknown is not None:
        return specialization.unknown
    parameters = {parameter.name: parameter for parameter in site.parameters}
    arguments = _Arguments(parameters, specialization)
    for name, value in (*config.kwargs, *_named_options(config)):
        if name in parameters:
            arguments.set(name, value)
    reasons = _apply_heuristics(site, specialization, config, target, project, arguments)
    for name, parameter in parameters.items():
        if arguments.signature.get(name) == "constexpr" and name not in arguments.constexprs and parameter.has_default:
            if isinstance(parameter.default, Unknown):
                reasons.setdefault(name, parameter.default)
            else:
                arguments.constexprs[name] = parameter.default
    missing = [
        name for name, kind in arguments.signature.items() if kind == "constexpr" and name not in arguments.constexprs
    ]
    if missing:
        return without_value(site, missing, reasons)
    unknown = arguments.resolve_descriptors(site)
    if unknown is not None:
        return unknown
    answer = site.answers.get(target.name)
    kernel = answer.kernel if answer is not None and isinstance(answer.kernel, Kernel) else None
    constexprs = [(name, _in_slice(value, kernel)) for name, value in arguments.constexprs.items()]
    return replace(
        specialization,
        signature=_as_before(specialization.signature, arguments.signature.items()),
        constexprs=_as_before(specialization.constexprs, constexprs),
        divisible_by_16=_one(frozenset(arguments.divisible)),
        launch_values=(),
        targets=(),
    )


def _as_before(before: tuple[tuple[str, Any], ...], pairs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """The pairs as a tuple. Those that are in ``before`` are the same objects: a run may have a hundred thousand of these."""
    known = {pair[0]: pair for pair in before}
    found = tuple(known[name] if name in known and known[name][1] is value else (name, value) for name, value in pairs)
    return before if len(found) == len(before) and all(map(operator.is_, found, before)) else found


@functools.lru_cache(maxsize=64)
def _one(names: frozenset[str]) -> frozenset[str]:
    """The same object for equal sets in a row."""
    return names


def prune(
    site: Site, specialization: Specialization, configs: Sequence[Config], target: Target, project: Evaluates
) -> tuple[Config, ...] | Unknown:
    """What the author's ``early_config_prune`` leaves of the list under one specialisation."""
    arguments = _Arguments({parameter.name: parameter for parameter in site.parameters}, specialization)
    return project.prune(site, configs, arguments.launch_values(), target)


def without_value(site: Site, names: list[str], reasons: Mapping[str, Unknown] | None = None) -> Unknown:
    """What is said when constexprs stay without a value: which, why, and how to supply them."""
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    verb = "constexpr {} has" if len(names) == 1 else "constexprs {} have"
    known = [(name, reasons[name]) for name in names if reasons and name in reasons]
    why = "".join(f"; {name}: {unknown.reason}" for name, unknown in known)
    supply = (
        f"give {'one' if len(names) == 1 else 'them'} with --bind {names[0]}=…, in [tool.smemcheck.kernels.{site.kernel_name}] of pyproject.toml, "
        "or as a recorded specialisation (--specializations)"
    )
    position = known[0][1].position if known and known[0][1].position is not None else site.position
    return Unknown(f"{verb.format(listed)} no value{why}; {supply}", position)


def _named_options(config: Config) -> tuple[tuple[str, Value], ...]:
    """What ``Config.all_kwargs`` passes to the kernel besides its kwargs; a parameter of that name gets it."""
    named: tuple[tuple[str, Value], ...] = (
        ("num_warps", config.num_warps),
        ("num_stages", config.num_stages),
        ("num_ctas", config.num_ctas),
    )
    return named if config.maxnreg is None else (*named, ("maxnreg", config.maxnreg))


class _Arguments:
    """The arguments of one launch while they are being completed."""

    def __init__(self, parameters: Mapping[str, Parameter], specialization: Specialization) -> None:
        self.parameters = parameters
        self.signature: dict[str, Any] = dict(specialization.signature)
        self.constexprs: dict[str, Value] = dict(specialization.constexprs)
        self.divisible = set(specialization.divisible_by_16)
        self.numbers = dict(specialization.launch_values)

    def set(self, name: str, value: Value) -> None:
        argument = argument_of_value(value, self.parameters[name])
        self.signature[name] = argument.type
        self.constexprs.pop(name, None)
        self.divisible.discard(name)
        if argument.type == "constexpr":
            self.constexprs[name] = argument.value
        elif argument.divisible:
            self.divisible.add(name)

    def launch_values(self) -> dict[str, Any]:
        """What a heuristic sees: constants as they are, tensors with their dtype, other numbers unknown."""
        values: dict[str, Any] = {}
        for name, kind in self.signature.items():
            if name in self.constexprs:
                values[name] = self.constexprs[name]
            elif is_pointer(kind):
                dtype = _TORCH.get(kind.lstrip("*").removeprefix("k"))
                attributes = {} if dtype is None else {"dtype": External(f"torch.{dtype}")}
                values[name] = Instance(External("torch.Tensor"), attributes)
            elif name in self.numbers:
                values[name] = self.numbers[name]
            else:
                values[name] = Unknown(f"the value of {name} is known at the launch only")
        return values

    def resolve_descriptors(self, site: Site) -> Unknown | None:
        """Put numbers for the names in descriptors' block shapes."""
        for name, kind in self.signature.items():
            match = _DESCRIPTOR.fullmatch(kind) if isinstance(kind, str) else None
            if match is None:
                continue
            sizes = [self._size(part.strip()) for part in match[2].split(",")]
            if None in sizes:
                return Unknown(
                    f"the block shape of the tensor descriptor {name} is not known; give its type, such as "
                    f"--bind {name}='tensordesc<{match[1]}[128, 64]>'",
                    site.position,
                )
            self.signature[name] = f"tensordesc<{match[1]}[{', '.join(map(str, sizes))}]>"
        return None

    def _size(self, part: str) -> int | None:
        if part.isdigit():
            return int(part)
        value = self.constexprs.get(part)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def _apply_heuristics(
    site: Site,
    specialization: Specialization,
    config: Config,
    target: Target,
    project: Evaluates,
    arguments: _Arguments,
) -> dict[str, Unknown]:
    """Set what ``@triton.heuristics`` computes; the reasons for what could not be computed."""
    if isinstance(site.heuristics, Unknown):
        reason = f"the heuristics are not known: {site.heuristics.reason}"
        return {name: Unknown(reason, site.heuristics.position) for name in arguments.parameters}
    # A recorded value is that of the config the launch ran with: it stands only where the heuristic cannot be evaluated.
    fallback = specialization.recorded_line is not None and specialization.config is None
    overridden = {assumption.parameter for assumption in specialization.assumptions}
    given = {name for name, _ in specialization.constexprs if not fallback or name in overridden}
    reasons: dict[str, Unknown] = {}
    for heuristic in site.heuristics:
        name = heuristic.parameter
        if name in given or name not in arguments.parameters:
            continue
        values = {**arguments.launch_values(), **dict(config.kwargs), **dict(_named_options(config))}
        value = project.call(heuristic.function, values, target)
        if isinstance(value, Unknown):
            reason = f"its heuristic cannot be evaluated: {value.reason}"
            reasons[name] = Unknown(reason, value.position or heuristic.position)
        else:
            arguments.set(name, value)
    return reasons


def _in_slice(value: Value, kernel: Kernel | None) -> Value:
    """A function that is known by name only, as the function of the kernel's slice that has the name."""
    if isinstance(value, tuple):
        return tuple(_in_slice(item, kernel) for item in value)
    if kernel is None or not isinstance(value, FunctionValue) or value.index is not None:
        return value
    found = [index for index, function in enumerate(kernel.functions) if function.name == value.name]
    return FunctionValue(value.name, found[0]) if len(found) == 1 else value
