"""Lists of real packages against what Triton's own Autotuner objects held after importing them.

The rows lie in ``../shared/oracle`` beside the repository; the packages are downloaded by their pinned versions.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from smemcheck.config import Settings
from smemcheck.model import Unknown
from smemcheck.rules.devices import resolve_target
from smemcheck.source import read_sites

ORACLE = Path(__file__).parents[3] / "shared" / "oracle"
TARGETS = ("sm_80", "sm_90", "sm_120")
SECONDS_PER_TEN_SITES = 1.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ORACLE.is_dir(), reason="the oracle rows (../shared/oracle) are not beside this repository"),
]


@pytest.fixture(scope="module")
def rows():
    return {
        target: [json.loads(line) for line in gzip.open(ORACLE / f"oracle_{target}.jsonl.gz", "rt")]
        for target in TARGETS
    }


@pytest.fixture(scope="module")
def readings(rows):
    """Per package that could be downloaded: its sites and the CPU seconds that reading them took for all three targets."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "smemcheck-corpus"
    targets = [resolve_target(name) for name in TARGETS]
    found = {}
    for package in sorted({row["package"] for row in rows["sm_90"]}):
        root = _unpacked(package, cache)
        if root is None:
            continue
        started = time.process_time()
        reading = read_sites([str(root)], targets, Settings(respect_gitignore=False))
        found[package] = (reading.sites, time.process_time() - started)
    if not found:
        pytest.skip("no package of the oracle could be downloaded")
    return found


def _unpacked(package, cache):
    """The folder with the unpacked source of NAME-VERSION; ``None`` when it cannot be had from the package index."""
    root = cache / package
    if root.is_dir():
        return root
    name, _, version = package.rpartition("-")
    files = cache / "files" / package
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(files), f"{name}=={version}"]
    for kind in ([], ["--no-binary=:all:", "--no-build-isolation"]):
        if subprocess.run([*command, *kind], capture_output=True, timeout=600, check=False).returncode == 0:
            break
    archives = sorted(files.glob("*")) if files.is_dir() else []
    if not archives:
        return None
    if archives[0].suffix == ".whl":
        zipfile.ZipFile(archives[0]).extractall(root)
    else:
        with tarfile.open(archives[0]) as archive:
            archive.extractall(root, filter="data")
    return root


def _frozen(value):
    if isinstance(value, dict):
        return tuple(sorted((k, _frozen(v)) for k, v in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _wanted(row):
    return [(_frozen(c["kwargs"]), c["num_warps"], c["num_stages"], c["num_ctas"] or 1, c["maxnreg"]) for c in row["configs"]]  # fmt: skip


def _given(configs):
    return [(_frozen(dict(c.kwargs)), c.num_warps, c.num_stages, c.num_ctas, c.maxnreg) for c in configs]


def _common_tail(path, file):
    pairs = zip(reversed(path.split("/")), reversed(file.split("/")), strict=False)
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _outcome(row, sites, target):
    """``right``, ``unknown: …``, ``wrong`` or ``missing``; of several sites of that name the best answer counts."""
    same = [
        site for site in sites if site.kernel_name == row["kernel"] and _common_tail(site.position.path, row["file"])
    ]
    if not same:
        return "missing"
    nearest = max(_common_tail(site.position.path, row["file"]) for site in same)
    same = [site for site in same if _common_tail(site.position.path, row["file"]) == nearest]
    same = [site for site in same if site.position.line in (row["def_line"], row["line"])] or same
    answers = [site.answers[target].configs for site in same]
    known = [answer for answer in answers if not isinstance(answer, Unknown)]
    if any(Counter(map(repr, _given(answer))) == Counter(map(repr, _wanted(row))) for answer in known):
        return "right"
    unknown = next((answer for answer in answers if isinstance(answer, Unknown)), None)
    return f"unknown: {unknown.reason}" if unknown is not None else "wrong"


@pytest.mark.parametrize("target", TARGETS)
def test_no_list_is_wrong_and_nearly_all_are_known(rows, readings, target):
    outcomes = [
        (_outcome(row, readings[row["package"]][0], target), f"{row['package']} {row['file']}:{row['line']}")
        for row in rows[target]
        if row["package"] in readings
    ]
    assert [place for outcome, place in outcomes if outcome == "wrong"] == []
    others = [one for one in outcomes if one[0] != "right"]
    assert len(outcomes) - len(others) >= 0.98 * len(outcomes), others


def test_no_package_takes_long(readings):
    """CPU seconds for ten sites and one target; small packages pay for what every run pays once."""
    slow = {
        package: seconds / len(TARGETS) / max(len(sites), 10) * 10
        for package, (sites, seconds) in readings.items()
        if seconds / len(TARGETS) / max(len(sites), 10) * 10 > SECONDS_PER_TEN_SITES
    }
    assert slow == {}
