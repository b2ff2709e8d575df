"""What each parameter of a kernel is, judged from how the kernel uses it, with the reason and the line.

The uses come from :mod:`smemcheck.specialize.body`. Here they are weighed: first which parameters are pointers (an address
is a sum with exactly one pointer in it), then whether what lies behind each is integers or floats, then of which width.
"""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from smemcheck.model import Kernel, Parameter, Position
from smemcheck.specialize.abstract import Atom, Element, Own, in_order
from smemcheck.specialize.body import BodyReader
from smemcheck.specialize.dtypes import annotated_type, is_float
from smemcheck.specialize.evidence import FAIR, STRONG, WEAK, Address, Claim, Evidence, Same, Uses

DEFAULT_FLOAT = "fp16"
DEFAULT_INTEGER = "i32"

_POINTER_NAME = re.compile(r"(?i)(^|_)(ptrs?|pointers?)(_|$)|ptr$")
_FLOAT_NAME = re.compile(
    r"(?i)(^|_)(scale|scaling|eps|epsilon|alpha|beta\d?|gamma|lr|dropout_p|p|prob|softcap|cap|slope|theta|momentum"
    r"|weight_decay|temperature|factor|limit|threshold)$|scale$"
)

_FLOAT32_NAME = re.compile(r"(?i)(^|_)(lse|logsumexp|delta|mean|rstd|rms|invvar|cumsum)(_|$)|lse(_?ptr)?$")
_INTEGER64_NAME = re.compile(r"(?i)(^|_)(targets?|labels?)(_|$)")


class Kind(enum.Enum):
    """What a parameter takes."""

    POINTER = "pointer"
    DESCRIPTOR = "tensor descriptor"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TUPLE = "tuple"
    CONSTEXPR = "constexpr"


@dataclass(frozen=True, slots=True)
class ParameterKind:
    """What a parameter is taken for, and why.

    ``type`` is Triton's type; a descriptor's block shape may hold names of constexprs (``tensordesc<fp16[BLOCK_M, 64]>``),
    or ``?`` where it could not be told. ``is_settled``: an annotation says it, so nothing else is possible.
    ``is_accessed``: memory is read or written through it, so it is no number whatever its name suggests.
    """

    parameter: str
    kind: Kind
    type: str
    because: str
    position: Position
    is_settled: bool = False
    is_accessed: bool = False


@dataclass(frozen=True, slots=True)
class KernelUse:
    """All parameters of a kernel. ``texts`` and ``dtypes`` are constexprs compared with strings or used as dtypes."""

    kinds: tuple[ParameterKind, ...]
    texts: frozenset[str]
    dtypes: frozenset[str]


@dataclass(slots=True)
class _Score:
    """What speaks for integers and for floats, and for single dtypes. ``reasons``: the weightiest evidence a claim."""

    integer: int = 0
    float_: int = 0
    boolean: int = 0
    exact: dict[str, int] | None = None
    reasons: dict[str, Evidence] | None = None


def parameter_kinds(kernel: Kernel) -> KernelUse:
    """What every parameter of ``kernel`` is, in its order.

    Raises :class:`SyntaxError` when the kernel's text cannot be parsed.
    """
    uses = BodyReader(kernel).read()
    judge = _Judge(kernel, uses)
    return KernelUse(
        tuple(judge.kind(parameter) for parameter in kernel.entry.parameters),
        frozenset(uses.texts),
        frozenset(uses.dtypes),
    )


