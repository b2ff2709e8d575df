"""One example run of launch code: the evaluator with example tensors, which notes every launch of a kernel.

Where the code asks something that is not known (an optional tensor, a flag, a condition), the run takes one alternative and
remembers that there was a choice. A plan fixes choices; the search over plans is in :mod:`smemcheck.specialize.launches.search`.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from smemcheck.model import Config, Position
from smemcheck.source.attributes import get_attribute, innermost_kernel
from smemcheck.source.expressions import subscript_key
from smemcheck.source.freeze import freeze_config
from smemcheck.source.interpreter import Condition, Interpreter, Limits, Memory, World
from smemcheck.source.models import Models
from smemcheck.source.module import Module, Unit
from smemcheck.source.namespace import Namespace
from smemcheck.source.operations import BINARY, binary, subscript
from smemcheck.source.project import Project
from smemcheck.source.values import (
    Blocked,
    BoundMethod,
    Builtin,
    Call,
    ConfigValue,
    External,
    Frame,
    Instance,
    KernelValue,
    Obstacle,
    Partial,
    Place,
    Raised,
    TunerValue,
    UserClass,
    UserFunction,
)
from smemcheck.specialize.launches import torch_calls
from smemcheck.specialize.launches.alternatives import NOTHING, entry_of_table, threshold
from smemcheck.specialize.launches.remembered import Remembered, RememberingNamespace
from smemcheck.specialize.launches.tensors import CallersDtype, Geometry, Shape, Sizes, Tensor

LIMITS = Limits(steps=60_000, size=20_000, depth=40, paths=8)
_MAKES_KERNELS = re.compile(r"(?<!torch\.)jit|tun|heuristic|compile_kernel", re.IGNORECASE)


@dataclass(slots=True)
class Launch:
    """One launch of a kernel in an example run, its arguments by the kernel's parameter names."""

    kernel: KernelValue
    arguments: dict[str, Any]
    options: dict[str, Any]
    position: Position
    incomplete: Obstacle | None = None
    configs: Callable[[], tuple[Config, ...] | None] = lambda: None  # of the autotuner around it, as this run made it
    consulted_target: bool = False  # what led to it was told something of the device, so on another one it may differ

    def kinds(self, plan: Plan) -> Hashable:
        """What distinguishes this launch under a plan apart from numbers: dtypes, what is not given, flags and texts."""
        options = tuple((name, value) for name, value in self.options.items() if isinstance(value, (int, str)))
        return (*((name, _kind(value, plan)) for name, value in self.arguments.items()), options)


def _kind(value: Any, plan: Plan) -> Hashable:
    if isinstance(value, Tensor):
        return plan.dtype_path(value.dtype) if isinstance(value.dtype, External) else "tensor"
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, External):
        return plan.dtype_path(value)
    if isinstance(value, (tuple, list)):
        return tuple(_kind(one, plan) for one in value)
    return "one" if isinstance(value, int) and value == 1 else type(value).__name__


