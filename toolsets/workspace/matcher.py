"""Looks for one pattern in lines, as a process of its own: `python matcher.py FOLDER SECONDS BYTES PATTERN`.

A pattern may take any time and any memory, to be compiled and to be looked for, and hold up every thread of its
process meanwhile. Here a kill ends it, and the system bounds its memory, and its time should the worker die.

It prints a line of JSON when the pattern is compiled: null, or what is wrong with it. Then it reads texts, each as a
JSON list of lines, and prints for each the numbers of the lines that match, from 1, and an empty line.
"""

import contextlib
import json
import resource
import sys
from collections.abc import Sequence

WORDS = {RecursionError: "it is nested too deeply", MemoryError: "it takes too much memory"}


def main(arguments: Sequence[str]) -> None:
    """Match what stdin brings.

    Args:
        arguments: the folder that holds the package regex, seconds of processor time, bytes of memory, the pattern as
            JSON.
    """
    folder, seconds, memory, pattern = arguments
    sys.path.append(folder)
    import regex

    limits = {resource.RLIMIT_CPU: int(seconds), resource.RLIMIT_AS: int(memory), resource.RLIMIT_CORE: 0}
    for limit, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # a lower one is set already, or the system knows none
            resource.setrlimit(limit, (most, most))
    try:
        wanted = regex.compile(json.loads(pattern))
    except Exception as error:  # a pattern can make regex raise anything
        print(json.dumps(WORDS.get(type(error)) or str(error)), flush=True)  # noqa: T201
        return
    print("null", flush=True)  # noqa: T201
    for lines in sys.stdin:
        for number, line in enumerate(json.loads(lines), 1):
            if wanted.search(line):
                print(number, flush=True)  # noqa: T201
        print(flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
