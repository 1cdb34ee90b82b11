"""Evaluation: shifts that have ended, judged by the checks that their agents declare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.cases import CasesRefused, read_cases
from client.errors import Refused
from client.replay import Outcome, play
from client.shifts import Shifts
from longshift.agent import Agent
from longshift.contracts import RunResult
from longshift.evidence import EvidenceCheck, Graded, Trajectory, Verdict, grade


@dataclass(frozen=True)
class Evaluated:
    """What the checks found of a shift."""

    name: str
    """The run's id, or the case's name."""
    agent: str
    result: RunResult | None
    """How it ended; None where a case came to no end."""
    graded: tuple[Graded, ...]

    @property
    def passed(self) -> bool:
        """Every check passed."""
        return all(one.verdict.passed for one in self.graded)

    def document(self) -> dict[str, Any]:
        """The evaluation as `--json` prints it."""
        return {
            "name": self.name,
            "agent": self.agent,
            "status": self.result.status if self.result else None,
            "passed": self.passed,
            "checks": [
                {
                    "name": one.check.name,
                    "passed": one.verdict.passed,
                    "sentence": one.verdict.sentence,
                    "looks_at": one.check.looks_at,
                    "cannot_know": one.check.cannot_know,
                }
                for one in self.graded
            ],
        }


async def evaluate_run(shifts: Shifts, agents: Mapping[str, Agent], run_id: str) -> Evaluated:
    """Judge a run by the checks that its agent declares now.

    Raises:
        Refused: it has not ended, no shift began, or its agent is not known here or declares no check.
        NoJournal: the journal cannot be read, or its messages are not those that the run ended with.
        NoSuchRun, NoServer, Unreadable: as client.shifts says.
    """
    found = await shifts.state(run_id)
    if found.closed_at is None:
        raise Refused(
            f"{run_id}: has not ended and cannot be judged; wait for its end with: longshift result {run_id} --wait"
        )
    checks = checks_of(agents, found.agent, run_id)
    result = await shifts.result(run_id)
    messages = tuple(await shifts.transcript(run_id, result.head))
    return Evaluated(run_id, found.agent, result, tuple(grade(checks, Trajectory(result, messages))))


async def evaluate_cases(paths: Sequence[Path], agents: Mapping[str, Agent]) -> list[Evaluated]:
    """Play cases on a server and a worker of their own, and judge each run; what they `expect` besides is left to
    `longshift replay`.

    Raises:
        CasesRefused: a case cannot be used, or its agent declares no check; nothing was played.
        ServerFailed: the server does not start.
    """
    cases = read_cases(paths, agents)
    problems = []
    for name in dict.fromkeys(case.given.agent for case in cases):
        try:
            checks_of(agents, name, next(case.name for case in cases if case.given.agent == name))
        except Refused as refused:
            problems.append(str(refused))
    if problems:
        raise CasesRefused(problems)
    found: list[Evaluated] = []
    await play(cases, agents, lambda outcome: found.append(of_case(outcome, agents)))
    return found


def of_case(outcome: Outcome, agents: Mapping[str, Agent]) -> Evaluated:
    """Judge a case that was played. Without a result every check fails, with the reason."""
    agent = outcome.case.given.agent
    checks = agents[agent].evidence
    if outcome.result is None:
        none = Verdict(False, "; ".join(outcome.mismatches) or "the run came to no end")
        return Evaluated(outcome.case.name, agent, None, tuple(Graded(check, none) for check in checks))
    found = grade(checks, Trajectory(outcome.result, outcome.transcript))
    return Evaluated(outcome.case.name, agent, outcome.result, tuple(found))


def checks_of(agents: Mapping[str, Agent], agent: str, name: str) -> tuple[EvidenceCheck, ...]:
    """The checks of an agent.

    Raises Refused, naming the shift, where there is none to judge it by.
    """
    if agent not in agents:
        known = ", ".join(sorted(agents))
        raise Refused(f"{name}: its agent {agent[:60]!r} is not configured here; the agents are {known}")
    if not agents[agent].evidence:
        raise Refused(f"{name}: its agent {agent} declares no check; add some to its `evidence`")
    return agents[agent].evidence
