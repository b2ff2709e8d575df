"""Which specialisations a site gets, and what a config makes of them."""

from __future__ import annotations

import pytest

from smemcheck.config import KernelSettings, ParameterValues, Settings
from smemcheck.model import Config, Dtype, Specialization
from smemcheck.rules.devices import resolve_target
from smemcheck.specialize import bind, specialize

SM_90 = resolve_target("sm_90")

SCALE = """
@triton.jit
def double(x):
    return x + x

@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({
    "EVEN": lambda args: args["SIZE"] % args["BLOCK"] == 0,
    "HAS_BIAS": lambda args: args["bias"] is not None,
    "WIDE": lambda args: args["EVEN"] and args["num_warps"] == 4,
})
@triton.jit(do_not_specialize=["n"])
def scale(x, bias, n, step, factor, SIZE: tl.constexpr, MODE: tl.constexpr, DTYPE: tl.constexpr, BLOCK: tl.constexpr,
          EVEN: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, ROUND: tl.constexpr = False):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x + i * step, mask=i < n, other=0.0) * factor
    if HAS_BIAS:
        y += tl.load(bias + i)
    if MODE == "double":
        y = double(y)
    tl.store(x + i * step, y.to(DTYPE), mask=i < n)
"""


def settings(cap=8, bind=(), **kernel):
    tables = (KernelSettings("scale", None, tuple(ParameterValues(name, _tuple(v)) for name, v in kernel.items())),)
    return Settings(
        kernels=tables if kernel else (),
        max_specializations=cap,
        bind=tuple(ParameterValues(name, _tuple(v)) for name, v in dict(bind).items()),
    )


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.fixture
def scale(read):
    sites, project = read(SCALE)
    (site,) = sites
    return lambda *given, **more: specialize(site, project, settings(*given, **more), ())


@pytest.fixture
def bound(read):
    """The single specialisation under these settings, completed for one of the site's configs."""
    sites, project = read(SCALE)
    (site,) = sites

    def of(config=0, **kernel):
        (specialization,) = specialize(
            site, project, settings(**{"SIZE": 256, "MODE": "", "DTYPE": "fp16", **kernel}), ()
        )
        return bind(site, specialization, site.answers["sm_90"].configs[config], SM_90, project)

    return of


def test_configs_share_what_they_do_not_change(read):
    (site,), project = read(SCALE)
    (specialization,) = specialize(site, project, settings(SIZE=256, MODE="", DTYPE="fp16"), ())
    first, second = (bind(site, specialization, config, SM_90, project) for config in site.answers["sm_90"].configs[:2])
    assert first.constexprs != second.constexprs
    given = {id(pair) for pair in specialization.constexprs}
    assert given <= {id(pair) for pair in first.constexprs}
    assert given <= {id(pair) for pair in second.constexprs}
    assert first.divisible_by_16 is second.divisible_by_16


def test_constexprs_that_nothing_gives_are_tried_with_small_domains(read):
    (site,), project = read(SCALE)
    answers = specialize(site, project, Settings(), ())
    tried = [dict(answer.constexprs) for answer in answers]
    assert tried[0] == {"SIZE": 64, "MODE": "double", "DTYPE": Dtype("fp16"), "ROUND": False}
    assert {values["SIZE"] for values in tried} == {64, 128}
    assert {values["DTYPE"] for values in tried} == {Dtype("fp16"), Dtype("fp32")}
    reasons = {a.parameter: a.because for a in answers[0].assumptions}
    assert reasons["SIZE"] == "no launch says it; 64 and 128 are tried"


def test_what_was_given_and_what_was_inferred(scale):
    (specialization,) = scale(SIZE=256, MODE="double", DTYPE="fp16")
    types = dict(specialization.signature)
    assert types["x"] == types["bias"] == "*fp16"
    assert (types["n"], types["step"], types["factor"], types["SIZE"]) == ("i32", "i32", "fp32", "constexpr")
    assert specialization.constexprs == (("SIZE", 256), ("MODE", "double"), ("DTYPE", Dtype("fp16")), ("ROUND", False))
    assert specialization.divisible_by_16 == {"x", "bias", "step"}  # n is not specialised
    reasons = {a.parameter: (a.value, a.because) for a in specialization.assumptions}
    assert reasons["SIZE"] == ("256", "given in pyproject.toml")
    assert reasons["step"] == (
        "i32",
        "it is added to an address; taken for a multiple of 16, as sizes and strides mostly are",
    )
    assert reasons["n"] == ("i32", "it is compared with integers")


