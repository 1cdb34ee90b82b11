"""Debian's Chromium, driven by Playwright, for the tests marked `browser`."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = (
    "--no-sandbox",  # its own cannot be had as root; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Beside those of Playwright, of which headless is one."""


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser, until the body ends."""
    program = shutil.which("chromium")
    assert program, "no chromium on PATH; `apt-get install chromium`, or leave these tests out: -m 'not browser'"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
