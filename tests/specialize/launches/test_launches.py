"""What the code that launches a kernel says of its arguments: a small module, and the specialisations that follow."""

from __future__ import annotations

import pytest
from reading import specializations, types_of

from smemcheck.config import ParameterValues, Settings
from smemcheck.model import Dtype, SiteKind
from smemcheck.rules.devices import resolve_target
from smemcheck.specialize import bind, configured, launch_sites, specialize
from smemcheck.specialize.launches import sites

SM_90 = resolve_target("sm_90")

ATTENTION = """
@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["T"])
@triton.jit
def kernel(q, k, bias, out, stride_t, stride_d, T, scale, D: tl.constexpr, BLOCK_D: tl.constexpr, HAS_BIAS: tl.constexpr,
           CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK_D)
    x = tl.load(q + i * stride_d) * scale
    if HAS_BIAS:
        x += tl.load(bias + i)
    if CAUSAL:
        x += tl.load(k + i)
    tl.store(out + i, x)

def attention(q, k, bias=None, causal: bool = True):
    B, H, T, D = q.shape
    out = torch.empty_like(q)
    kernel[(B * H,)](q, k, bias, out, q.stride(2), q.stride(3), T, D ** -0.5,
                     D=D, BLOCK_D=triton.next_power_of_2(D), HAS_BIAS=bias is not None, CAUSAL=causal)
    return out
"""


def test_the_plain_call_comes_first(read):
    first = types_of(specializations(read, ATTENTION)[0])
    assert first == {
        "q": "*fp16",
        "k": "*fp16",
        "bias": None,
        "out": "*fp16",
        "stride_t": "i32",
        "stride_d": 1,
        "T": "i32",
        "scale": "fp32",
        "D": 64,
        "BLOCK_D": 64,
        "HAS_BIAS": False,
        "CAUSAL": True,
        "BLOCK": None,
    }


def test_flags_and_optional_tensors_move_together_with_what_follows_from_them(read):
    seen = {(s["bias"], s["HAS_BIAS"], s["CAUSAL"]) for s in map(types_of, specializations(read, ATTENTION))}
    assert ("*fp16", True, True) in seen
    assert (None, False, False) in seen
    assert all((bias is not None) == has for bias, has, _ in seen)


def test_sizes_are_swept_in_lockstep(read):
    sizes = {(s["D"], s["BLOCK_D"]) for s in map(types_of, specializations(read, ATTENTION))}
    assert sizes == {(64, 64), (128, 128), (32, 32), (256, 256)}


def test_each_kind_of_launch_shows_another_size(read):
    few = [types_of(s) for s in specializations(read, ATTENTION, cap=4)]
    assert len({s["D"] for s in few}) == 4
    assert len({(s["q"], s["HAS_BIAS"], s["CAUSAL"]) for s in few}) == 4


def test_each_class_is_tried_in_16_and_32_bits(read):
    assert {(s["q"], s["out"]) for s in map(types_of, specializations(read, ATTENTION))} == {
        ("*fp16", "*fp16"),
        ("*fp32", "*fp32"),
    }


def test_the_cap_keeps_the_plainest(read):
    every = specializations(read, ATTENTION)
    assert specializations(read, ATTENTION, cap=3) == every[:3]


def test_what_the_user_binds_stands_over_the_launch(read):
    bound = specializations(read, ATTENTION, bind=(ParameterValues("D", (32,)),))
    assert {s["D"] for s in map(types_of, bound)} == {32}


def test_a_comment_at_the_kernel_stands_over_the_launch_and_bind_over_the_comment(read):
    text = ATTENTION.replace(
        "def kernel(q, k, bias, out,", "def kernel(q, k, bias, out,  # smemcheck: D=32, q=*bf16\n          "
    )
    said = [types_of(s) for s in specializations(read, text)]
    assert {(s["D"], s["q"]) for s in said} == {(32, "*bf16")}
    bound = specializations(read, text, bind=(ParameterValues("D", (16,)),))
    assert {(s["D"], s["q"]) for s in map(types_of, bound)} == {(16, "*bf16")}


def test_what_the_cap_leaves_out_is_counted(read):
    every = len(specializations(read, ATTENTION))
    first = specializations(read, ATTENTION, cap=3)[0]
    left = next(a for a in first.assumptions if a.parameter == "*")
    assert (left.value, left.because) == (
        f"{every - 3} of {every} ways to launch it left out",
        "max-specializations is 3",
    )


def test_each_assumption_says_which_launch_it_rests_on(read):
    first = specializations(read, ATTENTION)[0]
    reasons = {a.parameter: a for a in first.assumptions}
    assert reasons["out"].because == "a tensor whose dtype is the caller's choice in an example launch from attention()"
    assert reasons["D"].position.line == 21


def test_a_value_that_the_code_does_not_tell_is_left_to_the_kernel(read):
    text = ATTENTION.replace("def attention(q", "import elsewhere\n\ndef attention(q").replace(
        "D ** -0.5", "elsewhere.scale()"
    )
    assert {s["scale"] for s in map(types_of, specializations(read, text))} == {"fp32"}


