"""Names of modules that stay the same from one example run to the next, so that no run evaluates them twice.

An example run differs from another in its arguments only. What a module's top level makes of a definition is the same for
all of them, unless a condition that nothing tells was met on the way: then each run decides it for itself. It is found out
in a run apart, that of no entry: neither the steps of the run that asks first nor anything that it did count for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from smemcheck.source.lasting import cannot_change, keeps_state, own
from smemcheck.source.memo import Memo
from smemcheck.source.module import Module
from smemcheck.source.namespace import Namespace
from smemcheck.source.values import Blocked, Builtin, HeuristicsValue, KernelValue, Raised, TunerValue, UserFunction

if TYPE_CHECKING:
    from smemcheck.specialize.launches.engine import ExampleInterpreter


@dataclass(frozen=True, slots=True)
class Lasting:
    """The value of a name in every run, and whether the target was consulted for it."""

    value: Any
    consulted_target: bool


Remembered: TypeAlias = Memo[Lasting | None]
"""By the module's path and the name; ``None`` for what each run has to evaluate."""


class RememberingNamespace(Namespace):
    """The top level of a module that takes from earlier runs what cannot differ."""

    interpreter: ExampleInterpreter

    def lookup(self, name: str) -> Any:
        if name in self._set or self.module.path in self.interpreter.times:
            return super().lookup(name)
        remembered, key = self.interpreter.remembered, (self.module.path, name)
        lasting = None if remembered.meets(key) else remembered.answer(key, lambda: self._apart(name))
        if lasting is None:
            return super().lookup(name)
        self.interpreter.consulted_target |= lasting.consulted_target
        return own(lasting.value, self.interpreter.copies)

    def _apart(self, name: str) -> Lasting | None:
        """The value that a name has in every run; ``None`` where there is none."""
        if not self._binders(name):
            return None
        apart = self.interpreter.apart()
        with self.interpreter.set_aside():
            try:
                value = Namespace.lookup(apart.namespace(self.module), name)
            except (Raised, Blocked, RecursionError, ArithmeticError, LookupError, TypeError, ValueError):
                return None  # who asks meets it again
            finally:
                apart.restore()
        depends = apart.choices or apart.launches or apart.dtype_groups
        if depends or not _is_lasting(value, self.module, name):
            return None
        self.interpreter.memory.share(value)
        return Lasting(value, apart.consulted_target)


def _is_lasting(value: Any, module: Module, name: str) -> bool:
    """Whether no run can bind the name to another value, and what a run changes of this one is its own."""
    if name in module.declared_global:
        return False
    if isinstance(value, UserFunction):
        return value.parent is None and not keeps_state(value) and all(map(cannot_change, value.defaults.values()))
    if isinstance(value, Builtin) and any(module.statements[i].defined_name == name for i in module.mentioning(name)):
        return False  # a decorator may have made it, with a memory of its calls
    if isinstance(value, TunerValue):
        return value.instance is None
    return isinstance(value, (KernelValue, HeuristicsValue)) or cannot_change(value)
