"""The arguments that an example run gives the function it starts from, by what its text says of each parameter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

from smemcheck.source.scan import places
from smemcheck.source.values import Blocked, External, Obstacle, Place, Raised, UserClass, UserFunction
from smemcheck.specialize.launches.around import Around, around, read_around
from smemcheck.specialize.launches.engine import ExampleInterpreter
from smemcheck.specialize.launches.tensors import GUESSED, Geometry, GuessedFloat, GuessedNumber, Sizes, Tensor, tensor
from smemcheck.specialize.launches.weights import (
    complete,
    example_layer,
    is_layer,
    is_packed,
    is_scale,
    is_weight,
    layer_tensors,
    scale_sizes,
    weight_sizes,
)

_TENSOR_USE = re.compile(
    r"\.(shape|stride|size|dtype|device|contiguous|view|reshape|is_contiguous|numel|ndim|dim|transpose|permute|to|new_empty|new_zeros|data_ptr|element_size|item)\b"
)
_INTEGER_NAME = re.compile(
    r"(?i)^(b|t|s|l|m|n|h|d|k|v|g|\w*_?(size|len|length|dim|dims|heads?|num|groups?|chunk\w*|block\w*|bits|rank|steps?|idx|offset|n_\w+|num_\w+|max_\w+|top_?k|window\w*|seqlens?|splits?))$|^(n|num|max|block)_\w+$"
)
_INTEGER_TENSOR = re.compile(
    r"(?i)(cu_?seq\w*|\w*indices|\w*_idx|\w*_ids?|index|\w*offsets?|targets?|labels?|block_tables?|\w*lens|varlen|slot_mapping)$"
)
_LABEL_TENSOR = re.compile(r"(?i)(targets?|labels?|\w*_ids)$")
_WIDE_TENSOR = re.compile(
    r"(?i)^(g|gk|gv|g_?cumsum|h0|ht|dht|dh0|\w*_?h_(init|kk|kv|0)\w*|h_?init|\w*_?states?|a_?log|dt_bias|\w*lse\w*|delta|decay|rstd|rms|mean|var"
    r"|\w*_?scales?)$"
)
_SIDE_TENSOR = re.compile(r"(?i)^(\w*_?(bias|weights?|beta|gamma|gates?|sinks?|lamb(da)?)|w|b|betas|residual|dt|u)$")
_FLOAT_NAME = re.compile(
    r"(?i)(scale|eps|epsilon|alpha|beta|lr|dropout\w*|p|prob|softcap|cap|temperature|factor|softmax_scale|sm_scale|slope|smoothing|weight_decay|momentum)$"
)
_FLAG_NAME = re.compile(
    r"(?i)^(is|has|use|with|return|output|do|causal|needs?|require|inplace|reverse|head_first|safe|normalize|save|store|compute|add|fuse|allow|transpose|enable|training)(_|$)|causal$"
)
_DOCUMENTED = re.compile(
    r"[`*]{0,2}\b(\w+)\b[`*]{0,2}\s*(?:\([^)\n]*\))?\s*:\s*[^\[\n]*(?:\n[^\[\n]*)?\[([A-Za-z][\w+]*(?:\s*,\s*[\w+]+)*)\]"
)

_BITS = re.compile(r"(?i)bits")
_GROUP = re.compile(r"(?i)group_?size")
_HALF = GuessedFloat(0.5)
_OUTPUT_FLAG = re.compile(r"(?i)^(return|output|store|save|write|keep)_")

_NAMED: dict[str, list[str]] = {"activation": ["swish"], "act_type": ["silu", "gelu"]}
"""Texts that callers give for parameters of these names where the code compares them with nothing."""


_AXIS = re.compile(r"(?i)^(dim|axis|\w+_axis)$")
_AXIS_USE = r"\.(?:size|stride|shape|transpose|movedim|unsqueeze|squeeze)\s*[(\[][^()\[\]]*\b%s\b"
_COMPILER_OPTION = re.compile(r"(?i)warps|stages|num_ctas|maxnreg")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the text of a function says of one parameter."""

    annotation: str
    is_tensor: bool
    is_layer: bool  # something with weights
    compared: bool  # with None
    compared_around: bool  # with None, in the same file under the same name
    required: bool  # the function asserts that it is not None
    texts: tuple[str, ...]  # that it is compared with
    packed: tuple[str, ...]  # dtypes that quantised values have in this file, for a tensor of such
    tensors: tuple[str, ...]  # of a layer, besides its weights and bias
    of_weights: bool  # scales or zeros of quantised weights beside it, one of each group
    is_axis: bool  # the number of a dimension
    dimensions: tuple[str, ...] | None  # their names, from its documentation

    def says(self, word: str) -> bool:
        """Whether the annotation has a word."""
        return re.search(rf"\b{word}\b", self.annotation) is not None


