"""One line for every kernel that Triton compiles in this process: what it was specialised for, and what came of it.

``triton.compile`` is wrapped because it alone gets the asked options beside the specialisation (``metadata`` holds the total
of the warps after specialisation, and ``jit_post_compile_hook`` fails on constants that JSON cannot hold; triton 3.2 to
3.9). ``JITFunction.create_binder`` takes ``compile`` from ``triton.compiler`` at the first launch of a kernel, later than
this. Loading is seen in ``CompiledKernel._init_handles``. Both happen once a kernel, so launches cost nothing more.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import threading
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

_NAMED_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Options that follow from the target, the installation or the environment.
_DERIVED_OPTIONS = frozenset(
    ("arch", "backend_name", "extern_libs", "instrumentation_mode", "warp_size", "sanitize_overflow", "ptx_version")
)
_NOT_RECORDED = re.compile(r"TRITON_(CACHE|HOME|DUMP|OVERRIDE|PRINT|ALWAYS|STORE)")


class Recorder:
    """Writes lines into a file of this process's own, one write a line, so that a killed process loses nothing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.descriptor: Optional[int] = None
        self.process = 0
        self.complained = False

    def write(self, row: Dict[str, Any]) -> None:
        text = (json.dumps(row) + "\n").encode("utf-8")
        with self.lock:
            if self.descriptor is None or self.process != os.getpid():
                name = "%d-%s.jsonl" % (os.getpid(), uuid.uuid4().hex)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
                self.descriptor, self.process = os.open(os.path.join(self.folder, name), flags, 0o644), os.getpid()
            os.write(self.descriptor, text)

    def guarded(self, make: Callable[..., Optional[Dict[str, Any]]], *arguments: Any) -> None:
        """Write what ``make`` gives; a failure of ours is said once and never reaches the program."""
        try:
            row = make(*arguments)
            if row is not None:
                self.write(row)
        except Exception as error:  # noqa: BLE001
            if not self.complained:
                self.complained = True
                sys.stderr.write("smemcheck record: a kernel is not recorded: %r\n" % (error,))


