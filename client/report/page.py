"""The pages of reports: the facts, in order, into the templates beside this file.

Whatever a page shows goes through one door: control characters, bidi marks and invisible ones are shown as what they
are, and then all of it is escaped. The page allows no script and no network, whatever stands in it.
"""

import base64
import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from client import show
from client.inert import inert, short
from client.report import budgets, plots, steps
from client.report.overview import Overview
from client.report.records import Decided, Records
from client.report.sources import Sources
from longshift import jsontext
from longshift.contracts import operation_id
from longshift.limits import cents
from longshift.remedies import commands
from longshift.status import Status
from store.tables import ModelCallRow

NOT_TOLD = ("ended", "goes_on")
"""Decisions that stand on the page elsewhere."""
WAITS = ("held", "goes_on", "ended")
"""Decisions between which a run waits, the first of them, or does not any more."""


def run_page(sources: Sources) -> str:
    """The report of one run, as HTML."""
    records, result = sources.records, sources.result
    facts: dict[str, Any] = {
        "sources": sources,
        "result": result,
        "status": sources.status,
        "detail": _detail(sources),
        "going_on": _going_on(sources),
        "verdict": _verdict(sources),
        "records": records,
        "task": sources.found.goal if sources.found else "",
        "transcript": None,
        "maybe": _maybe(sources),
    }
    if records is not None:
        until = records.run.closed_at or (sources.made_at if not sources.ended else records.last_at)
        seconds = max(until, records.last_at) - records.run.opened_at
        facts |= {
            "task": _task(records) or facts["task"],
            "asked": _facts(records, seconds),
            "budgets": budgets.at_the_end(records, result, until),
            "plots": [
                plots.plot(one, seconds) for one in budgets.over_time(records) if any(used for _, used in one.used)
            ],
            "timeline": plots.timeline(_lanes(records, until), seconds),
            "happened": _happened(records),
            "effects": _effects(records),
            "transcript": steps.transcript(records),
        }
    facts["title"] = f"{sources.run_id}: {sources.status}"
    return _render("run.html.j2", sources.made_at, facts)


def overview_page(overview: Overview) -> str:
    """The report of many runs, as HTML."""
    title = f"Shifts since {_moment(overview.since)}"
    return _render("overview.html.j2", overview.made_at, {"overview": overview, "title": title})


