"""The process that owns the GPU's context: launches the configs of one kernel, then runs Triton's autotuner over them.

One request comes on stdin as JSON; every answer is a line of JSON on the real stdout, sent at once, so that what a crash or
a hang costs is known. The kernel is built from its slice as in ``smemcheck.lower.worker``; the user's module is not imported
unless ``--verify-with`` names a function.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smemcheck.lower.worker.request import Request
from smemcheck.lower.worker.slices import Slice
from smemcheck.verify.launch_arguments import UnbuildableError, build_arguments

CAUGHT = frozenset(("OutOfResources", "CompileTimeAssertionFailure", "PTXASError"))
"""Names of the exceptions that ``Autotuner._bench`` counts as pruned (triton/runtime/autotuner.py, 3.4 to 3.9)."""

_GRID = (1, 1, 1)  # what is measured does not depend on it, and one program keeps its accesses near the tensors' start


def main() -> None:
    """Answer the request on stdin."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    request = json.load(sys.stdin)
    sys.path[:] = [*request["import_from"], *(entry for entry in sys.path if entry not in {"", "."})]
    refusal = _select_device(request["arch"])
    if refusal:
        send({"refusal": refusal})
        return
    _set_allocator()
    kernel = Slice(json.loads(request["kernel"]))
    call = _user_call(request["call"])
    launches = {index: _Launch(kernel, request["jobs"][index], call) for index in request["launch"]}
    for index, launch in launches.items():
        send({"begin": index})
        launch.compile()
    send({"waiting": True})
    with Path(request["lock"]).open("wb") as lock:
        # Compilations run beside those of other kernels; the GPU belongs to one process at a time, so that times mean something.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for index, launch in launches.items():
            send({"begin": index})
            launch.launch()
            send({"config": index, "observed": launch.observed})
            if "launch_error" in launch.observed:
                os._exit(3)  # the context may be lost, and with it every later answer
        tunable = [index for index, launch in launches.items() if launch.survives_tuning]
        if request["tunes"] and len(tunable) > 1:
            send({"begin": None})
            send({"tuned": _tuned([launches[index] for index in tunable]), "indices": tunable})


def _select_device(arch: int | str) -> str | None:
    """Make the first device of the architecture current; a sentence when there is none."""
    import torch

    if not torch.cuda.is_available():
        return "torch sees no GPU: its build or the driver does not fit this machine"
    for index in range(torch.cuda.device_count()):
        found: int | str = torch.cuda.get_device_properties(index).gcnArchName.split(":")[0] if torch.version.hip else 0
        if not torch.version.hip:
            major, minor = torch.cuda.get_device_capability(index)
            found = major * 10 + minor
        if found == arch:
            torch.cuda.set_device(index)
            return None
    return f"torch sees no GPU of architecture {arch}"


def _set_allocator() -> None:
    """Give Triton the memory that kernels with descriptors of their own ask for; without an allocator the launch raises."""
    import torch
    import triton

    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))


def _user_call(name: str | None) -> Callable[[Any], Any] | None:
    if name is None:
        return None
    module, _, function = name.partition(":")
    found: Callable[[Any], Any] = getattr(importlib.import_module(module), function)
    return found


class _Launch:
    """One config of the kernel, and the arguments that it is launched with."""

    def __init__(self, kernel: Slice, job: dict[str, Any], call: Callable[[Any], Any] | None) -> None:
        self.function = kernel.kernel
        self.request = Request(job, kernel)
        self.call = call
        names = list(self.request.signature)
        self.constants = {names[path[0]]: item for path, item in self.request.constants.items() if len(path) == 1}
        self.options = {name: item for name, item in self.request.arguments.items() if name not in names}
        self.tuned = job["tuned"]
        self.compiled: Any = None
        self.observed: dict[str, Any] = {}

    def compile(self) -> None:
        """Compile; what Triton says of it."""
        try:
            self.compiled = self._run(warmup=True)
        except UnbuildableError as error:
            self.observed = {"unbuildable": str(error)}
            return
        except Exception as error:  # noqa: BLE001 - what Triton raises is the answer
            self.observed = {"compile_error": type(error).__name__, "message": _sentence(error)}
            return
        metadata = self.compiled.metadata
        self.observed = {
            "shared_memory": metadata.shared,
            "tensor_memory": getattr(metadata, "tmem_size", None) or 0,
            "other_specialization": self._other_specialization(self.compiled.src),
        }

    def launch(self) -> None:
        """Load, launch and wait, if it compiled; what Triton and the driver say at each step."""
        import torch

        if self.compiled is None:
            return
        try:
            # Triton has no public way to load without launching.
            self.compiled._init_handles()  # noqa: SLF001
        except Exception as error:  # noqa: BLE001
            fields = {name: getattr(error, name, None) for name in ("name", "required", "limit")}
            self.observed |= {"load_error": type(error).__name__, "message": _sentence(error), **fields}
            return
        if self.compiled.n_regs is not None:
            self.observed |= {"registers": self.compiled.n_regs, "spill_bytes": self.compiled.n_spills * 4}
        try:
            self._run(warmup=False)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            self.observed |= {"launch_error": type(error).__name__, "message": _sentence(error)}

    @property
    def survives_tuning(self) -> bool:
        """Whether the autotuner gets past the config: it raises what it does not count as pruned."""
        errors = [self.observed.get(name, "OutOfResources") for name in ("compile_error", "load_error")]
        return "unbuildable" not in self.observed and all(error in CAUGHT for error in errors)

    def _run(self, *, warmup: bool) -> Any:
        if self.call is None:
            return self.function.run(grid=_GRID, warmup=warmup, **self.arguments(), **self.options)
        under_test = UnderTest(
            self.function.__name__, lambda grid, args, kwargs: self._called(grid, args, kwargs, warmup)
        )
        self.call(under_test)
        if under_test.compiled is None:
            raise UnbuildableError("the function of --verify-with did not launch the kernel")
        return under_test.compiled

    def _called(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], warmup: bool) -> Any:
        given = {**dict(zip(self.function.arg_names, args, strict=False)), **kwargs}
        rest = {name: item for name, item in self.constants.items() if name not in given}
        return self.function.run(grid=grid, warmup=warmup, **given, **rest, **self.options)

    def arguments(self) -> dict[str, Any]:
        """All arguments by name: constants as they are, the others made for the specialisation."""
        return {**build_arguments(self.request.signature, self.request.divisible), **self.constants}

    def _other_specialization(self, source: Any) -> str | None:
        """How the launch was specialised otherwise than analysed, if it was."""
        wanted = self.request.source
        for name, kind in wanted.signature.items():
            if source.signature.get(name) != kind:
                return f"{name} is {source.signature.get(name)}, not {kind}"
        names = list(wanted.signature)
        for path in sorted({*wanted.attrs, *source.attrs}):
            ours, theirs = wanted.attrs.get(path) or [], source.attrs.get(path) or []
            if ours != theirs:
                return f"{names[path[0]]} has {theirs or 'no known divisor'}, not {ours or 'an unknown one'}"
        return None


