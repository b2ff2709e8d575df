"""Recorded specialisations: reading the lines, and which site each is about."""

from __future__ import annotations

import json

import pytest

from smemcheck.config import Settings
from smemcheck.errors import UsageError
from smemcheck.model import Config, ConstexprValue, Dtype, FunctionValue, Specialization, Unknown
from smemcheck.specialize import specialize
from smemcheck.specialize.recorded import assign, read_recorded

LINE = {
    "kernel": "attend",
    "path": "pkg/ops/attend.py",
    "line": 41,
    "signature": {
        "q_ptr": "*bf16",
        "bias_ptr": "constexpr",
        "n": "i32",
        "strides": ["i32", "constexpr"],
        "BLOCK": "constexpr",
    },
    "constexprs": {"bias_ptr": None, "strides": {"1": 1}, "BLOCK": 64},
    "divisible_by_16": ["q_ptr", "n"],
    "environment": {"TRITON_F32_DEFAULT": "ieee"},
    "config": {"kwargs": {"BLOCK": 64}, "num_warps": 8, "num_stages": 2, "num_ctas": 1, "maxnreg": None},
}


@pytest.fixture
def record(tmp_path):
    """A file with these rows, a line each; a string is written as it is."""

    def write(*rows, name="seen.jsonl"):
        path = tmp_path / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return str(path)

    return write


def test_one_line(record):
    (entry,) = read_recorded(record(LINE)).by_kernel["attend"]
    assert (entry.line, entry.path, entry.definition) == (1, "pkg/ops/attend.py", 41)
    assert entry.specialization == Specialization(
        signature=(
            ("q_ptr", "*bf16"),
            ("bias_ptr", "constexpr"),
            ("n", "i32"),
            ("strides", ("i32", "constexpr")),
            ("BLOCK", "constexpr"),
        ),
        constexprs=(("bias_ptr", None), ("strides.1", 1), ("BLOCK", 64)),
        divisible_by_16=frozenset({"q_ptr", "n"}),
        environment=(("TRITON_F32_DEFAULT", "ieee"),),
        config=Config((("BLOCK", 64),), num_warps=8, num_stages=2),
    )


def test_only_kernel_path_and_signature_are_needed(record):
    row = {"kernel": "k", "path": "a.py", "signature": {"x": "*fp16"}}
    (entry,) = read_recorded(record("", row)).by_kernel["k"]
    assert (entry.line, entry.definition) == (2, None)
    assert entry.specialization == Specialization(signature=(("x", "*fp16"),))


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (None, None),
        (True, True),
        (0.5, 0.5),
        ("tf32", "tf32"),
        ([1, [2, None]], (1, (2, None))),
        ({"dtype": "fp8e4nv"}, Dtype("fp8e4nv")),
        ({"jit": "relu"}, FunctionValue("relu")),
        ({"constexpr": {"dtype": "fp32"}}, ConstexprValue(Dtype("fp32"))),
    ],
)
def test_constants(record, encoded, value):
    row = {**LINE, "constexprs": {"BLOCK": encoded}}
    (entry,) = read_recorded(record(row)).by_kernel["attend"]
    assert entry.specialization.constexprs == (("BLOCK", value),)


def test_an_object_that_was_recorded_by_its_repr_is_unknown(record):
    row = {**LINE, "constexprs": {"BLOCK": {"repr": "<Enum.A: 1>"}}}
    (entry,) = read_recorded(record(row)).by_kernel["attend"]
    assert entry.unknown == (("BLOCK", Unknown("the recorded value <Enum.A: 1> is an object that no file can hold")),)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{", "is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "must be a JSON object with kernel, path and signature"),
        ({"path": "a.py", "signature": {}}, "needs 'kernel', a string"),
        ({**LINE, "path": 3}, "needs 'path', a string"),
        ({**LINE, "signature": ["*fp16"]}, "needs 'signature', an object"),
        ({**LINE, "signature": {"x": 1}}, "has no type for 'x' in 'signature': a string such as \"*fp16\", or a list of them for a tuple"),
        ({**LINE, "divisible_by_16": [0]}, "must hold names of parameters in 'divisible_by_16'"),
        ({**LINE, "environment": {"TRITON_F32_DEFAULT": 1}}, "must hold strings in 'environment'"),
        ({**LINE, "constexprs": {"BLOCK": {"a": 1}}}, 'holds a constant that cannot be read: {"a": 1}'),
        ({**LINE, "config": {"num_warps": "4"}}, "has a config whose 'num_warps' is no integer"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(record, row, complaint):
    path = record(LINE, row)
    with pytest.raises(UsageError) as caught:
        read_recorded(path)
    assert str(caught.value) == f"{path}:2: the recorded specialisation {complaint}"


def test_files_that_cannot_be_read(tmp_path):
    missing = tmp_path / "none.jsonl"
    with pytest.raises(UsageError, match=r"none\.jsonl: cannot be read: No such file or directory"):
        read_recorded(str(missing))
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"binary\.jsonl: is not UTF-8"):
        read_recorded(str(binary))


