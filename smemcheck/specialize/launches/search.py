"""Which example runs are made: the search over plans, and the launches that every kernel had in them."""

from __future__ import annotations

import contextlib
import gc
import heapq
import itertools
import math
import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import files_of_tests, python_files
from smemcheck.source.interpreter import Memory, nested_deeply
from smemcheck.source.lasting import own
from smemcheck.source.memo import Memo
from smemcheck.source.values import Blocked, Raised
from smemcheck.specialize.launches.cases import Case, cases_of
from smemcheck.specialize.launches.condensed import condensed, key_of
from smemcheck.specialize.launches.departures import (
    FIRST_INPUTS,
    FIRST_PLANS,
    NUDGE,
    beyond,
    cost_of,
    effective_part,
    flips,
    other_dtypes,
)
from smemcheck.specialize.launches.engine import LIMITS, ExampleInterpreter
from smemcheck.specialize.launches.entries import Callers
from smemcheck.specialize.launches.explorations import Exploration, Recorded
from smemcheck.specialize.launches.hints import Hints
from smemcheck.specialize.launches.library import example_project
from smemcheck.specialize.launches.plans import Launch, Plan
from smemcheck.specialize.launches.remembered import Remembered
from smemcheck.specialize.launches.starts import start
from smemcheck.specialize.launches.tensors import Sizes
from smemcheck.specialize.launches.texts import modules_that_may_launch

MOST_RUNS = 160  # of one entry that users call
_MOST_INNER_RUNS = 24  # of one that other entries call
_FEWEST_RUNS = 40, 16  # of either that are made however long they take
_MOST_STEPS = 80_000  # of the runs of one entry
_MOST_STEPS_IN_ALL = 1_000_000  # of an entry, with those of other ranks and sizes, however few runs they are
_MOST_PARSED = 800_000  # characters of source whose trees are kept from one entry to the next; each takes 50 bytes
MOST_FRUITLESS = 12  # runs in a row without a launch of a new kind; one without any launch counts as three
MOST_SIGNATURES = 160  # kinds of launches of one kernel
ENOUGH = 48  # kinds of launches after which inner functions are not tried
_RANKS = 4, 3, 2  # of tensors that the code does not tell the rank of, as they are tried
_ALIKE = 2
"""Plans that ended at one place whatever the rank, after which other ranks are not tried for those that end there."""
_INNER = 2.2  # how much later an inner function's launches come than those of a function that users call
_DIMENSIONS = ((64, 0), (128, 0), (32, 0), (256, 0), (64, 128), (128, 256), (16, 0), (512, 0))
"""Of heads, as recorded launches have them, the most common first; then that of values where it is another one."""
_IN_TURN = 4  # of these that further kinds of launches take
_RESIZED = 16  # kinds of launches of a kernel that are shown with other dimensions
_SHOWN = 8  # specialisations that a kernel has when the user does not say how many
_MOST_BUILDER_RUNS = 10