@pytest.mark.parametrize(
    ("value", "type_", "constant", "divisible"),
    [
        (1, "constexpr", 1, False),
        ("None", "constexpr", None, False),
        (48, "i32", None, True),
        (50, "i32", None, False),
        (2**31, "i64", None, True),
        (2**63, "u64", None, True),
        (-(2**31), "i32", None, True),
        (0.5, "fp32", None, False),
        (True, "u1", None, False),
        ("i64", "i64", None, True),
    ],
)
def test_numbers_become_what_triton_makes_of_them(scale, value, type_, constant, divisible):
    (specialization,) = scale(SIZE=256, MODE="", DTYPE="fp16", step=value)
    assert dict(specialization.signature)["step"] == type_
    assert dict(specialization.constexprs).get("step", "absent") == (constant if type_ == "constexpr" else "absent")
    assert ("step" in specialization.divisible_by_16) is divisible


def test_one_stays_an_integer_where_the_kernel_says_do_not_specialize(scale):
    (specialization,) = scale(SIZE=256, MODE="", DTYPE="fp16", n=1)
    assert dict(specialization.signature)["n"] == "i32"


@pytest.mark.parametrize(
    ("parameter", "value", "complaint"),
    [
        ("x", "*float17", "'*float17' was given for x, and it is no type of Triton's, such as '*bf16'"),
        ("x", 64, "64 was given for x, which is a pointer; give a type such as '*bf16'"),
        ("step", "many", "'many' was given for step, and it is no type of Triton's, such as 'i32'"),
        ("stepp", 1, "pyproject.toml gives a value for 'stepp', which is no parameter of scale; did you mean 'step'?"),
    ],
)
def test_what_cannot_be_given(scale, parameter, value, complaint):
    (answer,) = scale(SIZE=256, MODE="", DTYPE="fp16", **{parameter: value})
    assert answer.reason == complaint


def test_lists_are_swept_in_the_order_of_the_parameters(scale):
    found = scale(SIZE=(256, 512), MODE="", DTYPE="fp16", x=("*fp16", "*fp32"))
    assert [(dict(s.signature)["x"], dict(s.constexprs)["SIZE"]) for s in found] == [
        ("*fp16", 256), ("*fp16", 512), ("*fp32", 256), ("*fp32", 512),
    ]  # fmt: skip


def test_the_sweep_is_bounded_and_says_what_it_left_out(scale):
    found = scale(3, SIZE=(64, 128, 256, 512), MODE="", DTYPE="fp16")
    assert [dict(s.constexprs)["SIZE"] for s in found] == [64, 128, 256]
    left_out = [a for s in found for a in s.assumptions if a.parameter == "*"]
    assert [(a.value, a.because) for a in left_out] == [
        ("1 of 4 combinations left out", "max-specializations is 3")
    ] * 3


def test_bind_goes_before_pyproject(scale):
    (specialization,) = scale(bind={"SIZE": 1024, "elsewhere": 3}, SIZE=(256, 512), MODE="", DTYPE="fp16")
    assert dict(specialization.constexprs)["SIZE"] == 1024
    assert {a.parameter: a.because for a in specialization.assumptions}["SIZE"] == "given with --bind"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("tl.float16", Dtype("fp16")),
        ("bfloat16", Dtype("bf16")),
        ("torch.float32", Dtype("fp32")),
        ("tl.int1", Dtype("i1")),
    ],
)
def test_dtypes_as_constexprs(scale, written, value):
    (specialization,) = scale(SIZE=256, MODE="", DTYPE=written)
    assert dict(specialization.constexprs)["DTYPE"] == value