KERNEL = """
@triton.autotune([triton.Config({{"BLOCK": 16}})], key=[])
@triton.jit
def {name}(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)
"""


def line(kernel, path, number=None, **more):
    signature = {"x": "*fp32", "BLOCK": "constexpr"}
    return {"kernel": kernel, "path": path, "line": number, "signature": signature, "constexprs": {"BLOCK": 32}, **more}


def test_a_line_belongs_to_the_file_with_the_longest_common_tail(read, record, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ops.py").write_text(
            "import triton\nimport triton.language as tl\n" + KERNEL.format(name="fill")
        )
    sites, _ = read("")
    file = read_recorded(
        record(line("fill", "elsewhere/two/ops.py"), line("fill", "ops.py"), line("fill", "nowhere.py"))
    )
    assignment = assign(sites, [file])
    folders = [site.position.path.split("/")[-2] for site in sites]
    assert folders == ["one", "two"]
    assert [[e.line for f in files for e in f.by_kernel.get("fill", ())] for files in assignment.by_site] == [[2], [1]]
    assert [entry.line for _, entry in assignment.unmatched] == [3]


def test_a_line_belongs_to_the_definition_it_names(read, record):
    sites, _ = read(KERNEL.format(name="fill") + KERNEL.format(name="fill"))
    first, second = (site.position.line for site in sites)
    file = read_recorded(record(line("fill", "kernels.py", second), line("fill", "kernels.py", first)))
    assignment = assign(sites, [file])
    assert [[e.line for f in files for e in f.by_kernel.get("fill", ())] for files in assignment.by_site] == [[2], [1]]


def test_lines_are_counted_through_all_files_and_keep_their_config(read, record):
    sites, project = read(KERNEL.format(name="fill"))
    files = [
        read_recorded(record("", line("fill", "kernels.py"), name="one.jsonl")),
        read_recorded(record(line("fill", "kernels.py", config={"kwargs": {}, "num_warps": 2}), name="two.jsonl")),
    ]
    first, second = specialize(sites[0], project, Settings(), files)
    assert (first.recorded_line, first.config) == (2, None)
    assert (second.recorded_line, second.config) == (3, Config(num_warps=2))
    assert first.signature == (("x", "*fp32"), ("BLOCK", "constexpr"))
    assert first.assumptions == ()


def test_lines_with_configs_are_all_that_is_judged(read, record):
    sites, project = read(KERNEL.format(name="fill") + KERNEL.format(name="other"))
    plain = read_recorded(record(line("fill", "kernels.py"), name="one.jsonl"))
    with_config = read_recorded(record(line("fill", "kernels.py", config={"num_warps": 2}), name="two.jsonl"))
    assert len(specialize(sites[1], project, Settings(), [plain])) == 1
    assert specialize(sites[1], project, Settings(), [with_config]) == ()


def test_a_line_about_other_parameters_is_refused(read, record):
    sites, project = read(KERNEL.format(name="fill"))
    row = {**line("fill", "kernels.py"), "signature": {"x": "*fp32", "SIZE": "constexpr"}}
    (answer,) = specialize(sites[0], project, Settings(), [read_recorded(record(row))])
    assert answer.unknown.reason == (
        "the recorded specialisation of line 1 names 'SIZE', which is no parameter of fill; record it again"
    )
