"""What the device tables say, and the names under which a user may ask for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from smemcheck.rules import devices
from smemcheck.rules.devices import DEFAULT_TARGETS, UnknownTargetError, resolve_target, targets

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLES = sorted(Path(devices.__file__).parent.glob("*.toml"))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("sm_120", "sm_120"),
        ("sm120", "sm_120"),
        ("120", "sm_120"),
        ("12.0", "sm_120"),
        ("cuda:120", "sm_120"),
        ("SM_90a", "sm_90"),
        ("compute_100", "sm_100"),
        ("sm_101", "sm_110"),
        ("gfx942", "gfx942"),
        ("gfx942:sramecc+:xnack-", "gfx942"),
        ("hip:gfx90a", "gfx90a"),
        ("rtx-5090", "sm_120"),
        ("NVIDIA GeForce RTX 5090", "sm_120"),
        ("rtx-4090", "sm_89"),
        ("h100", "sm_90"),
        ("H200", "sm_90"),
        ("a100", "sm_80"),
        ("b200", "sm_100"),
        ("l40s", "sm_89"),
        ("t4", "sm_75"),
        ("gb10", "sm_121"),
        ("mi300x", "gfx942"),
        ("AMD Instinct MI355X", "gfx950"),
    ],
)
def test_a_target_has_many_names(asked: str, name: str) -> None:
    assert resolve_target(asked).name == name


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("sm_130", "no device table knows 'sm_130'; did you mean 'sm_120'? ('smemcheck devices' lists the names)"),
        (
            "rtx-5900",
            "no device table knows 'rtx-5900'; did you mean 'rtx-5090'? ('smemcheck devices' lists the names)",
        ),
        ("quantum", "no device table knows 'quantum' ('smemcheck devices' lists the names)"),
    ],
)
def test_an_unlisted_device_is_an_error_that_names_the_nearest(asked: str, sentence: str) -> None:
    with pytest.raises(UnknownTargetError) as error:
        resolve_target(asked)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("name", "limit", "columns"),
    [
        ("sm_75", 65_536, 0),
        ("sm_80", 166_912, 0),
        ("sm_86", 101_376, 0),
        ("sm_89", 101_376, 0),
        ("sm_90", 232_448, 0),
        ("sm_100", 232_448, 512),
        ("sm_110", 232_448, 512),
        ("sm_120", 101_376, 0),
        ("sm_121", 101_376, 0),
        ("gfx90a", 65_536, 0),
        ("gfx942", 65_536, 0),
        ("gfx950", 163_840, 0),
        ("gfx1100", 65_536, 0),
    ],
)
def test_limits_that_kernels_meet(name: str, limit: int, columns: int) -> None:
    target = targets()[name]
    assert (target.shared_memory_limit, target.tensor_memory_limit) == (limit, columns)


def test_a_limit_without_a_source_is_absent_not_zero() -> None:
    assert targets()["sm_107"].shared_memory_limit is None
    assert "shared_memory_per_block_optin" not in targets()["sm_107"].facts
    assert "multi_processor_count" not in targets()["gfx1100"].facts


def test_what_a_program_sees_when_it_asks_an_rtx_5090() -> None:
    facts = resolve_target("rtx-5090").facts
    assert facts["name"] == "NVIDIA GeForce RTX 5090"
    assert (facts["major"], facts["minor"]) == (12, 0)
    assert facts["multi_processor_count"] == 170
    assert facts["total_memory"] == 33_668_988_928
    assert facts["shared_memory_per_block"] == 49_152
    assert facts["shared_memory_per_block_optin"] == 101_376


def test_hip_reports_the_last_two_digits_of_an_arch_as_minor_and_stepping() -> None:
    capabilities = {name: (t.facts["major"], t.facts["minor"]) for name, t in targets().items() if t.backend == "hip"}
    assert capabilities["gfx942"] == (9, 4)
    assert capabilities["gfx90a"] == (9, 0)
    assert capabilities["gfx1151"] == (11, 5)


def test_no_name_means_two_targets() -> None:
    aliases = [alias for target in targets().values() for alias in (target.name, *target.aliases)]
    assert len(aliases) == len(set(aliases))


def test_the_default_targets_are_known() -> None:
    assert all(name in targets() for name in DEFAULT_TARGETS)


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.name)
def test_every_table_names_known_sources_and_known_keys(table: Path) -> None:
    document = tomllib.loads(table.read_text(encoding="utf-8"))
    known_keys = {
        *("arch", "aliases", "device", "sources", "note", "shared_memory_limit", "tensor_memory_columns"),
        *("warp_size", "max_threads_per_block", "max_threads_per_multiprocessor", "max_registers_per_thread"),
        *("registers_per_multiprocessor", "registers_per_block", "max_blocks_per_multiprocessor"),
        *devices.Facts.__annotations__,
    }
    for name, target in {"common": document["common"], **document["targets"]}.items():
        assert set(target) <= known_keys, name
        assert target["sources"], f"{name} has no source"
        assert set(target["sources"]) <= set(document["sources"]), name
        device = target.get("device", {"sources": ["none"]})
        assert device["sources"], f"the device of {name} has no source"
    used = {key for t in (document["common"], *document["targets"].values()) for key in t["sources"]}
    used |= {key for t in document["targets"].values() for key in t.get("device", {}).get("sources", [])}
    assert used == set(document["sources"]), "a source that no table names"
