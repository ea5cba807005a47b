"""The options of `run` and `sweep` that ask for another kind of measurement than runs to the target: one per kind."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from harness.measure.kinds import MeasurementKind

F = TypeVar("F", bound=Callable[..., Any])

_KINDS = {
    "throughput": (
        "num_steps",
        "STEPS",
        "Measure samples/s over STEPS in at least 5 processes instead; any key may vary, nothing is scored.",
    ),
    "quality": (
        "num_samples",
        "SAMPLES",
        "Measure AUC and log loss after SAMPLES in at least 5 processes instead; any key may vary.",
    ),
}
"""By kind, which is also the option's name: the member of its job that the option gives, its unit, and its help."""


class Measured(TypedDict):
    """What the options of `measurements` hand to a verb."""

    throughput: int | None
    quality: int | None


def measurements(command: F) -> F:
    """Add --throughput and --quality."""
    for name, (_, unit, text) in reversed(_KINDS.items()):
        command = click.option(f"--{name}", type=click.IntRange(min=1), metavar=unit, help=text)(command)
    return command


def asked_kind(measured: Measured, timeout_s: float | None) -> "tuple[MeasurementKind, dict[str, int]]":
    """Return the kind that is asked for, and what of it. Raises UsageError where two are, or a --timeout for one."""
    from harness.measure.kinds import find_kind

    asked = {name: value for name in _KINDS if (value := measured[name]) is not None}  # type: ignore[literal-required]
    if not asked:
        return find_kind("training"), {}
    name, *others = asked
    if others:
        raise click.UsageError(f"--{name} and --{others[0]} are two measurements; give one of them.")
    if timeout_s is not None:
        raise click.UsageError(f"--timeout is for runs to the target; --{name} ends by itself.")
    return find_kind(name), {_KINDS[name][0]: asked[name]}
