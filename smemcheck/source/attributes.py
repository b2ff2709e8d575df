"""Attribute access on every kind of value."""

from __future__ import annotations

from typing import Any

from smemcheck.source.interpreter import Interpreter, type_name
from smemcheck.source.values import (
    BoundMethod,
    Builtin,
    ConfigValue,
    External,
    HeuristicsValue,
    Instance,
    KernelValue,
    ModuleValue,
    Obstacle,
    Partial,
    Place,
    Raised,
    Silent,
    TunerValue,
    UserClass,
    UserFunction,
)


def get_attribute(interpreter: Interpreter, value: Any, name: str, place: Place) -> Any:
    """``value.name``. Raises :class:`Raised` with ``AttributeError`` when it certainly does not exist."""
    if isinstance(value, Obstacle):
        return interpreter.derive(value, "attribute", name)
    if isinstance(value, Silent):
        return Silent(f"{value.path}.{name}")
    if isinstance(value, External):
        patched = interpreter.patched.get((value.path, name))
        return patched if patched is not None else interpreter.project.models.attribute(interpreter, value, name, place)
    if isinstance(value, ModuleValue):
        return module_attribute(interpreter, value, name, place)
    if isinstance(value, Instance):
        return _instance_attribute(interpreter, value, name, place)
    if isinstance(value, UserClass):
        return _class_attribute(interpreter, value, name, place)
    if isinstance(value, ConfigValue):
        if name in ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook", "ir_override"):
            return getattr(value, name)
        if name == "all_kwargs":
            return Builtin("Config.all_kwargs", lambda call: all_kwargs(value))
        raise _missing(value, name, place)
    if isinstance(value, (KernelValue, HeuristicsValue, TunerValue)):
        return _kernel_attribute(interpreter, value, name, place)
    if isinstance(value, (UserFunction, BoundMethod, Partial, Builtin)):
        return _function_attribute(value, name, place)
    method = interpreter.project.models.method(value, name)
    if method is not None:
        return method
    raise _missing(value, name, place)


def get_attribute_by_text(interpreter: Interpreter, value: Any, name: str, place: Place) -> Any:
    """``getattr(value, name)``: as :func:`get_attribute`, where the name need not stand in the source as a word."""
    if isinstance(value, ModuleValue):
        value.module.is_indivisible = True
    return get_attribute(interpreter, value, name, place)


def _missing(value: Any, name: str, place: Place) -> Raised:
    return Raised("AttributeError", f"'{type_name(value)}' object has no attribute '{name}'", place=place)


def all_kwargs(config: ConfigValue) -> Any:
    """What ``Config.all_kwargs()`` gives: the kwargs overlaid by the options that are not ``None`` (triton/runtime/autotuner.py)."""
    if isinstance(config.kwargs, Obstacle):
        return config.kwargs.again()
    options = {
        "num_warps": config.num_warps,
        "num_ctas": config.num_ctas,
        "num_stages": config.num_stages,
        "maxnreg": config.maxnreg,
        "ir_override": config.ir_override,
    }
    return {**config.kwargs, **{k: v for k, v in options.items() if v is not None}}


def module_attribute(interpreter: Interpreter, value: ModuleValue, name: str, place: Place) -> Any:
    """A name of an analysed module: one of its own, a submodule, or what its ``__getattr__`` gives."""
    module = value.module
    namespace = interpreter.namespace(module)
    try:
        return namespace.lookup(name)
    except KeyError:
        pass
    submodule = interpreter.project.submodule(module, name)
    if submodule is not None:
        return ModuleValue(submodule)
    try:
        fallback = namespace.lookup("__getattr__")
    except KeyError:
        raise Raised("AttributeError", f"module '{module.name}' has no attribute '{name}'", place=place) from None
    return interpreter.call(fallback, [name], {}, place)


def _bind(interpreter: Interpreter, found: Any, instance: Any, cls: UserClass, place: Place) -> Any:
    if isinstance(found, UserFunction):
        if found.qualifier == "staticmethod":
            return found
        if found.qualifier == "classmethod":
            return BoundMethod(found, cls)
        if found.qualifier in ("property", "cached_property") and instance is not None:
            result = interpreter.call(BoundMethod(found, instance), [], {}, place)
            if found.qualifier == "cached_property" and isinstance(instance, Instance):
                interpreter.set_attribute(instance.attributes, found.name, result)
            return result
        return BoundMethod(found, instance) if instance is not None else found
    return found


