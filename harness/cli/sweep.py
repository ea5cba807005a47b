"""Define the command `sweep`: run many configurations interleaved, and show them in one table."""

from typing import Any

import click

from harness.cli.shared.experiments import start_and_show, usage_errors
from harness.cli.shared.help import verb
from harness.cli.shared.options import BENCHMARK, QUIET, configuration
from harness.cli.shared.output import form_option
from harness.cli.shared.requests import KINDS, read_request, request_options
from harness.cli.shared.studies import show_study
from reports.render.forms import FORMS


@verb(
    "dlrmbench sweep --throughput 100 --axis train.global_batch_size=512,1024",
    "dlrmbench sweep dlrm_tiny -n 5 --axis runtime.threads=1,2 --dry-run",
)
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
    help="Only list the configurations, with time estimates from a few steps of each; no result is kept.",
)
@request_options("sweep", "strict_env", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", "csv", *FORMS, text="Form of the final table.")
@QUIET
def sweep(benchmark: str, is_dry: bool, form: str, **given: Any) -> None:
    """Run BENCHMARK, or a workload, in every combination of the values of --axis, interleaved and with shared seeds.

    In runs to the quality target, --axis takes only keys that do not change the benchmark's problem: runtime.* and
    keys that the definition leaves free. With --throughput, --quality or another such option, --axis takes any key of
    the configuration; if a key changes the shape of the data, synthetic data are used. Keys that change shapes of
    data or of the model are data.num_tables, data.rows_per_table, data.lookups_per_table, data.row_scale,
    data.zipf_exponent, model.embedding_dim, model.mlp (512^3: three hidden layers of 512 in both MLPs),
    model.bottom_mlp and model.top_mlp (512-256-16).

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
