"""Which GPUs a machine has, from what its tools and its kernel say."""

from __future__ import annotations

from pathlib import Path

from smemcheck import local_gpu


def test_nvidia_smi_gives_a_capability_a_line() -> None:
    assert local_gpu.nvidia("9.0\n12.0\n") == ["sm_90", "sm_120"]
    assert local_gpu.nvidia("No devices were found\n") == []
    assert local_gpu.nvidia("[N/A]\n") == []


def test_the_amd_driver_gives_a_version_a_node(tmp_path: Path) -> None:
    for node, version in enumerate((0, 90402, 90010, 110001)):
        folder = tmp_path / str(node)
        folder.mkdir()
        (folder / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\nsimd_count 1216\n")
    assert local_gpu.amd(tmp_path) == ["gfx942", "gfx90a", "gfx1101"]


def test_a_machine_without_a_gpu_has_none(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(local_gpu, "_KFD_NODES", tmp_path / "absent")
    assert local_gpu.local_architectures() == ()


def test_nvidia_smi_is_asked_when_it_is_there(tmp_path: Path, monkeypatch) -> None:
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 9.0\necho 9.0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(local_gpu, "_KFD_NODES", tmp_path / "absent")
    assert local_gpu.local_architectures() == ("sm_90",)
