"""Reads a kernel's body, and the helpers it calls, for what every use says about the parameters.

The body is interpreted abstractly: every path is taken, loops are repeated until nothing new is learnt, helpers are entered
with the values of their call. Nothing is decided here; :mod:`smemcheck.specialize.kinds` weighs what was collected.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from smemcheck.model import FunctionValue, Kernel, KernelFunction, Position
from smemcheck.specialize.abstract import UNKNOWN, Abstract, Form, Own, join, tuple_of
from smemcheck.specialize.call import Call
from smemcheck.specialize.dtypes import is_float
from smemcheck.specialize.evidence import FAIR, WEAK, Address, Claim, DescriptorUse, Evidence, Same, Uses
from smemcheck.specialize.frame import Frame

_MOST_CALL_DEPTH = 12


class Function:
    """A function of the slice, parsed. Lines and columns of its nodes are turned into the file's own."""

    def __init__(self, function: KernelFunction) -> None:
        self.function = function
        self.globals_ = dict(function.globals_)
        source, self._line, self._column = function.source, function.position.line, 0
        if function.position.column > 1 or source[:1] in (" ", "\t"):
            indent = "" if source[:1] in (" ", "\t") else " " * (function.position.column - 1)
            source, self._line = f"if True:\n{indent}{source}", function.position.line - 1
        tree = ast.parse(source)
        self.node = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))

    def position(self, node: ast.expr | ast.stmt) -> Position:
        """Where ``node`` stands in the user's file."""
        return Position(self.function.position.path, self._line + node.lineno - 1, node.col_offset + 1)