def test_a_string_that_the_kernel_compares_stays_a_string(scale):
    (specialization,) = scale(SIZE=256, MODE="half", DTYPE="half")
    assert (dict(specialization.constexprs)["MODE"], dict(specialization.constexprs)["DTYPE"]) == (
        "half",
        Dtype("fp16"),
    )


# ----------------------------------------------------------------------------------------------------------------- bind


def test_a_config_brings_its_constexprs_and_heuristics_see_them(bound):
    values = [dict(bound(config).constexprs) for config in (0, 1)]
    assert [v["BLOCK"] for v in values] == [64, 128]
    assert [v["WIDE"] for v in values] == [False, True]  # num_warps is 2 and 4, and EVEN was computed before
    assert values[0]["EVEN"] is True
    assert values[0]["ROUND"] is False


def test_heuristics_follow_what_the_config_makes_of_a_size(bound):
    assert [dict(bound(config, SIZE=192).constexprs)["EVEN"] for config in (0, 1)] == [True, False]


def test_a_pointer_is_not_none_and_none_is(bound):
    assert dict(bound().constexprs)["HAS_BIAS"] is True
    without = bound(bias="None")
    assert dict(without.constexprs)["HAS_BIAS"] is False
    assert dict(without.constexprs)["bias"] is None


def test_what_the_user_gives_goes_before_the_heuristic(bound):
    assert dict(bound(HAS_BIAS=False).constexprs)["HAS_BIAS"] is False


