"""Makes table rows of measurements, such as throughput (but not of runs that train to a target quality): one row per
process."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from reports.facts.energy import measured_j
from reports.results.provenance import labels_of
from reports.results.result import Result
from reports.tables.columns import shared_members
from reports.tables.records import DETAIL_TABLES, MeasurementRow, ReportDocument
from reports.text.formatting import moment_of
from rules.records.rows import Row
from rules.tree.result_set import real_path


def with_measured(document: ReportDocument, measured: Sequence[Result], sets: Sequence[Result]) -> ReportDocument:
    """Return the document of the result sets `sets` with the rows of the measurements `measured` added."""
    taken = [row.configuration for row in document.configurations]
    labels = _labels_by_folder(measured, sets, taken)
    named = [(found, labels[real_path(found.folder)]) for found in measured]
    return replace(
        document,
        measurements=tuple(row for found, label in named for row in _measurement_rows(found, label)),
        **{
            name: tuple(row for found, label in named for row in _detail_rows(found, label) if type(row) is table.row)
            for name, table in DETAIL_TABLES.items()
        },
    )


def _measurement_rows(measured: Result, label: str) -> Iterator[MeasurementRow]:
    """Yield the rows of one measurement in the table named 'measurements', one row per process, with `label` as the
    configuration's name."""
    about, measure = measured.asked, measured.measure
    for index, repetition in enumerate(measured.repetitions):
        yield MeasurementRow(
            configuration=label,
            kind=measured.kind,
            benchmark=measured.benchmark,
            system=measured.system.name,
            created_utc=moment_of(about.created_utc) if about else None,
            process=index,
            seed=repetition.seed,
            quantity=measure.title,
            value=getattr(repetition.record, measure.value),
            unit=measure.unit,
            scale=measure.scale,
            direction=measure.direction,
            energy_j=measured_j(getattr(repetition.record, "energy", None)),
            path=str(measured.path),
        )


def _detail_rows(measured: Result, label: str) -> Iterator[Row]:
    """Yield the rows of one measurement in the table of its kind, one row per process. That table has all quantities
    of the kind. No row is yielded if the kind has no table."""
    if measured.measured is None or (table := measured.measured.DETAILS) is None:
        return
    for index, process in enumerate(measured.repetitions):
        sources = (measured.measured, process.record, *(getattr(process.record, part) for part in table.parts))
        about = {name: value for source in sources for name, value in shared_members(source, table.row).items()}
        about |= {
            "configuration": label,
            "benchmark": measured.benchmark,
            "system": measured.system.name,
            "process": index,
            "seed": process.seed,
            "path": str(measured.path),
        }
        yield table.row(**{name: about[name] for name in table.row.__struct_fields__ if name in about})


def _labels_by_folder(
    measured: Sequence[Result], sets: Sequence[Result], taken: Collection[str]
) -> Mapping[Path, str]:
    """Return a dict from the folder of each measurement to a label. It is the label of the result set in the same
    folder; if there is none, a label that no other folder has and that is not in `taken`."""
    known: dict[Path, str] = {}
    for result in sets:
        if result.place is not None:
            known.setdefault(real_path(result.place), result.label)
    names = {real_path(found.folder): found.label for found in measured}
    others = sorted(names.keys() - known.keys())
    labels = labels_of([*((label, None) for label in taken), *((names[path], path) for path in others)])[len(taken) :]
    return known | dict(zip(others, labels, strict=True))
