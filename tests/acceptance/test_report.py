"""`longshift report`: the command, in processes of its own, and its pages in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator

from client.report.overview import overview
from client.report.page import overview_page, run_page
from client.report.sources import Sources
from tests.acceptance.commands import Up, clean_environment, free_port, longshift
from tests.unit.test_report import NASTY, figures, records_made, sources


@pytest.mark.slow
def test_a_report_is_written_of_shifts_that_ended_and_of_those_at_work(up: Up, tmp_path: Path) -> None:
    assert up("run", "Prepare drafts <now>.", "--id", "ended").code == 0
    file = tmp_path / "ended.html"
    written = up.installed("report", "ended", "-o", str(file))
    text = file.read_text(encoding="utf-8")
    assert (written.code, written.err) == (0, "")
    assert written.out == f"{file} ({len(text.encode()):,} bytes)\n"
    for said in ("Prepare drafts &lt;now&gt;.", "COMPLETED", "All that was checked held.", "list_stock", "dashed"):
        assert said in text

    document = up("report", "ended", "--json").document
    assert (document["run_id"], document["status"], document["file"]) == ("ended", "COMPLETED", "ended.html")
    assert {check["verdict"] for check in document["audit"]["checks"]} == {"held"}
    assert (up.config.parent / "ended.html").stat().st_size == document["bytes"]

    up("start", "Take your time.", "--endpoint", "hung", "--id", "working", "--limit", "seconds=600")
    up.until("/ 600\n", "state", "working")
    up("pause", "working")
    document = up("report", "working", "-o", str(file), "--json").document
    assert (document["status"], document["audit"]["verdict"]) == ("RUNNING", "held")
    text = file.read_text(encoding="utf-8")
    assert "It had not ended, as far as is known, when this page was made." in text
    assert "Take your time." in text

    overview = up("report", "--all", "--since", "2h", "--json").document
    assert overview["statuses"] == {"COMPLETED": 1, "RUNNING": 1}
    assert overview["file"] == "longshift-report.html"
    assert "working" in (up.config.parent / "longshift-report.html").read_text(encoding="utf-8")

    up("report", "nobody").refused("there is no run 'nobody'", "longshift list")
    up("report", "ended", "-o", str(tmp_path / "no" / "file.html")).refused("No such file or directory")

    # The journal tells of an ended shift by itself.
    alone = clean_environment(TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}", XDG_STATE_HOME=str(tmp_path))
    words = ("--config", str(up.config), "report")
    told = longshift(*words, "ended", "-o", str(file), env=alone, cwd=up.config.parent)
    assert told.code == 0, told
    assert "made of the journal alone: no Temporal server answers" in told.err
    text = file.read_text(encoding="utf-8")
    assert "COMPLETED" in text
    assert "could not be checked" in text
    told = longshift(*words, "working", "-o", str(file), "--json", env=alone, cwd=up.config.parent)
    assert told.document["status"] == "UNKNOWN"
    assert "only the server knows" in file.read_text(encoding="utf-8")
    told = longshift(*words, "--all", "--json", env=alone, cwd=up.config.parent)
    assert told.document["statuses"] == {"COMPLETED": 1, "NO END RECORDED": 1}
    told = longshift(*words, "nobody", env=alone, cwd=up.config.parent)
    told.refused("holds nothing of run nobody", "no Temporal server answers")

    assert up("stop", "working", "--now").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ["RUN: give a shift's id", "--all"]),
        ((" ",), ["RUN: is blank; give a shift's id"]),
        (("x", "--all"), ["RUN: is one shift"]),
        (("x", "--since", "7d"), ["--since: goes with --all"]),
        (("--all", "--since", "soon"), ["--since: write a number and m, h, d or w"]),
        (("--all", "--since", "0d"), ["--since: write a number"]),
        (("../x",), ["--output: this id cannot be a file's name"]),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], said: list[str], tmp_path: Path) -> None:
    longshift("report", *words, env=clean_environment(), cwd=tmp_path).refused(*said)
    assert not list(tmp_path.iterdir())


def _open(chromium: Browser, file: Path, text: str, **given: str) -> tuple[Locator, list[str]]:
    """A page in the browser, and all that it asked for or complained about."""
    file.write_text(text, encoding="utf-8")
    page = chromium.new_context(**given).new_page()  # type: ignore[arg-type]  # a colour scheme by its name
    noted: list[str] = []
    page.on("request", lambda request: noted.append(request.url))
    page.on("console", lambda message: noted.append(message.text))
    page.on("dialog", lambda dialog: noted.append(dialog.message))
    page.goto(file.as_uri())
    return page.locator("body"), noted


@pytest.mark.slow
@pytest.mark.browser
def test_in_a_browser_what_a_tool_said_is_text_and_scripts_and_the_network_are_forbidden(
    chromium: Browser, tmp_path: Path
) -> None:
    records = records_made(3, NASTY, NASTY)
    text = run_page(Sources("nasty", 2e9, records, [], None, NASTY))
    body, noted = _open(chromium, tmp_path / "nasty.html", text)
    page = body.page
    assert noted == [(tmp_path / "nasty.html").as_uri()]
    assert page.title() == "nasty: UNKNOWN"
    assert page.locator("script, img").count() == 0
    body.locator("summary").first.click()
    told = body.locator("details").first.locator("pre").last
    assert told.inner_text() == NASTY.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")

    # Whatever found its way into the page: the policy holds it.
    violated = page.evaluate(
        """() => new Promise(done => {
            const seen = [];
            setTimeout(() => done(seen), 10000);  // where the policy holds nothing
            document.addEventListener("securitypolicyviolation", event => {
                seen.push(event.effectiveDirective);
                if (seen.length == 3) done(seen.sort());
            });
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            const image = document.createElement("img");
            image.src = "http://127.0.0.1:9/x.png";
            const style = document.createElement("style");
            style.textContent = "body { display: none }";
            document.body.append(script, image, style);
        })"""
    )
    assert violated == ["img-src", "script-src-elem", "style-src-elem"]
    assert page.title() == "nasty: UNKNOWN"
    page.context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_page_is_read_by_keyboard_by_its_roles_in_the_dark_and_on_paper(chromium: Browser, tmp_path: Path) -> None:
    text = run_page(sources("outcomes-resolved"))
    body, noted = _open(chromium, tmp_path / "page.html", text, color_scheme="dark")
    page = body.page
    assert len(noted) == 1
    assert body.get_by_role("heading", level=1).inner_text() == "Shift outcomes-resolved"
    for name in ("What was asked", "How it ended", "Budgets", "Timeline", "Effects", "Audit", "Transcript"):
        assert body.get_by_role("region", name=name, exact=True).first.is_visible()
    assert body.get_by_role("img", name="model calls: 2 at most in").is_visible()
    assert body.get_by_role("img", name="effects: 2 times").is_visible()
    assert body.get_by_role("rowheader", name="output tokens").is_visible()
    assert body.get_by_role("columnheader", name="operation id").is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(21, 23, 27)"

    page.keyboard.press("Tab")
    assert body.get_by_text("Skip to the transcript").is_visible()
    page.keyboard.press("Enter")
    assert page.url.endswith("#transcript")
    folded = body.locator("details").first
    arguments = folded.locator("pre").first
    assert not arguments.is_visible()
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    assert arguments.is_visible()
    page.keyboard.press("Enter")
    assert not arguments.is_visible()

    page.emulate_media(media="print")
    assert arguments.is_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert not body.get_by_role("navigation").is_visible()

    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 360, "height": 700})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360, "nothing makes a narrow page wider"
    page.context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_long_shift_and_an_overview_open_in_a_browser(chromium: Browser, tmp_path: Path) -> None:
    text = run_page(Sources("long", 2e9, records_made(3000, "fine"), [], None, ""))
    body, noted = _open(chromium, tmp_path / "long.html", text)
    assert len(noted) == 1
    assert body.locator("details.block").count() == 30
    last = body.locator("#step-3000")
    assert not last.is_visible()
    body.locator("details.block > summary").last.click()
    assert last.is_visible()
    body.page.goto(f"{(tmp_path / 'long.html').as_uri()}#step-1500")
    body.page.locator("#step-1500").wait_for(state="visible")  # a link opens what it leads into
    body.page.context.close()

    runs = [figures("a", "COMPLETED"), figures("b", None)]
    body, noted = _open(chromium, tmp_path / "all.html", overview_page(overview(runs, 1.0, 2e9, {}, "")))
    assert len(noted) == 1
    assert body.get_by_role("rowheader", name="NO END RECORDED").is_visible()
    body.page.context.close()
