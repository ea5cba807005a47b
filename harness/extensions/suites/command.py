"""Define the command `suite`: measure several benchmarks, each in two settings, alternately."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from harness.cli.shared.experiments import start_and_show
from harness.cli.shared.help import verb
from harness.cli.shared.options import QUIET, completing_or_files, configuration, value_option
from harness.cli.shared.output import VERBOSE, form_option
from harness.cli.shared.requests import KINDS, read_request, request_options
from reports.render.forms import FORMS

if TYPE_CHECKING:
    from harness.measure.kinds import Kind

_STEPS = 50
"""Number of training steps over which a suite measures throughput by default."""


_HELP = {
    "runs": "Number of pairs of runs (base and new) of each benchmark.",
    "output": "Folder in which the suite's folder is made.",
    "seed": "Base seed that all benchmarks share, for `base` and `new` alike.  [default: drawn]",
}


def has_ratios(kind: "Kind") -> bool:
    """Return whether this kind of measurement compares the two settings of a benchmark by a ratio: only ratios have a
    geometric mean."""
    return kind.record.MEASURE.scale == "ratio"  # type: ignore[attr-defined,no-any-return]


@verb("dlrmbench suite default", "dlrmbench suite ./s.toml --new runtime.implementation=optimized -n 5")
@click.argument("suite", metavar="FILE.toml|default", shell_complete=completing_or_files(lambda: ("default",)))
@configuration
@value_option(
    "--base", "base_values", "Set one configuration value in the settings `base` only, not in `new`; repeatable."
)
@value_option(
    "--new", "new_values", "Set one configuration value in the settings `new` only, not in `base`; repeatable."
)
@request_options("sweep", "runs", "output", "seed", KINDS, help=_HELP, takes=has_ratios)
@click.option(
    "--to-target",
    "to_target",
    is_flag=True,
    help="Train to the quality targets instead of measuring throughput, and judge the runs by the rules.",
)
@request_options("sweep", "timeout_s", "strict_env", "prepare", "cleanup", "power_command", "log_to")
@form_option("table", "json", *FORMS, text="Form of the final output; json is the stored study.")
@VERBOSE
@QUIET
def suite(
    suite: str, base_values: tuple[str, ...], new_values: tuple[str, ...], to_target: bool, form: str, **given: object
) -> None:
    """Measure several benchmarks in two settings each, interleaved; give a verdict on each benchmark, and the
    geometric mean of all ratios new / base.

    FILE.toml has a list `benchmarks` of names or definitions, and tables of settings such as [base.runtime] and
    [new.train]. The suite 'default' compares the implementations reference and optimized on the small generated
    benchmarks of all models. Options other than --base and --new hold for the base and the new settings; --base and
    --new override other options.

    Throughput is measured over 50 steps in 5 processes of each setting, unless an option asks for another
    measurement. Verdicts allow for the number of benchmarks in the suite: if base and new do not differ, the chance
    that any benchmark is given a verdict of a difference is at most 5 %. The geometric mean of the benchmarks' ratios
    new / base is not an MLPerf score. A benchmark that fails is named and left out of the geometric mean, and the
    exit code is 4.
    """
    from harness.config.run_config import read_set_option
    from harness.extensions.suites.suite import read_suite
    from rules.records.experiment import BASE, NEW

    found = read_suite(suite)
    for side, values in ((BASE, base_values), (NEW, new_values)):
        found = found.with_settings(side, [read_set_option(text, f"--{side}") for text in values])
    request = read_request("suite", suite, given, like="sweep", relation="suite", asked=found)
    if to_target and request.kinds:
        raise click.UsageError("--to-target and another kind of measurement are two suites; give one of them.")
    if not to_target and not request.kinds:
        request = replace(request, kinds={"throughput": _STEPS})
    start_and_show(request, form=form)