@dataclass(frozen=True, slots=True)
class Plan:
    """What an example run is told: sizes, the 16- or 32-bit float dtype, and choices by their key."""

    sizes: Sizes = field(default_factory=Sizes)
    dtype: str = "torch.float16"
    index: str = "torch.int32"
    choices: tuple[tuple[Hashable, int], ...] = ()
    optional: bool = False  # every optional tensor is given, tensors of indices apart
    indices: bool = False  # every optional tensor of indices (``cu_seqlens``) is given
    flags: bool = False  # every boolean and text is another than its default
    moves: tuple[str, ...] = ()  # what makes it differ from the plainest one
    label: str = "torch.int64"
    side: str = ""  # of weights, biases and gates; like the others when empty
    wide: str = (
        "torch.float32"  # of tensors that are 32-bit among 16-bit ones by their names: gates, states, statistics
    )

    def dtype_path(self, dtype: External) -> str:
        """A dtype under this plan, in a run that did not look at it."""
        return self.chosen_dtype(dtype.group) if isinstance(dtype, CallersDtype) else dtype.path

    def chosen_dtype(self, group: str) -> str:
        """The path of the dtype that tensors of a group have."""
        side = self.side or self.dtype
        return {"float": self.dtype, "side": side, "wide": self.wide, "index": self.index, "label": self.label}[group]


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that a run made: among how many, which, and of what kind (``optional``, ``flag``, ``text``, ``condition``)."""

    key: Hashable
    kind: str
    count: int
    taken: int


class ExampleInterpreter(Interpreter):
    """An interpreter that follows a plan and notes launches."""

    def __init__(
        self, project: Project, world: World, memory: Memory, plan: Plan, hints: Hints, remembered: Remembered
    ) -> None:
        super().__init__(project, world, [], LIMITS, memory)
        self.remembered = remembered
        self.plan = plan
        self.hints = hints
        self.chosen = dict(plan.choices)
        self.choices: dict[Hashable, Choice] = {}
        self.launches: list[Launch] = []
        self.thresholds: dict[
            tuple[int, int], None
        ] = {}  # numbers of the example, and what the code compares them with
        self.dtype_groups: set[str] = set()
        self.seen_dtypes: set[str] = set()  # groups of the caller's dtypes at which the code looked
        self._seen: dict[Hashable, int] = {}

    def namespace(self, module: Module) -> Namespace:
        found = self.namespaces.get(module.path)
        if found is None:
            found = RememberingNamespace(self, module, self.remembered, lambda: len(self.choices))
            self.namespaces[module.path] = found
        return found

    def callers_dtype(self, group: str, name: str) -> CallersDtype:
        """The dtype that this run's plan gives tensors of a group."""
        self.dtype_groups.add(group)
        return CallersDtype(self.plan.chosen_dtype(group), group, name, self.seen_dtypes)

    def parameter(self, value: Tensor) -> Tensor:
        """A module's parameter: users cast modules to the dtype of their data."""
        return Tensor(value.cls, {}, self.callers_dtype("float", ""), value.geometry, True, value.name)

    # ------------------------------------------------------------------------------------------------- choices

    def pick(self, key: Hashable, kind: str, count: int, default: int = 0) -> int:
        """Which of ``count`` alternatives this run takes."""
        known = self.choices.get(key)
        if known is not None:
            return known.taken
        taken = self.chosen.get(key)
        if taken is None:
            asked = {
                "optional": self.plan.optional,
                "output": self.plan.optional,
                "index": self.plan.indices,
                "flag": self.plan.flags,
                "text": self.plan.flags,
                "value": self.plan.flags,
            }
            taken = default
            if kind in ("optional", "index", "output"):
                taken = 1 if asked[kind] else default
            elif asked.get(kind) and count > 1:
                taken = 1 - default if count == 2 else default + 1
        self.choices[key] = Choice(key, kind, count, min(taken, count - 1))
        return self.choices[key].taken

    def decide(self, obstacle: Obstacle) -> bool:
        known = self._decided.get(id(obstacle))
        if known is not None:
            return known[1]
        place = obstacle.place
        where: Hashable = id(place.node) if isinstance(place, Place) else place
        base = ("condition", where, obstacle.reason)
        number = self._seen[base] = self._seen.get(base, -1) + 1
        kind = "environment" if "installed" in obstacle.reason or " raises" in obstacle.reason else "condition"
        truth = self.pick((*base, number), kind, 2) == 0
        self.conditions.append(Condition(obstacle, truth))
        self.script.append(truth)
        self._decided[id(obstacle)] = (obstacle, truth)
        return truth

    # ---------------------------------------------------------------------------------------------- evaluation

    def evaluate(self, node: cst.CSTNode, frame: Frame) -> Any:
        handler = _OWN.get(type(node))
        if handler is None:
            return super().evaluate(node, frame)
        self.step()
        return handler(self, node, frame)

    def call(
        self, function: Any, arguments: list[Any], keywords: dict[str, Any], place: Place, open_: Obstacle | None = None
    ) -> Any:
        if isinstance(function, Builtin) and function.name.rpartition(".")[2] == "len" and len(arguments) == 1:
            if isinstance(arguments[0], Tensor):
                return arguments[0].geometry.settled()[0]
            if isinstance(arguments[0], Shape):
                return len(arguments[0].of.geometry.settled())
        return super().call(function, [_plain(a) for a in arguments], keywords, place, open_)

    def launch(self, kernel: KernelValue, call: Call, outer: Any) -> None:
        """Note a launch: bind its arguments to the kernel's parameters, as ``JITFunction.run`` does."""
        from smemcheck.source.kernels import parameter_names

        names = parameter_names(kernel)
        arguments = dict(zip(names, call.arguments, strict=False))
        options = {}
        for name, value in call.keywords.items():
            if name in names:
                arguments[name] = value
            else:
                options[name] = value
        self.launches.append(
            Launch(
                kernel,
                arguments,
                options,
                call.place.position,
                call.open,
                lambda: self._configs(outer),
                self.consulted_target,
            )
        )

    def _configs(self, outer: Any) -> tuple[Config, ...] | None:
        listed = outer.attributes.get("configs") if isinstance(outer, (TunerValue, Instance)) else None
        if not isinstance(listed, (list, tuple)) or not isinstance(outer, (TunerValue, Instance)):
            return None
        try:
            return tuple(freeze_config(self, one, one.place) for one in listed if isinstance(one, ConfigValue))
        except Blocked:
            return None


