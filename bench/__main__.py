"""`python -m bench`: measure, and print the table."""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import table
from bench.shifts import measure_shifts
from bench.starts import measure_starts

LENGTHS = (50, 200)
"""Steps of the shifts that are compared."""
LONG = 1000
"""Steps of the shift of `--full`."""


def _out(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _versions() -> dict[str, Any]:
    temporal = [str(Path(sys.executable).parent / "temporal"), "--version"]
    return {
        "python": platform.python_version(),
        "temporalio": version("temporalio"),
        "temporal": subprocess.run(temporal, capture_output=True, text=True, check=True).stdout.strip(),
        "pydantic": version("pydantic"),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Longshift against the floor.")
    parser.add_argument("what", nargs="?", choices=["all", "shifts", "starts"], default="all")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="rounds that count (default: 5)")
    parser.add_argument("--full", action="store_true", help=f"also one shift of {LONG} steps of each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures there")
    given = parser.parse_args()
    raw: dict[str, Any] = {"versions": _versions()}
    lines = [", ".join(f"{name} {value}" for name, value in raw["versions"].items()), ""]
    with tempfile.TemporaryDirectory(prefix="longshift-bench-") as name:
        folder = Path(name)
        if given.what != "starts":
            long = LONG if given.full else None
            samples = await measure_shifts(folder, LENGTHS, given.repetitions, long, _progress)
            raw["shifts"] = [asdict(sample) for sample in samples]
            lines += table.shifts(samples)
        if given.what != "shifts":
            found = await measure_starts(folder, _progress)
            raw["starts"] = asdict(found)
            lines += table.starts(found)
    for line in lines:
        _out(line)
    if given.json:
        given.json.write_text(json.dumps(raw), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_main())
