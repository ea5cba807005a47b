"""A system whose rates are given: to measure them takes 20 s, and never ends on a clock that stands still."""

from collections.abc import Callable

from harness.planning.hardware.system import System, SystemNumber


def give_system(say: Callable[[str], None]) -> System:
    """Say that something is measured, and return a system of two numbers."""
    say("measuring matrix products")
    numbers = (
        SystemNumber(of="cores", value=1, source="a test"),
        SystemNumber(of="fp32", value=1e9, source="a test"),
    )
    return System(title="a test's", numbers=numbers)
