"""The commands of what really happens: ``verdict``, ``record``, and what ``check --verify`` does."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smemcheck.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from smemcheck.compiler import Progress
    from smemcheck.config import Settings
    from smemcheck.model import Config, Site, Verdict
    from smemcheck.verify.triton_cache import Cache, Variant


@click.command()
@click.argument("kernel", required=False)
@click.argument("path", required=False, metavar="[PATH]")
@click.option(
    "--cache-dir", "cache_directory", metavar="DIR", help="Triton's cache folder (default: where Triton looks)."
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verdict(kernel: str | None, path: str | None, cache_directory: str | None, format_: str) -> None:
    """Say which config the autotuner chose for KERNEL, and why, from Triton's cache on disk.

    PATH is where the kernel's source lies: with it the reasons for a missing decision can be checked, and pruned configs
    whose cause the cache does not tell are lowered again. Without KERNEL every decision in the cache is shown.
    """
    with _usage_errors():
        from smemcheck.verify.verdict_report import has_only_pruned, render_json, render_text

        if kernel and path is None and Path(kernel).exists():
            kernel, path = None, kernel
        report = _verdicts(kernel, path, cache_directory)
        click.echo((render_json if format_ == "json" else render_text)(report), nl=False)
        sys.exit(1 if has_only_pruned(report.kernels) else 0)


def _verdicts(kernel: str | None, path: str | None, cache_directory: str | None) -> Any:
    from smemcheck.rules.devices import targets
    from smemcheck.verify.triton_cache import folders, read_cache
    from smemcheck.verify.verdict import judge_kernel
    from smemcheck.verify.verdict_report import VerdictReport

    places = folders(os.environ, cache_directory)
    if cache_directory is not None and not places[0].exists:
        raise UsageError(f"--cache-dir {cache_directory}: no such folder")
    if path is not None and not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory")
    cache = read_cache(places[0]) if places[0].exists else _empty(places[0])
    known = {*(decision.kernel for decision in cache.decisions), *(variant.kernel for variant in cache.variants)}
    sites = _sites(path or _source_of(kernel, cache), cache)
    names, notes = _chosen(kernel, cache, sites)
    if kernel and kernel not in sites and kernel not in known:
        hint = did_you_mean(kernel, {*known, *sites})
        notes += (f"nothing of a kernel {kernel} lies in the cache{hint}",)
    others = [] if all(_has_decision(name, cache) for name in names) else _other_caches(places, cache)
    verdicts = tuple(
        judge_kernel(name, sites.get(name), cache, others, targets(), os.environ, _lower_again) for name in names
    )
    return VerdictReport(places, verdicts, cache.problems, notes)


def _empty(folder: Any) -> Cache:
    from smemcheck.verify.triton_cache import Cache

    return Cache(folder, (), (), ())


def _chosen(kernel: str | None, cache: Cache, sites: Mapping[str, Site]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kernels to speak of, in order, and what is left out."""
    if kernel:
        return (kernel,), ()
    decided = dict.fromkeys(decision.kernel for decision in cache.decisions)
    rest = sorted({variant.kernel for variant in cache.variants} - set(decided) - set(sites))
    notes = (
        (
            f"{len(rest)} kernels in the cache have no decision: {', '.join(rest[:8])}{', …' if len(rest) > 8 else ''}; name one",
        )
        if rest
        else ()
    )
    return (*decided, *(name for name in sites if name not in decided)), notes


def _has_decision(kernel: str, cache: Cache) -> bool:
    from smemcheck.verify.triton_cache import same_kernel

    return any(same_kernel(decision.kernel, kernel) for decision in cache.decisions)


def _other_caches(places: Sequence[Any], cache: Cache) -> list[Cache]:
    """The other folders that Triton uses, and the default one where another was named."""
    from smemcheck.verify.triton_cache import Folder, folders, read_cache

    without = {name: value for name, value in os.environ.items() if name != "TRITON_CACHE_DIR"}
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    candidates = [*places[1:], *folders(os.environ)[:1], *folders(without)[:1], *folders({})[:1]]
    if inductor:
        candidates.append(Folder(str(Path(inductor, "triton")), "cache", "TORCHINDUCTOR_CACHE_DIR"))
    found: dict[str, Any] = {folder.path: folder for folder in reversed(candidates)}
    return [read_cache(folder) for folder in found.values() if folder.exists and folder.path != cache.folder.path]


def _source_of(kernel: str | None, cache: Cache) -> str | None:
    """The file that the IR of the kernel's newest variant names, when it still exists."""
    named = [variant for variant in cache.variants if variant.kernel == kernel and variant.source]
    newest = max(named, key=lambda variant: variant.written, default=None)
    return newest.source[0] if newest and newest.source and Path(newest.source[0]).is_file() else None


def _sites(path: str | None, cache: Cache) -> dict[str, Site]:
    """The autotuned sites under a path by kernel name, read for the architectures that the cache was made for."""
    if path is None:
        return {}
    from smemcheck.config import find_settings
    from smemcheck.model import SiteKind
    from smemcheck.pipeline import sites

    settings = dataclasses.replace(find_settings((path,)), targets=_targets(cache.variants), launches=False)
    report = sites((path,), settings)
    return {site.kernel_name: site for site in report.sites if site.kind is SiteKind.AUTOTUNE}


def _targets(variants: Sequence[Variant]) -> tuple[str, ...]:
    from smemcheck.rules.devices import targets
    from smemcheck.verify.verdict import target_name

    return tuple(dict.fromkeys(name for name in map(target_name, variants) if name in targets()))