AUTOGRAD = """
@triton.autotune([triton.Config({"BLOCK": 64})], key=["N"])
@triton.jit
def backward_kernel(x, dy, dx, rstd, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(dx + i, tl.load(dy + i) * tl.load(x + i) * tl.load(rstd))

class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rstd = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, rstd)
        ctx.size = x.shape[-1]
        return x

    @staticmethod
    def backward(ctx, dy):
        x, rstd = ctx.saved_tensors
        dx = torch.empty_like(dy)
        backward_kernel[(1,)](x, dy, dx, rstd, N=ctx.size)
        return dx

def norm(x: torch.Tensor):
    return Norm.apply(x)
"""


def test_a_backward_pass_sees_what_forward_saved(read):
    first = types_of(specializations(read, AUTOGRAD)[0])
    assert first == {"x": "*fp16", "dy": "*fp16", "dx": "*fp16", "rstd": "*fp32", "N": 64, "BLOCK": None}


def test_an_asserted_dtype_is_followed(read):
    text = AUTOGRAD.replace("def forward(ctx, x):", "def forward(ctx, x):\n        assert x.dtype == torch.float32")
    assert {s["x"] for s in map(types_of, specializations(read, text))} == {"*fp32"}


DTYPES = """
DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}

@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.heuristics({"HAS_SCALE": lambda args: args["scale"] is not None})
@triton.jit
def cast(x, y, scale, MODE: tl.constexpr, DTYPE: tl.constexpr, HAS_SCALE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i).to(DTYPE)
    if HAS_SCALE:
        v = v * scale
    tl.store(y + i, v)

def run(x, scale: float | None = None, mode: str = "plain"):
    if mode not in ("plain", "fast"):
        raise ValueError(mode)
    cast[(1,)](x.t(), x.float(), scale, MODE=mode, DTYPE=DTYPES[x.dtype])
"""


def test_dtypes_go_through_tables_and_texts_through_their_checks(read):
    seen = {(s["x"], s["y"], s["DTYPE"], s["MODE"]) for s in map(types_of, specializations(read, DTYPES))}
    assert ("*fp16", "*fp32", Dtype("fp16"), "plain") in seen
    assert ("*fp16", "*fp32", Dtype("fp16"), "fast") in seen
    assert ("*fp32", "*fp32", Dtype("fp32"), "plain") in seen


def test_heuristics_see_the_numbers_of_the_launch(read):
    (site,), project = read(DTYPES)
    bound = [
        bind(site, specialization, site.answers["sm_90"].configs[0], SM_90, project)
        for specialization in specialize(site, project, Settings(max_specializations=64), ())
    ]
    assert {(s["scale"], s["HAS_SCALE"]) for s in map(types_of, bound)} >= {(None, False), ("fp32", True)}


FIXED = """
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def helper(x):
    return x + 1

def run(x: torch.Tensor):
    y = torch.empty_like(x)
    scale[(4,)](x, y, x.numel(), BLOCK=1024, num_warps=8, num_stages=2)
"""


@pytest.fixture
def fixed(read, tmp_path):
    _, project = read(FIXED)
    (site,) = launch_sites(project, [str(tmp_path)], [SM_90], Settings(), ())
    return site, project


def test_a_launch_without_an_autotuner_is_a_site_with_the_launch_s_options(fixed):
    site, _ = fixed
    assert (site.kernel_name, site.kind) == ("scale", SiteKind.LAUNCH)
    (config,) = site.answers["sm_90"].configs
    assert (config.num_warps, config.num_stages) == (8, 2)


def test_its_specialisations_carry_their_config(fixed):
    site, project = fixed
    first = specialize(site, project, Settings(), ())[0]
    assert (first.config.num_warps, dict(first.constexprs)["BLOCK"]) == (8, 1024)
    assert types_of(first)["y"] == "*fp16"


def test_a_defect_of_ours_costs_one_kernel(read, tmp_path, monkeypatch):
    _, project = read(FIXED + FIXED.replace("scale", "other"))
    find = sites.launches_by_target

    def broken(project, root, settings, path, name, line):
        if name == "scale":
            raise ZeroDivisionError("division by zero")
        return find(project, root, settings, path, name, line)

    monkeypatch.setattr(sites, "launches_by_target", broken)
    problem, site = launch_sites(project, [str(tmp_path)], [SM_90], Settings(), ())
    assert "internal error of smemcheck (ZeroDivisionError: division by zero)" in problem.message
    assert problem.position.line == 7
    assert site.kernel_name == "other"


FACTORY = """
def make(configs):
    @triton.autotune(configs=[triton.Config(c, num_warps=4) for c in configs], key=["n"])
    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n), mask=i < n)

    return scale

def run(x: torch.Tensor):
    make([{"BLOCK": 64}, {"BLOCK": 256}])[(1,)](x, x.numel())
"""


