"""`place`: where embedding tables should be, found by searches."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import collect_overrides, completing, defining, trainable
from harness.cli.shared.output import form_option
from harness.extensions.placement.options import (
    COUNT,
    HEADINGS,
    device_options,
    find_output,
    read_question,
    search_options,
)
from harness.foundation.errors import ExitCode
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.config.run_config import RunConfig
    from harness.extensions.placement.plans import Placement, PlacementQuestion
    from reference_models.distributed.search.task import Task


@verb(
    "dlrmbench place dlrm_dcnv2 --devices 8 --by lookup,autoshard",
    "dlrmbench place dlrm_small --devices 2 --device-type cpu -o plan.json",
    "dlrmbench place tables.csv --devices 8 --keep clicks=0 --from today.json -o plan.json",
    headings=HEADINGS,
)
@click.argument("benchmark", shell_complete=completing(trainable))
@defining
@device_options()
@search_options
@click.option(
    "--batch-size",
    type=click.IntRange(1, 2**31),
    metavar="N",
    help="Samples of a step, where BENCHMARK is a file of tables.  [default: 65536]",
)
@click.option(
    "--keep", "kept", multiple=True, metavar="TABLE=DEVICE", help="Leave a table, by number or name, where it is."
)
@click.option(
    "--from",
    "today",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN",
    help="Begin with the plan that runs today, of -o, too, and say how much of it others move.",
)
@click.option("--trace", type=click.Path(path_type=Path), help="Count reuse of rows in what 'trace' made.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Keep the cheapest plan in this file."
)
@click.option(
    "--run", "num_steps", type=COUNT, metavar="STEPS", help="Measure the plans and 'auto' in turns, with torchrec."
)
@form_option("table", "json", *FORMS)
def place(benchmark: str, output: Path | None, num_steps: int | None, form: str, **given: Any) -> None:
    """Search where BENCHMARK's embedding tables should be on --devices N, and compare what the plans cost.

    A plan costs what its slowest device does: lookups, updates and the exchange of embeddings, modelled from the
    numbers of the devices, unless --cost says measured. The optimum is of plans that cut no table. 'run --sharding
    plan:FILE' trains by the plan of -o. With --run, up to 10 plans of other costs and TorchRec's own are a sweep of
    throughput in the results folder, one thread a rank, which ranks them; 'run --beside' compares two. The study and
    its page are kept in a new folder there. What is learnt is kept in place/ below --data.

    In the place of BENCHMARK a file has tables of your own: CSV or JSON of name, rows, width and pooling, and where
    they are known optimizer and zipf_exponent.
    """
    from harness.cli.shared.studies import keep_study
    from harness.extensions.placement.plans import record_best, search_plans
    from harness.foundation.files import write_text
    from rules.records.codec import encode

    if output is not None and not output.absolute().parent.is_dir():
        raise click.UsageError(
            f"-o {output}: there is no folder {output.absolute().parent}. Make it, or name another."
        )
    kept_in = find_output()
    question, code = read_question(given), ExitCode.DONE
    question, task, config = _read_task(benchmark, question, given)
    if num_steps is not None and config is None:
        raise click.UsageError("--run measures a benchmark, and a file of tables is none. Leave --run out.")
    placement = search_plans(question, [task], config)
    if num_steps is not None:
        placement, code = _run_plans(placement, question, benchmark, num_steps, given)
    inputs = [Path(benchmark), *(given[name] for name in ("trace", "today") if given[name] is not None)]
    keep_study(placement.study, kept_in, f"place-{task.name}", form, inputs=inputs)
    if output is not None:
        record, skipped = record_best(placement, question)
        write_text(output, encode(record))
        click.echo(f"plan     {output}, by {record.search}{skipped}", err=form != "table")
    click.get_current_context().exit(int(code))


def _read_task(
    benchmark: str, question: "PlacementQuestion", given: dict[str, Any]
) -> "tuple[PlacementQuestion, Task, RunConfig | None]":
    """Read what is to be placed, a benchmark's tables or a file's, with what is kept and what runs today."""
    from harness.config.run_config import resolve
    from harness.extensions.memory.trace import read_trace
    from harness.extensions.placement.plans import describe_file, task_of_benchmark
    from harness.extensions.placement.today import read_today
    from reference_models.data.table_file import FORMS as TABLE_FORMS
    from reference_models.distributed.search.tasks import keep_tables

    config = None
    if Path(benchmark).suffix in TABLE_FORMS:
        if given["trace"] is not None:
            raise click.UsageError("--trace is of a benchmark. In a file of tables give zipf_exponent.")
        question, task = describe_file(Path(benchmark), question, given["batch_size"])
    else:
        if given["batch_size"] is not None:
            raise click.UsageError("--batch-size is of a file of tables. Give --set train.global_batch_size=N.")
        config = resolve(benchmark, collect_overrides(given), given["name"], derived_suffix="_place")
        trace = None if given["trace"] is None else read_trace(given["trace"])[1]
        task = task_of_benchmark(config, question, trace)
    if given["kept"]:
        task = keep_tables(task, [_read_kept(text, question.table_names) for text in given["kept"]])
    if given["today"] is not None:
        question = replace(question, today=read_today(given["today"], task))
    return question, task, config


def _read_kept(text: str, names: Sequence[str]) -> tuple[int, int]:
    """Read TABLE=DEVICE, of which the table is a number or a name. Raises BadParameter."""
    table, _, device = text.rpartition("=")
    try:
        number = names.index(table) if table in names else int(table)
        return number, int(device)
    except ValueError:
        raise click.BadParameter(
            f"--keep {text!r:.80}: expected TABLE=DEVICE, a number or a name of a file of tables, and a number, such "
            "as 3=0."
        ) from None


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
