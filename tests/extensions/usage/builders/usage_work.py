"""Question that tests ask of a worker of a usage."""

import os
from pathlib import Path


def keep_working(models: object, place: str) -> None:
    """Leave this process's id in a file, and work, without a pause to hear in that nobody asks any more."""
    Path(place).write_text(str(os.getpid()))
    while True:
        sum(range(1_000))
