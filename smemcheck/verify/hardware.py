"""``--verify``: every config is launched on the local GPU, in child processes that may die, and held against the report."""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.local_gpu import local_architectures
from smemcheck.lower import jobs as codec
from smemcheck.model import Job, Outcome, Report, SiteKind, Target, Unknown

_TUNING_FACTOR = 4  # the autotuner may take this many time limits, for all configs together


@dataclass(frozen=True, slots=True)
class Observation:
    """What the hardware did with one result of the report. ``result`` is its index; ``seen`` is the child's answer.

    ``milliseconds`` are the autotuner's quantiles, ``None`` where it was not run; infinite where it pruned the config.
    """

    result: int
    seen: Mapping[str, Any]
    milliseconds: tuple[float, ...] | None = None
    won: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """A report and what the hardware said of its results; ``left_out`` are results that could not be launched, and why."""

    report: Report
    observations: tuple[Observation, ...]
    left_out: tuple[tuple[int, str], ...]
    device: str
    notes: tuple[str, ...] = ()


def local_target(settings: Settings) -> Target:
    """The architecture of this machine's GPU, which the settings must not contradict.

    Raises :class:`~smemcheck.errors.UsageError` without a GPU, without torch, or when another architecture is asked for.
    """
    from smemcheck.rules.devices import resolve_target, targets

    found = local_architectures()
    if not found:
        raise UsageError(
            "--verify launches kernels, and this machine has no GPU with a driver (nvidia-smi, /sys/class/kfd)"
        )
    if importlib.util.find_spec("torch") is None:
        raise UsageError("--verify needs torch to allocate tensors on the GPU, and this environment has none")
    if importlib.util.find_spec("triton") is None:
        raise UsageError("--verify needs Triton to launch kernels, and this environment has none")
    known = [name for name in found if name in targets()]
    if not known:
        raise UsageError(f"--verify: no device table knows this machine's GPU ({', '.join(found)})")
    asked = [resolve_target(name).name for name in settings.targets]
    others = [name for name in asked if name not in known]
    if others:
        raise UsageError(
            f"--verify runs on this machine's {', '.join(known)} only; --arch {others[0]} cannot be launched here"
        )
    return targets()[asked[0] if asked else known[0]]


def verify(
    paths: Sequence[str],
    settings: Settings,
    call: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Verification:
    """Judge every config under the paths for the local GPU, registers included, then launch each.

    ``call`` is ``module:function`` of ``--verify-with``. Raises :class:`~smemcheck.errors.UsageError`.
    """
    from smemcheck.pipeline import check

    target = local_target(settings)
    settings = replace(settings, targets=(target.name,), registers=True)
    if call is not None and not all(call.partition(":")):
        raise UsageError(f"--verify-with {call}: must be MODULE:FUNCTION")
    answered: dict[int, Job] = {}
    report = check(paths, settings, progress, _Remembering(settings, answered))
    groups, left_out = _groups(report, answered)
    observations: list[Observation] = []
    notes: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="smemcheck-verify-") as scratch,
        ThreadPoolExecutor(_children(settings)) as pool,
    ):
        running = [pool.submit(_Site(group, settings, target, call, notes, scratch).observed) for group in groups]
        for number, done in enumerate(running, start=1):
            observations += done.result()
            if progress:
                progress("kernels launched", number, len(groups))
    return Verification(report, tuple(observations), tuple(left_out), target.name, tuple(dict.fromkeys(notes)))


