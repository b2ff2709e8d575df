"""What lies in a Triton cache folder: compiled variants, the autotuner's decisions, and what cannot be read.

The layout (triton/runtime/cache.py, triton/compiler/compiler.py and triton/runtime/autotuner.py, 3.4 to 3.9): one folder a
hash; ``<kernel>.json`` beside ``.source``, ``.ttir``, … is a compiled variant, ``<kernel>.autotune.json`` a decision. Names
of files hold the first 150 characters of the kernel's name.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smemcheck.model import Config, Value
from smemcheck.verify.mlir import Argument, entry_arguments, entry_place, tile_sizes

NAME_LIMIT = 150  # characters of a kernel's name that Triton puts into file names

_AUTOTUNE = ".autotune.json"
_OWN_SUFFIXES = frozenset((
    ".source", ".ttir", ".ttgir", ".llir", ".ptx", ".cubin", ".sass", ".amdgcn", ".hsaco", ".json", ".so", ".c", ".cpp",
    ".o", ".bc", ".lock",
))  # fmt: skip
_OWN_NAMES = re.compile(r"lock|__grp__.*|tmp\.pid_.*|.*\.tmp\.pid_.*|__triton_launcher.*|__pycache__|__init__\.py")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that Triton uses. ``purpose`` is ``cache``, ``dump`` or ``override``; ``chosen_by`` is what names it."""

    path: str
    purpose: str
    chosen_by: str

    @property
    def exists(self) -> bool:
        return Path(self.path).is_dir()


@dataclass(frozen=True, slots=True)
class CacheProblem:
    """A file or folder of the cache that was skipped, and why."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled kernel. Shared memory in bytes, tensor memory in columns; ``written`` in seconds since 1970.

    ``num_warps`` is the total after warp specialisation, ``asked_warps`` the option. ``arguments`` are the entry's run-time arguments as its IR has
    them, ``None`` without IR; ``tile_sizes`` are the extents of all tensors in it.
    """

    kernel: str
    path: str
    written: float
    backend: str
    arch: int | str
    warp_size: int
    shared_memory: int
    tensor_memory: int
    num_warps: int
    asked_warps: int
    num_stages: int
    num_ctas: int
    maxnreg: int | None
    triton: str
    source: tuple[str, int] | None
    arguments: tuple[Argument, ...] | None
    tile_sizes: frozenset[int]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """A config and the three quantiles of its time in milliseconds; infinite where the autotuner pruned it."""

    config: Config
    milliseconds: tuple[float, ...]

    @property
    def pruned(self) -> bool:
        return any(math.isinf(value) for value in self.milliseconds)


@dataclass(frozen=True, slots=True)
class Decision:
    """One ``<kernel>.autotune.json``. ``key`` holds the values of the key's arguments, then the dtypes of all tensors."""

    kernel: str
    path: str
    written: float
    key: tuple[Any, ...]
    timings: tuple[Timing, ...]

    @property
    def winner(self) -> Timing | None:
        """What the autotuner takes: the smallest timings, the first of equals; ``None`` when every config was pruned.

        Triton compares the lists of quantiles (``builtins.min(timings, key=timings.get)``), median first.
        """
        best = min(self.timings, key=lambda timing: timing.milliseconds, default=None)
        return None if best is None or best.pruned else best


@dataclass(frozen=True, slots=True)
class Cache:
    """The readable contents of one folder. Decisions come newest first."""

    folder: Folder
    variants: tuple[Variant, ...]
    decisions: tuple[Decision, ...]
    problems: tuple[CacheProblem, ...]


def folders(environment: Mapping[str, str], given: str | None = None) -> tuple[Folder, ...]:
    """The cache, dump and override folders, found as ``cache_knobs`` of triton/knobs.py finds them.

    ``given`` is ``--cache-dir`` and stands for the cache folder.
    """
    home = environment.get("TRITON_HOME")
    base = Path(home if home is not None else Path("~/").expanduser(), ".triton")
    origin = "TRITON_HOME" if home is not None else "Triton's default"
    found = []
    for purpose, variable in (
        ("cache", "TRITON_CACHE_DIR"),
        ("dump", "TRITON_DUMP_DIR"),
        ("override", "TRITON_OVERRIDE_DIR"),
    ):
        if purpose == "cache" and given is not None:
            found.append(Folder(_posix(given), purpose, "--cache-dir"))
        elif variable in environment:
            found.append(Folder(_posix(environment[variable]), purpose, variable))
        else:
            found.append(Folder(_posix(str(base / purpose)), purpose, origin))
    return tuple(found)


def read_cache(folder: Folder) -> Cache:
    """Read everything under a folder that can be read; the rest becomes problems. Nothing is raised."""
    variants: list[Variant] = []
    decisions: list[Decision] = []
    problems: list[CacheProblem] = []
    for path in _files(Path(folder.path), problems):
        if path.name.endswith(_AUTOTUNE):
            _collect(path, _decision, decisions, problems)
        elif path.suffix == ".json" and not path.name.startswith("__grp__"):
            _collect(path, _variant, variants, problems)
        elif path.suffix not in _OWN_SUFFIXES and not _OWN_NAMES.fullmatch(path.name):
            problems.append(CacheProblem(_posix(str(path)), "is not a file of Triton's"))
    decisions.sort(key=lambda decision: (-decision.written, decision.path))
    variants.sort(key=lambda variant: (variant.kernel, variant.written, variant.path))
    return Cache(folder, tuple(variants), tuple(decisions), tuple(problems))


