"""The command line, in processes of its own, against one server and worker that `longshift up` keeps up."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.inert import inert
from client.main import COMMANDS
from client.main import longshift as command_line
from tests.acceptance.commands import (
    HUNG,
    LONGSHIFT,
    PATIENCE,
    Up,
    clean_environment,
    free_port,
    installed,
    longshift,
    read_until,
)

CONFIG = (
    HUNG
    + """
[endpoints.nasty]
kind = "replay"
[[endpoints.nasty.turns]]
content = "Red: \\u001b[31m, back: \\r, right to left: \\u202e."
output_tokens = 2
"""
)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    help_text = CliRunner().invoke(command_line, [name, "--help"])

    assert help_text.exit_code == 0
    assert "Example" in help_text.output
    assert f"longshift {name}" in " ".join(help_text.output.split()).replace(
        "longshift --config shop.toml", "longshift"
    )


def test_the_help_names_every_command_with_its_line() -> None:
    ended = installed("--help", env=clean_environment())

    assert ended.code == 0
    for name, (_, text) in COMMANDS.items():
        assert f"  {name} " in ended.out
        assert text in " ".join(ended.out.split())  # long ones stand on two lines


def test_help_imports_no_command_and_nothing_heavy() -> None:
    probe = (
        "import sys, client.main; print([m for m in ('temporalio', 'pydantic', 'rich', 'asyncio') if m in sys.modules])"
    )
    found = subprocess.run(
        [LONGSHIFT.with_name("python"), "-c", probe], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert found.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(shell: str) -> None:
    ended = installed("completion", shell, env=clean_environment())

    assert ended.code == 0
    assert "_LONGSHIFT_COMPLETE" in ended.out


def test_a_shell_completes_commands_by_name() -> None:
    given = {"_LONGSHIFT_COMPLETE": "bash_complete", "COMP_WORDS": "longshift st", "COMP_CWORD": "1"}
    ended = installed(env=clean_environment(**given))

    assert ended.out.split() == ["plain,start", "plain,state", "plain,stop"]


def test_a_mistyped_command_is_answered_with_the_near_ones() -> None:
    installed("satte", env=clean_environment()).refused("satte", "state")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "Do it."),
        ("start", "Do it.", "--json"),
        ("list", "--json"),
        ("limits", "shift-1", "seconds=+600"),
        ("stop", "shift-1"),
    ],
)
@pytest.mark.slow
def test_without_a_server_each_command_says_how_to_start_one(words: tuple[str, ...], tmp_path: Path) -> None:
    env = clean_environment(TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}")

    longshift(*words, env=env, cwd=tmp_path).refused("no Temporal server answers at 127.0.0.1", "longshift up")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("start", "x", "--limit", "seconds=0"), ["seconds: must be a finite number of seconds above 0, not 0"]),
        (("start", "x", "--limit", "model_calls=1.5"), ["model_calls: must be a whole number above 0, not 1.5"]),
        (("start", "x", "--limit", "seconds=+5"), ["seconds: +5 adds to a running shift's limit"]),
        (("start", "x", "--limit", "calls=5"), ["calls: is no limit; the limits are model_calls,"]),
        (
            ("limits", "r", "seconds", "tool_calls=no", "repeats=1", "repeats=2"),
            ["'seconds': write it as name=value", "tool_calls: must be a whole number", "repeats: is given twice"],
        ),
        (("demo", "--model", "m"), ["--model: is for a real model; add --live"]),
        (("demo", "--live", "--endpoint", "localhost", "--model", ""), ["--endpoint: must be an http", "--model: "]),
        (("--config", "nowhere.toml", "list"), ["nowhere.toml", "cannot be read"]),
        (("replay", "nowhere"), ["nowhere", "cannot be read"]),
        (("demo", "--live"), ["--endpoint: is missing", "--model: is missing"]),
        (("pause", ""), ["RUN: is blank", "longshift list"]),
        (("stop", "f\udcfcr"), ["RUN: is not UTF-8", "longshift list"]),
        (("eval", "r", "f\udcfcr"), ["RUN: is not UTF-8"]),
        (("up", "--port", "7300", "--ui-port", "7300"), ["--ui-port: 7300 is the server's own port"]),
        (("up", "--port", "0"), ["--port", "1<=x<=65535"]),
    ],
)
@pytest.mark.slow
def test_bad_input_is_refused_field_by_field_before_any_server_is_asked(
    words: tuple[str, ...], said: list[str], tmp_path: Path
) -> None:
    longshift(*words, env=clean_environment(), cwd=tmp_path).refused(*said)


@pytest.mark.slow
def test_a_shift_is_started_looked_at_steered_and_stopped(up: Up) -> None:
    started = up.installed(
        "start", "Take your time.", "--endpoint", "hung", "--id", "steered", "--limit", "seconds=600", "--json"
    )
    assert (started.code, started.document) == (0, {"run_id": "steered"})
    up("start", "Again.", "--id", "steered").refused("steered", "was started before")

    up.until("/ 600\n", "state", "steered")  # once it has been opened
    shown = up.installed("state", "steered").out
    assert "status          RUNNING\n" in shown
    assert "tool calls      0 / 16\n" in shown
    assert "/ 600\n" in shown
    up("result", "steered").refused("has not ended", "--wait")

    raised = up.installed("limits", "steered", "seconds=+600", "tool_calls=20", "--json").document
    assert raised["changes"] == {"seconds": 1200, "tool_calls": 20}
    assert (raised["limits"]["seconds"], raised["waits_for_worker"]) == (1200, False)
    assert up.installed("pause", "steered", "--json").document == {"run_id": "steered", "sent": "pause"}
    assert up.installed("resume", "steered", "--json").document == {"run_id": "steered", "sent": "resume"}
    assert (
        up.installed("tell", "steered", "And vanilla?").out == "steered gets the message before its next model call\n"
    )

    stopped = up.installed("stop", "steered", "--now", "--reason", "seen enough", "--json").document
    assert stopped == {"run_id": "steered", "sent": "stop", "mode": "now", "reason": "seen enough"}
    result = up.installed("result", "steered", "--wait", "--json")
    assert (result.code, result.document["status"]) == (1, "STOP_REQUESTED")
    assert "seen enough" in result.document["detail"]
    up("limits", "steered", "seconds=+1").refused("has ended with STOP_REQUESTED")
    up.until("steered\tSTOP_REQUESTED\tshop\t", "list")


@pytest.mark.slow
def test_a_shift_is_run_to_its_answer(up: Up) -> None:
    ran = up("run", "Prepare drafts.", "--id", "answered", "--json")

    result = ran.document
    assert ran.code == 0
    assert {"answer", "detail", "exposure_cents", "messages", "model_calls", "output_tokens"} < result.keys()
    assert (result["run_id"], result["status"], result["tool_calls"], result["unrun_calls"]) == (
        "answered",
        "COMPLETED",
        3,
        [],
    )
    assert "draft_order" in ran.err
    assert [run["run_id"] for run in up.until("answered", "list", "--json", "--limit", "1").document] == ["answered"]
    transcript = up.installed("transcript", "answered", "--json").document
    assert [message["role"] for message in transcript["messages"]][:3] == ["system", "user", "assistant"]
    assert len(transcript["messages"]) == result["messages"] == 8
    sent = up("transcript", "answered", "--as-sent", "2", "--json").document
    assert (sent["purpose"], sent["state"], sent["messages"]) == ("turn", "answered", transcript["messages"][:4])
    assert {"name", "description", "parameters"} == set(sent["tools"][0])
    shown = up("transcript", "answered", "--as-sent", "2").out
    assert shown.startswith("model call 2: answered, at most")
    up("transcript", "answered", "--as-sent", "9").refused("no model call 9", "1 to 3")
    up("transcript", "answered", "--as-sent", "1", "--call", "x").refused("give one of them")
    watched = up.installed("watch", "answered")
    assert watched.code == 0
    assert "ended: COMPLETED" in watched.out.splitlines()[-1]
    assert up("watch", "answered", "--json").document["result"] == result


@pytest.mark.slow
def test_what_a_model_says_does_nothing_to_a_terminal_and_is_exact_in_json(up: Up) -> None:
    said = "Red: \x1b[31m, back: \r, right to left: \u202e."

    shown = up("run", "Be nasty.", "--id", "nasty", "--endpoint", "nasty")

    assert shown.code == 0
    assert f"answer    {inert(said)}\n" in shown.out
    assert up("result", "nasty", "--json").document["answer"] == said
    for told in (shown, up("transcript", "nasty"), up("state", "nasty")):
        assert not {"\x1b", "\r", "\u202e"} & set(told.out + told.err)


@pytest.mark.parametrize("words", [("watch",), ("result",), ("transcript",), ("tell", "x"), ("limits", "seconds=+1")])
@pytest.mark.slow
def test_an_unknown_shift_is_said_to_be_unknown(up: Up, words: tuple[str, ...]) -> None:
    up(words[0], "nobody", *words[1:]).refused("there is no run 'nobody'", "longshift list")


@pytest.mark.slow
def test_an_agent_that_no_worker_knows_is_named_with_those_that_are(up: Up) -> None:
    up("run", "x", "--agent", "nobody", "--limit", "seconds=20", "--json").refused("agent: no agent 'nobody'", "shop")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(up: Up) -> None:
    with subprocess.Popen(up.command("list"), env=up.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.slow
def test_a_reader_of_replay_that_goes_away_is_no_error(tmp_path: Path) -> None:
    words = [str(LONGSHIFT), "replay", str(Path(__file__).parents[1] / "cases" / "one-model-call.json")]
    with subprocess.Popen(
        words, env=clean_environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.slow
def test_where_nobody_can_be_asked_ctrl_c_leaves_the_shift_running_and_says_how_to_stop_it(up: Up) -> None:
    words = up.command("run", "Take long.", "--endpoint", "hung", "--id", "left", "--limit", "seconds=600", "--json")
    with subprocess.Popen(
        words, env=up.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        while "model call 1 began" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)

    assert (process.returncode, json.loads(out)) == (130, {"run_id": "left"})
    assert "longshift stop left" in err
    assert up("state", "left", "--json").document["status"] == "RUNNING"
    assert up("stop", "left", "--now").code == 0


@pytest.mark.slow
def test_ctrl_c_at_a_terminal_offers_to_stop_the_shift(up: Up) -> None:
    words = up.command("run", "Take long.", "--endpoint", "hung", "--id", "asked", "--limit", "seconds=600")
    terminal, its_end = pty.openpty()
    with subprocess.Popen(
        words, env=up.env, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True
    ) as process:
        os.close(its_end)
        read_until(terminal, "model call 1 began")
        process.send_signal(signal.SIGINT)
        read_until(terminal, "Stop asked?")
        os.write(terminal, b"y\n")
        said = read_until(terminal, "stop (graceful): Ctrl-C at the command line")
        assert up("stop", "asked", "--now").code == 0  # the hung call holds a graceful one back
        said += read_until(terminal, "used  ")
    os.close(terminal)

    assert "STOP_REQUESTED" in said
    assert process.returncode == 1