def _attribute(self: ExampleInterpreter, node: cst.Attribute, frame: Frame) -> Any:
    value = self.evaluate(node.value, frame)
    name = node.attr.value
    place = Place(frame.unit, node)
    if isinstance(value, Tensor):
        if name in value.attributes:
            return value.attributes[name]
        if (
            name in ("shape", "size", "ndim", "dim", "stride")
            and isinstance(node.value, cst.Name)
            and value.geometry.dims is None
        ):
            hint = self.hints.of(frame.unit).ranks.get(node.value.value)
            if hint is not None:
                value.geometry.settle(*hint)
        if name == "requires_grad":
            return Obstacle("whether a tensor requires a gradient is the caller's choice", place)
        return torch_calls.attribute(value, name)
    if isinstance(value, UserClass) and name == "apply" and is_autograd(value):
        return Builtin("apply", lambda call: apply(self, value, call))
    kernel = innermost_kernel(value)
    if isinstance(kernel, KernelValue) and kernel.kind == "jit" and name in ("run", "warmup"):
        return Builtin(f"kernel.{name}", lambda call: _run(self, kernel, call, value))
    if isinstance(value, Obstacle) and name in ("to", "type", "long", "int", "float", "half", "bfloat16"):
        unknown = Tensor(
            External("torch.Tensor"), {}, Obstacle(value.reason, value.place), Geometry(self.plan.sizes), False, ""
        )
        return Builtin(name, lambda call: _cast(unknown, name, call, value))
    return get_attribute(self, value, name, place)


def _cast(unknown: Tensor, name: str, call: Call, value: Obstacle) -> Any:
    made = torch_calls.method(unknown, name, call)
    return made if isinstance(made, Tensor) and made.dtype is not unknown.dtype else value.again()


def _run(self: ExampleInterpreter, kernel: KernelValue, call: Call, outer: Any) -> None:
    keywords = {name: value for name, value in call.keywords.items() if name not in ("grid", "warmup")}
    self.launch(kernel, Call(self, call.arguments, keywords, call.place, call.open), outer)


def _subscript(self: ExampleInterpreter, node: cst.Subscript, frame: Frame) -> Any:
    value = self.evaluate(node.value, frame)
    kernel = innermost_kernel(value)
    if isinstance(kernel, KernelValue) and kernel.kind == "jit":
        return Builtin("launch", lambda call: self.launch(kernel, call, value))
    key = subscript_key(self, node, frame)
    return subscripted(self, value, key, node, frame)


def subscripted(self: ExampleInterpreter, value: Any, key: Any, node: cst.Subscript, frame: Frame) -> Any:
    place = Place(frame.unit, node)
    if isinstance(value, Tensor):
        return torch_calls.subscripted(value, key)
    if isinstance(value, Shape):
        if isinstance(key, int):
            return value.of.geometry.size(key)
        if isinstance(key, slice):
            if key.start is None and isinstance(key.stop, int) and key.stop < 0 and key.step is None:
                return tuple(value.of.geometry.settle(max(2, 1 - key.stop)))[key]
            return subscript(self, tuple(value.of.geometry.settled()), key, place)
    if isinstance(value, Instance) and value.cls == External("torch.autograd.NeedsInputGrad"):
        return True
    if isinstance(value, dict) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        entry = entry_of_table(self, value, key, node.slice[0].slice.value, frame)
        if entry is not NOTHING:
            return entry
    return subscript(self, value, key, place)


