"""A job with its values decoded for the installed Triton: the backend's options and stages, and the frontend's source."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, Tuple

from . import binary, versions
from .slices import Slice
from .values import value


class Request:
    """What Triton is asked: ``target``, ``options``, ``source``; ``frontend_key`` tells apart what the frontend reads otherwise."""

    def __init__(self, job: Dict[str, Any], kernel: Slice) -> None:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import make_backend

        self.kernel = kernel
        self.internals = versions.internals(triton.__version__)
        self.target = GPUTarget(job["target"]["backend"], job["target"]["arch"], job["target"]["warp_size"])
        self.backend = make_backend(self.target)
        self.signature = {name: _tuples(kind) for name, kind in job["signature"]}
        self.constants = {tuple(path): value(item, kernel.function) for path, item in job["constexprs"]}
        self.divisible = {tuple(path) for path in job["divisible"]}
        self.arguments = {name: value(item, kernel.function) for name, item in job["options"]}
        self.options = self._options(self.backend)
        self.source = self._source()
        self.frontend_key = json.dumps(
            [job[name] for name in ("signature", "constexprs", "divisible")] + [self.target.backend]
        )

    @property
    def warp_size(self) -> int:
        """Threads per warp: AMD's options may say another number than the target."""
        return int(getattr(self.options, "warp_size", self.target.warp_size))

    def options_on(self, arch: Any) -> Any:
        """The options that the job would have there; they describe the target, too."""
        from triton.backends.compiler import GPUTarget
        from triton.compiler.compiler import make_backend

        if arch == self.target.arch:
            return self.options
        return self._options(make_backend(GPUTarget(self.target.backend, arch, self.target.warp_size)))

    def _options(self, backend: Any) -> Any:
        """The backend's options, as ``JITFunction.run`` and ``_pack_args`` make them (triton/runtime/jit.py)."""
        arguments = dict(self.arguments)
        knobs: Any = getattr(sys.modules["triton"], "knobs", None)
        arguments["debug"] = bool(arguments.get("debug", self.kernel.definitions[0]["debug"])) or (
            bool(knobs.runtime.debug) if knobs else binary.environment_flag("TRITON_DEBUG")
        )
        for name in ("instrumentation_mode", "fpsan_homomorphic_casts"):
            if hasattr(getattr(knobs, "compilation", None), name):
                arguments[name] = getattr(knobs.compilation, name)
        options = backend.parse_options(dict(arguments))
        for name in self.arguments:
            if name not in options.__dict__ and name not in self.signature:
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")
        return options

    def stages(self, options: Any) -> Dict[str, Any]:
        """The backend's stages by name, in order, each a function of a module and the metadata."""
        stages: Dict[str, Any] = {}
        if self.internals.stages_take_language:
            from triton.backends.compiler import Language

            self.backend.add_stages(stages, options, Language.TRITON)
        else:
            self.backend.add_stages(stages, options)
        return stages

    def _source(self) -> Any:
        from triton.compiler import ASTSource

        if self.internals.descriptor:
            return self._source_3_2(ASTSource)
        attributes = {}
        for path, kind in _leaves(list(self.signature.values())):
            letters = "D" if path in self.divisible else ""
            if kind.startswith("*") and self._uses_buffer_ops():
                letters += "S"
            if letters:
                attributes[path] = self.backend.parse_attr(letters)
        return ASTSource(self.kernel.kernel, self.signature, self.constants, attributes)

    def _uses_buffer_ops(self) -> bool:
        """Whether AMD's backend is told which tensors are under 2 GiB; assumed of all of them, as Triton's warmup does."""
        if self.target.backend != "hip":
            return False
        knobs = getattr(sys.modules["triton"], "knobs", None)
        return bool(knobs.amd.use_buffer_ops) if knobs else bool(self.backend.use_buffer_ops())

    def _source_3_2(self, source: Any) -> Any:
        """3.2 lists what is not constant only, and learns the arguments' properties from the arguments themselves."""
        parameters = self.kernel.kernel.params
        names = [parameter.name for parameter in parameters]
        constants = {names[path[0]]: item for path, item in self.constants.items()}
        arguments = [
            constants[name]
            if name in constants
            else _Argument(self.signature[name], (index,) in self.divisible).stand_in
            for index, name in enumerate(names)
        ]
        signature = {name: kind for name, kind in self.signature.items() if kind != "constexpr"}
        return source(
            self.kernel.kernel, signature, constants, self.backend.get_attrs_descriptor(parameters, arguments)
        )


class _Argument:
    """What 3.2's ``AttrsDescriptor`` looks at: an address, or an integer, that is or is not a multiple of 16."""

    def __init__(self, kind: str, divisible: bool) -> None:
        self.divisible = divisible
        self.stand_in: Any = self if kind.startswith("*") else (16 if divisible else 3) if kind[0] in "iu" else 0.5

    def data_ptr(self) -> int:
        return 0 if self.divisible else 8

    def ptr_range(self) -> int:
        return 0


def _tuples(kind: Any) -> Any:
    return tuple(map(_tuples, kind)) if isinstance(kind, list) else kind


def _leaves(kinds: Any, path: Tuple[int, ...] = ()) -> List[Tuple[Tuple[int, ...], str]]:
    if isinstance(kinds, str):
        return [(path, kinds)]
    return [leaf for index, kind in enumerate(kinds) for leaf in _leaves(kind, (*path, index))]
