"""Define the options that the commands of placement share: description of the devices, choice of searches and of
costs."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from harness.cli.shared.options import SizeParam, completing_several, configuration, fraction, refuse_unnamed, seconds
from harness.cli.shared.output import say
from harness.cli.shared.values import several

if TYPE_CHECKING:
    from harness.extensions.placement.plans import PlacementQuestion

F = TypeVar("F", bound=Callable[..., Any])
COUNT = click.IntRange(1, 10_000)

DEVICES = (
    (
        "--device-type",
        "device_type",
        click.Choice(["cuda", "cpu"]),
        "cuda",
        "Kind of the devices on which tables are placed.",
    ),
    ("--device-memory", "memory_bytes", SizeParam(), "80GiB", "Size of one device's memory."),
    (
        "--reserve",
        "reserve",
        fraction,
        "15%",
        "Share of a device's memory that is kept free of tables; TorchRec keeps 15 % free.",
    ),
    ("--device-bandwidth", "memory_bandwidth", SizeParam(is_rate=True), "2TB/s", "Memory bandwidth of one device."),
    ("--devices-per-host", "devices_per_host", click.IntRange(min=1), 8, "Number of devices in one host."),
    (
        "--intra-host-bandwidth",
        "intra_host_bandwidth",
        SizeParam(is_rate=True),
        "450GB/s",
        "Bandwidth between devices of a host.",
    ),
    ("--inter-host-bandwidth", "inter_host_bandwidth", SizeParam(is_rate=True), "50GB/s", "Bandwidth between hosts."),
    (
        "--intra-host-latency",
        "intra_host_latency_s",
        seconds,
        None,
        "Latency between devices of a host, such as 5us.  [default: none]",
    ),
    (
        "--inter-host-latency",
        "inter_host_latency_s",
        seconds,
        None,
        "Latency between hosts, such as 20us.  [default: none]",
    ),
)
"""Options that describe the devices on which tables are placed: name, field of Devices, type, default and help."""
HEADINGS = {"Devices": tuple(member for _, member, *_ in DEVICES)}
"""Heading in --help under which the options that describe the devices are listed, with these options' parameter
names."""
_MEMBERS = ("num_devices", *(member for _, member, *_ in DEVICES))


def device_options(memory: str = "80GiB", reserve: str = "15%") -> Callable[[F], F]:
    """Make the options that describe the devices on which tables are placed, which need not be on this machine;
    `memory` and `reserve` are the defaults of a device's memory and of the share kept free."""

    def add(command: F) -> F:
        for option, member, kind, default, text in reversed(DEVICES):
            default = {"memory_bytes": memory, "reserve": reserve}.get(member, default)
            command = click.option(option, member, type=kind, default=default, show_default=True, help=text)(command)
        return click.option(
            "--devices",
            "num_devices",
            type=click.IntRange(1, 4096),
            required=True,
            metavar="N",
            help="Number of devices on which the plans place tables.",
        )(command)

    return add


def _searches() -> Iterable[str]:
    from reference_models.distributed.search.registry import SEARCHES, TORCHREC

    return (*SEARCHES, TORCHREC)


_SEARCHING = (
    click.option(
        "--by", type=several(str), default="lookup,size_lookup,greedy,local,neuroshard", show_default=True,
        metavar="SEARCH,…", shell_complete=completing_several(_searches),
        help="Searches for plans: random; dim (balances the widths of tables over devices); lookup (balances "
        "widths times lookups); size_lookup (balances widths times lookups times log10 of rows); greedy, local, "
        "neuroshard, autoshard, optimal, torchrec. The searches greedy and local are always included.",
    ),
    click.option(
        "--cost", type=click.Choice(["bandwidth", "torchrec", "measured", "net"]), default="bandwidth",
        show_default=True,
        help="How to estimate the time of tables on a device: from bandwidths, by TorchRec's estimator, by "
        "measurement, or by a trained neural net.",
    ),
    click.option(
        "--measure", "num_measured", type=click.IntRange(100, 10_000), metavar="SETS",
        help="Train the neural net of --cost net on this number of sets of tables, whose times are measured on this "
        "machine.",
    ),
    click.option(
        "--retrain", is_flag=True,
        help="Train the neural net of --cost net and the policy of the search autoshard anew, instead of using the "
        "net and the policy kept below --data.",
    ),
    click.option(
        "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of all random draws."
    ),
)  # fmt: skip


BATCH_SIZE = click.option(
    "--batch-size",
    type=click.IntRange(1, 2**31),
    metavar="N",
    help="Samples of a training step, where BENCHMARK is a file of tables.  [default: 65536]",
)


def find_output() -> Path:
    """Return the results folder, in which studies of placement are kept. It is set by the environment variable
    DLRMBENCH_OUTPUT, and by no option of these commands.

    Raises HarnessError (exit 8) if the folder is a link and DLRMBENCH_OUTPUT is not set, and OSError if no folder can
    be made there.
    """
    from harness.run_sets.names import find_results_folder
    from harness.run_sets.output import refuse_output

    folder = find_results_folder()
    if not os.environ.get("DLRMBENCH_OUTPUT"):
        refuse_unnamed(folder, f"set DLRMBENCH_OUTPUT={folder}")
    refuse_output(folder)
    return folder


def search_options(command: F) -> F:
    """Add to a command the options that choose the searches of plans and the costs that they minimise."""
    return configuration(command, _SEARCHING)


def read_question(given: dict[str, Any], **asked: Any) -> "PlacementQuestion":
    """Return the request for a search of placement plans: the searches, the cost and the devices that the command
    line's options `given` name. `asked` are further fields of the request, which the command sets and no option does.

    Raises UsageError if options contradict each other.
    """
    from harness.extensions.placement.learnt import LearntStore
    from harness.extensions.placement.plans import PlacementQuestion
    from reference_models.distributed.planner_estimate import Devices

    values = {**given, **asked}
    devices: dict[str, Any] = {name: given[name] or 0.0 for name in Devices.__dataclass_fields__}
    if values.get("num_measured") is not None and values["cost"] != "net":
        raise click.UsageError("--measure is of --cost net.")
    context = click.get_current_context()
    return PlacementQuestion(
        by=values["by"],
        cost=values.get("cost", "bandwidth"),
        devices=Devices(**devices),
        given=[each for each in _MEMBERS if context.get_parameter_source(each) is ParameterSource.COMMANDLINE],
        num_measured=values.get("num_measured"),
        has_baselines=values.get("has_baselines", True),
        learnt=LearntStore(
            data_root=given["data_root"], seed=values.get("seed", 0), retrain=values.get("retrain", False), say=say
        ),
        on_progress=_show_progress,
    )


def _show_progress(num_done: int, num_total: int) -> None:
    """Write to standard error how many of the tables TorchRec's planner has looked at."""
    if num_done % 5 == 0 or num_done == num_total:
        say(f"options of {num_done} of {num_total} tables looked at; Ctrl-C ends it")
