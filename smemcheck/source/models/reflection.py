"""Builtins that ask a value what it is: attributes, types, classes."""

from __future__ import annotations

from typing import Any

from smemcheck.source.attributes import get_attribute_by_text
from smemcheck.source.interpreter import is_callable, type_name
from smemcheck.source.operations import is_data, is_hashable
from smemcheck.source.targets import set_attribute
from smemcheck.source.values import (
    Builtin,
    Call,
    ConfigValue,
    External,
    HeuristicsValue,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Raised,
    Silent,
    TunerValue,
    UserClass,
    first_obstacle,
)

PLAIN_TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "bytes": bytes,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "range": range,
    "complex": complex,
    "slice": slice,
}


def get(call: Call) -> Any:
    """``getattr(…)``."""
    owner, name = call.arguments[0], call.argument(1, "name")
    if isinstance(name, Obstacle):
        return name.again()
    if len(call.arguments) > 2:
        present = has_attribute(call, owner, name)
        if isinstance(present, Obstacle):
            present = call.interpreter.decide(present)
        if not present:
            return call.arguments[2]
    return get_attribute_by_text(call.interpreter, owner, name, call.place)


def has_attribute(call: Call, owner: Any, name: str) -> bool | Obstacle:
    """``hasattr(owner, name)``."""
    if isinstance(owner, Obstacle):
        return call.interpreter.derive(owner, "hasattr", name)
    if isinstance(owner, External):
        if (owner.path, name) in call.interpreter.patched:
            return True
        known = call.interpreter.project.models.has(call.interpreter, owner.path, name)
        return (
            known
            if known is not None
            else call.interpreter.project.models.installation(call.interpreter, f"{owner.path}.{name}", call.place)
        )
    try:
        found = get_attribute_by_text(call.interpreter, owner, name, call.place)
    except Raised as raised:
        if raised.name == "AttributeError":
            return False
        raise
    return (
        call.unknown(f"whether it has '{name}': {found.reason}")
        if isinstance(found, Obstacle) and isinstance(owner, Instance) and name not in owner.attributes
        else True
    )


def has(call: Call) -> Any:
    """``hasattr(…)``."""
    name = call.argument(1, "name")
    return name.again() if isinstance(name, Obstacle) else has_attribute(call, call.arguments[0], name)


def set_(call: Call) -> Any:
    """``setattr(…)``."""
    owner, name, value = call.arguments[:3]
    if isinstance(name, str):
        if isinstance(owner, ModuleValue):
            owner.module.is_indivisible = True
        set_attribute(call.interpreter, owner, name, value, call.place)
    return None


def is_instance(call: Call) -> Any:
    """``isinstance(…)``; unknown when a class of it is."""
    value, classes = call.arguments[0], call.argument(1, "class_or_tuple")
    if isinstance(value, Obstacle):
        return call.interpreter.derive(value, "isinstance")
    open_: Obstacle | None = None
    for cls in classes if isinstance(classes, tuple) else (classes,):
        known = instance_of(call, value, cls)
        if known is True:
            return True
        if isinstance(known, Obstacle):
            open_ = open_ or known
    return open_ if open_ is not None else False


def instance_of(call: Call, value: Any, cls: Any) -> bool | Obstacle:
    """Whether ``value`` is an instance of one class."""
    if isinstance(cls, Obstacle):
        return cls.again()
    if isinstance(cls, tuple):
        answers = [instance_of(call, value, c) for c in cls]
        return True if True in answers else first_obstacle(*answers) or False
    if isinstance(cls, Builtin):
        kind = PLAIN_TYPES.get(cls.name)
        if kind is not None:
            return isinstance(value.plain if isinstance(value, Instance) else value, kind)
        return (
            isinstance(value, (UserClass, External))
            if cls.name == "type"
            else call.unknown(f"isinstance of {cls.name}")
        )
    if isinstance(cls, UserClass):
        return isinstance(value, Instance) and isinstance(value.cls, UserClass) and cls in value.cls.ancestry()
    if isinstance(cls, External):
        return _instance_of_external(call, value, cls)
    return call.unknown("isinstance of this class is not modelled")


def _instance_of_external(call: Call, value: Any, cls: External) -> bool | Obstacle:
    path = call.interpreter.project.models.canonical(cls.path)
    last = path.rpartition(".")[2]
    if path == "triton.Config":
        return isinstance(value, ConfigValue)
    if last in ("JITFunction", "KernelInterface"):
        return isinstance(value, KernelValue) or (
            last == "KernelInterface" and isinstance(value, (TunerValue, HeuristicsValue))
        )
    if last in ("Autotuner", "Heuristics"):
        return isinstance(value, TunerValue if last == "Autotuner" else HeuristicsValue)
    if last in ("Callable", "FunctionType"):
        return is_callable(value)
    if last in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Hashable", "Number", "Integral", "NoneType"):
        kinds: dict[str, tuple[type, ...]] = {
            "Mapping": (dict,),
            "MutableMapping": (dict,),
            "Sequence": (list, tuple, str, range),
            "Iterable": (list, tuple, dict, set, str, range),
            "Number": (int, float),
            "Integral": (int,),
            "NoneType": (type(None),),
        }
        return isinstance(value, kinds[last]) if last in kinds else is_hashable(value)
    if isinstance(value, Instance) and isinstance(value.cls, External):
        if value.cls.path == "torch.Tensor" and path in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return False  # code that tells parameters apart takes their data
        return value.cls.path == path or call.unknown(f"whether a {value.cls.path} is a {path} is not known")
    if isinstance(value, Instance):
        return cls in value.cls.ancestry() if isinstance(value.cls, UserClass) else False
    if isinstance(value, (External, Silent)):
        return call.unknown(f"whether {value.path} is a {path} is not known")
    return False


def is_subclass(call: Call) -> Any:
    """``issubclass(…)``."""
    first, second = call.arguments[0], call.arguments[1]
    if isinstance(first, UserClass):
        return second in first.ancestry()
    return call.unknown("issubclass of this is not modelled")


def type_of(call: Call) -> Any:
    """``type(x)``."""
    value = call.arguments[0]
    if len(call.arguments) != 1:
        return call.unknown("classes made by type() are not modelled")
    if isinstance(value, Obstacle):
        return value.again()
    if isinstance(value, Instance):
        return value.cls
    if type(value).__name__ in PLAIN_TYPES and is_data(value):
        return call.interpreter.project.models.builtin(type(value).__name__)
    return External(f"builtins.{type_name(value)}")


def can_call(call: Call) -> Any:
    """``callable(x)``."""
    value = call.arguments[0]
    if isinstance(value, Obstacle):
        return value.again()
    return is_callable(value) or (
        call.unknown("whether it can be called") if isinstance(value, (External, Silent)) else False
    )