EVEN = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def fill(x, n, step, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK) * step, 1.0, mask=tl.arange(0, BLOCK) < n)
"""


def test_a_heuristic_over_a_runtime_number_sees_a_large_one(read):
    sites, project = read(EVEN)
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answer = bind(sites[0], specialization, sites[0].answers["sm_90"].configs[0], SM_90, project)
    assert dict(answer.constexprs)["EVEN"] is True
    reasons = {a.parameter: a.because for a in specialization.assumptions}
    assert reasons["n"].endswith("; heuristics see 4096")
    assert "heuristics" not in reasons["step"]


def test_a_heuristic_over_something_unknown_says_what_is_missing(read):
    sites, project = read(EVEN.replace('args["n"] %', "len(args) + unheard_of(args) %"))
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answer = bind(sites[0], specialization, sites[0].answers["sm_90"].configs[0], SM_90, project)
    assert answer.reason.startswith("constexpr EVEN has no value; EVEN: its heuristic cannot be evaluated: ")
    assert "give one with --bind EVEN=…" in answer.reason


def test_parameters_named_like_options_get_the_config_s(read):
    sites, project = read(
        """
        @triton.autotune([triton.Config({"BLOCK": 64}, num_warps=8, num_stages=5)], key=[])
        @triton.jit
        def fill(x, BLOCK: tl.constexpr, num_warps: tl.constexpr, num_stages: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 1.0)
        """
    )
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answer = bind(sites[0], specialization, sites[0].answers["sm_90"].configs[0], SM_90, project)
    assert answer.constexprs == (("BLOCK", 64), ("num_warps", 8), ("num_stages", 5))


def test_a_config_may_set_a_plain_argument(read):
    """Triton specialises it like any argument of the launch: 1 becomes a constant, 32 a multiple of 16."""
    sites, project = read(
        """
        @triton.autotune([triton.Config({"split": 1}), triton.Config({"split": 32}), triton.Config({"split": 3})], key=[])
        @triton.jit
        def fill(x, split):
            tl.store(x + tl.program_id(0) // split, 1.0)
        """
    )
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answers = [bind(sites[0], specialization, c, SM_90, project) for c in sites[0].answers["sm_90"].configs]
    assert [dict(a.signature)["split"] for a in answers] == ["constexpr", "i32", "i32"]
    assert ["split" in a.divisible_by_16 for a in answers] == [False, True, False]
    assert answers[0].constexprs == (("split", 1),)


def test_descriptors_have_the_block_shape_that_a_hook_sets(read):
    """The first offset says nothing of the shape, and the second one is a sum."""
    sites, project = read(
        """
        def set_shapes(nargs):
            rows = nargs["BLOCK_M"]
            nargs["x_desc"].block_shape = [1, nargs["BLOCK_M"], BLOCK_K]  # one page at a time
            nargs["y_desc"].block_shape = [rows, 64]

        def another(nargs):
            nargs["x_desc"].block_shape = [2, 2, 2]

        @triton.autotune([triton.Config({"BLOCK_M": 128, "BLOCK_K": 64}, pre_hook=set_shapes)], key=[])
        @triton.jit
        def kernel(x_desc, y_desc, n, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
            x = x_desc.load([n, n + BLOCK_M, 0])
            y_desc.store([n * BLOCK_M, 0], x)
        """
    )
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answer = bind(sites[0], specialization, sites[0].answers["sm_90"].configs[0], SM_90, project)
    types = dict(answer.signature)
    assert (types["x_desc"], types["y_desc"]) == ("tensordesc<fp16[1, 128, 64]>", "tensordesc<fp16[128, 64]>")
    reasons = {a.parameter: a.because for a in specialization.assumptions}
    assert reasons["x_desc"].endswith("; its block shape is what the configs' pre_hook sets")


def test_descriptors_get_the_block_shape_of_the_config(read):
    sites, project = read(
        """
        @triton.autotune([triton.Config({"BM": 128, "BK": 64}), triton.Config({"BM": 64, "BK": 32})], key=[])
        @triton.jit
        def copy(x_desc, BM: tl.constexpr, BK: tl.constexpr):
            x = x_desc.load([tl.program_id(0) * BM, tl.program_id(1) * BK])
            x_desc.store([tl.program_id(0) * BM, tl.program_id(1) * BK], x)
        """
    )
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answers = [bind(sites[0], specialization, c, SM_90, project) for c in sites[0].answers["sm_90"].configs]
    assert [dict(a.signature)["x_desc"] for a in answers] == ["tensordesc<fp16[128, 64]>", "tensordesc<fp16[64, 32]>"]


def test_a_descriptor_of_unknown_shape_is_asked_for(read):
    sites, project = read(
        """
        @triton.autotune([triton.Config({})], key=[])
        @triton.jit
        def copy(x_desc, i):
            x_desc.store([i, 0], x_desc.load([i, 0]))
        """
    )
    (specialization,) = specialize(sites[0], project, Settings(), ())
    answer = bind(sites[0], specialization, Config(), SM_90, project)
    assert answer.reason == (
        "the block shape of the tensor descriptor x_desc is not known; give its type, such as "
        "--bind x_desc='tensordesc<fp16[128, 64]>'"
    )
    given = Settings(bind=(ParameterValues("x_desc", ("tensordesc<fp32[16, 16]>",)),))
    (specialization,) = specialize(sites[0], project, given, ())
    assert isinstance(bind(sites[0], specialization, Config(), SM_90, project), Specialization)


def test_a_recorded_launch_is_bound_to_other_configs(read, tmp_path):
    """Its heuristics are computed anew where they can be; the recorded value stands where they cannot."""
    from smemcheck.specialize.recorded import read_recorded

    sites, project = read(
        """
        @triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=[])
        @triton.heuristics({
            "SPLIT": lambda args: args["BLOCK"] // 64,
            "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
        })
        @triton.jit
        def fill(x, n, BLOCK: tl.constexpr, SPLIT: tl.constexpr, EVEN: tl.constexpr):
            tl.store(x + tl.arange(0, BLOCK), 1.0, mask=tl.arange(0, BLOCK) < n)
        """
    )
    seen = tmp_path / "seen.jsonl"
    seen.write_text(
        '{"kernel": "fill", "path": "kernels.py", "signature": {"x": "*fp32", "n": "i32", "BLOCK": "constexpr", '
        '"SPLIT": "constexpr", "EVEN": "constexpr"}, "constexprs": {"BLOCK": 128, "SPLIT": 2, "EVEN": true}}\n'
    )
    (specialization,) = specialize(sites[0], project, Settings(), [read_recorded(str(seen))])
    answers = [
        dict(bind(sites[0], specialization, c, SM_90, project).constexprs) for c in sites[0].answers["sm_90"].configs
    ]
    assert answers == [{"BLOCK": 64, "SPLIT": 1, "EVEN": True}, {"BLOCK": 256, "SPLIT": 4, "EVEN": True}]
