"""Lives inside the user's processes under ``smemcheck record``; loaded as the package ``smemcheck_hook`` by ``startup``.

    import triton ──▶ recorder: triton.compile and CompiledKernel._init_handles are wrapped ──▶ one line a compiled kernel
    import torch  ──▶ without_gpu (only with --without-gpu): tensors live on the CPU, device queries answer for the target

It runs under whatever Python the user has (3.9 and later), imports the standard library only, and changes nothing until the
program itself imports Triton or torch. What goes wrong in here is said once on stderr and never reaches the program.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence


def install(folder: str) -> None:
    """Watch for imports of Triton and torch. ``folder`` is where this process may write its lines."""
    device = os.environ.get("SMEMCHECK_WITHOUT_GPU")
    actions: Dict[str, Callable[[ModuleType], None]] = {"triton": lambda _: _record(folder, device)}
    if device:
        actions["torch"] = lambda module: _replace_torch(module, device)
    sys.meta_path.insert(0, _Finder(actions))


def _record(folder: str, device: Optional[str]) -> None:
    from . import recorder

    if not device:
        recorder.attach(recorder.Recorder(folder))
        return
    from . import without_gpu

    description = json.loads(device)
    without_gpu.replace_driver(description)
    recorder.attach(recorder.Recorder(folder), functools.partial(without_gpu.early_compile, device=description))


def _replace_torch(module: ModuleType, device: str) -> None:
    from . import without_gpu

    without_gpu.replace_torch(module, json.loads(device))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the watched packages as Python would, and lets an action follow their execution."""

    def __init__(self, actions: Dict[str, Callable[[ModuleType], None]]) -> None:
        self.actions = actions

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in self.actions:
            return None
        action = self.actions.pop(name)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            found = find(name, path, target) if find and finder is not self else None
            spec: Optional[importlib.machinery.ModuleSpec] = found
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, action)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """The package's own loader, with something to do afterwards."""

    def __init__(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        self.loader, self.action = loader, action

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        made: Optional[ModuleType] = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        try:
            self.action(module)
        except Exception as error:  # noqa: BLE001
            sys.stderr.write("smemcheck record: %s is not recorded in this process: %r\n" % (module.__name__, error))
