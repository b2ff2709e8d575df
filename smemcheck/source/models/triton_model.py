"""Triton's host side: ``Config``, ``autotune``, ``heuristics``, ``jit``, the active driver, and what its modules hold.

Signatures: triton/runtime/autotuner.py and triton/runtime/jit.py of 3.4 to 3.9. Which names a module of Triton has is read
from the installed Triton's source files, as text.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.models.torch_model import fact
from smemcheck.source.values import (
    Builtin,
    Call,
    ConfigValue,
    External,
    HeuristicsValue,
    Instance,
    KernelValue,
    Obstacle,
    Place,
    Raised,
    TunerValue,
    UserFunction,
)

CONFIG = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook", "ir_override")
AUTOTUNE = (
    "configs",
    "key",
    "prune_configs_by",
    "reset_to_zero",
    "restore_value",
    "pre_hook",
    "post_hook",
    "warmup",
    "rep",
    "use_cuda_graph",
    "do_bench",
    "cache_results",
)
_AUTOTUNER = (
    "fn",
    "arg_names",
    "configs",
    "key",
    "reset_to_zero",
    "restore_value",
    "pre_hook",
    "post_hook",
    "prune_configs_by",
    "warmup",
    "rep",
    "use_cuda_graph",
    "do_bench",
    "cache_results",
)
ALIASES = (
    ("triton.runtime.autotuner.", "triton."),
    ("triton.runtime.jit.", "triton."),
    ("triton.language.core.", "triton.language."),
    ("triton.language.standard.", "triton.language."),
    ("triton.runtime.Config", "triton.Config"),
    ("triton.runtime.autotune", "triton.autotune"),
    ("triton.runtime.heuristics", "triton.heuristics"),
    ("triton.runtime.jit", "triton.jit"),
    ("triton.runtime.Autotuner", "triton.Autotuner"),
    ("triton.runtime.JITFunction", "triton.JITFunction"),
    ("triton.runtime.driver.driver", "triton.runtime.driver"),
    ("triton.compiler.compiler.", "triton.compiler."),
)


def _config(call: Call) -> Any:
    if call.open is not None:
        return call.open.again()
    defaults: dict[str, Any] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
    for name in call.keywords:
        if name not in CONFIG:
            raise Raised(
                "TypeError", f"Config.__init__() got an unexpected keyword argument '{name}'", place=call.place
            )
    given = {name: call.argument(i, name, defaults.get(name)) for i, name in enumerate(CONFIG)}
    return ConfigValue(**given, place=call.place)


def _autotune(call: Call) -> Any:
    """``triton.autotune(configs, key, …)`` gives a decorator."""
    options = {name: call.argument(i, name) for i, name in enumerate(AUTOTUNE)}

    def decorator(inner: Call) -> Any:
        return make_tuner(inner.interpreter, inner.argument(0, "fn"), options, call.place)

    return Builtin("triton.autotune(…)", decorator)


def foreign_tuner(call: Call, path: str) -> Any:
    """A decorator of a library that is not at hand, called like ``triton.autotune``: taken to tune over its ``configs``."""
    call.interpreter.note(
        f"{path}() is not at hand and is taken to tune over the configs it is given, as triton.autotune does"
    )
    return _autotune(Call(call.interpreter, [], call.keywords, call.place, call.open))


def make_tuner(
    interpreter: Interpreter, kernel: Any, options: dict[str, Any], place: Place, instance: Instance | None = None
) -> TunerValue:
    """An Autotuner over a kernel, as its constructor leaves it, recorded as found."""
    configs = options.get("configs")
    if configs is None or configs == []:
        configs = [ConfigValue({}, 4, 3, 1, None, None, None, place)]
    attributes = {**options, "configs": configs, "keys": options.get("key")}
    tuner = TunerValue(kernel, attributes, place, instance)
    interpreter.tuners.append(tuner)
    return tuner


def construct_autotuner(call: Call, instance: Instance) -> None:
    """``Autotuner.__init__`` of a subclass in the analysed source: the instance gets the attributes and is recorded."""
    options = {name: call.argument(i, name) for i, name in enumerate(_AUTOTUNER)}
    kernel = options.pop("fn")
    tuner = make_tuner(call.interpreter, kernel, options, call.place, instance)
    instance.attributes.update(
        {
            "fn": kernel,
            "configs": tuner.attributes["configs"],
            "keys": options.get("key"),
            "arg_names": options.get("arg_names"),
            "reset_to_zero": options.get("reset_to_zero") or [],
            "restore_value": options.get("restore_value") or [],
            "user_defined_pre_hook": bool(options.get("pre_hook")),
            "user_defined_post_hook": bool(options.get("post_hook")),
            "cache": {},
            "cache_results": options.get("cache_results"),
            "early_config_prune": None,
            "perf_model": None,
        }
    )
    tuner.attributes = instance.attributes


def _autotuner(call: Call) -> Any:
    """``Autotuner(fn, arg_names, configs, key, …)``, without the decorator around it."""
    options = {name: call.argument(i, name) for i, name in enumerate(_AUTOTUNER)}
    return make_tuner(call.interpreter, options.pop("fn"), options, call.place)


def _heuristics(call: Call) -> Any:
    values = call.argument(0, "values")

    def wrap(inner: Call) -> Any:
        made = HeuristicsValue(inner.argument(0, "fn"), values, call.place)
        inner.interpreter.heuristics.append(made)
        return made

    return Builtin("triton.heuristics(…)", wrap)


def _jit(language: str = "triton", kind: str = "jit") -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        options = dict(call.keywords)
        function = call.arguments[0] if call.arguments else options.pop("fn", None)

        def make(value: Any, place: Place) -> Any:
            if isinstance(value, KernelValue):
                return value
            if isinstance(value, UserFunction):
                kernel = KernelValue(value, options, place, language, kind)
                call.interpreter.kernels.append(kernel)
                return kernel
            return (
                value.again()
                if isinstance(value, Obstacle)
                else Obstacle("jit of something that is no function", place)
            )

        if function is not None:
            return make(function, call.place)
        return Builtin("triton.jit(…)", lambda inner: make(inner.arguments[0], inner.place))

    return model


def _cdiv(call: Call) -> Any:
    x, y = call.argument(0, "x"), call.argument(1, "y")
    for value in (x, y):
        if isinstance(value, Obstacle):
            return value.again()
    if not isinstance(x, int) or not isinstance(y, int) or y == 0:
        return call.unknown("cdiv of something that is no integer")
    return (x + y - 1) // y


def _next_power_of_2(call: Call) -> Any:
    n = call.argument(0, "n")
    if isinstance(n, Obstacle):
        return call.interpreter.derive(n, "next_power_of_2")
    if not isinstance(n, int) or n.bit_length() > 63:
        return call.unknown("next_power_of_2 of something that is no integer")
    return 1 << (n - 1).bit_length() if n > 0 else 0


def _current_target(call: Call) -> Any:
    target = call.interpreter.target()
    if target is None:
        return call.unknown("the current target depends on the target")
    return Instance(
        External("triton.GPUTarget"), {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size}
    )


def _device_properties(call: Call) -> Any:
    """``driver.active.utils.get_device_properties(device)``: keys of triton/backends/{nvidia,amd}/driver.c."""
    interpreter, place = call.interpreter, call.place
    target = interpreter.target()
    if target is None:
        return call.unknown("the device's properties depend on the target")
    names = {"multiprocessor_count": "multi_processor_count", "warpSize": "warp_size", "max_num_regs": "regs_per_block"}
    found = {key: fact(interpreter, name, place) for key, name in names.items()}
    found["max_shared_mem"] = (
        target.shared_memory_limit
        if target.shared_memory_limit is not None
        else call.unknown(f"the shared memory limit of {target.name} has no source")
    )
    found["sm_clock_rate"] = call.unknown("clock rates are not in the device tables")
    found["mem_clock_rate"] = call.unknown("clock rates are not in the device tables")
    found["mem_bus_width"] = call.unknown("bus widths are not in the device tables")
    return found


def _always(call: Call) -> bool:
    return True


def _never(call: Call) -> bool:
    return False


def _backends(interpreter: Interpreter) -> Any:
    """``triton.backends.backends``: both of Triton's own, of which the target's is the active one."""
    target = interpreter.target()
    if target is None:
        return Obstacle("the active backend depends on the target")
    found = {}
    for name, backend in (("nvidia", "cuda"), ("amd", "hip")):
        active = Builtin("is_active", _always if target.backend == backend else _never)
        driver = Instance(External("triton.backends.Driver"), {"is_active": active})
        found[name] = Instance(
            External("triton.backends.Backend"), {"driver": driver, "compiler": External("triton.backends.compiler")}
        )
    return found


def constexpr(call: Call) -> Any:
    """``tl.constexpr(value)``."""
    value = call.argument(0, "value")
    if isinstance(value, Instance) and value.cls == External("triton.language.constexpr"):
        return value
    return Instance(External("triton.language.constexpr"), {"value": value})


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "triton.Config": _config,
    "triton.autotune": _autotune,
    "triton.Autotuner": _autotuner,
    "triton.heuristics": _heuristics,
    "triton.jit": _jit(),
    "triton.experimental.gluon.jit": _jit("gluon"),
    "triton.experimental.gluon._runtime.jit": _jit("gluon"),
    "triton.constexpr_function": _jit(kind="constexpr_function"),
    "triton.cdiv": _cdiv,
    "triton.language.cdiv": _cdiv,
    "triton.next_power_of_2": _next_power_of_2,
    "triton.language.next_power_of_2": _next_power_of_2,
    "triton.runtime.driver.active.get_current_target": _current_target,
    "triton.runtime.driver.active.get_current_device": lambda call: 0,
    "triton.runtime.driver.active.utils.get_device_properties": _device_properties,
    "triton.runtime.driver.active.is_active": lambda call: True,
    "triton.language.constexpr": constexpr,
    "triton.set_allocator": lambda call: None,
    "triton.runtime.driver.set_active": lambda call: None,
}
CONSTANTS: dict[str, Callable[[Interpreter], Any]] = {
    "triton.backends.backends": _backends,
    "triton.__version__": lambda interpreter: interpreter.world.versions.get(
        "triton", Obstacle("the version of Triton is not known, because none is installed")
    ),
}


@functools.lru_cache(maxsize=8192)
def canonical(path: str) -> str:
    """One path for each object of Triton that can be reached on several."""
    for prefix, replacement in ALIASES:
        if path == prefix or (prefix.endswith(".") and path.startswith(prefix)):
            return replacement + path[len(prefix) :]
    return path


class TritonSource:
    """The installed Triton's own files, read as text to learn which names its modules have. ``root`` is its package folder."""

    def __init__(self, root: str | None) -> None:
        self.root = root
        self._names: dict[str, frozenset[str] | None] = {}

    def names(self, module: str) -> frozenset[str] | None:
        """The names a module of Triton binds or imports; ``None`` when there is no such module or no Triton."""
        if module not in self._names:
            self._names[module] = self._read(module)
        return self._names[module]

    def _read(self, module: str) -> frozenset[str] | None:
        if self.root is None:
            return None
        base = os.path.join(self.root, *module.split(".")[1:])
        found: set[str] = set()
        for path in (os.path.join(base, "__init__.py"), base + ".py"):
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    found.update(re.findall(r"[^\W\d]\w*", file.read()))
                if path.endswith("__init__.py"):
                    found.update(entry.removesuffix(".py") for entry in os.listdir(base))
                return frozenset(found)
        return None

    def parameters(self, path: str) -> list[str] | None:
        """The parameter names of one of Triton's own functions, by its canonical path."""
        files = {
            "triton.autotune": "runtime/autotuner.py",
            "triton.Config": "runtime/autotuner.py",
            "triton.jit": "runtime/jit.py",
        }
        language = path.startswith("triton.language.") and path.count(".") == 2
        file = "language/core.py" if language else files.get(path)
        if self.root is None or file is None:
            return None
        with open(os.path.join(self.root, file), encoding="utf-8") as source:
            text = source.read()
        name = path.rpartition(".")[2]
        pattern = (
            r"class Config\b.*?def __init__\(self,(.*?)\):"
            if name == "Config"
            else rf"\ndef {name}\((.*?)\)(?: ->[^:]*)?:\n"
        )
        matches = re.findall(pattern, text, re.DOTALL)
        if not matches:
            return None
        return re.findall(r"(?:^|,)\s*\*?\s*(\w+)", re.sub(r"\[[^\]]*\]", "", matches[-1]))