class _Judge:
    def __init__(self, kernel: Kernel, uses: Uses) -> None:
        self.parameters = {parameter.name: parameter for parameter in kernel.entry.parameters}
        self.order = {name: index for index, name in enumerate(self.parameters)}
        self.position = kernel.entry.position
        self.uses = uses
        self.own: dict[str, list[Evidence]] = defaultdict(list)
        for evidence in uses.evidence:
            if isinstance(evidence.atom, Own):
                self.own[evidence.atom.parameter].append(evidence)
        self.reached: dict[str, Address] = {}
        self.descriptors = {name for name, found in self.own.items() if any(e.claim is Claim.DESCRIPTOR for e in found)}
        self.pointers = self._pointers()
        self.scores = self._scores()
        self._spread()

    # ---------------------------------------------------------------------------------------------------- pointers

    def _pointers(self) -> dict[str, str]:
        """Which parameters are pointers, each with the reason."""
        found: dict[str, str] = {}
        numbers = {name for name in self.own if self._is_number(name)}
        for name, parameter in self.parameters.items():
            annotated = annotated_type(parameter.annotation)
            if parameter.is_constexpr or name in self.descriptors or (annotated and annotated[0] != "*"):
                numbers.add(name)
            elif annotated or (self._claims(name, Claim.POINTER) and name not in numbers):
                found[name] = self._claim_reason(name, Claim.POINTER)
        sums = [
            (address, [name for name in one if name in self.parameters])
            for address in self.uses.addresses
            for one in sorted(address.bases)
        ]
        pending = [(address, one) for address, one in sums if one]
        while pending:
            unresolved = []
            for address, one in pending:
                candidates = [name for name in one if name in found] or [name for name in one if name not in numbers]
                if len(candidates) == 1:
                    found.setdefault(candidates[0], f"an address of {address.what}")
                    self.reached.setdefault(candidates[0], address)
                    numbers.update(name for name in one if name not in found)
                elif candidates:
                    unresolved.append((address, candidates))
            if len(unresolved) == len(pending):
                # Two parameters are added, and nothing else tells which of them points: names and order do.
                address, candidates = unresolved.pop(0)
                best = min(candidates, key=self._unlikeliness)
                found.setdefault(best, f"an address of {address.what}")
                self.reached.setdefault(best, address)
                numbers.update(name for name in candidates if name != best and name not in found)
            pending = unresolved
        for name in self.parameters:
            if name in found or name in numbers:
                continue
            if self._claims(name, Claim.OPTIONAL) and not self._claims(name, Claim.INTEGER, Claim.FLOAT):
                found[name] = "it is compared with None"
            elif _POINTER_NAME.search(name) and not self._claims(name, Claim.INTEGER, Claim.FLOAT, Claim.BOOLEAN):
                found[name] = "its name says so, and no use says otherwise"
        self._between(found, numbers)
        return found

    def _between(self, found: dict[str, str], numbers: set[str]) -> None:
        """Parameters that are never used stand among their like: pointers come first, then sizes and strides."""
        used = [name for name in self.parameters if name in found or name in numbers or self.own.get(name)]
        for name, index in self.order.items():
            if name in used:
                continue
            before = next((other for other in reversed(used) if self.order[other] < index), None)
            after = next((other for other in used if self.order[other] > index), None)
            if (before is None or before in found) and after in found:
                found[name] = "the kernel never uses it and it stands among pointers"

    def _is_number(self, name: str) -> bool:
        """Some use of the parameter itself would be wrong for a pointer."""
        return any(
            evidence.claim in (Claim.NOT_POINTER, Claim.TUPLE)
            or (evidence.claim is Claim.INTEGER and evidence.weight >= STRONG)
            for evidence in self.own.get(name, ())
        )

    def _claims(self, name: str, *claims: Claim) -> bool:
        return any(evidence.claim in claims for evidence in self.own.get(name, ()))

    def _claim_reason(self, name: str, claim: Claim) -> str:
        return next(
            (evidence.because for evidence in self.own.get(name, ()) if evidence.claim is claim), "its annotation"
        )

    def _unlikeliness(self, name: str) -> tuple[bool, bool, bool, int]:
        return (
            self._claims(name, Claim.INTEGER, Claim.FLOAT, Claim.BOOLEAN),
            not _POINTER_NAME.search(name),
            not self._claims(name, Claim.OPTIONAL),
            self.order[name],
        )

    # ------------------------------------------------------------------------------------------------------ scores

    def _nodes(self, atom: Atom) -> Iterator[str]:
        """The parameters whose own type (``n``) or element type (``*x``) an atom stands for."""
        if isinstance(atom, Own):
            name = atom.parameter
            if name in self.descriptors:
                yield f"*{name}"  # the type of a descriptor, where one is asked for, is that of its elements
            elif name not in self.pointers:
                yield name
        elif isinstance(atom, Element):
            for one in sorted(atom.bases):
                pointer = next((name for name in one if name in self.pointers or name in self.descriptors), None)
                if pointer is not None:
                    yield f"*{pointer}"

    def _scores(self) -> dict[str, _Score]:
        scores: dict[str, _Score] = defaultdict(_Score)
        for evidence in self._evidence():
            for node in self._nodes(evidence.atom):
                _add(scores[node], evidence)
        return scores

    def _evidence(self) -> Iterator[Evidence]:
        yield from self.uses.evidence
        for address in self.uses.addresses:
            for atom in in_order(address.atoms):
                if isinstance(atom, Element) or (isinstance(atom, Own) and atom.parameter not in self.pointers):
                    yield Evidence(atom, Claim.INTEGER, STRONG, "added to an address", address.position)
        for same in self.uses.same:
            for one, other in ((same.left, same.right), (same.right, same.left)):
                if isinstance(one, str) and not isinstance(other, str) and one not in ("int", "float", "u1"):
                    claim = Claim.FLOAT if is_float(one) else Claim.INTEGER
                    yield Evidence(other, claim, same.weight, same.because, same.position)

    def _spread(self) -> None:
        """Carry kinds and dtypes over links between types that must agree, until nothing changes."""
        links = [
            (one, other, same)
            for same in self.uses.same
            for one in self._nodes(same.left)
            for other in self._nodes(same.right)
            if one != other
        ]
        for _ in range(len(links) + 1):
            changed = False
            for one, other, same in links:
                changed |= self._carry(one, other, same) or self._carry(other, one, same)
            if not changed:
                break

    def _carry(self, source: str, target: str, same: Same) -> bool:
        have, want = self.scores.get(source), self.scores[target]
        if have is None:
            return False
        changed = False
        if want.integer == want.float_ and have.integer != have.float_:
            claim = Claim.INTEGER if have.integer > have.float_ else Claim.FLOAT
            _add(want, Evidence(same.left, claim, WEAK, f"{same.because} (like {source.lstrip('*')})", same.position))
            changed = True
        if same.exact and have.exact and not want.exact:
            dtype, weight = max(have.exact.items(), key=lambda item: item[1])
            evidence = Evidence(
                same.left, Claim.EXACT, weight, f"of the type of {source.lstrip('*')}", same.position, dtype
            )
            _add(want, evidence)
            changed = True
        return changed

    # ------------------------------------------------------------------------------------------------------ verdicts

    def kind(self, parameter: Parameter) -> ParameterKind:
        """The verdict on one parameter."""
        name = parameter.name
        if parameter.is_constexpr:
            return ParameterKind(name, Kind.CONSTEXPR, "constexpr", "annotated tl.constexpr", self.position)
        annotated = annotated_type(parameter.annotation)
        if annotated is not None:
            kind = Kind.POINTER if annotated[0] == "*" else _kind_of(annotated)
            return ParameterKind(name, kind, annotated, "its annotation says so", self.position, is_settled=True)
        if name in self.descriptors:
            return self._descriptor(name)
        if name in self.pointers:
            element, because, position = self._element(name)
            where = position or (self.reached[name].position if name in self.reached else self.position)
            reason = f"{self.pointers[name]}; {because}" if because else self.pointers[name]
            reached = name in self.reached
            return ParameterKind(name, Kind.POINTER, f"*{element}", reason, where, is_accessed=reached)
        return self._number(name)

    def _element(self, name: str) -> tuple[str, str, Position | None]:
        score = self.scores.get(f"*{name}", _Score())
        element, because, position = _element_type(score)
        named = _FLOAT32_NAME if element == DEFAULT_FLOAT else _INTEGER64_NAME if element == DEFAULT_INTEGER else None
        if named is not None and named.search(name):
            wide = "fp32" if is_float(element) else "i64"
            return wide, f"{because.rpartition(', ')[0] or because}, and its name suggests {wide}", position
        return element, because, position

    def _descriptor(self, name: str) -> ParameterKind:
        element, because, position = self._element(name)
        uses = [use for use in self.uses.descriptors if use.parameter == name]
        shape = "?"
        if uses:
            rank = len(uses[0].dimensions)
            columns = [
                frozenset.intersection(*(use.dimensions[index] for use in uses if len(use.dimensions) == rank))
                for index in range(rank)
            ]
            shape = ", ".join(next(iter(column)) if len(column) == 1 else "?" for column in columns)
            position = position or uses[0].position
        reason = f"its load or store method is called; {because}; its block shape is what the offsets are multiples of"
        return ParameterKind(
            name, Kind.DESCRIPTOR, f"tensordesc<{element}[{shape}]>", reason, position or self.position
        )

    def _number(self, name: str) -> ParameterKind:
        score = self.scores.get(name, _Score())
        if self._claims(name, Claim.TUPLE):
            return ParameterKind(name, Kind.TUPLE, "?", "it is indexed, so it is a tuple", self.position)
        evidence = score.reasons or {}
        if max(score.integer, score.float_) < FAIR and _FLOAT_NAME.search(name):
            return ParameterKind(
                name, Kind.FLOAT, "fp32", "its name suggests a float, and no use says otherwise", self.position
            )
        if score.float_ > score.integer:
            found = evidence.get("float")
            return ParameterKind(name, Kind.FLOAT, "fp32", _because(found), _where(found, self.position))
        if score.integer:
            found = evidence.get("integer")
            return ParameterKind(name, Kind.INTEGER, DEFAULT_INTEGER, _because(found), _where(found, self.position))
        if score.boolean:
            found = evidence.get("boolean")
            return ParameterKind(name, Kind.BOOLEAN, "u1", _because(found), _where(found, self.position))
        because = "nothing says that it is anything else than an integer"
        return ParameterKind(name, Kind.INTEGER, DEFAULT_INTEGER, because, self.position)


