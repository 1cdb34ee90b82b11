"""`python -m worker`: a worker process, from the configuration."""

import argparse
import gc
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m worker", description="Run a Longshift worker until it is ended.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (default: longshift.toml here)")
    arguments = parser.parse_args()
    gc.disable()  # importing makes a million objects and no garbage: a sixth of the start goes into looking for some
    from worker.process import main

    gc.freeze()
    gc.enable()
    code = main(arguments.config)
    sys.stdout.flush()
    sys.stderr.flush()
    # All is closed by now. Python's own way out waits for the threads of Temporal's core, one of which may wait for
    # Python in order to log: seen once, a worker that had ended and did not go.
    os._exit(code)
