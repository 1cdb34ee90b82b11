"""The order of the whole suite, and what it costs to run it."""

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for processes begins first, so that nothing long is left over when the rest has ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """All that was imported stays: to look through it for garbage again and again costs a fifth of a test's CPU."""
    gc.collect()
    gc.freeze()
