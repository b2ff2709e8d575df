"""Packages as a user writes them: files on disk, read by the source stage."""

from __future__ import annotations

import pytest
from listing import Package


@pytest.fixture
def package(tmp_path):
    """A package in a temporary folder. ``package({"a.py": …})`` writes it; then it can be asked for its sites and lists."""

    def write(files, **options):
        return Package(tmp_path, files, **options)

    return write


@pytest.fixture
def lists(package):
    """The lists of one file, by kernel name: ``lists(text)["kernel"]``. See :meth:`Package.lists`."""

    def read_text(text, target="sm_90", **options):
        return package({"kernels.py": text}, **options).lists(target)

    return read_text


@pytest.fixture
def configs(lists):
    """The list that one expression gives as ``configs=``, with statements before it: ``configs("[Config({})]", before)``."""

    def read_expression(expression, before="", target="sm_90", **options):
        text = f"{before}\n\n@triton.autotune(configs={expression}, key=[])\n@triton.jit\ndef kernel(x):\n    pass\n"
        return lists(text, target, **options)["kernel"]

    return read_expression
