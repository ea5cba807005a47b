"""Reads the results at a path: result sets, measurements, or an exported JSON file of results."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import asdict

from reports.results.logs import gather
from reports.results.measured import read_measured
from reports.results.provenance import labels_of
from reports.results.reference_systems import find_system, with_alike
from reports.results.result import NO_SCORE, Result, System, make_runs, stated_by
from reports.tables.documents import is_document, read_document
from reports.tables.records import ReportDocument, RunMember, SetMember
from reports.text.formatting import printable
from rules.errors import InputError
from rules.records.experiment import not_one_set
from rules.scoring.results import Evaluation, RunResult
from rules.tree.inventory import find_in_processes, take_inventory
from rules.tree.result_set import real_path

T = TypeVar("T")


def read_results(path: Path, ruleset: str | None = None) -> tuple[Result, ...]:
    """Read every result at or below `path`, those with logs first. `ruleset` is the official MLPerf round to judge
    the results by. Raises InputError if there is no result. Raises DefinitionError if the round is unknown, or if it
    did not have the benchmark that a log names."""
    if is_document(path):
        return tuple(results_of(read_document(path)))
    inventory = take_inventory(path)
    measured = tuple(read_measured(folder, kind) for folder, kind in find_in_processes(inventory))
    if measured and not inventory.result_sets:
        return measured
    return (*gather([inventory], second_opinion=False, ruleset=ruleset), *measured)


def results_of(document: ReportDocument) -> list[Result]:
    """Make results from a JSON export's configurations: they have the logs' values, but no log or record files."""
    return [_result(member) for member in document.configurations]


def _result(member: SetMember) -> Result:
    logs = tuple(
        _run_result(member, run)
        for run in member.runs
        # An attempt whose log is not there may have ended well; without its log it is no run of the set.
        if run.status in ("success", "not_converged") and run.counted != "no"
    )
    return Result(
        label=printable(member.configuration, 80),
        source="export",
        status=member.status,
        benchmark=member.benchmark,
        repetitions=make_runs(logs),
        system=System(name=member.system),
        stated=stated_by(logs),
        score=dataclasses.replace(
            NO_SCORE,
            benchmark=member.benchmark,
            runs=logs,
            olympic_mean_s=member.olympic_mean_s,
            score_s=member.score_s,
            round=member.round,
            num_runs_dropped=member.num_runs_dropped if member.num_runs_dropped is not None else 1,
        ),
        outcome=member.outcome,
    )


def _run_result(member: SetMember, run: RunMember) -> RunResult:
    """Return the result of one run as its log stated it, as far as the JSON export holds the values."""
    known: dict[str, Any] = dict.fromkeys(RunResult.__dataclass_fields__)
    known |= {name: value for name, value in asdict(run).items() if name in known}
    lists = run.evaluations
    evaluations = zip(lists.epoch_num, lists.samples_count, lists.elapsed_s, lists.quality, strict=True)
    return RunResult(
        **{
            **known,
            "definition_sha256": member.definition_sha256,
            "dataset_sha256": member.dataset_sha256,
            "log_sha256": run.log_sha256 or "",
            "abort_reason": run.reason,
            "converged": run.status == "success",
            "evaluations": tuple(
                Evaluation(epoch_num=epoch_num, samples_count=samples, elapsed_s=elapsed_s, quality=quality)
                for epoch_num, samples, elapsed_s, quality in evaluations
                if elapsed_s is not None and quality is not None
            ),
        }
    )


def one_result(path: Path, ruleset: str | None = None) -> Result:
    """Read the only result at `path`. Raises InputError if there is no result, or several; the message lists them."""
    return only(path, read_results(path, ruleset), lambda result: result.label)


def refuse_none(path: Path, found: Sequence[object]) -> None:
    """Raise InputError where the exported JSON file at `path` holds no configuration."""
    if not found:
        raise InputError(f"{printable(path)}: holds no configuration, expected one at least. Export it again.")


def only(path: Path, found: Sequence[T], name_of: Callable[[T], str]) -> T:
    """Return the only configuration that was found at `path`. Raises InputError if there is none, or several; the
    message lists them."""
    refuse_none(path, found)
    if len(found) > 1:
        if (said := not_one_set(path)) is not None:
            raise InputError(f"{printable(path)}: {said}")
        file = f"{printable(path)}:" if is_document(path) else ""
        shown = "".join(f"\n  {file}{printable(name_of(configuration))}" for configuration in found[:12])
        more = f"\n  and {len(found) - 12} more" if len(found) > 12 else ""
        raise InputError(f"{printable(path)}: holds {len(found)} configurations; give one of them:{shown}{more}")
    return found[0]


def _count_unlike(one: Result, other: Result) -> int:
    """Count the configuration values in which two results differ."""
    of_one, of_other = ({} if side.asked is None else dict(side.asked.config) for side in (one, other))
    keys = of_one.keys() | of_other.keys()
    values = [(of_one.get(key), of_other.get(key)) for key in keys]
    return sum((a and a.value) != (b and b.value) for a, b in values)


def results_to_compare(
    base: Path, news: Sequence[Path], reference: str | None = None, ruleset: str | None = None
) -> tuple[Result, tuple[Result, ...]]:
    """Read the result at `base` and the results at `news`. The result at `base` is left out of `news` if a path in
    `news` holds it among others.

    If `reference` names a reference system, its results of the same benchmark and kind of measurement follow, the one
    most similar to `base` first. Labels are made distinct.

    Raises InputError if a path holds no result, if `base` holds several, or if a result set of the reference system
    cannot be a reference. Raises DefinitionError if `ruleset` is wrong. Raises ReferenceSystemError if the reference
    system is unknown or has no result of this benchmark and kind.
    """
    first = one_result(base, ruleset)
    own = {run.log.log_sha256 for run in first.runs}

    def is_base(result: Result) -> bool:
        if own:
            return own == {run.log.log_sha256 for run in result.runs}
        return not result.runs and result.samples == first.samples

    others: list[Result] = []
    again: set[int] = set()
    for path in news:
        found = read_results(path, ruleset)
        refuse_none(path, found)
        kept = [result for result in found if not is_base(result)] or found
        if real_path(path) == real_path(base):
            again.update(range(len(others), len(others) + len(kept)))
        others += kept
    if reference is not None:
        asked = [first, *others]
        shipped = with_alike(asked, read_results(find_system(reference)))[len(asked) :]
        others += sorted(shipped, key=lambda result: _count_unlike(first, result))
    labelled, *rest = distinct([first, *others])
    # A measurement without logs is recognised by its label: two measurements may well have reached equal quality.
    return labelled, tuple(
        dataclasses.replace(result, label=labelled.label) if index in again and not result.runs else result
        for index, result in enumerate(rest)
    )


def distinct(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results with labels made distinct from each other."""
    labels = labels_of([(result.label, result.place) for result in results])
    return tuple(dataclasses.replace(result, label=label) for result, label in zip(results, labels, strict=True))
