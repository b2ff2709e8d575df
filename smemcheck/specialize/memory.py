"""What Triton's memory operations say: loads, stores, atomics, block pointers, tensor descriptors."""

from __future__ import annotations

from smemcheck.specialize.abstract import ANY_RANK, PYTHON_FLOAT, UNKNOWN, Abstract, Form, element_of, in_order
from smemcheck.specialize.call import Call, Operation
from smemcheck.specialize.dtypes import is_float
from smemcheck.specialize.evidence import FAIR, STRONG, WEAK, Claim


def _load(call: Call) -> Abstract:
    pointer, other = call.argument(0, "pointer"), call.argument(2, "other")
    call.reader.note_address(pointer, "tl.load", call.node)
    if call.has(1, "mask"):
        call.reader.truth(call.argument(1, "mask"), call.node)
    loaded = element_of(pointer)
    if other.atoms == PYTHON_FLOAT.atoms:
        call.reader.note(loaded, Claim.FLOAT, FAIR, "loaded with a float where the mask is off", call.node)
    elif isinstance(other.payload, int) and other.payload < 0:
        call.reader.note(loaded, Claim.INTEGER, WEAK, "loaded with a negative integer where the mask is off", call.node)
    elif other.atoms:
        call.reader.note_same(loaded, other, WEAK, "loaded, or another value where the mask is off", call.node)
    return Abstract(loaded.atoms, rank=pointer.rank)


def _store(call: Call) -> Abstract:
    pointer, value = call.argument(0, "pointer"), call.argument(1, "value", "val")
    call.reader.note_address(pointer, "tl.store", call.node)
    if call.has(2, "mask"):
        call.reader.truth(call.argument(2, "mask"), call.node)
    _stored(call, element_of(pointer), value, FAIR, "written without a cast")
    return UNKNOWN


def _stored(call: Call, element: Abstract, value: Abstract, weight: int, because: str) -> None:
    """What ``value`` says about the memory it is written to: a store casts, so it may have another type."""
    reader, node = call.reader, call.node
    known = {atom for atom in value.atoms if isinstance(atom, str)}
    if not element.bases and not element.atoms:
        return
    if value.atoms and known == value.atoms:
        if known == {"int"}:
            reader.note(element, Claim.INTEGER, WEAK, f"integers, {because}", node)
        elif known == {"float"}:
            reader.note(element, Claim.FLOAT, weight, f"floats, {because}", node)
        elif known == {"fp32"} and value.rank not in (0, 1):
            # A tile is often cast to 16 bits by the store itself; a row of statistics hardly ever is.
            reader.note(element, Claim.FLOAT, weight, f"fp32, {because}", node)
        elif len(known) == 1:
            known_type = known.pop()
            reader.note_exact(element, known_type, weight, f"{known_type}, {because}", node)
        elif all(is_float(atom) or atom == "float" for atom in known):
            reader.note(element, Claim.FLOAT, weight, f"floats, {because}", node)
        elif not any(is_float(atom) or atom == "float" for atom in known):
            reader.note(element, Claim.INTEGER, weight, f"integers, {because}", node)
        return
    for atom in in_order(value.atoms):
        if not isinstance(atom, str):
            reader.note_same(element, Abstract(frozenset({atom})), WEAK, because, node)


def _atomic(call: Call) -> Abstract:
    pointer, value = call.argument(0, "pointer"), call.argument(1, "val", "value")
    call.reader.note_address(pointer, "an atomic operation", call.node)
    if call.has(2, "mask"):
        call.reader.truth(call.argument(2, "mask"), call.node)
    element = element_of(pointer)
    _stored(call, element, value, FAIR, "combined atomically")
    return Abstract(element.atoms, rank=pointer.rank)


def _integer_atomic(call: Call) -> Abstract:
    loaded = _atomic(call)
    call.reader.note(loaded, Claim.INTEGER, FAIR, "used with an integer atomic operation", call.node)
    return loaded