class _UnusableError(Exception):
    """Why a file is skipped."""


def _files(root: Path, problems: list[CacheProblem]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        problems.append(CacheProblem(_posix(str(error.filename)), f"cannot be read: {error.strerror}"))

    for folder, children, names in os.walk(root, onerror=unreadable):
        # Triton writes into tmp.pid_… and moves the file from there; what is left in one is half a file.
        children[:] = sorted(child for child in children if not child.startswith("tmp.pid_"))
        yield from (Path(folder, name) for name in sorted(names))


def _collect(path: Path, read: Any, found: list[Any], problems: list[CacheProblem]) -> None:
    try:
        found.append(read(path, _json(path)))
    except _UnusableError as error:
        problems.append(CacheProblem(_posix(str(path)), str(error)))
    except OSError as error:
        problems.append(CacheProblem(_posix(str(path)), f"cannot be read: {error.strerror}"))


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "it holds no text of JSON"
        raise _UnusableError(f"is damaged: {reason}") from None
    if not isinstance(document, dict):
        raise _UnusableError("is not a file of Triton's: it holds no JSON object")
    return document


def _decision(path: Path, document: dict[str, Any]) -> Decision:
    key, timings = document.get("key"), document.get("configs_timings")
    if not isinstance(key, list) or not isinstance(timings, list):
        raise _UnusableError("is not a file of Triton's autotuner: it has no 'key' and 'configs_timings'")
    return Decision(
        path.name[: -len(_AUTOTUNE)],
        _posix(str(path)),
        path.stat().st_mtime,
        tuple(map(_frozen, key)),
        tuple(map(_timing, timings)),
    )


def _timing(entry: Any) -> Timing:
    try:
        settings, milliseconds = entry
        values = milliseconds if isinstance(milliseconds, list) else [milliseconds]
        return Timing(_config(settings), tuple(float(value) for value in values))
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _UnusableError("is damaged: a config or its timings do not have the autotuner's form") from None


def _config(settings: Mapping[str, Any]) -> Config:
    """A ``Config.__dict__`` as the autotuner writes it; keys that a version does not have take the defaults of 3.4."""
    override = settings.get("ir_override")
    return Config(
        tuple((name, _frozen(value)) for name, value in settings["kwargs"].items()),
        num_warps=int(settings.get("num_warps", 4)),
        num_stages=int(settings.get("num_stages", 3)),
        num_ctas=int(settings.get("num_ctas", 1)),
        maxnreg=settings.get("maxnreg"),
        options=() if override is None else (("ir_override", _frozen(override)),),
    )


def _frozen(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return value if isinstance(value, (bool, int, float, str)) or value is None else json.dumps(value, sort_keys=True)


def _variant(path: Path, document: dict[str, Any]) -> Variant:
    target = document.get("target")
    if not isinstance(target, dict) or "shared" not in document or "hash" not in document:
        raise _UnusableError("is not a file of Triton's: it has no 'hash', 'target' and 'shared'")
    text = _intermediate(path)
    try:
        return Variant(
            kernel=str(document.get("name") or path.stem),
            path=_posix(str(path)),
            written=path.stat().st_mtime,
            backend=str(target["backend"]),
            arch=target["arch"],
            warp_size=int(target["warp_size"]),
            shared_memory=int(document["shared"] or 0),
            tensor_memory=int(document.get("tmem_size") or 0),
            num_warps=int(document["num_warps"]),
            asked_warps=_asked_warps(path) or int(document["num_warps"]),
            num_stages=int(document.get("num_stages", 3)),
            num_ctas=int(document.get("num_ctas", 1)),
            maxnreg=document.get("maxnreg"),
            triton=str(document.get("triton_version", "unknown")),
            source=entry_place(text),
            arguments=entry_arguments(text),
            tile_sizes=tile_sizes(text),
            environment=tuple(
                sorted((name, value) for name, value in document.items() if name.isupper() and isinstance(value, str))
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _UnusableError(f"is damaged: it has no usable {error}") from None


def _asked_warps(path: Path) -> int | None:
    """The option num_warps: ``metadata["num_warps"]`` becomes the total, the module's attribute does not."""
    try:
        text = path.with_suffix(".ttgir").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'"ttg\.num-warps" = (\d+)', text)
    return int(match[1]) if match else None


def _intermediate(path: Path) -> str:
    """The variant's earliest IR; empty with ``TRITON_STORE_BINARY_ONLY``, or when it cannot be read."""
    for suffix in (".source", ".ttir", ".ttgir"):
        try:
            text = path.with_suffix(suffix).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if "tt.func" in text:
            return text
    return ""


def same_kernel(file_name: str, kernel: str) -> bool:
    """Whether a name that Triton may have cut is that of the kernel."""
    return file_name[:NAME_LIMIT] == kernel[:NAME_LIMIT]


def _posix(path: str) -> str:
    return Path(path).absolute().as_posix()
