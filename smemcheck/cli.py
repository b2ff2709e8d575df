"""The command line: parses options, calls the pipeline, prints. Exit codes: 0 clean, 1 findings, 2 usage or internal error."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smemcheck import __version__
from smemcheck.verify.commands import record, verdict, verify_and_exit

if TYPE_CHECKING:
    from smemcheck.config import Settings
    from smemcheck.model import Report
    from smemcheck.report import View

_FOUND, _FAILED = 1, 2
_FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")


class _PathsFirst(click.Group):
    """``smemcheck PATH…`` is short for ``smemcheck check PATH…``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own_options = {"--version", "--help", "-h"}
        if args and args[0] not in self.commands and args[0] not in own_options:
            args = ["check", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PathsFirst, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="smemcheck %(version)s")
def cli() -> None:
    """Say which Triton autotune configs a GPU would prune, without a GPU and without importing your code.

    `smemcheck PATH...` is short for `smemcheck check PATH...`.
    """


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_SOURCE_OPTIONS = _options(
    click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
    click.option("--arch", "targets", multiple=True, metavar="NAME", help="Architecture or GPU (repeatable)."),
    click.option(
        "--env", "environment", multiple=True, metavar="NAME=VALUE", help="Variable that code and compiler see."
    ),
    click.option(
        "--exclude", multiple=True, metavar="PATTERN", help="Files to leave out, as in .gitignore (repeatable)."
    ),
    click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="pyproject.toml to use."),
    click.option(
        "--select", multiple=True, metavar="CODE", help="Report these rules only; SMC1 is a family (repeatable)."
    ),
    click.option("--ignore", multiple=True, metavar="CODE", help="Do not report these rules (repeatable)."),
    click.option("--strict", is_flag=True, help="What could not be judged counts as an error."),
    click.option("--baseline", metavar="FILE", help="Leave out the findings that this file holds."),
    click.option("--write-baseline", metavar="FILE", help="Write the findings to this file, report none."),
    click.option(
        "--fail-on", type=click.Choice(["error", "warning", "note"]), help="Lowest severity that exits with 1."
    ),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever was found."),
    click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True),
    click.option("--output", "outputs", multiple=True, metavar="FORMAT:FILE", help="Write to a file too (repeatable)."),
    click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them."),
    click.option("-q", "--quiet", is_flag=True, help="Findings and summary only."),
    click.option("-v", "--verbose", is_flag=True, help="Show every assumption and its reason."),
    click.option("--traceback", is_flag=True, help="Show where an internal error happened."),
)
_LOWERING_OPTIONS = _options(
    click.option(
        "--registers", is_flag=True, default=None, help="Compile to the binary: registers, spills, ptxas errors."
    ),
    click.option("--specializations", multiple=True, metavar="FILE", help="Recorded specialisations (repeatable)."),
    click.option(
        "--bind", multiple=True, metavar="NAME=VALUE[,...]", help="Value or type of a parameter (repeatable)."
    ),
    click.option(
        "--max-specializations", type=click.IntRange(min=1), metavar="N", help="Most that a kernel is judged under."
    ),
    click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes (default: one a core)."),
    click.option(
        "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For one config."
    ),
    click.option(
        "--memory-limit",
        type=click.FloatRange(min=0, min_open=True),
        metavar="GIB",
        help="For one worker process (default: 8).",
    ),
    click.option("--no-cache", is_flag=True, help="Ask the compiler anew, keep nothing."),
    click.option("--cache-dir", "cache_directory", metavar="DIR", help="Where the compiler's answers are kept."),
    click.option("--cache", "shared_cache", metavar="URL", help="Share answers between machines (a folder, s3://…)."),
    click.option(
        "--triton", "tritons", multiple=True, metavar="PYTHON", help="Ask this interpreter's Triton too (repeatable)."
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Compile on the workers of this Dask scheduler."),
)


@cli.command()
@_SOURCE_OPTIONS
@_LOWERING_OPTIONS
@click.option("--no-launches", is_flag=True, help="Leave out kernels without an autotuner.")
@click.option("--verify", is_flag=True, help="Launch every config on this machine's GPU and compare.")
@click.option("--verify-with", metavar="MODULE:FUNCTION", help="Import this function and let it launch the kernels.")
def check(paths: tuple[str, ...], **options: Any) -> None:
    """Judge every config of every kernel under PATH... ("-" reads a file from standard input)."""
    with _errors_said(options["traceback"]), _standard_input(paths) as found:
        from smemcheck.pipeline import check as run
        from smemcheck.terminal import terminal

        settings = _settings(found, options)
        view = _view(options, lowered=True)
        is_watched = sys.stdout.isatty() and options["format_"] == "text" and view.detail and not options["statistics"]
        with terminal(quiet=options["quiet"], view=view if is_watched else None) as shown:
            if options["verify"] or options["verify_with"]:
                verify_and_exit(found, settings, options, shown.progress)
            report = run(found, settings, shown.progress, watch=shown.watch)
        _finish(report, settings, options, dataclasses.replace(view, seen=shown.seen))


@cli.command()
@_SOURCE_OPTIONS
@click.option("--launches", is_flag=True, help="Also kernels without an autotuner, with the configs of their launches.")
def sites(paths: tuple[str, ...], **options: Any) -> None:
    """Show the kernels under PATH... and their configs for each target; nothing is compiled."""
    with _errors_said(options["traceback"]), _standard_input(paths) as found:
        from smemcheck.pipeline import sites as run

        settings = _settings(found, {**options, "no_launches": not options["launches"]})
        _finish(run(found, settings), settings, options, _view(options, lowered=False))


@cli.command()
def rules() -> None:
    """List every rule."""
    from smemcheck.report.listing import rules_text
    from smemcheck.rules import RULES

    click.echo(rules_text(RULES), nl=False)


@cli.command()
@click.argument("name", metavar="CODE")
def rule(name: str) -> None:
    """Explain the rule CODE, with examples."""
    with _errors_said(with_traceback=False):
        from smemcheck.rules import RULES
        from smemcheck.rules.pages import page
        from smemcheck.rules.selection import codes_of

        codes = codes_of(name.upper() if name.upper().startswith("SMC") else name, RULES)
        click.echo("\n".join(page(rule) for rule in RULES if rule.code in codes), nl=False)


@cli.command()
@click.option("--sources", is_flag=True, help="Show where each number comes from.")
def devices(*, sources: bool) -> None:
    """List every target with its limits and names."""
    from smemcheck.report.listing import devices_text
    from smemcheck.rules.devices import targets

    click.echo(devices_text(targets(), with_sources=sources), nl=False)


@cli.command("config")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="pyproject.toml to use.")
def show_config(paths: tuple[str, ...], config: Path | None) -> None:
    """Show the settings in force for PATH... (default: the current folder)."""
    with _errors_said(with_traceback=False):
        from smemcheck.config import find_settings, read_settings
        from smemcheck.report.listing import settings_text

        settings = read_settings(config) if config else find_settings(paths or (".",))
        click.echo(settings_text(settings), nl=False)


