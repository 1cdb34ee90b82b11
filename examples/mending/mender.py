"""The agent that mends what lies in `work`, beside this file."""

from pathlib import Path

from longshift import Agent, Limits
from toolsets.workspace import workspace

agent = Agent(
    name="mender",
    system=(
        "You mend a Python project in your workspace. Run its tests with `python3 -m unittest -q`, find the cause of a "
        "failure, change as little as it takes, and run the tests again. Say at the end what was wrong."
    ),
    endpoint="rehearsal",
    tools=workspace(Path(__file__).with_name("work")),
    # The same tests are run again and again: that is no loop.
    limits=Limits(model_calls=30, tool_calls=60, seconds=1800, context_bytes=200_000, repeats=20),
)
