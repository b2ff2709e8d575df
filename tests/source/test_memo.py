"""Answers that are remembered are the same whoever asks first, also where questions lead back to themselves."""

from __future__ import annotations

import itertools

from smemcheck.source.memo import Memo

LEADS_TO = {"a": "b", "b": "c", "c": "ad", "d": "", "e": "a", "f": "fd"}


def asked(order):
    """What each question says, asked in an order: the questions that it leads to and what these say."""
    memo = Memo()

    def answer(key):
        if memo.meets(key):
            return f"{key}…"
        return memo.answer(key, lambda: f"{key}({''.join(map(answer, LEADS_TO[key]))})")

    return {key: answer(key) for key in order}


def test_what_was_asked_before_makes_no_difference():
    alone = {key: asked([key])[key] for key in LEADS_TO}
    assert alone["a"] == "a(b(c(a…d())))"
    for order in itertools.permutations(LEADS_TO):
        assert asked(order) == alone, order


def test_an_answer_is_made_once():
    made = []
    memo = Memo()
    for _ in range(3):
        assert memo.answer("a", lambda: made.append("a") or len(made)) == 1
