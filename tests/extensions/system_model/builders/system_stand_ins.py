"""A system whose rates are given: to measure them takes 20 s, and never ends on a clock that stands still."""

from collections.abc import Callable

from harness.planning.hardware.system import ModelledSystem, SystemNumber


def give_system(say: Callable[[str], None]) -> ModelledSystem:
    """Say that something is measured, and return a system whose numbers are all the same."""
    say("measuring matrix products")
    kinds = ("cores", "memory", "fp32", "copy", "rows", "other", "operator")
    numbers = tuple(SystemNumber(of=kind, value=1e9, source="a test", spread=0.1) for kind in kinds)  # type: ignore[arg-type]
    return ModelledSystem(title="a test's", numbers=numbers)
