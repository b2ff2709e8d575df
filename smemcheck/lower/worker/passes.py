"""What a backend's stages ask of MLIR, written down first and run after: so that equal beginnings are run once.

The stages of ``triton/backends/*/compiler.py`` (3.2 to 3.9) add passes to a pass manager and run it. Here they are given a
manager that only takes notes, and options that say when they are read. Then it is known which passes come before the
first look at ``num_stages``: their result serves every config that differs in nothing else, whatever a version's
passes are called. What comes after the last look depends on the module alone.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from .frontend import Printed, parse, text_of
from .versions import BACKEND_LIBRARY

_MANAGER = "pass_manager"


class UnnotedError(Exception):
    """A stage wants something of its module or manager that only a real one can answer."""


class Step:
    """One pass with its arguments, or a change to the module (``manager`` 0). Passes of one manager run together."""

    __slots__ = ("add", "arguments", "manager", "name")

    def __init__(self, name: str, add: Callable[..., Any], arguments: Tuple[Any, ...], manager: int) -> None:
        self.name, self.add, self.arguments, self.manager = name, add, arguments, manager

    def __repr__(self) -> str:
        return f"{self.name}{self.arguments!r}"


class Notes:
    """What stages asked for: ``steps`` in order, and for each option that was read, how many steps stood there each time."""

    def __init__(self, left_out: FrozenSet[str] = frozenset()) -> None:
        self.steps: List[Step] = []
        self.reads: Dict[str, List[int]] = {}
        self.left_out = left_out
        self.managers = 0

    def first_read(self, option: str) -> int:
        """How many steps do not depend on the option, from the start on."""
        return self.reads[option][0] if option in self.reads else len(self.steps)

    def last_read(self, option: str) -> int:
        """After how many steps the option is not read any more, the step that was noted after the last read included.

        A later step may still depend on it, through what was made of it: compare the steps, too.
        """
        return min(self.reads[option][-1] + 1, len(self.steps)) if option in self.reads else 0

    def read_before(self, step: int) -> FrozenSet[str]:
        """The options that the first steps may depend on."""
        return frozenset(option for option, places in self.reads.items() if places[0] < step)


class NotedOptions:
    """The backend's options; each read is noted."""

    def __init__(self, options: Any, notes: Notes) -> None:
        self.__dict__.update(_options=options, _notes=notes)

    def __getattr__(self, name: str) -> Any:
        notes: Notes = self.__dict__["_notes"]
        notes.reads.setdefault(name, []).append(len(notes.steps))
        return getattr(self.__dict__["_options"], name)


class _Manager:
    """Stands for ``ir.pass_manager``."""

    def __init__(self, notes: Notes) -> None:
        notes.managers += 1
        self.number = notes.managers

    def enable_debug(self) -> bool:
        return False

    def run(self, *_: Any) -> None:
        """The passes run when all stages have said what they want."""

    def __getattr__(self, name: str) -> Any:
        raise UnnotedError(f"pass_manager.{name}")


class StandIn:
    """A module as the stages see it before there is one: they set attributes of it, and ask for what was found in it."""

    def __init__(self, context: Any, notes: Notes) -> None:
        self.context, self._notes = context, notes

    def set_attr(self, name: str, attribute: Any) -> None:
        self._notes.steps.append(Step("set_attr", lambda module, *pair: module.set_attr(*pair), (name, attribute), 0))

    def get_tensordesc_metadata(self) -> None:
        """For the launcher's use; no stage looks at it."""

    def __getattr__(self, name: str) -> Any:
        raise UnnotedError(f"module.{name}")


class _Library:
    """A module of libtriton of which the functions note their call when they are given a :class:`_Manager`."""

    def __init__(self, library: ModuleType, notes: Notes, replaced: Dict[str, Any]) -> None:
        self._library, self._notes, self._replaced = library, notes, replaced

    def __getattr__(self, name: str) -> Any:
        if name in self._replaced:
            return self._replaced[name]
        found = getattr(self._library, name)
        if isinstance(found, ModuleType):
            return _Library(found, self._notes, self._replaced)
        if not callable(found) or isinstance(found, type):
            return found

        def noted(*arguments: Any) -> Any:
            if not (arguments and isinstance(arguments[0], _Manager)):
                return found(*arguments)
            if name not in self._notes.left_out:
                self._notes.steps.append(
                    Step(f"{self._library.__name__}.{name}", found, arguments[1:], arguments[0].number)
                )
            return None

        return noted


class Noting:
    """A context manager: inside, the backend's stages write to ``notes``. ``replaced`` stands for passes of these names."""

    def __init__(self, backend: Any, target: Any, notes: Notes, replaced: Optional[Dict[str, Any]] = None) -> None:
        # The globals of the backend's compiler module, which 3.2 and 3.3 load without listing it in sys.modules.
        self._scope: Dict[str, Any] = type(backend).make_llir.__globals__
        replaced = dict(replaced or {})
        replaced[_MANAGER] = lambda *_: _Manager(notes)
        names = ("ir", "passes", BACKEND_LIBRARY[target.backend])
        self._real = {name: self._scope[name] for name in names}
        self._noted = {name: _Library(library, notes, replaced) for name, library in self._real.items()}

    def __enter__(self) -> None:
        self._scope.update(self._noted)

    def __exit__(self, *_: object) -> None:
        self._scope.update(self._real)


def run(module: Any, steps: List[Step], name: Tuple[str, ...]) -> None:
    """Apply steps to the module. ``name`` is what ``pass_manager.run`` takes beside the module.

    Raises RuntimeError, as Triton does, when a pass fails.
    """
    from triton._C.libtriton import ir

    manager, number = None, 0
    for step in steps:
        if manager is not None and step.manager != number:
            manager.run(module, *name)
            manager = None
        if not step.manager:
            step.add(module, *step.arguments)
            continue
        if manager is None:
            manager, number = ir.pass_manager(module.context), step.manager
            manager.enable_debug()
        step.add(manager, *step.arguments)
    if manager is not None:
        manager.run(module, *name)


_MOST_TEXTS = 64  # of some hundred kilobytes each


class Beginnings:
    """Modules that several configs have on their way, as text: those of the kernel at hand."""

    def __init__(self) -> None:
        self._texts: Dict[Tuple[Any, ...], str] = {}

    def forget(self) -> None:
        self._texts.clear()

    def module(
        self, printed: Printed, notes: Notes, options: Any, target: Any, places: List[int], name: Tuple[str, ...]
    ) -> Any:
        """The module after as many steps as the last of ``places`` says, which rise; at each of them others may go on.

        Two ways from one printed module are the same up to a place where the options that were read before it are.
        """
        keys = [(printed.text, target, place, _values(options, notes.read_before(place))) for place in places]
        known = max((index for index, key in enumerate(keys) if key in self._texts), default=-1)
        module = printed.take() if known < 0 else parse(self._texts[keys[known]], printed.context)
        done = places[known] if known >= 0 else 0
        for key, place in list(zip(keys, places))[known + 1 :]:  # noqa: B905 (Python 3.9)
            run(module, notes.steps[done:place], name)
            if len(self._texts) >= _MOST_TEXTS:
                del self._texts[next(iter(self._texts))]
            self._texts[key] = text_of(module)
            done = place
        return module


def _values(options: Any, names: FrozenSet[str]) -> Tuple[Tuple[str, str], ...]:
    return tuple((name, repr(getattr(options, name))) for name in sorted(names))
