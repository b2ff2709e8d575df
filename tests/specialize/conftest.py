"""Kernels as a user writes them: text in a file, read by the source stage."""

from __future__ import annotations

import textwrap

import pytest

from smemcheck.config import Settings
from smemcheck.rules.devices import resolve_target
from smemcheck.source import read_sites

PREAMBLE = """\
import torch
import triton
import triton.language as tl

"""


@pytest.fixture
def read(tmp_path):
    """Read the sites of a file with this text, on sm_90 unless said otherwise. Gives ``(sites, project)``."""

    def read_text(text, targets=("sm_90",), settings=None):
        path = tmp_path / "kernels.py"
        path.write_text(PREAMBLE + textwrap.dedent(text))
        reading = read_sites([str(tmp_path)], [resolve_target(name) for name in targets], settings or Settings())
        assert not reading.problems
        return reading.sites, reading.project

    return read_text


@pytest.fixture
def read_kernel(read):
    """Read one kernel, given without its decorators: it is autotuned over one empty config. Gives ``(site, project)``."""

    def read_one(text, before=""):
        text = textwrap.dedent(text).lstrip()
        tuned = "@triton.autotune([triton.Config({})], key=[])\n@triton.jit\n" + text
        sites, project = read(textwrap.dedent(before) + "\n\n" + tuned)
        assert len(sites) == 1
        return sites[0], project

    return read_one
