"""Draws what series.py made: `python -m bench.peers.plot FILE.json FILE.svg`."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot


def main(given: str, drawn: str) -> None:
    """Draw the panels beside each other, both axes logarithmic."""
    panels = json.loads(Path(given).read_text(encoding="utf-8"))
    matplotlib.rcParams["svg.hashsalt"] = "longshift"  # else every drawing of the same figures differs
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4.5), layout="constrained")
    colours = {name: f"C{number}" for number, name in enumerate(panels[0]["series"])}  # the same in every panel
    for axis, panel in zip(axes, panels, strict=True):
        for name, points in panel["series"].items():
            axis.plot(*zip(*points, strict=True), label=name, color=colours[name], linewidth=1.5)
        axis.set(xscale="log", yscale="log", xlabel="step", title=panel["title"])
        axis.grid(visible=True, which="major", alpha=0.3)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(drawn, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