class BodyReader:
    """One pass over a kernel. :attr:`uses` holds the result."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.uses = Uses()
        self._functions: dict[int, Function] = {}
        self._memo: dict[tuple[int, tuple[tuple[str, Abstract], ...]], Abstract] = {}
        self._frames: list[Frame] = []

    def read(self) -> Uses:
        """Interpret the kernel. Raises :class:`SyntaxError` when its text is no Python of the running version."""
        entry = self._function(0)
        arguments = {}
        for parameter in entry.function.parameters:
            name = parameter.name
            if parameter.is_constexpr:
                arguments[name] = Abstract(multiples=frozenset({name}), constexpr=name)
            else:
                arguments[name] = Abstract(frozenset({Own(name)}), frozenset({(name,)}))
        self._run(entry, arguments)
        return self.uses

    def _function(self, index: int) -> Function:
        if index not in self._functions:
            self._functions[index] = Function(self.kernel.functions[index])
        return self._functions[index]

    def _run(self, function: Function, arguments: Mapping[str, Abstract]) -> Abstract:
        frame = Frame(self, function, dict(arguments))
        self._frames.append(frame)
        try:
            frame.block(function.node.body)
        finally:
            self._frames.pop()
        return join(frame.returned)

    # ------------------------------------------------------------------------------------------------- what is noted

    @property
    def frame(self) -> Frame:
        return self._frames[-1]

    def note(self, value: Abstract, claim: Claim, weight: int, because: str, node: ast.expr | ast.stmt) -> None:
        """A use says ``claim`` about ``value``; integers and booleans say it of everything that was added up to it."""
        if value.elements is not None:
            for element in value.elements:
                self.note(element, claim, weight, because, node)
            return
        symbolic = [atom for atom in value.atoms if not isinstance(atom, str)]
        if claim not in (Claim.INTEGER, Claim.ADDED) and len(symbolic) > 1:
            return
        position = self.frame.function.position(node)
        for atom in symbolic:
            self.uses.evidence.setdefault(Evidence(atom, claim, weight, because, position))

    def note_exact(self, value: Abstract, dtype: str, weight: int, because: str, node: ast.expr | ast.stmt) -> None:
        """A use says that ``value`` has exactly this dtype."""
        symbolic = [atom for atom in value.atoms if not isinstance(atom, str)]
        if len(symbolic) == 1 and len(value.atoms) == 1:
            position = self.frame.function.position(node)
            self.uses.evidence.setdefault(Evidence(symbolic[0], Claim.EXACT, weight, because, position, dtype))

    def note_same(
        self,
        left: Abstract,
        right: Abstract,
        weight: int,
        because: str,
        node: ast.expr | ast.stmt,
        *,
        exact: bool = False,
    ) -> None:
        """``left`` and ``right`` have one type (``exact``), or are both integers or both floats."""
        if len(left.atoms) != 1 or len(right.atoms) != 1:
            return
        one, other = next(iter(left.atoms)), next(iter(right.atoms))
        if one == other or (isinstance(one, str) and isinstance(other, str)):
            return
        position = self.frame.function.position(node)
        self.uses.same.setdefault(Same(one, other, weight, because, position, exact))

    def note_address(self, address: Abstract, what: str, node: ast.expr) -> None:
        """Memory is accessed through ``address``."""
        if address.elements is not None or address.form is Form.DESCRIPTOR:
            return
        position = self.frame.function.position(node)
        if address.bases:
            self.uses.addresses.setdefault(Address(address.bases, address.atoms, what, position))

    def note_descriptor(self, parameter: str, dimensions: tuple[frozenset[str], ...], node: ast.expr) -> None:
        """The parameter, a descriptor, is accessed at offsets that are multiples of these, dimension by dimension."""
        self.uses.descriptors.setdefault(DescriptorUse(parameter, dimensions, self.frame.function.position(node)))

    def truth(self, value: Abstract, node: ast.expr) -> None:
        """``value`` decides a branch or a mask."""
        self.note(value, Claim.BOOLEAN, FAIR, "used as a condition", node)

    def compare(self, left: Abstract, right: Abstract, node: ast.expr) -> None:
        """``left`` and ``right`` are compared, or one of the two is chosen."""
        for value, other in ((left, right), (right, left)):
            self.beside(value, other, FAIR, "compared with", node)
        self.note_same(left, right, WEAK, "compared", node)

    def beside(self, value: Abstract, other: Abstract, weight: int, verb: str, node: ast.expr) -> None:
        if not other.atoms or not all(isinstance(atom, str) for atom in other.atoms):
            return
        known = {str(atom) for atom in other.atoms}
        if known == {"int"}:
            self.note(value, _integer_claim(verb), WEAK, f"{verb} an integer", node)
        elif all(atom == "int" or (not is_float(atom) and atom != "float") for atom in known):
            self.note(value, _integer_claim(verb), weight, f"{verb} integers", node)
        elif all(atom == "float" or is_float(atom) for atom in known):
            self.note(value, Claim.FLOAT, weight, f"{verb} floats", node)

    # ------------------------------------------------------------------------------------------------------- calls

    def inline(self, target: FunctionValue, call: Call) -> Abstract:
        """Enter a helper of the slice with the call's arguments."""
        if target.index is None or len(self._frames) > _MOST_CALL_DEPTH:
            return UNKNOWN
        function = self._function(target.index)
        if function.function.jit != "jit":
            return UNKNOWN
        bound = self._bind(function, call)
        key = (target.index, tuple(bound.items()))
        if key not in self._memo:
            self._memo[key] = UNKNOWN
            self._memo[key] = self._run(function, bound)
        return self._memo[key]

    def _bind(self, function: Function, call: Call) -> dict[str, Abstract]:
        parameters = function.node.args
        names = [argument.arg for argument in (*parameters.posonlyargs, *parameters.args)]
        bound: dict[str, Abstract] = dict(zip(names, call.arguments, strict=False))
        if parameters.vararg is not None:
            bound[parameters.vararg.arg] = tuple_of(call.arguments[len(names) :])
        names += [argument.arg for argument in parameters.kwonlyargs]
        bound.update((name, value) for name, value in call.keywords.items() if name in names)
        defaults = dict(
            zip(names[len(parameters.args) - len(parameters.defaults) :], parameters.defaults, strict=False)
        )
        defaults.update(
            (argument.arg, default)
            for argument, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
            if default is not None
        )
        frame = Frame(self, function, {})
        for name in names:
            if name not in bound:
                bound[name] = frame.expression(defaults[name]) if name in defaults else UNKNOWN
        return bound


def _integer_claim(verb: str) -> Claim:
    """Integers are added to pointers too, so that an addend of integers may be one."""
    return Claim.ADDED if verb == "added to" else Claim.INTEGER
