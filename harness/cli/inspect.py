"""list, show, system, doctor: look at benchmarks and at this system; start nothing."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness.cli.table import echo_table, printable, style, terminal_width, wrap
from harness.foundation.errors import ExitCode, HarnessError

FORMAT = click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output form."
)
_COLOURS = {"ok": "green", "warning": "yellow", "unknown": "bright_black"}


@click.command("list")
@FORMAT
def list_(form: str) -> None:
    """List the benchmarks that come with dlrmbench, and the workloads, which have no target: throughput only."""
    from harness.config.describe import list_benchmarks, list_workloads

    records, workloads = list_benchmarks(), list_workloads()
    if form == "json":
        _echo_json({"schema_version": 1, "benchmarks": records, "workloads": workloads})
        return
    echo_table(
        ["name", "status", "target", "runs", "data", "title"],
        [list(record.values()) for record in (*records, *workloads)],
        "llrrll",
    )


@click.command()
@click.argument("benchmark", metavar="NAME")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "toml"]),
    default="table",
    show_default=True,
    help="toml prints the definition's file.",
)
def show(benchmark: str, form: str) -> None:
    """Show a benchmark's definition and what follows from it. NAME may be the path of a TOML file."""
    from harness.config.describe import describe_benchmark

    content = describe_benchmark(benchmark)
    if form == "json":
        _echo_json({"schema_version": 1, **content})
    elif form == "toml":
        click.echo(Path(content["path"]).read_text(encoding="utf-8"), nl=False)
    else:
        _echo_definition(content)


@click.command()
@FORMAT
@click.option("-c", "--config", "config_file", type=click.Path(path_type=Path), help="TOML file with [submission].")
@click.option("--submitter", help="Organisation; other fields by [submission] or DLRMBENCH_SUBMISSION_<FIELD>.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write MLPerf's JSON file of the 33 fields.")
def system(form: str, config_file: Path | None, submitter: str | None, output: Path | None) -> None:
    """Describe this system in MLPerf's 33 fields, each with where its value comes from. Nothing is guessed."""
    from harness.system.description import describe_system, system_slug, write_system_json
    from harness.system.submission import submission_fields

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
        _echo_json({"schema_version": 1, "name": name, "fields": fields, "provenance": provenance})
    elif output is None:
        echo_table(["field", "value", "source"], [(key, fields[key], provenance[key]) for key in fields], "Lll")


@click.command()
@FORMAT
@click.option("--strict", is_flag=True, help="Exit with 6 when a warning stands.")
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
def doctor(form: str, strict: bool, data: Path | None, output: Path | None) -> None:
    """Check what disturbs measurements on this system, why it matters, and what to do. Changes nothing."""
    from dataclasses import asdict

    from harness.system.preflight import run_checks

    checks = run_checks(data, output)
    warnings = [check.name for check in checks if check.status == "warning"]
    if form == "json":
        _echo_json({"schema_version": 1, "checks": [asdict(check) for check in checks]})
    else:
        echo_table(
            ["status", "check", "value"],
            [(check.status, check.name, check.value) for check in checks],
            colours=[_COLOURS[check.status] for check in checks],
        )
        for check in checks:
            if check.status == "warning":
                click.echo()
                _echo_paragraph(f"{check.name}: {check.value}", bold=True)
                _echo_paragraph(check.why, indent="  ")
                _echo_paragraph(check.remedy, indent="  ")
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


def _echo_json(content: Mapping[str, Any]) -> None:
    click.echo(json.dumps(content, indent=1))


def _echo_definition(content: Mapping[str, Any]) -> None:
    click.echo(style(f"{content['name']}  version {content['version']}, {content['status']}", bold=True))
    for text in (content["title"], content["description"], *content["notes"]):
        if text:
            _echo_paragraph(text)
    click.echo(f"sha256 {content['definition_sha256']}")
    if content["rounds"]:
        click.echo(f"MLPerf Training rounds {', '.join(content['rounds'])}")
    for section in ("quality", "score", "model", "data"):
        if content[section]:
            _echo_section(section, content[section])
    closed, train = content["closed"], content["train"]
    rows: list[tuple[str, str | None, str | None]] = [(k, _text(v), closed.get(k)) for k, v in train.items()]
    rows += [(key, None, rule) for key, rule in closed.items() if key not in train]
    click.echo()
    echo_table(["train", "value", "closed division allows"], rows, "Lll")
    for section in ("runtime", "cadence", "size"):
        if content[section] or (content["status"] != "workload" and content["has_implementation"]):
            _echo_section(section, content[section])


def _echo_section(title: str, table: Mapping[str, Any] | None) -> None:
    click.echo()
    if table is None:
        click.echo(f"{title}: known once the data is prepared")
        return
    echo_table([title, "value"], [(key, _text(value)) for key, value in _flat(table) if value is not None], "Ll")


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        if len(value) > 1 and len(set(value)) == 1:
            return f"{len(value)} x {_text(value[0])}"
        return ", ".join(_text(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _echo_paragraph(text: str, *, indent: str = "", bold: bool = False) -> None:
    for line in wrap(printable(text), terminal_width() - len(indent)):
        click.echo(indent + style(line, bold=bold))
