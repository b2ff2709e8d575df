"""The report as JSON, schema 1: other tools rely on it. Its JSON Schema lies beside this module in report.schema.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from smemcheck.model import (
    Assumption,
    AttributeValue,
    Config,
    ConstexprValue,
    Dtype,
    Failure,
    Finding,
    Footprint,
    FunctionValue,
    NamespaceValue,
    Report,
    Result,
    Site,
    Specialization,
    SpecializedSite,
    Target,
    Unknown,
    Value,
)
from smemcheck.report.places import within_root
from smemcheck.rules.occupancy import occupancy
from smemcheck.specialize.dtypes import language_name

SCHEMA = 1

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def render(report: Report) -> Iterator[str]:
    """The report as one JSON document in pieces, a line for each entry of its lists, ending with a line break.

    Python's encoder indents in Python, which takes four times as long; and the whole text of a large report takes more memory
    than the report.
    """
    start = "{\n"
    for key, value in _entries(report).items():
        yield f"{start} {_text(key)}: "
        start = ",\n"
        if not isinstance(value, Iterator):
            yield _text(value)
            continue
        before = "[\n  "
        for entry in value:
            yield before + _text(entry)
            before = ",\n  "
        yield "[]" if before.startswith("[") else "\n ]"
    yield "\n}\n"


def _text(value: Any) -> str:
    return _ENCODER.encode(value)


def document(report: Report) -> dict[str, Any]:
    """The report as plain dictionaries and lists."""
    return {key: list(value) if isinstance(value, Iterator) else value for key, value in _entries(report).items()}


def _entries(report: Report) -> dict[str, Any]:
    """What the document has, in its order; lists as iterators, so that nobody has to hold all of them."""
    every = (report.results, *(other.results for other in report.others))
    return {
        "schema": SCHEMA,
        "smemcheck": report.smemcheck,
        "triton": report.triton,
        "tritons": iter([report.triton, *(other.name for other in report.others)]),
        "files": report.files,
        "notes": iter(report.notes),
        "targets": (_target(target) for target in report.targets),
        "sites": (_site(report, site) for site in report.sites),
        "specializations": (_specialization(report, entry) for entry in report.specializations),
        "results": (_result(report, result) for results in every for result in results),
        "findings": (_finding(report, finding) for finding in report.findings),
    }


def value_as_json(value: Value) -> Any:
    """A constexpr value; what JSON has no word for becomes a table with one key that says what it is."""
    if isinstance(value, Dtype):
        return {"dtype": language_name(value.name)}
    if isinstance(value, FunctionValue):
        return {"jit": value.name}
    if isinstance(value, AttributeValue):
        return {"attribute": value.path}
    if isinstance(value, NamespaceValue):
        return {"namespace": value.name}
    if isinstance(value, ConstexprValue):
        return {"constexpr": value_as_json(value.value)}
    if isinstance(value, tuple):
        return [value_as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def config_as_json(config: Config) -> dict[str, Any]:
    """A config by the names that ``triton.Config`` has; other options only where there are some."""
    table = {
        "kwargs": {name: value_as_json(value) for name, value in config.kwargs},
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
        "num_ctas": config.num_ctas,
        "maxnreg": config.maxnreg,
    }
    if config.options:
        table["options"] = {name: value_as_json(value) for name, value in config.options}
    return table


def _target(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "backend": target.backend,
        "arch": target.arch,
        "warp_size": target.warp_size,
        "shared_memory_limit": target.shared_memory_limit,
        "tensor_memory_limit": target.tensor_memory_limit,
    }


def _site(report: Report, site: Site) -> dict[str, Any]:
    unknown = {}
    configs = {}
    notes = {}
    for target, answer in site.answers.items():
        obstacle = answer.configs if isinstance(answer.configs, Unknown) else answer.kernel
        if isinstance(obstacle, Unknown):
            unknown[target] = _unknown(report, obstacle)
        is_known = isinstance(answer.configs, tuple)
        configs[target] = [config_as_json(config) for config in answer.configs] if is_known else None  # type: ignore[union-attr]
        if answer.notes:
            notes[target] = list(answer.notes)
    return {
        "path": within_root(report, site.position.path),
        "line": site.position.line,
        "kernel": site.kernel_name,
        "kind": site.kind.value,
        "parameters": [parameter.name for parameter in site.parameters],
        "constexprs": [parameter.name for parameter in site.parameters if parameter.is_constexpr],
        "key": None if isinstance(site.key, Unknown) else list(site.key),
        "configs": configs,
        "unknown": unknown,
        "notes": notes,
    }


def _unknown(report: Report, unknown: Unknown) -> dict[str, Any]:
    table: dict[str, Any] = {"reason": unknown.reason, "path": None, "line": None}
    if unknown.position:
        table |= {"path": within_root(report, unknown.position.path), "line": unknown.position.line}
    return table


def _specialization(report: Report, entry: SpecializedSite) -> dict[str, Any]:
    specialization: Specialization = entry.specialization
    return {
        "site": entry.site,
        "signature": dict(specialization.signature),
        "constexprs": {
            name: value_as_json(value) for name, value in (*specialization.constexprs, *specialization.settled)
        },
        "divisible_by_16": [name for name, _ in specialization.signature if name in specialization.divisible_by_16],
        "environment": dict(specialization.environment),
        "targets": list(specialization.targets or (target.name for target in report.targets)),
        "assumptions": [_assumption(report, assumption) for assumption in specialization.assumptions],
    }


def _assumption(report: Report, assumption: Assumption) -> dict[str, Any]:
    position = assumption.position
    return {
        "parameter": assumption.parameter,
        "value": assumption.value,
        "because": assumption.because,
        "path": within_root(report, position.path) if position else None,
        "line": position.line if position else None,
    }


def _result(report: Report, result: Result) -> dict[str, Any]:
    target = next(target for target in report.targets if target.name == result.target)
    footprint = result.outcome if isinstance(result.outcome, Footprint) else None
    blocks = occupancy(footprint, target)
    return {
        "site": result.site,
        "specialization": result.specialization,
        "target": result.target,
        "triton": result.triton or report.triton,
        "config": config_as_json(result.config),
        "config_line": result.config.position.line if result.config.position else None,
        "verdict": result.verdict.kind.value,
        "cause": result.verdict.cause,
        "message": result.verdict.message,
        "shared_memory": footprint.shared_memory if footprint else None,
        "shared_memory_limit": target.shared_memory_limit,
        "tensor_memory": footprint.tensor_memory if footprint else None,
        "threads": footprint.threads if footprint else None,
        "registers": footprint.registers if footprint else None,
        "spill_bytes": footprint.spill_bytes if footprint else None,
        "registers_at_least": footprint.registers_at_least if footprint else None,
        "register_files": dict(footprint.register_files) if footprint else {},
        "blocks_per_multiprocessor": blocks.blocks if blocks else None,
        "occupancy_limited_by": blocks.limited_by if blocks else None,
        "buffers": [
            {
                "variable": buffer.variable,
                "line": buffer.position.line if buffer.position else None,
                "offset": buffer.offset,
                "bytes": buffer.size,
                "type": buffer.type,
            }
            for buffer in (footprint.buffers if footprint else ())
        ],
        "cached": isinstance(result.outcome, Footprint | Failure) and result.outcome.cached,
    }


def _finding(report: Report, finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "path": within_root(report, finding.position.path),
        "line": finding.position.line,
        "column": finding.position.column,
        "message": finding.message,
        "site": finding.site,
        "specialization": finding.specialization,
        "target": finding.target,
        "config": config_as_json(finding.config) if finding.config else None,
    }
