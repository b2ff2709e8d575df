"""The JSON report: the format that other tools rely on, and its schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from handmade import FILE, KERNEL, config, needs, refuses, report, site, specialization, story
from smemcheck.model import (
    Config,
    ConstexprValue,
    Dtype,
    FailureKind,
    FunctionValue,
    Position,
    Problem,
    TargetAnswer,
    Unknown,
)
from smemcheck.report import json_report

SCHEMA = json.loads((Path(json_report.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))


def rendered(made) -> dict:
    """The report as a reader would load it, checked against the schema."""
    loaded = json.loads("".join(json_report.render(made)))
    jsonschema.validate(loaded, SCHEMA)
    return loaded


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_large_report_is_written_result_by_result() -> None:
    made = story()
    many = replace(made, results=made.results * 200)
    assert max(map(len, json_report.render(many))) == max(map(len, json_report.render(made)))


def test_the_story_as_json() -> None:
    document = rendered(story())
    assert document["schema"] == 1
    assert (document["smemcheck"], document["triton"]) == ("0.1.0", "3.6.0")
    assert document["targets"][0] == {
        "name": "sm_120",
        "backend": "cuda",
        "arch": 120,
        "warp_size": 32,
        "shared_memory_limit": 101_376,
        "tensor_memory_limit": 0,
    }
    small = {"kwargs": {"BLOCK_T": 16}, "num_warps": 4, "num_stages": 1, "num_ctas": 1, "maxnreg": None}
    [kernel] = document["sites"]
    assert (kernel["path"], kernel["line"], kernel["kernel"], kernel["kind"]) == (
        "pkg/decode.py",
        41,
        "decode",
        "autotune",
    )
    assert (kernel["parameters"], kernel["constexprs"], kernel["key"]) == (
        ["q_ptr", "n", "BLOCK_T"],
        ["BLOCK_T"],
        ["n"],
    )
    assert kernel["configs"]["sm_120"][0] == small
    assert document["specializations"] == [
        {
            "site": 0,
            "signature": {"q_ptr": "*bf16", "HEAD_DIM": "constexpr"},
            "constexprs": {"HEAD_DIM": 512},
            "divisible_by_16": ["q_ptr"],
            "environment": {},
            "targets": [target["name"] for target in document["targets"]],
            "assumptions": [
                {
                    "parameter": "q_ptr",
                    "value": "*bf16",
                    "because": "it is loaded from",
                    "path": "pkg/decode.py",
                    "line": 50,
                },
                {
                    "parameter": "HEAD_DIM",
                    "value": "512",
                    "because": "its default",
                    "path": "pkg/decode.py",
                    "line": 42,
                },
            ],
        }
    ]
    fits, pruned = document["results"][:2]
    assert (fits["config"], fits["config_line"], fits["verdict"], fits["cause"]) == (small, 22, "fits", None)
    assert (pruned["verdict"], pruned["cause"]) == ("pruned", "shared memory")
    assert (pruned["shared_memory"], pruned["shared_memory_limit"], pruned["tensor_memory"]) == (102_400, 101_376, 0)
    assert (pruned["registers"], pruned["spill_bytes"], pruned["cached"]) == (None, None, False)
    assert pruned["buffers"][0] == {
        "variable": "kv",
        "line": 60,
        "offset": 0,
        "bytes": 65_536,
        "type": "!ttg.memdesc<65536xi8>",
    }
    finding = document["findings"][1]
    assert (finding["rule"], finding["name"], finding["severity"]) == ("SMC101", "shared-memory-exceeded", "error")
    assert (finding["path"], finding["line"], finding["column"]) == ("pkg/decode.py", 23, 9)
    assert (finding["site"], finding["target"], finding["config"]["kwargs"]) == (0, "sm_120", {"BLOCK_T": 32})


def test_every_kind_of_verdict_validates() -> None:
    refusals = [refuses(kind, f"because of {kind.value}") for kind in FailureKind]
    pairs = [(config(22 + n, B=n), outcome) for n, outcome in enumerate([needs(1), needs(10**6), *refusals])]
    document = rendered(report({"sm_90": pairs, "sm_107": pairs}))
    verdicts = {result["verdict"] for result in document["results"]}
    assert verdicts == {"fits", "pruned", "crashes", "unsupported", "unknown"}


def test_an_unknown_list_is_null_with_its_reason() -> None:
    made = story()
    unknown = Unknown("the list is read from a file at run time", Position("/elsewhere/tables.py", 7))
    answers = {"sm_120": TargetAnswer(unknown, KERNEL), "sm_90": made.sites[0].answers["sm_90"]}
    [kernel] = rendered(replace(made, sites=(replace(made.sites[0], answers=answers),), results=()))["sites"]
    assert kernel["configs"]["sm_120"] is None
    assert kernel["unknown"] == {
        "sm_120": {"reason": "the list is read from a file at run time", "path": "/elsewhere/tables.py", "line": 7}
    }


def test_the_path_of_a_single_scanned_file_is_its_name() -> None:
    assert rendered(replace(story(), roots=(FILE,)))["sites"][0]["path"] == "decode.py"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, None),
        (True, True),
        (0.5, 0.5),
        ("ieee", "ieee"),
        ((1, (2,)), [1, [2]]),
        (Dtype("bf16"), {"dtype": "bf16"}),
        (FunctionValue("silu"), {"jit": "silu"}),
        (ConstexprValue(Dtype("fp16")), {"constexpr": {"dtype": "fp16"}}),
        (float("inf"), {"float": "inf"}),
    ],
)
def test_constants_of_every_kind(value, written) -> None:
    made = report({"sm_90": [(config(B=1), needs(1))]}, [specialization(X=value)])
    assert rendered(made)["specializations"][0]["constexprs"] == {"X": written}


def test_options_of_a_config_are_kept() -> None:
    odd = Config(
        (("waves_per_eu", 2),), maxnreg=128, options=(("ir_override", "k.ttgir"),), position=Position(FILE, 22)
    )
    written = rendered(report({"gfx942": [(odd, needs(1))]}))["results"][0]["config"]
    assert written == {
        "kwargs": {"waves_per_eu": 2},
        "num_warps": 4,
        "num_stages": 3,
        "num_ctas": 1,
        "maxnreg": 128,
        "options": {"ir_override": "k.ttgir"},
    }


def test_a_report_of_nothing_validates() -> None:
    empty = replace(story(), sites=(), specializations=(), results=(), findings=(), files=0, triton=None)
    assert rendered(empty)["sites"] == []
    broken = report({"sm_90": []}, problems=[Problem("it is not UTF-8", Position("/repo/latin.py", 1))])
    assert rendered(broken)["findings"][0]["path"] == "latin.py"
    assert site([], []).kernel_name == "decode"
