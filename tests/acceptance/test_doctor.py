"""`longshift doctor` as people and programs have it: what it prints, and its exit codes."""

from pathlib import Path

import pytest

from tests.acceptance.commands import clean_environment, longshift
from worker.dev_server import DevServer

pytestmark = pytest.mark.slow


@pytest.mark.asyncio(loop_scope="session")
async def test_the_doctor_tells_what_is_wrong_and_its_exit_code_says_whether_anything_is(
    shared_server: DevServer, tmp_path: Path
) -> None:
    config = tmp_path / "longshift.toml"
    config.write_text('[agents.loud]\nuse = "loud:agent"\n[journal]\nurl = "sqlite:///journal.db"\n')
    (tmp_path / "loud.py").write_text(
        "print('imported')\nfrom longshift import Agent\nagent = Agent(name='loud', system='s', endpoint='authored')\n"
    )
    env = clean_environment(XDG_STATE_HOME=str(tmp_path), TEMPORAL_ADDRESS="127.0.0.1:9")

    told = longshift("--config", str(config), "doctor", env=env)
    document = longshift("--config", str(config), "doctor", "--json", env=env)
    well = longshift("--config", str(config), "doctor", env=env | {"TEMPORAL_ADDRESS": shared_server.address})
    mistaken = longshift("--config", str(config), "doctor", "--json", env=env | {"LONGSHIFT_TASK_QUEU": "x"})

    lines = told.out.splitlines()
    assert told.code == document.code == 1
    assert lines[0] == f"ok      configuration: {config}"
    assert lines[1].startswith(
        "wrong   server: no Temporal server answers at 127.0.0.1:9; start one with: longshift up"
    )
    assert "imported" not in told.out + document.out
    assert document.document["well"] is False
    findings = {(found["check"], found["name"]): found for found in document.document["findings"]}
    assert [found["state"] for found in document.document["findings"]] == [line.split()[0] for line in lines]
    assert findings["agents", None]["text"].endswith("loud (0 tools of its own), shop (3 tools of its own)")
    assert not (tmp_path / "journal.db").exists()
    assert (well.code, "wrong" in well.out) == (0, False), well
    assert "ok      search attributes: the server has all that runs set\n" in well.out
    assert mistaken.code == 2
    (mistake,) = mistaken.document["findings"]
    assert (mistake["check"], mistake["state"]) == ("configuration", "wrong")
    assert mistake["text"].startswith("LONGSHIFT_TASK_QUEU: is no key here; did you mean task_queue?")
