"""The embedded server and the processes beside it, as real processes: started, killed, brought back, never orphaned."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from tests.acceptance import warm
from worker import dev_server
from worker.child import Child
from worker.connection import NoServer, connect
from worker.dev_server import DevServer, ServerFailed
from worker.problems import SettingsRefused
from worker.process import READY
from worker.settings import load_settings

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

PATIENCE = 30.0
"""Seconds after which a test gives up waiting."""


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[DevServer]:
    async with DevServer(tmp_path / "server", ui=False) as running:
        yield running


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  # another process's state has no event to wait for
            await asyncio.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there and is no mere entry that its new parent has yet to collect."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment(tmp_path: Path, address: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LONGSHIFT_", "TEMPORAL_"))}
    journal = f"sqlite:///{tmp_path / 'journal.db'}"
    return {**kept, "TEMPORAL_ADDRESS": address, "LONGSHIFT_JOURNAL__URL": journal, **more}


StartWorker = Callable[..., Awaitable[Child]]


@pytest_asyncio.fixture
async def start_worker(tmp_path: Path) -> AsyncIterator[StartWorker]:
    """Starts a worker at an address, with arguments and more environment, warm (see warm.py) or as `python -m worker`;
    none outlives its test."""
    started: list[Child] = []

    async def start(address: str, *arguments: str, cold: bool = False, **more: str) -> Child:
        log, env = tmp_path / "worker.log", environment(tmp_path, address, **more)
        if cold:
            started.append(await Child.start([sys.executable, "-m", "worker", *arguments], log, env))
        else:
            started.append(await warm.start_child("worker", arguments, log, env))
        return started[-1]

    yield start
    for worker in started:
        await worker.kill()


def prints(child: Child, text: str) -> Callable[[], bool]:
    def printed() -> bool:
        if child.code is not None:
            pytest.fail(f"the worker ended with {child.code}: {child.last_lines()}")
        return text in child.last_lines(50)

    return printed


async def shift(address: str, run_id: str) -> dict[str, object]:
    client = await Client.connect(address)
    given = {"agent": "shop", "task": "Prepare the drafts."}
    async with asyncio.timeout(PATIENCE):
        result = await client.execute_workflow("agent_run", given, id=run_id, task_queue="longshift")
    assert isinstance(result, dict)
    return result


async def test_a_worker_runs_the_opening_shift_from_the_defaults_and_ends_in_order(
    shared_server: DevServer, start_worker: StartWorker
) -> None:
    worker = await start_worker(shared_server.address, cold=True)
    await until(prints(worker, READY))

    result = await shift(shared_server.address, "opening")

    assert (result["status"], result["model_calls"], result["tool_calls"]) == ("COMPLETED", 3, 3)
    assert await worker.stop(PATIENCE) == 0
    assert "ended" in worker.last_lines(1)


async def test_sigint_ends_a_worker_in_order_too(shared_server: DevServer, start_worker: StartWorker) -> None:
    worker = await start_worker(shared_server.address)
    await until(prints(worker, READY))

    os.kill(worker.pid, signal.SIGINT)

    assert await worker.wait() == 0


async def test_a_worker_waits_for_a_server_that_is_not_there_says_so_and_ends_when_told(
    start_worker: StartWorker,
) -> None:
    worker = await start_worker("127.0.0.1:1")

    await until(prints(worker, "no Temporal server answers at 127.0.0.1:1; start one with: longshift up"))

    assert await worker.stop(PATIENCE) == 0


async def test_a_worker_works_again_once_its_killed_server_is_back(
    server: DevServer, start_worker: StartWorker
) -> None:
    worker = await start_worker(server.address)
    await until(prints(worker, READY))

    await server.kill()
    await server.restart()

    assert (await shift(server.address, "after"))["status"] == "COMPLETED"
    assert await worker.stop(PATIENCE) == 0


async def test_a_bad_configuration_ends_a_worker_with_a_line_for_each_mistake(
    tmp_path: Path, start_worker: StartWorker
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('task_queu = "a"\n[worker]\ngrace_seconds = "long"\n')
    worker = await start_worker("127.0.0.1:1", "--config", str(file), cold=True)

    assert await worker.wait() == 2

    said = worker.last_lines(50)
    assert f"{file}: task_queu: is no key here; did you mean task_queue?" in said
    assert f"{file}: worker.grace_seconds: must be a valid number" in said
    assert "Traceback" not in said


async def test_a_namespace_that_does_not_exist_is_named(shared_server: DevServer, start_worker: StartWorker) -> None:
    worker = await start_worker(shared_server.address, TEMPORAL_NAMESPACE="nowhere")

    assert await worker.wait() == 2
    assert f"the server at {shared_server.address} has no namespace nowhere; create it" in worker.last_lines()


async def test_a_tool_that_outlives_its_grace_does_not_hold_the_worker(
    server: DevServer, tmp_path: Path, start_worker: StartWorker
) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nfrom longshift import Agent, tool\n"
        "@tool(kind='read', timeout_seconds=600)\n"
        "def sleep() -> str:\n    'Sleep.'\n    print('asleep', flush=True)\n    time.sleep(600)\n    return 'woken'\n"
        "agent = Agent(name='sleeper', system='Sleep.', endpoint='one', tools=(sleep,), limits={'seconds': 600})\n"
    )
    file = tmp_path / "longshift.toml"
    file.write_text(
        'default_agent = "sleeper"\n[worker]\ngrace_seconds = 0.5\n[agents.sleeper]\nuse = "slow:agent"\n'
        '[endpoints.one]\nkind = "replay"\nturns = [{calls = [{name = "sleep"}], output_tokens = 1}]\n'
    )
    worker = await start_worker(server.address, LONGSHIFT_CONFIG=str(file))
    await until(prints(worker, READY))
    client = await Client.connect(server.address)
    await client.start_workflow("agent_run", {"agent": "sleeper", "task": "Sleep."}, id="s", task_queue="longshift")
    await until(prints(worker, "asleep"))

    assert await worker.stop(PATIENCE) == 0
    assert "1 tool threads were still at work and are left" in worker.last_lines()


async def test_a_worker_whose_effect_heeds_nothing_leaves_past_its_grace(
    server: DevServer, tmp_path: Path, start_worker: StartWorker
) -> None:
    (tmp_path / "stubborn.py").write_text(
        "import asyncio\nfrom longshift import Agent, tool\n"
        "@tool(timeout_seconds=600)\n"
        "async def place() -> str:\n    'Order.'\n    print('at work', flush=True)\n    while True:\n"
        "        try:\n            await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError:\n            print('and goes on', flush=True)\n"
        "agent = Agent(name='buyer', system='Buy.', endpoint='one', tools=(place,), limits={'seconds': 600})\n"
    )
    file = tmp_path / "longshift.toml"
    file.write_text(
        'default_agent = "buyer"\n[worker]\ngrace_seconds = 0.5\n[agents.buyer]\nuse = "stubborn:agent"\n'
        '[endpoints.one]\nkind = "replay"\nturns = [{calls = [{name = "place"}], output_tokens = 1}]\n'
    )
    worker = await start_worker(server.address, LONGSHIFT_CONFIG=str(file))
    await until(prints(worker, READY))
    client = await Client.connect(server.address)
    await client.start_workflow("agent_run", {"agent": "buyer", "task": "Buy."}, id="b", task_queue="longshift")
    await until(prints(worker, "at work"))

    assert await worker.stop(PATIENCE) == 0
    assert "and goes on" in worker.last_lines()
    assert "something holds the worker past its last step or its grace" in worker.last_lines()


async def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import asyncio, sys\nfrom pathlib import Path\nfrom worker.dev_server import DevServer\n"
        "async def main():\n"
        "    async with DevServer(Path(sys.argv[1]), ui=False) as server:\n"
        "        print('pid', server.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    started = await Child.start([sys.executable, str(parent), str(tmp_path / "server")], tmp_path / "parent.log")
    await until(prints(started, "pid "))
    pid = int(started.last_lines().split()[1])
    assert runs(pid)

    await started.kill()

    await until(lambda: not runs(pid))
    async with DevServer(tmp_path / "server", ui=False):
        pass  # the lock and the data are free again


async def test_a_run_survives_a_killed_server_and_ends_with_years_of_retention(
    server: DevServer, tmp_path: Path
) -> None:
    client = await Client.connect(server.address)
    await client.start_workflow("anything", id="kept", task_queue="nobody")
    address = server.address

    await server.kill()
    await server.restart()

    assert server.address == address
    handle = (await Client.connect(address)).get_workflow_handle("kept")
    await handle.terminate()
    with sqlite3.connect(tmp_path / "server" / "temporal.db") as database:
        deletion = "select max(strftime('%s', visibility_timestamp)) from timer_tasks"
        await until(lambda: int(database.execute(deletion).fetchone()[0]) > time.time() + 3600 * 24 * 3600)
        assert database.execute("pragma journal_mode").fetchone() == ("wal",)
    database.close()


async def test_the_first_run_of_a_new_server_is_kept_as_long_as_any_other(server: DevServer, tmp_path: Path) -> None:
    client = await Client.connect(server.address)
    handle = await client.start_workflow("anything", id="first", task_queue="nobody")

    await handle.terminate()

    database = sqlite3.connect(tmp_path / "server" / "temporal.db")
    deletion = "select max(strftime('%s', visibility_timestamp)) from timer_tasks"
    await until(lambda: int(database.execute(deletion).fetchone()[0]) > time.time() + 3600 * 24 * 3600)
    database.close()


async def test_a_port_in_use_is_named_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ServerFailed, match=f"port {port} is in use; stop what uses it .*, or choose another port"):
            async with DevServer(tmp_path / "server", port=port, ui=False):
                pass


async def test_a_server_that_dies_while_starting_is_shown_with_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "temporal.db").write_text("this is no database, whatever its name says" * 50)

    with pytest.raises(ServerFailed, match=r"ended with code 1 while starting; the end of .*temporal\.log:\n.+"):
        async with DevServer(tmp_path / "server", ui=False):
            pass


async def test_two_servers_never_share_a_folder(
    server: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev_server, "LOCK_SECONDS", 0.1)
    with pytest.raises(ServerFailed, match=r"another server uses .*; use that one, or stop it first"):
        async with DevServer(tmp_path / "server", ui=False):
            pass


async def test_the_server_runs_with_a_user_interface_where_asked(tmp_path: Path) -> None:
    async with DevServer(tmp_path / "server") as server:
        assert server.ui_url
        host, port = server.ui_url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of Temporal profiles that `connect_by` uses, and no TEMPORAL_* variable beside it."""
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    return tmp_path / "temporal.toml"


