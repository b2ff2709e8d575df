"""Immutable objects of well-known libraries that stand for themselves: versions, pure paths, and data read from files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from packaging.version import InvalidVersion, Version

from smemcheck.source.operations import is_data
from smemcheck.source.values import Builtin, Call, External, Instance, Obstacle, Raised, first_obstacle

SAFE_TYPES: tuple[type, ...] = (Version, PurePosixPath)
_DATA_BYTES = 5_000_000

_VERSION_ATTRIBUTES = (
    "major",
    "minor",
    "micro",
    "release",
    "base_version",
    "public",
    "local",
    "is_prerelease",
    "is_devrelease",
)
_PATH_ATTRIBUTES = ("name", "stem", "suffix", "parts")


def safe_attribute(value: Any, name: str) -> Any:
    """An attribute of a version or a path; ``None`` when it is not modelled."""
    if isinstance(value, Version):
        return getattr(value, name) if name in _VERSION_ATTRIBUTES else None
    if name in _PATH_ATTRIBUTES:
        return getattr(value, name)
    if name == "parent":
        return value.parent
    if name == "parents":
        return list(value.parents)
    function = _PATH_METHODS.get(name)
    return Builtin(f"Path.{name}", lambda call: function(value, call)) if function is not None else None


def _is_analysed(call: Call, path: str) -> bool:
    """Whether a file lies beside analysed modules: only those are part of the source."""
    full = os.path.realpath(path)
    call.interpreter.project.consulted[full] = None
    return call.interpreter.project.is_analysed(full, call.place.unit.module)


def _exists(value: PurePosixPath, call: Call) -> Any:
    if _is_analysed(call, str(value)):
        return os.path.exists(str(value))
    return call.unknown(f"whether {value.name} exists on the user's machine is not known")


def _read_text(value: PurePosixPath, call: Call) -> Any:
    if not _is_analysed(call, str(value)):
        return call.unknown("a file outside the analysed source is read")
    try:
        if os.path.getsize(str(value)) > _DATA_BYTES:
            return call.unknown(f"{value.name} is larger than {_DATA_BYTES} bytes")
        with open(str(value), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise Raised("FileNotFoundError", str(value), place=call.place) from None
    except (OSError, UnicodeDecodeError) as error:
        return call.unknown(f"{value.name} cannot be read: {error}")


def _glob(value: PurePosixPath, call: Call) -> Any:
    return call.unknown("the files of a folder are not listed")


_PATH_METHODS: dict[str, Callable[[PurePosixPath, Call], Any]] = {
    "exists": _exists,
    "is_file": _exists,
    "is_dir": _exists,
    "read_text": _read_text,
    "glob": _glob,
    "iterdir": _glob,
    "resolve": lambda value, call: value,
    "absolute": lambda value, call: value,
    "expanduser": lambda value, call: value,
    "joinpath": lambda value, call: first_obstacle(*call.arguments) or value.joinpath(*map(str, call.arguments)),
    "with_suffix": lambda value, call: first_obstacle(*call.arguments) or value.with_suffix(call.arguments[0]),
    "with_name": lambda value, call: first_obstacle(*call.arguments) or value.with_name(call.arguments[0]),
    "as_posix": lambda value, call: str(value),
    "open": lambda value, call: open_file(call, value, "r"),
    "mkdir": lambda value, call: None,
}


def make_path(call: Call) -> Any:
    """``pathlib.Path(…)``."""
    if obstacle := first_obstacle(*call.arguments):
        return obstacle
    if not all(isinstance(a, (str, PurePosixPath)) for a in call.arguments):
        return call.unknown("a path is made from something that is no text")
    return PurePosixPath(*call.arguments)


def make_version(call: Call) -> Any:
    """``packaging.version.parse(…)`` and ``Version(…)``. Raises ``InvalidVersion`` of the program."""
    text = call.argument(0, "version")
    if isinstance(text, Obstacle):
        return call.interpreter.derive(text, "version")
    if isinstance(text, Version):
        return text
    if not isinstance(text, str):
        return call.unknown("a version is made from something that is no text")
    try:
        return Version(text)
    except InvalidVersion:
        raise Raised("InvalidVersion", text, place=call.place) from None


def open_file(call: Call, path: Any = None, mode: Any = None) -> Any:
    """``open(…)`` for reading: the file's path, to be read as data."""
    path = path if path is not None else call.argument(0, "file")
    mode = mode if mode is not None else call.argument(1, "mode", "r")
    if obstacle := first_obstacle(path, mode):
        return obstacle
    if not isinstance(path, (str, PurePosixPath)) or "r" not in str(mode):
        return call.unknown("a file is opened for something else than reading")
    if not _is_analysed(call, str(path)):
        call.interpreter.may_raise("open()", call.place)
        return call.unknown("a file outside the analysed source is read")
    if not os.path.exists(str(path)):
        raise Raised("FileNotFoundError", str(path), place=call.place)
    return Instance(External("io.TextIOWrapper"), {"path": PurePosixPath(path)})