def _block_pointer(call: Call) -> Abstract:
    base = call.argument(0, "base")
    call.reader.note_address(base, "tl.make_block_ptr", call.node)
    for index, name in ((1, "shape"), (2, "strides"), (3, "offsets")):
        call.reader.note(
            call.argument(index, name), Claim.INTEGER, STRONG, f"in {name} of tl.make_block_ptr", call.node
        )
    shape = call.argument(4, "block_shape")
    return Abstract(base.atoms, base.bases, form=Form.BLOCK_POINTER, rank=length(shape))


def length(shape: Abstract) -> int:
    """The rank of a tensor of this shape."""
    return len(shape.elements) if shape.elements is not None else ANY_RANK


def _advance(call: Call) -> Abstract:
    call.reader.note(call.argument(1, "offsets"), Claim.INTEGER, STRONG, "in offsets of tl.advance", call.node)
    return call.argument(0, "base")


def _make_descriptor(call: Call) -> Abstract:
    base = call.argument(0, "base")
    call.reader.note_address(base, "tl.make_tensor_descriptor", call.node)
    for index, name in ((1, "shape"), (2, "strides")):
        value = call.argument(index, name)
        call.reader.note(value, Claim.INTEGER, STRONG, f"in {name} of tl.make_tensor_descriptor", call.node)
    return Abstract(bases=base.bases, form=Form.DESCRIPTOR)


# ---------------------------------------------------------------------------------------------------------- descriptors


def _descriptor(call: Call, offsets: Abstract) -> Abstract:
    """The element of the descriptor that is accessed; for a parameter also the steps of its offsets."""
    owner = call.arguments[0]
    call.reader.note(offsets, Claim.INTEGER, STRONG, "an offset of a descriptor", call.node)
    if owner.form is not Form.DESCRIPTOR:
        call.reader.note(owner, Claim.DESCRIPTOR, STRONG, "its load or store method is called", call.node)
        if offsets.elements is not None and all(len(one) == 1 for one in owner.bases):
            dimensions = tuple(element.multiples for element in offsets.elements)
            for (parameter,) in sorted(owner.bases):
                call.reader.note_descriptor(parameter, dimensions, call.node)
    return element_of(owner)


def _descriptor_load(call: Call) -> Abstract:
    return _descriptor(call, call.argument(1, "offsets"))


def _descriptor_store(call: Call) -> Abstract:
    element = _descriptor(call, call.argument(1, "offsets"))
    _stored(call, element, call.argument(2, "value"), FAIR, "written without a cast")
    return UNKNOWN


def _descriptor_gather(call: Call) -> Abstract:
    call.reader.note(call.argument(1, "x_offsets"), Claim.INTEGER, STRONG, "an offset of a descriptor", call.node)
    return element_of(call.arguments[0])


FUNCTIONS: dict[str, Operation] = {
    "load": _load,
    "store": _store,
    "atomic_add": _atomic, "atomic_max": _atomic, "atomic_min": _atomic, "atomic_xchg": _atomic,
    "atomic_cas": _integer_atomic, "atomic_and": _integer_atomic, "atomic_or": _integer_atomic,
    "atomic_xor": _integer_atomic,
    "make_block_ptr": _block_pointer,
    "advance": _advance,
    "make_tensor_descriptor": _make_descriptor, "_experimental_make_tensor_descriptor": _make_descriptor,
    "load_tensor_descriptor": _descriptor_load, "store_tensor_descriptor": _descriptor_store,
}  # fmt: skip

DESCRIPTOR_METHODS: dict[str, Operation] = {
    "load": _descriptor_load,
    "store": _descriptor_store,
    "gather": _descriptor_gather,
    "scatter": _descriptor_gather,
    "atomic_add": _descriptor_store, "atomic_max": _descriptor_store, "atomic_min": _descriptor_store,
    "atomic_and": _descriptor_store, "atomic_or": _descriptor_store, "atomic_xor": _descriptor_store,
}  # fmt: skip
