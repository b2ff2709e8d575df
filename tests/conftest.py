"""Options that decide which marked tests run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take seconds to minutes each")
    parser.addoption("--gpu", action="store_true", help="run the tests that need a GPU and its driver")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reasons = {
        "slow": "slow: run with --slow",
        "gpu": "needs a GPU and its driver: run with --gpu",
    }
    for marker, reason in reasons.items():
        if config.getoption(f"--{marker}"):
            continue
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
