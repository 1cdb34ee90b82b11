"""The command line as its users have it: a process of its own, its output, its exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def longshift(*words: str, env: Mapping[str, str], cwd: Path | None = None) -> Ended:
    """Run one command to its end; nobody is at its stdin."""
    done = subprocess.run(
        [LONGSHIFT, *words],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
