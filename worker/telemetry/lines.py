"""The log as one JSON object a line, with the run that a line is about."""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from temporalio import activity, workflow

from toolsets.mcp.secrets import Secrets

Ids = Callable[[], Mapping[str, str]]
"""The ids of the span that is at work, by name; none where there is none."""


def log_in_lines(secrets: Secrets, ids: Ids | None) -> None:
    """Have the root logger's handlers write JSON from now on.

    Args:
        secrets: what no line may hold.
        ids: tells trace and span, where traces are on.
    """
    activity.logger.activity_info_on_message = False  # they have fields of their own here
    workflow.logger.workflow_info_on_message = False
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonLines(secrets, ids))


class JsonLines(logging.Formatter):
    """One record, one line."""

    def __init__(self, secrets: Secrets, ids: Ids | None = None) -> None:
        super().__init__()
        self._secrets = secrets
        self._ids = ids

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON, in ASCII: nothing in it can begin a line or move a cursor."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_about(record),
        }
        if self._ids is not None:
            line |= self._ids()
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(self._secrets.hidden(line))


def _about(record: logging.LogRecord) -> dict[str, Any]:
    """The run, and the step of it, that a record is about: what Temporal's loggers say, else where it was written."""
    told: Mapping[str, Any] | None = getattr(record, "temporal_activity", None)
    if told is None and activity.in_activity():
        info = activity.info()
        return _step(info.workflow_id, info.activity_type, info.activity_id, info.attempt)
    if told is not None:
        return _step(told.get("workflow_id"), told.get("activity_type"), told.get("activity_id"), told.get("attempt"))
    told = getattr(record, "temporal_workflow", None)
    return {"run_id": told["workflow_id"]} if told and "workflow_id" in told else {}


def _step(run_id: str | None, kind: str | None, step: str | None, attempt: int | None) -> dict[str, Any]:
    return {"run_id": run_id, "activity": kind, "activity_id": step, "attempt": attempt}
