"""`plan`: what a run would do, need and break."""

import re
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

import click
from click.core import ParameterSource

from harness.cli.options import BENCHMARK, Configured, collect_overrides, configuration
from harness.cli.output import form_option, show, show_json
from reference_models.distributed.placement import Devices

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?(/S)?", re.IGNORECASE)


class PlanOptions(Configured):
    """What the options of `plan` hand to it; those of devices by the names that `Devices` has for them."""

    num_devices: int | None
    device_type: str
    memory_bytes: int
    memory_bandwidth: int
    devices_per_host: int
    intra_host_bandwidth: int
    inter_host_bandwidth: int


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Bytes, or bytes per second, as people write them: 141GB, 96GiB; 4.8TB/s, 450GB. A number alone has no unit."""

    def __init__(self, *, is_rate: bool = False) -> None:
        self.name = "size/s" if is_rate else "size"
        self._is_rate = is_rate

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        like = "450GB/s or 4.8TB/s" if self._is_rate else "141GB or 96GiB"
        if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
            self.fail(f"{text!r} has no unit. Write it like {like}.", param, ctx)
        match = _SIZE.fullmatch(text)
        if match is not None and float(match[1]) <= 0:
            self.fail(f"{text!r} must be more than nothing.", param, ctx)
        if match is None or (match[3] and not self._is_rate):
            self.fail(f"{text!r} is not a number with a unit. Write it like {like}.", param, ctx)
        return int(float(match[1]) * _UNITS[(match[2] or "").upper()])


_DEVICES = (
    ("--devices", "num_devices", click.IntRange(1, 4096), None, "Plan tables for that many devices."),
    ("--device-type", "device_type", click.Choice(["cuda", "cpu"]), "cuda", "What they are."),
    ("--device-memory", "memory_bytes", Size(), "80GB", "Memory of one device."),
    ("--device-bandwidth", "memory_bandwidth", Size(is_rate=True), "2TB/s", "Of that memory."),
    ("--devices-per-host", "devices_per_host", click.IntRange(min=1), 8, "Devices in one machine."),
    ("--intra-host-bandwidth", "intra_host_bandwidth", Size(is_rate=True), "450GB/s", "Between devices."),
    ("--inter-host-bandwidth", "inter_host_bandwidth", Size(is_rate=True), "50GB/s", "Between hosts."),
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
@click.option("--measure/--no-measure", default=True, help="Measure a matrix product for the time estimate.")
@device_options
def plan(
    benchmark: str,
    num_runs: int | None,
    form: str,
    measure: bool,
    **configured: Unpack[PlanOptions],
) -> None:
    """Resolve BENCHMARK's configuration and say what its runs would do, need and break. Runs nothing.

    With --devices, say instead where TorchRec would lay its tables on devices that need not be here, and what they
    would take: modelled, from the memory and bandwidths given.
    """
    from harness.config.run_config import default_division, resolve
    from harness.planning.devices import devices_study, make_devices_plan
    from harness.planning.plan import make_plan, plan_as_json, plan_blocks
    from reports.views.study import study_blocks
    from rules.records.codec import encode

    context = click.get_current_context()
    given = given_devices(context)
    config = resolve(benchmark, collect_overrides(configured), configured["name"])
    config.workload.implementation.require_installed()
    if configured["num_devices"] is not None:
        devices = Devices(**{name: context.params[name] for name in Devices.__dataclass_fields__})
        modelled = make_devices_plan(config, devices, configured["data_root"], _show_progress)
        study = devices_study(config, modelled, given)
        if form == "json":
            click.echo(encode(study), nl=False)
        else:
            show(study_blocks(study))
        return
    runs = config.benchmark.score.num_runs if num_runs is None else num_runs
    made = make_plan(
        config,
        configured["data_root"],
        num_runs=runs,
        division=configured["division"] or default_division(config.benchmark),
        measure=measure,
    )
    if form == "json":
        show_json(plan_as_json(made))
    else:
        show(plan_blocks(made, runs))


def _show_progress(num_done: int, num_total: int) -> None:
    if num_done % 5 and num_done != num_total:
        return
    click.echo(f"plan: options of {num_done} of {num_total} tables looked at; Ctrl-C ends it", err=True)
