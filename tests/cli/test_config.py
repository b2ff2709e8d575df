"""``[tool.smemcheck]``: what it may hold, where it is looked for, and what is said when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from smemcheck.config import ConfigError, KernelSettings, ParameterValues, Settings, find_settings, read_settings
from smemcheck.model import Severity


def written(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(folder: Path, text: str) -> str:
    path = written(folder, text)
    with pytest.raises(ConfigError) as error:
        read_settings(path)
    return str(error.value).removeprefix(f"{path}: ")


def test_every_kind_of_key(tmp_path: Path) -> None:
    settings = read_settings(
        written(
            tmp_path,
            """
            [tool.smemcheck]
            targets = ["sm_120", "h100"]
            registers = true
            specializations = ["recorded.jsonl"]
            fail-on = "warning"
            time-limit = 30
            jobs = 2
            cache = false
            cache-dir = ".cache"
            exclude = ["third_party/"]
            environment = { TRITON_F32_DEFAULT = "ieee" }
            ignore = ["SMC303"]
            per-file-ignores = { "tests/*" = ["SMC1"] }
            severity = { SMC104 = "note" }

            [tool.smemcheck.kernels._attn_fwd]
            HEAD_DIM = [64, 128]
            q_ptr = "*bf16"

            [tool.smemcheck.kernels."pkg/ops.py::matmul"]
            ALLOW_TF32 = false
            """,
        )
    )
    assert settings == Settings(
        targets=("sm_120", "h100"),
        registers=True,
        specializations=((tmp_path / "recorded.jsonl").as_posix(),),
        kernels=(
            KernelSettings(
                "_attn_fwd", None, (ParameterValues("HEAD_DIM", (64, 128)), ParameterValues("q_ptr", ("*bf16",)))
            ),
            KernelSettings("matmul", "pkg/ops.py", (ParameterValues("ALLOW_TF32", (False,)),)),
        ),
        environment=(("TRITON_F32_DEFAULT", "ieee"),),
        jobs=2,
        time_limit=30.0,
        cache=False,
        cache_directory=(tmp_path / ".cache").as_posix(),
        exclude=("third_party/",),
        fail_on=Severity.WARNING,
        ignore=("SMC303",),
        per_file_ignores=(("tests/*", ("SMC1",)),),
        severity=(("SMC104", Severity.NOTE),),
        root=tmp_path.as_posix(),
        pyproject=(tmp_path / "pyproject.toml").as_posix(),
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tool.smemcheck]\ntarget = []", "[tool.smemcheck] has no key 'target'; did you mean 'targets'?"),
        ("[tool.smemcheck]\nfail_on = 'error'", "[tool.smemcheck] has no key 'fail_on'; did you mean 'fail-on'?"),
        ("[tool.smemcheck]\nxyzzy = 1", "[tool.smemcheck] has no key 'xyzzy'"),
        ("[tool.smemcheck]\ntargets = 'sm_90'", "[tool.smemcheck] targets must be a list of strings"),
        ("[tool.smemcheck]\njobs = 0", "[tool.smemcheck] jobs must be a positive integer"),
        ("[tool.smemcheck]\njobs = true", "[tool.smemcheck] jobs must be a positive integer"),
        ("[tool.smemcheck]\nregisters = 1", "[tool.smemcheck] registers must be true or false"),
        ("[tool.smemcheck]\nfail-on = 'fatal'", '[tool.smemcheck] fail-on must be "error", "warning" or "note"'),
        ("[tool.smemcheck.kernels]\nmatmul = 3", "[tool.smemcheck] kernels must be tables of parameters"),
        ("[tool.smemcheck.kernels.f]\nD = []", "[tool.smemcheck] kernels must be tables of parameters"),
        ("[tool]\nsmemcheck = 1", "tool.smemcheck must be a table"),
    ],
)
def test_a_wrong_key_or_value_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    assert complaint(tmp_path, text) == sentence


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    sentence = complaint(tmp_path, "[tool.smemcheck]\ntargets = sm_90")
    assert sentence.startswith("is not valid TOML: ")
    assert "line 2" in sentence
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8, so it is not valid TOML"):
        read_settings(tmp_path / "pyproject.toml")


def test_the_nearest_table_above_the_paths_counts(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "pkg" / "ops"
    inner.mkdir(parents=True)
    written(tmp_path, "[tool.smemcheck]\ntargets = ['sm_75']")
    written(tmp_path / "repo", "[tool.smemcheck]\ntargets = ['sm_90']")
    written(tmp_path / "repo" / "pkg", "[tool.other]\nx = 1")
    kernel = inner / "kernel.py"
    kernel.touch()
    assert find_settings([str(kernel)]).targets == ("sm_90",)
    assert find_settings([str(kernel), str(tmp_path)]).targets == ("sm_75",)


def test_the_search_ends_at_the_top_of_the_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    written(tmp_path, "[tool.smemcheck]\ntargets = ['sm_75']")
    assert find_settings([str(repo)]) == Settings(root=repo.as_posix())


@pytest.mark.parametrize(
    ("path", "applies"),
    [
        ("/repo/pkg/ops.py", True),
        ("/repo/other_pkg/ops.py", False),
        ("pkg/ops.py", True),
        ("/repo/pkg/ops.py.bak", False),
    ],
)
def test_a_kernel_table_may_name_the_tail_of_a_path(path: str, applies: bool) -> None:
    table = KernelSettings("matmul", "pkg/ops.py", ())
    assert table.applies_to("matmul", path) is applies
    assert not table.applies_to("matmul_2", path)
