"""Read from a command line which embedding tables to place, which of them stay on a device (--keep), the plan in use
today, and the tables' costs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click

from harness.cli.shared.options import collect_overrides
from harness.config.run_config import RunConfig, resolve
from harness.extensions.memory.trace import read_trace
from harness.extensions.placement.kept_costs import read_costs
from harness.extensions.placement.plans import PlacementQuestion, describe_file, task_of_benchmark
from harness.extensions.placement.today import read_today
from reference_models.data.table_file import FORMS
from reference_models.distributed.search.task import Task
from reference_models.distributed.search.tasks import keep_tables
from reports.text.formatting import printable

_MAX_NAMED = 10
"""Maximum number of embedding tables that one message names."""


def read_task(
    benchmark: str, question: PlacementQuestion, given: Mapping[str, Any]
) -> tuple[PlacementQuestion, Task, RunConfig | None]:
    """Read what a placement study starts from: the tables to place (of a benchmark or a file), the tables that must
    stay on a device, and the plan in use today.

    `given` are the options of the command `place`. Return three things. The first is the request for a search of
    plans (searches, cost, devices), completed by what was read. The second is the task of placing the tables. The
    third is the benchmark's configuration; None if the tables are from a file. Raises UsageError if options
    contradict each other.
    """
    config = None
    if Path(benchmark).suffix in FORMS:
        if given["trace"] is not None:
            raise click.UsageError("--trace works with a benchmark only. In a file of tables give zipf_exponent.")
        question, task = describe_file(Path(benchmark), question, given["batch_size"])
    else:
        if given["batch_size"] is not None:
            raise click.UsageError("--batch-size is of a file of tables. Give --set train.global_batch_size=N.")
        config = resolve(benchmark, collect_overrides(dict(given)), given["name"], derived_suffix="_place")
        trace = None if given["trace"] is None else read_trace(given["trace"])[1]
        task = task_of_benchmark(config, question, trace)
    if given["kept"]:
        task = keep_tables(task, [_read_kept(text, question.table_names, len(task.tables)) for text in given["kept"]])
    if given["today"] is not None:
        question = replace(question, today=read_today(given["today"], task))
    return question, task, config


def _read_kept(text: str, names: Sequence[str], num_tables: int) -> tuple[int, int]:
    """Read TABLE=DEVICE, a table that stays on a device; TABLE is a name or a number below `num_tables`. Raises
    BadParameter."""
    table, _, device = text.rpartition("=")
    try:
        on = int(device)
        if not table:
            raise ValueError
    except ValueError:
        raise click.BadParameter(
            f"--keep {text!r:.80}: expected TABLE=DEVICE, a number or a name of a file of tables, and a number, such "
            "as 3=0."
        ) from None
    if table in names:
        return names.index(table), on
    try:
        return int(table), on
    except ValueError:
        there = f"0 to {num_tables - 1}"
        if names:
            more = f" and {num_tables - _MAX_NAMED} more" if num_tables > _MAX_NAMED else ""
            there = f"{', '.join(printable(name, 40) for name in names[:_MAX_NAMED])}{more}, or {there}"
        raise click.BadParameter(f"--keep: there is no table {table!r:.40}. Name one of {there}.") from None


def take_costs(question: PlacementQuestion, task: Task, path: Path) -> PlacementQuestion:
    """Return the request for a search of plans, changed so that plans are judged by the table costs in a file (option
    --costs).

    Raises UsageError if the options --cost or --measure ask for another cost. The value `net` of --cost is allowed,
    since that cost net is trained on the sets of tables in the same file.
    """
    if question.cost not in ("bandwidth", "net") or question.num_measured is not None:
        raise click.UsageError(
            "--costs has costs in a file: leave --cost and --measure out, or give --cost net where it has sets."
        )
    cost: Literal["net", "measured"] = "net" if question.cost == "net" else "measured"
    return replace(question, cost=cost, kept_costs=read_costs(path, task))
