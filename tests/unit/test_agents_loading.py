"""The configured agents: found beside the configuration file without touching our code, or refused in words."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshift import Agent, Limits
from worker.agents import load_agents
from worker.problems import SettingsRefused
from worker.settings import load_settings

MODULE = """
from longshift import Agent, Verdict, evidence_check, tool

@evidence_check(looks_at="nothing", cannot_know="anything")
def seen(trajectory) -> Verdict:
    return Verdict(True, "seen")

@tool(kind="read")
def look() -> str:
    "Look."
    return "seen"

def plain() -> str:
    return ""

nothing = None
agent = Agent(name="own-name", system="Look.", endpoint="authored", tools=(look,), limits={"model_calls": 3})

class Shelf:
    look = look
"""


@pytest.fixture(autouse=True)
def _beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    Path("mine.py").write_text(MODULE)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def load(text: str) -> dict[str, Agent]:
    Path("longshift.toml").write_text(text)
    return load_agents(load_settings(environ={}))


def refused(text: str) -> str:
    with pytest.raises(SettingsRefused) as raised:
        load(text)
    return str(raised.value)


def declared(tools: str, more: str = "") -> str:
    return f'[agents.a]\nsystem = "x"\nendpoint = "authored"\ntools = {tools}\n{more}'


def test_the_shop_is_there_without_a_file() -> None:
    agents = load_agents(load_settings(environ={}))

    assert [tool.spec.name for tool in agents["shop"].tools] == ["list_stock", "product", "draft_order"]


def test_an_agent_in_python_works_under_the_name_of_its_section_and_on_its_endpoint() -> None:
    agents = load(
        '[endpoints.other]\nkind = "replay"\nturns = []\n'
        '[agents.first]\nuse = "mine:agent"\n[agents.second]\nuse = "mine:agent"\nendpoint = "other"\nfund = "f"\n'
    )

    first, second = agents["first"], agents["second"]
    assert (first.name, first.endpoint, first.limits.model_calls) == ("first", "authored", 3)
    assert (second.name, second.endpoint, second.tools) == ("second", "other", first.tools)
    assert (first.fund, second.fund) == (None, "f")


def test_the_limits_of_a_section_go_over_those_of_its_agent_in_python() -> None:
    limits = load('[agents.mine]\nuse = "mine:agent"\nlimits = {tool_calls = 5}\n')["mine"].limits

    assert (limits.model_calls, limits.tool_calls, limits.seconds) == (3, 5, Limits().seconds)


def test_an_agent_in_the_file_is_what_it_says() -> None:
    agent = load(declared('["mine:Shelf.look"]', 'limits = {seconds = 5.0}\nfund = "f"\nunknown_tool = "fatal"'))["a"]

    assert (agent.name, agent.system, agent.unknown_tool, agent.malformed_calls) == ("a", "x", "fatal", "fail")
    assert (agent.limits, agent.fund) == (Limits(seconds=5.0), "f")
    assert [tool.spec.name for tool in agent.tools] == ["look"]


def test_an_agent_brings_its_checks_and_one_in_the_file_names_them() -> None:
    Path("mine.py").write_text(MODULE.replace("tools=(look,)", "tools=(look,), evidence=(seen,)"))

    agents = load(declared('["mine:look"]', 'evidence = ["mine:seen"]\n') + '[agents.b]\nuse = "mine:agent"\n')

    assert [[check.name for check in agents[name].evidence] for name in "ab"] == [["seen"], ["seen"]]


def test_a_users_module_hides_none_of_ours() -> None:
    Path("workflows.py").write_text("raise RuntimeError('hidden')")

    load(declared('["mine:look"]'))

    assert sys.path[-1] == str(Path.cwd())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (declared('["mine:look", "gone:look"]'), "longshift.toml: agents.a.tools.1: there is no module gone in "),
        (declared('["mine.sub:look"]'), "agents.a.tools.0: there is no module mine.sub in "),
        (declared('["mine:lock"]'), "longshift.toml: agents.a.tools.0: the module mine has no lock; mend the name"),
        (declared('["mine:nothing"]'), "agents.a.tools.0: mine:nothing is None; name what is declared there"),
        (declared('["mine:plain"]'), "agents.a.tools.0: mine:plain is a function, not a tool; put @tool above the fu"),
        (
            declared("[]", 'evidence = ["mine:plain"]'),
            "agents.a.evidence.0: mine:plain is a function, not a check; put @evidence_check(...) above the function",
        ),
        (
            declared("[]", 'evidence = ["mine:seen", "mine:seen"]'),
            "agents.a.evidence: two checks are called seen; give one another name",
        ),
        (declared('["mine:look", "mine:look"]'), "agents.a.tools: two tools are called look; give one another name"),
        (
            '[agents.a]\nuse = "mine:look"',
            "agents.a.use: mine:look is a Tool, not an agent; make it one with longshift",
        ),
        ('[agents.a]\nuse = "gone:agent"', "longshift.toml: agents.a.use: there is no module gone in "),
        (
            '[agents.a]\nuse = "mine:agent"\nendpoint = "e"',
            "agents.a.endpoint: there is no endpoint e; the endpoints are",
        ),
        (
            '[agents.a]\nsystem = ""\nendpoint = "e"',
            "agents.a.endpoint: there is no endpoint e; the endpoints are author",
        ),
        ('[agents.A_b]\nuse = "mine:agent"', "longshift.toml: agents.A_b: must be 1 to 64 lower-case letters"),
    ],
)
def test_a_mistake_names_agent_key_and_remedy(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("import not_there", "importing broken failed: it imports not_there, which is not installed"),
        ("1 / 0", "importing broken failed with ZeroDivisionError: division by zero; mend the module"),
        ("import sys; sys.exit(3)", "importing broken failed with SystemExit: 3; mend the module"),
        ("def (", "importing broken failed with SyntaxError: invalid syntax (broken.py, line 1); mend the module"),
        (
            "from longshift import tool\n@tool\ndef f(x): ...",
            "importing broken failed with DeclarationRefused: tool f:",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(module: str, told: str) -> None:
    Path("broken.py").write_text(module)

    assert told in refused(declared('["broken:look"]'))


def test_all_mistakes_are_told_at_once() -> None:
    told = refused(declared('["gone:a", "mine:lock"]') + '[agents.b]\nuse = "mine:plain"\n')

    assert len(told.splitlines()) == 3


SERVER = '[mcp_servers.git]\ncommand = "mcp-server-git"\nallow = ["*"]\n'


def test_an_agent_names_its_mcp_servers_in_the_configuration_or_in_python() -> None:
    Path("mine.py").write_text(MODULE.replace("tools=(look,)", 'tools=(look,), mcp_servers=("git",)'))

    agents = load(
        SERVER
        + declared("[]", 'mcp_servers = ["git"]\n')
        + '[agents.b]\nuse = "mine:agent"\n[agents.c]\nuse = "mine:agent"\nmcp_servers = []\n'
    )

    assert {name: agents[name].mcp_servers for name in "abc"} == {"a": ("git",), "b": ("git",), "c": ()}


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (
            '["gti"]',
            "agents.a.mcp_servers: there is no MCP server gti, give it a section [mcp_servers.gti]; there are: git",
        ),
        ('["git", "git"]', "agents.a.mcp_servers: names git twice; leave one out"),
    ],
)
def test_an_mcp_server_that_is_not_there_or_is_named_twice_is_refused(names: str, says: str) -> None:
    assert says in refused(SERVER + declared("[]", f"mcp_servers = {names}\n"))
