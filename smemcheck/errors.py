"""What is said when something that the user gave cannot be used."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """The user's input cannot be used: one clear sentence with where it stands and what to do.

    The CLI prints the sentence and exits with 2. Stages raise it, or a subclass, for input of theirs; never for the
    analysed code, which yields an ``Unknown``, a ``Problem`` or a ``Failure`` instead.
    """


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was most likely meant to be, or ``None`` when nothing is close."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'sm_120'?"``, or nothing, to end a sentence about an unknown name with."""
    match = nearest(name, known)
    return f"; did you mean '{match}'?" if match else ""


def defect(error: Exception) -> str:
    """What is said where a defect of ours costs a part of the report."""
    return f"internal error of smemcheck ({type(error).__name__}: {error}), please report it"