class Launches:
    """The launches of a project's kernels. Entries are run once for all kernels."""

    def __init__(
        self,
        analysis: Analysis,
        target: str,
        root: str,
        exclude: Sequence[str],
        respect_gitignore: bool,
        other: Launches | None = None,
    ) -> None:
        """``other`` are those of the same root on another target."""
        evaluator = analysis.evaluators[target]
        self.world = evaluator.world
        self.project = example_project(evaluator.project)
        self._begin()
        self.callers: Callers
        if other:
            self.callers = other.callers
        else:
            scanned = modules_that_may_launch(analysis, python_files(root, exclude, respect_gitignore))
            beside = modules_that_may_launch(analysis, files_of_tests(root, exclude, respect_gitignore))
            self.callers = Callers(scanned, beside, os.path.realpath(root))
        self.consulted_target = False  # whether a run for the kernel asked about last was told something of the device
        # Kernels of which the launches are asked for the configs of the autotuners around them.
        self.listed: set[tuple[str, int]] = other.listed if other else set()
        self._explored: dict[tuple[tuple[str, int], bool], Exploration] = {}

    def forget(self) -> None:
        """Drop what example runs launched, once nobody is left to ask for it. Who calls what stays known."""
        self._explored.clear()
        self.project.held.release()
        self._begin()

    def _begin(self) -> None:
        """Know nothing of the source but its text: no tree, and nothing that was evaluated."""
        self.memory = Memory(LIMITS)
        self.hints = Hints()
        self.remembered: Remembered = Memo()
        self._releases = self.project.held.releases

    def _make_room(self) -> None:
        """Let go of what was parsed and evaluated, once it is much. Example runs evaluate again what they need of it."""
        held = self.project.held
        much = held.parsed > _MOST_PARSED
        if much:
            held.release()
        if self._releases != held.releases:
            self._begin()
        if much:
            gc.collect()  # runs are full of cycles, each of which would keep its trees

    def of(self, path: str, name: str, line: int) -> list[Recorded]:
        """The launches of the kernel whose ``def`` stands on ``line``, plainest first."""
        explorations = list(self._explorations(path, name, line))
        self.consulted_target = any(explored.consulted_target for explored in explorations)
        found = [one for explored in explorations for one in explored.found.get((path, line), ())]
        return self._with_other_dimensions(sorted(found, key=lambda one: one.effort))

    def _explorations(self, path: str, name: str, line: int) -> Iterator[Exploration]:
        """What was found from each entry that may lead to the kernel."""
        kinds: set[Hashable] = set()
        built = False  # by modules as users make them: what inner functions might be called with besides is invented
        for entry, outermost in self.callers.reaching(path, name, line):
            if len(kinds) >= ENOUGH and not outermost:
                break
            if not outermost and (built or (kinds and entry.is_private)):
                continue
            explored = self._explored.get((entry.key, outermost))
            if explored is None:
                self._make_room()
                explored = self._explored[entry.key, outermost] = Exploration(entry, outermost)
                self._explore(explored)
            self.callers.entered.setdefault(path, []).append(explored.entered)
            kinds |= explored.kinds.get((path, line), set())
            built |= entry.builds and (path, line) in explored.kinds
            yield explored

    def _with_other_dimensions(self, found: list[Recorded]) -> list[Recorded]:
        """The launches, those of each further kind with another dimension first, so that few specialisations show many.

        Where there are few kinds, the first ones come with every dimension.
        """
        seen: dict[Hashable, Recorded] = {}
        for one in found:
            seen.setdefault(one.launch.kinds(one.plan), one)
        distinct = list(seen.values())[:_RESIZED]
        made: list[Recorded] = []
        for number, one in enumerate(distinct):
            rounds = max(1, _SHOWN // len(distinct))
            for step in range(rounds):
                # Kinds take the first ones in turn; where there are few kinds, the same ones come with the rest too.
                at = (number + step) % _IN_TURN if step < _IN_TURN else step
                other = self._resized(one, *_DIMENSIONS[at])
                if other is None and _DIMENSIONS[at][1]:  # it has one dimension only
                    other = self._resized(one, *_DIMENSIONS[at + 1])
                if other is not None:
                    # Before the original where it takes its place, after all else of its cost where it is one more.
                    made.append(replace(other, effort=one.effort - NUDGE if step == 0 else one.effort + step * NUDGE))
        return sorted([*made, *found], key=lambda one: one.effort)

    def _resized(self, recorded: Recorded, dimension: int, values: int) -> Recorded | None:
        """The same kind of launch with another dimension, or two; ``None`` where nothing that is passed shows the dimension."""
        plan, launch = recorded.plan, recorded.launch
        passed = [value for value in launch.arguments.values() if type(value) is int]
        exploration = recorded.exploration
        assert exploration is not None  # only what this run found is shown with other dimensions
        if plan.case is not None or exploration.entry.builds:  # those have sizes of their own
            return None
        same = (plan.sizes.dimension, plan.sizes.values) == (dimension, values)
        if same or plan.sizes.dimension not in passed:
            return None
        changed = replace(plan, sizes=replace(plan.sizes, dimension=dimension, values=values))
        if changed not in exploration.resized:
            self._make_room()
            # What it meets is its own: which kernel asks for it first tells nothing of the others.
            apart = replace(exploration, solved=dict(exploration.solved))
            exploration.resized[changed] = self._kept(self._run(apart, changed))
        kinds = launch.kinds(plan)
        for other in exploration.resized[changed]:
            shown = not values or values in other.arguments.values()
            if other.kernel == launch.kernel and other.kinds(changed) == kinds and shown:
                return replace(recorded, launch=other, plan=changed)
        return None

    def _explore(self, exploration: Exploration) -> None:
        """Run an entry under plans, likeliest first. A change that makes no difference is not tried again."""
        serial = itertools.count()
        builds = exploration.entry.builds
        exploration.cases = self._cases(exploration)
        plans = [Plan(case=number) for number in range(len(exploration.cases))] or (
            FIRST_INPUTS if builds else FIRST_PLANS
        )
        queue: list[tuple[float, int, Plan, Hashable]] = [(cost_of(plan), next(serial), plan, None) for plan in plans]
        heapq.heapify(queue)
        kinds_of_choices: set[str] = set()
        tried: set[Hashable] = set()
        dead: set[Hashable] = set()  # choices that changed no launch
        outcomes: dict[Hashable, Hashable] = {}  # what a run that choices were changed from launched
        core: tuple[tuple[Hashable, int], ...] = ()  # choices without which nothing is launched
        plain: Hashable = None  # what the plainest plan launches
        runs = steps = 0
        fruitless = 0.0
        most, fewest = (MOST_RUNS, _FEWEST_RUNS[0]) if exploration.outermost else (_MOST_INNER_RUNS, _FEWEST_RUNS[1])
        if builds:
            most = fewest = _MOST_BUILDER_RUNS
        while queue and fruitless < MOST_FRUITLESS and (runs < fewest or (runs < most and steps < _MOST_STEPS)):
            if exploration.steps >= _MOST_STEPS_IN_ALL:
                break
            _, _, plan, parent = heapq.heappop(queue)
            if core and not plan.choices:
                plan = replace(plan, choices=core)
            effective = effective_part(plan, kinds_of_choices)
            if effective in tried or not dead.isdisjoint(plan.choices):
                continue
            tried.add(effective)
            runs += 1
            interpreter, plan = self._fitting(exploration, plan)
            steps += interpreter.steps
            news, outcome = self._note(exploration, plan, interpreter)
            kinds_of_choices.update(choice.kind for choice in interpreter.choices.values())
            outcomes[effective] = outcome
            if plan.moves == ("needed",) and interpreter.launches and not core:
                core = plan.choices
            if plain is None or plan.moves == ("needed",):
                plain = outcome
            before = outcomes.get(parent)
            if before and (before == outcome or not outcome):
                dead.add(plan.choices[-1])
            if parent is not None and before == outcome:
                fruitless += 0.5
                continue
            endless = not interpreter.launches and interpreter.steps >= LIMITS.steps
            fruitless = 0 if news else fruitless + (1 if interpreter.launches else 6 if endless else 2)
            only_sizes = plan.moves and plan.choices == core and outcome == plain
            if plan.moves != ("needed",) and (only_sizes or (not interpreter.launches and (core or plan.moves))):
                continue
            others = [
                *self._dtypes_to_run(plan, interpreter),
                *flips(plan, interpreter),
                *beyond(plan, interpreter, builds),
            ]
            for other in others:
                changed = other.choices != plan.choices
                heapq.heappush(queue, (cost_of(other), next(serial), other, effective if changed else None))
        exploration.said.clear()
        exploration.regardless.clear()
        exploration.cases = ()

    def _cases(self, exploration: Exploration) -> Sequence[Case]:
        """What a test or benchmark is called with; one empty case for a test that says nothing of it."""
        entry = exploration.entry
        if entry.module.path not in self.callers.tests:
            return ()
        interpreter = self._interpreter(Plan())
        name = entry.statement.defined_name or ""
        try:
            with _running(interpreter, exploration):
                found = cases_of(interpreter.namespace(entry.module).lookup(name))
        except (KeyError, Raised, Blocked, RecursionError):
            return ()
        return found or ([{}] if name.startswith("test") else ())

    def _dtypes_to_run(self, plan: Plan, interpreter: ExampleInterpreter) -> Iterator[Plan]:
        if interpreter.launches:
            yield from (one for one, free in other_dtypes(plan, interpreter) if not free)

    def _fitting(self, exploration: Exploration, plan: Plan) -> tuple[ExampleInterpreter, Plan]:
        """A run of the plan; when it raises, the same with tensors of other ranks, unless it is known that these end there too."""
        rank = exploration.rank if plan.case is None else plan.sizes.rank  # a test makes its tensors itself
        if rank is not None:
            plan = replace(plan, sizes=replace(plan.sizes, rank=rank))
            return self._run(exploration, plan), plan
        first: tuple[ExampleInterpreter, Plan] | None = None
        ends: set[Hashable] = set()
        for rank in _RANKS:
            attempt = replace(plan, sizes=replace(plan.sizes, rank=rank))
            interpreter = self._run(exploration, attempt)
            if interpreter.launches and not interpreter.failed:
                exploration.rank = rank
                return interpreter, attempt
            if first is None or len(interpreter.launches) > len(first[0].launches):
                first = interpreter, attempt
            if not interpreter.failed or exploration.regardless[interpreter.end] >= _ALIKE:
                break
            ends.add(interpreter.end)
        else:
            if len(ends) == 1:
                exploration.regardless.update(ends)
        assert first is not None
        return first

    def _run(self, exploration: Exploration, plan: Plan) -> ExampleInterpreter:
        """One run; once more when a size failed a check that tells which one passes."""
        solved = exploration.solved
        interpreter = self._run_once(exploration, replace(plan, sizes=_solved(plan.sizes, solved)))
        solved.update(interpreter.solved)
        if _solved(plan.sizes, interpreter.solved) != plan.sizes:
            interpreter = self._run_once(exploration, replace(plan, sizes=_solved(plan.sizes, solved)))
        return interpreter

    def _interpreter(self, plan: Plan) -> ExampleInterpreter:
        return ExampleInterpreter(self.project, self.world, self.memory, plan, self.hints, self.remembered)

    def _run_once(self, exploration: Exploration, plan: Plan) -> ExampleInterpreter:
        interpreter = self._interpreter(plan)
        if plan.case is not None:
            interpreter.case = own(exploration.cases[plan.case], interpreter.copies)
        try:
            with _running(interpreter, exploration):
                start(interpreter, exploration.entry)
        except (Raised, Blocked, RecursionError) as exception:  # launches made before that point count
            interpreter.ended_by(exception)
        except (
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
        ) as exception:  # an example that makes no sense costs its run only
            interpreter.ended_by(exception)
        exploration.consulted_target |= interpreter.consulted_target
        exploration.steps += interpreter.steps
        return interpreter

    def _kept(self, interpreter: ExampleInterpreter) -> list[Launch]:
        """The launches of a run, without the run."""
        for launch in interpreter.launches:
            if launch.made is not None and (launch.kernel.path, launch.kernel.line) in self.listed:
                launch.configs = launch.made()
        return [condensed(launch) for launch in interpreter.launches]

    def _note(self, exploration: Exploration, plan: Plan, interpreter: ExampleInterpreter) -> tuple[int, Hashable]:
        """Keep what a run launched, under every dtype that the run holds for: how many kinds are new, and all kinds."""
        news = 0
        penalty = 0.0 if exploration.outermost else _INNER
        name = exploration.entry.statement.defined_name or ""
        outcome: list[Hashable] = []
        variants = [plan, *(one for one, free in other_dtypes(plan, interpreter) if free)]
        for launch in self._kept(interpreter):
            key = (launch.kernel.path, launch.kernel.line)
            for number, variant in enumerate(variants):
                kinds = launch.kinds(variant)
                if number == 0:
                    outcome.append((key, kinds))
                new = kinds not in exploration.kinds[key]
                if new and len(exploration.kinds[key]) >= MOST_SIGNATURES:
                    continue
                exploration.kinds[key].add(kinds)
                news += new
                if new or number == 0:
                    self._add(
                        exploration, key, Recorded(launch, variant, exploration, cost_of(variant) + penalty, name)
                    )
        return news, tuple(outcome)

    def _add(self, exploration: Exploration, key: tuple[str, int], recorded: Recorded) -> None:
        """Keep a launch, unless an as plain one says the same. Where lists are asked for they are counted, so all are kept."""
        said = None if key in self.listed else key_of(recorded.launch, recorded.plan)
        if said is not None:
            if exploration.said.get(said, math.inf) <= recorded.effort:
                return
            exploration.said[said] = recorded.effort
        exploration.found[key].append(recorded)


@contextlib.contextmanager
def _running(interpreter: ExampleInterpreter, exploration: Exploration) -> Iterator[None]:
    """While an example run is made."""
    with nested_deeply(), interpreter.project.held.noting(exploration.entered):
        try:
            yield
        finally:
            interpreter.restore()


def _solved(sizes: Sizes, solved: dict[int, int]) -> Sizes:
    """The sizes with those that failed a check replaced."""
    names = ("dimension", "sequence", "heads", "groups", "batch")
    changes = {name: solved[getattr(sizes, name)] for name in names if getattr(sizes, name) in solved}
    return replace(sizes, **changes)
