"""What is imported for the sake of a version, a help page or a kept report: start-up is most of what those cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "triton",
    "torch",
    "libcst",
    "networkx",
    "rich",
    "yaml",
    "sqlite3",
    "asyncio",
    "smemcheck.pipeline",
    "smemcheck.rules",
)

SCRIPT = f"""
import sys
from smemcheck.cli import cli
try:
    cli(sys.argv[1:], prog_name="smemcheck")
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy(option):
    command = [sys.executable, "-c", SCRIPT, option]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"
