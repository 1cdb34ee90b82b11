"""The pictures of an experiment, by matplotlib: success against length, where errors sit, what retries bring."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.analysis import Findings, in_order
from lab.formulas import ROUNDING, missing
from lab.rate import Rate

Formats = Mapping[str, bytes]
"""A picture, by the ending of its file."""

SIZE = (7.0, 4.2)
"""Inches."""
DOTS = 150
"""To an inch, of the PNG."""
COLOURS = ("#0b4f9c", "#a34700", "#4a7a1c")
"""Of the conditions; each also has a mark of its own, for who does not see them apart."""
MARKS = ("o", "s", "^")
APART = 0.12
"""Look-ups between the marks of conditions at one length, which would hide each other where all of them fail."""
STYLE = {"svg.hashsalt": "longshift", "svg.fonttype": "none", "font.family": "sans-serif"}
"""The same figures make the same file."""


def draw(findings: Sequence[Findings]) -> dict[str, Formats]:
    """All pictures of an experiment, by name.

    Raises LabExtraMissing without matplotlib.
    """
    found = {"success": _picture(_success, findings), "errors": _picture(_errors, findings)}
    if any(one.retries for one in findings):
        found["retries"] = _picture(_retries, findings)
    return found


def embedded(picture: Formats) -> str:
    """A picture as an address that holds it."""
    return f"data:image/svg+xml;base64,{base64.b64encode(picture['svg']).decode()}"


def matplotlib() -> tuple[Any, Any]:
    """Its figure, and how it is set up; it takes a second to import: only when it is used.

    Raises LabExtraMissing without it.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing(error) from None
    return Figure, rc_context


def _picture(fill: Callable[[Any, Sequence[Findings]], None], findings: Sequence[Findings]) -> Formats:
    make, style = matplotlib()
    with style(STYLE):
        figure = make(figsize=SIZE, layout="constrained")
        fill(figure, findings)
        found = {}
        for ending, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            file = io.BytesIO()
            figure.savefig(file, format=ending, dpi=DOTS, metadata=metadata)
            found[ending] = file.getvalue()
    return found


def _bars(rates: Sequence[Rate]) -> tuple[list[float], list[list[float]]]:
    """Heights, and how far their intervals reach below and above."""
    heights = [rate.value or 0.0 for rate in rates]
    intervals = [rate.interval for rate in rates]
    below = [max(0.0, height - interval.low) for height, interval in zip(heights, intervals, strict=True)]
    above = [max(0.0, interval.high - height) for height, interval in zip(heights, intervals, strict=True)]
    return heights, [below, above]


def _success(figure: Any, findings: Sequence[Findings]) -> None:
    """Success against length, and the fit a p^n."""
    axes = figure.subplots()
    for place, one in enumerate(findings):
        lengths = list(one.lengths)
        heights, reach = _bars(list(one.lengths.values()))
        look = {"color": COLOURS[place], "marker": MARKS[place]}
        beside = [length + APART * (place - (len(findings) - 1) / 2) for length in lengths]
        axes.errorbar(beside, heights, yerr=reach, linestyle="none", capsize=3, label=one.condition, **look)
        if one.fit is not None and one.fit.line is not None:
            decay, begin, end = one.fit.line, one.fit.fitted[0], one.fit.fitted[-1]
            along = [begin + (end - begin) * step / 100 for step in range(101)]
            curve = [(n, success) for n in along if (success := decay.a * decay.p**n) <= 1 + ROUNDING]
            label = f"{decay.a:.3g} x {decay.p:.3g}^n, fitted from {begin} to {end}"
            axes.plot(*zip(*curve, strict=True), color=COLOURS[place], linewidth=1, label=label)
    axes.set(xlabel="look-ups", ylabel="success", ylim=(-0.02, 1.08), title="Success against length, 95 % intervals")
    axes.set_xticks(sorted({length for one in findings for length in one.lengths}))
    axes.legend()


def _errors(figure: Any, findings: Sequence[Findings]) -> None:
    """Of the runs that came as far as a step, those that went wrong there first."""
    figure.set_size_inches(SIZE[0], 1.2 + 1.7 * len(findings))
    rows = figure.subplots(len(findings), 1, sharex=True, squeeze=False)
    # Runs of one condition may all end before a step that another's come to: each bar stands at its own step.
    names = in_order({step.name for one in findings for step in one.steps})
    for place, one in enumerate(findings):
        axes = rows[place][0]
        heights, reach = _bars([step.errors for step in one.steps])
        places = [names.index(step.name) for step in one.steps]
        axes.bar(places, heights, yerr=reach, color=COLOURS[place], capsize=3, width=0.6)
        axes.set(ylim=(0, 1), ylabel="wrong", title=one.condition)
    rows[-1][0].set_xticks(range(len(names)), [name.removeprefix("look-up ") for name in names])
    rows[-1][0].set_xlabel("look-up, by its place, and total")
    figure.suptitle("Where runs go wrong first, 95 % intervals")


def _retries(figure: Any, findings: Sequence[Findings]) -> None:
    """Success within so many attempts, and what both models have it."""
    columns = figure.subplots(1, len(findings), sharey=True, squeeze=False)
    for place, one in enumerate(findings):
        axes, retries = columns[0][place], one.retries
        if retries is None:
            continue
        numbers = range(1, len(retries.within) + 1)
        heights, reach = _bars(retries.within)
        look = {"color": COLOURS[place], "marker": MARKS[place]}
        axes.errorbar(numbers, heights, yerr=reach, linestyle="none", capsize=3, label="measured", **look)
        axes.plot(numbers, retries.independent, color="#53575e", linestyle="--", label="independent")
        if (mixture := retries.mixture) is not None:
            axes.plot(numbers, mixture.within, color="#53575e", label=f"hard fraction {mixture.hard:.2g}")
        axes.set(title=one.condition, xlabel="attempts", ylim=(-0.02, 1.08))
        axes.set_xticks(list(numbers))
        axes.legend(fontsize="small")
    columns[0][0].set_ylabel("success within")
    length = next(one.retries.length for one in findings if one.retries)
    figure.suptitle(f"Retries at {length} look-ups, 95 % intervals")
