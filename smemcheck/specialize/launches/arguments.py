"""From a launch to a specialisation: Triton's type of each argument, constants, multiples of 16, and what was assumed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smemcheck.model import Assumption, AttributeValue, Config, Dtype, Parameter, Site, SiteKind, Unknown, Value
from smemcheck.source.freeze import freeze
from smemcheck.source.values import Instance, Obstacle
from smemcheck.specialize.dtypes import canonical_dtype, is_float, value_text
from smemcheck.specialize.given import Argument, argument_of_type, argument_of_value
from smemcheck.specialize.kinds import Kind, ParameterKind
from smemcheck.specialize.launches.configs import config_of
from smemcheck.specialize.launches.explorations import Recorded
from smemcheck.specialize.launches.plans import Plan
from smemcheck.specialize.launches.tensors import (
    DESCRIPTOR,
    GUESSED,
    GuessedFloat,
    GuessedNumber,
    Tensor,
    dtype_of,
    plain_number,
)

EXAMPLE_SIZES = "computed from example sizes"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What one launch says: arguments for the parameters it settles, and how many it leaves to the kernel's body."""

    arguments: Mapping[str, Argument]
    assumptions: tuple[Assumption, ...]
    unknown: int
    effort: float
    numbers: tuple[tuple[str, Value], ...] = ()  # plain numbers that the launch passes
    config: Config | None = None  # of a launch without an autotuner

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types and flags, numbers apart; of a fixed launch the config too."""
        return (
            self.config,
            *(
                (name, a.type, a.value if a.value is None or isinstance(a.value, (bool, str, Dtype)) else "number")
                for name, a in self.arguments.items()
            ),
        )

    @property
    def multiples(self) -> tuple[bool, ...]:
        """Which arguments are multiples of 16."""
        return tuple(argument.divisible for argument in self.arguments.values())

    @property
    def key(self) -> tuple[Any, ...]:
        values = tuple(
            (name, a.type, a.divisible, type(a.value).__name__, a.value) for name, a in self.arguments.items()
        )
        return (*values, self.config)


def propose(site: Site, recorded: Recorded, kinds: Mapping[str, ParameterKind], elsewhere: set[str]) -> Proposal:
    """The arguments of a launch. Values that are not known are left out."""
    launch = recorded.launch
    arguments: dict[str, Argument] = {}
    assumptions: list[Assumption] = []
    unknown = 0
    for parameter in site.parameters:
        name = parameter.name
        if name not in launch.arguments:
            if name in elsewhere and parameter.is_constexpr:
                continue
            if parameter.has_default and not isinstance(parameter.default, Unknown):
                arguments[name] = argument_of_value(parameter.default, parameter)
            else:
                unknown += 1
            continue
        value = launch.arguments[name]
        argument, because = _argument(value, parameter, kinds[name], recorded.plan)
        if argument is None and kinds[name].type == "*fp16" and recorded.plan.dtype == "torch.float32":
            argument, because = (
                argument_of_type("*fp32", parameter),
                "not known, and taken for a tensor like the others",
            )
        if argument is None:
            unknown += not (parameter.is_constexpr and name in elsewhere)
            continue
        arguments[name] = argument
        text = value_text(argument.value) if argument.type == "constexpr" else str(argument.type)
        assumptions.append(
            Assumption(
                name,
                sys.intern(text),
                sys.intern(
                    f"{because} in an example launch from {recorded.entry}()"
                ),  # one text for thousands of these
                launch.position,
                is_open=(isinstance(value, Tensor) and value.assumed) or isinstance(value, Obstacle),
            )
        )
    numbers = tuple(
        (n, plain_number(v)) for n, v in launch.arguments.items() if isinstance(v, (int, float)) and n in arguments
    )
    config = config_of(recorded) if site.kind is SiteKind.LAUNCH else None
    return Proposal(arguments, tuple(assumptions), unknown, recorded.effort, numbers, config)


def _argument(value: Any, parameter: Parameter, kind: ParameterKind, plan: Plan) -> tuple[Argument | None, str]:
    if isinstance(value, Obstacle):
        return None, ""
    if isinstance(value, Tensor):
        return _tensor_argument(value, parameter, kind, plan)
    if isinstance(value, (tuple, list)) and value and not parameter.is_constexpr:
        types = [dtype_of(v.dtype) if isinstance(v, Tensor) else None for v in value]
        names = [canonical_dtype(plan.dtype_path(t)) if t is not None else None for t in types]
        return (Argument(tuple(f"*{n}" for n in names)), "a tuple of tensors") if all(names) else (None, "")
    dtype = dtype_of(value)
    if dtype is not None:
        name = canonical_dtype(plan.dtype_path(dtype))
        return (Argument("constexpr", Dtype("i1" if name == "u1" else name)), "a dtype") if name else (None, "")
    if isinstance(value, Instance) and value.cls == DESCRIPTOR and not parameter.is_constexpr:
        return _descriptor_argument(value, plan), "a descriptor of a tensor"
    if isinstance(value, Instance) and "value" not in value.attributes:
        return None, ""
    frozen: Value | Unknown = freeze(value)
    if isinstance(frozen, Unknown) or (isinstance(frozen, AttributeValue) and frozen.path.startswith("torch.")):
        return None, ""
    if frozen is None and not parameter.is_constexpr:
        return Argument("constexpr", None), "not given"
    if isinstance(frozen, tuple) and not parameter.is_constexpr:
        return None, ""
    number = isinstance(frozen, (int, float)) and not isinstance(frozen, bool)
    no_number = kind.is_accessed or (isinstance(value, GuessedNumber) and kind.kind is Kind.POINTER)
    if (no_number or kind.kind is Kind.DESCRIPTOR) and isinstance(value, (GuessedNumber, GuessedFloat, bool)):
        return None, ""  # the caller's value is a tensor
    if isinstance(value, (GuessedNumber, GuessedFloat)):
        frozen = plain_number(value)
    return argument_of_value(frozen, parameter), EXAMPLE_SIZES if number else "computed"


def _descriptor_argument(value: Instance, plan: Plan) -> Argument | None:
    """The type of a tensor descriptor; ``None`` for a dummy block shape, which a config's hook replaces."""
    base, block = value.attributes.get("base"), value.attributes.get("block_shape")
    dtype = dtype_of(base.dtype) if isinstance(base, Tensor) else None
    name = canonical_dtype(plan.dtype_path(dtype)) if dtype is not None else None
    if name is None or not isinstance(block, (list, tuple)) or not all(isinstance(size, int) for size in block):
        return None
    if all(size == 1 for size in block):
        return None
    return Argument(f"tensordesc<{name}[{', '.join(map(str, block))}]>")


def _tensor_argument(
    value: Tensor, parameter: Parameter, kind: ParameterKind, plan: Plan
) -> tuple[Argument | None, str]:
    if parameter.is_constexpr:
        return None, ""
    guessed = GUESSED in value.attributes
    if kind.kind is not Kind.POINTER and (guessed or kind.kind is Kind.DESCRIPTOR):
        return None, ""
    body = kind.type.lstrip("*").removeprefix("k") if kind.kind is Kind.POINTER else ""
    dtype = dtype_of(value.dtype)
    if dtype is None:
        return None, ""
    if value.assumed and body and not is_float(body) and not value.integral:
        return None, ""
    name = canonical_dtype(plan.dtype_path(dtype))
    if name is None:
        return None, ""
    if value.given and body == "fp32" and name in ("fp16", "bf16"):
        return argument_of_type("*fp32", parameter), kind.because
    because = "a tensor whose dtype is the caller's choice" if value.assumed else "a tensor of this dtype"
    type_ = "*" + ("u1" if name == "u1" else name)
    return argument_of_type(type_, parameter), because