def _binary(self: ExampleInterpreter, node: cst.BinaryOperation, frame: Frame) -> Any:
    left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
    return combined(self, type(node.operator), left, right, Place(frame.unit, node))


def combined(self: ExampleInterpreter, operator: type[cst.CSTNode], left: Any, right: Any, place: Place) -> Any:
    """``left OP right``, tensors included."""
    left, right = _plain(left), _plain(right)
    found = [t for t in (left, right) if isinstance(t, Tensor)]
    if found:
        dtype, assumed = torch_calls.promoted(found)
        return Tensor(
            External("torch.Tensor"),
            {},
            dtype,
            found[0].geometry if len(found) == 1 or operator is not cst.MatrixMultiply else Geometry(self.plan.sizes),
            assumed,
            "",
        )
    if operator not in BINARY:
        return Obstacle("matrix multiplication is not modelled", place)
    return binary(self, operator, left, right, place)


def _plain(value: Any) -> Any:
    return tuple(value.of.geometry.settled()) if isinstance(value, Shape) else value


def _tested(self: ExampleInterpreter, node: cst.BaseExpression, frame: Frame) -> Any:
    """An expression that may be a check of the arguments: examples pass what asks for sizes, dtypes and devices."""
    hints = self.hints.of(frame.unit)
    if id(node) in hints.guards:
        result = _follow(self, node, frame, wanted=False)
        if result is not False and _ABOUT_SIZES.search(cst.Module([]).code_for_node(node)):
            return False
        return result
    if isinstance(node, cst.Comparison):
        if id(node) in hints.asserted:
            return _follow(self, node, frame, wanted=True)
        sizes = threshold(self, node, frame)
        if sizes is not None:
            self.thresholds[sizes] = None
    return Interpreter.evaluate(self, node, frame)


_ABOUT_SIZES = re.compile(r"shape|size|dim|stride|contiguous|dtype|device|is_cuda|%|len\(|numel|rank|capability")


def _follow(self: ExampleInterpreter, node: cst.BaseExpression, frame: Frame, *, wanted: bool) -> Any:
    """A check that should come out as ``wanted``: tensors whose dtype the code has not said take the one it asks for."""
    if not isinstance(node, cst.Comparison):
        return Interpreter.evaluate(self, node, frame)
    parts = [node.left, *(target.comparator for target in node.comparisons)]
    operators = {type(target.operator) for target in node.comparisons}
    if operators <= ({cst.Equal, cst.Is} if wanted else {cst.NotEqual, cst.IsNot}):
        owners = [
            self.evaluate(part.value, frame)
            for part in parts
            if isinstance(part, cst.Attribute) and part.attr.value == "dtype"
        ]
        others = [part for part in parts if not (isinstance(part, cst.Attribute) and part.attr.value == "dtype")]
        if owners and all(isinstance(owner, Tensor) for owner in owners) and len(others) <= 1:
            fixed = [owner.dtype for owner in owners if not owner.assumed]
            asked = torch_calls.dtype_of(self.evaluate(others[0], frame)) if others else (fixed or [owners[0].dtype])[0]
            if asked is not None:
                for owner in owners:
                    if owner.assumed:
                        owner.dtype, owner.assumed = asked, not others
                same = all(_alike(owner.dtype, asked) for owner in owners)
                return same if wanted else not same
    result = Interpreter.evaluate(self, node, frame)
    if not wanted and result is True and operators <= {cst.NotEqual, cst.LessThan, cst.GreaterThan}:
        left = self.evaluate(node.left, frame)
        return isinstance(left, (bool, str)) or not isinstance(left, (int, float, tuple))
    if (
        wanted
        and result is False
        and operators <= {cst.Equal, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual}
    ):
        return True
    return result


def _alike(left: Any, right: Any) -> bool:
    """Whether two dtypes are one, without a look at it where they are the caller's one choice."""
    if isinstance(left, CallersDtype) and isinstance(right, CallersDtype) and left.group == right.group:
        return True
    return bool(left == right)


_OWN: dict[type[cst.CSTNode], Any] = {
    cst.Attribute: _attribute,
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.Comparison: _tested,
    cst.BooleanOperation: _tested,
    cst.UnaryOperation: _tested,
    cst.Call: _tested,
}


# --------------------------------------------------------------------------------------------------------------- hints


