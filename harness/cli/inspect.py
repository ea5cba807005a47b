"""list, show, system, doctor: look at benchmarks and at this system; start nothing."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import click

from harness.cli.shared.options import MODEL, benchmarks, completing
from harness.cli.shared.output import form_option, show, show_as, show_json
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.data.registry import examples

_MODEL_TARGET = 0.87
"""An AUC on dlrm_tiny's data that the example of a model reaches within its epoch."""


@click.command("list")
@click.option("--systems", is_flag=True, help="List the shipped reference systems and their sets instead.")
@form_option("table", "json")
def list_(systems: bool, form: str) -> None:
    """List the benchmarks that come with dlrmbench, and the workloads, which have no target: throughput only."""
    if systems:
        from reports.views.reference_systems import describe_systems, systems_blocks

        found = describe_systems()
        show_as(form, {"schema_version": 1, "systems": found}, systems_blocks(found))
        return
    from harness.config.describe import summarize_benchmark
    from reports.views.definition import list_blocks
    from rules.benchmarks.loader import shipped_names, workload_names

    records, workloads = (
        [summarize_benchmark(name) for name in names()] for names in (shipped_names, workload_names)
    )
    document = {"schema_version": 1, "benchmarks": records, "workloads": workloads}
    show_as(form, document, list_blocks((*records, *workloads)))


@click.command("show")
@click.argument("benchmark", metavar="NAME", shell_complete=completing(benchmarks))
@MODEL
@form_option("table", "json", "toml", text="toml prints the definition's file.")
def show_(benchmark: str, model: str | None, form: str) -> None:
    """Show a benchmark's definition and what follows from it. NAME may be the path of a TOML file, and NAME@VERSION
    is an older version of a benchmark."""
    from harness.config.describe import describe_benchmark
    from reports.views.definition import definition_blocks

    content = describe_benchmark(benchmark, model)
    if form == "toml":
        click.echo(Path(content["path"]).read_text(encoding="utf-8"), nl=False)
    else:
        show_as(form, {"schema_version": 1, **content}, definition_blocks(content))


@click.command("init")
@click.argument("path", metavar="FILE", required=False, type=click.Path(path_type=Path))
@click.option("--like", help="Benchmark or definition to begin with.  [default: one with data of the --kind]")
@click.option("--name", help="Of the benchmark.  [default: the file's]")
@click.option("--title", help="One line for people.")
@click.option(
    "--kind",
    type=click.Choice([*examples()]),
    help="Generated, text in Criteo's form, or MLPerf's files.",
)
@click.option(
    "--from-columns", "columns_file", metavar="FILE", type=click.Path(path_type=Path),
    help="CSV, gzipped CSV or Parquet with a header: its columns are guessed, each guess is a comment.",
)  # fmt: skip
@click.option(
    "--model", "model_file", metavar="FILE.py", type=click.Path(path_type=Path),
    help="Begin a model of your own too: a file that trains as it is, and FILE beside it unless it is given.",
)  # fmt: skip
@click.option("--data-of", metavar="BENCHMARK", help="Benchmark or definition whose dataset it shares.")
@click.option("--target", type=float, help="Quality to reach.")
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="One value; repeatable.")
def init(
    path: Path | None,
    like: str | None,
    name: str | None,
    title: str | None,
    kind: str | None,
    columns_file: Path | None,
    model_file: Path | None,
    data_of: str | None,
    target: float | None,
    assignments: tuple[str, ...],
) -> None:
    """Write a definition of your own to FILE, with every key explained; asks what is not given on a terminal."""
    from harness.config.catalog import load_data
    from harness.config.run_config import read_set_option
    from harness.config.start import begin_definition
    from harness.foundation.files import write_text
    from harness.run_sets.dataset import how_to_get
    from reference_models.data.registry import find_data

    if path is None:
        if model_file is None:
            raise click.UsageError("Missing argument 'FILE', such as mine.toml.")
        path = model_file.with_suffix(".toml")
    for file, suffix in ((path, ".toml"), (model_file, ".py")):
        if file is not None and file.suffix != suffix:
            raise click.UsageError(f"{file}: expected a file name that ends in {suffix}.")
        if file is not None and os.path.lexists(file):  # also a link that leads nowhere, which would be followed
            raise click.UsageError(f"{file}: is there already. Nothing is overwritten; choose another file.")
    if (
        not (like or kind or columns_file or model_file or name or title or data_of or target or assignments)
        and _is_terminal()
    ):
        kind = click.prompt("Data", type=click.Choice([*examples()]), default="click_log", err=True)
        name = click.prompt("Name", default=path.stem, err=True)
        title = click.prompt("Title", default="", err=True) or None
        target = click.prompt("Target quality", type=float, default=0.8, err=True)
    overrides = [read_set_option(text) for text in assignments]
    if data_of is not None:
        if kind is not None:
            raise click.UsageError("--data-of is data already; leave --kind out.")
        kind = load_data(data_of).kind
    columns = None
    if columns_file is not None:
        if kind is not None or data_of is not None:
            raise click.UsageError("--from-columns is data already; leave --kind and --data-of out.")
        from reference_models.data.columns.guess import guess_columns
        from reference_models.process.open_file import refuse_irregular

        refuse_irregular([columns_file])
        named = [override.value for override in overrides if override.key == "data.parameters.label"]
        columns = guess_columns(columns_file, name or path.stem, *(str(value) for value in named))
        title = title or f"Clicks of {columns_file.name}"
    begin = partial(
        begin_definition,
        path,
        like or examples().get(kind or "", "dlrm_tiny" if model_file or columns_file else examples()["click_log"]),
        name or path.stem,
        title=title,
        target=_MODEL_TARGET if model_file and not (target or like or kind or columns_file or data_of) else target,
        overrides=overrides,
        data_of=data_of,
        columns=columns,
    )
    write_text(path, begin() if model_file is None else _begin_model(model_file, path, begin))
    shown = shlex.quote(str(path) if "/" in str(path) else f"./{path}")
    data = load_data(path)
    first = "" if find_data(data.kind).generate else f"\nFirst its data. {how_to_get(data, shown, None)}"
    if columns_file is not None:
        first = first.replace("--train FILE…", f"--train {shlex.quote(str(columns_file))}")
    wrote, given = str(path), shown
    if model_file is not None:
        wrote, given = f"{model_file} and {path}", f"{shown} --model {shlex.quote(f'{model_file}:SPEC')}"
    more = f"dlrmbench calibrate {given}, " if model_file is None else ""
    click.echo(f"wrote {wrote}. Next: dlrmbench plan {given}, {more}dlrmbench run {given}{first}")


