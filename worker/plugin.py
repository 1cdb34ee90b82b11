"""One plugin for client, worker and replayer alike: how values become payloads, and what the sandbox lets through.

No exception type fails a workflow here: a bug of ours parks the run until a fixed worker comes, and loses nothing.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from workflows.details import CurrentDetails

PASSED_THROUGH = ("longshift",)
"""Modules that sandboxed runs share instead of importing them anew. The core holds all our models; anew, they cost
tens of milliseconds a run. Import contracts keep it pure, since the sandbox does not look into what it lets through."""


class _WithoutNone(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON without the fields that are None.

    Every model of ours that crosses has None as the default of what may be None (a test holds that), so nothing is
    lost; a None inside a plain dict or list stays. Leaving out whatever was not set would save more and would lose the
    tags that tell messages apart, and a default that changes in a later version would change old histories.
    """

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(metadata={"encoding": self.encoding.encode()}, data=to_json(value, exclude_none=True))


class Unreadable:
    """Stands for a payload that cannot be read: no JSON, too deep, a lone surrogate, an unknown encoding."""


_OURS = _WithoutNone()
_CONVERTERS = tuple(
    _OURS if isinstance(one, JSONPlainPayloadConverter) else one
    for one in DefaultPayloadConverter.default_encoding_payload_converters
)
"""Made once: Temporal makes a PayloadConverter for every run and activity."""


class PayloadConverter(CompositePayloadConverter):
    """Temporal's own converters, with ours in the place of plain JSON.

    Where no type is expected, an unreadable payload becomes Unreadable and nothing is raised: those are the messages
    that anybody can send to a run, and the input it is started with. Raised there, Temporal would drop the signal (a
    stop that does not stop) and try the start again without end.
    """

    def __init__(self) -> None:
        """Take no argument, as Temporal asks of a converter's class."""
        super().__init__(*_CONVERTERS)

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """The values of payloads, of these types where they are given.

        Raises what the converters raise for a payload that does not fit its type.
        """
        if type_hints is not None:
            return super().from_payloads(payloads, type_hints)
        return [self._whatever_it_is(payload) for payload in payloads]

    def _whatever_it_is(self, payload: Payload) -> Any:
        try:
            return super().from_payloads([payload])[0]
        except Exception:
            return Unreadable()


def longshift_plugin(*, sandboxed: bool = False) -> SimplePlugin:
    """The plugin; give it to a client, whose workers then have it, or to a replayer.

    Args:
        sandboxed: run workflow code in Temporal's sandbox, as all tests of workflows do. A worker runs it without: all
            of it is ours, held by import contracts, judged by those tests, and never a user's. The sandbox would cost a
            fifth of a step's CPU, since it is entered anew for each payload, and it reads `workflows` from the disk for
            every run, so that an upgrade in place would mix two versions in one worker.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SimplePlugin(
        "longshift",
        data_converter=DataConverter(payload_converter_class=PayloadConverter),
        interceptors=[CurrentDetails()],
        workflow_runner=(
            SandboxedWorkflowRunner(restrictions=restrictions) if sandboxed else UnsandboxedWorkflowRunner()
        ),
    )
