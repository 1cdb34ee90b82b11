"""Any JSON, for tests of what a parser does with whatever comes."""

from typing import Any

from hypothesis import strategies as st

ANY_TEXT = st.text(max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def one_of(*good: Any) -> st.SearchStrategy[Any]:
    """A value that is good, or any JSON."""
    return st.sampled_from(good) | ANY_JSON