class UnderTest:
    """What the function of ``--verify-with`` gets: launch it as the kernel, without what a config sets."""

    def __init__(self, name: str, run: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        self.name = name
        self.compiled: Any = None
        self._run = run

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            self.compiled = self._run(grid, args, kwargs)
            return self.compiled

        return launch


def _tuned(launches: list[_Launch]) -> dict[str, Any]:
    """Run Triton's own Autotuner over the configs. Milliseconds, ``None`` for infinite; the winner's place in the list."""
    import torch
    import triton
    from triton.runtime.autotuner import Autotuner

    first = launches[0]
    common = first.arguments()
    configs = []
    for launch in launches:
        own = {name: launch.constants[name] for name in launch.tuned if name in launch.constants}
        settings = {
            name: launch.options[name]
            for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")
            if name in launch.options
        }
        extra = {name: item for name, item in launch.options.items() if name not in settings}
        configs.append(triton.Config({**own, **extra}, **settings, pre_hook=_descriptor_hook(launch)))
        for name in own:
            common.pop(name, None)

    def bench(call: Callable[[], Any], quantiles: Any) -> Any:
        return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)

    tuner = Autotuner(first.function, first.function.arg_names, configs, [], None, None, do_bench=bench)
    error = None
    try:
        if first.call is None:
            tuner.run(grid=_GRID, warmup=False, **common)
        else:
            first.call(UnderTest(first.function.__name__, _tuner_run(tuner, first.constants, {*first.tuned})))
        torch.cuda.synchronize()
    except Exception as raised:  # noqa: BLE001 - when every config is pruned, the launch of the first raises
        error = f"{type(raised).__name__}: {_sentence(raised)}"
    timings = getattr(tuner, "configs_timings", {})
    listed = [timings.get(config) for config in configs]
    best = getattr(tuner, "best_config", None)
    return {
        "milliseconds": [None if timing is None else [_finite(value) for value in timing] for timing in listed],
        "winner": next((index for index, config in enumerate(configs) if config is best), None),
        "error": error,
    }


def _tuner_run(tuner: Any, constants: Mapping[str, Any], tuned: set[str]) -> Any:
    def run(grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
        rest = {name: item for name, item in constants.items() if name not in given and name not in tuned}
        return tuner.run(grid=grid, warmup=False, **given, **rest)

    return run


def _descriptor_hook(launch: _Launch) -> Callable[[dict[str, Any]], None] | None:
    """Sets host descriptors to the config's block shapes, which a user's ``pre_hook`` does."""
    made = build_arguments(launch.request.signature, launch.request.divisible) if launch.call is None else {}
    shapes = {name: list(item.block_shape) for name, item in made.items() if hasattr(item, "block_shape")}
    if not shapes:
        return None

    def set_block_shapes(arguments: dict[str, Any]) -> None:
        for name, shape in shapes.items():
            arguments[name].block_shape = shape

    return set_block_shapes


def _finite(value: float) -> float | None:
    return value if value not in {float("inf"), float("-inf")} else None


def _sentence(error: BaseException) -> str:
    """The line that says what is wrong: the first, or the last where the first only says where (``at 16:43:``)."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if lines[0].startswith("at ") else 0][:300]


if __name__ == "__main__":
    main()
