"""Which of the search attributes of runs a server has."""

from datetime import timedelta

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCStatusCode

from longshift.attributes import TYPES, AttributeType

ANSWER_SECONDS = 1.5
"""Seconds for the server to answer; a workflow task waits for it."""
NO_ANSWER = (
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNAVAILABLE,
)
"""Codes with which a server does not answer now; with every other it refuses, or does not know the question."""
INDEXED: dict[AttributeType, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
}
"""The types as the server numbers them."""


async def lacking(client: Client) -> dict[str, IndexedValueType.ValueType | None]:
    """The search attributes of runs that the server does not have with their type: under each name the type that it has
    there, if any.

    Raises temporalio.service.RPCError where the server does not tell.
    """
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request, timeout=timedelta(seconds=ANSWER_SECONDS))
    found = answer.custom_attributes
    return {name: found.get(name) for name, kind in TYPES.items() if found.get(name) != INDEXED[kind]}