def write(profiles: Path, text: str) -> None:
    profiles.write_text(text)


async def connect_by(profiles: Path, **environ: str) -> Client:
    given = {"LONGSHIFT_TEMPORAL__CONFIG_FILE": str(profiles), "LONGSHIFT_TEMPORAL__PROFILE": "mine", **environ}
    return await connect(load_settings(environ=given))


async def test_a_client_follows_its_temporal_profile(shared_server: DevServer, profiles: Path) -> None:
    write(profiles, f'[profile.mine]\naddress = "{shared_server.address}"\nnamespace = "default"\n')

    client = await connect_by(profiles)

    assert client.service_client.config.target_host == shared_server.address


async def test_temporals_own_variables_win_over_the_profile(
    shared_server: DevServer, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(profiles, '[profile.mine]\naddress = "127.0.0.1:1"\n')
    monkeypatch.setenv("TEMPORAL_ADDRESS", shared_server.address)

    client = await connect_by(profiles)

    assert client.service_client.config.target_host == shared_server.address


async def test_a_client_without_a_server_is_told_the_address_and_the_remedy(profiles: Path) -> None:
    write(profiles, '[profile.mine]\naddress = "127.0.0.1:1"\n')

    with pytest.raises(NoServer, match=r"no Temporal server answers at 127\.0\.0\.1:1; start one with: longshift up"):
        await connect_by(profiles)


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ('[profile.mine]\napi_key = "sk-planted"\nbroken = = "sk-planted"', "the profile mine cannot be read in "),
        ('[profile.other]\napi_key = "sk-planted"', "the profile mine cannot be read in "),
        (
            '[profile.mine]\naddress = "not a host"\napi_key = "sk-planted"',
            "the address not a host with TLS, or its TLS",
        ),
    ],
)
async def test_a_profile_that_cannot_be_used_is_named_and_its_key_is_not_shown(
    profiles: Path, profile: str, told: str
) -> None:
    write(profiles, profile)

    with pytest.raises(SettingsRefused, match=told) as raised:
        await connect_by(profiles)

    assert "sk-planted" not in str(raised.value)


async def test_a_file_of_profiles_that_is_not_there_is_named_by_its_key(profiles: Path) -> None:
    with pytest.raises(SettingsRefused, match="LONGSHIFT_TEMPORAL__CONFIG_FILE: there is no such file; give the path"):
        await connect_by(profiles)


async def test_temporals_core_prints_nothing_on_stdout(
    profiles: Path, shared_server: DevServer, capfd: pytest.CaptureFixture[str]
) -> None:
    write(profiles, f'[profile.mine]\naddress = "{shared_server.address}"\n')

    await connect_by(profiles)

    assert capfd.readouterr().out == ""
