"""`plan`: what a run would do, need and break."""

import json
from typing import Unpack

import click

from harness.cli.options import BENCHMARK, Configured, collect_overrides, configuration
from harness.cli.plan_devices import (
    DeviceOptions,
    device_options,
    devices_plan_json,
    devices_plan_text,
    make_devices_plan,
    refuse_unused_options,
)
from harness.cli.table import render_table


class PlanOptions(Configured, DeviceOptions):
    """What the options of `plan` hand to it."""


@click.command()
@BENCHMARK
@configuration
@click.option("-n", "--runs", "num_runs", type=click.IntRange(min=1), help="Runs.  [default: the benchmark's number]")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output form.",
)
@click.option("--measure/--no-measure", default=True, help="Measure a matrix product for the time estimate.")
@device_options
def plan(
    benchmark: str,
    num_runs: int | None,
    output_format: str,
    measure: bool,
    **configured: Unpack[PlanOptions],
) -> None:
    """Resolve BENCHMARK's configuration and say what its runs would do, need and break. Runs nothing.

    With --devices, say instead where TorchRec would lay its tables on devices that need not be here, and what they
    would take: modelled, from the memory and bandwidths given.
    """
    from harness.config.run_config import default_division, resolve
    from harness.planning.plan import make_plan, plan_as_json
    from reference_models.registry import find_implementation

    refuse_unused_options(click.get_current_context())
    config = resolve(benchmark, collect_overrides(configured), configured["name"])
    find_implementation(config.workload.runtime.implementation)
    if configured["num_devices"] is not None:
        modelled = make_devices_plan(config, configured, configured["data_root"])
        show = devices_plan_json if output_format == "json" else devices_plan_text
        click.echo(show(config, modelled))
        return
    runs = config.benchmark.score.num_runs if num_runs is None else num_runs
    made = make_plan(
        config,
        configured["data_root"],
        num_runs=runs,
        division=configured["division"] or default_division(config.benchmark),
        measure=measure,
    )
    if output_format == "json":
        click.echo(json.dumps(plan_as_json(made), indent=1, default=str))
        return
    click.echo(_text(made, runs))


def _text(made: "object", num_runs: int) -> str:
    from harness.planning.plan import Plan
    from reports.text.formatting import count, duration, num_bytes, si

    assert isinstance(made, Plan)
    benchmark = made.config.benchmark
    values = made.config.values()
    rows: list[tuple[str, str, str]] = [
        ("runs", str(num_runs), f"{benchmark.score.num_runs} make a score"),
        ("quality target", f"AUC {benchmark.quality.target:g}", "definition"),
        ("dataset", str(made.data_dir), "ready" if made.data_ready else "not there yet"),
    ]
    if made.schedule is not None:
        schedule = made.schedule
        rows += [
            ("samples", f"{count(schedule.train_samples)} train, {count(schedule.eval_samples)} eval", "per epoch"),
            (
                "steps",
                f"{count(schedule.steps_per_epoch)} per epoch of {count(schedule.global_batch_size)}",
                "computed",
            ),
            (
                "evaluations",
                f"every {count(schedule.steps_between_evals)} steps, at most {schedule.num_evals}",
                "rule",
            ),
        ]
    if made.counts is not None:
        flop = si(made.counts.training_flop_per_sample)
        rows += [
            ("parameters", count(made.counts.num_parameters), "computed"),
            ("work per sample", f"{flop}FLOP, {made.counts.num_lookups_per_sample} lookups", "computed"),
        ]
    if made.memory_bytes is not None:
        here = num_bytes(made.resources.available_memory_bytes)
        rows.append(("memory", f"{num_bytes(made.memory_bytes)} of {here} available", "modelled"))
    if made.time is not None:
        rows.append(("run, whole epoch(s)", duration(made.time.run_s), made.time.method))
    parts = [
        f"{benchmark.name} version {benchmark.version}: {benchmark.title}",
        render_table(("What", "Value", "Source"), rows),
        render_table(("Key", "Value", "Source"), [(k, _short(v["value"]), v["source"]) for k, v in values.items()]),
    ]
    if made.data_problem is not None:
        parts.append(f"Dataset: {made.data_problem}")
    broken = [f"  {problem}" for problem in made.problems]
    parts.append(
        "\n".join(["Would break or keep from a score:", *broken]) if broken else "Breaks no rule that is known now."
    )
    return "\n\n".join(parts)


def _short(value: object, limit: int = 60) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"
