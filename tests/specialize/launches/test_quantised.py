"""Launches of quantised layers: an object that knows the format makes a module, and a call of that picks the kernel."""

from __future__ import annotations

import pytest

from smemcheck.config import Settings
from smemcheck.model import Dtype
from smemcheck.specialize import specialize

LAYERS = """
from enum import Enum

class Kind(Enum):
    HALF = 0
    SINGLE = 1
    WHOLE = 2
    FLOAT8 = 3

TO_TORCH = {0: torch.float16, 1: torch.float32, 2: torch.int8, 3: torch.float8_e4m3fn}
TO_TRITON = {0: tl.float16, 1: tl.float32, 2: tl.int8, 3: tl.float8e4nv}
ACCUMULATOR = {Kind.HALF: Kind.SINGLE, Kind.FLOAT8: Kind.SINGLE, Kind.WHOLE: Kind.SINGLE}

@triton.autotune([triton.Config({"BLOCK": 64})], key=["M"])
@triton.jit
def kernel(a, b, c, scales, scales_a, norm, M, N, K, stride_bk, stride_bn, stride_s, loads, bits: tl.constexpr,
           kind: tl.constexpr, accumulator: tl.constexpr, packed: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(a + i).to(accumulator) * tl.load(b + i * stride_bk).to(accumulator) * tl.load(scales + i * stride_s)
    if kind == tl.int8:
        x *= tl.load(scales_a + i)
    tl.store(c + i, x)

@triton.autotune([triton.Config({"BLOCK": 64})], key=["K"])
@triton.jit
def narrow_kernel(a, b, c, K, BLOCK: tl.constexpr, policy: tl.constexpr = "evict_first"):
    i = tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i) + tl.load(b + i))

def matmul(x, weight, scales, scales_x, bits: int, kind: int, accumulator: int, packed: bool, norm=None):
    M, K = x.shape
    N = weight.shape[1]
    out = torch.empty((M, N), device=x.device, dtype=torch.float16)
    kernel[(M,)](x, weight, out, scales, scales_x, norm, M, N, K, weight.stride(0), weight.stride(1), scales.stride(0),
                 packed, bits=bits, kind=TO_TRITON[kind], accumulator=TO_TRITON[accumulator], packed=packed)
    return out

def matvec(x, weight, scales, scales_x, bits: int, kind: int, accumulator: int, packed: bool, norm=None):
    out = torch.empty((1, weight.shape[1]), device=x.device, dtype=torch.float16)
    narrow_kernel[(1,)](x, weight, out, weight.shape[0])
    return out

class Many:
    run = matmul
    name = "many"

class One:
    run = matvec
    name = "one"

KERNELS = [Many, One]
BY_NAME = {one.name: one for one in KERNELS}

def is_whole(code):
    if type(code) == int:
        return code == Kind.WHOLE.value
    elif type(code) == Kind:
        return code == Kind.WHOLE

@torch.library.custom_op("quantised::forward", mutates_args=())
def forward(x: torch.Tensor, tensors: list[torch.Tensor], codes: list[int]) -> torch.Tensor:
    scales_x, norm = None, 0.0
    if is_whole(codes[1]) and is_whole(Kind(codes[1])):
        scales_x = x.abs().amax(dim=1, keepdim=True).to(torch.float32)
        x = x.to(TO_TORCH[codes[1]])
    limit = 6
    name = "many" if x.shape[0] >= limit else "one"
    return BY_NAME[name].run(x, *tensors, scales_x, *codes, norm=norm)

class Layer(torch.nn.Module):
    def __init__(self, bits=4, in_features=None, out_features=None, kind=Kind.HALF):
        super().__init__()
        self.bits, self.kind, self.accumulator = bits, kind, ACCUMULATOR[kind]
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.empty(0, dtype=torch.uint8))

    def pack(self, weight, scales):
        self._buffers.pop("weight", None)
        self.packed = False
        if weight.dtype == torch.uint8:
            weight = weight.view(self.out_features, self.in_features // 4, 4).sum(dim=-1).to(torch.int32)
            self.packed = True
        self.register_parameter("weight", torch.nn.Parameter(weight.t(), requires_grad=False))
        self.scales = scales.view((self.out_features, -1)).t().contiguous()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = [self.bits, self.kind.value, self.accumulator.value, self.packed]
        return forward(x, [self.weight, self.scales], codes)
"""

EIGHT_BIT = """
class EightBit:
    def __init__(self, kind=Kind.HALF):
        self.kind = kind

    def from_linear(self, linear):
        weight = linear.weight.data
        scales = weight.float().abs().amax(axis=1, keepdim=True) / torch.iinfo(torch.int8).max
        quantised = (weight / scales).round_().clamp_(min=-128).to(torch.int8)
        outputs, inputs = weight.shape
        layer = Layer(8, in_features=inputs, out_features=outputs, kind=self.kind)
        layer.pack(quantised, scales)
        return layer
"""


@pytest.fixture
def launched(read):
    """What each specialisation of ``kernel`` (of another one where it says so) passes, by the parameter's name."""

    def read_all(text, kernel="kernel"):
        sites, project = read(text)
        found = []
        for site in sites:
            if site.kernel_name == kernel:
                for one in specialize(site, project, Settings(max_specializations=64), ()):
                    constants = dict(one.constexprs)
                    kinds = dict(one.signature)
                    found.append({n: constants.get(n) if kind == "constexpr" else kind for n, kind in kinds.items()})
        return found

    return read_all


