"""The public face of the package."""

import longshift


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert longshift.__all__ == sorted(longshift.__all__)
    assert {name for name in longshift.__all__ if not hasattr(longshift, name)} == set()
