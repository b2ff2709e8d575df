"""The standard library as config code uses it: the environment, platform, math, itertools, functools, dataclasses, enum."""

from __future__ import annotations

import itertools
import math
import os.path
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import libcst as cst

from smemcheck.source.interpreter import Interpreter, iterate
from smemcheck.source.operations import BINARY, binary, compare, equal, guarded, is_data, subscript
from smemcheck.source.values import (
    Builtin,
    Call,
    DefaultDict,
    External,
    Instance,
    Obstacle,
    Partial,
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


# -------------------------------------------------------------------------------------------------- itertools


def _columns(call: Call) -> list[list[Any]] | Obstacle:
    found = []
    for argument in call.arguments:
        elements = iterate(call.interpreter, argument, call.place)
        if isinstance(elements, Obstacle):
            return elements.again()
        found.append(list(elements))
    return found


def _product(call: Call) -> Any:
    columns = _columns(call)
    if isinstance(columns, Obstacle):
        return columns
    repeat = call.keywords.get("repeat", 1)
    if not isinstance(repeat, int):
        return call.unknown("the repeat of a product is not known")
    columns = columns * min(max(repeat, 0), 64)
    call.interpreter.check_size(math.prod(map(len, columns)), call.place)
    return list(itertools.product(*columns))


def _chain(call: Call) -> Any:
    columns = _columns(call)
    return columns if isinstance(columns, Obstacle) else list(itertools.chain(*columns))


def _chain_from(call: Call) -> Any:
    outer = iterate(call.interpreter, call.arguments[0], call.place)
    if isinstance(outer, Obstacle):
        return outer.again()
    return _chain(Call(call.interpreter, list(outer), {}, call.place))


def _combinations(function: Callable[..., Any]) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        elements, count = iterate(call.interpreter, call.arguments[0], call.place), call.argument(1, "r")
        if isinstance(elements, Obstacle):
            return elements.again()
        pool = list(elements)
        if not isinstance(count, int) or count < 0:
            return call.unknown("how many elements are combined is not known")
        call.interpreter.check_size(math.perm(len(pool), min(count, len(pool))), call.place)
        return list(function(pool, count))

    return model


def _islice(call: Call) -> Any:
    elements = iterate(call.interpreter, call.arguments[0], call.place)
    if obstacle := first_obstacle(elements, *call.arguments[1:]):
        return obstacle
    return list(itertools.islice(elements, *call.arguments[1:]))  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- functools


def _reduce(call: Call) -> Any:
    elements = iterate(call.interpreter, call.arguments[1], call.place)
    if isinstance(elements, Obstacle):
        return elements.again()
    values = list(elements)
    if len(call.arguments) > 2:
        values.insert(0, call.arguments[2])
    if not values:
        raise Raised("TypeError", "reduce() of empty iterable with no initial value", place=call.place)
    total = values[0]
    for value in values[1:]:
        total = call.interpreter.call(call.arguments[0], [total, value], {}, call.place)
    return total


def _partial(call: Call) -> Any:
    if call.open is not None:
        return call.open.again()
    return Partial(call.arguments[0], tuple(call.arguments[1:]), dict(call.keywords))


def _transparent(call: Call) -> Any:
    """A decorator, or a decorator factory, that keeps what the function computes (``lru_cache``, ``wraps(f)``)."""
    if (
        len(call.arguments) == 1
        and isinstance(call.arguments[0], (UserFunction, Partial, UserClass))
        and not call.keywords
    ):
        return call.arguments[0]
    return Builtin("decorator", lambda inner: inner.arguments[0])


def _wraps(call: Call) -> Any:
    return Builtin("wraps", lambda inner: inner.arguments[0])


def _cached_property(call: Call) -> Any:
    import dataclasses

    function = call.arguments[0]
    return (
        dataclasses.replace(function, qualifier="cached_property") if isinstance(function, UserFunction) else function
    )


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


def _operator(name: str, kind: type[cst.CSTNode]) -> Callable[[Call], Any]:
    return lambda call: binary(call.interpreter, kind, call.arguments[0], call.arguments[1], call.place)


def _ordering(kind: type[cst.CSTNode]) -> Callable[[Call], Any]:
    return lambda call: compare(call.interpreter, kind, call.arguments[0], call.arguments[1], call.place)


def _equality(wanted: bool) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        same = equal(call.interpreter, call.arguments[0], call.arguments[1], call.place)
        return same if isinstance(same, Obstacle) else same == wanted

    return model


def _itemgetter(call: Call) -> Any:
    keys = call.arguments

    def get(inner: Call) -> Any:
        found = [subscript(inner.interpreter, inner.arguments[0], k, inner.place) for k in keys]
        return found[0] if len(found) == 1 else tuple(found)

    return Builtin("itemgetter", get)


def _attrgetter(call: Call) -> Any:
    from smemcheck.source.attributes import get_attribute

    def get(inner: Call) -> Any:
        value = inner.arguments[0]
        for name in call.arguments[0].split("."):
            value = get_attribute(inner.interpreter, value, name, inner.place)
        return value

    return Builtin("attrgetter", get)


def _defaultdict(call: Call) -> Any:
    filled = call.interpreter.call(
        call.interpreter.project.models.builtin("dict"), call.arguments[1:], call.keywords, call.place, call.open
    )
    return filled if isinstance(filled, Obstacle) else DefaultDict(call.argument(0, "default_factory"), filled)


def _namedtuple(call: Call) -> Any:
    """``collections.namedtuple``: a class like one that inherits from ``typing.NamedTuple``."""
    name, fields = call.argument(0, "typename"), call.argument(1, "field_names")
    defaults = call.keywords.get("defaults") or ()
    names = fields.replace(",", " ").split() if isinstance(fields, str) else fields
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names) or not isinstance(name, str):
        return call.unknown("the fields of a namedtuple are not known")
    if not isinstance(defaults, (list, tuple)) or set(call.keywords) - {"typename", "field_names", "defaults"}:
        return call.unknown("a namedtuple in this form is not modelled")
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)) if defaults else {}
    bases = (External("typing.NamedTuple"),)
    return UserClass(name, call.place.unit.module, bases, given, dict.fromkeys(names, False), "dataclass")


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


