"""`python -m bench`: measure, and print the table as Markdown."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import document, table
from bench.crowds import measure_crowds, measure_paused
from bench.environments import NotInstalled, install_peers, machine
from bench.resumes import measure_resumes
from bench.samples import Crowd, Results, Resume, Sample, together
from bench.shifts import measure_shifts
from bench.starts import measure_starts
from bench.subjects import BY_NAME, OURS, PEERS

SCENARIOS = ("shifts", "crowds", "resumes", "paused", "starts")


@dataclass(frozen=True)
class _Run:
    """One call of the command."""

    given: argparse.Namespace
    results: Results

    async def measure(self, folder: Path) -> None:
        """Everything that was asked for. What was measured before an error stays in the results."""
        given, wanted = self.given, self.given.scenarios or SCENARIOS
        if "shifts" in wanted:
            known = (*OURS, *(PEERS if given.peers else ()))
            subjects = [subject for subject in known if not given.only or subject.name in given.only]
            await measure_shifts(folder, subjects, given.n, given.rounds, given.cap, self._sample)
        if "crowds" in wanted:
            await measure_crowds(folder, given.crowds, given.rounds, given.cap, self._crowd)
        if "resumes" in wanted:
            await measure_resumes(folder, given.rounds, self._resume)
        if "paused" in wanted:
            self.results.paused = await measure_paused(folder, max(given.crowds), given.cap)
            self._keep(f"{self.results.paused.shifts} shifts wait")
        if "starts" in wanted:
            self.results.starts = await measure_starts(folder, _progress)
            self._keep("starts are measured")

    def _sample(self, sample: Sample) -> None:
        self.results.shifts.append(sample)
        wall, cpu = (f"{1000 * seconds / max(1, sample.reached):.1f} ms" for seconds in (sample.wall, sample.cpu))
        ended = sample.failure or "well"
        self._keep(f"{_of(sample, sample.steps)}: {wall} wall, {cpu} worker CPU a step, ended: {ended}")

    def _crowd(self, crowd: Crowd) -> None:
        self.results.crowds.append(crowd)
        self._keep(f"{_of(crowd, crowd.steps)}: {crowd.shifts} shifts, {crowd.workers} workers, {crowd.wall:.1f} s")

    def _resume(self, resume: Resume) -> None:
        self.results.resumes.append(resume)
        self._keep(f"{_of(resume, resume.steps)}: goes on after {resume.seconds:.1f} s")

    def _keep(self, line: str) -> None:
        """Tell what was measured, and keep it: a long run that is ended has its figures all the same."""
        _progress(line)
        if self.given.json:
            self.given.json.write_text(self.results.model_dump_json(), encoding="utf-8")


def _of(one: Sample | Crowd | Resume, steps: int) -> str:
    return f"round {one.round}, {one.subject}, {steps} steps"


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _counts(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 10,50,200")
    return [int(number) for number in numbers]


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are {', '.join(BY_NAME)}")
    return names


def _kept(name: str) -> Results:
    try:
        return Results.model_validate_json(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        text = f"{name!r} holds no figures that --json kept: {str(error).splitlines()[0]}"
        raise argparse.ArgumentTypeError(text) from None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Longshift, and others beside it.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)} (default: all)")
    parser.add_argument("--peers", action="store_true", help="also other systems; installs them in .bench-peers")
    parser.add_argument("--only", type=_names, metavar="NAME,NAME", help="whose shifts are measured (default: all)")
    parser.add_argument("--n", type=_counts, default=[10, 50, 200], metavar="N,N", help="steps of the shifts")
    parser.add_argument("--crowds", type=_counts, default=[50, 500], metavar="N,N", help="how many shifts at once")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (default: 3)")
    parser.add_argument(
        "--cap", type=float, default=900, metavar="SECONDS", help="for one shift or crowd (default: 900)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw figures there, as they come")
    parser.add_argument(
        "--read", type=_kept, nargs="+", metavar="FILE", help="measure nothing; make the table of these raw figures"
    )
    parser.add_argument("--write", action="store_true", help="also write table and plot into docs/")
    given = parser.parse_args()
    unknown = [scenario for scenario in given.scenarios if scenario not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]}; there are {', '.join(SCENARIOS)}")
    return given


def main() -> int:
    """Measure, or read what was measured, and print. The exit code: 1 where something kept it from the end."""
    given = _arguments()
    code = 0
    try:
        if given.peers or given.write:
            install_peers()
    except NotInstalled as error:
        _progress(str(error))
        return 1
    results = together(given.read) if given.read else Results(machine=machine(given.peers))
    if not given.read:
        with tempfile.TemporaryDirectory(prefix="longshift-bench-") as folder:
            try:
                asyncio.run(_Run(given, results).measure(Path(folder)))
            except (KeyboardInterrupt, Exception) as error:
                _progress(f"ended by {error!r}; the table holds what was measured before")
                code = 1
    sys.stdout.write("\n".join(table.lines(results)) + "\n")
    if given.write:
        document.write(results)
    return code


if __name__ == "__main__":
    sys.exit(main())
