"""The kernel's source → Triton's module, once for all jobs for which the frontend would do the same.

What the frontend asks of the options and of the target is recorded, with the answers it got. Another job with the same
slice, types and constants gets a copy of the module if it would give the same answers: then the frontend, which reads
nothing else, would have taken the same way. So one pass serves configs that differ in what only later stages read
(``num_warps``, ``num_stages``, mostly the target too), and none has to be known by name.

A copy is the printed module, parsed again. ``tests/lower`` and the rows of a real GPU hold it against fresh modules.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, List, Optional, Tuple

from .values import UnknownReadError

_ABSENT = object()


class Reads:
    """What one run of the frontend asked for, and what it was told."""

    def __init__(self) -> None:
        self.options: Dict[str, Any] = {}
        self.functions: Dict[str, Any] = {}
        self.calls: List[Tuple[str, Tuple[Any, ...], Any]] = []
        self.target: Optional[Any] = None

    def would_repeat(self, options: Any, functions: Dict[str, Any], target: Any) -> bool:
        """Whether these options, backend functions and target give the answers that were given."""
        called = {name for name, _, _ in self.calls}
        return (
            all(_same(getattr(options, name, _ABSENT), value) for name, value in self.options.items())
            and all(name in called or functions.get(name) is function for name, function in self.functions.items())
            and all(_answers(functions.get(name), arguments, result) for name, arguments, result in self.calls)
            and (self.target is None or self.target == target)
        )


def _answers(function: Any, arguments: Tuple[Any, ...], result: Any) -> bool:
    try:
        return bool(function(*arguments) == result)
    except Exception:  # noqa: BLE001 (then the frontend shall meet it, where it can say the line)
        return False


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


class _Options:
    """The backend's options; each attribute read is recorded."""

    def __init__(self, options: Any, reads: Reads) -> None:
        self.__dict__.update(_options=options, _reads=reads)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_options"], name, _ABSENT)
        self.__dict__["_reads"].options[name] = value
        if value is _ABSENT:
            raise AttributeError(name)
        return value


class _Functions(Dict[str, Any]):
    """The backend's functions for the frontend. Of ``min_dot_size``, a pure function of two types, the calls are recorded;
    the others build operations, so they have to be the same function object.
    """

    def __init__(self, functions: Dict[str, Any], reads: Reads) -> None:
        super().__init__(functions)
        self.reads = reads

    def __getitem__(self, name: str) -> Any:
        function = super().__getitem__(name)
        if name != "min_dot_size":
            self.reads.functions[name] = function
            return function

        def recorded(*arguments: Any) -> Any:
            result = function(*arguments)
            self.reads.calls.append((name, arguments, result))
            return result

        return recorded

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (dict.get would not record)


class _Driver:
    """Stands for the GPU's driver: names the target that is compiled for, whatever GPU this machine has."""

    def __init__(self, target: Any, reads: Reads) -> None:
        self.target, self.reads = target, reads

    def get_current_target(self) -> Any:
        self.reads.target = self.target
        return self.target

    def __getattr__(self, name: str) -> Any:
        raise UnknownReadError(f"the compiler asks the GPU's driver for {name}")


def pretend_device(target: Any, reads: Reads) -> None:
    """Let ``triton.language.target_info`` see the target; without a driver it would say "no GPU" and be believed."""
    from triton.runtime.driver import driver

    driver.set_active(_Driver(target, reads))


class Printed:
    """A module as text, and the module itself until it is taken; ``context`` is where it lives."""

    def __init__(self, module: Any, context: Any) -> None:
        self.text = text_of(module)
        self.context = context
        self._module: Optional[Any] = module
        self._digests: Dict[Tuple[str, str], Any] = {}

    def digest(self, old: str, new: str) -> Any:
        """A digest of the text with ``old`` replaced, to which more can be added."""
        known = self._digests.get((old, new))
        if known is None:
            known = hashlib.blake2b(self.text.replace(old, new).encode(), digest_size=20)
            self._digests[old, new] = known
        return known.copy()

    def take(self) -> Any:
        """A module of the caller's own."""
        module, self._module = self._module, None
        return parse(self.text, self.context) if module is None else module


class Frontend:
    """Makes modules, and remembers those of the kernel at hand."""

    def __init__(self) -> None:
        self._kernel: Any = None
        self._contexts: Dict[str, Any] = {}
        self._kept: Dict[str, List[Tuple[Reads, Printed]]] = {}

    def module(self, request: Any, key: str) -> Printed:
        """The request's module. ``key`` tells apart what is not read through the options: types, constants."""
        if request.kernel is not self._kernel:
            self._kernel, self._kept, self._contexts = request.kernel, {}, {}
        kept = self._kept.setdefault(key, [])
        context = self._contexts.get(request.target.backend)
        if context is None:
            context = self._contexts[request.target.backend] = new_context(request.backend)
        functions = _functions(request)
        reads = Reads()
        pretend_device(request.target, reads)
        for earlier, printed in kept:
            if printed.context is context and earlier.would_repeat(request.options, functions, request.target):
                return printed
        target = (request.target,) if request.internals.make_ir_takes_target else ()
        module = request.source.make_ir(
            *target,
            _Options(request.options, reads),
            _Functions(functions, reads),
            request.backend.get_module_map(),
            context,
        )
        printed = Printed(module, context)
        kept.append((reads, printed))
        return printed


def _functions(request: Any) -> Dict[str, Any]:
    options = (request.options,) if request.internals.codegen_takes_options else ()
    functions: Dict[str, Any] = request.backend.get_codegen_implementation(*options)
    return functions


def new_context(backend: Any) -> Any:
    """An MLIR context with Triton's dialects and the backend's."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return context


def text_of(module: Any) -> str:
    """The printed module with its locations."""
    return str(module.str()) if hasattr(module, "str") else str(module)


def plain_text_of(module: Any) -> str:
    """The printed module without its locations where this Triton can leave them out (3.4 and later)."""
    return str(module.str_nodebug()) if hasattr(module, "str_nodebug") else text_of(module)


def parse(text: str, context: Any) -> Any:
    """The module of a printed text. Triton parses files only; this one never reaches a disk."""
    from triton._C.libtriton import ir

    descriptor = os.memfd_create("smemcheck")
    try:
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
            file.write(text)
        module = ir.parse_mlir_module(f"/proc/self/fd/{descriptor}", context)
    finally:
        os.close(descriptor)
    # As after make_ir: the module keeps its context alive.
    module.context = context
    return module