def _begin_model(file: Path, definition: Path, begin: Callable[..., str]) -> str:
    """Write the example of a model to `file`; return the definition's text, which its keys are in. Nothing stays of a
    file whose definition cannot be made."""
    from harness.foundation.files import write_text
    from reference_models.registry import pin_code

    example = resources.files("reference_models.examples").joinpath("deepfm.py").read_text(encoding="utf-8")
    write_text(file, example.replace("deepfm.toml", definition.name).replace("deepfm.py", file.name))
    try:
        return begin(model=pin_code(f"{file}:SPEC"))
    except BaseException:
        file.unlink()
        raise


@click.command()
@form_option("table", "json")
@click.option("-c", "--config", "config_file", type=click.Path(path_type=Path), help="TOML file with [submission].")
@click.option("--submitter", help="Organisation; other fields by [submission] or DLRMBENCH_SUBMISSION_<FIELD>.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path),
    help="Write MLPerf's JSON file of the 33 fields.",
)  # fmt: skip
def system(form: str, config_file: Path | None, submitter: str | None, output: Path | None) -> None:
    """Describe this system in MLPerf's 33 fields, each with where its value comes from. Nothing is guessed."""
    from harness.system.description import describe_system, system_slug, write_system_json
    from harness.system.submission import submission_fields
    from reports.views.system import system_blocks

    table = _submission_table(config_file) if config_file else {}
    source = f"file {config_file} [submission]"
    given = submission_fields(table, os.environ, {"submitter": submitter}, config_source=source)
    description = describe_system(given)
    if output is not None:
        if output.suffix != ".json":
            raise HarnessError(f"--output {output}: expected a file name that ends in .json.", ExitCode.USAGE)
        path = write_system_json(output.parent, description, name=output.stem)
        click.echo(f"wrote {path}", err=True)
    fields, provenance = dict(description.fields), dict(description.provenance)
    if form == "json":
        name = system_slug(description)
        show_json({"schema_version": 1, "name": name, "fields": fields, "provenance": provenance})
    elif output is None:
        show(system_blocks(fields, provenance))


@click.command()
@form_option("table", "json")
@click.option("--strict", is_flag=True, help="Exit with 6 where a check warns.")
@click.option("--fix", is_flag=True, help="Print the commands for what warns, as text for a shell. None is run.")
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
    """Check what disturbs measurements on this system, why it matters, and what to do. Changes nothing."""
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


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _submission_table(path: Path) -> Mapping[str, Any]:
    from rules.benchmarks.loader import read_toml

    table = read_toml(path).get("submission", {})
    if not isinstance(table, Mapping):
        raise HarnessError(f"{path}: submission is {table!r}, expected a table [submission].", ExitCode.USAGE)
    return table