def read_open_file(call: Call, value: Any) -> Any:
    """``file.read()``."""
    return _read_text(value.attributes["path"], call)


def _loader(parse: Callable[[str], Any], what: str, from_file: bool) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        source = call.arguments[0] if call.arguments else None
        if isinstance(source, Obstacle):
            return source.again()
        if isinstance(source, Instance) and source.cls == External("io.TextIOWrapper"):
            source = read_open_file(call, source)
            if isinstance(source, Obstacle):
                return source
        elif from_file and what == "JSON":
            return call.unknown("JSON is read from something that is no known file")
        if not isinstance(source, str):
            return call.unknown(f"{what} is read from something that is no text")
        try:
            return parse(source)
        except (ValueError, RecursionError) as error:
            raise Raised("ValueError", f"no valid {what}: {str(error).splitlines()[0]}", place=call.place) from None

    return model


def _from_yaml(text: str) -> Any:
    import yaml  # few runs need it, and each would pay for it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _dumps(call: Call) -> Any:
    return call.unknown("json.dumps() is not modelled")


def _regular_expression(name: str) -> Callable[[Call], Any]:
    def model(call: Call) -> Any:
        if obstacle := first_obstacle(*call.arguments, *call.keywords.values()):
            return obstacle
        if (
            not all(isinstance(a, (str, int)) for a in call.arguments)
            or any(isinstance(a, str) and len(a) > 2_000 for a in call.arguments)
            or re.search(r"[+*}]\)?[+*{]|\)[+*{]", str(call.arguments[0]))
        ):
            return call.unknown(f"re.{name}() with such a pattern is not evaluated")
        try:
            result = getattr(re, name)(*call.arguments)
        except re.error as error:
            raise Raised("error", str(error), place=call.place) from None
        if isinstance(result, re.Match):
            return Instance(
                External("re.Match"),
                {"groups": result.groups(), "all": (result.group(), *result.groups()), "named": result.groupdict()},
            )
        return result if result is None or is_data(result) else call.unknown(f"re.{name}() is not modelled")

    return model


def match_method(value: Instance, name: str, call: Call) -> Any:
    """``match.group(…)``, ``match.groups()``."""
    if name == "groups":
        return value.attributes["groups"]
    if name == "groupdict":
        return dict(value.attributes["named"])
    wanted = call.arguments or [0]
    found = [
        value.attributes["named"].get(w) if isinstance(w, str) else value.attributes["all"][w]
        for w in wanted
        if not isinstance(w, Obstacle)
    ]
    return found[0] if len(wanted) == 1 else tuple(found)


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "pathlib.Path": make_path,
    "pathlib.PurePath": make_path,
    "pathlib.PosixPath": make_path,
    "pathlib.PurePosixPath": make_path,
    "packaging.version.parse": make_version,
    "packaging.version.Version": make_version,
    "open": open_file,
    "io.open": open_file,
    "builtins.open": open_file,
    "json.load": _loader(json.loads, "JSON", True),
    "json.loads": _loader(json.loads, "JSON", False),
    "json.dumps": _dumps,
    "yaml.safe_load": _loader(_from_yaml, "YAML", True),
    "yaml.load": _loader(_from_yaml, "YAML", True),
    "yaml.full_load": _loader(_from_yaml, "YAML", True),
    **{
        f"re.{n}": _regular_expression(n) for n in ("match", "search", "fullmatch", "sub", "findall", "split", "escape")
    },
}