def _facts(
    interpreter: ExampleInterpreter, function: UserFunction, parameters: Sequence[cst.Param]
) -> dict[str, _Facts]:
    if function.statement is not None:
        function.statement.enter()
    known = interpreter.hints.parameters.get(id(function.node))
    if known is None or known[0] is not function.node:
        text = function.text()
        documented = {m[1]: tuple(part.strip() for part in m[2].split(",")) for m in _DOCUMENTED.finditer(text)}
        own, whole = read_around(text), around(function.module)
        facts = {p.name.value: _facts_of(p, text, documented, own, whole) for p in parameters}
        if any(map(is_weight, facts)):
            facts = {name: replace(one, of_weights=is_scale(name)) for name, one in facts.items()}
        known = interpreter.hints.parameters[id(function.node)] = (function.node, facts)
    return known[1]


def _facts_of(
    parameter: cst.Param, text: str, documented: dict[str, tuple[str, ...]], own: Around, whole: Around
) -> _Facts:
    name = parameter.name.value
    word = re.escape(name)
    annotation = "" if parameter.annotation is None else cst.Module([]).code_for_node(parameter.annotation.annotation)
    is_tensor = "Tensor" in annotation or (
        not annotation and any(_TENSOR_USE.match(text, at + len(name)) for at in places(name, text))
    )
    layered = not is_tensor and is_layer(name, annotation, text)
    compared = name in own.compared
    required = "assert" in text and bool(re.search(rf"\bassert\s+{word}\s+is\s+not\s+None\b", text))
    texts = own.texts_of(name)
    if not is_tensor and ("str" in annotation or (isinstance(parameter.default, cst.SimpleString))):
        texts = list(dict.fromkeys([*texts, *whole.texts_of(name)]))
    return _Facts(
        annotation,
        is_tensor,
        layered,
        compared,
        compared or name in whole.compared,
        required,
        tuple(texts),
        whole.packed if is_packed(name) else (),
        layer_tensors(name, text) if layered else (),
        False,
        _AXIS.match(name) is not None and re.search(_AXIS_USE % word, text) is not None,
        documented.get(name),
    )


