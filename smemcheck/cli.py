"""The command line: parses options, calls the pipeline, prints. Exit codes: 0 clean, 1 findings, 2 usage or internal error."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smemcheck import __version__

if TYPE_CHECKING:
    from smemcheck.config import Settings
    from smemcheck.model import Report
    from smemcheck.pipeline import Progress

_FOUND, _FAILED = 1, 2
_WIDTH_OF_A_FILE = 160
_FORMATS = ("text", "json")


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
    r"""Say which Triton autotune configs a GPU would prune, without a GPU and without importing your code.

    \b
    smemcheck PATH…          judge every kernel (short for smemcheck check PATH…)
    smemcheck sites PATH…    show kernels and their configs only
    """


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that reads source."""
    for option in reversed(
        (
            click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
            click.option("--arch", "targets", multiple=True, metavar="NAME", help="Architecture or GPU (repeatable)."),
            click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True),
            click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="Variable that code sees."),
            click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="pyproject.toml to use."),
            click.option(
                "--fail-on", type=click.Choice(["error", "warning", "note"]), help="Lowest severity to fail on."
            ),
            click.option("-q", "--quiet", is_flag=True, help="Findings and summary only."),
            click.option("-v", "--verbose", is_flag=True, help="Show every assumption and its reason."),
            click.option("--traceback", is_flag=True, help="Show where an internal error happened."),
        )
    ):
        command = option(command)
    return command


@cli.command()
@_source_options
@click.option("--registers", is_flag=True, default=None, help="Compile to the binary: registers, spills, ptxas errors.")
@click.option("--specializations", multiple=True, metavar="FILE", help="Recorded specialisations (repeatable).")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes (default: one a core).")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For one config.")
@click.option("--no-cache", is_flag=True, help="Ask the compiler anew, keep nothing.")
@click.option("--cache-dir", "cache_directory", metavar="DIR", help="Where the compiler's answers are kept.")
def check(paths: tuple[str, ...], **options: Any) -> None:
    """Judge every config of every kernel under PATH..."""
    with _errors_said(options["traceback"]):
        from smemcheck.pipeline import check as run

        settings = _settings(paths, options)
        with _progress_shown(quiet=options["quiet"]) as progress:
            report = run(paths, settings, progress)
        _print(report, options, sites_only=False)
        sys.exit(_exit_code(report, settings))


@cli.command()
@_source_options
def sites(paths: tuple[str, ...], **options: Any) -> None:
    """Show the kernels under PATH... and their configs for each target; nothing is compiled."""
    with _errors_said(options["traceback"]):
        from smemcheck.pipeline import sites as run

        settings = _settings(paths, options)
        report = run(paths, settings)
        _print(report, options, sites_only=True)
        sys.exit(_exit_code(report, settings))


def main() -> None:
    """Entry point of ``smemcheck`` and ``python -m smemcheck``."""
    cli(prog_name="smemcheck")


def _settings(paths: Sequence[str], options: dict[str, Any]) -> Settings:
    """``[tool.smemcheck]`` with the command line's options over it, and targets where neither names any."""
    from smemcheck.config import find_settings, read_settings
    from smemcheck.errors import UsageError
    from smemcheck.model import Severity

    settings = read_settings(options["config"]) if options["config"] else find_settings(paths)
    given: dict[str, Any] = {
        name: options[name]
        for name in ("targets", "specializations", "registers", "jobs", "time_limit", "cache_directory")
        if options.get(name)
    }
    if options["fail_on"]:
        given["fail_on"] = Severity(options["fail_on"])
    if options.get("no_cache"):
        given["cache"] = False
    variables = dict(settings.environment)
    for text in options["environment"]:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--env {text}: must be NAME=VALUE")
        variables[name] = value
    given["environment"] = tuple(sorted(variables.items()))
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


def _print(report: Report, options: dict[str, Any], *, sites_only: bool) -> None:
    if options["format_"] == "json":
        from smemcheck.report import json_report

        text = json_report.render(report)
    else:
        from smemcheck.report import text as text_report

        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = _width()
        folder = Path.cwd().as_posix()
        if sites_only:
            text = text_report.render_sites(report, folder=folder, color=color, width=width)
        else:
            detail = 0 if options["quiet"] else 2 if options["verbose"] else 1
            text = text_report.render(report, folder=folder, color=color, width=width, detail=detail)
    sys.stdout.write(text)
    sys.stdout.flush()


def _width() -> int:
    if not sys.stdout.isatty():
        return _WIDTH_OF_A_FILE
    return os.get_terminal_size(sys.stdout.fileno()).columns


def _exit_code(report: Report, settings: Settings) -> int:
    counts = [finding for finding in report.findings if finding.severity.rank >= settings.fail_on.rank]
    return _FOUND if counts else 0


@contextmanager
def _progress_shown(*, quiet: bool) -> Iterator[Progress | None]:
    """A progress bar on stderr, where that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


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
