"""What a program learns from torch about the machine: answered for the target, from the device tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from smemcheck.model import Target
from smemcheck.source.interpreter import Interpreter
from smemcheck.source.values import Builtin, Call, External, Instance, Obstacle, Place, Raised, Silent, UserFunction

DTYPES = (
    "float16",
    "half",
    "bfloat16",
    "float32",
    "float",
    "float64",
    "double",
    "int8",
    "uint8",
    "int16",
    "short",
    "uint16",
    "int32",
    "int",
    "uint32",
    "int64",
    "long",
    "uint64",
    "bool",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "complex64",
    "complex128",
    "float4_e2m1fn_x2",
)
_SYNONYMS = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}
_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
    "float4_e2m1fn_x2": 1,
}
# The torch release that was current when a Triton release came out: torch pins its Triton exactly (its wheel metadata).
TORCH_OF_TRITON = {
    (3, 2): "2.6.0",
    (3, 3): "2.7.1",
    (3, 4): "2.8.0",
    (3, 5): "2.9.1",
    (3, 6): "2.11.0",
    (3, 7): "2.12.0",
    (3, 8): "2.13.0",
    (3, 9): "2.14.1",
}


def canonical_dtype(path: str) -> str:
    """``torch.half`` is ``torch.float16``, and so on."""
    name = path.removeprefix("torch.")
    return f"torch.{_SYNONYMS.get(name, name)}"


def itemsize(path: str) -> int | None:
    """Bytes of one element of a torch dtype."""
    name = canonical_dtype(path).removeprefix("torch.")
    return 1 if name.startswith("float8") else _BYTES.get(name)


def _is_cuda_build(interpreter: Interpreter) -> bool:
    target = interpreter.target()
    return target is not None and target.backend in ("cuda", "hip")


def _capability(call: Call) -> Any:
    target = call.interpreter.target()
    if target is None:
        return call.unknown("the device's compute capability depends on the target")
    major, minor = target.facts.get("major"), target.facts.get("minor")
    if major is None or minor is None:
        return call.unknown(f"the compute capability of {target.name} has no source")
    return major, minor


def device_name(interpreter: Interpreter, place: Place) -> Any:
    """The name of the representative device, with a note that it was chosen."""
    target = interpreter.target()
    if target is None:
        return Obstacle("the device's name depends on the target", place)
    name = target.facts.get("name")
    if name is None:
        return Obstacle(f"the name of a {target.name} device has no source", place)
    interpreter.note(f"{target.name} is represented by {name}")
    return name


def _name(call: Call) -> Any:
    return device_name(call.interpreter, call.place)


def fact(interpreter: Interpreter, name: str, place: Place) -> Any:
    """One of the target's facts, by the name of torch's device properties."""
    target = interpreter.target()
    if target is None:
        return Obstacle(f"{name} depends on the target", place)
    if name == "name":
        return device_name(interpreter, place)
    if name not in target.facts:
        return Obstacle(f"{name} of a {target.name} device has no source", place)
    if name in ("multi_processor_count", "total_memory", "L2_cache_size"):
        interpreter.note(f"{target.name} is represented by {target.facts.get('name', 'no named device')}")
    return target.facts[name]


def property_of(interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
    """An attribute of ``torch.cuda.get_device_properties(…)``."""
    target = interpreter.target()
    if name == "gcnArchName":
        if target is None or target.backend != "hip":
            raise Raised("AttributeError", "'_CudaDeviceProperties' object has no attribute 'gcnArchName'", place=place)
        return target.facts.get("gcnArchName", str(target.arch))
    return fact(interpreter, name, place)


def _properties(call: Call) -> Any:
    return Instance(External("torch.cuda.DeviceProperties"))


def _version(name: str) -> Callable[[Interpreter], Any]:
    def constant(interpreter: Interpreter) -> Any:
        target: Target | None = interpreter.target()
        if target is None:
            return Obstacle(f"torch.version.{name} depends on the target")
        if (target.backend == "cuda") != (name == "cuda"):
            return None
        given = interpreter.world.versions.get(name)
        return given if given is not None else ("13.0" if name == "cuda" else "7.1.0")

    return constant


def torch_version(interpreter: Interpreter) -> Any:
    """``torch.__version__``: given, installed, or the release that belongs to the Triton release."""
    given = interpreter.world.versions.get("torch")
    if given is not None:
        return given
    triton = interpreter.world.versions.get("triton")
    if triton is not None:
        release = tuple(int(part) for part in triton.split(".")[:2] if part.isdigit())
        version = TORCH_OF_TRITON.get(release)  # type: ignore[arg-type]
        if version is not None:
            interpreter.note(f"torch {version} is assumed, which goes with Triton {triton}")
            return version
    return Obstacle("the version of torch is not known")


def _device_count(call: Call) -> Any:
    call.interpreter.note("one device is assumed")
    return 1 if _is_cuda_build(call.interpreter) else 0


def _transparent(call: Call) -> Any:
    return (
        call.arguments[0]
        if call.arguments and not call.keywords and not isinstance(call.arguments[0], (str, bool))
        else Builtin("decorator", lambda inner: inner.arguments[0])
    )


def _context_or_decorator(call: Call) -> Any:
    """``@torch.no_grad()``, ``with torch.no_grad():`` and ``@torch.no_grad``."""
    from smemcheck.source.interpreter import is_callable

    return call.arguments[0] if call.arguments and is_callable(call.arguments[0]) else Silent("context")


def _custom_op(call: Call) -> Any:
    """``@torch.library.custom_op(…)``: the function, with the registration methods that its object has."""

    def decorate(inner: Call) -> Any:
        function = inner.arguments[0]
        if not isinstance(function, UserFunction):
            return function
        return dataclasses.replace(
            function,
            attributes={
                **function.attributes,
                **dict.fromkeys(
                    ("register_fake", "register_autograd", "register_kernel", "register_vmap", "impl", "default"),
                    Builtin("register", _registration),
                ),
            },
        )

    return Builtin("custom_op", decorate)


def _registration(call: Call) -> Any:
    """A registration: given a function it is a decorator, else it makes one."""
    if call.arguments and isinstance(call.arguments[-1], UserFunction):
        return call.arguments[-1]
    return Builtin("register", lambda inner: inner.arguments[0])


def _device(call: Call) -> Any:
    return (
        Instance(External("torch.device"), {"type": str(call.arguments[0]).split(":")[0], "index": 0})
        if call.arguments and isinstance(call.arguments[0], str)
        else call.unknown("the device is not known")
    )


# Of floats: the largest finite number, the distance from 1 to the next one, the smallest normal number. IEEE 754, and for
# 8 bits the OCP formats (torch/headeronly/util/Float8_*.h says which torch has).
_FLOATS: dict[str, tuple[float, float, float]] = {
    "float16": (65504.0, 2.0**-10, 2.0**-14),
    "bfloat16": (3.3895313892515355e38, 2.0**-7, 2.0**-126),
    "float32": (3.4028234663852886e38, 2.0**-23, 2.0**-126),
    "float64": (1.7976931348623157e308, 2.0**-52, 2.0**-1022),
    "float8_e4m3fn": (448.0, 2.0**-3, 2.0**-6),
    "float8_e4m3fnuz": (240.0, 2.0**-3, 2.0**-7),
    "float8_e5m2": (57344.0, 2.0**-2, 2.0**-14),
    "float8_e5m2fnuz": (57344.0, 2.0**-2, 2.0**-15),
}


def _limits_of(call: Call) -> Any:
    """``torch.finfo(dtype)`` and ``torch.iinfo(dtype)``."""
    dtype = call.argument(0, "type", External("torch.float32"))
    if not isinstance(dtype, External):
        return call.unknown("the limits of an unknown dtype are not known")
    name = canonical_dtype(dtype.path).removeprefix("torch.")
    size = itemsize(dtype.path)
    if name in _FLOATS and size is not None:
        largest, step, tiny = _FLOATS[name]
        numbers = {"max": largest, "min": -largest, "eps": step, "tiny": tiny, "smallest_normal": tiny}
        return Instance(External("torch.finfo"), {**numbers, "bits": 8 * size, "dtype": name})
    if "int" in name and size is not None:
        low, high = (0, 2 ** (8 * size)) if name.startswith("u") else (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1))
        return Instance(External("torch.iinfo"), {"max": high - 1, "min": low, "bits": 8 * size, "dtype": name})
    return call.unknown(f"the limits of {dtype.path} are not known")


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "torch.finfo": _limits_of,
    "torch.iinfo": _limits_of,
    "torch.cuda.get_device_capability": _capability,
    "torch.cuda.get_device_name": _name,
    "torch.cuda.get_device_properties": _properties,
    "torch.cuda.is_available": lambda call: _is_cuda_build(call.interpreter),
    "torch.cuda.device_count": _device_count,
    "torch.cuda.current_device": lambda call: 0,
    "torch.xpu.is_available": lambda call: False,
    "torch.xpu.device_count": lambda call: 0,
    "torch.backends.mps.is_available": lambda call: False,
    "torch.npu.is_available": lambda call: False,
    "torch.musa.is_available": lambda call: False,
    "torch.hpu.is_available": lambda call: False,
    "torch.mps.is_available": lambda call: False,
    "torch.mtia.is_available": lambda call: False,
    "torch.distributed.is_xccl_available": lambda call: False,
    "torch.distributed.is_mpi_available": lambda call: False,
    "torch.are_deterministic_algorithms_enabled": lambda call: False,
    "torch.is_grad_enabled": lambda call: True,
    "torch.compiler.is_compiling": lambda call: False,
    "torch._dynamo.is_compiling": lambda call: False,
    "torch.cuda.is_current_stream_capturing": lambda call: False,
    "torch.no_grad": _context_or_decorator,
    "torch.inference_mode": _context_or_decorator,
    "torch.enable_grad": _context_or_decorator,
    "torch.compiler.disable": _transparent,
    "torch._dynamo.disable": _transparent,
    "torch.compile": _transparent,
    "torch.compiler.allow_in_graph": _transparent,
    "torch._dynamo.allow_in_graph": _transparent,
    "torch.jit.ignore": _transparent,
    "torch.jit.unused": _transparent,
    "torch.amp.custom_fwd": _transparent,
    "torch.amp.custom_bwd": _transparent,
    "torch.cuda.amp.custom_fwd": _transparent,
    "torch.cuda.amp.custom_bwd": _transparent,
    "torch.autograd.function.once_differentiable": _transparent,
    "torch.library.custom_op": _custom_op,
    "torch.library.triton_op": _custom_op,
    "torch.library.register_fake": lambda call: Builtin("register", _registration),
    "torch.library.register_autograd": lambda call: None,
    "torch.library.impl": lambda call: Builtin("register", _registration),
    "torch.utils._triton.has_triton": lambda call: _is_cuda_build(call.interpreter),
    "torch.utils._triton.has_triton_package": lambda call: True,
    "torch.library.wrap_triton": lambda call: call.arguments[0],
    "torch._library.capture_triton": lambda call: call.arguments[0],
    # Other vendors' devices: a machine with the target's GPU has none of them.
    **{
        f"transformers.utils.{module}is_torch_{kind}_available": lambda call: False
        for module in ("", "import_utils.")
        for kind in ("npu", "xpu", "mlu", "musa", "hpu")
    },
    "torch.device": _device,
}
CONSTANTS: dict[str, Callable[[Interpreter], Any]] = {
    "torch.__version__": torch_version,
    "torch.version.__version__": torch_version,
    "torch.version.cuda": _version("cuda"),
    "torch.version.hip": _version("hip"),
    "torch.version.xpu": lambda interpreter: None,
    "torch.version.rocm": _version("hip"),
}
# Names whose presence real code tests; every torch since 2.5 that Triton 3.2 to 3.9 go with has the first group.
PRESENT = frozenset(
    {
        "torch.cuda",
        "torch.version",
        "torch.backends",
        "torch.xpu",
        "torch.mps",
        "torch.compile",
        "torch.compiler",
        "torch.library",
        "torch.amp",
        "torch.distributed",
        "torch.float8_e4m3fn",
        "torch.float8_e5m2",
        "torch.float8_e4m3fnuz",
        "torch.float8_e5m2fnuz",
        "torch.library.wrap_triton",
        "torch.library.triton_op",
        "torch.library.custom_op",
        "torch.version.hip",
        "torch.version.cuda",
        "torch.mtia",
        "torch.cuda.get_device_properties",
        "torch.cuda.get_device_capability",
    }
)
ABSENT = frozenset({"torch.npu", "torch.musa", "torch.hpu", "torch.mlu", "torch.sdaa", "torch.gcu"})
