"""On a real GPU: every config of fixtures is launched and held against the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from smemcheck.cli import cli

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["softmax.py", "reduction.py", "matmul.py"])
def test_the_hardware_agrees(name: str) -> None:
    result = CliRunner().invoke(cli, ["check", str(FIXTURES / name), "--verify", "--format", "json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)["verification"]
    assert found["rows"]
    assert found["mismatches"] == 0
    assert sum(row["won"] for row in found["rows"]) >= 1


def test_the_users_own_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calls.py").write_text(
        "import torch\n"
        "def launch(kernel):\n"
        "    x = torch.randn(64, 4096, device='cuda', dtype=torch.float16)\n"
        "    kernel[(64,)](torch.empty_like(x), x, x.stride(0), x.stride(0), 4096)\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["check", str(FIXTURES / "softmax.py"), "--verify-with", "calls:launch", "--format", "json"]
    result = CliRunner().invoke(cli, [*arguments, "--bind", "out_ptr=*fp16", "--bind", "in_ptr=*fp16"])
    found = json.loads(result.output)["verification"]
    assert found["mismatches"] == 0
    assert {row["observed"] for row in found["rows"]} == {"fits"}


def test_record_sees_what_the_driver_says(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(FIXTURES.parent)!r})\n"
        "from fixtures.softmax import softmax\n"
        "softmax(torch.randn(64, 1000, device='cuda', dtype=torch.bfloat16))\n"
    )
    output = tmp_path / "lines.jsonl"
    result = CliRunner().invoke(cli, ["record", "--output", str(output), "--", sys.executable, str(script)])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert {line["kernel"] for line in lines} == {"softmax_kernel"}
    assert all(line["observed"]["load"] == "ok" and line["observed"]["registers"] > 0 for line in lines)
