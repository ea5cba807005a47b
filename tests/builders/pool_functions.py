"""What processes of a pool do in tests: they import it by name, which they could not do with a test's own module."""

import os
import time
from pathlib import Path

from waiting import HANG_S

from rules.errors import InputError


def die_at_3(number: int) -> int:
    """End the process without a word at 3."""
    if number == 3:
        os._exit(1)
    return number


def refuse_3_and_5(number: int) -> int:
    """Raise InputError at 3 and at 5."""
    if number in (3, 5):
        raise InputError(f"number {number}")
    return number


def wait_without_end(place: str) -> None:
    """Leave this process's id in a file, and wait."""
    Path(place).write_text(str(os.getpid()))
    while True:
        time.sleep(HANG_S)
