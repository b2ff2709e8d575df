"""Which example runs are made: the search over plans, and the launches that every kernel had in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import python_files
from smemcheck.source.interpreter import Memory
from smemcheck.source.module import Module
from smemcheck.source.values import Blocked, Raised
from smemcheck.specialize.launches.engine import Choice, ExampleInterpreter, Hints, Launch, Plan, example_project
from smemcheck.specialize.launches.entries import Callers, Entry, start
from smemcheck.specialize.launches.remembered import Remembered
from smemcheck.specialize.launches.tensors import Sizes

MOST_RUNS = 40  # of one entry
MOST_FRUITLESS = 9  # runs in a row without a launch of a new kind; one without any launch counts as three
MOST_SIGNATURES = 64  # kinds of launches of one kernel
ENOUGH = 24  # kinds of launches after which inner functions are not tried
_SINGLE_LATER = 1.5  # how much later the same launch with 32-bit floats comes
_INNER = 2.5  # how much later an inner function's launches come than those of a function that users call
_HALF, _SINGLE = "torch.float16", "torch.float32"
_WIDE = Sizes(dimension=128)
_PLANS = (
    Plan(),
    Plan(optional=True, flags=True, sizes=_WIDE),
    Plan(optional=True, indices=True, sizes=Sizes(batch=1)),
    Plan(optional=True, indices=True, flags=True, index="torch.int64", sizes=Sizes(batch=1, dimension=128)),
    Plan(optional=True),
    Plan(flags=True, sizes=_WIDE),
    Plan(indices=True, sizes=Sizes(batch=1)),
    Plan(sizes=_WIDE),
)
"""The first example runs, plainest first; each is repeated with 32-bit floats."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch, and how far from the plainest example its run was: 0 is the plain one."""

    launch: Launch
    plan: Plan
    entry: str
    effort: float


