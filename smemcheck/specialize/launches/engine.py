"""One example run of launch code: the evaluator with example tensors, which notes every launch of a kernel.

Where the code asks something that is not known (an optional tensor, a flag, a condition), the run takes one alternative and
remembers that there was a choice. A plan fixes choices; the search over plans is in :mod:`smemcheck.specialize.launches.search`.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import libcst as cst

from smemcheck.model import Config
from smemcheck.source.attributes import get_attribute, innermost_kernel
from smemcheck.source.expressions import EXPRESSIONS, subscript_key
from smemcheck.source.freeze import freeze_config
from smemcheck.source.interpreter import Condition, Interpreter, Limits, Memory, World
from smemcheck.source.module import Module
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
    Place,
    Raised,
    TunerValue,
    UserClass,
    UserFunction,
)
from smemcheck.specialize.launches import torch_calls
from smemcheck.specialize.launches.alternatives import NOTHING, entry_of_table
from smemcheck.specialize.launches.autograd import apply, is_autograd, registered_backward
from smemcheck.specialize.launches.cases import Case
from smemcheck.specialize.launches.checks import tested
from smemcheck.specialize.launches.hints import Hints
from smemcheck.specialize.launches.plans import Choice, Launch, Plan
from smemcheck.specialize.launches.remembered import Remembered, RememberingNamespace
from smemcheck.specialize.launches.tensors import CallersDtype, Geometry, Shape, Tensor
from smemcheck.specialize.launches.torch_modules import forward_of, is_module

_PATIENCE = 3_000  # steps
_ENDS_TEST = ("Skipped", "ImportError", "ModuleNotFoundError")
LIMITS = Limits(steps=20_000, size=20_000, depth=40, paths=8)


class ExampleInterpreter(Interpreter):
    """An interpreter that follows a plan and notes launches."""

    def __init__(
        self, project: Project, world: World, memory: Memory, plan: Plan, hints: Hints, remembered: Remembered
    ) -> None:
        super().__init__(project, world, [], LIMITS, memory)
        self.remembered = remembered
        self.copies: dict[int, tuple[Any, Any]] = {}  # of remembered tuners, which a run may change
        self.plan = plan
        self.hints = hints
        self.chosen = dict(plan.choices)
        self.choices: dict[Hashable, Choice] = {}
        self.launches: list[Launch] = []
        self.thresholds: dict[tuple[int, int], None] = {}  # numbers of the example, and what they are compared with
        self.layers: dict[str, Instance] = {}  # examples that the methods of an object share
        self.failed = False  # it ended in an exception
        self.end: Hashable = (
            None  # equal for runs that ended in the same exception at the same place, as many launches behind
        )
        self.solved: dict[int, int] = {}  # sizes that failed a check, and what would have passed
        self.dtype_groups: set[str] = set()
        self.seen_dtypes: set[str] = set()  # groups of the caller's dtypes at which the code looked
        self.case: Case | None = None  # of a test: what it calls its function with, or each of its methods
        self._depth = 0  # of calls of functions of the source
        # The step at which a call that a test made and that launched nothing is given up.
        self._seen: dict[Hashable, int] = {}

    def namespace(self, module: Module) -> Namespace:
        found = self.namespaces.get(module.path)
        if found is None:
            found = self.namespaces[module.path] = RememberingNamespace(self, module)
        return found

    def apart(self) -> ExampleInterpreter:
        """A run of no entry, for what is the same in all runs."""
        return ExampleInterpreter(self.project, self.world, self.memory, Plan(), self.hints, self.remembered)

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
        where: Hashable = place.key if isinstance(place, Place) else place
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
        kind = type(node)
        handler = _HANDLERS.get(kind)
        self.steps += 2 if handler is None else 1  # not by a call: no other place is passed as often
        if self.steps > self.last_step:
            raise Blocked(self.out_of_steps())
        handler = handler or EXPRESSIONS.get(kind)
        return super().evaluate(node, frame) if handler is None else handler(self, node, frame)

    def call(
        self, function: Any, arguments: list[Any], keywords: dict[str, Any], place: Place, open_: Obstacle | None = None
    ) -> Any:
        if isinstance(function, Builtin) and function.name.rpartition(".")[2] == "len" and len(arguments) == 1:
            if isinstance(arguments[0], Tensor):
                return arguments[0].geometry.settled()[0]
            if isinstance(arguments[0], Shape):
                return len(arguments[0].of.geometry.settled())
        arguments = [_plain(a) for a in arguments]
        if is_module(function):
            forward = forward_of(function)
            function = BoundMethod(forward, function) if isinstance(forward, UserFunction) else forward or function
        if self.case is not None and isinstance(function, UserFunction):
            result = self._call_from_test(function, arguments, keywords, place, open_)
        else:
            result = super().call(function, arguments, keywords, place, open_)
        if isinstance(function, UserFunction) and function.statement is not None and open_ is None:
            registered_backward(self, function, arguments, keywords, result, place)
        return result

    def _call_from_test(
        self,
        function: UserFunction,
        arguments: list[Any],
        keywords: dict[str, Any],
        place: Place,
        open_: Obstacle | None,
    ) -> Any:
        """Call a function in the run of a test. What the test itself calls may fail or take too long without ending the test:
        references in plain torch go step by step through a sequence, and only their results are compared.
        """
        self._depth += 1
        called_by_test = self._depth == 2
        if called_by_test:
            self.last_step = min(self.steps + _PATIENCE, self.limits.steps)
        try:
            return super().call(function, arguments, keywords, place, open_)
        except (Raised, Blocked) as exception:
            if not called_by_test or (isinstance(exception, Raised) and exception.name in _ENDS_TEST):
                raise
            return Obstacle(f"{function.name}() ends with: {exception}", place)
        finally:
            self._depth -= 1
            if called_by_test:
                self.last_step = self.limits.steps

    def out_of_steps(self, place: Place | None = None) -> Obstacle:
        if self.steps > self.limits.steps:
            return super().out_of_steps(place)
        return Obstacle("it goes on for long and launches nothing", place)

    def ended_by(self, exception: Exception) -> None:
        """Note the exception that ended the run."""
        place = exception.obstacle.place if isinstance(exception, Blocked) else getattr(exception, "place", None)
        where: Hashable = place
        if isinstance(place, Place):
            where = place.unit.module.path, place.unit.line, id(place.node)
        self.failed = True
        self.end = type(exception), str(exception), where, len(self.launches)

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
        self.last_step = self.limits.steps
        made = functools.partial(self._configs, outer)
        self.launches.append(
            Launch(
                kernel.function.place.position,
                arguments,
                options,
                call.place.position,
                made,
                consulted_target=self.consulted_target,
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
        if name in value.attributes and name != "grad":  # which every backward pass sets anew
            return value.attributes[name]
        if (
            name in ("shape", "size", "ndim", "dim", "stride")
            and isinstance(node.value, cst.Name)
            and value.geometry.dims is None
        ):
            hint = self.hints.ranks(frame.unit).get(node.value.value)
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
                return tuple(value.of.geometry.settle(max(2, 1 - key.stop, value.of.geometry.deepest)))[key]
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
            Geometry(self.plan.sizes) if operator is cst.MatrixMultiply else torch_calls.broadcast(found),
            assumed,
            "",
        )
    if operator not in BINARY:
        return Obstacle("matrix multiplication is not modelled", place)
    return binary(self, operator, left, right, place)


def _plain(value: Any) -> Any:
    return tuple(value.of.geometry.settled()) if isinstance(value, Shape) else value


_HANDLERS: dict[type[cst.CSTNode], Any] = {
    **EXPRESSIONS,
    cst.Attribute: _attribute,
    cst.Subscript: _subscript,
    cst.BinaryOperation: _binary,
    cst.Comparison: tested,
    cst.BooleanOperation: tested,
    cst.UnaryOperation: tested,
    cst.Call: tested,
}
