"""Start the command line: `python -m harness` is `dlrmbench`."""

import os
import sys

# -m looks for modules in the current folder first: a file of the user's there may have any name, such as json.py.
if not sys.flags.safe_path and os.path.realpath(sys.path[0]) != os.path.dirname(os.path.dirname(__file__)):  # noqa: PTH120
    del sys.path[0]

from harness.cli import main

if __name__ == "__main__":
    main()
