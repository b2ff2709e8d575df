"""Prediction and hardware side by side: what agrees, what does not, and which config won."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from smemcheck.model import Footprint, Result, VerdictKind
from smemcheck.report.json_report import config_as_json, document
from smemcheck.rules.wording import config_text
from smemcheck.verify.gpu_child import CAUGHT
from smemcheck.verify.hardware import Observation, Verification


@dataclass(frozen=True, slots=True)
class Row:
    """One config: what was predicted, what was seen, and every way in which they differ.

    ``observed`` is ``None`` when the launch says nothing of the prediction (no argument could be made, or it was specialised
    otherwise); ``obstacle`` says why.
    """

    observation: Observation
    result: Result
    observed: VerdictKind | None
    mismatches: tuple[str, ...]
    obstacle: str | None = None


def compare(verification: Verification) -> tuple[Row, ...]:
    """Hold every observation against its result."""
    return tuple(
        _row(observation, verification.report.results[observation.result]) for observation in verification.observations
    )


def _row(observation: Observation, result: Result) -> Row:
    seen = observation.seen
    obstacle = seen.get("unbuildable") or seen.get("other_specialization")
    if obstacle:
        return Row(observation, result, None, (), str(obstacle))
    observed = observed_verdict(seen)
    mismatches = []
    if observed is not result.verdict.kind:
        mismatches.append(f"verdict: predicted {result.verdict.kind.value}, observed {observed.value}")
    if isinstance(result.outcome, Footprint):
        mismatches += _different_numbers(result.outcome, seen)
    if observation.milliseconds is not None and (result.verdict.kind is VerdictKind.PRUNED) != _is_pruned(observation):
        word = "pruned it" if _is_pruned(observation) else "timed it"
        mismatches.append(f"autotuner: predicted {result.verdict.kind.value}, and it {word}")
    return Row(observation, result, observed, tuple(mismatches))


def observed_verdict(seen: Mapping[str, Any]) -> VerdictKind:
    """What ``Autotuner._bench`` makes of what happened (triton/runtime/autotuner.py, 3.4 to 3.9)."""
    error = seen.get("compile_error") or seen.get("load_error") or seen.get("launch_error")
    if error is None:
        return VerdictKind.FITS
    return VerdictKind.PRUNED if error in CAUGHT else VerdictKind.CRASHES


def _different_numbers(predicted: Footprint, seen: Mapping[str, Any]) -> list[str]:
    """Numbers that both sides know and that differ. A kernel over the limit is never loaded and has no registers."""
    pairs = (
        ("shared memory", predicted.shared_memory, seen.get("shared_memory"), "B"),
        ("tensor memory", predicted.tensor_memory, seen.get("tensor_memory"), "columns"),
        ("registers", predicted.registers, seen.get("registers"), "a thread"),
        ("spills", predicted.spill_bytes, seen.get("spill_bytes"), "B a thread"),
    )
    return [
        f"{what}: predicted {ours:,} {unit}, observed {theirs:,} {unit}"
        for what, ours, theirs, unit in pairs
        if ours is not None and theirs is not None and ours != theirs
    ]


def _is_pruned(observation: Observation) -> bool:
    return any(map(math.isinf, observation.milliseconds or ()))


def confusion(rows: Sequence[Row]) -> Counter[tuple[str, str]]:
    """How many configs have each pair (predicted verdict, observed verdict)."""
    return Counter((row.result.verdict.kind.value, row.observed.value) for row in rows if row.observed is not None)


def has_mismatch(rows: Sequence[Row]) -> bool:
    return any(row.mismatches for row in rows)


def verification_text(verification: Verification, rows: Sequence[Row], width: int) -> str:
    """The comparison for people."""
    console = Console(file=io.StringIO(), width=width, highlight=False, legacy_windows=False)
    report = verification.report
    by_group: dict[tuple[int, int | None], list[Row]] = {}
    for row in rows:
        recorded = row.result.specialization is not None and (
            report.specializations[row.result.specialization].specialization.config is not None
        )
        by_group.setdefault((row.result.site, None if recorded else row.result.specialization), []).append(row)
    for (site, _), members in by_group.items():
        console.print(
            f"hardware ({verification.device}): {report.sites[site].kernel_name}", markup=False, soft_wrap=True
        )
        console.print(_table(members))
        for row in members:
            for mismatch in row.mismatches:
                console.print(f"  MISMATCH {config_text(row.result.config)}: {mismatch}", markup=False, soft_wrap=True)
            if row.mismatches and row.observation.seen.get("message"):
                console.print(f"    {row.observation.seen['message']}", markup=False, soft_wrap=True)
        for row in members:
            if row.observation.won and row.observation.milliseconds and not _is_pruned(row.observation):
                text = f"{config_text(row.result.config)}, {row.observation.milliseconds[0]:.4f} ms"
                console.print(f"  winner: {text}", markup=False, soft_wrap=True)
        console.print()
    for index, why in verification.left_out:
        result = report.results[index]
        text = f"not launched: {report.sites[result.site].kernel_name}, {config_text(result.config)}: {why}"
        console.print(text, markup=False, soft_wrap=True)
    for note in verification.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(_confusion_table(rows))
    wrong = sum(bool(row.mismatches) for row in rows)
    compared = sum(row.observed is not None for row in rows)
    console.print(f"{compared} configs launched and compared, {wrong} with a mismatch")
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("config", "predicted", "observed", "shared", "registers", "spills", "time"):
        table.add_column(name, justify="left" if name in {"config", "predicted", "observed"} else "right")
    for row in rows:
        seen, outcome = row.observation.seen, row.result.outcome
        predicted = outcome if isinstance(outcome, Footprint) else None
        time = row.observation.milliseconds
        table.add_row(
            config_text(row.result.config),
            row.result.verdict.kind.value,
            row.observed.value if row.observed else f"not comparable: {row.obstacle}",
            _pair(predicted.shared_memory if predicted else None, seen.get("shared_memory")),
            _pair(predicted.registers if predicted else None, seen.get("registers")),
            _pair(predicted.spill_bytes if predicted else None, seen.get("spill_bytes")),
            "" if time is None else "inf" if _is_pruned(row.observation) else f"{time[0]:.4f} ms",
        )
    return table


def _pair(predicted: int | None, observed: int | None) -> str:
    """One number where both agree or one is missing, both where they differ."""
    known = [f"{value:,}" for value in (predicted, observed) if value is not None]
    return known[0] if len(set(known)) == 1 else " ≠ ".join(known)


def _confusion_table(rows: Sequence[Row]) -> Table:
    counts = confusion(rows)
    table = Table(box=box.SIMPLE, pad_edge=False)
    observed = sorted({pair[1] for pair in counts})
    table.add_column("predicted \\ observed")
    for name in observed:
        table.add_column(name, justify="right")
    for predicted in sorted({pair[0] for pair in counts}):
        table.add_row(predicted, *(str(counts[predicted, name]) for name in observed))
    return table


def verification_json(verification: Verification, rows: Sequence[Row]) -> str:
    """The report of ``check``, with what the hardware did under ``"verification"``."""
    found = document(verification.report)
    found["verification"] = {
        "device": verification.device,
        "rows": [_row_document(row) for row in rows],
        "left_out": [{"result": index, "why": why} for index, why in verification.left_out],
        "confusion": [
            {"predicted": predicted, "observed": observed, "count": count}
            for (predicted, observed), count in sorted(confusion(rows).items())
        ],
        "mismatches": sum(bool(row.mismatches) for row in rows),
        "notes": list(verification.notes),
    }
    return json.dumps(found, indent=1) + "\n"


def _row_document(row: Row) -> dict[str, Any]:
    time = row.observation.milliseconds
    return {
        "result": row.observation.result,
        "config": config_as_json(row.result.config),
        "predicted": row.result.verdict.kind.value,
        "observed": row.observed.value if row.observed else None,
        "obstacle": row.obstacle,
        "seen": dict(row.observation.seen),
        "milliseconds": None if time is None else [value if math.isfinite(value) else None for value in time],
        "pruned_by_autotuner": None if time is None else _is_pruned(row.observation),
        "won": row.observation.won,
        "mismatches": list(row.mismatches),
    }
