"""An experiment as it is planned: which runs it takes, in which order. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pydantic import BaseModel, ConfigDict, JsonValue

from lab.stock import Condition, Task, task
from longshift.run_input import RunInput

SECONDS = 30 * 86_400.0
"""Deadline of a run: none is about time, and an experiment may be interrupted for a while."""
CONTEXT_BYTES = 1_000_000
TURN_TOKENS = 1024
RETRIES = 8
"""Of a model call: an endpoint that is away for a moment is no error of the model's."""
SPARE_CALLS = 16
"""Calls beyond twice what a task takes, so that a model can mend its errors."""


class Plan(BaseModel):
    """What is measured. The same plan has the same runs, under the same ids."""

    model_config = ConfigDict(frozen=True)

    seed: int
    lengths: tuple[int, ...]
    """Look-ups of a task, each length once, in rising order."""
    instances: int
    """Tasks of each length."""
    conditions: tuple[Condition, ...]
    attempts: int
    """Attempts at each task of the length at which retries are studied."""
    retry_length: int
    """That length; one of `lengths`."""
    endpoint: str
    """Name of the endpoint that is measured."""
    model: str
    endpoint_sha256: str | None = None
    """Digest of what the operator says of it, so that no other endpoint is measured under this one's name. None in a
    plan of a version that did not keep it."""
    at_once: int
    """Runs at once."""

    @property
    def runs(self) -> int:
        """How many runs it takes."""
        return self.instances * len(self.conditions) * (len(self.lengths) - 1 + self.attempts)


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    condition: Condition
    length: int
    instance: int
    """From 1."""
    attempt: int
    """From 1; those after the first are for the study of retries alone."""
    seed: int

    @property
    def task(self) -> Task:
        """Made when it is asked for: whoever wants some runs of many need not make the tasks of all."""
        return task(self.seed, self.length, self.instance)

    @property
    def run_id(self) -> str:
        """The same in every process that has the plan."""
        return f"{self.condition}-{self.length}-{self.instance}-{self.attempt}"

    def given(self, plan: Plan) -> RunInput:
        """What the run is started with."""
        calls = 4 * self.length + SPARE_CALLS
        limits: dict[str, JsonValue] = {
            "model_calls": calls,
            "tool_calls": calls,
            "seconds": SECONDS,
            "context_bytes": CONTEXT_BYTES,
            "output_tokens": TURN_TOKENS,
            "total_output_tokens": TURN_TOKENS * calls,
            "model_retries": RETRIES,
        }
        return RunInput(agent=self.condition, task=self.task.text, limits=limits, endpoint=plan.endpoint)


def runs_of(plan: Plan, begin: int = 0, end: int | None = None) -> list[Planned]:
    """The runs of a plan, from one to before another: tasks in turn through all lengths and conditions, so that
    whatever drifts while it goes on drifts for all alike."""
    return list(islice(_runs(plan), begin, end))


def _runs(plan: Plan) -> Iterator[Planned]:
    for instance in range(1, plan.instances + 1):
        for length in plan.lengths:
            attempts = plan.attempts if length == plan.retry_length else 1
            for attempt in range(1, attempts + 1):
                for condition in plan.conditions:
                    yield Planned(condition, length, instance, attempt, plan.seed)
