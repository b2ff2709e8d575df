"""Which Triton the analysed project asks for: pyproject.toml, requirements files and lock files, read as data."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smemcheck.model import Pin, Position

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

# What torch's wheels for Linux on x86-64 require of Triton: Requires-Dist in the metadata of the cp311 wheels on PyPI, read
# for each version from 2.5.1 to 2.14.1. Where two numbers stand, all releases that there are of it agree.
_TRITON_OF_TORCH = {
    "2.5.1": "==3.1.0",
    "2.6": "==3.2.0",
    "2.7.0": "==3.3.0",
    "2.7.1": "==3.3.1",
    "2.8": "==3.4.0",
    "2.9.0": "==3.5.0",
    "2.9.1": "==3.5.1",
    "2.10": "==3.6.0",
    "2.11": "==3.6.0",
    "2.12.0": "==3.7.0",
    "2.12.1": "==3.7.1",
    "2.13": "==3.7.1",
    "2.14": "~=3.8.0",
}
_REQUIREMENTS = "requirements*.txt"
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_ASCENT = 12  # folders above a scanned path that are looked at, up to the top of its repository


def read_pins(roots: Sequence[str]) -> tuple[tuple[Pin, ...], tuple[str, ...]]:
    """What the projects around ``roots`` ask of Triton, and the files, there or not, and patterns of files that it rests on.

    A lock file's version goes before what is declared, Triton itself before what torch brings. Ranges that name no version
    to keep to (``triton>=3``) are pins too: a Triton outside them is another one.
    """
    pins: dict[str, Pin] = {}
    files: dict[str, None] = {}
    for root in roots:
        for folder in _folders(Path(root).resolve()):
            possible = _project_files(folder)
            files.update((path.as_posix(), None) for path in (*possible, folder / _REQUIREMENTS))
            asked = [pin for path in possible if path.is_file() for pin in _pins_of(path)]
            best = min(asked, key=_rank, default=None)
            if best is not None:
                pins.setdefault(folder.as_posix(), best)
                break
    return tuple(pins.values()), tuple(files)


def _rank(pin: Pin) -> tuple[bool, bool]:
    return "torch" in pin.written, not pin.is_locked


def _folders(path: Path) -> Iterator[Path]:
    start = path if path.is_dir() else path.parent
    for folder in (start, *start.parents)[:_ASCENT]:
        yield folder
        if (folder / ".git").exists():
            return


def _project_files(folder: Path) -> list[Path]:
    return [
        *(folder / name for name in _LOCKS),
        folder / "pyproject.toml",
        *sorted(folder.glob(_REQUIREMENTS)),
    ]


def _pins_of(path: Path) -> Iterator[Pin]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if "triton" not in text and "torch" not in text:
        return
    if path.suffix == ".txt":
        written = (line.split(" #")[0].strip() for line in text.splitlines())
        yield from _of_requirements(path, text, (line for line in written if line and line[0] not in "#-"))
        return
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    if path.name == "pyproject.toml":
        yield from _of_requirements(path, text, _declared(document))
        return
    packages = document.get("package", document.get("packages", []))
    for package in packages if isinstance(packages, list) else []:
        name, version = (package.get("name"), package.get("version")) if isinstance(package, dict) else (None, None)
        if name in ("triton", "torch") and isinstance(version, str):
            yield from _of_requirements(path, text, [f"{name}=={version}"], is_locked=True)


def _declared(document: dict[str, Any]) -> Iterator[str]:
    """The requirements that a pyproject.toml lists: dependencies, extras and groups; Poetry's tables that name a version."""
    project = document.get("project")
    groups: list[Any] = []
    if isinstance(project, dict):
        groups.append(project.get("dependencies"))
        extras = project.get("optional-dependencies")
        groups.extend(extras.values() if isinstance(extras, dict) else [])
    more = document.get("dependency-groups")
    groups.extend(more.values() if isinstance(more, dict) else [])
    for group in groups:
        yield from (item for item in group if isinstance(item, str)) if isinstance(group, list) else ()
    poetry = document.get("tool", {}).get("poetry", {}) if isinstance(document.get("tool"), dict) else {}
    listed = poetry.get("dependencies", {}) if isinstance(poetry, dict) else {}
    for name, value in listed.items() if isinstance(listed, dict) else ():
        version = value.get("version") if isinstance(value, dict) else value
        if isinstance(version, str) and re.fullmatch(r"\d[\w.]*", version):
            yield f"{name}=={version}"


def _of_requirements(
    path: Path, text: str, written: Iterator[str] | list[str], *, is_locked: bool = False
) -> Iterator[Pin]:
    from packaging.requirements import InvalidRequirement, Requirement  # slow to import, and most files ask for nothing

    for line in written:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        name = requirement.name.lower()
        specifier = str(requirement.specifier)
        if name == "torch":
            version = _exact(requirement.specifier)
            specifier = _triton_of_torch(version) if version else ""
        if name in ("triton", "torch") and specifier:
            yield Pin(
                specifier, f"{name}{requirement.specifier}", is_locked, Position(path.as_posix(), _line(text, name))
            )


def _exact(specifier: SpecifierSet) -> str | None:
    exact = [one.version for one in specifier if one.operator == "=="]
    return exact[0].partition("+")[0] if len(exact) == 1 else None


def _triton_of_torch(version: str) -> str:
    return _TRITON_OF_TORCH.get(version) or _TRITON_OF_TORCH.get(".".join(version.split(".")[:2]), "")


def _line(text: str, name: str) -> int:
    match = re.search(rf"(?<![\w.-]){name}\b(?![\w-])", text)
    return text.count("\n", 0, match.start()) + 1 if match else 1
