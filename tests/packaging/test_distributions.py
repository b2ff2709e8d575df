"""What is in a wheel and in a source distribution, and that ``rules/`` arrives as ``smemcheck.rules`` in both."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import smemcheck.rules

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="build is not installed (pip install -e '.[dev]')")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, capture_output=True)
    return folder


def rule_files() -> set[str]:
    files = (path for path in (ROOT / "rules").rglob("*") if path.suffix in {".py", ".toml"})
    return {path.relative_to(ROOT / "rules").as_posix() for path in files}


def test_a_checkout_has_the_rules_under_their_import_name() -> None:
    assert Path(smemcheck.rules.__file__).resolve() == ROOT / "rules" / "__init__.py"


@pytest.mark.slow
def test_the_wheel_holds_the_package_with_the_rules_in_it(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"smemcheck/rules/{name}" for name in rule_files()} <= names
    assert {"smemcheck/py.typed", "smemcheck/report/report.schema.json"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"smemcheck"}


@pytest.mark.slow
def test_the_source_distribution_can_build_and_test_itself(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {f"rules/{name}" for name in rule_files()} <= names
    assert {"pyproject.toml", "README.md", "tests/conftest.py", "fixtures/sparse_decode.py"} <= names
    assert not any(name.startswith("smemcheck/rules/") for name in names)
