"""One statement of a file changed: kernels that do not rest on it are kept, although their code leads to the file."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from smemcheck import pipeline
from smemcheck.compiler import Compiler, installed_triton
from smemcheck.config import Settings
from smemcheck.model import Buffer, Failure, FailureKind, Footprint, Job, Outcome, Position
from smemcheck.report.json_report import document
from smemcheck.specialize.launches import search

_TICK = 0.05  # s, longer than the file system's clock stands still

KERNELS = """
import torch
import triton
import triton.language as tl
from pkg.{other} import {other}_sums, {other}_default
from pkg.shared import scaled, {name}_configs, registered

{name}_default = 2

@triton.autotune({name}_configs, key=[])
@triton.jit
def {name}(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, {called}(tl.load(x + i, mask=i < n)), mask=i < n)

@triton.jit
def {name}_halved(x):
    return x * 0.5

def {name}_sums(x):
    y = torch.empty_like(x)
    {name}[(1,)](x, y, x.numel())
    return y

def {name}_both(x, mode):
    if mode == "plain":
        return {name}_sums(x.to(torch.float16))
    return {name}_sums({other}_sums(x))

def {name}_unused(x):
    return x * {name}_default
"""

SHARED = """
import triton
import triton.language as tl

first_configs = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})]
second_configs = [
    triton.Config({"BLOCK": 64}),
    triton.Config({"BLOCK": 128}),
]
TABLE = {}

@triton.jit
def scaled(x):
    return x * 2

def registered(function):
    TABLE[function.__name__] = function
    return function
"""

FILES = {
    "__init__.py": "",
    "first.py": KERNELS.format(name="first", other="second", called="scaled"),
    "second.py": KERNELS.format(name="second", other="first", called="second_halved"),
    "shared.py": SHARED,
}


RETUNED = """
import triton
from pkg.first import first_halved

retuned = triton.autotune([triton.Config({}, num_warps=8)], key=[])(first_halved)
"""


@pytest.fixture
def package(laid_out: Callable[[Mapping[str, str]], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        pipeline, "Compiler", lambda settings, python, progress, lower: Compiler(settings, python, progress, lowered)
    )
    return laid_out(FILES)


@pytest.fixture
def explored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The definitions that example runs started from since the list was last cleared."""
    found: list[str] = []
    of_one = search.Launches._explore

    def noting(launches: search.Launches, exploration: search.Exploration) -> None:
        found.append(exploration.entry.statement.defined_name or "")
        of_one(launches, exploration)

    monkeypatch.setattr(search.Launches, "_explore", noting)
    return found


