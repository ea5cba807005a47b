"""Define the commands `list`, `show`, `system` and `doctor`, which show benchmarks and this system without running
anything."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli.shared.help import verb
from harness.cli.shared.options import MODEL, benchmarks, close_systems_after, completing_definitions
from harness.cli.shared.output import form_option, show, show_as, show_json
from harness.foundation.errors import ExitCode, HarnessError


@verb("dlrmbench list", "dlrmbench list --systems", "dlrmbench list --published", name="list")
@click.option(
    "--systems",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    callback=close_systems_after,
    help="List reference systems and their result sets instead of benchmarks: shipped systems, and those in DIR or "
    "in the folder that the environment variable DLRMBENCH_SYSTEMS names.",
)
@click.option(
    "--published",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="List published results of MLPerf's DLRM benchmarks, and no benchmarks. Without FILE, the results that come "
    "with dlrmbench are listed; FILE is a table written by 'score ROUND... --format published'.",
)
@form_option("table", "json")
def list_(systems: str | None, published: str | None, form: str) -> None:
    """List the benchmarks that come with dlrmbench, and the workloads, which have no quality target and are for
    throughput only."""
    if systems is not None and published is not None:
        raise click.UsageError("--systems and --published are two lists. Leave one of them out.")
    if published is not None:
        from reports.results.published import load_table
        from reports.views.published import published_blocks

        table = load_table(Path(published) if published else None)
        show_as(form, table, published_blocks(table))
        return
    if systems is not None:
        from reports.views.reference_systems import describe_systems, systems_blocks

        found = describe_systems(Path(systems) if systems else None)
        show_as(form, {"schema_version": 1, "systems": found}, systems_blocks(found))
        return
    from harness.config.describe import summarize_benchmark
    from reports.views.definition import list_blocks
    from rules.benchmarks.loader import list_workload_names, shipped_names

    records, workloads = (
        [summarize_benchmark(name) for name in names()] for names in (shipped_names, list_workload_names)
    )
    document = {"schema_version": 1, "benchmarks": records, "workloads": workloads}
    show_as(form, document, list_blocks((*records, *workloads)))


@verb("dlrmbench show dlrm_tiny", "dlrmbench show ./mine.toml --format toml", name="show")
@click.argument("benchmark", metavar="NAME", shell_complete=completing_definitions(benchmarks))
@MODEL
@form_option("table", "json", "toml", text="Form of the output; toml prints the definition's file.")
def show_(benchmark: str, model: str | None, form: str) -> None:
    """Show a benchmark's definition, and the model size, evaluation cadence and memory that follow from it. NAME is
    the name of a benchmark, NAME@VERSION that of an older version, or the path of a TOML file."""
    from harness.config.describe import describe_benchmark
    from reports.views.definition import definition_blocks
    from rules.benchmarks.loader import read_definition_text

    _refuse_set(benchmark)
    content = describe_benchmark(benchmark, model)
    if form == "toml":
        click.echo(read_definition_text(Path(content["path"])), nl=False)
    else:
        show_as(form, {"schema_version": 1, **content}, definition_blocks(content))


def _refuse_set(word: str) -> None:
    """Raise UsageError with a hint where a word that should name a benchmark names a run set, a sweep or a pair."""
    from harness.run_sets.names import find_named, find_results_folder
    from rules.benchmarks.loader import list_workload_names, shipped_names

    if Path(word).is_file() or word in (*shipped_names(), *list_workload_names()):
        return
    is_set = Path(word).is_dir() and ((Path(word) / "extra").is_dir() or (Path(word) / "experiment.json").is_file())
    if is_set or find_named(word, find_results_folder()):
        raise click.UsageError(
            f"{word!r} is a set of results, and 'show' takes a benchmark. See results with 'dlrmbench score {word}', "
            f"or their page with 'dlrmbench report {word}'."
        )


@verb("dlrmbench system", "dlrmbench system --submitter Me -o system.json")
@form_option("table", "json")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="TOML file whose section [submission] gives fields of the system description.",
)
@click.option(
    "--submitter",
    help="Organisation that submits; other fields come from the section [submission] of --config or from environment "
    "variables DLRMBENCH_SUBMISSION_<FIELD>.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="JSON file to write, with the 33 fields of MLPerf's system description.",
)
def system(form: str, config_file: Path | None, submitter: str | None, output: Path | None) -> None:
    """Describe this system in the 33 fields of MLPerf's system description, with the source of each value. No value
    is guessed."""
    from harness.system.description import describe_system, make_system_slug, write_system_json
    from harness.system.submission import make_submission_fields
    from reports.views.system import system_blocks

    table = _submission_table(config_file) if config_file else {}
    source = f"file {config_file} [submission]"
    given = make_submission_fields(table, os.environ, {"submitter": submitter}, config_source=source)
    description = describe_system(given)
    if output is not None:
        if output.suffix != ".json":
            raise HarnessError(f"--output {output}: expected a file name that ends in .json.", ExitCode.USAGE)
        path = write_system_json(output.parent, description, name=output.stem)
        click.echo(f"wrote {path}", err=True)
    fields, provenance = dict(description.fields), dict(description.provenance)
    if form == "json":
        name = make_system_slug(description)
        show_json({"schema_version": 1, "name": name, "fields": fields, "provenance": provenance})
    elif output is None:
        show(system_blocks(fields, provenance))


@verb("dlrmbench doctor", "dlrmbench doctor --fix")
@form_option("table", "json")
@click.option("--strict", is_flag=True, help="Exit with 6 if a check of the system warns.")
@click.option(
    "--fix", is_flag=True, help="Print shell commands that remove the causes of the warnings, without running them."
)
@click.option(
    "--data", type=click.Path(path_type=Path), envvar="DLRMBENCH_DATA", help="Folder of datasets.  [default: ./data]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    envvar="DLRMBENCH_OUTPUT",
    help="Folder of results.  [default: ./results]",
)
def doctor(form: str, strict: bool, fix: bool, data: Path | None, output: Path | None) -> None:
    """Check this system for sources of noise; say what was found, why it matters, and what to do. Nothing is
    changed."""
    from msgspec.structs import asdict

    from harness.autotune.precision import check_kept_precision
    from harness.system.preflight import run_checks
    from harness.system.remedies import write_script
    from reports.views.system import preflight_blocks

    if fix and form != "table":
        raise click.UsageError("--fix prints text for a shell; leave --format out.")
    found = (*run_checks(data, output), check_kept_precision(data))
    checks = [asdict(check) for check in found]
    warnings = [check["name"] for check in checks if check["status"] == "warning"]
    if fix:
        click.echo(write_script(found))
    else:
        show_as(form, {"schema_version": 1, "checks": checks}, preflight_blocks(checks))
    if strict and warnings:
        raise HarnessError(
            f"{len(warnings)} of {len(checks)} checks warn: {', '.join(warnings)}. See above what to do.",
            ExitCode.ENVIRONMENT,
        )


def _submission_table(path: Path) -> Mapping[str, Any]:
    from rules.benchmarks.loader import read_toml

    table = read_toml(path).get("submission", {})
    if not isinstance(table, Mapping):
        raise HarnessError(f"{path}: submission is {table!r}, expected a table [submission].", ExitCode.USAGE)
    return table