cli.add_command(record)
cli.add_command(verdict)


def main() -> None:
    """Entry point of ``smemcheck`` and ``python -m smemcheck``. It ends the process."""
    # Parsed source is many small objects that live to the end; looking through them for garbage took a fifth of the time.
    gc.set_threshold(100_000, 20, 20)
    try:
        cli(prog_name="smemcheck")
    except SystemExit as ended:
        if threading.active_count() > 1 or not isinstance(ended.code, int):
            raise
        with contextlib.suppress(OSError, ValueError):  # a pipe that nobody reads any more
            sys.stdout.flush()
            sys.stderr.flush()
        # To take all these objects apart would last longer than a run after one change. Nothing is left to be done.
        os._exit(ended.code)


def _settings(paths: Sequence[str], options: dict[str, Any]) -> Settings:
    """``[tool.smemcheck]`` with the command line's options over it, and targets where neither names any."""
    from smemcheck.config import find_settings, parse_bindings, parse_environment, read_settings
    from smemcheck.model import Severity

    settings = read_settings(options["config"]) if options["config"] else find_settings(paths)
    stronger = (
        "targets",
        "specializations",
        "registers",
        "jobs",
        "time_limit",
        "memory_limit",
        "cache_directory",
        "shared_cache",
        "scheduler",
        "tritons",
        "max_specializations",
    )
    given: dict[str, Any] = {
        name: options[name] for name in (*stronger, "select", "strict", "baseline") if options.get(name)
    }
    given["ignore"] = (*settings.ignore, *options["ignore"])
    given["exclude"] = (*settings.exclude, *options["exclude"])
    given["environment"] = parse_environment(settings.environment, options["environment"])
    given["bind"] = parse_bindings(options.get("bind") or ())
    if options["fail_on"]:
        given["fail_on"] = Severity(options["fail_on"])
    for option, field in (("no_cache", "cache"), ("no_launches", "launches")):
        if options.get(option):
            given[field] = False
    settings = dataclasses.replace(settings, **given)
    if settings.cache and settings.cache_directory is None:
        import platformdirs

        settings = dataclasses.replace(settings, cache_directory=platformdirs.user_cache_dir("smemcheck"))
    return settings if settings.targets else dataclasses.replace(settings, targets=_local_targets())


