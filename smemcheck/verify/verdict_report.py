"""A verdict as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import smemcheck
from smemcheck.report.json_report import config_as_json
from smemcheck.rules.wording import config_text
from smemcheck.verify.triton_cache import CacheProblem, Folder, Variant
from smemcheck.verify.verdict import ConfigVerdict, DecisionVerdict, Elimination, KernelVerdict, Reason


@dataclass(frozen=True, slots=True)
class VerdictReport:
    """Everything that ``smemcheck verdict`` says. ``folders`` are all that Triton would use, the read one first."""

    folders: tuple[Folder, ...]
    kernels: tuple[KernelVerdict, ...]
    problems: tuple[CacheProblem, ...]
    notes: tuple[str, ...] = ()


def render_text(report: VerdictReport) -> str:
    """The report for people."""
    lines = [
        f"{folder.purpose}: {folder.path} ({folder.chosen_by}{'' if folder.exists else '; no such folder'})"
        for folder in report.folders
    ]
    for kernel in report.kernels:
        lines += ["", *_kernel_lines(kernel)]
    lines += ["", *(f"note: {note}" for note in report.notes)] if report.notes else []
    if report.problems:
        lines += ["", "Skipped:"]
        lines += [f"  {problem.path}: {problem.message}" for problem in report.problems]
    return "\n".join(lines) + "\n"


def _kernel_lines(kernel: KernelVerdict) -> list[str]:
    place = f" ({kernel.site.position.path}:{kernel.site.position.line})" if kernel.site else ""
    lines = [f"{kernel.kernel}{place}"]
    for decision in kernel.decisions:
        lines += _decision_lines(decision)
    if kernel.reasons:
        lines.append(
            "  no decision of the autotuner for it:" if not kernel.decisions else "  no decision of this list:"
        )
        lines += [f"    {_ANSWER[reason.holds]}: {reason.what} ({reason.evidence})" for reason in kernel.reasons]
    for elimination in kernel.eliminations:
        lines += _elimination_lines(elimination)
    lines += [f"  {sentence}" for sentence in kernel.retunes]
    return lines


_ANSWER = {True: "yes", False: "no", None: "open"}


def _decision_lines(verdict: DecisionVerdict) -> list[str]:
    decision = verdict.decision
    stale = "; of another version of the kernel" if verdict.current is False else ""
    lines = [
        f"  tuned {_time(decision.written)} for {_key(verdict)}{stale}",
        f"    {decision.path}",
    ]
    winner = decision.winner
    for row in verdict.configs:
        mark = "*" if row.timing is winner else " "
        lines.append(f"   {mark} {_milliseconds(row)}  {config_text(row.timing.config)}")
        if row.timing.pruned:
            lines.append(f"       pruned: {row.why}")
    if winner is None:
        first = f": {config_text(decision.timings[0].config)}" if decision.timings else ""
        lines.append(f"    every config was pruned; Triton launches the first{first}, which raises")
    else:
        lines.append(f"    winner: {config_text(winner.config)}")
    return lines


def _elimination_lines(elimination: Elimination) -> list[str]:
    arguments = elimination.arguments
    types = "arguments not known" if arguments is None else ", ".join(f"{a.name}: {a.type}" for a in arguments)
    lines = [f"  by elimination on {elimination.target}, for {types}:", f"    {elimination.conclusion}"]
    lines += [f"    can be loaded: {_variant_text(variant)}" for variant in elimination.left]
    lines += [f"    out: {_variant_text(variant)}: {why}" for variant, why in elimination.out]
    return lines


def _variant_text(variant: Variant) -> str:
    extra = "".join(
        f", {name}={value}"
        for name, value, default in (("num_ctas", variant.num_ctas, 1), ("maxnreg", variant.maxnreg, None))
        if value != default
    )
    tiles = "×".join(map(str, sorted(size for size in variant.tile_sizes if size > 1)))
    shape = f", tile sizes {tiles}" if tiles else ""
    return (
        f"num_warps={variant.num_warps}, num_stages={variant.num_stages}{extra}{shape}, "
        f"{variant.shared_memory:,} B (Triton {variant.triton}, {_time(variant.written)})"
    )


def _key(verdict: DecisionVerdict) -> str:
    values = zip(verdict.names, verdict.decision.key, strict=True)
    plain = [f"{name}={value}" for name, value in values if name != "dtype"]
    dtypes = [str(value) for name, value in zip(verdict.names, verdict.decision.key, strict=True) if name == "dtype"]
    return ", ".join([*plain, *([f"tensors of {', '.join(dtypes)}"] if dtypes else [])])


def _milliseconds(row: ConfigVerdict) -> str:
    return (
        "   pruned" if row.timing.pruned else f"{row.timing.milliseconds[0]:.4f} ms" if row.timing.milliseconds else "-"
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def render_json(report: VerdictReport) -> str:
    """The report for programs."""
    document = {
        "schema": 1,
        "smemcheck": smemcheck.__version__,
        "folders": [
            {"path": f.path, "purpose": f.purpose, "chosen_by": f.chosen_by, "exists": f.exists} for f in report.folders
        ],
        "kernels": [_kernel_document(kernel) for kernel in report.kernels],
        "problems": [{"path": problem.path, "message": problem.message} for problem in report.problems],
        "notes": list(report.notes),
    }
    return json.dumps(document, indent=1) + "\n"


def _kernel_document(kernel: KernelVerdict) -> dict[str, Any]:
    return {
        "kernel": kernel.kernel,
        "path": kernel.site.position.path if kernel.site else None,
        "line": kernel.site.position.line if kernel.site else None,
        "decisions": [_decision_document(decision) for decision in kernel.decisions],
        "reasons": [_reason_document(reason) for reason in kernel.reasons],
        "eliminations": [_elimination_document(elimination) for elimination in kernel.eliminations],
        "retunes": list(kernel.retunes),
    }


def _decision_document(verdict: DecisionVerdict) -> dict[str, Any]:
    winner = verdict.decision.winner
    return {
        "path": verdict.decision.path,
        "written": verdict.decision.written,
        "key": [
            {"name": name, "value": value} for name, value in zip(verdict.names, verdict.decision.key, strict=True)
        ],
        "current": verdict.current,
        "winner": config_as_json(winner.config) if winner else None,
        "configs": [
            {
                "config": config_as_json(row.timing.config),
                "milliseconds": [value if math.isfinite(value) else None for value in row.timing.milliseconds],
                "pruned": row.timing.pruned,
                "cause": row.cause,
                "why": row.why,
                "shared_memory": row.shared_memory,
                "shared_memory_limit": row.limit,
            }
            for row in verdict.configs
        ],
    }


def _reason_document(reason: Reason) -> dict[str, Any]:
    return {"what": reason.what, "holds": reason.holds, "evidence": reason.evidence}


def _elimination_document(elimination: Elimination) -> dict[str, Any]:
    return {
        "target": elimination.target,
        "arguments": None if elimination.arguments is None else {a.name: a.type for a in elimination.arguments},
        "conclusion": elimination.conclusion,
        "left": [_variant_document(variant) for variant in elimination.left],
        "out": [{**_variant_document(variant), "why": why} for variant, why in elimination.out],
    }


def _variant_document(variant: Variant) -> dict[str, Any]:
    names = (
        "path",
        "written",
        "shared_memory",
        "tensor_memory",
        "num_warps",
        "num_stages",
        "num_ctas",
        "maxnreg",
        "triton",
    )
    return {name: getattr(variant, name) for name in names}


def has_only_pruned(kernels: Sequence[KernelVerdict]) -> bool:
    """Whether a current decision left nothing to launch: what ``smemcheck verdict`` exits with 1 for."""
    return any(
        decision.decision.winner is None and decision.current is not False
        for kernel in kernels
        for decision in kernel.decisions
    )
