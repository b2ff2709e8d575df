"""What the uses of a value say about its type: the records that reading a body leaves behind."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from smemcheck.model import Position
from smemcheck.specialize.abstract import Atom


class Claim(enum.Enum):
    """What a use says about a type."""

    INTEGER = "integer"
    ADDED = "added to integers"
    FLOAT = "float"
    BOOLEAN = "boolean"
    EXACT = "exact"
    NOT_POINTER = "not a pointer"
    POINTER = "pointer"
    DESCRIPTOR = "descriptor"
    OPTIONAL = "optional"
    TUPLE = "tuple"


WEAK, FAIR, STRONG = 1, 3, 9
"""How much a use weighs. One strong use outweighs every fair one that a kernel of ordinary length has."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One use of a value: what it says of which type, in a clause, and where. ``dtype`` goes with ``Claim.EXACT``."""

    atom: Atom
    claim: Claim
    weight: int
    because: str
    position: Position = field(compare=False)
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """A memory access: the alternatives of what its address was added up from, and every type that went into the sum."""

    bases: frozenset[tuple[str, ...]]
    atoms: frozenset[Atom]
    what: str
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Same:
    """Two atoms of one type, because an operation demands it (``tl.dot``), or of one kind, because they are compared.

    ``exact``: the very same dtype, not only both integers or both floats.
    """

    left: Atom
    right: Atom
    weight: int
    because: str
    position: Position = field(compare=False)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class DescriptorUse:
    """An access through a parameter that is a tensor descriptor: for each dimension what its offset is a multiple of."""

    parameter: str
    dimensions: tuple[frozenset[str], ...]
    position: Position = field(compare=False)


@dataclass(slots=True)
class Uses:
    """Everything that a kernel's body says about its parameters.

    ``texts`` are constexprs that are compared with strings, ``dtypes`` those that stand where a dtype is expected.
    """

    evidence: dict[Evidence, None] = field(default_factory=dict)
    addresses: dict[Address, None] = field(default_factory=dict)
    same: dict[Same, None] = field(default_factory=dict)
    descriptors: dict[DescriptorUse, None] = field(default_factory=dict)
    texts: set[str] = field(default_factory=set)
    dtypes: set[str] = field(default_factory=set)
