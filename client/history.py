"""From an event of a history, as the server sends it, to the few facts that a story needs."""

from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure as FailureProto
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError, FailureError, TimeoutError

from client.happenings import Failure, Happening


def converter_of(client: Client, run_id: str) -> DataConverter:
    """What reads the payloads of a run."""
    context = WorkflowSerializationContext(namespace=client.namespace, workflow_id=run_id)
    return client.data_converter.with_context(context)


def next_run(event: HistoryEvent) -> str:
    """Temporal's id of the run that the chain goes on with after `event`; empty where it does not go on."""
    return getattr(_attributes(event), "new_execution_run_id", "")


async def happening(event: HistoryEvent, converter: DataConverter) -> Happening:
    """The facts of one event. Payloads that cannot be read, such as encrypted ones without a key, are left out."""
    facts = _attributes(event)
    update = getattr(getattr(facts, "accepted_request", None), "input", None)
    payloads = update.args if update is not None else getattr(facts, "input", None) or getattr(facts, "result", None)
    activity = getattr(facts, "activity_type", None)
    failure = facts.failure if _has(facts, "failure") else None
    return Happening(
        at=_seconds(event.event_time),
        event=EventType.Name(event.event_type).removeprefix("EVENT_TYPE_"),
        number=event.event_id,
        about=getattr(facts, "scheduled_event_id", 0),
        name=update.name if update is not None else activity.name if activity else getattr(facts, "signal_name", ""),
        id=getattr(facts, "activity_id", ""),
        values=await values(converter, payloads.payloads if payloads is not None else ()),
        memo=await _memo(converter, facts.upserted_memo.fields) if _has(facts, "upserted_memo") else None,
        summary=await _summary(converter, event),
        seconds=_seconds(facts.start_to_fire_timeout) if _has(facts, "start_to_fire_timeout") else 0,
        attempt=getattr(facts, "attempt", 1),
        failure=await failure_of(converter, failure) if failure is not None else None,
        reason=_reason(facts),
        who=getattr(facts, "identity", ""),
        again=bool(next_run(event) or getattr(facts, "continued_execution_run_id", "")),
    )


async def values(converter: DataConverter, payloads: Sequence[Payload]) -> tuple[Any, ...]:
    """Payloads as JSON values; none where one of them cannot be read."""
    try:
        return tuple(await converter.decode(payloads)) if payloads else ()
    except Exception:  # a codec may raise anything; what cannot be read is not told
        return ()


async def failure_of(converter: DataConverter, failure: FailureProto) -> Failure:
    """Why something failed. Of a time-out the message is that of the last attempt, where there was one."""
    copy = FailureProto()
    copy.CopyFrom(failure)
    try:
        error = await converter.decode_failure(copy)
    except Exception:  # as above
        return Failure("Unreadable", "its reason cannot be read with this client's keys")
    match error:
        case ApplicationError():
            return Failure(error.type or "", error.message, tuple(error.details))
        case TimeoutError():
            last = error.cause.message if isinstance(error.cause, FailureError) else ""
            return Failure(error.type.name if error.type else "", last)
        case _:
            return Failure(type(error).__name__, str(error))


async def _memo(converter: DataConverter, fields: Mapping[str, Payload]) -> Mapping[str, Any]:
    found = {name: await values(converter, (payload,)) for name, payload in fields.items()}
    return {name: value[0] for name, value in found.items() if value}


async def _summary(converter: DataConverter, event: HistoryEvent) -> str:
    if not _has(event, "user_metadata") or not event.user_metadata.HasField("summary"):
        return ""
    found = await values(converter, (event.user_metadata.summary,))
    return str(found[0]) if found else ""


def _reason(facts: Any) -> str:
    """The word or sentence that says why, which each kind of event holds under another name."""
    if hasattr(facts, "timeout_type"):
        return TimeoutType.Name(facts.timeout_type).removeprefix("TIMEOUT_TYPE_")
    cause = getattr(facts, "cause", "")
    if isinstance(cause, int):
        return WorkflowTaskFailedCause.Name(cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")  # type: ignore[arg-type]  # an enum's number
    return cause or getattr(facts, "reason", "")


def _attributes(event: HistoryEvent) -> Any:
    name = event.WhichOneof("attributes")
    return getattr(event, name) if name else None


def _has(facts: Any, field: str) -> bool:
    return facts is not None and field in facts.DESCRIPTOR.fields_by_name and facts.HasField(field)


def _seconds(moment: Any) -> float:
    """Seconds of a protobuf timestamp or duration."""
    return float(moment.seconds + moment.nanos / 1e9)
