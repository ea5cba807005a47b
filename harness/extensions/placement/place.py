"""Define the command `place`: searches find plans of embedding tables on devices, which are compared by cost."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import collect_overrides, completing, defining, trainable
from harness.cli.shared.output import form_option
from harness.extensions.placement.options import (
    BATCH_SIZE,
    COUNT,
    HEADINGS,
    device_options,
    find_output,
    read_question,
    search_options,
)
from harness.foundation.errors import ExitCode, HarnessError
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.extensions.placement.plans import Placement, PlacementQuestion


@verb(
    "dlrmbench place dlrm_dcnv2 --devices 8 --by lookup,autoshard",
    "dlrmbench place dlrm_small --devices 2 --device-type cpu -o plan.json",
    "dlrmbench place tables.csv --devices 8 --keep clicks=0 --from today.json",
    headings=HEADINGS,
)
@click.argument("benchmark", shell_complete=completing(trainable))
@defining
@device_options()
@search_options
@BATCH_SIZE
@click.option(
    "--costs",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Use the times of tables that 'measure-costs' wrote to FILE, on this machine or another, instead of an "
    "estimate by --cost. With --cost net, train the net on the measured sets of tables in FILE.",
)
@click.option(
    "--keep",
    "kept",
    multiple=True,
    metavar="TABLE=DEVICE",
    help="Keep TABLE, given by number or name, on the device with the number DEVICE in every plan; repeatable.",
)
@click.option(
    "--from",
    "today",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN",
    help="Plan in use today, in a file that -o wrote: improve this plan, too, and state how many tables and bytes "
    "each new plan moves.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Folder of a trace of lookups, made by 'trace', in which the reuse of embedding rows is counted to model "
    "the costs.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to which the plan of least cost is written.",
)
@click.option(
    "--run",
    "num_steps",
    type=COUNT,
    metavar="STEPS",
    help="Train STEPS steps by each plan, and by TorchRec's own plan ('auto'), alternately.",
)
@form_option("table", "json", *FORMS)
def place(benchmark: str, output: Path | None, num_steps: int | None, form: str, **given: Any) -> None:
    """Search plans that place BENCHMARK's embedding tables on --devices N, and compare the plans' costs.

    A plan's cost is the time of its slowest device for lookups, updates and the exchange of embeddings, by default
    modelled from the devices' bandwidths and latencies; --cost chooses another estimate. The plan called optimum has
    the least cost of all plans that cut no table. 'run --sharding plan:FILE' trains with the plan that -o writes.
    With --run, up to 10 plans of different costs and TorchRec's own plan are ranked by measured throughput, in a
    sweep in the results folder with one thread per rank. 'run --beside' compares the measured speed of two plans. The
    results, in study.json, and their HTML page are kept in a new folder of the results folder; trained nets and
    search policies are kept in the folder place/ below --data.

    BENCHMARK may be a file of your own tables: CSV or JSON of name, rows, width and pooling, and, where known,
    optimizer and zipf_exponent.
    """

    from msgspec import structs

    from harness.cli.shared.studies import keep_study
    from harness.extensions.placement.plans import record_best, search_plans
    from harness.extensions.placement.reading import read_task, take_costs
    from harness.foundation.files import write_text
    from rules.records.codec import encode

    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(
            f"-o {output}: there is no folder {output.absolute().parent}. Make it, or name another."
        )
    kept_in = find_output()
    question, code = read_question(given), ExitCode.DONE
    question, task, config = read_task(benchmark, question, given)
    if given["costs"] is not None:
        question = take_costs(question, task, given["costs"])
    if num_steps is not None and config is None:
        raise click.UsageError("--run measures a benchmark, and a file of tables is none. Leave --run out.")
    placement = search_plans(question, [task], config)
    if num_steps is not None:
        placement, code = _run_plans(placement, question, benchmark, num_steps, given)
    study = placement.study
    if config is not None and (following := _say_next(placement, question, benchmark, output, given)):
        at = len(placement.costs.findings) + (1 if question.today is None else 2)  # below the answer's finding
        study = structs.replace(study, findings=(*study.findings[:at], following, *study.findings[at:]))
    inputs = [Path(benchmark), *(given[name] for name in ("trace", "today", "costs") if given[name] is not None)]
    keep_study(study, kept_in, f"place-{task.name}", form, inputs=inputs)
    if output is not None:
        record, skipped = record_best(placement, question)
        write_text(output, encode(record))
        click.echo(f"plan     {output}, by {record.search}{skipped}", err=form != "table")
    click.get_current_context().exit(int(code))


def _say_next(
    placement: "Placement", question: "PlacementQuestion", benchmark: str, output: Path | None, given: dict[str, Any]
) -> str:
    """Return a sentence with the command that trains by the cheapest placement plan that can be run; '' without such
    a plan."""
    from harness.extensions.placement.plans import record_best
    from reports.text.formatting import plural

    try:
        record_best(placement, question)
    except HarnessError:
        return ""
    name = "plan.json" if output is None else str(output)
    ranks = ["--ranks", str(question.devices.num_devices), "--sharding", f"plan:{name}"]
    options = {"--name": given["name"], "--config": given["config_file"], "--data": given["data_root"]}
    sets = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    sets += [word for text in given["assignments"] for word in ("--set", text)]
    again = f"first repeat this study's command with -o {name}, which writes the plan"
    kept = "" if output is not None else f" ({again})"
    run = shlex.join(["dlrmbench", "run", benchmark, *ranks, *sets])
    devices = plural(question.devices.num_devices, f"{question.devices.device_type} device")
    return f"Next, to train on {devices} with the cheapest plan{kept}: {run}"


def _run_plans(
    placement: "Placement", question: "PlacementQuestion", benchmark: str, num_steps: int, given: dict[str, Any]
) -> "tuple[Placement, ExitCode]":
    """Measure steps of several placement plans, among them the plan that TorchRec would choose, as a sweep. Return
    the placement, with the measured steps in its study, and the sweep's exit code."""
    from harness.cli.shared.experiments import make_group
    from harness.config.run_config import Override
    from harness.experiment.finish import exit_code_of_matrix
    from harness.experiment.request import Request
    from harness.experiment.store import read
    from harness.extensions.placement.measured_plans import add_measured, list_plans
    from harness.run_sets.names import find_results_folder
    from reports.comparison.sweep import read_sweep_facts

    plans = list_plans(placement, question)
    runtime = {"implementation": "torchrec", "ranks": question.devices.num_devices, "threads": 1}
    asked = [Override(key=f"runtime.{key}", value=value, source="place --run") for key, value in runtime.items()]
    values = ["auto", *(f'"{sharding}"' for sharding, _ in plans.values())]
    request = Request(
        verb="sweep", benchmark=benchmark, axes=[f"runtime.sharding={','.join(values)}"],
        kinds={"throughput": num_steps}, overrides=[*collect_overrides(given), *asked], name=given["name"],
        data=given["data_root"], output=find_results_folder(), seed=given["seed"], relation="ranking",
    )  # fmt: skip
    sweep = make_group(request)
    click.echo(f"results  {sweep}", err=True)
    facts = read_sweep_facts(sweep)
    return add_measured(placement, plans, facts), exit_code_of_matrix(read(sweep), facts)
