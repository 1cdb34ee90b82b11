"""`longshift lab reliability`: measure a model on the real loop, and say what the figures support."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import JsonValue, ValidationError

from client import show
from client.commands.given import BadInput
from client.commands.session import json_option
from client.report.plots import duration
from endpoints.config import EndpointConfig, OpenAIConfig, ReplayConfig
from endpoints.factory import open_endpoint
from lab.analysis import analyse
from lab.experiment import Graded, Progress, conduct, refuse_other
from lab.formulas import of_scipy
from lab.identity import described, earlier, identify
from lab.page import page
from lab.pictures import draw, matplotlib
from lab.plan import Plan
from lab.receipt import receipt, statuses
from lab.stock import CONDITIONS, LONGEST
from worker.settings import load_settings

BY_URL = "measured"
"""Name of an endpoint that is given by its URL."""
EVERY_SECONDS = 10.0
"""Between two lines that say how far it is."""
MOST_INSTANCES, MOST_ATTEMPTS, MOST_AT_ONCE = 10_000, 20, 200
MOST_SHIFTS = 50_000
"""Of an experiment: whenever its workflow goes on it counts through those before, for which it has two seconds."""
RECEIPT, REPORT = "receipt.json", "report.html"
"""Files of the folder."""
OUTPUT = "reliability"
"""The folder, unless another is named."""


@click.command(
    "reliability", short_help="Measure a model: success against length, where errors sit, what retries bring."
)
@click.option("--endpoint", required=True, metavar="NAME_OR_URL", help="An endpoint of the configuration, or a URL.")
@click.option("--model", metavar="NAME", help="The server's name for the model; else the endpoint's own.")
@click.option("--lengths", default="1,2,4,8", show_default=True, metavar="N,N,...", help="Look-ups of a task.")
@click.option("--instances", type=int, default=40, show_default=True, metavar="N", help="Tasks of each length.")
@click.option(
    "--condition", default=",".join(CONDITIONS), show_default=True, metavar="NAME,...", help="Who adds; one or more."
)
@click.option("--attempts", type=int, default=4, show_default=True, metavar="N", help="Attempts, to study retries.")
@click.option(
    "--retry-length", type=int, metavar="N", help="The length at which retries are studied; else the middle one."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="What the tasks are made from.")
@click.option("--at-once", type=int, default=4, show_default=True, metavar="N", help="Shifts at once.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(OUTPUT),
    show_default=True,
    metavar="FOLDER",
    help="Where all of it is kept, and written.",
)
@json_option
@click.pass_obj
def reliability_command(config: Path | None, /, output: Path, as_json: bool, **given: Any) -> None:
    """Measure a model on the real loop: tasks of n stock look-ups and a total.

    Three conditions: the model adds, it is offered a tool that adds, or the program adds what the look-ups returned.
    Each shift is graded step by step: was each look-up made, is the total exactly right. Server, worker and journal
    are the experiment's own and stay in the folder. Interrupted or killed, the same command goes on where it was. In
    the end the folder has receipt.json, report.html and the pictures. --endpoint takes the URL of an OpenAI-compatible
    server too. Needs Longshift's extra lab.

    \b
    Examples:
      longshift lab reliability --endpoint local
      longshift lab reliability --endpoint http://127.0.0.1:11434/v1 --model qwen3:8b --instances 20
    """
    endpoint = _endpoint(config, given["endpoint"], given["model"])
    name = BY_URL if _is_url(given["endpoint"]) else given["endpoint"]
    plan = _plan(given, name, endpoint)
    of_scipy("binomtest")  # what is missing is told now, and not after hours
    matplotlib()
    logging.getLogger("temporalio.activity").setLevel(logging.ERROR)  # a step that fails is one of the figures
    try:
        graded, answers = asyncio.run(_conducted(plan, output, endpoint))
    except KeyboardInterrupt:
        show.note(f"the shifts so far are kept in {output}; the same command goes on with them")
        raise
    _write(plan, output, graded, answers, as_json)


def _write(plan: Plan, output: Path, graded: list[Graded], answers: list[JsonValue], as_json: bool) -> None:
    """Write what was found into the folder, and tell it."""
    findings = analyse(plan, {_key(one): one.grade for one in graded})
    pictures = draw(findings)
    document = receipt(plan, graded, findings, answers)
    (output / RECEIPT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (output / REPORT).write_text(page(plan, graded, findings, answers, pictures), encoding="utf-8")
    for name, formats in pictures.items():
        for ending, data in formats.items():
            (output / f"{name}.{ending}").write_bytes(data)
    if as_json:
        show.document({name: value for name, value in document.items() if name != "runs"} | {"folder": str(output)})
        return
    ends = ", ".join(f"{status} {count}" for status, count in statuses(graded).items())
    show.line(f"{len(graded)} shifts: {ends}")
    for one in findings:
        success = ", ".join(f"{rate.k} of {rate.n} at {length}" for length, rate in one.lengths.items())
        show.line(f"{one.condition}: right {success}")
        for sentence in one.sentences:
            show.line(f"  {sentence}")
    show.line(f"{output / REPORT} has the pictures, {output / RECEIPT} every run")


def _key(one: Graded) -> tuple[Any, int, int, int]:
    planned = one.planned
    return planned.condition, planned.length, planned.instance, planned.attempt


async def _conducted(plan: Plan, output: Path, config: EndpointConfig) -> tuple[list[Graded], list[JsonValue]]:
    refuse_other(plan, output)
    has_ended = (output / RECEIPT).exists()
    if has_ended:
        show.note(f"{output} has its receipt: the experiment has ended, and is told anew; nothing is measured now")
    else:
        show.note(f"{plan.runs} shifts, kept in {output}")
    endpoint = open_endpoint(plan.endpoint, config)
    try:
        answers = earlier(output) if has_ended else await identify(output, endpoint, config)
        return await conduct(plan, output, endpoint, config, _Teller()), answers
    finally:
        await endpoint.close()


class _Teller:
    """Says how far an experiment is, now and then."""

    def __init__(self) -> None:
        self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.left is None or time.monotonic() < self._told + EVERY_SECONDS:
            return
        self._told = time.monotonic()
        show.note(f"{progress.ended} of {progress.runs} shifts have ended, about {duration(progress.left)} left")


def _is_url(text: str) -> bool:
    return "://" in text


def _endpoint(config: Path | None, named: str, model: str | None) -> EndpointConfig:
    """What is to be measured. Raises BadInput."""
    if _is_url(named):
        if not model:
            raise BadInput(["--model: name the model that the server at this URL shall run"])
        try:
            return OpenAIConfig(url=named, model=model)
        except ValidationError as error:
            raise BadInput([f"--endpoint: {_problem(error)}"]) from None
    endpoints = load_settings(config).endpoints
    if named not in endpoints:
        raise BadInput(
            [f"--endpoint: there is no endpoint {named[:60]}; give a URL, or one of: {', '.join(sorted(endpoints))}"]
        )
    found = endpoints[named]
    if model is None:
        return found
    if isinstance(found, ReplayConfig):
        raise BadInput([f"--model: the endpoint {named} plays authored turns and has no model; leave it out"])
    return found.model_copy(update={"model": model})


def _problem(error: ValidationError) -> str:
    return "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors(include_input=False))


def _plan(given: Mapping[str, Any], named: str, endpoint: EndpointConfig) -> Plan:
    """The plan that is asked for, of an endpoint of this name. Raises BadInput, with a line for each option that cannot
    be."""
    problems: list[str] = []
    words = given["lengths"].split(",")
    lengths = sorted({int(word) for word in words if re.fullmatch(r"\s*[0-9]{1,4}\s*", word)})
    if len(lengths) != len(words) or not 0 < lengths[0] <= lengths[-1] <= LONGEST:
        problems.append(f"--lengths: give different whole numbers from 1 to {LONGEST}, such as 1,2,4,8")
    conditions = tuple(word.strip() for word in given["condition"].split(","))
    if not set(conditions) <= set(CONDITIONS) or len(set(conditions)) < len(conditions):
        problems.append(f"--condition: give some of {', '.join(CONDITIONS)}, each once, with commas between")
    for name, most in (("instances", MOST_INSTANCES), ("attempts", MOST_ATTEMPTS), ("at_once", MOST_AT_ONCE)):
        if not 0 < given[name] <= most:
            problems.append(f"--{name.replace('_', '-')}: give a whole number from 1 to {most}")
    if given["seed"] < 0:
        problems.append("--seed: give a whole number from 0")
    retry_length = given["retry_length"] if given["retry_length"] is not None else _middle(lengths)
    if lengths and retry_length not in lengths:
        problems.append(f"--retry-length: give one of the lengths: {', '.join(map(str, lengths))}")
    if problems:
        raise BadInput(problems)
    plan = Plan(
        seed=given["seed"],
        lengths=tuple(lengths),
        instances=given["instances"],
        conditions=conditions,
        attempts=given["attempts"],
        retry_length=retry_length,
        endpoint=named,
        endpoint_sha256=described(endpoint),
        model="replay" if isinstance(endpoint, ReplayConfig) else endpoint.model,
        at_once=given["at_once"],
    )
    if plan.runs > MOST_SHIFTS:
        raise BadInput([f"--instances: that takes {plan.runs} shifts, and {MOST_SHIFTS} are the most; give fewer"])
    return plan


def _middle(lengths: list[int]) -> int:
    """The middle one, the longer of two: neither always right nor always wrong, more likely than the others."""
    return lengths[len(lengths) // 2] if lengths else 0
