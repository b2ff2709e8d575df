"""What one question leaves for the next: answers that are the same whoever asks, and whenever.

An answer is made apart from the run that asks, so nothing of that run is in it. Questions may lead back to themselves, as
modules that import each other do. An answer that met a question in progress is one for just that case: it is given again
where the same questions are in progress, and made anew elsewhere. So what is found depends neither on what was asked
before nor on how much is remembered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[Value]):
    """An answer; where its question leads back to itself, to which others it led, and which were in progress then."""

    value: Value
    led_to: frozenset[Hashable] = frozenset()
    met: frozenset[Hashable] = frozenset()


class Memo(Generic[Value]):
    """The answers to questions of one kind, by their key."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, list[_Answer[Value]]] = {}
        # The questions in progress, each asked by the one before it. Those that lead back to one in progress have the
        # questions that are part of the circle.
        self._asked: dict[Hashable, set[Hashable]] = {}

    def meets(self, key: Hashable) -> bool:
        """Whether a question is in progress, and so cannot be asked: who would ask it takes things as they are by then."""
        if key not in self._asked:
            return False
        self._return_to({key}, {key})
        return True

    def known(self, key: Hashable) -> bool:
        """Whether a question was answered, in some case."""
        return key in self._answers

    def put(self, key: Hashable, value: Value) -> None:
        """Note the answer to a question that leads to no other, or has one answer whatever those say."""
        self._answers[key] = [_Answer(value)]

    def answer(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The answer to a question that is not in progress: what is remembered, else what ``make`` gives."""
        for known in self._answers.get(key, ()):
            if known.led_to & self._asked.keys() == known.met:
                if known.met:
                    self._return_to(known.met, known.led_to)
                return known.value
        with self.asking(key) as circle:
            value = make()
        met = frozenset(circle & self._asked.keys())
        if met:
            self._return_to(met, circle)
        self._answers.setdefault(key, []).append(_Answer(value, frozenset(circle), met))
        return value

    @contextlib.contextmanager
    def asking(self, key: Hashable) -> Iterator[set[Hashable]]:
        """While a question is in progress. Gives the circle that it turns out to be part of."""
        circle: set[Hashable] = set()
        self._asked[key] = circle
        try:
            yield circle
        finally:
            del self._asked[key]

    def _return_to(self, met: Set[Hashable], circle: Set[Hashable]) -> None:
        """Note that the last question led to ``met`` ones: all from the first of these on are part of a circle."""
        left = set(met)
        for key in reversed(list(self._asked)):
            self._asked[key] |= circle
            self._asked[key].add(key)
            left.discard(key)
            if not left:
                return
