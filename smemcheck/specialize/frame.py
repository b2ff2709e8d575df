"""One function of a kernel's slice, interpreted abstractly: statements bind names, expressions have abstract values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smemcheck.model import FunctionValue, NamespaceValue, Unknown
from smemcheck.specialize import operations
from smemcheck.specialize.abstract import (
    ANY_RANK,
    BOOLEAN,
    INTEGER,
    NONE,
    UNKNOWN,
    Abstract,
    Atom,
    Element,
    Form,
    Own,
    added_bases,
    join,
    of_path,
    of_value,
    promoted,
    rank_of,
    tuple_of,
)
from smemcheck.specialize.call import Call
from smemcheck.specialize.dtypes import is_float
from smemcheck.specialize.evidence import FAIR, STRONG, WEAK, Claim

if TYPE_CHECKING:
    from smemcheck.specialize.body import BodyReader, Function

_LOOP_PASSES = 4
_INTEGER_OPERATORS = (ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


class Frame:
    """One function being interpreted: its names and what it returned so far."""

    def __init__(self, reader: BodyReader, function: Function, names: dict[str, Abstract]) -> None:
        self.reader = reader
        self.function = function
        self.names = names
        self.returned: list[Abstract] = []

    # -------------------------------------------------------------------------------------------------- statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            handler = self._STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.expression(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            combined = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
            self.bind(node.target, self.expression(combined))

    def _for(self, node: ast.For) -> None:
        items = self.expression(node.iter)
        item = join(items.elements) if items.elements is not None else items
        for _ in range(_LOOP_PASSES):
            before = dict(self.names)
            self.bind(node.target, item)
            self.block(node.body)
            self._merge(before)
            if self.names == before:
                break
        self.block(node.orelse)

    def _while(self, node: ast.While) -> None:
        for _ in range(_LOOP_PASSES):
            before = dict(self.names)
            self.reader.truth(self.expression(node.test), node.test)
            self.block(node.body)
            self._merge(before)
            if self.names == before:
                break

    def _if(self, node: ast.If) -> None:
        self.reader.truth(self.expression(node.test), node.test)
        before = dict(self.names)
        self.block(node.body)
        after = self.names
        self.names = dict(before)
        self.block(node.orelse)
        self._merge(after)

    def _merge(self, other: Mapping[str, Abstract]) -> None:
        for name, value in other.items():
            mine = self.names.get(name)
            self.names[name] = value if mine is None or mine == value else join((mine, value))

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned.append(self.expression(node.value))

    def _expression_statement(self, node: ast.Expr) -> None:
        self.expression(node.value)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.expression(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.block(node.body)

    def _assert(self, node: ast.Assert) -> None:
        self.expression(node.test)

    def bind(self, target: ast.expr, value: Abstract) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = value.elements if value.elements and len(value.elements) == len(target.elts) else None
            for index, element in enumerate(target.elts):
                self.bind(element, known[index] if known else UNKNOWN)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, UNKNOWN)

    # ------------------------------------------------------------------------------------------------- expressions

    def expression(self, node: ast.expr) -> Abstract:
        handler = self._EXPRESSIONS.get(type(node))
        return handler(self, node) if handler is not None else UNKNOWN

    def _constant(self, node: ast.Constant) -> Abstract:
        return of_value(node.value) if not isinstance(node.value, (bytes, complex)) else UNKNOWN

    def _name(self, node: ast.Name) -> Abstract:
        if node.id in self.names:
            return self.names[node.id]
        binding = self.function.globals_.get(node.id)
        if node.id in self.function.globals_ and not isinstance(binding, Unknown):
            return of_value(binding)
        if node.id in ("tl", "language"):
            return of_path("triton.language")
        return Abstract(form=Form.FUNCTION, payload=f"builtins.{node.id}") if binding is None else UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Abstract:
        value = self.expression(node.value)
        name = node.attr
        if value.form is Form.FUNCTION and isinstance(value.payload, str):
            return of_path(f"{value.payload}.{name}")
        if isinstance(value.payload, NamespaceValue):
            member = dict(value.payload.members).get(name)
            return UNKNOWN if isinstance(member, Unknown) else of_value(member)
        if value.form is Form.DTYPE:
            return self._of_dtype(value, name, node)
        if name in ("dtype", "type"):
            atoms = value.atoms
            if value.form in (Form.DESCRIPTOR, Form.BLOCK_POINTER) and value.bases:
                atoms = frozenset({Element(value.bases)})
            return Abstract(atoms, value.bases, form=Form.DTYPE)
        if name in ("T", "value", "handle"):
            return value
        return UNKNOWN

    def _of_dtype(self, value: Abstract, name: str, node: ast.Attribute) -> Abstract:
        if name == "element_ty" and value.bases:
            self.reader.note(
                Abstract(frozenset(Own(one[0]) for one in value.bases if len(one) == 1)),
                Claim.POINTER, STRONG, "its element type is asked for", node,
            )  # fmt: skip
            return Abstract(frozenset({Element(value.bases)}), form=Form.DTYPE)
        if name in ("element_ty", "scalar"):
            return value
        return UNKNOWN

    def _binary(self, node: ast.BinOp) -> Abstract:
        left = self.expression(node.left)
        right = self._call(node.right, left) if isinstance(node.right, ast.Call) else self.expression(node.right)
        reader = self.reader
        if left.elements is not None or right.elements is not None:
            if isinstance(node.op, ast.Add) and left.elements is not None and right.elements is not None:
                return tuple_of(left.elements + right.elements)
            return UNKNOWN
        rank = rank_of((left, right))
        atoms = promoted((left, right))
        if atoms == BOOLEAN.atoms and not isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
            atoms = INTEGER.atoms
        if isinstance(node.op, ast.Add):
            self._operands(left, right, node, "added to")
            multiples = left.multiples | right.multiples
            form = Form.DTYPE if left.form is Form.DTYPE else Form.VALUE
            return Abstract(atoms, added_bases(left, right), multiples, form=form, rank=rank)
        if isinstance(node.op, ast.Sub):
            reader.note(right, Claim.NOT_POINTER, STRONG, "subtracted", node)
            self._operands(left, right, node, "subtracted from or by")
            return Abstract(atoms, left.bases, left.multiples & right.multiples, rank=rank)
        for value in (left, right):
            reader.note(value, Claim.NOT_POINTER, STRONG, "used in arithmetic that pointers have none of", node)
        if isinstance(node.op, _INTEGER_OPERATORS):
            return self._integer_operation(node, left, right, atoms, rank)
        if isinstance(node.op, ast.Mult):
            self._operands(left, right, node, "multiplied with")
            return Abstract(atoms, multiples=left.multiples | right.multiples, rank=rank)
        if isinstance(node.op, ast.Div):
            self._operands(left, right, node, "divided with")
            floats = frozenset(atom for atom in atoms if isinstance(atom, str) and is_float(atom))
            return Abstract(floats or frozenset({"fp32"}), rank=rank)
        return Abstract(atoms, rank=rank)

    def _integer_operation(
        self, node: ast.BinOp, left: Abstract, right: Abstract, atoms: frozenset[Atom], rank: int
    ) -> Abstract:
        bits = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
        for value, other in ((left, right), (right, left)):
            if bits and other.atoms == BOOLEAN.atoms:
                self.reader.truth(value, node)
            elif bits and value.atoms != BOOLEAN.atoms:
                self.reader.note(value, Claim.INTEGER, FAIR, "an operand of a bit operation", node)
            elif not bits:
                weight = WEAK if isinstance(node.op, ast.Mod) and value.tensor else STRONG
                self.reader.note(value, Claim.INTEGER, weight, "an operand of an integer operation", node)
        if bits and BOOLEAN.atoms in (left.atoms, right.atoms):
            return Abstract(BOOLEAN.atoms, rank=rank)
        return Abstract(atoms, rank=rank)

    def _operands(self, left: Abstract, right: Abstract, node: ast.expr, verb: str) -> None:
        reader = self.reader
        for value, other in ((left, right), (right, left)):
            weight = FAIR if not value.tensor else WEAK
            if other.atoms == frozenset({"float"}):
                reader.note(value, Claim.FLOAT, FAIR, f"{verb} a float", node)
            elif other.atoms and not (value.tensor and isinstance(other.payload, int)):  # floats are doubled too
                reader.beside(value, other, weight, verb, node)
        if not left.tensor or not right.tensor:
            reader.note_same(left, right, WEAK, verb, node)

    def _unary(self, node: ast.UnaryOp) -> Abstract:
        value = self.expression(node.operand)
        if isinstance(node.op, ast.Not):
            self.reader.truth(value, node)
            return BOOLEAN
        if isinstance(node.op, ast.USub) and isinstance(value.payload, int):
            return of_value(-value.payload)
        if isinstance(node.op, ast.Invert) and value.atoms != BOOLEAN.atoms:
            self.reader.note(value, Claim.INTEGER, WEAK, "inverted bit by bit", node)
        return Abstract(value.atoms, rank=value.rank, payload=value.payload, form=value.form)

    def _boolean(self, node: ast.BoolOp) -> Abstract:
        values = [self.expression(value) for value in node.values]
        for value, operand in zip(values, node.values, strict=True):
            self.reader.truth(value, operand)
        return BOOLEAN if all(value.atoms == BOOLEAN.atoms for value in values) else join(values)

    def _compare(self, node: ast.Compare) -> Abstract:
        values = [self.expression(node.left), *(self.expression(one) for one in node.comparators)]
        rank = rank_of(values)
        for left, right, operator in zip(values, values[1:], node.ops, strict=False):
            if isinstance(operator, (ast.Is, ast.IsNot)) or Form.NONE in (left.form, right.form):
                if Form.NONE in (left.form, right.form):
                    self.reader.note(
                        left if right.form is Form.NONE else right, Claim.OPTIONAL, FAIR, "compared with None", node
                    )
                continue
            for value, other in ((left, right), (right, left)):
                texts = other.elements or (other,)
                if value.constexpr and any(text.form is Form.TEXT for text in texts):
                    self.reader.uses.texts.add(value.constexpr)
                if value.constexpr and other.form is Form.DTYPE:
                    self.reader.uses.dtypes.add(value.constexpr)
            if not isinstance(operator, (ast.In, ast.NotIn)):
                for value in (left, right):
                    self.reader.note(value, Claim.NOT_POINTER, STRONG, "compared", node)
                self.reader.compare(left, right, node)
                if isinstance(operator, (ast.Eq, ast.NotEq)):
                    for value in (left, right):
                        self.reader.note(value, Claim.INTEGER, WEAK, "tested for equality", node)
        return Abstract(BOOLEAN.atoms, rank=rank)

    def _conditional(self, node: ast.IfExp) -> Abstract:
        self.reader.truth(self.expression(node.test), node.test)
        return join((self.expression(node.body), self.expression(node.orelse)))

    def _tuple(self, node: ast.Tuple | ast.List) -> Abstract:
        return tuple_of(self.expression(element) for element in node.elts if not isinstance(element, ast.Starred))

    def _subscript(self, node: ast.Subscript) -> Abstract:
        value, index = self.expression(node.value), node.slice
        number = self.expression(index) if not isinstance(index, (ast.Slice, ast.Tuple)) else UNKNOWN
        if value.elements is not None:
            if isinstance(number.payload, int) and -len(value.elements) <= number.payload < len(value.elements):
                return value.elements[number.payload]
            return join(value.elements)
        if value.form is Form.FUNCTION:
            return UNKNOWN
        raw = not value.tensor and any(value.atoms == frozenset({Own(one[0])}) for one in value.bases)
        if raw and number is not NONE and not isinstance(index, (ast.Slice, ast.Tuple)):
            self.reader.note(value, Claim.TUPLE, STRONG, "indexed", node)
            return UNKNOWN
        rank = len(index.elts) if isinstance(index, ast.Tuple) else ANY_RANK
        return Abstract(value.atoms, value.bases, value.multiples, form=value.form, rank=rank)

    def _walrus(self, node: ast.NamedExpr) -> Abstract:
        value = self.expression(node.value)
        self.bind(node.target, value)
        return value

    def _text(self, _: ast.JoinedStr) -> Abstract:
        return Abstract(form=Form.TEXT)

    def _call(self, node: ast.Call, beside: Abstract = UNKNOWN) -> Abstract:
        arguments: list[Abstract] = []
        for argument in node.args:
            value = self.expression(argument.value if isinstance(argument, ast.Starred) else argument)
            if isinstance(argument, ast.Starred):
                arguments.extend(value.elements or ())
            else:
                arguments.append(value)
        keywords = {keyword.arg: self.expression(keyword.value) for keyword in node.keywords if keyword.arg}
        call = Call(self.reader, node, arguments, keywords, beside)
        if isinstance(node.func, ast.Attribute):
            owner = self.expression(node.func.value)
            if owner.form is not Form.FUNCTION and (owner is not UNKNOWN or node.func.attr in operations.METHODS):
                return operations.method(call, owner, node.func.attr)
        target = self.expression(node.func)
        if target.form is Form.FUNCTION and isinstance(target.payload, FunctionValue):
            return self.reader.inline(target.payload, call)
        if target.form is Form.FUNCTION and isinstance(target.payload, str):
            return operations.function(call, target.payload)
        return UNKNOWN

    _STATEMENTS: ClassVar[dict[type[ast.stmt], Callable[[Frame, Any], None]]] = {
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.For: _for,
        ast.While: _while,
        ast.If: _if,
        ast.Return: _return,
        ast.Expr: _expression_statement,
        ast.With: _with,
        ast.Assert: _assert,
    }

    _EXPRESSIONS: ClassVar[dict[type[ast.expr], Callable[[Frame, Any], Abstract]]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: _boolean,
        ast.Compare: _compare,
        ast.IfExp: _conditional,
        ast.Tuple: _tuple,
        ast.List: _tuple,
        ast.Subscript: _subscript,
        ast.NamedExpr: _walrus,
        ast.JoinedStr: _text,
        ast.Call: _call,
    }
