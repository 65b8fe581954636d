"""`python -m gateway`: the same as `playhead serve`."""

import sys

from gateway.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
