"""``[tool.smemcheck]`` in pyproject.toml, read into :class:`Settings`.

``OPTIONS`` is the one list of keys: the reader, ``smemcheck config`` and the reference in docs/ are made from it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from smemcheck.errors import UsageError, did_you_mean
from smemcheck.model import Severity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Scalar: TypeAlias = "bool | int | float | str"
"""A value as TOML or ``--bind`` writes it. A string is a type (``"*bf16"``), ``"None"``, a dtype or a plain string,
whichever the parameter takes."""


@dataclass(frozen=True, slots=True)
class ParameterValues:
    """The values or types that a parameter shall take, in the user's order. A scalar is a tuple of one."""

    parameter: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """``[tool.smemcheck.kernels."path::NAME"]``: what to assume for one kernel.

    ``path`` is a tail of the file's path with forward slashes, or ``None`` for every kernel of that name.
    """

    name: str
    path: str | None
    parameters: tuple[ParameterValues, ...]

    def applies_to(self, kernel: str, path: str) -> bool:
        """Whether this table is about the kernel of that name in the file at ``path``."""
        if kernel != self.name:
            return False
        return self.path is None or path == self.path or path.endswith("/" + self.path)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that steers a run, from the CLI and ``[tool.smemcheck]``. Stages read it and nothing else.

    ``targets`` are names as the user wrote them, empty when none were asked for. ``time_limit`` is in seconds a job,
    ``memory_limit`` in GiB a worker process.
    ``environment`` is what the analysed code and Triton's compiler see as environment variables, nothing else is set.
    ``jobs`` of ``None`` stands for one worker a core, ``cache_directory`` of ``None`` for the user's cache directory.
    ``shared_cache`` is an fsspec URL where answers are shared between machines, ``scheduler`` the address of a Dask scheduler
    whose workers do the work. ``tritons`` are other interpreters whose Triton lowers the same jobs.
    """

    targets: tuple[str, ...] = ()
    registers: bool = False
    specializations: tuple[str, ...] = ()
    bind: tuple[ParameterValues, ...] = ()
    kernels: tuple[KernelSettings, ...] = ()
    launches: bool = True
    max_specializations: int = 8
    environment: tuple[tuple[str, str], ...] = ()
    jobs: int | None = None
    time_limit: float = 120.0
    memory_limit: float = 8.0
    cache: bool = True
    cache_directory: str | None = None
    shared_cache: str | None = None
    scheduler: str | None = None
    tritons: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    fail_on: Severity = Severity.ERROR
    strict: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, Severity], ...] = ()
    baseline: str | None = None
    root: str = ""
    pyproject: str | None = None


class ConfigError(UsageError):
    """``[tool.smemcheck]`` cannot be used: names the file, the key and what was expected."""


@dataclass(frozen=True, slots=True)
class Option:
    """One key of ``[tool.smemcheck]``: the field of :class:`Settings` it fills, how its value is read, what it means."""

    key: str
    field: str
    read: Callable[[Any], Any]
    takes: str
    meaning: str


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ValueError
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(_string(item) for item in value)


def _severity(value: Any) -> Severity:
    return Severity(value)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _environment(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, _string(text)) for name, text in _table(value).items()))


def _per_file(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((pattern, _strings(codes)) for pattern, codes in _table(value).items())


def _severities(value: Any) -> tuple[tuple[str, Severity], ...]:
    return tuple((code, _severity(level)) for code, level in _table(value).items())


def _scalars(value: Any) -> tuple[Scalar, ...]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(item, (bool, int, float, str)) for item in values):
        raise ValueError
    return tuple(values)


def _kernels(value: Any) -> tuple[KernelSettings, ...]:
    kernels = []
    for full_name, table in _table(value).items():
        path, separator, name = full_name.rpartition("::")
        parameters = tuple(ParameterValues(name, _scalars(values)) for name, values in _table(table).items())
        kernels.append(KernelSettings(name, path if separator else None, parameters))
    return tuple(kernels)


OPTIONS = (
    Option("targets", "targets", _strings, "a list of strings", "architectures or GPU names to judge for"),
    Option("registers", "registers", _boolean, "true or false", "compile to the binary, so that registers and spills are known"),
    Option("specializations", "specializations", _strings, "a list of files", "recorded specialisations to judge"),
    Option("kernels", "kernels", _kernels, "tables of parameters", "types and values of a kernel's parameters, scalars or lists"),
    Option("launches", "launches", _boolean, "true or false", "read launch sites"),
    Option("max-specializations", "max_specializations", _count, "a positive integer", "most specialisations a site is judged under"),
    Option("environment", "environment", _environment, "a table of strings", "environment variables that code and compiler see"),
    Option("jobs", "jobs", _count, "a positive integer", "worker processes (default: one a core)"),
    Option(
        "time-limit",
        "time_limit",
        _positive,
        "a positive number",
        "seconds the compiler may take for one config; a kernel of which three configs reach it and none ends is given up",
    ),
    Option("memory-limit", "memory_limit", _positive, "a positive number", "GiB of memory that the compiler may take in one worker"),
    Option("cache", "cache", _boolean, "true or false", "keep the compiler's answers between runs"),
    Option("cache-dir", "cache_directory", _string, "a directory", "where they are kept (default: the user's cache directory)"),
    Option("shared-cache", "shared_cache", _string, "an fsspec URL or a directory", "where answers are shared between machines"),
    Option("scheduler", "scheduler", _string, "an address", "the Dask scheduler whose workers compile"),
    Option("triton", "tritons", _strings, "a list of interpreters", "Python interpreters whose Triton is asked too"),
    Option("exclude", "exclude", _strings, "a list of patterns", "files to leave out, with the patterns of .gitignore"),
    Option("respect-gitignore", "respect_gitignore", _boolean, "true or false", "leave out what .gitignore names"),
    Option("fail-on", "fail_on", _severity, '"error", "warning" or "note"', "lowest severity that makes the exit code 1"),
    Option("strict", "strict", _boolean, "true or false", "what could not be judged counts as an error"),
    Option("select", "select", _strings, "a list of rule codes", "report these rules only (a prefix such as SMC1 selects a family)"),
    Option("ignore", "ignore", _strings, "a list of rule codes", "do not report these rules"),
    Option("per-file-ignores", "per_file_ignores", _per_file, "a table of pattern = codes", "rules not to report in some files"),
    Option("severity", "severity", _severities, 'a table of code = "error", "warning" or "note"', "another severity for a rule"),
    Option("baseline", "baseline", _string, "a file", "findings that are known and not reported again"),
)  # fmt: skip


def read_settings(pyproject: Path) -> Settings:
    """Read ``[tool.smemcheck]``; paths in it are taken relative to the file.

    Raises :class:`ConfigError` when the file is no TOML, a key is unknown or a value has the wrong form.
    """
    table = _smemcheck_table(pyproject)
    root = pyproject.parent.resolve()
    settings = Settings(root=root.as_posix(), pyproject=pyproject.resolve().as_posix())
    if table is None:
        return settings
    by_key = {option.key: option for option in OPTIONS}
    given: dict[str, Any] = {}
    for key, value in table.items():
        option = by_key.get(key)
        if option is None:
            raise ConfigError(f"{pyproject}: [tool.smemcheck] has no key '{key}'{did_you_mean(key, by_key)}")
        try:
            given[option.field] = option.read(value)
        except ValueError:
            raise ConfigError(f"{pyproject}: [tool.smemcheck] {key} must be {option.takes}") from None
    for name in ("specializations", "cache_directory", "baseline"):
        if name in given:
            given[name] = _anchored(root, given[name])
    return dataclasses.replace(settings, **given)


def find_settings(paths: Sequence[str]) -> Settings:
    """Settings of the nearest pyproject.toml with a ``[tool.smemcheck]`` table, upwards from the paths' common folder.

    The search ends at the top of the repository. Without such a table the settings are the defaults.
    """
    start = _common_folder(paths)
    for folder in (start, *start.parents):
        pyproject = folder / "pyproject.toml"
        if pyproject.is_file() and _smemcheck_table(pyproject) is not None:
            return read_settings(pyproject)
        if (folder / ".git").exists():
            break
    return Settings(root=start.as_posix())


def parse_environment(known: Sequence[tuple[str, str]], given: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Variables with ``NAME=VALUE`` arguments laid over them. Raises :class:`UsageError` for one of another form."""
    variables = dict(known)
    for text in given:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--env {text}: must be NAME=VALUE")
        variables[name] = value
    return tuple(sorted(variables.items()))


