"""What is wrong with a configuration, in words: where it stands, what is wrong, what to do. Of values, only limits are
shown."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from longshift.limits import LimitsRefused

TAGGED = ("endpoints", "agents")
"""Sections whose entries come in kinds: pydantic puts the kind into an error's path, where no person wrote one."""


class SettingsRefused(Exception):
    """The configuration cannot be used. Its text has a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Sources:
    """Where the values of a configuration came from."""

    file: Path | None
    """The file that was read."""
    folder: Path
    """The folder of that file, else the working directory: the user's modules are found here."""
    variables: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """The environment variable that set a key, by the key's path."""

    def below(self, path: Sequence[str | int]) -> list[str]:
        """The environment variables that set keys below `path`."""
        steps = tuple(map(str, path))
        return [name for keys, name in self.variables.items() if keys != steps and keys[: len(steps)] == steps]

    def line(self, path: Sequence[str | int], text: str) -> str:
        """One problem, under the name of the variable or of the file and key that it stands in."""
        for length in range(len(path), 0, -1):
            if variable := self.variables.get(tuple(map(str, path[:length]))):
                rest = ".".join(map(str, path[length:]))
                return f"{variable}: {rest}: {text}" if rest else f"{variable}: {text}"
        place = ".".join(map(str, path))
        if self.file is None:
            return f"the configuration: {place}: {text}"
        return f"{self.file}: {place}: {text}"


def lines(error: ValidationError, settings: type[BaseModel], sources: Sources) -> list[str]:
    """A line for each problem that pydantic found."""
    found: list[str] = []
    for details in error.errors(include_url=False, include_input=False):
        location = details["loc"]
        path = (*location[:2], *location[3:]) if location[0] in TAGGED else location
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, LimitsRefused):
            found += [sources.line((*path, name), text) for name, text in cause.problems.items()]
        elif details["type"] == "extra_forbidden" and (below := sources.below(path)):
            found += [f"{variable}: {'.'.join(map(str, path))}: {_words(details, settings)}" for variable in below]
        elif details["type"].startswith("union_tag"):
            kinds = " or ".join(f'"{kind}"' for kind in _kinds(settings, location))
            found.append(sources.line((*path, "kind"), f"must be {kinds}"))
        else:
            found.append(sources.line(path, _words(details, settings)))
    return found


def _words(details: ErrorDetails, settings: type[BaseModel]) -> str:
    location = details["loc"]
    match details["type"]:
        case "extra_forbidden":
            known = _keys(settings, location)
            near = difflib.get_close_matches(str(location[-1]), known, 1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            return f"is no key here; {hint}The keys are {', '.join(known)}"
        case "missing":
            return "is missing; add it"
        case "string_type":
            return 'must be text; put it in double quotes: "..."'
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"must be a section of keys; the keys are {', '.join(_keys(settings, (*location, '')))}"
        case "string_too_short" | "string_pattern_mismatch" if location[-1] in ("use", "tools") or "tools" in location:
            return 'must be "module:attribute", such as "shop.tools:list_stock"'
        case "tuple_type":
            return 'must be a list, such as ["shop.tools:list_stock"]'
        case "string_pattern_mismatch" if location == ("journal", "url"):
            return "must begin with sqlite:/// or postgresql://, as in sqlite:///path or postgresql://user@host/name"
        case "string_pattern_mismatch" if location[-1] == "[key]":
            return "is no usable name; take 1 to 64 letters, digits, `.`, `_` or `-`, a letter or digit first"
        case "string_too_short" | "string_pattern_mismatch":
            return "is blank; give a value or remove the key"
        case _:
            return details["msg"].removeprefix("Value error, ").replace("Input should", "must", 1)


def _keys(settings: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The keys that stand beside the last step of `location`."""
    return list(dict.fromkeys(key for model in _models(settings, location[:-1]) for key in model.model_fields))


def _kinds(settings: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    return [tag for model in _models(settings, location) for tag in _tags(model)]


def _models(settings: type[BaseModel], location: tuple[str | int, ...]) -> list[type[BaseModel]]:
    """The models that can stand at `location`. A step that is no field is a name, a position or a kind."""
    models = [settings]
    for step in location:
        fields = [model.model_fields[step] for model in models if isinstance(step, str) and step in model.model_fields]
        below = [model for known in fields for model in _reachable(known.annotation)]
        of_kind = [model for model in models if step in _tags(model)]
        models = below or of_kind or models
    return models


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """What tells a model apart in a union: the values of its `kind`, or its own name."""
    kind = model.model_fields.get("kind")
    return get_args(kind.annotation) if kind else (model.__name__,)


def _reachable(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    else:
        for argument in get_args(annotation):
            yield from _reachable(argument)
