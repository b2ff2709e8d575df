"""Real packages, by version, downloaded when the test runs: no traceback, and every kernel has configs or a reason."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGES = (
    "fla-core==0.6.0",
    "adasplash==0.2.2",
    "mlstm-kernels==2.0.6",
    "conch-triton-kernels==1.3",
    "flash-attention-triton==0.1.1",
    "cut-cross-entropy==25.1.1",
    "liger-kernel==0.8.5",
    "torchao==0.18.0",
    "megatron-core==0.16.1",
    "vllm==0.33.0",
)


def unpacked(package: str, folder: Path) -> Path:
    """The package's files, without installing it. What pip downloads again it takes from its own cache."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", package]
    ran = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"pip cannot download {package} here: {ran.stderr.strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "source", [name for name in archive.namelist() if name.endswith(".py")])
    return folder / "source"


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_kernel_has_configs_or_a_reason(package: str, tmp_path: Path) -> None:
    source = unpacked(package, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "smemcheck", "sites", str(source), "--arch", "sm_90", "--format", "json", "--exit-zero"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    report = json.loads(ran.stdout)
    silent = [site["kernel"] for site in report["sites"] if site["configs"]["sm_90"] is None and not site["unknown"]]
    assert silent == []
    assert [finding["message"] for finding in report["findings"] if "internal error" in finding["message"]] == []
