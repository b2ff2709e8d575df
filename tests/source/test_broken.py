"""Files that cannot be read cost a problem each, with one clear sentence; nothing of a file is ever run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from listing import PREAMBLE, blocks

FINE = '@triton.autotune([Config({"B": 16})], ["x"])\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n'


def problems(reading):
    return [(Path(p.position.path).name, p.position.line, p.message) for p in reading.problems]


def test_a_syntax_error(package):
    reading = package({"bad.py": f"{FINE}\ndef broken(:\n    pass\n", "fine.py": FINE}).read(("sm_90",))
    assert problems(reading) == [("bad.py", 9, "Python cannot parse the file: invalid syntax")]
    assert len(reading.sites) == 1


def test_a_file_that_is_not_utf8(package, tmp_path):
    made = package({"fine.py": FINE})
    (tmp_path / "bad.py").write_bytes((PREAMBLE + FINE).encode() + "# \xe9t\xe9\n".encode("latin-1"))
    reading = made.read(("sm_90",))
    assert problems(reading) == [("bad.py", 8, "the file is not UTF-8; save it as UTF-8")]
    assert len(reading.sites) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(package, tmp_path):
    made = package({"bad.py": FINE, "fine.py": FINE})
    (tmp_path / "bad.py").chmod(0)
    reading = made.read(("sm_90",))
    assert problems(reading) == [("bad.py", 1, "the file cannot be read: Permission denied")]
    assert len(reading.sites) == 1


def test_empty_files_and_folders(package, tmp_path):
    made = package({"empty.py": "", "blank.py": "\n\n"}, preamble=False)
    (tmp_path / "folder").mkdir()
    reading = made.read(("sm_90",))
    assert (reading.sites, reading.problems, len(reading.files)) == ((), (), 2)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_endings_and_byte_order_marks(package, tmp_path, ending, mark):
    made = package({})
    (tmp_path / "kernels.py").write_bytes(mark + (PREAMBLE + FINE).replace("\n", ending).encode())
    site = made.site()
    assert site.position.line == 6
    assert made.lists() == {"kernel": blocks(16)}


def test_nothing_of_the_source_is_run(package, tmp_path):
    sentinel = tmp_path / "sentinel"
    touch = f"open({str(sentinel)!r}, 'w').write('run')"
    made = package({
        "pack/__init__.py": f"{touch}\n",
        "pack/other.py": f"import os\nos.system('touch {sentinel}')\nSIZE = exec({touch!r}) or 16\n",
        "pack/kernels.py": f"""
import subprocess
from .other import SIZE
{touch}
subprocess.run(["touch", {str(sentinel)!r}])
eval({touch!r})
exec({touch!r})
compile({touch!r}, "x", "exec")
__import__("pathlib").Path({str(sentinel)!r}).write_text("run")
class Meta(type):
    def __new__(cls, *arguments):
        {touch}
        return super().__new__(cls, *arguments)
L = [Config({{"B": b}}) for b in (16, 32)]

@triton.autotune(L, ["x"], prune_configs_by={{"early_config_prune": lambda c, n, **k: {touch} and c}})
@triton.heuristics({{"E": lambda args: {touch}}})
@triton.jit
def kernel(x, B: tl.constexpr, E: tl.constexpr):
    pass
""",
    })  # fmt: skip
    site = made.site()
    target = next(iter(made.read(("sm_90",)).project.evaluators.values())).world.target
    reading = made.read(("sm_90",))
    reading.project.prune(site, site.answers["sm_90"].configs, {}, target)
    reading.project.call(site.heuristics[0].function, {}, target)
    assert made.lists() == {"kernel": blocks(16, 32)}
    assert not sentinel.exists()