def _counter_free(call: Call) -> Any:
    return [*iterate(call.interpreter, call.arguments[0], call.place)] if call.arguments else []  # type: ignore[misc]


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


_ORDERINGS: dict[str, type[cst.CSTNode]] = {
    "lt": cst.LessThan,
    "le": cst.LessThanEqual,
    "gt": cst.GreaterThan,
    "ge": cst.GreaterThanEqual,
}
_BINARY_OPERATORS: dict[str, type[cst.CSTNode]] = {
    "add": cst.Add,
    "sub": cst.Subtract,
    "mul": cst.Multiply,
    "floordiv": cst.FloorDivide,
    "truediv": cst.Divide,
    "mod": cst.Modulo,
}
assert set(_BINARY_OPERATORS.values()) <= set(BINARY)

FUNCTIONS: dict[str, Callable[[Call], Any]] = {
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
    "itertools.product": _product,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_from,
    "itertools.combinations": _combinations(itertools.combinations),
    "itertools.permutations": _combinations(itertools.permutations),
    "itertools.islice": _islice,
    "functools.reduce": _reduce,
    "functools.partial": _partial,
    "functools.lru_cache": _transparent,
    "functools.cache": _transparent,
    "functools.wraps": _wraps,
    "functools.cached_property": _cached_property,
    "functools.update_wrapper": lambda call: call.arguments[0],
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
    **{f"operator.{n}": _operator(n, k) for n, k in _BINARY_OPERATORS.items()},
    **{f"operator.{name}": _ordering(kind) for name, kind in _ORDERINGS.items()},
    "operator.eq": _equality(wanted=True),
    "operator.ne": _equality(wanted=False),
    "operator.itemgetter": _itemgetter,
    "operator.attrgetter": _attrgetter,
    "collections.defaultdict": _defaultdict,
    "collections.namedtuple": _namedtuple,
    "collections.OrderedDict": lambda call: call.interpreter.call(
        call.interpreter.project.models.builtin("dict"), call.arguments, call.keywords, call.place
    ),
    "collections.deque": _counter_free,
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
