"""The page of an experiment: one HTML file with its findings in words, pictures and tables, that loads nothing."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import JsonValue

from client.inert import inert
from client.report.plots import figure
from lab.analysis import Findings
from lab.experiment import Graded
from lab.pictures import Formats, embedded
from lab.plan import Plan
from lab.receipt import statuses

WORDS = {
    "success": "Success against length under each condition, with the fit a p^n",
    "errors": "The share of runs that went wrong first at each step, of those that came so far",
    "retries": "Success within one attempt and more, beside independent attempts and a hard fraction",
}
"""What each picture shows, for who does not see it."""

STYLE = "img { max-width: 100%; height: auto; }\n.wide { margin-bottom: 1rem; }\n"
"""Beside that of reports: pictures as narrow as the window, tables that stand apart."""


def page(
    plan: Plan,
    graded: Sequence[Graded],
    findings: Sequence[Findings],
    answers: Sequence[JsonValue],
    pictures: Mapping[str, Formats],
) -> str:
    """The page, as HTML.

    Args:
        plan: what was planned.
        graded: every run.
        findings: what they support.
        answers: the endpoint's, to what it is.
        pictures: by name, as `lab.pictures.draw` has them.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("lab"), PackageLoader("client.report")]),  # the style is that of reports
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_inert,
    )
    environment.filters["figure"] = figure
    style = environment.get_template("style.css").render() + STYLE
    return environment.get_template("reliability.html.j2").render(
        plan=plan,
        findings=findings,
        statuses=statuses(graded),
        runs=len(graded),
        answers=answers,
        pictures=[(name, WORDS[name], embedded(picture)) for name, picture in pictures.items()],
        style=Markup(style),
        style_digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        version=version("longshift"),
    )


def _inert(value: object) -> object:
    """What is written for a value, before it is escaped."""
    return inert(value, multiline=True) if isinstance(value, str) and not isinstance(value, Markup) else value
