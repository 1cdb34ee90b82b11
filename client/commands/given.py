"""Limits, as people write them on a command line (`name=value`), the names of funds, and times."""

import re
from collections.abc import Sequence
from typing import TypeVar

import click
from pydantic import JsonValue

from longshift import jsontext
from longshift.funds import usable_name
from longshift.inbox import safe
from longshift.limits import Limits, LimitsRefused

UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""Seconds of the units in which --since is given."""

Given = TypeVar("Given", str, str | None, tuple[str, ...])


class BadInput(click.ClickException):
    """What was given cannot be used; a line for each problem, with field and remedy."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n       ".join(problems))


def fund_name(_context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """A fund's name, checked. Raises BadInput."""
    try:
        return None if name is None else usable_name(name)
    except ValueError as error:
        where = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
        raise BadInput([f"{where}: {error}"]) from None


def usable_runs(_context: click.Context, _parameter: click.Parameter, given: Given) -> Given:
    """A shift's id, or several, or none, checked. Raises BadInput."""
    for run_id in (given,) if isinstance(given, str) else given or ():
        wrong = "blank" if not run_id.strip() else "not UTF-8" if run_id != safe(run_id) else ""
        if wrong:
            raise BadInput([f"RUN: is {wrong}; give a shift's id, see which there are with: longshift list"])
    return given


def since_seconds(_context: click.Context, _parameter: click.Parameter, given: str | None) -> int | None:
    """The seconds that `--since` reaches back. Raises BadInput."""
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,5})([mhdw])", given.strip())
    if found is None or int(found[1]) == 0:
        raise BadInput(["--since: write a number and m, h, d or w (minutes, hours, days, weeks), such as 7d"])
    return int(found[1]) * UNITS[found[2]]


def read_limits(words: Sequence[str], current: Limits | None = None) -> dict[str, JsonValue]:
    """The changes that `words` ask for, as absolute values, checked.

    Args:
        words: each `name=value`, where a value is JSON, a plain word, `none`, or `+N` for so much more than now.
        current: the limits now; None where there are none yet and `+N` makes no sense.

    Raises:
        BadInput: with a line for each bad name or value.
    """
    changes: dict[str, JsonValue] = {}
    problems: list[str] = []
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            problems.append(f"{word[:60]!r}: write it as name=value, such as seconds=600")
        elif name in changes:
            problems.append(f"{name[:60]}: is given twice; give it once")
        else:
            try:
                changes[name] = _raised(name, text[1:], current) if is_relative(word) else _value(text)
            except ValueError as error:
                problems.append(f"{name[:60]}: {error}")
    try:
        (current or Limits()).changed(changes)
    except LimitsRefused as refused:
        problems += [f"{name}: {text}" for name, text in refused.problems.items()]
    if problems:
        raise BadInput(problems)
    return changes


def is_relative(word: str) -> bool:
    """Whether `name=+N` asks for more than now, so that the limits now must be known."""
    return word.partition("=")[2].startswith("+")


def _value(text: str) -> JsonValue:
    if text in ("none", "None"):
        return None
    try:
        return jsontext.parse(text)
    except jsontext.JsonRefused:
        return text


def _raised(name: str, text: str, current: Limits | None) -> JsonValue:
    if current is None:
        raise ValueError(f"+{text[:40]} adds to a running shift's limit; give the whole value here, such as 600")
    now = getattr(current, name, 0) if name in Limits.model_fields else 0  # an unknown name is refused with the others
    if now is None:
        raise ValueError(f"has no limit now that +{text[:40]} could add to; give the whole value")
    more = _value(text)
    if isinstance(now, str | bool):
        raise ValueError(f"cannot be added to; give one of its values, now it is {_value_text(now)}")
    if isinstance(more, bool) or not isinstance(more, int | float):
        raise ValueError(f"+{text[:40]} adds no number; write it as +600")
    return now + more


def _value_text(value: str | bool) -> str:
    return str(value).lower()
