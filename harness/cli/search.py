"""`place`: where embedding tables should be, found by searches; `tune`: settings under constraints, each proposed by
what those before it measured, or an accelerator, modelled."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli.memory import several
from harness.cli.plan import device_options, given_devices, say, show_progress
from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.options import (
    BENCHMARK,
    QUIET,
    SizeParam,
    collect_overrides,
    completing,
    configuration,
    defining,
    trainable,
)
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import KINDS, read_request, request_options
from harness.foundation.errors import ExitCode
from reference_models.distributed.placement import Devices
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.planning.placement import Placement, PlacementQuestion
    from rules.records.experiment import ConstraintRecord

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
    from harness.foundation.files import write_text
    from harness.planning.learnt import Keeper
    from harness.planning.placement import (
        PlacementQuestion,
        make_tasks,
        record_best,
        search_plans,
        task_of_benchmark,
    )
    from harness.planning.trace import read_trace
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
    from harness.planning.measured_plans import add_measured, list_plans
    from harness.run_sets.names import results_folder
    from reports.comparison.sweep import read_sweep_facts

    plans = list_plans(placement, question)
    runtime = {"implementation": "torchrec", "ranks": question.devices.num_devices, "threads": 1}
    asked = [Override(key=f"runtime.{key}", value=value, source="place --run") for key, value in runtime.items()]
    values = ["auto", *(f'"{sharding}"' for sharding, _ in plans.values())]
    request = Request(
        verb="sweep", benchmark=benchmark, axes=[f"runtime.sharding={','.join(values)}"],
        kinds={"throughput": num_steps}, overrides=[*collect_overrides(given), *asked], name=given["name"],
        data=given["data_root"], output=results_folder(), seed=given["seed"], is_ranking=True,
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


_NUMBERS = {"training": None, "throughput": 50, "quality": 65_536, "serve": None}
"""What each kind is asked where nothing else is said: steps, samples."""
_OF_SPACE = {
    "benchmark", "config_file", "assignments", "name", "data_root", "model", "trials", "space", "modes", "pareto",
    "output", "seed", "form", "quiet",
}  # fmt: skip
"""What is asked with --space; all else is of trials that are run."""


def read_constraint(text: str) -> "ConstraintRecord":
    """Read 'memory<=1GB' or 'auc>=0.8'. Raises BadParameter."""
    from rules.records.experiment import ConstraintRecord

    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*(\S.*?)\s*", text)
    if match is None:
        raise click.BadParameter(f"{text!r}: expected COLUMN<=VALUE or COLUMN>=VALUE, such as memory<=1GB.")
    column, sign, value = match.groups()
    try:
        number = float(SizeParam(takes_bytes=True).convert(value, None, None)) if value[-1] in "bB" else float(value)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise click.BadParameter(f"{text!r}: {value!r} is no number, nor a size such as 1GB.")
    return ConstraintRecord(column=column, sign=sign, value=number)  # type: ignore[arg-type]


@click.command()
@BENCHMARK
@configuration
@request_options("tune", "axes")
@click.option("--minimize", metavar="COLUMN", help="What to make small, such as time_to_train_s or latency_s.")
@click.option("--maximize", metavar="COLUMN", help="What to make large, such as samples_per_s, auc, queries_per_s.")
@click.option("--constraint", "constraints", type=read_constraint, multiple=True, metavar="'COLUMN<=VALUE'",
              help="What a trial must keep, or be infeasible; repeatable, also with >=.")  # fmt: skip
@click.option(
    "--trials",
    type=click.IntRange(2, 10_000),
    default=20,
    show_default=True,
    help="Trials, with the default; with --space of each search.",
)
@click.option("--sampler", type=click.Choice(["auto", "random"]), default="auto", show_default=True,
              help="auto learns from trials: a Gaussian process where one takes over 3 s, else TPE.")  # fmt: skip
@click.option("--space", metavar="NAME|FILE.toml",
              help="Search an accelerator and tilings on it instead: pe_array, or a file in its form.")  # fmt: skip
@click.option("--mode", "modes", type=several(click.Choice(["separate", "joint"])), metavar="MODE,…",
              help="With --space: hardware before tiles, or both at once.  [default: separate,joint]")  # fmt: skip
@click.option("--pareto", type=several(click.Choice(["latency", "energy"])), metavar="OBJECTIVE,…",
              help="With --space: what to make small; tilings by the first.  [default: latency,energy]")  # fmt: skip
@request_options(
    "tune", "output", "seed", KINDS, "timeout_s", "strict_env", "prepare", "cleanup", "power_command",
    "log_to",
)  # fmt: skip
@form_option("table", "json", *FORMS, text="Form of what is shown at the end; json is the study that is kept.")
@QUIET
def tune(
    benchmark: str, minimize: str | None, maximize: str | None, constraints: "tuple[ConstraintRecord, ...]",
    trials: int, sampler: Any, space: str | None, modes: Any, pareto: Any, form: str, **given: Any,
) -> None:  # fmt: skip
    """Search settings of BENCHMARK under constraints; then measure the best trial beside the default, in turns.

    The first trial is the default. Each other one is proposed by optuna after all before it were measured, one
    process each, with equal seeds. What fails, or misses a constraint, is an infeasible trial. In the end the best
    feasible one and the default are measured in 5 pairs of seeds that no trial had, and compared: nothing is best
    before that. Columns are those of the table of what is measured, memory, energy_delay, and of runs
    time_to_train_s; where no kind is asked for, the columns decide it. 'dlrmbench resume' completes an interrupted
    search, with the trials that it would have made.

    With --space nothing is run. Latency and energy of a training step's products and lookups on an array of PEs are
    modelled, by the numbers of the space's file, which are printed with their sources. Its first values are a design
    by hand, from which the search starts; what takes more area, or tiles that do not fit, is an invalid trial. The
    seed is 0 unless it is given. The study and its page are kept in a new folder below -o.
    """
    context = click.get_current_context()
    typed = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    if space is not None:
        if odd := sorted(typed - _OF_SPACE):
            flags = next(each.opts for each in context.command.params if each.name == odd[0])
            raise click.UsageError(f"{flags[-1]} is of trials that are run; with --space none is. Leave it out.")
        asked = [mode for mode in ("separate", "joint") if not modes or mode in modes]
        _search_space(benchmark, space, asked, pareto or ("latency", "energy"), trials, form, given)
        return
    if modes or pareto or not given["axes"]:
        raise click.UsageError("give --axis SECTION.KEY=V1,V2, or --space, of which --mode and --pareto are options.")
    from harness.experiment.search.trials import kind_with
    from harness.foundation.optuna import quiet_optuna
    from rules.records.experiment import SearchRecord, StopRecord

    objective = minimize or maximize
    if objective is None or (minimize and maximize):
        raise click.UsageError("give one of --minimize COLUMN and --maximize COLUMN.")
    direction: Any = "minimize" if minimize else "maximize"
    search = SearchRecord(objective=objective, direction=direction, constraints=constraints, sampler=sampler)
    stop = StopRecord(rule="search", values={"trials": float(trials)}, search=search)
    request = read_request("tune", benchmark, given, stop=stop)
    if not request.kinds and (kind := kind_with(search, None)) != "training":
        request = replace(request, kinds={kind: _NUMBERS[kind]})
    with quiet_optuna():  # refused where it is not installed, before anything is written
        start_and_show(request, form=form)


def _search_space(
    benchmark: str, space: str, modes: Any, pareto: "tuple[str, ...]", trials: int, form: str, given: dict[str, Any]
) -> None:
    """Keep and print the study of an accelerator; its last finding ends a table."""
    from harness.cli.shared.studies import keep_study
    from harness.config.run_config import resolve
    from harness.planning.codesign import Objective, space_study
    from harness.planning.hardware.accelerator import find_space
    from harness.run_sets.output import refuse_output

    refuse_output(given["output"])
    array, config = find_space(space), resolve(benchmark, collect_overrides(given), given["name"])
    units: dict[str, Objective] = {"latency": "latency_s", "energy": "energy_j"}
    study = space_study(config, array, modes, [units[name] for name in pareto], trials, given["seed"] or 0)
    keep_study(study, given["output"], f"tune-{config.benchmark.name}", form)
    if form == "table":
        click.echo(f"\n{study.findings[-1]}")
