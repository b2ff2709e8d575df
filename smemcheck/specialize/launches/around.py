"""What the text of a whole file says of the parameters of its functions, whichever function says it.

Callers and tests in one file use one name for one thing: a text that some function compares ``mode`` with is a value of
every ``mode`` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from smemcheck.source.module import Module

PACKED_DTYPES = ("uint8", "int32", "int8", "float8_e4m3fn")
"""Of quantised values, the most common first."""
_USUAL_GROUP = 128
_GROUP = re.compile(r"(?i)\bgroup_?size\s*(?::\s*\w+\s*)?=\s*(16|32|64|128|256)\s*[,)]")
_LONGEST_NAME = 200  # characters, with what stands between a name and the operator behind it
_COMPARED = re.compile(r"\s+is\s+(?:not\s+)?None\b")
_EQUAL = re.compile(r"\s*[=!]=\s*['\"]([^'\"\n]+)['\"]")
_IN = re.compile(r"\s+(?:not\s+)?in\s*[\[({]([^\])}\n]*)[\])}]")
_TEXT = re.compile(r"['\"]([^'\"\n]+)['\"]")
_LAST_WORD = re.compile(r"(\w+)$")


@dataclass(frozen=True, slots=True)
class Around:
    """What a text says by name: which names are compared with ``None``, and which texts a name is compared with, in order.

    Names of the latter are in lower case. ``packed`` are the dtypes of quantised values that it mentions, ``group`` is how
    many weights share a scale: what defaults and keywords mostly say, else 128.
    """

    compared: frozenset[str]
    texts: tuple[tuple[str, str], ...]
    packed: tuple[str, ...]
    group: int

    @property
    def written(self) -> str:
        """All of it as text, the same in every process."""
        return repr((sorted(self.compared), self.texts, self.packed, self.group))

    def texts_of(self, name: str) -> list[str]:
        """The strings that a name is compared with."""
        return [text for other, text in self.texts if other == name.lower()]


def around(module: Module) -> Around:
    """What a module says; found once."""
    if module.said is None:
        module.said = read_around(module.text)
    found: Around = module.said
    return found


def read_around(text: str) -> Around:
    """What a text says."""
    compared = frozenset(name for name, _ in _behind_names(_COMPARED, text))
    texts = [(name.lower(), match[1]) for name, match in _behind_names(_EQUAL, text)]
    for name, match in _behind_names(_IN, text):
        texts += [(name.lower(), found) for found in _TEXT.findall(match[1])]
    said = [int(number) for number in _GROUP.findall(text)]
    return Around(
        compared,
        tuple(dict.fromkeys(texts)),
        tuple(dtype for dtype in PACKED_DTYPES if f"torch.{dtype}" in text),
        max(said, key=said.count) if said else _USUAL_GROUP,
    )


def _behind_names(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Each place where the pattern stands right behind a word, with the word."""
    at = 0
    while match := pattern.search(text, at):
        at = match.start() + 1
        word = _LAST_WORD.search(text, max(0, match.start() - _LONGEST_NAME), match.start())
        if word is not None:
            yield word[1], match
