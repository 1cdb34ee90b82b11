"""What an endpoint answers when it is asked what it is, before anything is measured of it."""

import time
from pathlib import Path

from pydantic import JsonValue

from endpoints.base import Endpoint
from endpoints.config import EndpointConfig
from endpoints.server import ServerEndpoint
from lab.experiment import ExperimentRefused, write_whole
from lab.receipt import versions
from longshift import jsontext

FILE = "endpoint.json"
"""In the experiment's folder: each answer, the first first."""
TOLD = ("kind", "model", "temperature", "seed", "reasoning_effort", "thinking")
"""What of the operator's words on an endpoint stands in a receipt: no address, and nothing of keys."""
KEEPS_NO_LIST = (404, 405, 501)
"""Statuses of a server that has no list of its models."""


async def identify(folder: Path, endpoint: Endpoint, config: EndpointConfig) -> list[JsonValue]:
    """Ask an endpoint what it is, and keep the answer in the folder, with the versions that measure from now on.

    Returns: this answer after all earlier ones, since an experiment that was interrupted asks again.

    Raises ExperimentRefused where it does not answer: then no shift has been started in vain.
    """
    answer: dict[str, JsonValue] = {"at": time.time(), "versions": versions()}
    answer |= config.model_dump(mode="json", include=set(TOLD))
    if isinstance(endpoint, ServerEndpoint):
        listing = await endpoint.models()
        if listing.models is None and listing.status not in (200, *KEEPS_NO_LIST):
            why = listing.failure.message if listing.failure else f"it answers with HTTP {listing.status}"
            raise ExperimentRefused(f"--endpoint: {why}; see what is wrong with: longshift doctor")
        models: list[JsonValue] | None = None if listing.models is None else list(listing.models)
        answer["listing"] = {"status": listing.status, "models": models}
    answers = [*earlier(folder), answer]
    write_whole(folder / FILE, jsontext.canonical(answers) + "\n")
    return earlier(folder)  # as a receipt that is written anew has them, to the byte


def described(config: EndpointConfig) -> str:
    """Digest of all that the operator says of an endpoint but the name of its key's variable. What is left to a default
    is not in it, so that a later version with further settings has the same."""
    said = config.model_dump(mode="json", exclude={"api_key_env"}, exclude_defaults=True) | {"kind": config.kind}
    return jsontext.sha256(jsontext.canonical(said))


def earlier(folder: Path) -> list[JsonValue]:
    """The answers that the folder keeps; none of a new experiment."""
    file = folder / FILE
    found = jsontext.parse(file.read_bytes()) if file.exists() else []
    return found if isinstance(found, list) else []
