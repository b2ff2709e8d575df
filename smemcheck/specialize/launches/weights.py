"""Example weights: the layers and quantised tensors that libraries of low-precision layers are given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from smemcheck.source.scan import places
from smemcheck.source.values import External, Instance
from smemcheck.specialize.launches.around import PACKED_DTYPES
from smemcheck.specialize.launches.tensors import Geometry, Sizes, tensor
from smemcheck.specialize.launches.torch_modules import layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smemcheck.specialize.launches.engine import ExampleInterpreter

_QUANTIZED = re.compile(
    r"(?i)^(w_?q|q_?w|q_?weights?|\w*qweights?|\w*_packed|packed_?\w*|quantized_?\w*|\w*_quantized|\w*_quant_weights?)$"
)
_WEIGHT = re.compile(r"(?i)^(w|weights?)$")
_SCALES = re.compile(r"(?i)^(\w+_)?q?(scales?|zeros?|zero_?points?)$")
_LAYER = re.compile(r"(?i)^(\w+_)?(linear(_?layer)?|layer)$")
_WEIGHT_OF = re.compile(r"\.(?:q?weight|weight_packed|W_q)\b")
_PACKED_ATTRIBUTE = re.compile(r"(?i)packed|qweight|w_?q$")


def is_layer(name: str, annotation: str, text: str) -> bool:
    """Whether a parameter is something with weights: by what a function's text reads of it, else by its name."""
    if any(_WEIGHT_OF.match(text, at + len(name)) and text[at - 1 : at] != "." for at in places(name, text)):
        return True
    return _LAYER.match(name) is not None and (not annotation or "Module" in annotation)


def is_weight(name: str) -> bool:
    """Whether a tensor of this name is the weight of a layer, plain or quantised."""
    return _WEIGHT.match(name) is not None or _QUANTIZED.match(name) is not None


def is_scale(name: str) -> bool:
    """Whether a tensor of this name belongs to quantised weights: one value for each group of them."""
    return _SCALES.match(name) is not None


def is_packed(name: str) -> bool:
    """Whether the name of a tensor says that it holds quantised values."""
    return _QUANTIZED.match(name) is not None


def layer_tensors(name: str, text: str) -> tuple[str, ...]:
    """The tensors besides weight and bias that a function's text reads of a layer."""
    read = re.findall(rf"(?<![\w.]){re.escape(name)}\.(\w+)\b(?!\()", text)
    return tuple(dict.fromkeys(one for one in read if is_scale(one) or _PACKED_ATTRIBUTE.search(one)))


def weight_sizes(sizes: Sizes) -> list[int]:
    """The sizes of an example layer's weight: outputs and inputs."""
    return [2 * sizes.features, sizes.features]


def scale_sizes(sizes: Sizes, group: int) -> list[int]:
    """The sizes of the scales of that weight, one for each ``group`` of its values."""
    outputs, inputs = weight_sizes(sizes)
    return [outputs, max(inputs // group, 1)]


def example_layer(interpreter: ExampleInterpreter, name: str, has_bias: bool) -> Instance:
    """A linear layer with weights of the caller's dtype."""
    sizes = interpreter.plan.sizes
    dtype = interpreter.callers_dtype("float", name)
    weight = tensor(dtype, Geometry(sizes, weight_sizes(sizes)), assumed=True, name="weight")
    bias = tensor(dtype, Geometry(sizes, weight_sizes(sizes)[:1]), assumed=True, name="bias") if has_bias else None
    return layer(weight, bias)


def complete(
    made: Instance,
    interpreter: ExampleInterpreter,
    tensors: Sequence[str],
    group: int,
    choose: Callable[[str, tuple[str, ...]], str],
) -> None:
    """Give a layer those of these tensors that it has not, with a scale for each ``group`` of weights. ``choose`` picks the dtype of quantised ones."""
    sizes = interpreter.plan.sizes
    for name in tensors:
        if name in made.attributes:
            continue
        if is_scale(name):
            side = interpreter.callers_dtype("side", name)
            made.attributes[name] = tensor(side, Geometry(sizes, scale_sizes(sizes, group)), assumed=True, name=name)
        else:
            packed = External(f"torch.{choose('packed', PACKED_DTYPES[:2])}")
            made.attributes[name] = tensor(packed, Geometry(sizes, weight_sizes(sizes)), name=name)
