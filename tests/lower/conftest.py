"""The pool that the tests of this directory share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from smemcheck.lower.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """One pool for all tests that do not kill it, without a store."""
    with Pool(workers=2, python=sys.executable, time_limit=100) as shared:
        yield shared


@pytest.fixture
def own_driver() -> Iterator[None]:
    """The worker replaces the active driver of its process; here it is put back."""
    from triton.runtime.driver import driver

    before = getattr(driver, "_active", None)
    yield
    driver._active = before
