"""The agent that mends what lies in `work`, beside this file."""

from pathlib import Path

from examples.mending.evidence import TESTS, tests_pass
from longshift import Agent, Limits
from toolsets.workspace import workspace

agent = Agent(
    name="mender",
    system=(
        f"You mend a Python project in your workspace. Run its tests with `{TESTS}`, find the cause of a "
        "failure, change as little as it takes, and run the tests again. Say at the end what was wrong."
    ),
    endpoint="rehearsal",
    tools=workspace(Path(__file__).with_name("work")),
    # The same tests are run again and again: that is no loop.
    limits=Limits(model_calls=30, tool_calls=60, seconds=1800, context_bytes=200_000, repeats=20),
    evidence=(tests_pass,),
)
