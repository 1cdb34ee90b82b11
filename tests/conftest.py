"""The order of the whole suite."""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for processes begins first, so that nothing long is left over when the rest has ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