def _instance_attribute(interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
    if name in value.attributes:
        return value.attributes[name]
    if name == "__class__":
        return value.cls
    if isinstance(value.cls, UserClass) and value.cls.is_tuple and name in ("_replace", "_asdict", "index", "count"):
        return _tuple_method(interpreter, value, name)
    if name == "__dict__":
        return dict(value.attributes)
    if name == "__annotations__" and isinstance(value.cls, UserClass):
        return _class_attribute(interpreter, value.cls, name, place)
    if isinstance(value.cls, External):
        return interpreter.project.models.instance_attribute(interpreter, value, name, place)
    try:
        return _bind(interpreter, value.cls.lookup(name), value, value.cls, place)
    except KeyError:
        pass
    for base in value.cls.ancestry():
        if isinstance(base, External):
            inherited = interpreter.project.models.inherited(interpreter, value, base, name, place)
            if inherited is not None:
                return inherited
    try:
        fallback = value.cls.lookup("__getattr__")
    except KeyError:
        if any(isinstance(base, (External, Obstacle)) for base in value.cls.ancestry()):
            return Obstacle(f"{type_name(value)}.{name} may be inherited from outside the analysed source", place)
        raise _missing(value, name, place) from None
    return interpreter.call(BoundMethod(fallback, value), [name], {}, place)


def _tuple_method(interpreter: Interpreter, value: Instance, name: str) -> Any:
    if name == "_replace":
        return Builtin(name, lambda call: Instance(value.cls, {**value.attributes, **call.keywords}))
    if name == "_asdict":
        return Builtin(name, lambda call: dict(value.attributes))
    return interpreter.project.models.method(value.plain, name)


def _class_attribute(interpreter: Interpreter, value: UserClass, name: str, place: Place) -> Any:
    if name == "__name__":
        return value.name
    if name == "__annotations__":
        unknown = Obstacle("what an annotation says is not evaluated", place)
        return dict.fromkeys(value.annotations, unknown)
    if name == "__members__" and value.kind == "enum":
        return {k: v for k, v in value.namespace.items() if isinstance(v, Instance) and v.cls is value}
    try:
        return _bind(interpreter, value.lookup(name), None, value, place)
    except KeyError:
        pass
    for base in value.ancestry():
        if isinstance(base, (External, Obstacle)) and base not in (External("enum.Enum"), External("builtins.object")):
            return Obstacle(f"{value.name}.{name} may be inherited from outside the analysed source", place)
    raise Raised("AttributeError", f"type object '{value.name}' has no attribute '{name}'", place=place)


def _function_attribute(value: Any, name: str, place: Place) -> Any:
    inner = value
    while isinstance(inner, (BoundMethod, Partial)):
        if isinstance(inner, Partial) and name in ("func", "args", "keywords"):
            return {"func": inner.function, "args": inner.arguments, "keywords": dict(inner.keywords)}[name]
        if isinstance(inner, BoundMethod) and name == "__self__":
            return inner.instance
        inner = inner.function
    if isinstance(inner, UserFunction):
        if name in ("setter", "getter", "deleter") and inner.qualifier == "property":
            return Builtin(name, lambda call: inner)
        if name in inner.attributes:
            return inner.attributes[name]
        if name in ("__name__", "__qualname__"):
            return inner.name
        if name == "__module__":
            return inner.module.name
        if name == "__wrapped__":
            return inner
        if name in ("cache_clear", "cache_info"):
            return Builtin(name, lambda call: None)
        if name in ("__doc__", "__code__", "__globals__", "__defaults__", "__dict__", "__annotations__", "__closure__"):
            return Obstacle(f"a function's {name} is not modelled", place)
    elif isinstance(inner, Builtin):
        if name == "__name__":
            return inner.name.rpartition(".")[2]
        return Obstacle(f"{inner.name}.{name} is not modelled", place)
    raise Raised("AttributeError", f"'function' object has no attribute '{name}'", place=place)


def innermost_kernel(value: Any) -> Any:
    """The ``@triton.jit`` function under heuristics and tuners."""
    while True:
        if isinstance(value, (HeuristicsValue, TunerValue)):
            value = value.kernel
        elif isinstance(value, Instance) and isinstance(value.cls, UserClass) and "fn" in value.attributes:
            value = value.attributes["fn"]
        else:
            return value


def _kernel_attribute(interpreter: Interpreter, value: Any, name: str, place: Place) -> Any:
    if isinstance(value, TunerValue):
        if name in value.attributes:
            return value.attributes[name]
        if name in ("fn", "base_fn"):
            return value.kernel if name == "fn" else innermost_kernel(value)
    if isinstance(value, HeuristicsValue) and name in ("fn", "values"):
        return value.kernel if name == "fn" else value.values
    kernel = innermost_kernel(value)
    if not isinstance(kernel, KernelValue):
        return Obstacle(f"{name} of an unknown kernel is not known", place)
    if name in ("arg_names", "params") and isinstance(value, (KernelValue, HeuristicsValue)):
        from smemcheck.source.kernels import parameter_names

        names = parameter_names(kernel)
        return names if name == "arg_names" else Obstacle("params of a kernel are not modelled", place)
    if name in ("__name__", "__qualname__"):
        return kernel.function.name
    if name == "__module__":
        return kernel.function.module.name
    if name == "fn":
        return kernel.function
    if name in ("run", "warmup", "__getitem__"):
        return Builtin(f"{kernel.function.name}.{name}", lambda call: call.unknown("a kernel launch gives no value"))
    return Obstacle(f"{name} of a kernel is not modelled", place)
