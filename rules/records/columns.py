"""List the columns by which trials of a hyperparameter search are ranked: the quantities that the trials measure,
peak memory, and the energy-delay product."""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from rules.records.kinds import find_record_type, is_in_processes
from rules.records.measure import Column, Measure
from rules.records.metrics import metric_of_member

TIME_TO_TRAIN = Column(member="time_to_train_s", title="Time to train", unit="s")
MEMORY = Column(member="memory", title="Peak memory", unit="B")
ENERGY_DELAY = Column(member="energy_delay", title="Energy times delay", unit="J s")


def columns_of(kind: str) -> Mapping[str, Column]:
    """Return the columns by which repetitions of a kind of measurement can be ranked: a dict from the column's name
    to the column.

    - Training runs have the time to train; other kinds have the columns of their own table.
    - All kinds have peak memory: the accelerator's, or the process's if the accelerator's is not known.
    - Kinds that record energy have the energy-delay product. If samples are counted, energy and time are per sample.
    """
    record = process = find_record_type(kind)
    found = [TIME_TO_TRAIN]
    if is_in_processes(kind):
        measures = (record.MEASURE, *record.OTHER_MEASURES.values())
        found = [column for measure in measures for column in measure.columns]
        process = get_args(get_type_hints(record)["processes"])[0]
    found += [MEMORY, ENERGY_DELAY] if hasattr(process, "energy") else [MEMORY]
    return {column.member: column for column in found}


def column_value(record: Any, name: str) -> float | None:
    """Return the value of a table's column from the record of one repetition of a measurement; None where the record
    lacks it."""
    value = getattr(record, name, None)
    if name == MEMORY.member:
        value = getattr(record, "peak_device_bytes", None) or getattr(record, "peak_rss_bytes", None)
    elif name == ENERGY_DELAY.member and (energy := getattr(record, "energy", None)) is not None:
        value = energy.energy_j and energy.energy_j * energy.duration_s / getattr(record, "num_samples", 1) ** 2
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def column_measure(kind: str, name: str) -> Measure:
    """Return how values of a column are compared: by their ratio. Higher is better for a rate or a quality, lower for
    anything else."""
    column, is_more_better = columns_of(kind)[name], name.endswith("_per_s") or metric_of_member(name) is not None
    return Measure(
        title=column.title,
        value=name,
        unit=column.unit or "",
        scale="ratio",
        columns=(column,),
        direction="higher" if is_more_better else "lower",
    )
