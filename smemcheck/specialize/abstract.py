"""What is known of a value in a kernel's body: where its type comes from, and which parameters it may point with.

A kernel's parameters carry no types, so a value's type is an equation. ``Own("n")`` is the type of the parameter ``n``,
``Element({("x_ptr", "offset")})`` the element type of whatever the sum of these parameters points to, and a plain string
is a type that the source itself names. A value that several of them flow into holds them all.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from smemcheck.model import AttributeValue, ConstexprValue, Dtype, FunctionValue, NamespaceValue
from smemcheck.specialize.dtypes import canonical_dtype


@dataclass(frozen=True, slots=True)
class Own:
    """The type of a parameter itself."""

    parameter: str


@dataclass(frozen=True, slots=True)
class Element:
    """The element type behind an address. Each alternative is the parameters that were added up to it, in order."""

    bases: frozenset[tuple[str, ...]]


Atom: TypeAlias = "str | Own | Element"
"""One source of a type. ``"int"`` and ``"float"`` are Python numbers, which adapt to the tensor beside them."""


def in_order(atoms: Iterable[Atom]) -> list[Atom]:
    """The atoms in an order of their own: that of a set changes from process to process, and what is said with it."""
    return sorted(atoms, key=_order)


def _order(atom: Atom) -> tuple[int, list[tuple[str, ...]]]:
    if isinstance(atom, Element):
        return 2, sorted(atom.bases)
    return (1, [(atom.parameter,)]) if isinstance(atom, Own) else (0, [(atom,)])


ANY_RANK = -1


class Form(enum.Enum):
    """What kind of thing a value is, as far as it decides what an operation on it means."""

    VALUE = "value"
    BLOCK_POINTER = "block pointer"
    DESCRIPTOR = "descriptor"
    DTYPE = "dtype"
    TEXT = "text"
    FUNCTION = "function"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Abstract:
    """An abstract value.

    ``bases``: the parameters whose own values were added, undiluted, into this one; one alternative a path through the
    code. ``multiples``: constexprs (or numbers) that divide it. ``elements``: a tuple's. ``payload``: a function's path or
    index, a string, a number. ``rank``: of the tensor, 0 for a scalar, ``ANY_RANK`` when only that it is a tensor is known.
    """

    atoms: frozenset[Atom] = frozenset()
    bases: frozenset[tuple[str, ...]] = frozenset()
    multiples: frozenset[str] = frozenset()
    elements: tuple[Abstract, ...] | None = None
    form: Form = Form.VALUE
    payload: Any = None
    rank: int = 0
    constexpr: str | None = None

    @property
    def tensor(self) -> bool:
        """Whether it has a shape, so that it decides promotions with scalars."""
        return self.rank != 0


UNKNOWN = Abstract()
INTEGER = Abstract(frozenset({"i32"}))
INTEGERS = Abstract(frozenset({"i32"}), rank=1)
BOOLEAN = Abstract(frozenset({"u1"}))
PYTHON_INTEGER = Abstract(frozenset({"int"}))
PYTHON_FLOAT = Abstract(frozenset({"float"}))
NONE = Abstract(form=Form.NONE)

_MOST_ALTERNATIVES = 24
_MOST_ADDENDS = 6


def tensor_of(dtype: str, rank: int = ANY_RANK) -> Abstract:
    """A tensor of a dtype that the source names."""
    return Abstract(frozenset({dtype}), rank=rank)


def rank_of(values: Iterable[Abstract]) -> int:
    """The rank that values have once they are broadcast against each other."""
    ranks = [value.rank for value in values]
    return ANY_RANK if ANY_RANK in ranks and max(ranks) < 2 else max(ranks, default=0)


def element_of(address: Abstract) -> Abstract:
    """What a load through ``address`` gives."""
    rank = address.rank if address.form is Form.VALUE else ANY_RANK
    if not address.bases:
        return Abstract(rank=rank)
    return Abstract(frozenset({Element(address.bases)}), rank=rank)


def tuple_of(elements: Iterable[Abstract]) -> Abstract:
    return Abstract(elements=tuple(elements))


def join(values: Iterable[Abstract]) -> Abstract:
    """What is known of a value that is one of these, depending on the path taken."""
    found = [value for value in values if value is not UNKNOWN]
    if not found:
        return UNKNOWN
    first = found[0]
    if all(value == first for value in found):
        return first
    tuples = [value.elements for value in found if value.elements is not None]
    elements = None
    if tuples and all(len(one) == len(tuples[0]) for one in tuples):
        elements = tuple(join(column) for column in zip(*tuples, strict=True))
    forms = {value.form for value in found if value.form is not Form.NONE}
    shared = forms.pop() if len(forms) == 1 else Form.VALUE
    return Abstract(
        atoms=frozenset().union(*(value.atoms for value in found)),
        bases=_bounded(frozenset().union(*(value.bases for value in found))),
        multiples=frozenset.intersection(*(value.multiples for value in found)),
        elements=elements,
        form=shared,
        payload=next((value.payload for value in found if value.form is shared and value.payload is not None), None),
        rank=rank_of(found),
    )


def added_bases(left: Abstract, right: Abstract) -> frozenset[tuple[str, ...]]:
    """The parameters that are addends of ``left + right``."""
    if not left.bases or not right.bases:
        return left.bases or right.bases
    sums = {tuple(dict.fromkeys(one + other)) for one in left.bases for other in right.bases}
    return _bounded(frozenset(one for one in sums if len(one) <= _MOST_ADDENDS) or left.bases)


def _bounded(bases: frozenset[tuple[str, ...]]) -> frozenset[tuple[str, ...]]:
    if len(bases) <= _MOST_ALTERNATIVES:
        return bases
    return frozenset(sorted(bases, key=lambda one: (len(one), one))[:_MOST_ALTERNATIVES])


def promoted(operands: Iterable[Abstract]) -> frozenset[Atom]:
    """The atoms that decide the type of an operation over ``operands`` (semantic.py, ``computation_type_impl``).

    A Python number of the same or a lower kind does not take part, and fp32 wins over whatever else is a float.
    """
    found = list(operands)
    if any(value.atoms == frozenset({"fp32"}) and value.tensor for value in found):
        return frozenset({"fp32"})
    tensors = [value for value in found if value.tensor and value.atoms]
    atoms: frozenset[Atom] = frozenset().union(*(value.atoms for value in found))
    if tensors or any(atom not in ("int", "float") for atom in atoms):
        weak = {"int"} if "float" not in atoms or tensors else {"int", "float"}
        if all("i32" not in value.atoms for value in tensors) and tensors:
            weak = {"int", "float"}
        atoms = frozenset(atom for atom in atoms if atom not in weak) or atoms
    return atoms


def of_value(value: Any) -> Abstract:
    """The abstract value of a global that a kernel reads."""
    if isinstance(value, ConstexprValue):
        return of_value(value.value)
    if isinstance(value, AttributeValue):
        return of_path(value.path)
    if isinstance(value, (FunctionValue, NamespaceValue)):
        return Abstract(form=Form.FUNCTION, payload=value)
    if isinstance(value, Dtype):
        return Abstract(frozenset({value.name}), form=Form.DTYPE)
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return Abstract(
            PYTHON_INTEGER.atoms, multiples=frozenset({str(value)}) if value else frozenset(), payload=value
        )
    if isinstance(value, float):
        return PYTHON_FLOAT
    if isinstance(value, str):
        return Abstract(form=Form.TEXT, payload=value)
    if isinstance(value, tuple):
        return tuple_of(of_value(item) for item in value)
    return NONE if value is None else UNKNOWN


def of_path(path: str) -> Abstract:
    """Something of Triton's own, by its dotted path: a dtype, a function or a module."""
    if path.startswith("triton.language."):
        dtype = canonical_dtype(path)
        if dtype is not None:
            return Abstract(frozenset({dtype}), form=Form.DTYPE)
    return Abstract(form=Form.FUNCTION, payload=path)
