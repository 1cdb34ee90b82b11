"""What the tests of this folder share: a workspace with its tools, called as a model calls them."""

from pathlib import Path
from typing import Any

from longshift.testing import call
from toolsets.workspace import workspace


class Tools:
    """The tools of one workspace."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.all = {tool.spec.name: tool for tool in workspace(root)}
        self.seen: list[dict[str, Any]] = []
        """All observations so far."""

    async def observe(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The observation of one call."""
        self.seen.append(await call(self.all[name], arguments))
        return self.seen[-1]

    async def value(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a call returned."""
        observation = await self.observe(name, **arguments)
        assert observation["ok"], observation
        value: dict[str, Any] = observation["value"]
        return value

    async def refusal(self, name: str, **arguments: Any) -> tuple[str, str]:
        """Kind and message of a call that failed."""
        observation = await self.observe(name, **arguments)
        assert not observation["ok"], observation
        return observation["error"]["kind"], observation["error"]["message"]
