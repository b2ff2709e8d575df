"""Names of modules that stay the same from one example run to the next, so that no run evaluates them twice.

An example run differs from another in its arguments only. What a module's top level makes of a definition is the same for
all of them, unless a condition that nothing tells was met on the way: then each run decides it for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smemcheck.source.interpreter import Interpreter
from smemcheck.source.module import Module
from smemcheck.source.namespace import Namespace, cannot_change, keeps_state
from smemcheck.source.values import Builtin, HeuristicsValue, KernelValue, TunerValue, UserFunction

if TYPE_CHECKING:
    from collections.abc import Callable

Remembered = dict[tuple[str, str], tuple[Any, bool]]
"""Values by the module's path and the name, each with whether the target was consulted for it."""


class RememberingNamespace(Namespace):
    """The top level of a module that takes from earlier runs what cannot differ. ``asked`` counts the run's choices."""

    def __init__(
        self, interpreter: Interpreter, module: Module, remembered: Remembered, asked: Callable[[], int]
    ) -> None:
        super().__init__(interpreter, module)
        self._remembered = remembered
        self._asked_for = asked

    def lookup(self, name: str) -> Any:
        if name in self._set or self.module.path in self.interpreter.times:
            return super().lookup(name)
        key = (self.module.path, name)
        if key in self._remembered:
            value, consulted = self._remembered[key]
            self.interpreter.consulted_target |= consulted
            return value
        before, consulted_before = self._asked_for(), self.interpreter.consulted_target
        self.interpreter.consulted_target = False
        value = super().lookup(name)
        if self._asked_for() == before and _is_lasting(value, self.module, name):
            self._remembered[key] = value, self.interpreter.consulted_target
        self.interpreter.consulted_target |= consulted_before
        return value


def _is_lasting(value: Any, module: Module, name: str) -> bool:
    """Whether no run can change the value, or bind its name to another."""
    if name in module.declared_global:
        return False
    if isinstance(value, UserFunction):
        return value.parent is None and not keeps_state(value)
    if isinstance(value, Builtin):  # a decorator may have made it, with a memory of its calls
        return not any(module.statements[i].defined_name == name for i in module.mentioning(name))
    return isinstance(value, (KernelValue, HeuristicsValue, TunerValue)) or cannot_change(value)
