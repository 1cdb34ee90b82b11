"""The independent check of a shift that mends: were the project's tests seen to pass, after all that was changed?"""

from longshift import Trajectory, Verdict, evidence_check

TESTS = "python3 -m unittest -q"
"""The command line that runs the project's tests."""
COMMAND = "run_command"
"""The registered name of the tool that runs them."""
CHANGES = ("write_file", "edit_file")
"""The registered names of the tools that change files."""


@evidence_check(
    looks_at=f"the last run of the tests ({TESTS}): its exit code, that no file was written or edited after it, or may "
    "have been, and that no command was left unanswered at the end",
    cannot_know="whether the tests test what they should, whether the shift changed them, and what other commands "
    "changed; read what it edited",
)
def tests_pass(trajectory: Trajectory) -> Verdict:
    """The project's tests were seen to pass, and nothing was changed since."""
    code, changed = None, 0
    for call, observation in trajectory.observed():
        if call.name == COMMAND and call.arguments.get("command") == TESTS:
            value = observation.get("value")
            code, changed = (value.get("exit_code") if isinstance(value, dict) else None), 0
        elif call.name in CHANGES and (observation["ok"] or observation["error"]["kind"] == "outcome_unknown"):
            changed += 1
    unknown = trajectory.unanswered(COMMAND, *CHANGES)
    if unknown:
        which = f"{len(unknown)} of the commands, writes and edits at the end"
        return Verdict(False, f"{which} may or may not have been made")
    if code is None:
        return Verdict(False, "the tests were not run, or their last run told no exit code")
    if changed:
        which = f"{changed} writes or edits after the last run of the tests"
        return Verdict(False, f"files were changed, or may have been: {which}")
    return Verdict(code == 0, f"the last run of the tests ended with exit code {code}")