def _children(settings: Settings) -> int:
    """How many kernels are compiled at once; each child needs about two cores and 2 GiB."""
    return settings.jobs or max(1, min(8, len(os.sched_getaffinity(0)) // 2))


class _Remembering:
    """Lowers as the pipeline would, and remembers which job each outcome answers."""

    def __init__(self, settings: Settings, answered: dict[int, Job]) -> None:
        self.settings, self.answered = settings, answered
        self.outcomes: list[Outcome] = []  # kept, so that the identities stay their own

    def __call__(self, jobs: Sequence[Job]) -> Iterable[tuple[int, Outcome]]:
        from smemcheck.lower.pool import Pool

        with Pool(
            workers=self.settings.jobs,
            time_limit=self.settings.time_limit,
            environment=dict(self.settings.environment),
            cache_directory=self.settings.cache_directory if self.settings.cache else None,
        ) as pool:
            for index, outcome in pool.run(jobs):
                self.outcomes.append(outcome)
                self.answered[id(outcome)] = jobs[index]
                yield index, outcome


@dataclass(slots=True)
class _Group:
    """Results that one autotuner would hold against each other: a site under one specialisation."""

    tunes: bool
    results: list[int] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)


def _groups(report: Report, answered: Mapping[int, Job]) -> tuple[list[_Group], list[tuple[int, str]]]:
    groups: dict[Any, _Group] = {}
    left_out: list[tuple[int, str]] = []
    for index, result in enumerate(report.results):
        job = answered.get(id(result.outcome))
        if job is None or isinstance(result.outcome, Unknown) or result.specialization is None:
            left_out.append((index, result.verdict.message or "it was not lowered"))
            continue
        tuned = {name for name, _ in job.config.kwargs}
        specialization = report.specializations[result.specialization].specialization
        key = (
            result.site,
            # Recorded lines that name a config have a specialisation each; those that differ in nothing else belong together.
            result.specialization if specialization.config is None else None,
            job.specialization.signature,
            tuple(item for item in specialization.constexprs if item[0] not in tuned),
            job.specialization.divisible_by_16,
            job.specialization.environment,
        )
        if specialization.config is None:
            key = (result.site, result.specialization)  # type: ignore[assignment]
        group = groups.setdefault(key, _Group(report.sites[result.site].kind is SiteKind.AUTOTUNE))
        group.results.append(index)
        group.jobs.append(job)
    return list(groups.values()), left_out


class _Site:
    """Runs the configs of one group in children: a new one after each config that takes its child down."""

    def __init__(
        self, group: _Group, settings: Settings, target: Target, call: str | None, notes: list[str], scratch: str
    ) -> None:
        self.group, self.settings, self.target, self.call, self.notes = group, settings, target, call, notes
        self.scratch = scratch
        self.seen: dict[int, Mapping[str, Any]] = {}
        self.tuned: Mapping[str, Any] | None = None
        self.tuning: list[int] = []

    def observed(self) -> list[Observation]:
        """What was seen of every config. After one that took its child down, the rest is tuned without it."""
        count = len(self.group.jobs)
        lost: set[int] = set()
        while self.tuned is None:
            left = [index for index in range(count) if index not in lost]
            started = dict(self.seen)
            self._child(left)
            new = {index for index in left if "launch_error" in self.seen.get(index, ())} - lost
            if not new:
                if not all(index in self.seen for index in left) and self.seen == started:
                    raise UsageError(
                        f"--verify: the launching process ends without an answer ({'; '.join(self.notes[-1:])})"
                    )
                break
            lost |= new
        return [self._observation(index) for index in range(count) if index in self.seen]

    def _observation(self, index: int) -> Observation:
        result, seen = self.group.results[index], self.seen[index]
        if self.tuned is None or index not in self.tuning:
            return Observation(result, seen)
        place = self.tuning.index(index)
        quantiles = self.tuned["milliseconds"][place]
        if quantiles is None:
            return Observation(result, seen)
        values = tuple(float("inf") if value is None else value for value in quantiles)
        return Observation(result, seen, values, self.tuned["winner"] == place)

    def _child(self, launch: list[int]) -> None:
        """One child: take in its answers until it ends, or until one step of it takes too long."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as cache:
            process = subprocess.Popen(
                [sys.executable, "-c", "from smemcheck.verify.gpu_child import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(cache),
                start_new_session=True,
            )
            try:
                self._converse(process, json.dumps(self._request(launch)).encode())
            finally:
                process.kill()
                process.wait()
                for pipe in (process.stdout, process.stderr):
                    if pipe:
                        pipe.close()

    def _converse(self, process: subprocess.Popen[bytes], request: bytes) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        begun: int | None = None
        tail = b""
        buffer = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            try:
                process.stdin.write(request)
                process.stdin.close()
            except OSError:
                pass
            deadline: float | None = time.monotonic() + self.settings.time_limit
            open_pipes = 2
            while open_pipes:
                ready = selector.select(None if deadline is None else max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._died(begun, f"it takes longer than {self.settings.time_limit:g} s")
                    return
                for key, _ in ready:
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        selector.unregister(key.fileobj)
                        open_pipes -= 1
                    elif key.fileobj is process.stderr:
                        tail = (tail + chunk)[-4096:]
                    else:
                        *lines, buffer = (buffer + chunk).split(b"\n")
                        for line in lines:
                            begun, allowed = self._take(json.loads(line))
                            deadline = None if allowed is None else time.monotonic() + allowed
        if process.wait() not in {0, 3}:
            said = tail.decode(errors="replace").strip().splitlines()
            self._died(
                begun, f"its process ended with status {process.returncode}: {said[-1] if said else 'nothing was said'}"
            )

    def _take(self, answer: Mapping[str, Any]) -> tuple[int | None, float | None]:
        """Keep an answer; the config that is worked on now, and the seconds until the next answer must come."""
        limit = self.settings.time_limit
        if "refusal" in answer:
            raise UsageError(f"--verify: {answer['refusal']}")
        if "waiting" in answer:
            return None, None  # for other children, each of which has limits of its own
        if "begin" in answer:
            return answer["begin"], limit if answer["begin"] is not None else _TUNING_FACTOR * limit
        if "config" in answer:
            self.seen[answer["config"]] = answer["observed"]
        else:
            self.tuned, self.tuning = answer["tuned"], answer["indices"]
        return None, limit

    def _died(self, begun: int | None, why: str) -> None:
        if begun is None:
            self.notes.append(f"{self.group.jobs[0].kernel.entry.name} was not launched or tuned to the end: {why}")
        else:
            self.seen[begun] = {"launch_error": "process lost", "message": why}

    def _request(self, launch: list[int]) -> dict[str, Any]:
        jobs = self.group.jobs
        encoded = [codec.encode(job) for job in jobs]
        assert all(isinstance(job, dict) for job in encoded)
        constants = [dict(job.specialization.constexprs) for job in jobs]
        varying = sorted({
            name
            for one in constants
            for name in one
            if any(other.get(name, self) != one[name] for other in constants)
        })  # fmt: skip
        return {
            "arch": self.target.arch,
            "kernel": codec.encode_kernel(jobs[0].kernel),
            "jobs": [
                {**request, "tuned": [*dict.fromkeys([*(name for name, _ in job.config.kwargs), *varying])]}
                for request, job in zip(encoded, jobs, strict=True)
                if isinstance(request, dict)
            ],
            "launch": launch,
            "tunes": self.group.tunes,
            "lock": str(Path(self.scratch, "gpu.lock")),
            "call": self.call,
            "import_from": [str(Path.cwd())] if self.call else [],
        }

    def _environment(self, cache: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not codec.is_triton_variable(name)}
        package = str(Path(__file__).parent.parent.parent)
        paths = [package, *filter(None, inherited.get("PYTHONPATH", "").split(os.pathsep))]
        return {
            **inherited,
            **codec.environment(self.group.jobs[0].specialization.environment, dict(self.settings.environment)),
            "TRITON_CACHE_DIR": cache,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