def parse_bindings(given: Sequence[str]) -> tuple[ParameterValues, ...]:
    """``HEAD_DIM=64,128`` arguments. A comma inside brackets belongs to a type (``tensordesc<fp16[64, 64]>``)."""
    bindings = []
    for text in given:
        name, separator, values = text.partition("=")
        pieces = [piece.strip() for piece in re.split(r",(?![^\[<(]*[\]>)])", values)]
        if not separator or not name.strip() or not all(pieces):
            raise UsageError(f"--bind {text}: must be NAME=VALUE, or NAME=VALUE,VALUE for several")
        bindings.append(ParameterValues(name.strip(), tuple(map(_scalar, pieces))))
    return tuple(bindings)


def _scalar(text: str) -> Scalar:
    """A number or truth value as Python writes it, else the text itself."""
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.?\d+)(e[+-]?\d+)?", text, re.IGNORECASE):
        return float(text)
    return {"True": True, "true": True, "False": False, "false": False}.get(text, text)


def _common_folder(paths: Sequence[str]) -> Path:
    resolved = [Path(path).resolve() for path in paths] or [Path.cwd()]
    common = Path(os.path.commonpath(resolved))
    return common if common.is_dir() else common.parent


def _smemcheck_table(pyproject: Path) -> Mapping[str, Any] | None:
    try:
        document = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{pyproject}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{pyproject}: is not UTF-8, so it is not valid TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{pyproject}: is not valid TOML: {error}") from None
    tool = document.get("tool", {})
    table = tool.get("smemcheck") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{pyproject}: tool.smemcheck must be a table")
    return table


def _anchored(root: Path, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple((root / item).as_posix() for item in value)
    return (root / value).as_posix()
