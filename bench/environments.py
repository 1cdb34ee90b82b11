"""The machine and its versions, and the environment of the peers, which is no part of Longshift's own."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from bench.subjects import CHECKOUT, PEERS_PYTHON

REQUIREMENTS = CHECKOUT / "bench" / "peers" / "requirements.txt"
"""The peers and all they need, pinned: `uv pip compile bench/peers/requirements.in` made it."""
PEERS = ("pydantic-ai-slim", "temporalio-openai-agents", "openai-agents", "langgraph", "dbos")
"""Peers whose versions are told."""


class NotInstalled(Exception):
    """The peers' environment could not be made. The text says why, and what to do."""


def install_peers() -> None:
    """Make the peers' environment, if it is not as it is to be. Raises NotInstalled."""
    folder = PEERS_PYTHON.parents[1]
    installed, wanted = folder / "installed.txt", REQUIREMENTS.read_text(encoding="utf-8")
    if installed.exists() and installed.read_text(encoding="utf-8") == wanted:
        return
    beside = CHECKOUT / ".uv" / "bin" / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise NotInstalled("there is no uv to install the peers with; run ./check once, which brings it")
    environment = {**os.environ, "UV_COMPILE_BYTECODE": "1", "UV_PYTHON_DOWNLOADS": "never"}
    make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
    fill = [uv, "pip", "sync", "--quiet", "--python", str(PEERS_PYTHON), str(REQUIREMENTS)]
    for command in (make, fill):
        if subprocess.run(command, env=environment, check=False).returncode:
            raise NotInstalled(f"the peers could not be installed: {' '.join(command)} failed; see above")
    installed.write_text(wanted, encoding="utf-8")


def machine(peers: bool) -> dict[str, str]:
    """Versions and machine, by name."""
    temporal = [str(Path(sys.executable).parent / "temporal"), "--version"]
    found = {
        "commit": _output(["git", "-C", str(CHECKOUT), "rev-parse", "--short", "HEAD"]) or "unknown",
        "Python": platform.python_version(),
        "temporalio": version("temporalio"),
        "server": _output(temporal).removeprefix("temporal version "),
        "pydantic": version("pydantic"),
    }
    if peers:
        code = f"from importlib.metadata import version; print(*(version(name) for name in {PEERS!r}), sep='\\n')"
        found |= dict(zip(PEERS, _output([str(PEERS_PYTHON), "-c", code]).split(), strict=True))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return found | {
        "machine": f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} CPUs, {memory:.0f} GB",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
