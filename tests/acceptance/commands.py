"""The command line as its users have it: a process of its own, its output, its exit code.

Most of these processes start warm (see warm.py); each command is somewhere started as it is installed too.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tests.acceptance import warm

LONGSHIFT = Path(sys.executable).parent / "longshift"
"""The installed command."""
PATIENCE = 90
"""Seconds after which a command counts as hung."""


def clean_environment(**given: str) -> dict[str, str]:
    """Our environment without what configures Longshift or Temporal, and with `given`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LONGSHIFT_", "TEMPORAL_"))}
    return kept | given


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        assert self.out.count("\n") == 1, self
        return json.loads(self.out)

    def refused(self, *words: str) -> None:
        """It ended with 2, said why and what to do, in so many words, and showed no traceback and no result."""
        assert self.code == 2, self
        assert self.out == ""
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self


def longshift(*words: str, env: Mapping[str, str], cwd: Path | None = None, stdin: str = "") -> Ended:
    """Run one command to its end; nobody but `stdin` is at its stdin."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        process = warm.start(LONGSHIFT, words, env, cwd, (given.fileno(), out.fileno(), err.fileno()))
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"longshift {' '.join(words)} has not ended after {PATIENCE} s")
        out.seek(0)
        err.seek(0)
        return Ended(process.exitcode, out.read().decode(), err.read().decode())


@contextmanager
def running(*words: str, env: Mapping[str, str]) -> Iterator[IO[str]]:
    """A command under way, and what it says, on either stream; killed in the end."""
    read, write = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    process = warm.start(LONGSHIFT, words, env, None, (nothing, write, write))
    os.close(nothing)
    os.close(write)
    try:
        with os.fdopen(read) as said:
            yield said
    finally:
        process.kill()
        process.join()


def installed(*words: str, env: Mapping[str, str], cwd: Path | None = None, stdin: str = "") -> Ended:
    """The same, with a start as cold as a person has it."""
    done = subprocess.run(
        [LONGSHIFT, *words], env=env, cwd=cwd, input=stdin.encode(), capture_output=True, timeout=PATIENCE
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Up:
    """What `up` keeps up."""

    config: Path
    env: dict[str, str]
    ui: str = ""
    """Address of the Temporal UI, where it is up."""

    def __call__(self, *words: str, stdin: str = "") -> Ended:
        """Run one command against it."""
        return longshift("--config", str(self.config), *words, env=self.env, cwd=self.config.parent, stdin=stdin)

    def installed(self, *words: str, stdin: str = "") -> Ended:
        """The same, with a start as cold as a person has it."""
        return installed(*self.command(*words)[1:], env=self.env, cwd=self.config.parent, stdin=stdin)

    def until(self, shown: str, *words: str) -> Ended:
        """Run one command over and over, until it shows this: what other processes do, and the server lists, takes its
        time."""
        deadline = time.monotonic() + PATIENCE
        while shown not in (ended := self(*words)).out:
            assert time.monotonic() < deadline, ended
            time.sleep(0.1)
        return ended

    def command(self, *words: str) -> list[str]:
        """The words of a command against it."""
        return [str(LONGSHIFT), "--config", str(self.config), *words]


def read_until(terminal: int, words: str) -> str:
    """Read what a terminal shows until it shows `words`, or is closed."""
    said = b""
    while words.encode() not in said:
        try:
            said += os.read(terminal, 4096)
        except OSError:  # so Linux says that the other end is closed
            break
    return said.decode()


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


HUNG = """
[endpoints.hung]
kind = "replay"
[[endpoints.hung.turns]]
content = "At last."
output_tokens = 2
delay_ms = 600000
"""
"""An endpoint whose answer never comes, for shifts that are under way."""


@contextmanager
def kept_up(folder: Path, text: str, **variables: str) -> Iterator[Up]:
    """Server and worker of a configuration, with these variables, until Ctrl-C ends both in order."""
    config = folder / "longshift.toml"
    config.write_text(f'{text}\n[journal]\nurl = "sqlite:///journal.db"\n', encoding="utf-8")
    port, ui_port = free_port(), free_port()
    env = clean_environment(XDG_STATE_HOME=str(folder), **variables)
    words = [str(LONGSHIFT), "--config", str(config), "up", "--port", str(port), "--ui-port", str(ui_port), "--json"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            told = json.loads(process.stdout.readline())
            assert told["address"] == f"127.0.0.1:{port}"
            assert told["ui"] == f"http://127.0.0.1:{ui_port}"
            yield Up(config, env | {"TEMPORAL_ADDRESS": told["address"]}, told["ui"])
        finally:
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest) == (0, "")
