"""The sides of a comparison at a path: result sets, throughput measurements, or an exported JSON file of results."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import asdict

from reports.facts.facts import SetFacts, gather
from reports.facts.measured_sets import measured_side, read_measured
from reports.facts.origin import labels_of
from reports.facts.sides import Side, converged_samples, logged_settings, side_of
from reports.tables.documents import is_document, read_document
from reports.tables.records import ReportDocument, RunMember, SetMember
from reports.text.formatting import printable
from rules.errors import InputError
from rules.scoring.results import Evaluation, RunResult
from rules.tree.inventory import find_in_processes, take_inventory
from rules.tree.result_set import real_path

T = TypeVar("T")


def read_sides(path: Path) -> tuple[Side, ...]:
    """Every side of a comparison at or below `path`, result sets first. Raises InputError where there is none."""
    if is_document(path):
        return tuple(sides_of(read_document(path)))
    inventory = take_inventory(path)
    measured = tuple(measured_side(read_measured(folder, kind)) for folder, kind in find_in_processes(inventory))
    if measured and not inventory.result_sets:
        return measured
    sets: tuple[SetFacts, ...] = gather([inventory], second_opinion=False)
    return (*(side_of(facts) for facts in sets), *measured)


def sides_of(document: ReportDocument) -> list[Side]:
    """The sides that exported configurations make: what their logs said, without the files beside them."""
    return [_side(member) for member in document.configurations]


def _side(member: SetMember) -> Side:
    results = tuple(
        _run_result(member, run)
        for run in member.runs
        # An attempt whose log is not there may have ended well; without its log it is no run of the set.
        if run.status in ("success", "not_converged") and run.counted != "no"
    )
    return Side(
        label=printable(member.configuration, 80),
        kind="runs",
        status=member.status,
        benchmark=member.benchmark,
        samples=converged_samples(results),
        runs=results,
        system=member.system,
        hardware=(),
        settings=logged_settings(results),
        olympic_mean_s=member.olympic_mean_s,
        score_s=member.score_s,
        round=member.round,
        num_tolerated=member.num_runs_dropped if member.num_runs_dropped is not None else 1,
        outcome=member.outcome,
    )


def _run_result(member: SetMember, run: RunMember) -> RunResult:
    """A run as its log has it, as far as the export holds it."""
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


def one_side(path: Path) -> Side:
    """The only side at `path`. Raises InputError that lists them where there are several."""
    return only(path, read_sides(path), lambda side: side.label)


def refuse_none(path: Path, found: Sequence[object]) -> None:
    """Raise InputError where an export holds no configuration."""
    if not found:
        raise InputError(f"{printable(path)}: holds no configuration, expected one at least. Export it again.")


def only(path: Path, found: Sequence[T], name_of: Callable[[T], str]) -> T:
    """The only configuration that was found at `path`. Raises InputError where there is none, and one that lists them
    where there are several."""
    refuse_none(path, found)
    if len(found) > 1:
        file = f"{printable(path)}:" if is_document(path) else ""
        shown = "".join(f"\n  {file}{printable(name_of(configuration))}" for configuration in found[:12])
        more = f"\n  and {len(found) - 12} more" if len(found) > 12 else ""
        raise InputError(f"{printable(path)}: holds {len(found)} configurations; give one of them:{shown}{more}")
    return found[0]


def sides_to_compare(base: Path, news: Sequence[Path]) -> tuple[Side, tuple[Side, ...]]:
    """Read the side at `base` and those at `news`, where one of several that is `base` itself is left out.

    Their labels are distinct. Raises InputError where a path holds nothing, or `base` several sets.
    """
    first = one_side(base)
    own = {run.log_sha256 for run in first.runs}

    def is_base(side: Side) -> bool:
        return (
            own == {run.log_sha256 for run in side.runs} if own else not side.runs and side.samples == first.samples
        )

    others: list[Side] = []
    again: set[int] = set()
    for path in news:
        found = read_sides(path)
        refuse_none(path, found)
        kept = [side for side in found if not is_base(side)] or found
        if real_path(path) == real_path(base):
            again.update(range(len(others), len(others) + len(kept)))
        others += kept
    labelled, *rest = distinct([first, *others])
    # A measurement without logs is known to be the same by its label: two of them may well have learnt the same.
    return labelled, tuple(
        replace(side, label=labelled.label) if index in again and not side.runs else side
        for index, side in enumerate(rest)
    )


def distinct(sides: Sequence[Side]) -> tuple[Side, ...]:
    """The sides with labels of their own."""
    labels = labels_of([(side.label, side.folder) for side in sides])
    return tuple(replace(side, label=label) for side, label in zip(sides, labels, strict=True))
