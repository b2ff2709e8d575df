"""``--verify`` without a GPU: the refusals, and the whole conversation with a child for which a GPU is stood in."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from smemcheck.cli import cli
from smemcheck.config import Settings
from smemcheck.model import VerdictKind
from smemcheck.rules.devices import resolve_target
from smemcheck.verify import hardware
from smemcheck.verify.comparison import compare, confusion, observed_verdict, verification_json, verification_text
from smemcheck.verify.recording import device_document

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
STARTUP = Path(hardware.__file__).parent / "startup"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None,
    reason="torch or Triton is not installed",
)


def verify(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["check", str(FIXTURES / "softmax.py"), "--verify", *map(str, arguments)])
    return result.exit_code, result.output


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "local_architectures", tuple)
    code, output = verify()
    assert code == 2
    assert "this machine has no GPU with a driver" in output


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "local_architectures", lambda: ("sm_90",))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    code, output = verify()
    assert code == 2
    assert "--verify needs torch" in output


def test_another_architecture_than_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "local_architectures", lambda: ("sm_90",))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    code, output = verify("--arch", "sm_120")
    assert code == 2
    assert "runs on this machine's sm_90 only; --arch sm_120 cannot be launched here" in output


def test_an_unknown_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "local_architectures", lambda: ("sm_35",))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    code, output = verify()
    assert code == 2
    assert "no device table knows this machine's GPU (sm_35)" in output


def test_a_format_that_cannot_hold_it() -> None:
    code, output = verify("--format", "sarif")
    assert code == 2
    assert "--verify writes text or json" in output


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ({"shared_memory": 1, "registers": 32}, VerdictKind.FITS),
        ({"load_error": "OutOfResources"}, VerdictKind.PRUNED),
        ({"compile_error": "PTXASError"}, VerdictKind.PRUNED),
        ({"compile_error": "CompileTimeAssertionFailure"}, VerdictKind.PRUNED),
        ({"compile_error": "CompilationError"}, VerdictKind.CRASHES),
        ({"launch_error": "AcceleratorError"}, VerdictKind.CRASHES),
    ],
)
def test_what_the_autotuner_makes_of_it(seen: dict, verdict: VerdictKind) -> None:
    assert observed_verdict(seen) is verdict


@pytest.fixture
def stood_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The launching children, and they alone, see the GPU that ``record --without-gpu`` stands in for."""
    real = hardware._Site._environment
    extra = {
        "SMEMCHECK_RECORD": str(tmp_path),
        "SMEMCHECK_WITHOUT_GPU": json.dumps(device_document(resolve_target("h100"))),
    }

    def environment(self: object, cache: str) -> dict[str, str]:
        found = real(self, cache)
        return {**found, **extra, "PYTHONPATH": os.pathsep.join([str(STARTUP), found["PYTHONPATH"]])}

    monkeypatch.setattr(hardware._Site, "_environment", environment)
    monkeypatch.setattr(hardware, "local_architectures", lambda: ("sm_90",))


@needs_torch
@pytest.mark.slow
def test_predicted_and_observed_side_by_side(stood_in: None, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n\n"
        "@triton.autotune([triton.Config({'BLOCK': 64}, num_stages=2), triton.Config({'BLOCK': 256}, num_stages=4)], key=['K'])\n"
        "@triton.jit\n"
        "def product(a_ptr: '*fp16', b_ptr: '*fp16', c_ptr: '*fp16', K, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n"
        "    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)\n"
        "    for k in range(0, K, BLOCK):\n"
        "        a = tl.load(a_ptr + i[:, None] * K + (k + i)[None, :])\n"
        "        b = tl.load(b_ptr + (k + i)[:, None] * K + i[None, :])\n"
        "        total = tl.dot(a, b, total)\n"
        "    tl.store(c_ptr + i[:, None] * K + i[None, :], total.to(tl.float16))\n"
    )
    verification = hardware.verify([str(file)], replace(Settings(), launches=False, cache=False, jobs=1))
    rows = compare(verification)
    assert confusion(rows) == {("fits", "fits"): 1, ("pruned", "pruned"): 1}
    assert [row.mismatches for row in rows] == [(), ()]
    assert [row.observation.won for row in rows] == [True, False]
    assert rows[1].observation.milliseconds == (float("inf"),) * 3
    text = verification_text(verification, rows, 160)
    assert "winner: BLOCK=64, num_warps=4, num_stages=2" in text
    assert "2 configs launched and compared, 0 with a mismatch" in text
    assert json.loads(verification_json(verification, rows))["verification"]["mismatches"] == 0


@needs_torch
@pytest.mark.slow
def test_a_wrong_prediction_is_shown(stood_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is judged for a card with less memory than the one that launches."""
    monkeypatch.setattr(hardware, "local_target", lambda _: replace(resolve_target("sm_90"), name="sm_90"))
    verification = hardware.verify(
        [str(FIXTURES / "softmax.py")], replace(Settings(), bind=(), launches=False, cache=False)
    )
    changed = [
        replace(row, verdict=replace(row.verdict, kind=VerdictKind.PRUNED)) for row in verification.report.results
    ]
    wrong = replace(verification, report=replace(verification.report, results=tuple(changed)))
    rows = compare(wrong)
    assert rows
    assert all(row.mismatches[0] == "verdict: predicted pruned, observed fits" for row in rows if row.observed)
    assert "MISMATCH" in verification_text(wrong, rows, 160)
