"""`python -m worker`: a worker process, from the configuration."""

import argparse
import sys
from pathlib import Path

from worker.process import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m worker", description="Run a Longshift worker until it is ended.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (default: longshift.toml here)")
    sys.exit(main(parser.parse_args().config))