def lowered(jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
    """Answers that point at the last line of the last function of each kernel; half precision is refused."""
    for index, job in enumerate(jobs):
        last = job.kernel.functions[-1]
        place = Position(last.position.path, last.position.line + last.source.count("\n") - 1)
        if "*fp16" in dict(job.specialization.signature).values():
            yield index, Failure(FailureKind.COMPILATION_ERROR, "no", str(installed_triton()), place)
        else:
            yield index, Footprint(1024, 0, 4, 128, str(installed_triton()), (Buffer("x", place, 0, 1024, "256xf32"),))


def run(package: Path, cache: bool = True) -> dict:
    settings = Settings(targets=("sm_90",), jobs=1, cache=cache, cache_directory=str(package.parents[1] / "cache"))
    said = document(pipeline.check([str(package)], settings))
    assert len(said["results"]) >= 4
    for result in said["results"]:
        result.pop("cached", None)
    return said


def replaced(name: str, old: str, new: str) -> tuple[str, str]:
    text = FILES[f"{name}.py"]
    assert old in text
    return name, text.replace(old, new)


EDITS = {
    "the body of a kernel": (replaced("second", "x * 0.5", "x * 0.25"), {"second"}),
    "a longer body of a kernel": (replaced("second", "    i = tl", "    # one\n    # two\n    i = tl"), {"second"}),
    "a body that nobody looked into": (replaced("second", "x * second_default", "x - second_default"), {"second"}),
    "a body that is run on the way to a launch": (
        replaced("second", "    y = torch.empty_like(x)", "    y = torch.empty_like(x.to(torch.float32))"),
        {"first", "second"},
    ),
    "the body of a kernel that another kernel calls": (replaced("shared", "x * 2", "x * 3"), {"first", "shared"}),
    "a list of configs": (replaced("shared", '"BLOCK": 128', '"BLOCK": 256'), {"first", "second", "shared"}),
    "a constant that nobody reads": (replaced("second", "second_default = 2", "second_default = 3"), {"second"}),
    "lines above everything": (
        replaced("shared", "\nimport triton\n", '"""Shared."""\n\n\nimport triton\n'),
        {"shared"},
    ),
    "a line in a list of configs": (
        replaced("shared", 'triton.Config({"BLOCK": 128}),', 'triton.Config(\n{"BLOCK": 128}),'),
        {"first", "second", "shared"},
    ),
    "a new function": (replaced("shared", "TABLE = {}", "TABLE = {}\n\ndef quite_new(x):\n    return x\n"), {"shared"}),
    "a new function of a name that others have in a longer one": (
        replaced("shared", "TABLE = {}", "TABLE = {}\n\ndef range(x):\n    return x\n"),
        {"shared"},
    ),
    "a new function of a name that others mention": (
        replaced("shared", "TABLE = {}", "TABLE = {}\n\ndef empty_like(x):\n    return x\n"),
        {"first", "second", "shared"},
    ),
    "a comment over a function": (
        replaced("shared", "def registered", "# Notes which functions there are.\ndef registered"),
        {"shared"},
    ),
    "an import of what others import too": (
        replaced("shared", "import triton\n", "import torch\nimport triton\n"),
        {"shared"},
    ),
    "an import under another name": (
        replaced("shared", "import triton\n", "import torch as th\nimport triton\n"),
        {"shared"},
    ),
    "names for those who import all": (
        replaced("shared", "TABLE = {}", 'TABLE = {}\n__all__ = ["scaled", "registered"]\n'),
        {"shared"},
    ),
    "another name": (replaced("second", "second_unused", "second_never_used"), {"second"}),
    "a new caller": (
        replaced("shared", "TABLE = {}", "TABLE = {}\n\ndef call(x):\n    return first_sums(x.double())\n"),
        {"first", "shared"},
    ),
    "a call at the top level": (
        replaced("shared", "TABLE = {}", "TABLE = {}\nprint(TABLE)"),
        {"first", "second", "shared"},
    ),
    "a list that is changed in place": (
        replaced("shared", "TABLE = {}", "TABLE = {}\nfirst_configs.pop()"),
        {"first", "second", "shared"},
    ),
    "a decorated function": (
        replaced("shared", "TABLE = {}", "TABLE = {}\n\n@registered\ndef other(x):\n    return x\n"),
        {"first", "second", "shared"},
    ),
    "a global of a function": (
        replaced("second", "    return x * second_default", "    global second_default\n    second_default = 1"),
        {"first", "second", "shared"},
    ),
    "what a text is compared with": (
        replaced("second", "x * second_default", "x if mode == 'other' else x"),
        {"first", "second", "shared"},
    ),
    "functions change places": (
        replaced(
            "shared",
            SHARED[SHARED.index("@triton.jit") :],
            SHARED[SHARED.index("def reg") :] + "\n@triton.jit\ndef scaled(x):\n    return x * 2\n",
        ),
        {"shared"},
    ),
    "a function goes": (replaced("second", "def second_unused(x):\n    return x * second_default\n", ""), {"second"}),
}


def read_again(package, read, name, text):
    """The files, without endings, that a run reads after this change to one of them; it reports what a run at once does."""
    (package / f"{name}.py").write_text(text)
    time.sleep(_TICK)
    read.clear()
    incremental = run(package)
    again = {Path(file).stem for file in read}
    assert incremental == run(package, cache=False)
    return again


@pytest.mark.parametrize("edit", EDITS)
def test_after_a_change_of_a_statement(edit, package, read):
    (name, text), again = EDITS[edit]
    first = run(package)
    assert read_again(package, read, name, text) == again
    (package / f"{name}.py").write_text(FILES[f"{name}.py"])  # and back: what is kept of what was kept
    time.sleep(_TICK)
    assert run(package) == first


def test_a_body_that_only_runs_for_other_kernels_look_into(package, read):
    """No example run for the kernels of the first file takes the way to ``second_only``, although the way is there."""
    only = FILES["second.py"] + "\ndef second_only(x):\n    return second_sums(x.half())\n"
    text = FILES["first.py"].replace("import second_sums,", "import second_only, second_sums,")
    text = text.replace("    if mode ==", "    if isinstance(x, str):\n        return second_only(x)\n    if mode ==")
    (package / "first.py").write_text(text)
    (package / "second.py").write_text(only)
    time.sleep(_TICK)
    run(package)
    assert read_again(package, read, "second", only.replace("x.half()", "x.double()")) == {"second"}


def test_a_constant_with_the_name_of_others_parameters(package, read):
    text = SHARED.replace("TABLE = {}", "TABLE = {}\nmode = 1\n")
    (package / "shared.py").write_text(text)
    time.sleep(_TICK)
    run(package)
    assert read_again(package, read, "shared", text.replace("mode = 1", "mode = 2")) == {"shared"}


@pytest.mark.parametrize("way", ["import mode as plain_mode", "import *", "import shared"])
def test_a_constant_that_another_file_takes(way, package, read):
    """By name, with all others, or as an attribute of its module."""
    package_or_file = "pkg" if way == "import shared" else "pkg.shared"
    name = {"import mode as plain_mode": "plain_mode", "import *": "mode", "import shared": "shared.mode"}[way]
    (package / "shared.py").write_text(SHARED + "\nmode = 1\n")
    second = FILES["second.py"].replace("second_default = 2", f"from {package_or_file} {way}\nsecond_default = {name}")
    second = second.replace(
        "    y = torch.empty_like(x)\n", "    y = torch.empty_like(x)\n    y = y[: 64 * second_default]\n"
    )
    (package / "second.py").write_text(second)
    time.sleep(_TICK)
    run(package)
    assert {"second", "shared"} <= read_again(package, read, "shared", SHARED + "\nmode = 2\n")


@pytest.mark.parametrize("exported", ['["scaled", "registered", "first_configs", "second_configs"]', '["registered"]'])
def test_names_for_one_who_imports_all(exported, package):
    text = FILES["second.py"].replace("import scaled, second_configs, registered", "import *")
    assert text != FILES["second.py"]
    (package / "second.py").write_text(text)
    time.sleep(_TICK)
    for names in ('["scaled", "registered", "second_configs"]', exported, None):
        change = f"__all__ = {names}\n" if names else "import torch as second_default\n"
        (package / "shared.py").write_text(SHARED.replace("TABLE = {}", f"TABLE = {{}}\n{change}"))
        time.sleep(_TICK)
        assert run(package) == run(package, cache=False)


NOT_LAUNCHES = ("the body of a kernel", "a longer body of a kernel", "the body of a kernel that another kernel calls")


@pytest.mark.parametrize("edit", NOT_LAUNCHES)
def test_launches_of_changed_kernels_are_kept(edit, package, explored):
    (name, text), _ = EDITS[edit]
    run(package)
    assert explored
    for change in (text, FILES[f"{name}.py"], text):
        (package / f"{name}.py").write_text(change)
        time.sleep(_TICK)
        explored.clear()
        incremental = run(package)
        assert not explored
        assert incremental == run(package, cache=False)


def test_launches_that_rest_on_what_changed_are_looked_for_again(package, explored):
    (name, text), _ = EDITS["a body that is run on the way to a launch"]
    run(package)
    (package / f"{name}.py").write_text(text)
    time.sleep(_TICK)
    explored.clear()
    run(package)
    assert explored


@pytest.mark.parametrize(
    "edit", ["the body of a kernel", "another file's kernel", "a new function", "a list of configs"]
)
def test_tuners_around_another_files_kernels(edit, package):
    """The site is where the kernel stands, and found where the tuner is made."""
    (package / "retuned.py").write_text(RETUNED)
    time.sleep(_TICK)
    run(package)
    other = replaced("first", "x * 0.5", "x * 0.125")
    name, text = other if edit == "another file's kernel" else EDITS[edit][0]
    (package / f"{name}.py").write_text(text)
    time.sleep(_TICK)
    assert run(package) == run(package, cache=False)
    (package / "retuned.py").write_text(RETUNED.replace("=8", "=2"))
    time.sleep(_TICK)
    assert run(package) == run(package, cache=False)