class Launches:
    """The launches of a project's kernels. Entries are run once, whichever kernel asks first."""

    def __init__(
        self, analysis: Analysis, target: str, root: str, exclude: Sequence[str], respect_gitignore: bool
    ) -> None:
        evaluator = analysis.evaluators[target]
        self.world = evaluator.world
        self.project = example_project(evaluator.project)
        self.memory = Memory()
        self.hints = Hints()
        self.remembered: Remembered = {}
        self.callers = Callers(list(_modules(analysis, root, exclude, respect_gitignore)))
        self.ranks: dict[tuple[str, int], int] = {}  # by entry: the rank of tensors with which it runs
        self.run_entries: set[tuple[str, int]] = set()
        self.signatures: dict[tuple[str, int], set[Hashable]] = defaultdict(set)
        self.found: dict[tuple[str, int], list[Recorded]] = defaultdict(list)

    def of(self, path: str, name: str, line: int) -> list[Recorded]:
        """The launches of the kernel whose ``def`` stands on ``line``, plainest first."""
        for entry, outermost in self.callers.reaching(path, name, line):
            if len(self.signatures[(path, line)]) >= ENOUGH and not outermost:
                break
            if entry.key not in self.run_entries:
                self.run_entries.add(entry.key)
                self._explore(entry, 0.0 if outermost else _INNER)
        return sorted(self.found[(path, line)], key=lambda one: one.effort)

    def _explore(self, entry: Entry, penalty: float) -> None:
        """Run an entry under plans, plainest first. A run that launches nothing new leads to no further ones."""
        pending: list[tuple[float, Plan]] = [(float(i), plan) for i, plan in enumerate(_PLANS)]
        flipped: set[Hashable] = set()
        kinds_of_choices: set[str] = set()
        tried: set[Hashable] = set()
        runs = fruitless = 0
        while pending and runs < MOST_RUNS and fruitless < MOST_FRUITLESS:
            pending.sort(key=lambda item: item[0])
            effort, plan = pending.pop(0)
            effective = _effective(plan, kinds_of_choices)
            if effective in tried:
                continue
            tried.add(effective)
            runs += 1
            interpreter, plan = self._fitting(entry, plan)
            news = 0
            for launch in interpreter.launches:
                place = launch.kernel.function.place.position
                key = (place.path, place.line)
                kinds = launch.kinds()
                if len(self.signatures[key]) < MOST_SIGNATURES and kinds not in self.signatures[key]:
                    self.signatures[key].add(kinds)
                    news += 1
                self.found[key].append(Recorded(launch, plan, entry.statement.defined_name or "", effort + penalty))
            kinds_of_choices.update(choice.kind for choice in interpreter.choices.values())
            fruitless = 0 if news else fruitless + (1 if interpreter.launches else 3)
            if plan.dtype == _SINGLE or (not news and runs > len(_PLANS)):
                continue
            if interpreter.launches:
                pending.append((effort + _SINGLE_LATER, replace(plan, dtype=_SINGLE)))
            for choice in interpreter.choices.values():
                pending.extend(_flips(choice, plan, effort, flipped))

    def _fitting(self, entry: Entry, plan: Plan) -> tuple[ExampleInterpreter, Plan]:
        """A run of the plan; when it raises without a launch, the same with tensors of other ranks."""
        rank = self.ranks.get(entry.key)
        if rank is not None:
            plan = replace(plan, sizes=replace(plan.sizes, rank=rank))
            return self._run(entry, plan)[0], plan
        first: tuple[ExampleInterpreter, Plan] | None = None
        for rank in (4, 3, 2):
            attempt = replace(plan, sizes=replace(plan.sizes, rank=rank))
            interpreter, raised = self._run(entry, attempt)
            if interpreter.launches and not raised:
                self.ranks[entry.key] = rank
                return interpreter, attempt
            if first is None or len(interpreter.launches) > len(first[0].launches):
                first = interpreter, attempt
            if not raised:
                break
        assert first is not None
        return first

    def _run(self, entry: Entry, plan: Plan) -> tuple[ExampleInterpreter, bool]:
        interpreter = ExampleInterpreter(self.project, self.world, self.memory, plan, self.hints, self.remembered)
        try:
            start(interpreter, entry)
        except (Raised, Blocked, RecursionError):  # launches made before that point count
            return interpreter, True
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
        ):  # an example that makes no sense costs its run only
            return interpreter, True
        return interpreter, False


_COST = {"optional": 5, "index": 5, "flag": 5, "text": 5, "value": 8, "dtype": 7, "condition": 8}


def _effective(plan: Plan, kinds: set[str]) -> Hashable:
    """What of a plan can make a difference where code makes these kinds of choices."""
    flags = plan.flags and not kinds.isdisjoint(("flag", "text", "value"))
    optional, indices = plan.optional and "optional" in kinds, plan.indices and "index" in kinds
    return (
        plan.choices,
        plan.dtype,
        plan.sizes.dimension,
        plan.sizes.batch,
        optional,
        indices,
        flags,
        plan.index if indices else "",
    )


def _flips(choice: Choice, plan: Plan, effort: float, flipped: set[Hashable]) -> Iterator[tuple[float, Plan]]:
    cost = _COST.get(choice.kind)
    if cost is None or any(key == choice.key for key, _ in plan.choices):
        return
    for other in range(choice.count):
        if other == choice.taken or (choice.key, other) in flipped:
            continue
        flipped.add((choice.key, other))
        yield effort + cost, replace(plan, choices=(*plan.choices, (choice.key, other)))


def _modules(analysis: Analysis, root: str, exclude: Sequence[str], respect_gitignore: bool) -> Iterator[Module]:
    project = analysis.project
    for path in python_files(root, exclude, respect_gitignore):
        try:
            with open(path, "rb") as file:
                data = file.read()
            if (b"torch" not in data and b"triton" not in data) or b"import jax" in data:
                continue
        except OSError:
            continue
        module = project.module(path)
        if module is not None:
            yield module
