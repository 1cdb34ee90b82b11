"""What the command writes into docs/: the table in its marked place, and the plot."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import table
from bench.samples import Results
from bench.series import panels
from bench.subjects import BY_NAME, CHECKOUT, PEERS_PYTHON

PAGE = CHECKOUT / "docs" / "performance.md"
PLOT = CHECKOUT / "docs" / "cost-per-step.svg"
BEGIN, END = "<!-- figures: written by `python -m bench --write` -->", "<!-- end of the figures -->"


def write(results: Results) -> None:
    """Fill the page's marked place, and draw the plot where there are shifts to draw."""
    figures = list(table.lines(results))
    if results.shifts:
        draw(results, PLOT)
        figures += ["", f"![Cost per step against step number]({PLOT.name})"]
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def filled(page: str, figures: Sequence[str]) -> str:
    """A page with the figures between its marks. Raises ValueError where it has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for figures: it needs the lines {BEGIN} and {END}")
    return "\n".join([f"{before}{begin}", "", *figures, "", f"{end}{after}"])


def draw(results: Results, plot: Path) -> None:
    """Draw cost per step against step number; needs the peers' environment."""
    names = {name: subject.told for name, subject in BY_NAME.items()}
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "panels.json"
        given.write_text(json.dumps(panels(results.shifts, names)), encoding="utf-8")
        command = [str(PEERS_PYTHON), "-m", "bench.peers.plot", str(given), str(plot)]
        subprocess.run(command, cwd=CHECKOUT, check=True)