def _kind_of(type_: str) -> Kind:
    if type_ == "u1":
        return Kind.BOOLEAN
    return Kind.FLOAT if is_float(type_) else Kind.INTEGER


def _because(evidence: Evidence | None) -> str:
    return f"it is {evidence.because}" if evidence is not None else ""


def _where(evidence: Evidence | None, otherwise: Position) -> Position:
    return evidence.position if evidence is not None else otherwise


def _add(score: _Score, evidence: Evidence) -> None:
    reasons = score.reasons = score.reasons if score.reasons is not None else {}
    if evidence.claim in (Claim.INTEGER, Claim.ADDED):
        score.integer += evidence.weight
        _keep(reasons, "integer", evidence)
    elif evidence.claim is Claim.FLOAT:
        score.float_ += evidence.weight
        _keep(reasons, "float", evidence)
    elif evidence.claim is Claim.BOOLEAN:
        score.boolean += evidence.weight
        _keep(reasons, "boolean", evidence)
    elif evidence.claim is Claim.EXACT:
        exact = score.exact = score.exact if score.exact is not None else {}
        exact[evidence.dtype] = exact.get(evidence.dtype, 0) + evidence.weight
        _keep(reasons, evidence.dtype, evidence)
        if is_float(evidence.dtype):
            score.float_ += evidence.weight
        elif evidence.dtype != "u1":
            score.integer += evidence.weight


