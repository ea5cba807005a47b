"""The options of `run` and `sweep` that ask for another kind of measurement than runs to the target: one per kind."""

import os
from collections.abc import Callable
from pathlib import Path
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
        "Measure quality and log loss after SAMPLES in at least 5 processes instead; any key may vary.",
    ),
}
"""By kind, which is also the option's name: the member of its job that the option gives, its unit, and its help."""


class Measured(TypedDict):
    """What the options of `measurements` hand to a verb."""

    throughput: int | None
    quality: int | None
    matmul: Path | None


def measurements(command: F) -> F:
    """Add --throughput and --quality, and how their steps are computed."""
    command = click.option(
        "--matmul",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="How 'optimized' computes its matrix products on a CPU: another set's run_set.json, or the matmul.json "
        "of its page.  [default: timed once]",
    )(command)
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


def externally_launched_ranks(run_index: int | None, kind: "MeasurementKind", measured: Measured) -> int | None:
    """Count the ranks of the world that this process was launched in; None where it starts its own."""
    from harness.launch.launcher_env import launcher_of_many, world_size

    if run_index is None:
        if launcher := launcher_of_many(os.environ):
            raise click.UsageError(
                f"{launcher} started this process as one of several, and each would run the whole benchmark: give "
                "--run-index, or start one process: 'dlrmbench run --ranks N' starts its own ranks."
            )
        return None
    if not kind.is_scored:
        raise click.UsageError(f"--run-index is for runs to the target, not for --{kind.name}.")
    if measured["matmul"] is not None:
        raise click.UsageError("--matmul is for runs that this command starts itself, in one process each.")
    size = world_size(os.environ)
    if size is None:
        raise click.UsageError("--run-index is for a process that torchrun or srun started: no WORLD_SIZE is set.")
    # Its words, with their stack traces, are about what our own messages name. Read when torch is first imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    return size
