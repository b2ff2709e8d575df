"""The report for people: a table per kernel, a line per finding, a summary."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Span, Text

from smemcheck.model import (
    Config,
    Finding,
    Footprint,
    Report,
    Result,
    Severity,
    Site,
    SiteKind,
    Specialization,
    TargetAnswer,
    Unknown,
    VerdictKind,
)
from smemcheck.report.places import within
from smemcheck.report.wording import count, results_by_site, summary
from smemcheck.rules.engine import is_left_out
from smemcheck.rules.wording import assumptions_text, config_text, place_text

_STYLE_OF_VERDICT = {
    VerdictKind.FITS: "green",
    VerdictKind.PRUNED: "red",
    VerdictKind.CRASHES: "bold red",
    VerdictKind.UNSUPPORTED: "yellow",
    VerdictKind.UNKNOWN: "yellow",
}
_STYLE_OF_SEVERITY = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def render(
    report: Report,
    *,
    folder: str,
    color: bool,
    width: int,
    detail: int = 1,
    without: frozenset[str] = frozenset(),
) -> str:
    """The whole report as text.

    Paths are shown relative to ``folder``. ``detail`` 0 leaves the tables out, 2 adds every assumption with its reason.
    What :func:`render_site` gave, if it is in ``without``, is left out.
    """
    tables: list[str] = []
    if detail:
        every = replace(report, results=(*report.results, *(row for other in report.others for row in other.results)))
        for site, results in zip(report.sites, results_by_site(every), strict=True):
            about = replace(report, results=tuple(results))
            tables.append(render_site(about, site, folder=folder, color=color, width=width, detail=detail))
    console = _console(color=color, width=width)
    for finding in report.findings:
        console.print(_finding_line(finding, folder), soft_wrap=True)
    if report.findings:
        console.print()
    for note in report.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    console.print(summary(report, folder), markup=False, soft_wrap=True)
    return "".join(table for table in tables if table not in without) + _text_of(console)


def render_site(report: Report, site: Site, *, folder: str, color: bool, width: int, detail: int) -> str:
    """The part of :func:`render` that is about one site; the report has no results of others."""
    console = _console(color=color, width=width)
    _print_site(console, report, site, report.results, folder, detail)
    return _text_of(console)


def render_sites(report: Report, *, folder: str, color: bool, width: int) -> str:
    """What ``smemcheck sites`` shows: every kernel with its configs for each target."""
    console = _console(color=color, width=width)
    for site in report.sites:
        console.print(_heading(site, folder), soft_wrap=True)
        for names, answer in _same_answers(site):
            label = "" if len(names) == len(report.targets) else f"{', '.join(names)}: "
            console.print(f"  {label}{_answer_text(answer)}", markup=False, soft_wrap=True)
            if isinstance(answer.configs, tuple):
                for config in answer.configs:
                    line = f" (line {config.position.line})" if config.position else ""
                    console.print(f"    {config_text(config)}{line}", markup=False, soft_wrap=True)
        console.print()
    for finding in report.findings:
        console.print(_finding_line(finding, folder), soft_wrap=True)
    console.print(summary(report, folder), markup=False, soft_wrap=True)
    return _text_of(console)


def _console(*, color: bool, width: int) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=color,
        color_system="standard" if color else None,
        width=width,
        emoji=False,  # what stands between colons in a message is no name of a picture
        highlight=False,
        legacy_windows=False,
    )


def _print_site(
    console: Console, report: Report, site: Site, results: Sequence[Result], folder: str, detail: int
) -> None:
    console.print(_heading(site, folder), soft_wrap=True)
    for names, answer in _same_answers(site):
        obstacle = answer.configs if isinstance(answer.configs, Unknown) else answer.kernel
        if isinstance(obstacle, Unknown):
            where = f" ({place_text(obstacle.position.path, obstacle.position.line)})" if obstacle.position else ""
            label = "" if len(names) == len(report.targets) else f" on {', '.join(names)}"
            console.print(f"  unknown{label}: {obstacle.reason}{where}", markup=False, soft_wrap=True)
    for note in dict.fromkeys(note for answer in site.answers.values() for note in answer.notes):
        console.print(f"  {note}", markup=False, soft_wrap=True)
    for indices, rows in _alike(_by_specialization(results), site.kind):
        _print_assumed(console, _specializations(report, indices), folder, detail)
        columns = _columns(report)
        _print_table(console, _cells(rows, columns, site.kind), [name for name, _, _ in columns])
    console.print()


def _print_assumed(console: Console, specializations: Sequence[Specialization], folder: str, detail: int) -> None:
    """What a table rests on: the first specialisation and how many more have the same numbers, or all of them."""
    shown = specializations if detail > 1 or len(specializations) == 2 else specializations[:1]
    for specialization in shown:
        assumed = assumptions_text(specialization, most=None)
        if assumed:
            console.print(f"  assuming {assumed}", markup=False, soft_wrap=True)
        if detail > 1:
            _print_assumptions(console, specialization, folder)
    more = len(specializations) - len(shown)
    if more:
        console.print(f"  and the same for {count(more, 'more specialisation')}", markup=False, soft_wrap=True)


def _print_assumptions(console: Console, specialization: Specialization, folder: str) -> None:
    for assumption in specialization.assumptions:
        position = assumption.position
        where = f" ({within(folder, position.path)}:{position.line})" if position else ""
        text = f"    {assumption.parameter} = {assumption.value}: {assumption.because}{where}"
        console.print(text, markup=False, soft_wrap=True)


def _heading(site: Site, folder: str) -> Text:
    heading = Text(f"{within(folder, site.position.path)}:{site.position.line} ")
    heading.append(site.kernel_name, style="bold")
    heading.append("" if site.kind is SiteKind.AUTOTUNE else " (launch)")
    return heading


def _by_specialization(results: Iterable[Result]) -> dict[int | None, list[Result]]:
    grouped: dict[int | None, list[Result]] = {}
    for result in results:
        grouped.setdefault(result.specialization, []).append(result)
    return grouped


def _alike(grouped: dict[int | None, list[Result]], kind: SiteKind) -> Iterator[tuple[list[int | None], list[Result]]]:
    """Specialisations with the same table share it."""
    tables: dict[tuple[object, ...], tuple[list[int | None], list[Result]]] = {}
    for index, results in grouped.items():
        key = tuple((result.config, result.triton, result.target, _cell(result, kind)) for result in results)
        tables.setdefault(key, ([], results))[0].append(index)
    yield from tables.values()


def _specializations(report: Report, indices: Sequence[int | None]) -> list[Specialization]:
    return [report.specializations[index].specialization for index in indices if index is not None]


def _columns(report: Report) -> list[tuple[str, str, str]]:
    """The columns of every table: header, Triton, target. Where several Tritons were asked, each has a group."""
    if not report.others:
        return [(target.name, "", target.name) for target in report.targets]
    tritons = [("", report.triton), *((other.name, other.name) for other in report.others)]
    return [(f"{shown} {target.name}", name, target.name) for name, shown in tritons for target in report.targets]


def _cells(
    results: Sequence[Result], columns: Sequence[tuple[str, str, str]], kind: SiteKind
) -> list[list[tuple[str, str]]]:
    """One row a config, one column a Triton and target; of each cell the text and its style."""
    grouped: dict[Config, dict[tuple[str, str], Result]] = {}
    for result in results:
        grouped.setdefault(result.config, {})[result.triton, result.target] = result
    return [
        [(config_text(config), ""), *(_judged(found.get((triton, target)), kind) for _, triton, target in columns)]
        for config, found in grouped.items()
    ]


def _judged(result: Result | None, kind: SiteKind) -> tuple[str, str]:
    return ("–", "") if result is None else (_cell(result, kind), _STYLE_OF_VERDICT[result.verdict.kind])


def _print_table(console: Console, rows: Sequence[Sequence[tuple[str, str]]], names: Sequence[str]) -> None:
    """A table: by hand where it fits, because rich takes 0.1 ms for a cell; rich folds what is too wide."""
    header = [("config", "bold"), *((name, "bold") for name in names)]
    widths = [max(cell_len(text) for text, _ in column) for column in zip(header, *rows, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 > console.width:
        console.print(Padding(_rich_table(rows, names), (0, 0, 0, 1)))
        return
    styled = console.color_system is not None
    lines = Text()
    _append_line(lines, header, widths, styled=styled)
    lines.append(" " + "─" * (sum(widths) + 3 * len(widths) - 1) + "\n")
    for row in rows:
        _append_line(lines, row, widths, styled=styled)
    console.print(lines, soft_wrap=True, end="")


def _append_line(lines: Text, cells: Sequence[tuple[str, str]], widths: Sequence[int], *, styled: bool) -> None:
    texts, spans, end = [], [], len(lines) + 2
    for number, ((text, style), width) in enumerate(zip(cells, widths, strict=True)):
        room = " " * (width - cell_len(text))
        texts.append(room + text if number else text + room)
        start = end + (len(room) if number else 0)
        if style and styled:
            spans.append(Span(start, start + len(text), style))
        end += len(texts[-1]) + 3
    lines.append("  " + "   ".join(texts) + "\n")
    lines.spans.extend(spans)


def _rich_table(rows: Sequence[Sequence[tuple[str, str]]], names: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    table.add_column("config", overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(text, style=style) for text, style in row))
    return table


def _cell(result: Result, kind: SiteKind) -> str:
    """``102,400 B pruned``, with registers where they were asked for; a cause that bytes do not show is named.

    What the author's ``early_config_prune`` drops is ``left out``: it is not on the list of that launch. What an autotuner
    would prune ``raises`` where there is none.
    """
    verdict = result.verdict
    if is_left_out(result):
        return "left out"
    word = "raises" if kind is SiteKind.LAUNCH and verdict.kind is VerdictKind.PRUNED else verdict.kind.value
    footprint = result.outcome
    if not isinstance(footprint, Footprint):
        return f"{word}: {verdict.cause}" if verdict.cause else word
    text = f"{footprint.shared_memory:,} B {word}"
    if verdict.cause not in {None, "shared memory"}:
        text += f": {verdict.cause}"
    if footprint.registers is not None:
        text += f", {footprint.registers} regs"
    if footprint.spill_bytes:
        text += f", {footprint.spill_bytes:,} B spilled"
    return text


def _finding_line(finding: Finding, folder: str) -> Text:
    position = finding.position
    line = Text(f"{within(folder, position.path)}:{position.line}:{position.column}: ")
    line.append(finding.rule, style=_STYLE_OF_SEVERITY[finding.severity])
    line.append(f" {finding.message}")
    return line


def _same_answers(site: Site) -> Iterator[tuple[list[str], TargetAnswer]]:
    """The targets with the same configs and obstacles together."""
    grouped: list[tuple[TargetAnswer, list[str]]] = []
    for name, answer in site.answers.items():
        for other, names in grouped:
            same_kernel = not isinstance(answer.kernel, Unknown) or answer.kernel == other.kernel
            if other.configs == answer.configs and same_kernel:
                names.append(name)
                break
        else:
            grouped.append((answer, [name]))
    return ((names, answer) for answer, names in grouped)


def _answer_text(answer: TargetAnswer) -> str:
    if isinstance(answer.configs, Unknown):
        position = answer.configs.position
        where = f" ({place_text(position.path, position.line)})" if position else ""
        return f"unknown: {answer.configs.reason}{where}"
    return count(len(answer.configs), "config")


def _text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"
