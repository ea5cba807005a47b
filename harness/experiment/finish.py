"""Finish an experiment after its last repetition: judge and score logs, compare results, write pages, return exit
codes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.experiment.relation import find_relation
from harness.experiment.store import parts_of, read
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.kinds import find_kind
from reports.comparison.comparison import compare_results
from reports.comparison.records import Comparison
from reports.comparison.sweep import SweepFacts
from reports.page.content import ReportContent, gather_everything
from reports.page.report import write_page
from reports.results.measured import read_measured
from reports.results.result import Result
from rules.logs.text import printable
from rules.records.experiment import ExperimentRecord
from rules.records.study import StudyRecord

_WORST_FIRST = (
    ExitCode.INTERRUPTED, ExitCode.INTERNAL_ERROR, ExitCode.INPUT, ExitCode.RESOURCES, ExitCode.TIMEOUT,
    ExitCode.ENVIRONMENT, ExitCode.NOT_CONVERGED, ExitCode.COMPLIANCE, ExitCode.USAGE,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedSides:
    """Result of a completed pair (two configurations measured alternately): both run sets or both measurements, and
    the comparison of the new one with the base."""

    page: Path
    comparisons: tuple[Comparison, ...]
    sets: tuple[Result, ...] = ()
    measured: tuple[Result, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedStudy:
    """Result of a completed experiment whose result is a study (findings and tables), such as a suite or a search:
    the study's record, the path of its page, and the exit code."""

    study: StudyRecord
    page: Path
    code: ExitCode


def finish_set(folder: Path) -> tuple[Result, Path]:
    """Read, judge and score the run set in `folder` once, and write its page; return the result and the page's path.
    Nothing else is written, so that this can be repeated."""
    gathered = gather_everything([folder])
    if len(gathered.sets) != 1:
        places = ", ".join(printable(result.verdict.subject) for result in gathered.sets)
        raise HarnessError(
            f"{folder}: holds results in {places}, expected those of its own runs alone. Move away what is not its.",
            ExitCode.INPUT,
        )
    (result,) = gathered.sets
    return result, write_page(gathered, folder)


def write_folder_page(folder: Path) -> Path:
    """Write the page of all results in a folder, such as a sweep's; return the page's path."""
    return write_page(gather_everything([folder]), folder)


def exit_code_of_set(result: Result) -> ExitCode:
    """Return a run set's exit code: NOT_CONVERGED or TIMEOUT where failed runs leave no score, COMPLIANCE where a
    rule is broken, else DONE."""
    failed = [run for run in result.score.runs if not run.converged]
    if failed and result.score.score_s is None:
        timed_out = all(run.abort_reason == "timeout" for run in failed)
        return ExitCode.TIMEOUT if timed_out else ExitCode.NOT_CONVERGED
    return ExitCode.COMPLIANCE if result.outcome == "invalid" else ExitCode.DONE


def worst_of(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the most serious of several exit codes of runs or sets; DONE where there are none."""
    found = list(codes)
    return next((code for code in _WORST_FIRST if code in found), max(found, default=ExitCode.DONE))


def finish_sides(folder: Path) -> FinishedSides:
    """Write the page of a pair; return the results of both configurations and their comparison.

    Runs to the target are judged and scored once, and each run set gets a page, too.
    """
    kind, sides = find_kind(read(folder).kind), list(parts_of(folder).values())
    gathered = gather_everything([folder])
    page = write_page(gathered, folder)
    if kind.keeper == "logs":
        base, new = (_only(gathered, side) for side in sides)
        for result in (base, new):
            assert result.place is not None
            write_page(ReportContent(results=(replace(result, index=0),)), result.place)
        compared = compare_results(base, [new])
        return FinishedSides(page=page, comparisons=compared, sets=(base, new))
    measured = tuple(read_measured(side, kind.name) for side in sides)
    compared = compare_results(measured[0], [measured[1]])
    return FinishedSides(page=page, comparisons=compared, measured=measured)


def _only(gathered: ReportContent, folder: Path) -> Result:
    """Return the result set of one configuration of a pair: the one in `folder`. Raises HarnessError (exit 8) where
    the folder does not hold exactly one."""
    found = [result for result in gathered.sets if result.place == folder]
    if len(found) != 1:
        raise HarnessError(f"{folder}: holds {len(found)} sets of results, expected its own alone.", ExitCode.INPUT)
    return found[0]


def exit_code_of_sides(finished: FinishedSides) -> ExitCode:
    """Return the exit code of a completed pair: of two sets of training runs, the more serious of their exit codes;
    of two measurements (of throughput, say), which no rule judges, DONE."""
    return worst_of(exit_code_of_set(result) for result in finished.sets)


def write_pages(folder: Path) -> None:
    """Write the pages of the complete experiment in `folder`, as the relation between its configurations defines."""
    find_relation(read(folder).relation).write_pages(folder)


def exit_code_from(number: int) -> ExitCode:
    """Return the exit code that a record's file gives as a number; INPUT (damaged file) where no exit code has that
    number."""
    return ExitCode(number) if number in set(ExitCode) else ExitCode.INPUT


def exit_code_of_matrix(record: ExperimentRecord, facts: SweepFacts) -> ExitCode:
    """Return the most serious exit code of a sweep's configurations, and INCONCLUSIVE where a requested scaling law
    could not be fitted."""
    codes = [exit_code_from(entry.failure.exit_code) for entry in record.configurations if entry.failure is not None]
    codes += [exit_code_of_set(row.result) for row in facts.rows if row.result is not None and row.result.judged]
    codes += [ExitCode.INCONCLUSIVE] if facts.law is not None and facts.law.fitted is None else []
    return worst_of(codes)
