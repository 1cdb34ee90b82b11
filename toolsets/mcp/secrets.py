"""The keys that a server is given, kept out of everything that it says."""

from collections.abc import Iterable, Mapping
from typing import Any

MIN_SECRET = 8
"""Characters from which on a value is looked for; a shorter one would be found in ordinary words."""
HIDDEN = "***"


class Secrets:
    """The values of the variables that are handed to a server."""

    def __init__(self, values: Iterable[str]) -> None:
        # A header such as `Bearer KEY` holds its key as a word.
        parts = {part for value in values for part in (value, *value.split()) if len(part) >= MIN_SECRET}
        self._parts = sorted(parts, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """`text` without them."""
        for part in self._parts:
            text = text.replace(part, HIDDEN)
        return text

    def hidden(self, value: Any) -> Any:
        """A JSON value without them."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(name): self.hidden(item) for name, item in value.items()}
        return [self.hidden(item) for item in value] if isinstance(value, list) else value


def handed_on(names: Iterable[str], key: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of these names.

    Raises ValueError for one that is not set, naming it and the configuration's key.
    """
    names = list(names)
    for name in names:
        if not environ.get(name):
            raise ValueError(f"the environment variable {name}, which `{key}` names, is not set; set it for the worker")
    return {name: environ[name] for name in names}
