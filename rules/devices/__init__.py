"""The device tables, read into :class:`~smemcheck.model.Target`.

A new device is one ``[targets.NAME]`` table in a TOML file beside this module. Keys of such a table:

- ``arch``: what Triton's ``GPUTarget`` takes (90 for sm_90, ``"gfx942"``); ``aliases``: names of GPUs that have it;
- ``shared_memory_limit``: bytes per block that Triton compares ``metadata.shared`` with when it loads a kernel;
- ``tensor_memory_columns``, ``max_threads_per_block``, ``max_registers_per_thread``, ``warp_size``: the other limits;
- the inputs of occupancy and what a program sees: see :class:`Facts`;
- ``sources``: keys of the file's ``[sources]``; ``note``: anything a reader should know;
- ``[targets.NAME.device]``: the representative device, by the names that torch's device properties have.

``[common]`` holds what all targets of a file share.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

from smemcheck.errors import UsageError, did_you_mean
from smemcheck.model import Target

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
"""Judged for when neither the user nor a local GPU says anything: the data-centre and desktop parts in use."""

_TABLES = ("nvidia.toml", "amd.toml")
_VENDOR_WORDS = re.compile(r"nvidia|geforce|tesla|amd|radeon|instinct")
_CAPABILITY = re.compile(r"(?:cuda:?)?(?:sm|compute)?_?(\d{1,2})\.?(\d)[af]?")


class Facts(TypedDict, total=False):
    """:attr:`Target.facts`: what a program sees when it asks the representative device. A key without a source is absent.

    The first group has the names and meanings of ``torch.cuda.get_device_properties()``; Triton's own
    ``get_device_properties`` takes ``max_shared_mem`` from ``shared_memory_per_block_optin`` (on AMD from
    ``shared_memory_per_block``), ``max_num_regs`` from ``regs_per_block``, ``multiprocessor_count`` and ``warpSize``.
    """

    name: str
    major: int
    minor: int
    multi_processor_count: int
    total_memory: int  # bytes
    warp_size: int
    L2_cache_size: int  # bytes
    shared_memory_per_block: int  # bytes, without opt-in
    shared_memory_per_block_optin: int  # bytes
    shared_memory_per_multiprocessor: int  # bytes
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    regs_per_multiprocessor: int
    gcnArchName: str  # AMD only; without its feature suffix where no source gives it

    # Inputs of occupancy.
    regs_per_block: int
    shared_memory_reserved_per_block: int  # bytes
    shared_memory_granularity: int  # bytes
    max_blocks_per_multi_processor: int
    register_allocation_unit: int  # NVIDIA: registers per warp; AMD: registers per lane
    warp_allocation_granularity: int
    shared_memory_per_workgroup_processor: int  # bytes, RDNA
    simds_per_compute_unit: int  # AMD
    waves_per_simd: int  # AMD
    registers_per_simd_lane: int  # AMD


class UnknownTargetError(UsageError):
    """No device table knows the name."""


@functools.cache
def targets() -> Mapping[str, Target]:
    """Every known target by its name (``sm_120``, ``gfx942``), in the order of the tables."""
    known: dict[str, Target] = {}
    for file_name in _TABLES:
        document = tomllib.loads(Path(__file__).with_name(file_name).read_text(encoding="utf-8"))
        for name, table in document["targets"].items():
            known[name] = _target(name, {**document["common"], **table}, document)
    return known


def resolve_target(name: str) -> Target:
    """The target that an architecture (``sm_120``, ``sm120``, ``12.0``, ``cuda:120``, ``gfx942``) or a GPU's name means.

    Raises :class:`UnknownTargetError` with the nearest known name.
    """
    known = targets()
    wanted = name.strip().casefold()
    capability = _CAPABILITY.fullmatch(wanted)
    if capability:
        wanted = f"sm_{capability[1]}{capability[2]}"
    wanted = wanted.removeprefix("hip:").split(":")[0]
    if wanted in known:
        return known[wanted]
    squeezed = _squeeze(wanted)
    for target in known.values():
        if squeezed in map(_squeeze, target.aliases):
            return target
    names = [*known, *(alias for target in known.values() for alias in target.aliases)]
    raise UnknownTargetError(
        f"no device table knows '{name}'{did_you_mean(wanted, names)} ('smemcheck devices' lists the names)"
    )


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _VENDOR_WORDS.sub("", name.casefold()))


def _target(name: str, table: Mapping[str, Any], document: Mapping[str, Any]) -> Target:
    device = table.get("device", {})
    keys = [*document["common"]["sources"], *table["sources"], *device.get("sources", ())]
    return Target(
        name=name,
        backend=document["backend"],
        arch=table["arch"],
        warp_size=table["warp_size"],
        shared_memory_limit=table.get("shared_memory_limit"),
        tensor_memory_limit=table["tensor_memory_columns"],
        max_threads_per_block=table["max_threads_per_block"],
        max_registers_per_thread=table.get("max_registers_per_thread", 255),
        aliases=tuple(table["aliases"]),
        facts=_facts(table, device, document["backend"]),
        sources=tuple(document["sources"][key] for key in dict.fromkeys(keys)),
    )


def _facts(table: Mapping[str, Any], device: Mapping[str, Any], backend: str) -> Facts:
    major, minor = _capability(table["arch"])
    limit = table.get("shared_memory_limit")
    candidates = {
        "major": major,
        "minor": minor,
        "warp_size": table["warp_size"],
        "shared_memory_per_block": table["shared_memory_per_block"] if backend == "cuda" else limit,
        "shared_memory_per_block_optin": limit,
        "shared_memory_per_multiprocessor": table.get("shared_memory_per_multiprocessor"),
        "max_threads_per_multi_processor": table.get("max_threads_per_multiprocessor"),
        "max_threads_per_block": table["max_threads_per_block"],
        "regs_per_multiprocessor": table.get("registers_per_multiprocessor"),
        "regs_per_block": table.get("registers_per_block"),
        "gcnArchName": table["arch"] if backend == "hip" else None,
        "max_blocks_per_multi_processor": table.get("max_blocks_per_multiprocessor"),
        **{key: table.get(key) for key in _OCCUPANCY_KEYS},
        **{key: value for key, value in device.items() if key != "sources"},
    }
    return cast("Facts", {key: value for key, value in candidates.items() if value is not None})


_OCCUPANCY_KEYS = (
    "shared_memory_reserved_per_block",
    "shared_memory_granularity",
    "register_allocation_unit",
    "warp_allocation_granularity",
    "shared_memory_per_workgroup_processor",
    "simds_per_compute_unit",
    "waves_per_simd",
    "registers_per_simd_lane",
)


def _capability(arch: int | str) -> tuple[int, int]:
    """``(12, 0)`` for 120, ``(9, 4)`` for gfx942: HIP's properties take the last two digits as minor and stepping."""
    if isinstance(arch, int):
        return divmod(arch, 10)
    digits = arch.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16)