def example_arguments(
    interpreter: ExampleInterpreter, function: UserFunction, skip: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """An example value for each positional parameter, and for those that are keywords only."""
    _, node = function.full()
    positional = [*node.params.posonly_params, *node.params.params]
    facts = _facts(interpreter, function, [*positional, *node.params.kwonly_params])
    values = [_example(interpreter, function, p, facts[p.name.value]) for p in positional[skip:]]
    keywords = {
        p.name.value: _example(interpreter, function, p, facts[p.name.value]) for p in node.params.kwonly_params
    }
    return values, keywords


def _example(interpreter: ExampleInterpreter, function: UserFunction, parameter: cst.Param, facts: _Facts) -> Any:
    case = (interpreter.case or {}).get(function.name, {})
    if parameter.name.value in case:
        return case[parameter.name.value]
    example = _Example(interpreter, function, parameter, facts)
    if parameter.default is not None:
        return example.with_default(function.defaults.get(parameter.name.value))
    return example.without_default()


class _Example:
    """The example value of one parameter. What the caller may choose is a choice of the run."""

    def __init__(
        self, interpreter: ExampleInterpreter, function: UserFunction, parameter: cst.Param, facts: _Facts
    ) -> None:
        self.interpreter = interpreter
        self.function = function
        self.place = Place(function.unit, parameter)
        self.name = parameter.name.value
        self.facts = facts
        statement = None if function.statement is None else function.statement.index
        owner = None if function.owner is None else function.owner.name
        self.key = (function.module.path, statement, owner, function.name, self.name)
        self.sizes = interpreter.plan.sizes
        index = _INTEGER_TENSOR.search(self.name) or "LongTensor" in facts.annotation
        self.optional = "index" if index else "optional"

    def tensor(self) -> Tensor:
        made = self.named(self.name)
        if self.facts.packed:
            made.dtype = External(f"torch.{self.choose_by('packed', self.facts.packed)}")
            made.assumed = False
        if self.facts.of_weights and made.assumed:
            made.dtype = self.interpreter.callers_dtype("side", self.name)
        if self.function.owner is not None and made.geometry.dims is None:
            if is_weight(self.name):
                made.geometry = Geometry(self.sizes, weight_sizes(self.sizes))
            elif self.facts.of_weights:
                made.geometry = Geometry(self.sizes, scale_sizes(self.sizes, self.group))
        return made

    def named(self, name: str) -> Tensor:
        """A tensor of which the name tells the group of its dtype."""
        return _tensor(self.interpreter, name, self.facts.annotation, self.facts.dimensions)

    def choose_by(self, kind: str, alternatives: Sequence[str]) -> str:
        """A further choice about the same parameter."""
        return alternatives[self.interpreter.pick((*self.key, kind), kind, len(alternatives))]

    def layer(self) -> Any:
        """A linear layer, with a bias or without. The methods of an object are all given the same one."""
        known = self.interpreter.layers.get(self.name) if self.function.owner is not None else None
        if known is None or known.attributes.get("weight", True) is None:  # a method may take its weights away
            has_bias = self.choose("optional", (False, True))
            known = self.interpreter.layers[self.name] = example_layer(self.interpreter, self.name, has_bias)
        complete(known, self.interpreter, self.facts.tensors, self.group, self.choose_by)
        return known

    def choose(self, kind: str, alternatives: Sequence[Any], default: int = 0) -> Any:
        """One of the alternatives; those that are functions are called when they are taken."""
        taken = alternatives[self.interpreter.pick(self.key, kind, len(alternatives), default)]
        return taken() if callable(taken) else taken

    def flag(self, default: bool) -> bool:
        kind = "output" if not default and _OUTPUT_FLAG.match(self.name) else "flag"
        return bool(self.choose(kind, (default, not default)))

    def integer(self) -> int:
        """A number by its name; how many bits quantised weights have is the caller's choice."""
        if _BITS.search(self.name) and self.function.owner is not None:
            return int(self.choose("bits", (4, 8, 2)))
        if self.facts.is_axis:
            return -1
        return self.group if _GROUP.search(self.name) else _integer(self.name, self.sizes)

    @property
    def group(self) -> int:
        return around(self.function.module).group

    def float(self) -> Any:
        """A float, or the integer 1 where callers of a scale write that: Triton makes a constant of it."""
        return self.choose("one", (_HALF, 1)) if "scale" in self.name.lower() else _HALF

    def with_default(self, default: Any) -> Any:
        facts, name = self.facts, self.name
        if default is None:
            return self.with_default_none()
        if isinstance(default, bool):
            return self.flag(default)
        if isinstance(default, str):
            return self.choose("text", [default, *(t for t in facts.texts if t != default)])
        if facts.says("Tensor") and isinstance(default, (int, float)):
            return self.choose("form", (default, self.tensor))
        if isinstance(default, float) and default == 1.0 and "scale" in name.lower():
            return self.choose("one", (GuessedFloat(default), 1))
        if isinstance(default, float):
            return GuessedFloat(default)
        return self.without_default() if isinstance(default, Obstacle) else default

    def with_default_none(self) -> Any:
        facts, name, annotation = self.facts, self.name, self.facts.annotation
        if _COMPILER_OPTION.search(name):
            return None
        if not facts.is_tensor and (facts.texts or "str" in annotation):
            return self.choose("text", [None, *(facts.texts or _NAMED.get(name, []))])
        tensor_like = not _FLOAT_NAME.search(name) and not _INTEGER_NAME.match(name)
        if facts.is_tensor or (not annotation and (tensor_like or _INTEGER_TENSOR.search(name))):
            return self.tensor() if facts.required else self.choose(self.optional, (None, self.tensor))
        if "float" in annotation or (_FLOAT_NAME.search(name) and not annotation):
            return self.choose("value", (None, _HALF, 1))
        other: Any = None
        if "bool" in annotation:
            other = True
        elif "int" in annotation or _INTEGER_NAME.match(name):
            other = _integer(name, self.sizes)
        elif "dtype" in annotation:
            other = External("torch.float32")
        return None if other is None else self.choose("value", (None, other))

    def without_default(self) -> Any:
        facts, name, annotation = self.facts, self.name, self.facts.annotation
        if _COMPILER_OPTION.search(name):
            # An invented number of warps or stages would be reported as if somebody launched with it.
            return Obstacle(f"the caller of {self.function.name}() chooses {name}", self.place)
        if facts.is_layer:
            return self.layer()
        if annotation:
            found = self.annotated()
            if found is not _NOTHING:
                return found
        elif facts.compared:
            return self.choose(self.optional, (None, _HALF if _FLOAT_NAME.search(name) else self.tensor))
        if facts.is_tensor or _SIDE_TENSOR.match(name):
            absent = facts.compared_around and not annotation
            return self.choose("absent", (self.tensor, None)) if absent else self.tensor()
        if _INTEGER_TENSOR.search(name) and not annotation:
            return self.choose("index", (None, self.tensor))
        if facts.texts or name in _NAMED:
            return self.choose("text", list(facts.texts) or _NAMED[name])
        if _FLAG_NAME.search(name):
            return self.choose("flag", (True, False))
        if _FLOAT_NAME.search(name):
            return self.float()
        if len(name) > 1 and _INTEGER_NAME.match(name):
            return GuessedNumber(self.integer())
        guessed = self.tensor()
        guessed.attributes[GUESSED] = True
        return guessed

    def annotated(self) -> Any:
        """By the annotation; ``_NOTHING`` when it does not tell."""
        facts, name, annotation = self.facts, self.name, self.facts.annotation
        absent = re.search(r"Optional|None", annotation) is not None
        if "Tensor" in annotation:
            if re.match(r"(?i)(list|tuple|sequence|iterable)\b", annotation):
                return tuple(self.tensor() for _ in range(2))
            if facts.says("int") or facts.says("float"):
                return self.choose("form", (self.tensor, _HALF if facts.says("float") else _integer(name, self.sizes)))
            if absent or facts.compared:
                return self.choose(self.optional, (None, self.tensor), 1)
            return self.choose("absent", (self.tensor, None)) if facts.compared_around else self.tensor()
        if facts.says("dtype"):
            own = self.interpreter.callers_dtype("float", name)
            return self.choose("dtype", (own, External("torch.float32")))
        if facts.says("bool"):
            return self.choose("flag", (True, False))
        if facts.says("float"):
            return self.choose("value", (_HALF, None)) if absent else self.float()
        if facts.says("int"):
            if re.match(r"(?i)(list|tuple|sequence|iterable)\b", annotation):
                return [self.sizes.features]
            return self.choose("value", (self.integer(), None)) if absent else self.integer()
        if facts.says("str") or facts.says("Literal"):
            texts = re.findall(r"['\"](\w+)['\"]", annotation) or list(facts.texts)
            if texts:
                return self.choose("text", [*texts, None] if absent else texts)
            return None if absent else Obstacle("a text of the caller is not known", self.place)
        made = _of_class(self.interpreter, self.function, annotation)
        return _NOTHING if made is None else made


_NOTHING = object()


def _of_class(interpreter: ExampleInterpreter, function: UserFunction, annotation: str) -> Any:
    """An object of a class of the source that an annotation names, as its defaults make it; ``None`` when they do not."""
    if not re.fullmatch(r"[A-Za-z_]\w*", annotation):
        return None
    try:
        cls = interpreter.namespace(function.module).lookup(annotation)
        return interpreter.call(cls, [], {}, function.place) if isinstance(cls, UserClass) else None
    except (KeyError, Raised, Blocked):
        return None


def _integer(name: str, sizes: Sizes) -> int:
    if re.search(r"(?i)chunk|block|^b[tskvmn]$", name):
        return 64
    if _BITS.search(name):
        return 4
    if re.search(r"(?i)top_?k", name):
        return 2
    if _GROUP.search(name):
        return 128
    return int(sizes.of(name, 1, 4))


def _tensor(interpreter: ExampleInterpreter, name: str, annotation: str, names: tuple[str, ...] | None) -> Tensor:
    geometry = Geometry(interpreter.plan.sizes.of_tensor(name))
    if names:
        geometry.settle(len(names), list(names))
    for cls, dtype in (("IntTensor", "int32"), ("BoolTensor", "bool")):
        if cls in annotation:
            return tensor(External(f"torch.{dtype}"), geometry, name=name)
    if _INTEGER_TENSOR.search(name) or "LongTensor" in annotation:
        if geometry.dims is None:
            geometry.settle(1, ["5"])
        group = "label" if _LABEL_TENSOR.search(name) else "index"
    elif _WIDE_TENSOR.match(name):
        group = "wide"
    else:
        group = "side" if _SIDE_TENSOR.match(name) else "float"
    made = tensor(interpreter.callers_dtype(group, name), geometry, assumed=True, name=name)
    made.given = True
    return made
