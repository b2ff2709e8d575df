"""The standard library as config code uses it: the environment, platform, math, dataclasses, enum and others."""

from __future__ import annotations

import math
import os.path
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.models import functional
from smemcheck.source.operations import guarded, is_data
from smemcheck.source.values import (
    Builtin,
    Call,
    DefaultDict,
    External,
    Instance,
    Obstacle,
    Raised,
    Silent,
    UserClass,
    UserFunction,
    first_obstacle,
)

# ------------------------------------------------------------------------------------------------- environment


def environment_get(call: Call) -> Any:
    """``os.getenv``: variables are unset unless the user gave them."""
    name = call.argument(0, "key")
    if isinstance(name, Obstacle):
        return name.again()
    return call.interpreter.environment.get(name, call.argument(1, "default"))


# ------------------------------------------------------------------------------------------------------- math


def _math(name: str) -> Callable[[Call], Any]:
    function = getattr(math, name)

    def model(call: Call) -> Any:
        if obstacle := first_obstacle(*call.arguments, call.open):
            return obstacle
        if not all(is_data(a) for a in call.arguments):
            return call.unknown(f"math.{name}() of such an argument is not modelled")
        if name in ("factorial", "comb", "perm") and any(isinstance(a, int) and a > 500 for a in call.arguments):
            return call.unknown(f"math.{name}() of so large a number is not evaluated")
        return guarded(lambda: function(*call.arguments, **call.keywords), call.place)

    return model


# ------------------------------------------------------------------------------------- dataclasses, enum, copy


def _dataclass(call: Call) -> Any:
    def mark(cls: Any) -> Any:
        if isinstance(cls, UserClass):
            cls.kind = "dataclass"
            cls.frozen = call.keywords.get("frozen") is True
        return cls

    if call.arguments:
        return mark(call.arguments[0])
    return Builtin("dataclass", lambda inner: mark(inner.arguments[0]))


def _field(call: Call) -> Any:
    attributes: dict[str, Any] = {"default_factory": call.keywords.get("default_factory")}
    attributes["default"] = call.keywords.get("default", call.unknown("the field has no default"))
    return Instance(External("dataclasses.Field"), attributes)


def _replace(call: Call) -> Any:
    value = call.arguments[0]
    if isinstance(value, Instance):
        return Instance(value.cls, {**value.attributes, **call.keywords})
    return call.unknown("dataclasses.replace() of this is not modelled")


def _asdict(call: Call) -> Any:
    value = call.arguments[0]
    return dict(value.attributes) if isinstance(value, Instance) else call.unknown("asdict() of this is not modelled")


def _fields(call: Call) -> Any:
    from smemcheck.source.calls import dataclass_fields

    value = call.arguments[0]
    cls = value.cls if isinstance(value, Instance) else value
    if isinstance(cls, UserClass):
        return [Instance(External("dataclasses.Field"), {"name": n}) for n in dataclass_fields(cls)]
    return call.unknown("fields() of this is not modelled")


def deep_copy(value: Any) -> Any:
    """A copy of plain containers, of config objects and of instances, all the way down."""
    from smemcheck.source.values import ConfigValue

    if isinstance(value, (list, tuple, set)):
        return type(value)(deep_copy(v) for v in value)
    if isinstance(value, DefaultDict):
        return DefaultDict(value.factory, {k: deep_copy(v) for k, v in value.items()})
    if isinstance(value, dict):
        return {k: deep_copy(v) for k, v in value.items()}
    if isinstance(value, ConfigValue):
        return ConfigValue(
            deep_copy(value.kwargs),
            value.num_warps,
            value.num_stages,
            value.num_ctas,
            value.maxnreg,
            value.pre_hook,
            value.ir_override,
            value.place,
        )
    if isinstance(value, Instance) and isinstance(value.cls, UserClass) and value.cls.kind != "enum":
        return Instance(value.cls, {k: deep_copy(v) for k, v in value.attributes.items()})
    return value


