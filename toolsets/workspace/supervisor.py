"""Watches over one command, as a process of its own: `python supervisor.py SECONDS MAX_HEAD MAX_TAIL COMMAND`.

It ends the command with everything that it started when its time is up, when it is over, and when the worker closes
our stdin: also by dying, so that no command outlives a worker that was killed. It prints the process group of the
command at once, and at the end what came of it, as a line of JSON.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36
READING_OTHERS = 19, 21, 38
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: each lets root read the memory of any process, the worker's keys too."""
SHELLS = (["bash", "-c"], ["sh", "-c"])
PIECE = 65_536
"""Bytes read at once."""


class Output:
    """The beginning and the end of what a command prints; what lies between is counted and forgotten."""

    def __init__(self, max_head: int, max_tail: int) -> None:
        self._max_head, self._max_tail = max_head, max_tail
        self.head, self.tail = bytearray(), bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._max_head - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        over = max(0, len(self.tail) - self._max_tail)
        del self.tail[:over]
        self.dropped += over


def start(command: str, output: int, home: str) -> int:
    """Start the command in a process group of its own; its process id, which is the group's too."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        env = {**os.environ, "HOME": home, "TMPDIR": home}
        for shell in SHELLS:
            with contextlib.suppress(FileNotFoundError):
                os.execvpe(shell[0], [*shell, command], env)
    finally:
        os._exit(127)


def children() -> list[int]:
    """The processes whose parent we are; on Linux that is soon everything the command started, since what loses its
    parent becomes ours. Elsewhere none are found, and only the process group is ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def end_all(group: int) -> bool:
    """Kill the group and whatever else descends from us, and collect it. Says whether anything was still at work."""
    left = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        left = True
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                left = True
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return left


def collect(pid: int) -> int | None:
    """Collect what has ended; the exit code of `pid` once it is among it, as a shell gives it."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            if ended == pid:
                ended_with = os.waitstatus_to_exitcode(status)
                code = ended_with if ended_with >= 0 else 128 - ended_with
    return code


def watch(command: str, seconds: float, output: Output, home: str) -> dict[str, object]:
    """Run the command to its end, or to that of its time or of the worker; what came of it."""
    until = time.monotonic() + seconds
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    reading, writing = os.pipe()
    pid = start(command, writing, home)
    os.close(writing)
    print(pid, flush=True)  # noqa: T201
    open_ends = [0, woken, reading]
    code = None
    while code is None and (left := until - time.monotonic()) > 0:
        ready = select.select(open_ends, (), (), left)[0]
        if 0 in ready:
            break
        if reading in ready:
            data = os.read(reading, PIECE)
            output.add(data)
            if not data:
                open_ends.remove(reading)
        if woken in ready:
            os.read(woken, PIECE)
            code = collect(pid)
    timed_out = code is None
    left_running = end_all(pid)
    os.set_blocking(reading, False)
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reading, PIECE):
            output.add(data)
    return {"exit_code": code, "timed_out": timed_out, "left_running": left_running}


def main(arguments: Sequence[str]) -> None:
    """Watch over the command that the arguments name."""
    seconds, max_head, max_tail, command = arguments
    if sys.platform == "linux":
        process = ctypes.CDLL(None)
        process.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # or the command writes its own outcome, into /proc/$PPID/fd/1
        process.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for capability in READING_OTHERS:
            process.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused to others than root, who have none of them
    output = Output(int(max_head), int(max_tail))
    with tempfile.TemporaryDirectory(prefix="longshift-", ignore_cleanup_errors=True) as home:
        outcome = watch(command, float(seconds), output, home)
        outcome |= {"head": output.head.hex(), "tail": output.tail.hex(), "dropped": output.dropped}
        with contextlib.suppress(BrokenPipeError):  # the worker has ended
            print(json.dumps(outcome), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
