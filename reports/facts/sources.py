"""What a path given to a verb holds: result sets, throughput measurements, or an exported JSON file of results."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reports.facts.facts import SetFacts, gather
from reports.facts.sides import Side, converged_samples, logged_settings, side_of
from reports.facts.throughput_sets import find_throughput_sets, throughput_side
from reports.page.exports import frame_csv
from reports.tables.documents import document_of, join_tables, read_document
from reports.tables.tables import Tables, tables_of
from reports.text.formatting import printable
from rules.errors import InputError
from rules.scoring.results import Evaluation, RunResult
from rules.tree.result_set import find_result_sets


def read_tables(paths: Sequence[Path], *, second_opinion: bool = False) -> Tables:
    """The tables of everything at or below `paths`: run sets, anyone's result directories, logs, exported JSON.

    Raises InputError where a path holds nothing of the kind.
    """
    documents = [read_document(path) for path in paths if is_document(path)]
    folders = [path for path in paths if not is_document(path)]
    parts = [tables_of(gather(folders, second_opinion=second_opinion))] if folders else []
    return join_tables([*parts, *documents])


def table_text(tables: Tables, output_format: str) -> str:
    """The tables as the JSON document, or the runs as CSV."""
    if output_format == "csv":
        return frame_csv(tables.runs)
    return json.dumps(document_of(tables), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_sides(path: Path) -> tuple[Side, ...]:
    """Every side of a comparison at or below `path`, result sets first. Raises InputError where there is none."""
    if is_document(path):
        return tuple(sides_of(read_document(path)))
    measured = find_throughput_sets(path)
    try:
        find_result_sets(path)
    except InputError:
        if not measured:
            raise
        return tuple(throughput_side(folder) for folder in measured)
    sets: tuple[SetFacts, ...] = gather([path], second_opinion=False)
    return (*(side_of(one) for one in sets), *(throughput_side(folder) for folder in measured))


def is_document(path: Path) -> bool:
    return path.suffix.lower() == ".json" and not path.is_dir()


def sides_of(tables: Tables) -> list[Side]:
    """The sides that exported configurations make: what their logs said, without the files beside them."""
    evaluations: dict[tuple[str, str, str], list[Evaluation]] = {}
    for row in tables.evaluations.to_dict("records"):
        key = (row["configuration"], row["run"], row["path"])
        if row["elapsed_s"] is not None and row["quality"] is not None:
            evaluations.setdefault(key, []).append(
                Evaluation(**{name: row[name] for name in Evaluation.__dataclass_fields__})
            )
    runs = tables.runs.to_dict("records")
    return [
        _side(row, [run for run in runs if run["configuration"] == row["configuration"]], evaluations)
        for row in tables.configurations.to_dict("records")
    ]


def _side(
    row: dict[Any, Any], runs: list[dict[Any, Any]], evaluations: dict[tuple[str, str, str], list[Evaluation]]
) -> Side:
    results = tuple(
        _run_result(row, run, evaluations.get((run["configuration"], run["run"], run["path"]), []))
        for run in runs
        # An attempt whose log is not there may have ended well; without its log it is no run of the set.
        if run["status"] in ("success", "not_converged") and run["counted"] != "no"
    )
    status = row["status"]
    return Side(
        label=printable(row["configuration"], 80),
        kind="runs",
        status=status if status in ("own", "official") else "unknown",
        benchmark=row["benchmark"],
        samples=converged_samples(results),
        runs=results,
        num_runs=len(results),
        system=row["system"],
        hardware=(),
        settings=logged_settings(results),
        olympic_mean_s=row["olympic_mean_s"],
        score_s=row["score_s"],
        round=row["round"],
        num_tolerated=row["num_runs_dropped"] if row["num_runs_dropped"] is not None else 1,
        outcome=row["outcome"],
    )


def _run_result(row: dict[Any, Any], run: dict[Any, Any], evaluations: Sequence[Evaluation]) -> RunResult:
    """A run as its log told it, as far as the export holds it."""
    known: dict[str, Any] = dict.fromkeys(RunResult.__dataclass_fields__)
    known |= {name: value for name, value in run.items() if name in known}
    known |= {name: row[name] for name in ("definition_sha256", "dataset_sha256")}
    return RunResult(
        **{
            **known,
            "log_sha256": run["log_sha256"] or "",
            "status": run["status"],
            "abort_reason": run["reason"],
            "converged": run["status"] == "success",
            "evaluations": tuple(evaluations),
        }
    )


def one_side(path: Path) -> Side:
    """The only side at `path`. Raises InputError that lists them where there are several."""
    sides = read_sides(path)
    if len(sides) > 1:
        shown = "".join(f"\n  {printable(side.label)}" for side in sides[:12])
        more = f"\n  and {len(sides) - 12} more" if len(sides) > 12 else ""
        raise InputError(f"{printable(path)}: holds {len(sides)} configurations; give one of them:{shown}{more}")
    return sides[0]


def distinct(sides: Sequence[Side]) -> tuple[Side, ...]:
    """The sides with labels of their own: repeated ones are numbered."""
    labels: list[str] = []
    renamed = []
    for side in sides:
        number, label = 1, side.label
        while label in labels:
            number += 1
            label = f"{side.label} ({number})"
        labels.append(label)
        renamed.append(replace(side, label=label))
    return tuple(renamed)
