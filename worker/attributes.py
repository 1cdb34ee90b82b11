"""Registering the search attributes of runs with a server that is not ours, which `longshift up` starts with them."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.attributes import INDEXED, lacking
from longshift.attributes import TYPES


class AttributesRefused(Exception):
    """The server does not take the search attributes. The text says why, and what to do."""


async def register(client: Client) -> list[str]:
    """Register those of the search attributes that the server lacks; their names.

    Raises AttributesRefused, also where only some could be registered: shifts show none then.
    """
    namespace = client.namespace
    try:
        missing = await lacking(client)
        for name, registered in missing.items():
            if registered is not None:
                kind = IndexedValueType.Name(registered).removeprefix("INDEXED_VALUE_TYPE_").title().replace("_", "")
                raise AttributesRefused(
                    f"{name}: namespace {namespace} has it as {kind}, {TYPES[name]} is needed; where nothing else uses "
                    f"it: temporal operator search-attribute remove --namespace {namespace} --name {name}"
                )
        wanted = {name: INDEXED[TYPES[name]] for name in missing}
        if wanted:
            request = AddSearchAttributesRequest(namespace=namespace, search_attributes=wanted)
            await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        commands = " ".join(f"--name {name} --type {kind}" for name, kind in TYPES.items())
        raise AttributesRefused(
            f"the server does not register search attributes for namespace {namespace}: {error.message.rstrip('.')}; "
            f"mend that, or have its operator do it: "
            f"temporal operator search-attribute create --namespace {namespace} {commands}"
        ) from None
    return list(missing)
