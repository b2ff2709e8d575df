"""A GPU that is not there: Triton's driver and torch's device queries answer for a target, and tensors live on the CPU.

Kernels are lowered for the target up to the allocation of shared memory, with the code of ``smemcheck.lower.worker``;
launches do nothing. What a program computes is garbage, but every specialisation is seen. The load checks are those of
Triton, so that an autotuner prunes what it would prune on the device, registers excepted.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import types
import uuid
from typing import Any, Dict, List, Optional

_THREADS_PER_BLOCK = 1024


def replace_driver(device: Dict[str, Any]) -> None:
    """Make the target the active driver of the Triton that was just imported."""
    from triton.runtime.driver import driver

    driver.set_active(Driver(device))


class Driver:
    """What ``triton.runtime.driver.active`` is asked for (triton/backends/driver.py and its users, 3.4 to 3.9)."""

    def __init__(self, device: Dict[str, Any]) -> None:
        from triton.backends.compiler import GPUTarget

        self.device = device
        self.target = GPUTarget(device["backend"], device["arch"], device["warp_size"])
        self.utils = _DriverUtilities(device)
        self.launcher_cls = lambda *_, **__: _nothing

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _: int) -> None:
        pass

    def get_current_stream(self, _: Any = None) -> int:
        return 0

    def get_device_capability(self, _: Any = None) -> Any:
        return _capability(self.device)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Any:
        """One launch a config, so that each is compiled; the first config that loads wins."""

        def benchmark(kernel_call: Any, *_: Any, quantiles: Optional[List[float]] = None, **__: Any) -> Any:
            kernel_call()
            return [1.0] * len(quantiles) if quantiles else 1.0

        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1, dtype=torch.int)

    def clear_cache(self, _: Any) -> None:
        pass

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def assemble_tensormap_to_arg(self, _: Any, args: Any) -> Any:
        return args


class _DriverUtilities:
    def __init__(self, device: Dict[str, Any]) -> None:
        facts = device["facts"]
        self.properties = {
            "max_shared_mem": device["shared_memory_limit"],
            "max_num_regs": facts.get("regs_per_block", 65536),
            "multiprocessor_count": facts.get("multi_processor_count", 132),
            "warpSize": device["warp_size"],
            "sm_clock_rate": 1_000_000,  # kHz; no time that is measured here means anything
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
            "arch": device["arch"],
        }

    def get_device_properties(self, _: Any = None) -> Dict[str, Any]:
        return self.properties

    def load_binary(self, *_: Any) -> Any:
        return 0, 0, 0, 0, _THREADS_PER_BLOCK

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    """Launches, synchronisation and the like."""


class _Kernel:
    """Stands for a ``CompiledKernel``: metadata, load checks, and a launch that does nothing."""

    def __init__(self, source: Any, metadata: Any, limit: Optional[int], hash_: str) -> None:
        self.src, self.metadata, self.hash, self.name = source, metadata, hash_, metadata.name
        self.limit = limit
        self.module: Any = None
        self.function: Any = 0
        self.packed_metadata: Any = ()
        self.asm: Dict[str, Any] = {}
        self.n_regs, self.n_spills, self.n_max_threads = None, None, _THREADS_PER_BLOCK
        self.kernel = b""

    def result(self) -> Any:
        return self

    def _init_handles(self) -> None:
        from triton.runtime.errors import OutOfResources

        warps, warp_size = self.metadata.num_warps, self.metadata.target.warp_size
        for need, limit, resource in (
            (self.metadata.shared, self.limit, "shared memory"),
            (self.metadata.tmem_size, 512, "tensor memory"),
            (warps * warp_size, _THREADS_PER_BLOCK, "threads"),
        ):
            if limit is not None and need > limit:
                raise OutOfResources(need, limit, resource)
        self.module = 0

    @property
    def run(self) -> Any:
        if self.module is None:
            self._init_handles()
        return _nothing

    def launch_metadata(self, *_: Any) -> None:
        pass

    def __getitem__(self, _: Any) -> Any:
        self._init_handles()
        return _nothing


def early_compile(compile_: Any, device: Dict[str, Any]) -> Any:
    """A ``compile`` that stops after the allocation; IR files go to the real one."""
    worker = _worker(device["worker"])

    def compile_early(src: Any, target: Any = None, options: Any = None, **_: Any) -> Any:
        if not hasattr(src, "signature"):
            return compile_(src, target=target, options=options)
        from triton.runtime.driver import driver

        active = driver.active
        request = _request(worker, src, target or active.get_current_target(), dict(options or {}))
        try:
            answer = worker.lowering.allocate(request, worker.Frontend())
        finally:
            driver.set_active(active)
        hash_ = uuid.uuid4().hex
        metadata = types.SimpleNamespace(
            **{**request.options.__dict__, "num_warps": answer["num_warps"]},
            shared=answer["shared_memory"],
            tmem_size=answer["tensor_memory"],
            target=request.target,
            name=src.fn.fn.__name__,
            hash=hash_,
        )
        return _Kernel(src, metadata, device["shared_memory_limit"], hash_)

    compile_early.kernel_class = _Kernel  # type: ignore[attr-defined]
    return compile_early


class _Worker:
    """The modules of ``smemcheck.lower.worker`` that are needed."""

    def __init__(self, lowering: Any, frontend: Any, versions: Any) -> None:
        self.lowering, self.Frontend, self.versions = lowering, frontend.Frontend, versions


@functools.lru_cache(maxsize=1)
def _worker(folder: str) -> _Worker:
    spec = importlib.util.spec_from_file_location(
        "smemcheck_worker", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["smemcheck_worker"] = module
    spec.loader.exec_module(module)
    names = ("lowering", "frontend", "versions")
    return _Worker(*(importlib.import_module("smemcheck_worker." + name) for name in names))


def _request(worker: _Worker, src: Any, target: Any, options: Dict[str, Any]) -> Any:
    """What ``lowering.allocate`` reads, made of the user's own ``ASTSource``."""
    import triton
    from triton.compiler.compiler import make_backend

    backend = make_backend(target)
    return types.SimpleNamespace(
        kernel=src,
        internals=worker.versions.internals(triton.__version__),
        target=target,
        backend=backend,
        options=backend.parse_options(dict(options, **src.parse_options())),
        source=src,
        frontend_key="",
    )