def _copy(call: Call) -> Any:
    from smemcheck.source.values import ConfigValue

    value = call.arguments[0]
    if isinstance(value, ConfigValue):
        return ConfigValue(
            value.kwargs,
            value.num_warps,
            value.num_stages,
            value.num_ctas,
            value.maxnreg,
            value.pre_hook,
            value.ir_override,
            value.place,
        )
    if isinstance(value, (list, dict, set)):
        return value.copy()
    if isinstance(value, Instance) and isinstance(value.cls, UserClass):
        return Instance(value.cls, dict(value.attributes))
    return value


def _signature(call: Call) -> Any:
    value = call.arguments[0]
    if isinstance(value, External):
        names = call.interpreter.project.models.parameters(call.interpreter, value.path)
    elif isinstance(value, UserFunction):
        parameters = value.node.params
        every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
        names = [p.name.value for p in every]
    else:
        names = None
    if names is None:
        return call.unknown("the signature is not known")
    return Instance(External("inspect.Signature"), {"parameters": dict.fromkeys(names, External("inspect.Parameter"))})


def _uname(call: Call) -> Any:
    """``platform.uname()``: a named tuple."""
    world = call.interpreter.world
    fields = {
        "system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[world.platform],
        "node": "localhost",
        "release": world.release,
        "version": world.release,
        "machine": world.machine,
    }
    bases = (External("typing.NamedTuple"),)
    cls = UserClass("uname_result", call.place.unit.module, bases, {}, dict.fromkeys(fields, False), "dataclass")
    return Instance(cls, fields)


def _path_function(name: str) -> Callable[[Call], Any]:
    function = getattr(os.path, name)

    def model(call: Call) -> Any:
        if obstacle := first_obstacle(*call.arguments):
            return obstacle
        if not all(isinstance(a, (str, PurePosixPath)) for a in call.arguments):
            return call.unknown(f"os.path.{name}() of something that is no text")
        return function(*map(str, call.arguments))

    return model


def _exists(call: Call) -> Any:
    from smemcheck.source.models.libraries import safe_attribute

    path = call.arguments[0]
    if isinstance(path, Obstacle):
        return path.again()
    return call.interpreter.call(safe_attribute(PurePosixPath(str(path)), "exists"), [], {}, call.place)


def _silent(path: str) -> Callable[[Call], Any]:
    return lambda call: Silent(path)


def _cast(call: Call) -> Any:
    return call.argument(1, "val")


def _find_spec(call: Call) -> Any:
    name = call.argument(0, "name")
    if not isinstance(name, str):
        return call.unknown("which module is looked for is not known")
    models = call.interpreter.project.models
    known = models.installed(call.interpreter, name)
    if known is None:
        known = call.interpreter.decide(models.installation(call.interpreter, name, call.place))
    return Silent(f"spec of {name}") if known else None


def _version_of(call: Call) -> Any:
    name = call.argument(0, "distribution_name")
    versions = call.interpreter.world.versions
    if isinstance(name, str) and name in versions:
        return versions[name]
    own = call.interpreter.project.distribution_version(call.place.unit.module, name) if isinstance(name, str) else None
    if own is not None:
        return own
    if isinstance(name, str):
        models = call.interpreter.project.models
        if call.interpreter.guarded and not call.interpreter.decide(
            models.installation(call.interpreter, name, call.place)
        ):
            raise Raised("PackageNotFoundError", name, place=call.place)
    return call.unknown(f"the installed version of {name if isinstance(name, str) else 'a package'} is not known")


def _import_module(call: Call) -> Any:
    from smemcheck.source.imports import find
    from smemcheck.source.values import Frame

    name, package = call.argument(0, "name"), call.argument(1, "package")
    if obstacle := first_obstacle(name, package):
        return obstacle
    if not isinstance(name, str) or (name.startswith(".") and not isinstance(package, str)):
        return call.unknown("which module is imported is not known")
    absolute = (
        package.rsplit(".", len(name) - len(name.lstrip(".")) - 1)[0] + "." + name.lstrip(".")
        if name.startswith(".")
        else name
    )
    return find(call.interpreter, absolute, Frame(call.place.unit, call.place.unit.module, kind="module"), call.place)


