"""Names from other modules of the same source, and data files beside it."""

from __future__ import annotations

import pytest
from listing import blocks

CONFIGS = "CONFIGS = [Config({'B': 16})]\ndef make(b):\n    return [Config({'B': b})]\n"
TUNED = """
@triton.autotune({}, ["x"])
@triton.jit
def kernel(x, B: tl.constexpr):
    pass
"""


@pytest.mark.parametrize(
    ("imports", "expression"),
    [
        ("from pack.lists import CONFIGS", "CONFIGS"),
        ("from .lists import CONFIGS", "CONFIGS"),
        ("from ..pack.lists import CONFIGS as C", "C"),
        ("from . import lists", "lists.CONFIGS"),
        ("from .lists import make", "make(16)"),
        ("import pack.lists", "pack.lists.CONFIGS"),
        ("import pack.lists as lists", "lists.make(16)"),
        ("from .lists import *", "CONFIGS"),
        ("from . import exported", "exported"),
        ("from pack import exported", "exported"),
        ("from .again import CONFIGS", "CONFIGS"),
        ("from .deep.inner import CONFIGS", "CONFIGS"),
        ("if hasattr(tl, 'dot'):\n    from .lists import CONFIGS\nelse:\n    from .other import CONFIGS", "CONFIGS"),
        ("try:\n    from .missing import CONFIGS\nexcept ImportError:\n    from .lists import CONFIGS", "CONFIGS"),
        ("try:\n    import torch_npu\n    CONFIGS = []\nexcept ImportError:\n    from .lists import CONFIGS", "CONFIGS"),
        ("try:\n    from .lists import no_such_name as CONFIGS\nexcept ImportError:\n    from .lists import CONFIGS", "CONFIGS"),
        ("import importlib\nlists = importlib.import_module('pack.lists')", "lists.CONFIGS"),
        ("import importlib\nlists = importlib.import_module('.lists', __package__)", "lists.CONFIGS"),
        ("from .lazy import CONFIGS", "CONFIGS"),
        ("from .circle import CONFIGS", "CONFIGS"),
    ],
)  # fmt: skip
def test_an_import(package, imports, expression):
    found = package({
        "pack/__init__.py": "from .lists import CONFIGS as exported\n",
        "pack/lists.py": CONFIGS,
        "pack/other.py": "CONFIGS = [Config({'B': 99})]\n",
        "pack/again.py": "from .lists import CONFIGS\n",
        "pack/deep/__init__.py": "",
        "pack/deep/inner.py": "from ..lists import CONFIGS\n",
        "pack/lazy.py": "def __getattr__(name):\n    if name == 'CONFIGS':\n        from .lists import CONFIGS\n"
                        "        return CONFIGS\n    raise AttributeError(name)\n",
        "pack/circle.py": "CONFIGS = [Config({'B': 16})]\nfrom . import kernels\n",
        "pack/kernels.py": imports + TUNED.format(expression),
    }).lists()  # fmt: skip
    assert found == {"kernel": blocks(16)}


def test_a_single_file_is_judged_as_part_of_its_package(package):
    files = {"pack/__init__.py": "", "pack/lists.py": CONFIGS, "pack/kernels.py": "from .lists import CONFIGS" + TUNED.format("CONFIGS")}  # fmt: skip
    assert package(files).lists(paths=["pack/kernels.py"]) == {"kernel": blocks(16)}


def test_the_names_of_all(package):
    found = package({
        "lists.py": "__all__ = ['CONFIGS']\n_HIDDEN = 1\nCONFIGS = [Config({'B': 16})]\nMORE = [Config({'B': 32})]\n",
        "kernels.py": "MORE = [Config({'B': 64})]\nfrom lists import *\n" + TUNED.format("CONFIGS + MORE"),
    }).lists()  # fmt: skip
    assert found == {"kernel": blocks(16, 64)}


def test_a_copy_of_a_package_inside_another_imports_itself_by_its_own_name(package):
    found = package({
        "outer/__init__.py": "",
        "outer/vendor/__init__.py": "",
        "outer/vendor/inner/__init__.py": "",
        "outer/vendor/inner/lists.py": CONFIGS,
        "outer/vendor/inner/kernels.py": "from inner.lists import CONFIGS" + TUNED.format("CONFIGS"),
    }).lists()  # fmt: skip
    assert found == {"kernel": blocks(16)}


def test_a_module_that_is_not_there(package):
    found = package({"kernels.py": "from .missing import CONFIGS" + TUNED.format("CONFIGS")}).lists()
    assert found == {"kernel": "module missing is not on disk"}


def test_a_library_that_is_not_at_hand(package):
    found = package({"kernels.py": "from somewhere import CONFIGS" + TUNED.format("CONFIGS")}).lists()
    assert found == {"kernel": "the elements of somewhere.CONFIGS are not known"}


@pytest.mark.parametrize(
    ("name", "content", "load"),
    [
        ("sizes.json", "[16, 32]", "json.load(open(FILE))"),
        ("sizes.json", "[16, 32]", "json.loads(Path(FILE).read_text())"),
        ("sizes.yaml", "- 16\n- 32\n", "yaml.safe_load(open(FILE))"),
        ("sizes.txt", "16 32", "[int(word) for word in open(FILE).read().split()]"),
    ],
)
def test_a_data_file_beside_the_module(package, name, content, load):
    text = f"""
import json, os, yaml
from pathlib import Path
FILE = os.path.join(os.path.dirname(__file__), {name!r})
""" + TUNED.format(f"[Config({{'B': b}}) for b in {load}]")
    assert package({"kernels.py": text, name: content}).lists() == {"kernel": blocks(16, 32)}


def test_a_data_file_read_in_a_with_statement(package):
    text = """
import json
from pathlib import Path
with open(Path(__file__).parent / "tables" / "sizes.json") as file:
    SIZES = json.load(file)
""" + TUNED.format("[Config({'B': b}) for b in SIZES['kernel']]")
    assert package({"kernels.py": text, "tables/sizes.json": '{"kernel": [16]}'}).lists() == {"kernel": blocks(16)}


def test_a_file_outside_the_source_is_not_read(package, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_text("[16]")
    text = f"import json\nSIZES = json.load(open({str(outside)!r}))\n" + TUNED.format(
        "[Config({'B': b}) for b in SIZES]"
    )
    root = tmp_path / "src"
    root.mkdir()
    from listing import Package

    assert Package(root, {"kernels.py": text}).lists() == {"kernel": "a file outside the analysed source is read"}