# ------------------------------------------------------------------------------------------------------------ torch


_SILENT = (
    "init", "_lazy_init", "set_device", "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats",
    "manual_seed", "manual_seed_all",
)  # fmt: skip


def _silent() -> Any:
    return lambda *_, **__: None


def replace_torch(torch: types.ModuleType, device: Dict[str, Any]) -> None:
    """Let torch answer as if the target were device 0, and make what is asked for on a GPU on the CPU."""
    properties = types.SimpleNamespace(**{"warp_size": device["warp_size"], **device["facts"]})
    name = device["facts"].get("name", device["name"])
    cuda: Any = torch.cuda
    memory = device["facts"].get("total_memory", 80 << 30)
    answers: Dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda _=None: name,
        "get_device_capability": lambda _=None: _capability(device),
        "get_device_properties": lambda _=None: properties,
        "get_arch_list": lambda: [device["name"]],
        "mem_get_info": lambda _=None: (memory, memory),
        "is_bf16_supported": lambda *_, **__: True,
        "is_current_stream_capturing": lambda: False,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "current_stream": lambda _=None: _Stream(),
        "default_stream": lambda _=None: _Stream(),
        "stream": lambda _=None: contextlib.nullcontext(),
        "device": lambda _=None: contextlib.nullcontext(),
        "device_of": lambda _=None: contextlib.nullcontext(),
        "Stream": _Stream,
        "Event": _Event,
    }
    # A function of its own for each: torch._dynamo keeps a table by identity.
    answers.update((attribute, _silent()) for attribute in _SILENT)
    for attribute, answer in answers.items():
        setattr(cuda, attribute, answer)
    is_nvidia = device["backend"] == "cuda"
    torch.version.cuda = "12.8" if is_nvidia else None
    torch.version.hip = None if is_nvidia else "6.4"
    torch._C._cuda_getCurrentRawStream = lambda _=None: 0
    _mode(torch).__enter__()


class _Stream:
    cuda_stream = 0
    device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


class _Event(_Stream):
    def elapsed_time(self, _: Any) -> float:
        return 1.0


def _capability(device: Dict[str, Any]) -> Any:
    facts = device["facts"]
    if "major" in facts:
        return facts["major"], facts.get("minor", 0)
    return divmod(device["arch"], 10) if isinstance(device["arch"], int) else (9, 4)


def _mode(torch: types.ModuleType) -> Any:
    """A function mode (torch/overrides.py) that sends GPU tensors to the CPU and lets them say that they are on a GPU."""
    from torch.overrides import TorchFunctionMode

    device_of = torch.Tensor.device.__get__
    is_cuda = torch.Tensor.is_cuda.__get__
    to_cuda = torch.Tensor.cuda
    pin = torch.Tensor.pin_memory
    gpu = torch.device("cuda", 0)

    def on_gpu(value: Any) -> bool:
        if isinstance(value, str):
            return value.startswith("cuda")
        return isinstance(value, torch.device) and value.type == "cuda"

    class OnTheCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func == device_of:
                return gpu
            if func == is_cuda:
                return True
            if func in (to_cuda, pin):
                return args[0]
            if on_gpu(kwargs.get("device")) or type(kwargs.get("device")) is int:
                kwargs["device"] = "cpu"
            if kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            args = tuple("cpu" if on_gpu(value) else value for value in args)
            return func(*args, **kwargs)

    return OnTheCpu()