def attach(recorder: Recorder, compile_with: Any = None) -> None:
    """Wrap what compiles, loads and tunes in the Triton that was just imported.

    ``compile_with`` makes another ``compile`` of the real one; its attribute ``kernel_class`` is the class of what it gives.
    """
    import triton
    import triton.compiler
    from triton.compiler import compiler
    from triton.runtime.autotuner import Autotuner

    recorder.write({"process": os.getpid(), "triton": triton.__version__})
    tuned: Dict[int, Tuple[Any, List[str]]] = {}
    real_compile, kernel_class = compiler.compile, compiler.CompiledKernel
    compile_ = compile_with(real_compile) if compile_with else real_compile
    if compile_with:
        kernel_class = compile_.kernel_class

    @functools.wraps(real_compile)
    def compile_and_record(src: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            kernel = compile_(src, *args, **kwargs)
        except Exception as error:
            recorder.guarded(_compiled, src, args, kwargs, tuned, None, error)
            raise
        recorder.guarded(_compiled, src, args, kwargs, tuned, kernel, None)
        return kernel

    for module in (compiler, triton.compiler, triton):
        if getattr(module, "compile", None) is real_compile:
            module.compile = compile_and_record

    init_handles = kernel_class._init_handles

    @functools.wraps(init_handles)
    def load_and_record(self: Any) -> Any:
        if self.module is not None:
            return init_handles(self)
        try:
            result = init_handles(self)
        except Exception as error:
            recorder.guarded(_loaded, self, error)
            raise
        recorder.guarded(_loaded, self, None)
        return result

    kernel_class._init_handles = load_and_record

    tuner_init = Autotuner.__init__

    @functools.wraps(tuner_init)
    def remember_names(self: Any, fn: Any, arg_names: Any, configs: Any, *args: Any, **kwargs: Any) -> None:
        tuner_init(self, fn, arg_names, configs, *args, **kwargs)
        recorder.guarded(_remember, tuned, self)

    Autotuner.__init__ = remember_names


def _remember(tuned: Dict[int, Tuple[Any, List[str]]], tuner: Any) -> None:
    """Which parameters the configs of a kernel set. The function is kept, so that its identity stays its own."""
    function = tuner.fn
    while hasattr(function, "fn") and not hasattr(function, "params"):
        function = function.fn
    tuned[id(function)] = (function, [name for config in tuner.configs for name in config.kwargs])


def _compiled(
    src: Any,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
    tuned: Dict[int, Tuple[Any, List[str]]],
    kernel: Any,
    error: Optional[BaseException],
) -> Optional[Dict[str, Any]]:
    """The line of one compilation; ``None`` for IR files and for Gluon, whose kernels have no such specialisation."""
    function: Any = getattr(src, "fn", None)
    if not hasattr(src, "signature") or not hasattr(function, "params"):
        return None
    if hasattr(function, "is_gluon") and function.is_gluon():
        return None
    options = dict(zip(("target", "options"), args), **kwargs).get("options") or {}  # noqa: B905 (Python 3.9)
    target = dict(zip(("target", "options"), args), **kwargs).get("target")  # noqa: B905
    row = specialization_row(src, options, target, tuned.get(id(function), (None, []))[1])
    observed: Dict[str, Any] = {}
    if kernel is not None:
        metadata = kernel.metadata
        observed = {
            "shared_memory": metadata.shared,
            "tensor_memory": getattr(metadata, "tmem_size", None) or 0,
            "num_warps": metadata.num_warps,
        }
        row["hash"] = kernel.hash
    if error is not None:
        observed = {"error": type(error).__name__}
    row["observed"] = observed
    return row


def _loaded(kernel: Any, error: Optional[BaseException]) -> Dict[str, Any]:
    """What the driver says of a loaded kernel. Registers per thread; spills in bytes per thread (four times n_spills)."""
    loaded: Dict[str, Any] = {"load": "ok"}
    if error is not None:
        loaded["load"] = {"error": type(error).__name__}
        for name, attribute in (("resource", "name"), ("required", "required"), ("limit", "limit")):
            if hasattr(error, attribute):
                loaded["load"][name] = getattr(error, attribute)
    elif getattr(kernel, "n_regs", None) is not None:
        loaded["registers"], loaded["spill_bytes"] = kernel.n_regs, kernel.n_spills * 4
        loaded["max_threads"] = getattr(kernel, "n_max_threads", None)
    return {"hash": kernel.hash, "loaded": loaded}


def specialization_row(src: Any, options: Dict[str, Any], target: Any, tuned: List[str]) -> Dict[str, Any]:
    """A recorded specialisation (its format: smemcheck/specialize/recorded.py) of an ``ASTSource`` and the asked options."""
    function = src.fn
    names = [parameter.name for parameter in function.params]
    constants = {_path(path, names): item for path, item in src.constants.items()}
    signature = {name: _kinds(kind) for name, kind in src.signature.items()}
    attributes = getattr(src, "attrs", None) or {}
    divisible = [_dotted(_path(path, names), names) for path, found in attributes.items() if _is_divisible(found)]
    kwargs = {name: encode(constants[(names.index(name),)]) for name in tuned if (names.index(name),) in constants}
    kwargs.update(_other_options(options, target))
    row = {
        "kernel": function.fn.__name__,
        "path": function.fn.__code__.co_filename,
        "line": _line(function),
        "signature": signature,
        "constexprs": _constexprs(constants, signature, names),
        "divisible_by_16": divisible,
        "config": {
            "kwargs": kwargs,
            "num_warps": options.get("num_warps", 4),
            "num_stages": options.get("num_stages", 3),
            "num_ctas": options.get("num_ctas", 1),
            "maxnreg": options.get("maxnreg"),
        },
    }
    if target is not None:
        row["target"] = {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size}
    environment = _environment()
    if environment:
        row["environment"] = environment
    return row


def _path(path: Any, names: List[str]) -> Tuple[int, ...]:
    """Constants and attributes are keyed by path; 3.2 used names and plain indices."""
    if isinstance(path, str):
        return (names.index(path),)
    return (path,) if isinstance(path, int) else tuple(path)


def _dotted(path: Tuple[int, ...], names: List[str]) -> str:
    return ".".join([names[path[0]], *map(str, path[1:])])


def _kinds(kind: Any) -> Any:
    return [_kinds(one) for one in kind] if isinstance(kind, (tuple, list)) else str(kind)


def _is_divisible(found: Any) -> bool:
    return any(list(one[:2]) == ["tt.divisibility", 16] for one in found)


def _constexprs(constants: Dict[Tuple[int, ...], Any], signature: Dict[str, Any], names: List[str]) -> Dict[str, Any]:
    """Constants by parameter; those of a tuple's elements by their path within it."""
    found: Dict[str, Any] = {}
    for path, item in sorted(constants.items()):
        name = names[path[0]]
        if len(path) > 1:
            found.setdefault(name, {})[".".join(map(str, path[1:]))] = encode(item)
        elif isinstance(signature.get(name), list) and isinstance(item, (tuple, list)):
            found[name] = {str(index): encode(one) for index, one in enumerate(item)}
        else:
            found[name] = encode(item)
    return found


def encode(item: Any) -> Any:
    """A constant as a recorded specialisation holds it."""
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, (tuple, list)):
        return [encode(one) for one in item]
    kind = type(item).__name__
    if kind == "constexpr" and hasattr(item, "value"):
        return {"constexpr": encode(item.value)}
    if kind == "dtype" and type(item).__module__.startswith("triton"):
        return {"dtype": str(item)}
    if hasattr(item, "params") and hasattr(item, "fn"):
        return {"jit": item.fn.__name__}
    if hasattr(item, "__index__"):
        return int(item)
    return {"repr": repr(item)}


def _other_options(options: Dict[str, Any], target: Any) -> Dict[str, Any]:
    """Options beyond the four of every config that are not what the backend would take by itself."""
    if target is None:
        return {}
    from triton.compiler.compiler import make_backend

    plain = make_backend(target).parse_options({}).__dict__
    return {
        name: value
        for name, value in options.items()
        if name not in _NAMED_OPTIONS
        and name not in _DERIVED_OPTIONS
        and name in plain
        and isinstance(value, (bool, int, float, str))
        and plain[name] != value
    }


def _environment() -> Dict[str, str]:
    """The variables that Triton reads while it compiles, as they are set in this process."""
    try:
        from triton._C.libtriton import get_cache_invalidating_env_vars
    except ImportError:
        return {}
    names = get_cache_invalidating_env_vars()
    return {name: os.environ[name] for name in sorted(names) if name in os.environ and not _NOT_RECORDED.match(name)}


def _line(function: Any) -> int:
    """The line of ``def``: Triton's and Python's first line is that of the first decorator."""
    first: int = function.fn.__code__.co_firstlineno
    lines = getattr(function, "raw_src", None)
    if not isinstance(lines, list):  # 3.4 keeps the text from ``def`` on only
        lines = inspect.getsourcelines(function.fn)[0]
    for below, line in enumerate(lines):
        if re.match(r"\s*(async\s+)?def\s", line):
            return first + below
    return first
