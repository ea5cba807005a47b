"""`sweep` and `suite`: many configurations, run interleaved, in one table."""

from dataclasses import replace
from typing import Any

import click

from harness.cli.shared.experiments import start_and_show, usage_errors
from harness.cli.shared.options import BENCHMARK, QUIET, configuration
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import KINDS, read_request, request_options
from harness.cli.shared.studies import show_study
from reports.render.forms import FORMS


@click.command()
@BENCHMARK
@configuration
@request_options(
    "sweep", "axes", "runs", "output", "seed", "timeout_s", KINDS, "matmul", "weights", "keep_weights",
    "with_profile", "with_fit",
)  # fmt: skip
@click.option(
    "--dry-run",
    "is_dry",
    is_flag=True,
    help="List the configurations, and time a few steps of each to estimate theirs; keep nothing.",
)
@request_options("sweep", "strict_env", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", "csv", *FORMS, text="Form of the final table.")
@QUIET
def sweep(benchmark: str, is_dry: bool, form: str, **given: Any) -> None:
    """Run BENCHMARK, or a workload, in every combination of the axes' values; interleaved, with shared seeds.

    To the target, axes may be what keeps the problem the same: runtime.* and what the definition leaves free. With
    --throughput or --serve anything may vary; a changed shape of data makes it synthetic. Shapes: data.num_tables,
    data.rows_per_table, data.lookups_per_table, data.row_scale, data.zipf_exponent, model.embedding_dim, model.mlp
    (512^3: three hidden layers of 512 in both MLPs), model.bottom_mlp and model.top_mlp (512-256-16).

    An interrupted sweep is completed by 'dlrmbench resume' on its folder.
    """
    request = read_request("sweep", benchmark, given)
    if not is_dry:
        start_and_show(request, form=form)
        return
    from harness.experiment.expand import expand
    from harness.planning.sweep import plan_sweep

    with usage_errors():
        plan = expand(request)
    configs = [(each.label, each.config) for each in plan.configurations]
    study = plan_sweep(
        plan.kind, plan.options, configs, plan.repetitions, request.data, is_autotuned=plan.is_autotuned
    )
    show_study(study, form)


_STEPS = 50
"""Steps that a suite measures where nothing else is asked for."""


@click.command()
@click.argument("suite", metavar="FILE.toml|default")
@configuration
@click.option("--base", "base_values", multiple=True, metavar="SECTION.KEY=VALUE", help="One value of base alone.")
@click.option("--new", "new_values", multiple=True, metavar="SECTION.KEY=VALUE", help="One value of new alone.")
@request_options("suite", "runs", "output", "seed", KINDS)
@click.option("--to-target", "to_target", is_flag=True, help="Train to the quality targets instead, and judge.")
@request_options("suite", "timeout_s", "strict_env", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", *FORMS, text="Form of what is shown at the end; json is the study that is kept.")
@QUIET
def suite(
    suite: str, base_values: tuple[str, ...], new_values: tuple[str, ...], to_target: bool, form: str, **given: Any
) -> None:
    """Measure several benchmarks, each in two settings, interleaved; give each its verdict, and all a geometric mean.

    FILE.toml has a list `benchmarks` of names or definitions, and tables of settings such as [base.runtime] and
    [new.train]. 'default' compares reference with optimized on the small generated benchmarks of all models. Other
    options hold for both sides, and --base and --new are the strongest.

    Throughput is measured over 50 steps in 5 processes of each side, unless something else is asked for. Verdicts
    hold for the suite as a whole: with sides that are alike, at most 5 % of suites have any verdict of a difference.
    The mean is of the ratios new / base and of these benchmarks alone; it is no score of MLPerf. A benchmark that
    fails is named and left out of the mean, and the exit code is 4.
    """
    from harness.config.run_config import read_set_option
    from harness.config.suite import read_suite
    from rules.records.experiment import BASE, NEW

    found = read_suite(suite)
    for side, values in ((BASE, base_values), (NEW, new_values)):
        found = found.with_settings(side, [read_set_option(text, f"--{side}") for text in values])
    request = read_request("suite", suite, given, suite=found)
    if to_target and request.kinds:
        raise click.UsageError("--to-target and another kind of measurement are two suites; give one of them.")
    if not to_target and not request.kinds:
        request = replace(request, kinds={"throughput": _STEPS})
    start_and_show(request, form=form)