def _abstract(call: Call) -> Any:
    return call.arguments[0]


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    **functional.FUNCTIONS,
    "os.getenv": environment_get,
    "os.path.exists": _exists,
    "os.path.isfile": _exists,
    "os.path.isdir": _exists,
    **{
        f"os.path.{n}": _path_function(n)
        for n in ("join", "dirname", "basename", "splitext", "abspath", "realpath", "normpath")
    },
    "os.fspath": lambda call: str(call.arguments[0]),
    "os.cpu_count": lambda call: call.unknown("the user's machine is not known"),
    **{f"math.{n}": _math(n) for n in dir(math) if callable(getattr(math, n)) and not n.startswith("_")},
    "dataclasses.dataclass": _dataclass,
    "dataclasses.field": _field,
    "dataclasses.replace": _replace,
    "dataclasses.asdict": _asdict,
    "dataclasses.fields": _fields,
    "enum.auto": lambda call: Instance(External("enum.auto")),
    "enum.unique": _abstract,
    "copy.copy": _copy,
    "copy.deepcopy": lambda call: deep_copy(call.arguments[0]),
    "inspect.signature": _signature,
    "inspect.unwrap": _abstract,
    "inspect.isfunction": lambda call: isinstance(call.arguments[0], UserFunction),
    "contextlib.suppress": lambda call: Instance(External("contextlib.suppress"), {"types": tuple(call.arguments)}),
    "contextlib.nullcontext": _silent("contextlib.nullcontext()"),
    "logging.getLogger": _silent("logger"),
    "warnings.warn": lambda call: None,
    "warnings.filterwarnings": lambda call: None,
    "warnings.simplefilter": lambda call: None,
    "typing.cast": _cast,
    "typing.TypeVar": _silent("TypeVar"),
    "typing.overload": _abstract,
    "typing.final": _abstract,
    "abc.abstractmethod": _abstract,
    "importlib.util.find_spec": _find_spec,
    "importlib.metadata.version": _version_of,
    "importlib.import_module": _import_module,
    "importlib.metadata.entry_points": lambda call: [],
    "platform.system": lambda call: {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[
        call.interpreter.world.platform
    ],
    "platform.machine": lambda call: call.interpreter.world.machine,
    "platform.uname": _uname,
    "types.SimpleNamespace": lambda call: Instance(External("types.SimpleNamespace"), dict(call.keywords)),
    "types.MappingProxyType": lambda call: call.arguments[0],
    "threading.Lock": _silent("lock"),
    "threading.RLock": _silent("lock"),
    "threading.local": _silent("local"),
    **{
        f"traceback.{n}": lambda call: call.unknown("where the program stands is not known")
        for n in ("format_stack", "format_exc", "print_exc", "print_stack", "extract_stack")
    },
    "time.time": lambda call: call.unknown("the time is not known"),
    "time.perf_counter": lambda call: call.unknown("the time is not known"),
    "atexit.register": lambda call: None,
    "gc.collect": lambda call: None,
}
CONSTANTS: dict[str, Callable[[Interpreter], Any]] = {
    "math.pi": lambda interpreter: math.pi,
    "math.e": lambda interpreter: math.e,
    "math.tau": lambda interpreter: math.tau,
    "math.inf": lambda interpreter: math.inf,
    "math.nan": lambda interpreter: math.nan,
    "os.environ": lambda interpreter: interpreter.environment,
    "sys.platform": lambda interpreter: interpreter.world.platform,
    "sys.version_info": lambda interpreter: tuple(
        map(int, interpreter.world.versions.get("python", "3.11.0").split(".")[:3])
    ),
    "sys.maxsize": lambda interpreter: sys.maxsize,
    "sys.modules": lambda interpreter: External("sys.modules"),
    "sys.argv": lambda interpreter: Obstacle("the command line is not known"),
    "os.name": lambda interpreter: "nt" if interpreter.world.platform == "win32" else "posix",
    "os.sep": lambda interpreter: "/",
    "typing.TYPE_CHECKING": lambda interpreter: False,
}
SILENT = ("logging", "traceback", "warnings")
