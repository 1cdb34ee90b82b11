"""The configuration of MCP servers: what is read, and how a mistake is told."""

from pathlib import Path
from typing import Any

import pytest

from longshift import Agent, tool
from longshift.questions import ApprovalRule
from worker.mcp_servers import keys_in_reach, mcp_servers
from worker.problems import SettingsRefused
from worker.settings import Settings, load_settings

SECRET = "sk-planted-7c1f"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str, **environ: str) -> Settings:
    Path("longshift.toml").write_text(text)
    return load_settings(environ=environ)


def refused(text: str) -> str:
    with pytest.raises(SettingsRefused) as raised:
        load(text)
    return str(raised.value)


MCP = '[mcp_servers.git]\ncommand = "mcp-server-git"\nallow = ["git_log"]\n'


def test_an_mcp_server_is_read_with_what_the_operator_says_of_its_tools() -> None:
    settings = load(
        '[mcp_servers.git]\ncommand = "mcp-server-git"\nargs = ["-v"]\ncwd = "there"\nenv_from = ["LONGSHIFT_TOKEN"]\n'
        'allow = ["git_log", "git_commit"]\n'
        '[mcp_servers.git.tools.git_commit]\nneeds_approval = { argument = "message", not_in = ["fix"] }\n'
        '[mcp_servers.far]\nurl = "https://example.com/mcp"\nallow = ["*"]\n'
        'headers_from = { X-Key = "LONGSHIFT_OTHER" }\n',
        LONGSHIFT_TOKEN=SECRET,
        LONGSHIFT_OTHER=SECRET,
    )

    git = settings.mcp_servers["git"]
    assert git.cwd == Path.cwd() / "there", "relative to the file"
    assert git.tools["git_commit"].needs_approval == ApprovalRule(argument="message", not_in=("fix",))
    assert (git.allows("git_log"), git.allows("git_push")) == (True, False)
    assert settings.mcp_servers["far"].allows("anything")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ('[mcp_servers.git]\nallow = ["a"]', "mcp_servers.git: give either `command` or `url`"),
        (MCP + 'url = "http://x"', "mcp_servers.git: give either `command` or `url`"),
        ('[mcp_servers.git]\ncommand = "x"', "mcp_servers.git.allow: is missing; add it"),
        ('[mcp_servers.git]\ncommand = "x"\nallow = []', "mcp_servers.git.allow: allows nothing"),
        ('[mcp_servers.git]\ncommand = "x"\nallow = "a"', "mcp_servers.git.allow: must be a list of texts"),
        ('[mcp_servers.git]\ncommand = "x"\nallow = ["*", "a"]', 'mcp_servers.git.allow: give "*" alone'),
        ('[mcp_servers.Git]\ncommand = "x"\nallow = ["a"]', "is no usable name; take 1 to 32 lower-case letters"),
        (MCP + 'env_from = ["A=b"]', "mcp_servers.git.env_from: must be NAMES of environment variables"),
        (MCP + f'env_from = ["{SECRET}"]', "mcp_servers.git.env_from: must be NAMES of environment variables"),
        (MCP + 'headers_from = { A = "B" }', "mcp_servers.git: `headers_from` is for a `url`"),
        (MCP + 'alow = ["a"]', "mcp_servers.git.alow: is no key here; did you mean allow?"),
        (MCP + "timeout_seconds = 0", "mcp_servers.git.timeout_seconds: must be greater than 0"),
        (MCP + "max_bytes = true", "mcp_servers.git.max_bytes: must be a number, not true or false"),
        ('[mcp_servers.w]\nurl = "ftp://x"\nallow = ["a"]', "mcp_servers.w: `url` must be an http or https URL"),
        (
            '[mcp_servers.w]\nurl = "http://x?key=1"\nallow = ["a"]',
            "mcp_servers.w: `url` must have no user name, query",
        ),
        (
            f'[mcp_servers.w]\nurl = "http://x"\nallow = ["a"]\nheaders_from = {{ Authorization = "Bearer {SECRET}" }}',
            "mcp_servers.w.headers_from: must map a header to the NAME",
        ),
        ('[mcp_servers.w]\nurl = "http://x"\nargs = ["a"]\nallow = ["a"]', "mcp_servers.w: `args` is for a `command`"),
        (
            MCP + "[mcp_servers.git.tools.git_push]",
            "mcp_servers.git: `tools` has git_push, which `allow` does not name",
        ),
        (
            MCP + '[mcp_servers.git.tools.git_log]\nkind = "write"',
            "mcp_servers.git.tools.git_log.kind: must be 'read' or",
        ),
        (
            MCP + '[mcp_servers.git.tools.git_log]\nkind = "read"\nneeds_approval = true',
            "mcp_servers.git.tools.git_log: needs_approval is for effects",
        ),
        (
            MCP + '[mcp_servers.git.tools.git_log]\nneeds_approval = "yes"',
            "mcp_servers.git.tools.git_log.needs_approval: must be true, false or a rule such as",
        ),
        (
            MCP + '[mcp_servers.git.tools.git_log]\nneeds_approval = { argument = "a" }',
            "mcp_servers.git.tools.git_log.needs_approval: give the rule an `argument` and an `above` or a `not_in`",
        ),
        (
            MCP + '[mcp_servers.git.tools.git_log]\nneeds_approval = { argument = "a", over = 1 }',
            "git_log.needs_approval: over is no key of a rule; the keys are argument, above, not_in",
        ),
    ],
)
def test_a_mistake_in_an_mcp_server_is_named_with_its_key_and_the_remedy(section: str, says: str) -> None:
    said = refused(section)

    assert says in said
    assert SECRET not in said
    assert len(said.splitlines()) == 1


def test_a_variable_that_an_mcp_server_is_to_be_given_must_be_set() -> None:
    settings = load(MCP + 'env_from = ["GIT_TOKEN"]\n')

    with pytest.raises(SettingsRefused, match=r"mcp_servers.git: the environment variable GIT_TOKEN, which `env_from`"):
        mcp_servers(settings, environ={"GIT_TOKEN": ""})


@tool
def run_command(command: str) -> str:
    """Run a command."""
    return command


@tool(kind="read")
def look() -> str:
    """Look."""
    return ""


FAR = '[mcp_servers.git]\nurl = "https://example.com/mcp"\nallow = ["*"]\nheaders_from = { X-Key = "TOKEN" }\n'


@pytest.mark.parametrize(
    ("server", "tools", "warned"),
    [
        (f'{MCP}env_from = ["TOKEN"]\n', (look, run_command), True),
        (f'{MCP}env_from = ["TOKEN"]\n', (look,), False),
        (MCP, (run_command,), False),
        (FAR, (run_command,), False),
    ],
)
def test_commands_beside_programs_that_are_handed_keys_are_warned_of(
    server: str, tools: tuple[Any, ...], warned: bool
) -> None:
    settings = load(server, TOKEN=SECRET)
    agents = {"coder": Agent(name="coder", system="Work.", endpoint="local", tools=tools)}
    told = keys_in_reach(settings, agents)
    assert (told is not None) == warned
    assert told is None or "commands of coder can read what env_from hands to the MCP servers git;" in told