def test_a_list_of_configs_that_the_launch_gives(read):
    (site,), project = read(FACTORY)
    (known,) = configured(project, Settings(), (site,))
    assert [dict(config.kwargs) for config in known.answers["sm_90"].configs] == [{"BLOCK": 64}, {"BLOCK": 256}]


OTHER_RANK = """
@triton.autotune([triton.Config({})], key=[])
@triton.jit
def kernel(x, out, N):
    tl.store(out, tl.load(x) + N)

def doubled(x):
    joined = torch.cat([x, x], dim=5)[:-4]
    kernel[(1,)](x, joined, x.shape[-1])
"""


def test_an_example_that_does_not_fit_the_code_costs_nothing_else(read):
    """A six-dimensional tensor is asked for, and examples have four dimensions at most."""
    (first, *_) = specializations(read, OTHER_RANK)
    assert types_of(first) == {"x": "*fp16", "out": "*fp16", "N": "i32"}


MODULE = """
@triton.jit
def rms(x, w, eps, D: tl.constexpr):
    i = tl.arange(0, D)
    tl.store(x + i, tl.load(x + i) * tl.load(w + i) + eps)

class RMSNorm(torch.nn.Module):
    def __init__(self, size: int, eps: float = 1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        rms[(1,)](x, self.weight, self.eps, D=x.shape[-1])
        return x
"""


def test_a_module_is_made_before_its_methods_are_called(read, tmp_path):
    _, project = read(MODULE)
    (site,) = launch_sites(project, [str(tmp_path)], [SM_90], Settings(), ())
    first = types_of(specialize(site, project, Settings(), ())[0])
    assert (first["w"], first["eps"], first["D"]) == ("*fp16", "fp32", 64)


SCALAR_TENSOR = """
@triton.autotune([triton.Config({})], key=[])
@triton.jit
def kernel(x, out, alpha, do, N):
    i = tl.arange(0, 64)
    tl.store(out + i, tl.load(x + i) * tl.load(alpha).to(tl.float32) + tl.load(do + i))

def scaled(x, alpha, do):
    kernel[(1,)](x, torch.empty_like(x), alpha, do, x.shape[-1])
"""


def test_what_the_kernel_loads_from_is_a_tensor_whatever_its_name_suggests(read):
    """``alpha`` is mostly a number and ``do`` looks like a flag."""
    first = types_of(specializations(read, SCALAR_TENSOR)[0])
    assert first["alpha"].startswith("*")
    assert first["do"].startswith("*")


DESCRIPTORS = """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    y.store([i, 0], x.load([i, 0]))

def run(x: torch.Tensor):
    n, d = x.shape
    y = torch.empty(n, d, dtype=torch.float32)
    block = [128, d]
    copy[(4,)](TensorDescriptor.from_tensor(x, block), TensorDescriptor(y, y.shape, y.stride(), block), n, BLOCK=128)
"""


def test_a_descriptor_has_the_dtype_of_its_tensor_and_the_block_that_the_launch_gives(read, tmp_path):
    _, project = read(DESCRIPTORS)
    (site,) = launch_sites(project, [str(tmp_path)], [SM_90], Settings(), ())
    first = types_of(specialize(site, project, Settings(), ())[0])
    assert (first["x"], first["y"]) == ("tensordesc<fp16[128, 64]>", "tensordesc<fp32[128, 64]>")


OPERATOR = """
@triton.jit
def scale_kernel(x, dy, dx, factor, D: tl.constexpr):
    i = tl.arange(0, D)
    tl.store(dx + i, tl.load(dy + i) * tl.load(x + i) * factor)

@torch.library.custom_op("ours::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return torch.empty_like(x, dtype=torch.float32)

def _setup(ctx, inputs, output):
    x, ctx.factor = inputs
    ctx.save_for_backward(x)

def _backward(ctx, dy):
    (x,) = ctx.saved_tensors
    dx = torch.empty_like(x)
    scale_kernel[(1,)](x, dy, dx, ctx.factor, D=x.shape[-1])
    return dx, None

REGISTRATION

def run(x: torch.Tensor):
    return scale(x)
"""


@pytest.mark.parametrize(
    "registration",
    [
        "scale.register_autograd(_backward, setup_context=_setup)",
        "torch.library.register_autograd('ours::scale', _backward, setup_context=_setup)",
    ],
)
def test_the_backward_pass_of_a_custom_operator_sees_what_its_context_saved(read, tmp_path, registration):
    text = OPERATOR.replace("REGISTRATION", registration).replace('"ours::scale"', "'ours::scale'")
    _, project = read(text)
    (site,) = launch_sites(project, [str(tmp_path)], [SM_90], Settings(), ())
    first = types_of(specialize(site, project, Settings(), ())[0])
    assert first == {"x": "*fp16", "dy": "*fp32", "dx": "*fp16", "factor": "fp32", "D": 64}