@dataclass(frozen=True, slots=True)
class UnitHints:
    """For names of tensors in a piece of source, the rank and dimensions' names that unpacking or strides give them; asserted comparisons."""

    unit: Unit
    ranks: dict[str, tuple[int, tuple[str, ...]]]
    asserted: frozenset[int]
    guards: frozenset[int]  # tests of `if` statements that only raise


class Hints:
    """The hints of every piece of source that was asked for."""

    def __init__(self) -> None:
        self._known: dict[int, UnitHints] = {}
        self.parameters: dict[int, Any] = {}  # what functions' texts say of their parameters, by node

    def of(self, unit: Unit) -> UnitHints:
        known = self._known.get(id(unit))
        if known is None:
            finder = _Finder()
            unit.tree.visit(finder)
            for name, indices in finder.indices.items():
                rank = max(indices) + 1
                if name not in finder.ranks and rank >= 2 and rank - 2 in indices:
                    finder.ranks[name] = (rank, ())
            known = self._known[id(unit)] = UnitHints(
                unit, finder.ranks, frozenset(finder.asserted), frozenset(finder.guards)
            )
        return known


class _Finder(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.ranks: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.indices: dict[str, set[int]] = {}
        self.asserted: set[int] = set()
        self.guards: set[int] = set()

    def visit_If(self, node: cst.If) -> None:
        last = node.body.body[-1] if node.body.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        if isinstance(last, cst.Raise) and node.orelse is None:
            self.guards.add(id(node.test))

    def visit_Assert(self, node: cst.Assert) -> None:
        inner = _Comparisons()
        node.test.visit(inner)
        self.asserted |= inner.found

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if isinstance(target.target, (cst.Tuple, cst.List)):
                self._unpacked([e.value for e in target.target.elements], target.target.elements, node.value)

    def _unpacked(self, names: list[cst.BaseExpression], elements: Any, value: cst.BaseExpression) -> None:
        if any(isinstance(e, cst.StarredElement) for e in elements):
            return
        texts = [n.value if isinstance(n, cst.Name) else "" for n in names]
        owner = _shape_owner(value)
        if owner is not None:
            self.ranks.setdefault(owner, (len(texts), tuple(texts)))
        elif isinstance(value, (cst.Tuple, cst.List)):
            starred = [i for i, e in enumerate(value.elements) if isinstance(e, cst.StarredElement)]
            for at in starred[:1]:
                owner = _shape_owner(value.elements[at].value)
                rank = len(texts) - (len(value.elements) - 1)
                if owner is not None and len(starred) == 1:
                    self.ranks.setdefault(owner, (rank, tuple(texts[at : at + rank])))
                elif owner is None and len(starred) == 1:
                    inner = value.elements[at].value
                    if isinstance(inner, cst.Subscript):
                        self._sliced(inner, rank)

    def _sliced(self, node: cst.Subscript, count: int) -> None:
        owner = _shape_owner(node.value)
        piece = node.slice[0].slice
        if owner is not None and isinstance(piece, cst.Slice) and isinstance(piece.lower, cst.UnaryOperation):
            self.ranks.setdefault(owner, (max(count, 2), ()))

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("stride", "size") and len(node.args) == 1:
            self._index(node.func.value, node.args[0].value)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        if (
            isinstance(node.value, cst.Attribute)
            and node.value.attr.value == "shape"
            and isinstance(node.slice[0].slice, cst.Index)
        ):
            self._index(node.value.value, node.slice[0].slice.value)

    def _index(self, owner: cst.BaseExpression, index: cst.BaseExpression) -> None:
        if isinstance(owner, cst.Name) and isinstance(index, cst.Integer):
            self.indices.setdefault(owner.value, set()).add(int(index.value))


class _Comparisons(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[int] = set()

    def visit_Comparison(self, node: cst.Comparison) -> None:
        self.found.add(id(node))


def _shape_owner(node: cst.BaseExpression) -> str | None:
    """``x`` of ``x.shape`` and ``x.size()``."""
    if (
        isinstance(node, cst.Call)
        and not node.args
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("size", "stride")
    ):
        node = node.func
    elif not (isinstance(node, cst.Attribute) and node.attr.value == "shape"):
        return None
    return node.value.value if isinstance(node.value, cst.Name) else None


# -------------------------------------------------------------------------------------------------------------- models


class ExampleModels(Models):
    """What the evaluator knows of everything outside the source, with torch's functions on example tensors."""

    def __init__(self, models: Models) -> None:
        self.triton = models.triton

    def call(self, interpreter: Interpreter, function: External, call: Call) -> Any:
        path = self.canonical(function.path)
        if isinstance(interpreter, ExampleInterpreter):
            if path == "torch.autograd.Context":
                return call.unknown("a context is called")
            if path in ("triton.cdiv", "triton.next_power_of_2") and isinstance(call.argument(0, "x"), Tensor):
                return call.argument(0, "x")
            if path.startswith(("torch.", "einops.")):
                result = torch_calls.function(path, call, interpreter.plan.sizes)
                if result is not None:
                    return result
        return super().call(interpreter, function, call)

    def instance_attribute(self, interpreter: Interpreter, value: Instance, name: str, place: Place) -> Any:
        if isinstance(value, Tensor):
            return torch_calls.attribute(value, name)
        if isinstance(value, Shape) and name == "numel":
            return Builtin("numel", lambda call: torch_calls.method(value.of, "numel", call))
        if value.cls == External("torch.device"):
            return Obstacle(f"{name} of a device is not known", place)
        if value.cls == External("torch.autograd.Context"):
            return _context_attribute(value, name, place)
        return super().instance_attribute(interpreter, value, name, place)

    def decorate(self, interpreter: Interpreter, wrapper: Any, function: Any, place: Place) -> Any:
        """Decorators that make no kernel leave a function as it is: they check, cache, dispatch or make inputs contiguous."""
        if isinstance(function, UserFunction) and isinstance(
            wrapper, (UserFunction, BoundMethod, Partial, Obstacle, UserClass, External)
        ):
            text = function.statement.decorator_text if function.statement is not None else ""
            if not _MAKES_KERNELS.search(text) and not (isinstance(wrapper, External) and "triton" in wrapper.path):
                return (
                    super().decorate(interpreter, wrapper, function, place)
                    if isinstance(wrapper, External) and (wrapper.path.startswith(("builtins.", "functools.")))
                    else function
                )
        if isinstance(function, UserClass) and isinstance(wrapper, Obstacle):
            return function
        return super().decorate(interpreter, wrapper, function, place)


def example_project(project: Project) -> Project:
    """The same files, seen with example tensors."""
    view = copy.copy(project)
    view.models = ExampleModels(project.models)
    return view


def _context_attribute(value: Instance, name: str, place: Place) -> Any:
    if name == "save_for_backward":
        return Builtin(name, lambda call: value.attributes.__setitem__("saved_tensors", tuple(call.arguments)))
    if name in ("mark_non_differentiable", "set_materialize_grads", "mark_dirty"):
        return Builtin(name, lambda call: None)
    if name == "needs_input_grad":
        return Instance(External("torch.autograd.NeedsInputGrad"))
    if name == "saved_variables":
        return value.attributes.get("saved_tensors", Obstacle("no tensors were saved", place))
    return Obstacle(f"ctx.{name} is not known", place)


def is_autograd(cls: UserClass) -> bool:
    """Whether a class of the source is a ``torch.autograd.Function``."""
    return any(isinstance(base, External) and base.path.startswith("torch.autograd") for base in cls.ancestry())


def apply(interpreter: Interpreter, cls: Any, call: Call) -> Any:
    """``Function.apply``: the forward pass, and then the backward pass with gradients like the outputs."""
    if not isinstance(cls, UserClass):
        return call.unknown("an unknown autograd function is applied")
    context = Instance(External("torch.autograd.Context"))
    forward = cls.lookup("forward")
    try:
        setup = cls.lookup("setup_context")
    except KeyError:
        setup = None
    arguments = list(call.arguments) if setup is not None else [context, *call.arguments]
    result = interpreter.call(forward, arguments, call.keywords, call.place, call.open)
    if setup is not None:
        interpreter.call(setup, [context, tuple(call.arguments), result], {}, call.place)
    try:
        backward = cls.lookup("backward")
    except KeyError:
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    gradients: list[Any] = [
        torch_calls.like(o, geometry=torch_calls.contiguous(o.geometry)) if isinstance(o, Tensor) else None
        for o in outputs
    ]
    if isinstance(result, Obstacle):
        gradients = [result.again()]
    with contextlib.suppress(Raised):
        interpreter.call(backward, [context, *gradients], {}, call.place)
    return result
