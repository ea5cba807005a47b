"""`plan`: what a run would do, need and break."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from harness.cli.shared.options import BENCHMARK, SizeParam, collect_overrides, configuration
from harness.cli.shared.output import form_option, say, show_as
from harness.cli.shared.studies import show_study
from reference_models.distributed.placement import Devices

F = TypeVar("F", bound=Callable[..., Any])


_DEVICES = (
    ("--devices", "num_devices", click.IntRange(1, 4096), None, "Plan tables for that many devices."),
    ("--device-type", "device_type", click.Choice(["cuda", "cpu"]), "cuda", "What they are."),
    ("--device-memory", "memory_bytes", SizeParam(), "80GB", "Memory of one device."),
    ("--device-bandwidth", "memory_bandwidth", SizeParam(is_rate=True), "2TB/s", "Of that memory."),
    ("--devices-per-host", "devices_per_host", click.IntRange(min=1), 8, "Devices in one machine."),
    ("--intra-host-bandwidth", "intra_host_bandwidth", SizeParam(is_rate=True), "450GB/s", "Between devices."),
    ("--inter-host-bandwidth", "inter_host_bandwidth", SizeParam(is_rate=True), "50GB/s", "Between hosts."),
)
"""Option, the member of Devices that it gives, its type, default and help."""


def device_options(command: F) -> F:
    """Add the options that describe devices one need not have."""
    for option, member, kind, default, text in reversed(_DEVICES):
        command = click.option(
            option, member, type=kind, default=default, show_default=default is not None, help=text
        )(command)
    return command


def given_devices(context: click.Context) -> list[str]:
    """List the members of Devices that were given. Raises UsageError where --devices is not among them."""
    given = [
        (option, member)
        for option, member, *_ in _DEVICES
        if context.get_parameter_source(member) is ParameterSource.COMMANDLINE
    ]
    if given and context.params["num_devices"] is None:
        raise click.UsageError(f"{given[0][0]} describes the devices of --devices N; give that too.")
    return [member for _, member in given]


@click.command()
@BENCHMARK
@configuration
@click.option("-n", "--runs", "num_runs", type=click.IntRange(min=1), help="Runs.  [default: the benchmark's number]")
@form_option("table", "json")
@click.option(
    "--measure/--no-measure", default=True, help="Time a few steps and an evaluation to estimate a run's time."
)
@device_options
def plan(
    benchmark: str,
    num_runs: int | None,
    form: str,
    measure: bool,
    **given: Any,
) -> None:
    """Resolve BENCHMARK's configuration and say what its runs would do, need and break.

    Times a few steps and one evaluation to estimate how long a run takes (not with --no-measure); keeps nothing.
    Exit code 2 where the runs could not start here, 8 where the data that --data gives, or that is there, cannot be
    used. Data that is yet to be prepared is named as a problem and leaves it 0.

    With --devices, say instead where TorchRec would lay its tables on devices that need not be here, and what they
    would take: modelled, from the memory and bandwidths given.
    """
    from harness.config.run_config import default_division, resolve
    from harness.planning.learnt import Keeper
    from harness.planning.placement import PlacementQuestion, search_plans, task_of_benchmark
    from harness.planning.plan import make_plan, plan_as_json, plan_blocks

    context = click.get_current_context()
    given_members = given_devices(context)
    config = resolve(benchmark, collect_overrides(given), given["name"])
    config.workload.implementation.require_installed()
    if given["num_devices"] is not None:
        devices = Devices(**{name: given[name] for name in Devices.__dataclass_fields__})
        keeper = Keeper(data_root=given["data_root"], seed=0, retrain=False, say=say)
        question = PlacementQuestion(
            by=("torchrec",), devices=devices, given=given_members, keeper=keeper, on_progress=show_progress
        )
        show_study(search_plans(question, [task_of_benchmark(config, question, None)], config).study, form)
        return
    runs = config.benchmark.score.num_runs if num_runs is None else num_runs
    made = make_plan(
        config,
        given["data_root"],
        num_runs=runs,
        division=given["division"] or default_division(config.benchmark),
        measure=measure,
    )
    show_as(form, plan_as_json(made), plan_blocks(made, runs))
    context.exit(int(made.exit_code))


def show_progress(num_done: int, num_total: int) -> None:
    """Say on standard error how many tables TorchRec's planner has looked at."""
    if num_done % 5 == 0 or num_done == num_total:
        say(f"options of {num_done} of {num_total} tables looked at; Ctrl-C ends it")
