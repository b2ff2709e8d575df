"""What smemcheck knows of everything outside the analysed source: builtins, the standard library, torch, Triton.

Each model is a function from a :class:`~smemcheck.source.values.Call` to a value, in a table by dotted path. What no table
holds is unknown, with its path in the reason.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.models import builtins, libraries, methods, parametrized, standard, torch_model, triton_model
from smemcheck.source.values import (
    BoundMethod,
    Builtin,
    Call,
    External,
    Instance,
    KernelValue,
    Obstacle,
    Place,
    Raised,
    Silent,
    UserClass,
    UserFunction,
)

_FUNCTIONS = {
    **builtins.FUNCTIONS,
    **libraries.FUNCTIONS,
    **parametrized.FUNCTIONS,
    **standard.FUNCTIONS,
    **torch_model.FUNCTIONS,
    **triton_model.FUNCTIONS,
}
_CONSTANTS = {**standard.CONSTANTS, **torch_model.CONSTANTS, **triton_model.CONSTANTS}
# Besides torch and Triton: what torch requires (its wheel's metadata), and packaging, which every installer brings.
_KNOWN_MODULES = frozenset(
    ".".join(path.split(".")[:count]) for path in (*_FUNCTIONS, *_CONSTANTS) for count in range(1, path.count(".") + 1)
)
_ALWAYS_INSTALLED = frozenset(
    {
        "torch",
        "triton",
        "packaging",
        "typing_extensions",
        "sympy",
        "networkx",
        "jinja2",
        "fsspec",
        "filelock",
        *sys.stdlib_module_names,
    }
)
_FOREIGN = frozenset(
    {*_ALWAYS_INSTALLED, "numpy", "packaging", "yaml", "einops", "transformers", "tqdm", "pytest", "jax", "cupy"}
)
_TRITON_DTYPES = frozenset(
    {
        "int1",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float8e5",
        "float8e5b16",
        "float8e4nv",
        "float8e4b8",
        "float8e4b15",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "void",
    }
)
_KEEPING_DECORATORS = frozenset(
    {
        "contextlib.contextmanager",
        "typing.no_type_check",
        "pytest.fixture",
        "numba.njit",
        "typing_extensions.override",
        "torch.no_grad",
        "torch.jit.script",
        "torch.fx.wrap",
        "torch._disable_dynamo",
    }
)


@functools.lru_cache(maxsize=4096)
def _canonical(path: str) -> str:
    if path.startswith("torch.") and path.removeprefix("torch.") in torch_model.DTYPES:
        return torch_model.canonical_dtype(path)
    return triton_model.canonical(path)


class Models:
    """The tables, with the installed Triton's own files behind them. ``triton_root`` is Triton's package folder, if any."""

    def __init__(self, triton_root: str | None = None) -> None:
        self.triton = triton_model.TritonSource(triton_root)

    # -------------------------------------------------------------------------------------------------- names

    def is_foreign(self, first: str) -> bool:
        """Whether a top-level module name always means an installed library, never a file beside the user's."""
        return first in _FOREIGN

    def canonical(self, path: str) -> str:
        """One path for each object that can be reached on several."""
        return _canonical(path)

    def builtin(self, name: str) -> Any:
        """A Python builtin; ``None`` when there is none of that name."""
        return builtins.builtin(name)

    def is_constant(self, path: str) -> bool:
        """Whether the path names a constant that equals only itself: a dtype."""
        path = self.canonical(path)
        return (path.startswith("torch.") and path.removeprefix("torch.") in torch_model.DTYPES) or (
            path.startswith("triton.language.") and path.removeprefix("triton.language.") in _TRITON_DTYPES
        )

    def is_object(self, path: str) -> bool:
        """Whether the path certainly names an object that is true and not ``None``: a constant, a function or a module."""
        path = self.canonical(path)
        return (
            self.is_constant(path)
            or path in _FUNCTIONS
            or path in _ALWAYS_INSTALLED
            or path in torch_model.PRESENT
            or path.startswith("builtins.")
            or (
                path.startswith("triton")
                and self.triton.names(path.rpartition(".")[0]) is not None
                and self.has_triton(path.rpartition(".")[0], path.rpartition(".")[2]) is True
            )
        )

    def text(self, path: str) -> str | None:
        """``str()`` of an external constant."""
        path = self.canonical(path)
        if not self.is_constant(path):
            return None
        short = {
            "float16": "fp16",
            "bfloat16": "bf16",
            "float32": "fp32",
            "float64": "fp64",
            "float8e4nv": "fp8e4nv",
            "float8e5": "fp8e5",
            "float8e4b8": "fp8e4b8",
            "float8e4b15": "fp8e4b15",
            "float8e5b16": "fp8e5b16",
        }
        name = path.rpartition(".")[2]
        return path if path.startswith("torch.") else short.get(name, name)

    def has_triton(self, module: str, name: str) -> bool | None:
        names = self.triton.names(self.canonical(module))
        return None if names is None else name in names

    def has(self, interpreter: Interpreter, path: str, name: str) -> bool | None:
        """Whether an external module has a name; ``None`` when that is not known."""
        full = self.canonical(f"{path}.{name}")
        if full in torch_model.ABSENT:
            return False
        if (
            full in _FUNCTIONS
            or full in _CONSTANTS
            or full in _KNOWN_MODULES
            or self.is_constant(full)
            or full in torch_model.PRESENT
        ):
            return True
        if path.partition(".")[0] == "triton":
            return self.has_triton(path, name)
        if path.partition(".")[0] in sys.stdlib_module_names:
            return True
        if self.canonical(path) in _CONSTANTS:
            value = _CONSTANTS[self.canonical(path)](interpreter)
            return None if isinstance(value, (Obstacle, External)) else self.method(value, name) is not None
        return None

    def installed(self, interpreter: Interpreter, name: str) -> bool | None:
        """Whether an absolute module name can be imported on the user's machine; ``None`` when that is not known."""
        first = name.partition(".")[0]
        if first == "triton" and name != "triton":
            parent, _, last = name.rpartition(".")
            return self.has_triton(parent, last)
        if name in torch_model.ABSENT or first in (
            "torch_npu",
            "torch_xla",
            "torch_musa",
            "habana_frameworks",
            "libtpu",
        ):
            return False
        if first == "amdsmi":
            target = interpreter.target()
            return False if target is not None and target.backend != "hip" else None
        return True if first in _ALWAYS_INSTALLED else None

    def installation(self, interpreter: Interpreter, name: str, place: Place) -> Obstacle:
        """The unknown that stands for "is this there?": one object a name and path, so that a path stays consistent."""
        return interpreter.questions.setdefault(name, Obstacle(f"whether {name} is installed", place))

    # --------------------------------------------------------------------------------------------- attributes

    def attribute(self, interpreter: Interpreter, value: External, name: str, place: Place) -> Any:
        """``external.name``. Raises ``AttributeError`` of the program when it is known to be absent."""
        path = self.canonical(f"{value.path}.{name}")
        constant = _CONSTANTS.get(path)
        if constant is not None:
            return constant(interpreter)
        if path in _FUNCTIONS:
            return External(path)
        if value.path.startswith(standard.SILENT):
            return Silent(path)
        if name in ("__name__", "__qualname__") and value.path.startswith("builtins."):
            return value.path.rpartition(".")[2]
        if path == "torch.cuda.nvtx":
            return Silent(path)
        if path.rpartition(".")[2] == "itemsize" and self.is_constant(value.path):
            return torch_model.itemsize(value.path)
        if self.is_constant(value.path) and value.path.startswith("torch.") and name == "is_floating_point":
            return "float" in value.path
        if self.has(interpreter, value.path, name) is False:
            raise Raised("AttributeError", f"'{value.path}' has no attribute '{name}'", place=place)
        return External(path)

    def subscript(self, interpreter: Interpreter, value: External, key: Any, place: Place) -> Any:
        """``external[key]``."""
        if value.path.startswith(("typing.", "collections.abc.", "builtins.", "torch.Tensor")):
            return value
        return Obstacle(f"{value.path}[…] is not modelled", place)

    def method(self, value: Any, name: str) -> Any:
        """A method of plain data; ``None`` when it has none of that name."""
        return methods.method(value, name)

    def instance_attribute(self, interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
        """An attribute of an object of a modelled class."""
        assert isinstance(value.cls, External)
        path = value.cls.path
        if path == "torch.cuda.DeviceProperties":
            return torch_model.property_of(interpreter, value, name, place)
        if path == "builtins.super":
            return self._super(interpreter, value, name, place)
        if path == "io.TextIOWrapper" and name in ("read", "close", "readlines"):
            return Builtin(f"file.{name}", lambda call: libraries.read_open_file(call, value))
        if path == "re.Match":
            return Builtin(f"match.{name}", lambda call: libraries.match_method(value, name, call))
        if path.startswith("builtins.") and name in ("args", "__class__", "__name__"):
            return value.attributes.get(name, External(path))
        if path.startswith("builtins."):
            return Obstacle(f"{name} of an exception is not known", place)
        raise Raised("AttributeError", f"'{path}' object has no attribute '{name}'", place=place)

    def _super(self, interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
        owner, instance = value.attributes["<owner>"], value.attributes["<self>"]
        for base in owner.ancestry()[1:]:
            if isinstance(base, UserClass) and name in base.namespace:
                found = base.namespace[name]
                return (
                    BoundMethod(found, instance)
                    if isinstance(found, UserFunction) and found.qualifier != "staticmethod"
                    else found
                )
            if isinstance(base, External):
                inherited = self.inherited(interpreter, instance, base, name, place)
                if inherited is not None:
                    return inherited
        if name in ("__init__", "__setattr__", "__init_subclass__", "__post_init__"):
            return Builtin(f"object.{name}", lambda call: None)
        return Obstacle(f"super().{name} is not modelled", place)

    def inherited(self, interpreter: Interpreter, instance: Any, base: External, name: str, place: Place) -> Any:
        """What an instance of a user's class inherits from a modelled base; ``None`` when nothing of that name is modelled."""
        path = self.canonical(base.path)
        if path == "triton.Autotuner" and name == "__init__" and isinstance(instance, Instance):
            return Builtin("Autotuner.__init__", lambda call: triton_model.construct_autotuner(call, instance))
        if name == "__init__" and (
            path.startswith("builtins.") or path in ("torch.autograd.Function", "torch.nn.Module", "enum.Enum")
        ):
            return Builtin(
                f"{path}.__init__",
                lambda call: (
                    instance.attributes.update(args=tuple(call.arguments)) if isinstance(instance, Instance) else None
                ),
            )
        if path == "torch.autograd.Function" and name == "apply":
            return Builtin("apply", lambda call: call.unknown("the result of an autograd function is not known"))
        return None

    def construct(self, interpreter: Interpreter, instance: Instance, base: External, call: Call) -> Any:
        """Make an instance of a user's class that inherits its constructor from ``base``; ``None`` when that is not modelled."""
        initializer = self.inherited(interpreter, instance, base, "__init__", call.place)
        if initializer is None:
            return Obstacle(f"a class that inherits from {base.path} is constructed", call.place)
        interpreter.call(initializer, call.arguments, call.keywords, call.place, call.open)
        return instance

    # -------------------------------------------------------------------------------------------------- calls

    def call(self, interpreter: Interpreter, function: External, call: Call) -> Any:
        """Call something external; unknown when it is not modelled."""
        path = self.canonical(function.path)
        model = _FUNCTIONS.get(path)
        if model is not None:
            try:
                return model(call)
            except IndexError:
                return call.unknown(f"{path}() is called in a way that is not modelled")
        if path.startswith("builtins.") and path.removeprefix("builtins.").endswith(
            ("Error", "Exception", "Warning", "StopIteration", "Interrupt", "Exit")
        ):
            return Instance(External(path), {"args": tuple(call.arguments)})
        if path.startswith("pytest.mark."):
            return function
        if "autotun" in path.rpartition(".")[2] and "configs" in call.keywords:
            return triton_model.foreign_tuner(call, path)
        interpreter.may_raise(f"{path}()", call.place)
        return call.unknown(f"the result of {path}() is not known")

    def call_instance(self, interpreter: Interpreter, function: Instance, call: Call) -> Any:
        """Call an object of a modelled class."""
        return call.unknown("the result of calling this object is not known")

    def decorate(self, interpreter: Interpreter, wrapper: Any, function: Any, place: Place) -> Any:
        """Pass a function or class through one decorator. Unknown decorators of libraries make the result unknown."""
        if isinstance(wrapper, (External, Silent)):
            path = self.canonical(wrapper.path)
            if path in _KEEPING_DECORATORS or path.startswith("pytest.mark.") or isinstance(wrapper, Silent):
                return function
        if isinstance(wrapper, Obstacle) and isinstance(function, (UserFunction, KernelValue)):
            return Obstacle(f"a decorator is not known: {wrapper.reason}", wrapper.place or place)
        return interpreter.call(wrapper, [function], {}, place)

    def parameters(self, interpreter: Interpreter, path: str) -> list[str] | None:
        """The parameter names of an external function, where its source is at hand."""
        return self.triton.parameters(self.canonical(path))