def _keep(reasons: dict[str, Evidence], key: str, evidence: Evidence) -> None:
    if key not in reasons or reasons[key].weight < evidence.weight:
        reasons[key] = evidence


def _element_type(score: _Score) -> tuple[str, str, Position | None]:
    """The element type of a pointer, why, and where."""
    reasons = score.reasons or {}
    exact = score.exact or {}
    if score.integer > score.float_:
        return _best(exact, reasons, (name for name in exact if not is_float(name)), DEFAULT_INTEGER, "integer")
    if score.float_:
        floats = [name for name in exact if is_float(name) and exact[name] >= FAIR]
        return _best(exact, reasons, floats, DEFAULT_FLOAT, "float")
    if score.boolean:
        found = reasons["boolean"]
        return "u1", f"its elements are {found.because}", found.position
    return DEFAULT_FLOAT, "nothing says what its elements are, so 16-bit floats are assumed", None


def _best(
    exact: dict[str, int], reasons: dict[str, Evidence], names: Iterable[str], default: str, claim: str
) -> tuple[str, str, Position | None]:
    ranked = sorted(names, key=lambda name: -exact[name])
    if ranked:
        found = reasons[ranked[0]]
        return ranked[0], f"its elements are {found.because}", found.position
    found_claim = reasons.get(claim)
    width = "16-bit floats are" if claim == "float" else "32-bit integers are"
    if found_claim is None:
        return default, f"{width} assumed", None
    return default, f"its elements are {found_claim.because}, and {width} assumed", found_claim.position
