"""After the last run, for `run`, `resume` and `sweep`: judge the set, score it, write its page; its exit code."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.foundation.errors import ExitCode, HarnessError
from reports.comparison.comparison import compare_sides
from reports.comparison.records import Comparison
from reports.facts.facts import SetFacts
from reports.facts.measured_sets import MeasuredSet, measured_side, read_measured
from reports.facts.sides import side_of
from reports.page.gathered import Gathered, gather_everything
from reports.page.report import write_page
from rules.logs.text import printable
from rules.records.pair import SIDES, PairRecord

_WORST_FIRST = (
    ExitCode.INTERRUPTED, ExitCode.INTERNAL_ERROR, ExitCode.INPUT, ExitCode.RESOURCES, ExitCode.TIMEOUT,
    ExitCode.ENVIRONMENT, ExitCode.NOT_CONVERGED, ExitCode.COMPLIANCE, ExitCode.USAGE,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedPair:
    """A pair that was just completed: its two sides, either sets of runs or measurements, and new against base."""

    folder: Path
    page: Path
    comparisons: tuple[Comparison, ...]
    sets: tuple[SetFacts, ...] = ()
    measured: tuple[MeasuredSet, ...] = ()


def finish_set(folder: Path) -> tuple[SetFacts, Path]:
    """Read, judge and score a set, once, and write its page. Writes nothing else; can be repeated at any time."""
    gathered = gather_everything([folder])
    if len(gathered.sets) != 1:
        places = ", ".join(printable(str(facts.result_set.folder)) for facts in gathered.sets)
        raise HarnessError(
            f"{folder}: holds results in {places}, expected those of its own runs alone. Move away what is not its.",
            ExitCode.INPUT,
        )
    (facts,) = gathered.sets
    return facts, write_page(gathered, folder)


def write_folder_page(folder: Path) -> Path:
    """Write the page of all that is in a folder of results, such as a sweep; returns its path."""
    return write_page(gather_everything([folder]), folder)


def exit_code_of_set(facts: SetFacts) -> ExitCode:
    """Return NOT_CONVERGED or TIMEOUT where runs that failed leave no score, COMPLIANCE where a rule is broken."""
    failed = [run for run in facts.result.runs if not run.converged]
    if failed and facts.result.score_s is None:
        timed_out = all(run.abort_reason == "timeout" for run in failed)
        return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
    return ExitCode.COMPLIANCE if facts.verdict.outcome == "invalid" else ExitCode.DONE


def worst_of(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code that says most of what went wrong; DONE where nothing did."""
    found = list(codes)
    return next((code for code in _WORST_FIRST if code in found), max(found, default=ExitCode.DONE))


def finish_pair(folder: Path, pair: PairRecord) -> FinishedPair:
    """Judge and score both sides, once, compare them, and write the page of each and of the pair."""
    gathered = gather_everything([folder])
    page = write_page(gathered, folder)
    if pair.kind == "training":
        base, new = (_only(gathered, folder / side) for side in SIDES)
        for facts in (base, new):
            assert facts.result_set.root is not None
            write_page(Gathered(sets=(replace(facts, index=0),)), facts.result_set.root)
        compared = compare_sides(side_of(base), [side_of(new)])
        return FinishedPair(folder=folder, page=page, comparisons=compared, sets=(base, new))
    measured = tuple(read_measured(folder / side, pair.kind) for side in SIDES)
    compared = compare_sides(measured_side(measured[0]), [measured_side(measured[1])])
    return FinishedPair(folder=folder, page=page, comparisons=compared, measured=measured)


def _only(gathered: Gathered, folder: Path) -> SetFacts:
    """Return the one set of results in the folder of a side. Raises HarnessError (exit 8) where there is another."""
    found = [facts for facts in gathered.sets if facts.result_set.root == folder]
    if len(found) != 1:
        raise HarnessError(f"{folder}: holds {len(found)} sets of results, expected its own alone.", ExitCode.INPUT)
    return found[0]


def exit_code_of_pair(finished: FinishedPair) -> ExitCode:
    """Return the worse of both sides' codes, as `exit_code_of_set` has them."""
    return worst_of(exit_code_of_set(facts) for facts in finished.sets)
