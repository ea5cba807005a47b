"""Measure in fresh processes and say what they found: `run`, `resume` and `serve`, whatever the kind."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.shared.output import show, show_json
from harness.foundation.errors import ExitCode, HarnessError

if TYPE_CHECKING:
    from rules.records.measure import Measurement


def measure_and_show(folder: Path, *, form: str = "table", quiet: bool) -> None:
    """Measure in the processes that are missing, and say the result in a few lines."""
    from harness.run_sets.folder import locked, open_run_set
    from harness.run_sets.measurement import is_measured, measure_set, measured_path
    from harness.run_sets.runner import resume_command
    from reports.facts.measured_sets import read_measured
    from reports.page.sections.measured import in_unit
    from reports.views.measurement import measured_blocks, measurement_document
    from rules.errors import InputError

    def on_process(index: int, measured: "Measurement") -> None:
        if not quiet:
            value = getattr(measured.repetitions()[0], measured.measure.value)
            name, text = measured.measure.name, in_unit(value, measured.measure.unit)
            click.echo(f"process {index + 1}: {text if text[-1].isalpha() else f'{name} {text}'}", err=True)

    run_set, record = open_run_set(folder)
    try:
        with locked(run_set):
            kept = sum(is_measured(run_set, record, index) for index in range(record.num_runs))
            if kept and not quiet:
                click.echo(f"{kept} of {record.num_runs} processes had measured before and are kept", err=True)
            measure_set(run_set, record, on_process, quiet=quiet)
    except BaseException as error:
        if not isinstance(error, HarnessError):
            command = resume_command(folder)
            click.echo(f"Finished processes are kept. Complete the measurement with: {command}", err=True)
        raise
    path = measured_path(run_set, record)
    try:
        measured = read_measured(run_set.folder, record.kind)
    except InputError as error:
        raise HarnessError(str(error), ExitCode.INCONCLUSIVE) from None
    if form == "json":
        show_json(measurement_document(measured, record.options, path))
    else:
        show(measured_blocks(measured, record.options, path))