def _lower_again(site: Site, variants: Sequence[Variant], configs: Sequence[Config]) -> Mapping[Config, Verdict]:
    """Lower the site's file under the specialisations of the variants; every config that is pruned under each of them."""
    from smemcheck.config import find_settings
    from smemcheck.pipeline import check
    from smemcheck.rules.wording import settings_of
    from smemcheck.verify.harvest import harvested_lines, lines_text

    lines = harvested_lines(variants, {site.kernel_name: site})
    names = _targets(variants)
    if not lines or not names:
        return {}
    with tempfile.TemporaryDirectory(prefix="smemcheck-") as folder:
        file = Path(folder, "cache.jsonl")
        file.write_text(lines_text(lines), encoding="utf-8")
        settings = find_settings((site.position.path,))
        settings = dataclasses.replace(
            settings, targets=names, specializations=(str(file),), launches=False, cache=False
        )
        report = check((site.position.path,), settings)
    found: dict[Config, Verdict] = {}
    for config in configs:
        verdicts = [
            result.verdict
            for result in report.results
            if report.sites[result.site].kernel_name == site.kernel_name
            and settings_of(result.config) == settings_of(config)
        ]
        kinds = {verdict.kind for verdict in verdicts}
        if len(kinds) == 1:
            found[config] = verdicts[0]
    return found


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--output", metavar="FILE", default="specializations.jsonl", show_default=True, help="Lines are merged in."
)
@click.option("--without-gpu", is_flag=True, help="No GPU is needed: tensors live on the CPU, launches do nothing.")
@click.option("--arch", metavar="NAME", help="Architecture or GPU that --without-gpu stands in for.")
@click.option(
    "--from-cache", "from_cache", is_flag=True, help="Read Triton's cache folder [DIR] instead of running anything."
)
@click.option("--source", metavar="PATH", help="Where the kernels of --from-cache lie, if not where they lay.")
def record(
    command: tuple[str, ...], output: str, without_gpu: bool, arch: str | None, from_cache: bool, source: str | None
) -> None:
    """Record what kernels are launched with while COMMAND runs, for `check --specializations`.

    One line for each kernel that Triton compiles: types, constants, alignment, config, and what was observed. With
    --from-cache, an argument is the cache folder (default: where Triton looks).
    """
    with _usage_errors():
        if from_cache:
            sys.exit(_record_from_cache(command, output, source))
        if arch and not without_gpu:
            raise UsageError("record: --arch goes with --without-gpu; with a GPU its own architecture is recorded")
        if without_gpu and not arch:
            raise UsageError("record: --without-gpu needs --arch, the architecture to stand in for")
        if not command:
            raise UsageError("record: give the command to run after --, for example: smemcheck record -- pytest tests")
        sys.exit(_record_command(command, output, arch))


def _record_command(command: Sequence[str], output: str, arch: str | None) -> int:
    from smemcheck.rules.devices import resolve_target
    from smemcheck.verify.recording import add_to_file, record

    recording = record(command, resolve_target(arch) if arch else None)
    if not recording.processes:
        click.echo(
            "smemcheck record: no Python process of the command imported Triton, so nothing is recorded", err=True
        )
        return recording.status
    total = add_to_file(Path(output), recording.lines)
    click.echo(
        f"smemcheck record: {len(recording.lines)} specialisations from {recording.processes} processes; "
        f"{output} now has {total} lines",
        err=True,
    )
    return recording.status


def _record_from_cache(arguments: Sequence[str], output: str, source: str | None) -> int:
    from smemcheck.verify.harvest import harvested_lines
    from smemcheck.verify.recording import add_to_file
    from smemcheck.verify.triton_cache import folders, read_cache

    if len(arguments) > 1:
        raise UsageError("record: --from-cache takes one folder")
    folder = folders(os.environ, arguments[0] if arguments else None)[0]
    if not folder.exists:
        raise UsageError(f"{folder.path}: no such folder ({folder.chosen_by})")
    cache = read_cache(folder)
    if source is not None and not Path(source).exists():
        raise UsageError(f"{source}: no such file or directory")
    named = {variant.source[0] for variant in cache.variants if variant.source}
    paths = (source,) if source else sorted(path for path in named if Path(path).is_file())
    sites = {name: site for path in paths for name, site in _sites(path, cache).items()}
    lines = harvested_lines(cache.variants, sites)
    total = add_to_file(Path(output), lines)
    for problem in cache.problems:
        click.echo(f"smemcheck record: skipped {problem.path}: {problem.message}", err=True)
    click.echo(
        f"smemcheck record: {len(lines)} specialisations from {folder.path}; {output} now has {total} lines", err=True
    )
    return 0


def verify_and_exit(
    paths: Sequence[str], settings: Settings, options: Mapping[str, Any], progress: Progress | None
) -> NoReturn:
    """What ``check --verify`` does: print the report with the hardware beside it; 1 on any mismatch."""
    from smemcheck.report import WIDTH_OF_A_FILE, View, written
    from smemcheck.verify.comparison import compare, has_mismatch, verification_json, verification_text
    from smemcheck.verify.hardware import verify

    if options["format_"] not in {"text", "json"}:
        raise UsageError(f"--verify writes text or json, not {options['format_']}")
    verification = verify(paths, settings, options["verify_with"], progress)
    rows = compare(verification)
    if options["format_"] == "json":
        sys.stdout.write(verification_json(verification, rows))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH_OF_A_FILE
        view = View(Path.cwd().as_posix(), width=width, detail=0 if options["quiet"] else 1)
        sys.stdout.write(
            "".join(written(verification.report, "text", view)) + "\n" + verification_text(verification, rows, width)
        )
    sys.stdout.flush()
    sys.exit(1 if has_mismatch(rows) else 0)


class _usage_errors:  # noqa: N801 - reads as a statement
    """One sentence for input that cannot be used."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, UsageError):
            click.echo(f"smemcheck: {error}", err=True)
            sys.exit(2)