def _local_targets() -> tuple[str, ...]:
    """The local GPUs that the device tables know; empty leaves the choice to the pipeline's defaults."""
    from smemcheck.local_gpu import local_architectures
    from smemcheck.rules.devices import targets

    return tuple(name for name in local_architectures() if name in targets())


def _finish(report: Report, settings: Settings, options: dict[str, Any], view: View) -> NoReturn:
    """Take the baseline into account, print, write the other outputs, and exit."""
    if options["write_baseline"]:
        from smemcheck.rules.baseline import write_baseline

        write_baseline(options["write_baseline"], report)
        report = dataclasses.replace(report, findings=())
    elif settings.baseline:
        from smemcheck.rules.baseline import unknown_findings

        report = dataclasses.replace(report, findings=unknown_findings(settings.baseline, report))
    _print(report, options, view)
    counts = [finding for finding in report.findings if finding.severity.rank >= settings.fail_on.rank]
    sys.exit(_FOUND if counts and not options["exit_zero"] else 0)


def _view(options: dict[str, Any], *, lowered: bool) -> View:
    """How standard output is looked at."""
    from smemcheck.report import WIDTH_OF_A_FILE, View

    is_terminal = sys.stdout.isatty()
    return View(
        Path.cwd().as_posix(),
        color=is_terminal and not os.environ.get("NO_COLOR"),
        width=shutil.get_terminal_size().columns if is_terminal else WIDTH_OF_A_FILE,
        detail=0 if options["quiet"] else 2 if options["verbose"] else 1,
        lowered=lowered,
    )


def _print(report: Report, options: dict[str, Any], view: View) -> None:
    from smemcheck.errors import UsageError
    from smemcheck.report import View, written

    for output in options["outputs"]:
        format_, separator, path = output.partition(":")
        if format_ not in _FORMATS or not separator or not path:
            raise UsageError(f"--output {output}: must be FORMAT:FILE, with a format of {', '.join(_FORMATS)}")
        try:
            with Path(path).open("w", encoding="utf-8") as file:
                file.writelines(written(report, format_, View(view.folder, lowered=view.lowered)))
        except OSError as error:
            raise UsageError(f"--output {output}: the file cannot be written: {error.strerror}") from None
    if options["statistics"]:
        from smemcheck.report.listing import statistics_text

        sys.stdout.write(statistics_text(report))
    else:
        sys.stdout.writelines(written(report, options["format_"], view))
    sys.stdout.flush()


@contextmanager
def _standard_input(paths: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths, with a file that holds standard input for ``-``."""
    if "-" not in paths:
        yield paths
        return
    with tempfile.TemporaryDirectory(prefix="smemcheck-") as folder:
        file = Path(folder, "stdin.py")
        file.write_bytes(sys.stdin.buffer.read())
        yield tuple(str(file) if path == "-" else path for path in paths)


@contextmanager
def _errors_said(with_traceback: bool) -> Iterator[None]:
    """One sentence for whatever goes wrong: the user's input, or a defect of ours with how to report it."""
    from smemcheck.errors import UsageError

    try:
        yield
    except UsageError as error:
        _fail(f"smemcheck: {error}")
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the user never sees a traceback that was not asked for
        if with_traceback:
            traceback.print_exc()
        _fail(
            f"smemcheck: internal error ({type(error).__name__}: {error}). This is a defect of smemcheck: please report it "
            "with the kernel's source and the output of the same command with --traceback"
        )


def _fail(sentence: str) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(_FAILED)
