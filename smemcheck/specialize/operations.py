"""What Triton's own functions say about their arguments, and the type of what they return.

A table from name to function; a name that it lacks says nothing. Facts are from triton/language (core.py, math.py,
semantic.py, standard.py) of 3.4 to 3.9.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from smemcheck.specialize import memory
from smemcheck.specialize.abstract import (
    ANY_RANK,
    BOOLEAN,
    INTEGER,
    INTEGERS,
    PYTHON_FLOAT,
    UNKNOWN,
    Abstract,
    Element,
    Form,
    Own,
    join,
    promoted,
    rank_of,
    tensor_of,
    tuple_of,
)
from smemcheck.specialize.call import Call, Operation
from smemcheck.specialize.dtypes import is_float
from smemcheck.specialize.evidence import FAIR, STRONG, WEAK, Claim

_FLOAT32_MATH = ("exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "sqrt_rn", "rsqrt", "erf", "floor", "ceil", "sigmoid",
                 "softmax", "div_rn")  # fmt: skip
_SHAPES = ("trans", "permute", "reshape", "view", "broadcast_to", "expand_dims", "ravel", "flip", "sort", "gather", "topk",
           "multiple_of", "max_contiguous", "max_constancy", "squeeze", "unsqueeze", "cumsum", "cumprod",
           "abs", "to_tensor", "associative_scan", "item")  # fmt: skip


def function(call: Call, path: str) -> Abstract:
    """The result of calling something of Triton's or Python's by its dotted path."""
    name = path.rpartition(".")[2]
    if path.startswith("builtins."):
        operation = _BUILTINS.get(name)
    elif ".libdevice." in path or path.startswith("triton.language.extra"):
        operation = _libdevice
    else:
        operation = _FUNCTIONS.get(name)
    return operation(call) if operation is not None else UNKNOWN


def method(call: Call, owner: Abstract, name: str) -> Abstract:
    """The result of calling a method of a value in a kernel."""
    operation = memory.DESCRIPTOR_METHODS.get(name)
    call.arguments.insert(0, owner)
    if operation is not None and (owner.form is Form.DESCRIPTOR or _is_parameter(owner)):
        return operation(call)
    operation = METHODS.get(name) or _FUNCTIONS.get(name)
    return operation(call) if operation is not None else UNKNOWN


def _is_parameter(value: Abstract) -> bool:
    return value.form is Form.VALUE and all(isinstance(atom, Own) for atom in value.atoms) and bool(value.bases)


# ----------------------------------------------------------------------------------------------------------- arithmetic


def _first(call: Call) -> Abstract:
    value = call.argument(0, "input", "x", "arg", "src")
    return Abstract(value.atoms, value.bases, value.multiples, value.elements, value.form, value.payload, value.rank)


def _float32_math(call: Call) -> Abstract:
    value = call.argument(0, "x")
    call.reader.note_exact(value, "fp32", STRONG, "an argument of a function that takes fp32 or fp64", call.node)
    call.reader.note(value, Claim.FLOAT, STRONG, "an argument of a function of floats", call.node)
    return Abstract(frozenset({"fp32"}), rank=value.rank)


def _libdevice(call: Call) -> Abstract:
    for value in call.arguments:
        call.reader.note(value, Claim.FLOAT, FAIR, "an argument of a function of floats", call.node)
    return Abstract(frozenset({"fp32"}), rank=rank_of(call.arguments))


def _promote(call: Call) -> Abstract:
    left, right = call.argument(0, "x", "a"), call.argument(1, "y", "b")
    call.reader.compare(left, right, call.node)
    multiples = left.multiples & right.multiples
    return Abstract(promoted((left, right)), multiples=multiples, rank=rank_of((left, right)))


def _minimum_or_reduction(call: Call) -> Abstract:
    if call.has(1, "axis") and len(call.arguments) > 1 and call.arguments[1].payload is None:
        return _promote(call)
    value = call.argument(0, "input", "x")
    if "return_indices" in call.keywords:
        return tuple_of((value, INTEGERS))
    return Abstract(value.atoms, rank=_reduced(call, value))


def _reduced(call: Call, value: Abstract) -> int:
    if not call.has(1, "axis"):
        return 0
    return value.rank - 1 if value.rank > 0 and "keep_dims" not in call.keywords else ANY_RANK


def _sum(call: Call) -> Abstract:
    value = call.argument(0, "input")
    return Abstract(value.atoms, rank=_reduced(call, value))


def _reduce(call: Call) -> Abstract:
    value = call.argument(0, "input")
    if value.elements is not None:
        return tuple_of(Abstract(one.atoms, rank=_reduced(call, one)) for one in value.elements)
    return Abstract(value.atoms, rank=_reduced(call, value))


def _builtin_minimum(call: Call) -> Abstract:
    values = call.arguments
    for left, right in itertools.pairwise(values):
        call.reader.compare(left, right, call.node)
    return Abstract(promoted(values), rank=rank_of(values)) if values else UNKNOWN


def _where(call: Call) -> Abstract:
    condition, left, right = call.argument(0, "condition"), call.argument(1, "x"), call.argument(2, "y")
    call.reader.truth(condition, call.node)
    if not (left.bases and right.bases):
        call.reader.compare(left, right, call.node)
    joined = join((left, right))
    return Abstract(promoted((left, right)), joined.bases, joined.multiples, rank=rank_of((condition, left, right)))


def _fma(call: Call) -> Abstract:
    values = call.arguments
    return Abstract(promoted(values), rank=rank_of(values))


def _clamp(call: Call) -> Abstract:
    value = call.argument(0, "x")
    call.reader.note(value, Claim.FLOAT, FAIR, "an argument of tl.clamp", call.node)
    return Abstract(value.atoms, rank=value.rank)


def _dot(call: Call) -> Abstract:
    left, right = call.argument(0, "input", "lhs", "a"), call.argument(1, "other", "rhs", "b")
    accumulator = call.argument(2, "acc")
    out = call.keywords.get("out_dtype")
    accumulator = accumulator if accumulator is not UNKNOWN else call.beside
    integers = accumulator.atoms == frozenset({"i32"}) or (out is not None and "i32" in out.atoms)
    for value, other in ((left, right), (right, left)):
        if integers:
            call.reader.note_exact(value, "i8", FAIR, "an operand of tl.dot with an integer accumulator", call.node)
        else:
            call.reader.note(value, Claim.FLOAT, FAIR, "an operand of tl.dot", call.node)
        if other.atoms == frozenset({"fp32"}):
            call.reader.note_exact(value, "fp32", STRONG, "an operand of tl.dot beside one of fp32", call.node)
    call.reader.note_same(left, right, STRONG, "operands of one tl.dot", call.node, exact=True)
    return tensor_of("i32" if integers else "fp32", 2)


def _dot_scaled(call: Call) -> Abstract:
    for index, name in ((1, "lhs_scale"), (4, "rhs_scale")):
        call.reader.note_exact(call.argument(index, name), "u8", FAIR, "a scale of tl.dot_scaled", call.node)
    return tensor_of("fp32", 2)


def _cast(call: Call) -> Abstract:
    value, dtype = call.argument(0, "input"), call.argument(1, "dtype")
    reader, node = call.reader, call.node
    if dtype.payload == "pointer":
        reader.note(value, Claim.POINTER, FAIR, "cast to a pointer", node)
        raw = value.bases and not any(isinstance(atom, Element) for atom in value.atoms)
        return Abstract(bases=value.bases if raw else frozenset(), rank=value.rank)
    known = {atom for atom in dtype.atoms if isinstance(atom, str)}
    if known:
        target = known.pop()
        if is_float(target):
            reader.note(value, Claim.FLOAT, WEAK, f"cast to {target}", node)
        elif target == "u1":
            reader.note(value, Claim.BOOLEAN, WEAK, "cast to a boolean", node)
        else:
            reader.note(value, Claim.INTEGER, FAIR, f"cast to {target}", node)
    if dtype.constexpr:
        reader.uses.dtypes.add(dtype.constexpr)
    bases = frozenset() if any(isinstance(atom, str) and is_float(atom) for atom in dtype.atoms) else value.bases
    return Abstract(dtype.atoms, bases, value.multiples, rank=value.rank)


# ---------------------------------------------------------------------------------------------------------- constructors


def _always(value: Abstract) -> Operation:
    return lambda _: value


def _dtype_of(call: Call, index: int) -> Abstract:
    dtype = call.argument(index, "dtype")
    if dtype.constexpr:
        call.reader.uses.dtypes.add(dtype.constexpr)
    return Abstract(dtype.atoms, rank=memory.length(call.argument(0, "shape")))


def _zeros(call: Call) -> Abstract:
    return _dtype_of(call, 1)


def _full(call: Call) -> Abstract:
    return _dtype_of(call, 2)


def _like(call: Call) -> Abstract:
    return Abstract(call.argument(0, "input").atoms, rank=call.argument(0, "input").rank)


def _integers(call: Call) -> Abstract:
    for value in call.arguments:
        call.reader.note(value, Claim.INTEGER, STRONG, "an argument of an integer function", call.node)
    atoms = promoted(call.arguments)
    return Abstract(atoms or INTEGER.atoms, rank=rank_of(call.arguments))


def _range(call: Call) -> Abstract:
    for value in call.arguments:
        call.reader.note(value, Claim.INTEGER, STRONG, "a bound of a loop", call.node)
    return _loop_variable(call.arguments)


def _loop_variable(bounds: Sequence[Abstract]) -> Abstract:
    """The variable of a loop over ``range(…)``: an integer; a multiple of the step, as tiled loops start on a tile."""
    multiples = bounds[2].multiples if len(bounds) > 2 else frozenset()
    wide = any("i64" in bound.atoms for bound in bounds)
    return Abstract(frozenset({"i64"}) if wide else INTEGER.atoms, multiples=multiples)


def _join(call: Call) -> Abstract:
    values = call.arguments
    return Abstract(promoted(values), rank=ANY_RANK)


def _split(call: Call) -> Abstract:
    value = call.argument(0, "a")
    return tuple_of((value, value))


def _constexpr(call: Call) -> Abstract:
    return call.argument(0, "value")


def _inline_assembly(call: Call) -> Abstract:
    dtype = call.argument(3, "dtype")
    if dtype.elements is not None:
        return tuple_of(Abstract(one.atoms, rank=ANY_RANK) for one in dtype.elements)
    return Abstract(dtype.atoms, rank=ANY_RANK)


_FUNCTIONS: dict[str, Operation] = {
    **memory.FUNCTIONS,
    **dict.fromkeys(_FLOAT32_MATH, _float32_math),
    **dict.fromkeys(_SHAPES, _first),
    "maximum": _promote, "minimum": _promote, "fdiv": _promote,
    "max": _minimum_or_reduction, "min": _minimum_or_reduction,
    "sum": _sum, "xor_sum": _sum, "reduce": _reduce, "reduce_or": _sum,
    "argmax": _always(INTEGERS), "argmin": _always(INTEGERS), "histogram": _always(INTEGERS),
    "where": _where,
    "fma": _fma,
    "clamp": _clamp,
    "dot": _dot,
    "dot_scaled": _dot_scaled,
    "cast": _cast,
    "zeros": _zeros, "full": _full, "zeros_like": _like,
    "arange": _always(INTEGERS),
    "program_id": _always(INTEGER), "num_programs": _always(INTEGER),
    "cdiv": _integers, "swizzle2d": _integers, "umulhi": _integers,
    "range": _range, "static_range": _range,
    "join": _join, "cat": _join, "interleave": _join,
    "split": _split,
    "assume": _always(UNKNOWN),
    "pointer_type": _always(Abstract(form=Form.DTYPE, payload="pointer")),
    "constexpr": _constexpr,
    "inline_asm_elementwise": _inline_assembly,
    "next_power_of_2": _integers,
}  # fmt: skip

_BUILTINS: dict[str, Operation] = {
    "min": _builtin_minimum,
    "max": _builtin_minimum,
    "range": _range,
    "float": _always(PYTHON_FLOAT),
    "int": _always(INTEGER),
    "len": _always(INTEGER),
    "abs": _first,
    "isinstance": _always(BOOLEAN),
}

METHODS: dict[str, Operation] = {"to": _cast, "cast": _cast}
"""Methods of tensors that are no function of ``tl`` under the same name."""