def _render(template: str, made_at: float, facts: Mapping[str, Any]) -> str:
    environment = _environment()
    style = environment.get_template("style.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template(template).render(
        **facts, style=Markup(style), style_digest=digest, made_at=made_at, version=version("longshift")
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("client.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    environment.filters |= {
        "moment": _moment,
        "machine_time": lambda at: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
        "duration": plots.duration,
        "figure": plots.figure,
        "cents": lambda micro_usd: plots.figure(cents(micro_usd)),
        "short": short,
        "entry": lambda entry: type(entry).__name__,
        "tone": _tone,
    }
    environment.globals |= {"plot": plots, "zone": time.strftime("%Z")}
    return environment


def _inert(value: object) -> object:
    """What is written for a value of a template, before it is escaped."""
    return inert(value, multiline=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def _moment(at: float) -> str:
    """Local time of `at`, with its day."""
    return show.clock(at, date=True)


def _tone(status: str) -> str:
    """The class of a status: well, waiting or bad."""
    if status in (Status.COMPLETED, "held", "ok"):
        return "well"
    return "bad" if status in Status.__members__ or status in ("differs", "STUCK") else "waiting"


def _detail(sources: Sources) -> str:
    if sources.found is not None:
        return sources.found.result.detail if sources.found.result is not None else sources.found.detail
    if sources.result is not None:
        return sources.result.detail
    return "The journal holds no end of it: it is at work, waits, or was ended from outside; only the server knows."


def _going_on(sources: Sources) -> list[str]:
    """The commands that let a run go on that waits: those that answer what it asks, then the others."""
    found = sources.found
    if found is None or found.closed_at is not None:
        return []
    return [*(commands(sources.run_id, found.question) if found.question else ()), *show.others(found)]


def _verdict(sources: Sources) -> tuple[str, str]:
    """The audit in a word and a sentence."""
    first = next((check for check in sources.checks if check.verdict == "differs"), None)
    if first is not None:
        return "differs", f"Something differs, first the {first.name}: {first.text}"
    unchecked = sum(check.verdict == "not checked" for check in sources.checks)
    if unchecked == len(sources.checks):
        return "not checked", "Nothing could be checked."
    if unchecked:
        return "held", f"All that was checked held; {unchecked} of {len(sources.checks)} could not be checked."
    return "held", "All that was checked held."


def _maybe(sources: Sources) -> list[str]:
    """Ids of the calls without an observation that may have happened: as the result says, or the ledger, since not
    every version wrote them into the result."""
    result, records = sources.result, sources.records
    if result is None:
        return []
    open_ = {one.call_id for one in records.tool_calls if one.state in ("started", "unknown")} if records else set()
    return list(dict.fromkeys([*result.unknown_calls, *(one for one in result.unrun_calls if one in open_)]))


def _task(records: Records) -> str:
    """What was asked: the first user's message."""
    asked = next((one.message for one in records.messages if one.role == "user" and one.message), None)
    return asked.content if asked is not None else ""


def _facts(records: Records, seconds: float) -> list[tuple[str, str]]:
    run, spec, calls = records.run, records.spec, records.model_calls
    failed = sum(one.row.state == "failed" for one in calls)
    tokens = sum(one.row.input_tokens or 0 for one in calls)
    facts = [
        ("agent", run.agent),
        ("endpoint", f"{run.endpoint} ({run.model})"),
        ("fund", spec.fund if spec else None),
        ("tools", ", ".join(tool.name for tool in records.agent.tools) or "none"),
        ("context policy", records.agent.context),
        ("began", _moment(run.opened_at)),
        ("ended", _moment(run.closed_at) if run.closed_at is not None else None),
        ("took", plots.duration(max(0.0, seconds))),
        ("messages", f"{len(records.messages)}, the chain ends in {run.digest[:16]}"),
        ("failed model calls", str(failed) if failed else None),
        ("input tokens", plots.figure(tokens) if tokens else None),
    ]
    return [(name, text) for name, text in facts if text]


def _lanes(records: Records, until: float) -> list[tuple[str, str, plots.Times]]:
    """What was under way when, in seconds since the run began."""
    start = records.run.opened_at

    def span(began: float, ended: float | None) -> tuple[float, float]:
        return began - start, (until if ended is None else ended) - start

    asked: list[ModelCallRow] = [one.row for one in records.model_calls]
    tools = [one for one in records.tool_calls if one.started_at is not None and one.state != "fenced"]
    of = {kind: [one for one in tools if one.kind == kind] for kind in ("read", "effect")}
    timed = {kind: [span(one.started_at or start, one.settled_at) for one in calls] for kind, calls in of.items()}
    waits: list[tuple[float, float]] = []
    since: float | None = None
    for decided in records.decisions:
        if decided.kind not in WAITS:
            continue
        if since is not None:
            waits.append(span(since, decided.at))
        since = decided.at if decided.kind == "held" else None
    if since is not None:
        waits.append(span(since, until))
    return [
        ("model calls", "model", [span(one.started_at, one.ended_at) for one in asked]),
        ("reads", "read", timed["read"]),
        ("effects", "effect", timed["effect"]),
        ("waits", "wait", waits),
    ]


def _happened(records: Records) -> list[tuple[float, str, str]]:
    """What was decided about the run and what people sent: when, what, and in which words."""
    told = [one for one in records.decisions if one.kind not in NOT_TOLD]
    return [(one.at, one.kind.replace("_", " "), _words(one)) for one in told]


def _words(decided: Decided) -> str:
    said = [
        f"{name}: {value if isinstance(value, str) else jsontext.canonical(value)}"
        for name, value in decided.detail.items()
        if value not in (None, "")
    ]
    return "; ".join(said)


def _effects(records: Records) -> list[dict[str, Any]]:
    found = []
    for one in records.tool_calls:
        if one.kind == "effect":
            words, well = steps.outcome(one.observation, one.state)
            operation = operation_id(one.run_id, one.model_call, one.position, one.call_id)
            found.append({"call": one, "operation": operation, "outcome": words, "well": well})
    return found
