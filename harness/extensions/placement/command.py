"""`place`: where embedding tables should be, found by searches."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.plan import device_options, given_devices, show_progress
from harness.cli.shared.options import collect_overrides, completing, defining, trainable
from harness.cli.shared.output import form_option, say
from harness.cli.shared.values import several
from harness.foundation.errors import ExitCode
from reference_models.distributed.placement import Devices
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.planning.placement import Placement, PlacementQuestion

_COUNT = click.IntRange(1, 10_000)
_OF_BENCHMARKS = ("trace", "config_file", "assignments", "name", "model")


@click.command()
@click.argument("benchmark", required=False, shell_complete=completing(trainable))
@defining
@device_options
@click.option(
    "--by", type=several(str), default="lookup,size_lookup,greedy,neuroshard", show_default=True, metavar="SEARCH,…",
    help="random, dim, lookup, size_lookup, greedy, neuroshard, autoshard, optimal, torchrec.",
)  # fmt: skip
@click.option(
    "--cost", type=click.Choice(["bandwidth", "torchrec", "measured", "net"]), default="bandwidth", show_default=True,
    help="Of a set of tables: by bytes and rates, by TorchRec's estimator, measured here, or learnt.",
)  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path), help="Count reuse of rows in what 'trace' made.")
@click.option("--tasks", "num_tasks", type=_COUNT, help="Place generated tables: so many of NeuroShard's tasks.")
@click.option(
    "--task-file", type=click.Path(path_type=Path), help="Place NeuroShard's tasks, a line 'ids dims' each."
)
@click.option(
    "--tables", type=click.Path(path_type=Path), help="The tables of --task-file, as NeuroShard writes them."
)
@click.option(
    "--measure", "num_measured", type=click.IntRange(100, 10_000), metavar="SETS",
    help="Train the net on so many, measured here.",
)  # fmt: skip
@click.option("--retrain", is_flag=True, help="Train anew what is kept below --data: cost net and policy.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of all draws.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Keep the cheapest plan in this file."
)
@click.option(
    "--run", "num_steps", type=_COUNT, metavar="STEPS", help="Measure the plans and 'auto' in turns, with torchrec."
)
@form_option("table", "json", *FORMS)
def place(benchmark: str | None, output: Path | None, num_steps: int | None, form: str, **given: Any) -> None:
    """Search where BENCHMARK's embedding tables should be on --devices N, and compare what the plans cost.

    A plan costs what its slowest device does: lookups, updates and the exchange of embeddings, modelled from the
    numbers of the devices, unless --cost says measured. The optimum is of plans that cut no table. In place of
    BENCHMARK may be tasks: generated ones, or files. 'run --sharding plan:FILE' trains by the plan of -o. With --run,
    up to 10 plans of other costs and TorchRec's own are a sweep of throughput in the results folder, one thread a
    rank, which ranks them; 'run --beside' compares two. What is learnt is kept in place/ below --data.
    """
    from harness.cli.shared.studies import show_study
    from harness.config.run_config import resolve
    from harness.extensions.memory.trace import read_trace
    from harness.foundation.files import write_text
    from harness.planning.learnt import Keeper
    from harness.planning.placement import (
        PlacementQuestion,
        make_tasks,
        record_best,
        search_plans,
        task_of_benchmark,
    )
    from reference_models.distributed.search.tasks import NEUROSHARD
    from rules.records.codec import encode

    named = _read_question(benchmark, given, is_kept=output is not None or num_steps is not None)
    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(
            f"-o {output}: there is no folder {output.absolute().parent}. Make it, or name another."
        )
    devices = Devices(**{name: given[name] for name in Devices.__dataclass_fields__})
    if benchmark is None and "memory_bytes" not in named:
        devices = replace(devices, memory_bytes=NEUROSHARD.memory_bytes)
    question = PlacementQuestion(
        by=given["by"],
        cost=given["cost"],
        devices=devices,
        given=named,
        num_measured=given["num_measured"],
        keeper=Keeper(data_root=given["data_root"], seed=given["seed"], retrain=given["retrain"], say=say),
        on_progress=show_progress,
    )
    config, code = None, ExitCode.DONE
    if benchmark is None:
        tasks = make_tasks(question, given["num_tasks"], given["task_file"], given["tables"])
    else:
        config = resolve(benchmark, collect_overrides(given), given["name"], derived_suffix="_place")
        trace = None if given["trace"] is None else read_trace(given["trace"])[1]
        tasks = [task_of_benchmark(config, question, trace)]
    placement = search_plans(question, tasks, config)
    if num_steps is not None and config is not None:
        placement, code = _run_plans(placement, question, benchmark or "", num_steps, given)
    show_study(placement.study, form)
    if output is not None:
        record, skipped = record_best(placement, question)
        write_text(output, encode(record))
        click.echo(f"plan     {output}, by {record.search}{skipped}", err=form != "table")
    click.echo(placement.study.findings[0], err=form != "table")
    click.get_current_context().exit(int(code))


def _run_plans(
    placement: "Placement", question: "PlacementQuestion", benchmark: str, num_steps: int, given: dict[str, Any]
) -> "tuple[Placement, ExitCode]":
    """Measure the plans beside TorchRec's own as a sweep; return what is known then, with the sweep's exit code."""
    from harness.cli.shared.experiments import make_group
    from harness.config.run_config import Override
    from harness.experiment.finish import exit_code_of_matrix
    from harness.experiment.request import Request
    from harness.experiment.store import read
    from harness.extensions.placement.measured_plans import add_measured, list_plans
    from harness.run_sets.names import results_folder
    from reports.comparison.sweep import read_sweep_facts

    plans = list_plans(placement, question)
    runtime = {"implementation": "torchrec", "ranks": question.devices.num_devices, "threads": 1}
    asked = [Override(key=f"runtime.{key}", value=value, source="place --run") for key, value in runtime.items()]
    values = ["auto", *(f'"{sharding}"' for sharding, _ in plans.values())]
    request = Request(
        verb="sweep", benchmark=benchmark, axes=[f"runtime.sharding={','.join(values)}"],
        kinds={"throughput": num_steps}, overrides=[*collect_overrides(given), *asked], name=given["name"],
        data=given["data_root"], output=results_folder(), seed=given["seed"], relation="ranking",
    )  # fmt: skip
    sweep = make_group(request)
    click.echo(f"results  {sweep}", err=True)
    facts = read_sweep_facts(sweep)
    return add_measured(placement, plans, facts), exit_code_of_matrix(read(sweep), facts)


def _read_question(benchmark: str | None, given: dict[str, Any], *, is_kept: bool) -> list[str]:
    """List the members of Devices that were given. Raises UsageError for options that do not go together."""
    if given["num_devices"] is None:
        raise click.UsageError("--devices N says over how many devices tables are placed; give it.")
    if sum(source is not None for source in (benchmark, given["num_tasks"], given["task_file"])) != 1:
        raise click.UsageError("give BENCHMARK, --tasks or --task-file: one of them.")
    if (given["task_file"] is None) != (given["tables"] is None):
        raise click.UsageError("--task-file and --tables are given together.")
    if benchmark is None and (is_kept or any(given[name] for name in _OF_BENCHMARKS)):
        raise click.UsageError("-o, --run, --trace, -c, --set, --name and --model are of the tables of a BENCHMARK.")
    if given["num_measured"] is not None and given["cost"] != "net":
        raise click.UsageError("--measure is of --cost net.")
    return given_devices(click.get_current_context())
