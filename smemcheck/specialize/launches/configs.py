"""The config that a launch gives itself, where no autotuner does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from smemcheck.model import Config, Target
from smemcheck.specialize.launches.explorations import Recorded


def on_target(config: Config, target: Target) -> Config:
    """The config of a launch as the target's backend completes it.

    ``HIPOptions.num_stages`` is 2 (triton/backends/amd/compiler.py, 3.2 to 3.9), where CUDA's is 3.
    """
    return replace(config, num_stages=2) if config.omits_stages and target.backend == "hip" else config


def config_of(recorded: Recorded) -> Config | None:
    """The options of a launch; ``None`` when they are not known. Defaults: ``CUDAOptions`` in triton/backends/nvidia/compiler.py."""
    options: Mapping[str, Any] = recorded.launch.options
    numbers = {
        name: options.get(name, default) for name, default in (("num_warps", 4), ("num_stages", 3), ("num_ctas", 1))
    }
    if not all(isinstance(value, int) for value in numbers.values()):
        return None
    maxnreg = options.get("maxnreg")
    return Config(
        **numbers,
        maxnreg=maxnreg if isinstance(maxnreg, int) else None,
        omits_stages="num_stages" not in options,
        position=recorded.launch.position,
    )
