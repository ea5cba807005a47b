"""Make the run set (processes of one configuration to measure) of one more trial of a search: the default with other
values."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.config.axes import Axis, overrides_of
from harness.experiment.create import create_set
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.experiment.sides import Source, read_source, resolve_beside
from harness.experiment.store import parts_of
from harness.extensions.tuning.space import make_point
from harness.foundation.errors import HarnessError, exit_code_of, first_line
from harness.measure.refusals import refuse_id_map
from harness.run_sets.commands import split_command
from harness.run_sets.dataset import find_recorded
from reference_models.process.atomic_write import remove
from reference_models.process.errors import ConfigError, DatasetError, DeviceError
from rules.errors import DefinitionError
from rules.records.experiment import ExperimentRecord, FailureRecord, MemberRecord

AGAIN = "again-"
"""Prefix of the name of the folder in which a trial of a search is measured again without the default."""


def create_trial(folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
    """Make the run set (processes to measure) of the next trial of the search in `folder`. Its configuration is the
    default's, changed by `values`.

    Return the trial's record. If the values are impossible or cannot be prepared, the trial is recorded as failed.
    """
    split_command(record.command)  # raises if the record is damaged, which is no failure of a trial
    number = len(record.configurations) + 1
    made = MemberRecord(label="", values=dict(values), folder=None, python=None, failure=None, notes={})
    try:
        planned = _expand_trial(read_source(parts_of(folder)[0]), record, values, number)
        experiment = prepare(planned)
        if experiment.options != planned.options:
            raise HarnessError("it does not train whole batches of the samples that all trials train.")
        (trial,) = experiment.configurations
        remove(folder / trial.folder)  # left by a crash before it was recorded
        run_set = create_set(experiment, trial, folder, trial.folder, datetime.now(UTC), record.base_seed)
    except (HarnessError, ConfigError, DatasetError, DefinitionError, DeviceError) as error:
        failure = FailureRecord(reason=first_line(error), exit_code=int(exit_code_of(error) or 2), run_index=None)
        return structs.replace(made, label=f"trial {number}", failure=failure)
    return structs.replace(made, label=trial.label, folder=run_set.folder.name)


def create_again(
    folder: Path, record: ExperimentRecord, values: Mapping[str, str], *, num_runs: int, seed: int
) -> Path:
    """Make a run set (processes of one configuration) that measures one trial of a search again, alone, not in
    alternation with the default configuration. The run set is in the search's folder; return the run set's folder.

    Raises ConfigError, DatasetError, DeviceError or HarnessError if the run set can no longer be prepared.
    """
    split_command(record.command)
    planned = _expand_trial(read_source(parts_of(folder)[0]), record, values, len(record.configurations))
    experiment = prepare(replace(planned, repetitions=num_runs))
    (trial,) = experiment.configurations
    name = f"{AGAIN}{trial.folder.partition('-')[2]}"
    return create_set(experiment, trial, folder, name, datetime.now(UTC), seed).folder


def _expand_trial(default: Source, record: ExperimentRecord, values: Mapping[str, str], number: int) -> Experiment:
    """Return an experiment of one configuration: the search's default configuration, changed by a trial's values.

    Raises ConfigError, DefinitionError, DeviceError or HarnessError if the trial cannot be run.
    """
    point = make_point(values, default.config.workload.model_spec)
    dataset = find_recorded(default.config.workload.data, default.record.dataset, default.folder)
    hooks: dict[str, Any] = {name.replace("-", "_"): command for name, command in default.record.hooks.items()}
    request = Request(
        verb="tune",
        beside=default.folder,
        overrides=overrides_of(point),
        output=default.folder.parent,
        quiet=True,
        typed=split_command(record.command),
        **hooks,
    )
    config = resolve_beside(request, default)
    default.kind.check(config.workload)
    refuse_id_map(config.workload.data, default.kind.takes_id_maps)
    is_alike = config.workload.data == default.config.workload.data
    name = f"{number:02d}-{point.folder_name}"
    return Experiment(
        request=replace(request, data=dataset if is_alike or dataset is None else dataset.parent),
        kind=default.kind,
        options=record.options,
        relation="search",
        configurations=(Configuration(label=point.label, config=config, folder=name, values=point.texts),),
        repetitions=1,
        axes=tuple(Axis(key=key, values=(value,), texts=(values[key],)) for key, value in point.values.items()),
        division=default.record.division if default.is_division_given else None,
        timeout_s=default.record.timeout_s,
    )
