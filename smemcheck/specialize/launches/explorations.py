"""What example runs of one entry found: launches, how plain each is, and what the next runs start from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from smemcheck.specialize.launches.plans import Launch, Plan

if TYPE_CHECKING:
    from smemcheck.source.module import Statement
    from smemcheck.specialize.launches.cases import Case
    from smemcheck.specialize.launches.entries import Entry


@dataclass(frozen=True, slots=True)
class Recorded:
    """A launch, and how far from the plainest example its run was: 0 is the plain one."""

    launch: Launch
    plan: Plan
    exploration: Exploration | None  # none for a launch that an earlier run found
    effort: float
    entry: str
    """The name of the definition that the run started from."""


@dataclass(slots=True)
class Exploration:
    """What the runs of one entry launched, by kernel (the path and line of its ``def``). Nothing of other entries is in it:
    so what is found for a kernel does not depend on which kernels were asked about before.
    """

    entry: Entry
    outermost: bool
    found: dict[tuple[str, int], list[Recorded]] = field(default_factory=lambda: defaultdict(list))
    kinds: dict[tuple[str, int], set[Hashable]] = field(default_factory=lambda: defaultdict(set))
    rank: int | None = None  # of tensors, with which it runs
    regardless: Counter[Hashable] = field(
        default_factory=Counter
    )  # where plans ended with every rank, and how many did
    solved: dict[int, int] = field(default_factory=dict)  # sizes that fail its checks, and those that pass
    resized: dict[Plan, list[Launch]] = field(default_factory=dict)  # what runs with other dimensions launched
    cases: Sequence[Case] = ()  # what it is called with where it is a test
    consulted_target: bool = False  # whether some run was told something of the device
    steps: int = 0  # of all its runs
    entered: set[Statement] = field(default_factory=set)  # the functions that these looked into
    said: dict[Hashable, float] = field(default_factory=dict)  # the least effort of launches that say the same
