"""What tests and benchmarks say of the values that their functions are called with: ``pytest`` marks and Triton's benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smemcheck.source.values import Builtin, Call, External, Instance, Obstacle, Raised, Sweep, UserClass, UserFunction

BENCHMARK = External("triton.testing.Benchmark")
_PARAM = External("pytest.param")


def _parametrize(call: Call) -> Any:
    """``pytest.mark.parametrize(names, rows)`` as a decorator."""
    names, rows = call.argument(0, "argnames"), call.argument(1, "argvalues")
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return External("pytest.mark.parametrize.unknown")
    if not isinstance(rows, (list, tuple, range)):
        return External("pytest.mark.parametrize.unknown")
    found = [row for row in (_row(one, len(names)) for one in rows) if row is not None]
    return _sweeping(Sweep(tuple(names), tuple(found)))


def _row(value: Any, count: int) -> tuple[Any, ...] | None:
    """The values of one row; ``None`` when it is not known or does not fit the names."""
    if isinstance(value, Instance) and value.cls == _PARAM:
        row = value.attributes["values"]
    else:
        row = (value,) if count == 1 else value
    return tuple(row) if isinstance(row, (list, tuple)) and len(row) == count else None


def _sweeping(*sweeps: Sweep) -> Builtin:
    """A decorator that notes what a function, or each method of a class, is called with."""

    def decorate(call: Call) -> Any:
        target = call.arguments[0]
        functions = [target] if isinstance(target, UserFunction) else []
        if isinstance(target, UserClass):
            functions = [value for value in target.namespace.values() if isinstance(value, UserFunction)]
        for function in functions:
            function.sweeps = (*function.sweeps, *sweeps)
        return target

    return Builtin("parametrize", decorate)


def _param(call: Call) -> Any:
    """``pytest.param(…)``: a row, whatever its marks."""
    return Instance(_PARAM, {"values": tuple(call.arguments)})


def _skip(call: Call) -> Any:
    raise Raised("Skipped", "the test is skipped", place=call.place)


_BENCHMARK_FIELDS = ("x_names", "x_vals", "line_arg", "line_vals", "line_names", "plot_name", "args")


def _benchmark(call: Call) -> Any:
    """``triton.testing.Benchmark(…)`` (Triton 3.6.0, ``testing.py``)."""
    return Instance(BENCHMARK, {name: call.argument(i, name, None) for i, name in enumerate(_BENCHMARK_FIELDS)})


def _perf_report(call: Call) -> Any:
    """``triton.testing.perf_report(benchmarks)``: the function is called for each line at each x, with fixed ``args`` besides."""
    given = call.argument(0, "benchmarks")
    benchmarks = given if isinstance(given, (list, tuple)) else [given]
    rows: list[dict[str, Any]] = []
    for one in benchmarks:
        if isinstance(one, Instance) and one.cls == BENCHMARK:
            rows += _calls(one.attributes)
    names = tuple(rows[0]) if rows else ()
    same = [tuple(row[name] for name in names) for row in rows if row.keys() == set(names)]
    return _sweeping(*([Sweep(names, tuple(same))] if names else []))


def _calls(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keyword arguments of a benchmark's calls; none when something that decides them is not known."""
    names, line, fixed = fields["x_names"], fields["line_arg"], fields["args"]
    values, lines = fields["x_vals"], fields["line_vals"]
    known = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names) and isinstance(line, str)
    if not known or not isinstance(values, (list, tuple, range)) or not isinstance(lines, (list, tuple)):
        return []
    besides = fixed if isinstance(fixed, dict) and all(isinstance(name, str) for name in fixed) else {}
    found = []
    for x, y in itertools.product(values, lines):
        # One value for several names is given to all of them.
        each: Sequence[Any] = x if isinstance(x, (list, tuple)) else [x] * len(names)
        if len(each) == len(names) and not isinstance(x, Obstacle):
            found.append({**dict(zip(names, each, strict=True)), line: y, **besides})
    return found


def _do_bench(call: Call) -> Any:
    """``triton.testing.do_bench(fn)``: it calls ``fn``; how long that takes is not known."""
    call.interpreter.call(call.argument(0, "fn"), [], {}, call.place)
    return call.unknown("how long a function takes is not known")


FUNCTIONS: dict[str, Callable[[Call], Any]] = {
    "pytest.mark.parametrize": _parametrize,
    "pytest.param": _param,
    "pytest.skip": _skip,
    "triton.testing.Benchmark": _benchmark,
    "triton.testing.perf_report": _perf_report,
    "triton.testing.do_bench": _do_bench,
    "triton.testing.do_bench_cudagraph": _do_bench,
}