def test_a_layer_that_an_object_makes_is_called(launched):
    first = launched(LAYERS + EIGHT_BIT)[0]
    assert (first["a"], first["b"], first["scales"]) == ("*fp16", "*i8", "*fp32")
    assert (first["bits"], first["kind"], first["accumulator"]) == (8, Dtype("fp16"), Dtype("fp32"))
    assert first["scales_a"] is None and first["packed"] is False


def test_what_is_transposed_has_its_unit_stride_first_and_one_row_is_contiguous_either_way(launched):
    first = launched(LAYERS + EIGHT_BIT)[0]
    assert (first["stride_bk"], first["stride_bn"]) == (1, "i32")
    assert first["stride_s"] == 1  # of [1, N]


def test_a_subclass_fixes_what_its_base_leaves_open(launched):
    whole = EIGHT_BIT + "\nclass Whole(EightBit):\n    def __init__(self):\n        super().__init__(Kind.WHOLE)\n"
    kinds = {one["kind"]: one for one in launched(LAYERS + whole)}
    assert set(kinds) == {Dtype("fp16"), Dtype("i8")}
    assert (kinds[Dtype("i8")]["a"], kinds[Dtype("i8")]["scales_a"]) == ("*i8", "*fp32")


def test_a_number_written_for_a_pointer_is_passed_as_it_is(launched):
    assert launched(LAYERS + EIGHT_BIT)[0]["norm"] == "fp32"


PACKED = """
class Packed:
    def from_weights(self, W_q, scales, group_size):
        outputs, inputs = W_q.shape
        layer = Layer(4, in_features=inputs, out_features=outputs)
        layer.pack(W_q, scales)
        return layer
"""


def test_quantised_weights_are_whole_numbers_and_their_scales_have_the_dtype_of_the_data(launched):
    found = launched(LAYERS + PACKED)
    packed = [one for one in found if one["packed"]]
    assert {(one["a"], one["b"], one["scales"]) for one in packed} >= {("*fp16", "*i32", "*fp16")}
    assert not any(one["b"] == "*fp16" for one in found)


def test_an_input_of_few_rows_takes_the_other_kernel(launched):
    first = launched(LAYERS + EIGHT_BIT, "narrow_kernel")[0]
    assert (first["a"], first["b"], first["c"]) == ("*fp16", "*i8", "*fp16")


def test_a_default_that_no_config_sets_is_part_of_the_specialisation(launched):
    assert launched(LAYERS + EIGHT_BIT, "narrow_kernel")[0]["policy"] == "evict_first"


def test_what_a_method_asserts_is_given(launched):
    strict = PACKED.replace("group_size):", "group_size, meta=None):\n        assert meta is not None")
    strict = strict.replace("layer.pack(W_q, scales)", "layer.pack(W_q, scales * meta.item())")
    assert any(one["packed"] for one in launched(LAYERS + strict))


def test_how_many_bits_weights_have_is_the_callers_choice(launched):
    bits = PACKED.replace("group_size):", "W_nbits):").replace("Layer(4,", "Layer(W_nbits,")
    assert {one["bits"] for one in launched(LAYERS + bits)} >= {4, 8, 2}


@pytest.mark.parametrize(("said", "groups"), [("group_size=64", 16), ("group_size: int = 32", 32), ("other=64", 8)])
def test_how_many_weights_share_a_scale_is_what_the_file_says(launched, said, groups):
    counted = PACKED.replace("layer.pack(W_q, scales)", "layer.bits = scales.shape[1]\n        layer.pack(W_q, scales)")
    found = launched(LAYERS + counted + f"\ndef patch(model, {said}):\n    return model\n")
    assert {one["bits"] for one in found if one["packed"]} == {groups}


def test_rows_that_are_no_multiple_of_16_come_after_all_types_and_flags(read):
    sites, project = read(LAYERS + EIGHT_BIT)
    (site,) = [site for site in sites if site.kernel_name == "kernel"]
    found = specialize(site, project, Settings(max_specializations=64), ())
    multiples = ["M" in one.divisible_by_16 for one in found]
    assert multiples == sorted(multiples, reverse=True)
    assert {dict(one.launch_values)["M"] for one in found} == {1024, 12}


IN_STEPS = """
class Method:
    def create_weights(self, layer: torch.nn.Module, output_partition_sizes: list[int], params_dtype: torch.dtype):
        outputs = sum(output_partition_sizes)
        layer.register_parameter("weight", torch.nn.Parameter(torch.empty(outputs, 512, dtype=torch.uint8), requires_grad=False))

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        outputs, inputs = layer.weight.shape
        layer.packed = Layer(8, in_features=inputs, out_features=outputs, kind=Kind.HALF)
        layer.packed.pack(layer.weight, layer.weight_scale)
        del layer.weight

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias=None):
        out = layer.packed(x.view(-1, 512))
        return out if bias is None else out + bias
"""


def test_the_methods_of_an_object_work_on_one_layer(launched):
    first = launched(LAYERS + IN_STEPS)[0]
    assert (first["a"], first["b"], first["scales"], first["bits"]) == ("*fp16", "*i32", "*fp16", 8)
