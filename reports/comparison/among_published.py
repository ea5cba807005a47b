"""Ranks a result among the published results of MLPerf's rounds: by minutes to train, and by accelerator-minutes.

Only results of official benchmarks are ranked, because MLPerf results may be compared with MLPerf results alone
(MLCommons' Results Messaging Guidelines). Minutes are scores: times normalised by reference convergence points.
Accelerator-minutes are the minutes times the number of accelerators. No rule defines this quantity. Larger systems
usually take more accelerator-minutes for the same benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reports.document.glossary import MARKS
from reports.results.published import count_accelerators
from reports.results.result import Result
from reports.text.formatting import plural, printable
from rules.benchmarks.loader import load_benchmark, shipped_names
from rules.errors import ReferenceSystemError
from rules.records.kept.published import PublishedResult, PublishedTable


class Place(NamedTuple):
    """Value of one result in a ranking, and the published values among which it is ranked."""

    value: float
    others: tuple[float, ...]

    @property
    def number(self) -> int:
        """Rank of the result's value among the published values, 1 for the smallest."""
        return 1 + sum(other < self.value for other in self.others)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPlace:
    """Rank of one result among the published MLPerf results of its benchmark and division. Published results that
    hold one of this result's own logs are left out.

    `minutes` is None if the result has no score; `accelerator_minutes` is None also if the system has no
    accelerators. `problem` is the reason why there is no rank.
    """

    result: Result
    others: tuple[PublishedResult, ...]
    minutes: Place | None = None
    accelerator_minutes: Place | None = None
    num_accelerators: int | None = None
    problem: str = ""

    @property
    def words(self) -> str:
        """Return a result's ranks among published results in a sentence, with the words that MLCommons' guidelines
        ask for beside a score."""
        label, of = printable(self.result.label, 80), self.result.benchmark_name
        if self.minutes is None:
            return f"{label}: {self.problem}."
        mark = "unverified" if self.result.standing == "unverified" else MARKS["published"]
        rounds = sorted({row.round for row in self.others}, key=_as_numbers)
        span = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
        known = f"{plural(len(self.others), 'published result')} of {of}, {self.others[0].division}, {span}"
        text = f"{label}: {self.minutes.value:.2f} minutes ({mark}) would be number {self.minutes.number} of "
        text += f"{len(self.others) + 1} with {known}, by time to train"
        if self.accelerator_minutes is None:
            return f"{text}; its number of accelerators is not known."
        place = self.accelerator_minutes
        return (
            f"{text}; by accelerator-minutes (derived: {plural(self.num_accelerators or 0, 'accelerator')}), number "
            f"{place.number} of {len(place.others) + 1}."
        )


def refuse_own(results: Sequence[Result]) -> None:
    """Check a result before it is ranked among published MLPerf results. Raises ReferenceSystemError if the result
    has no logs or is not of an official benchmark."""
    for result in results:
        if result.status != "official" or not result.is_logged:
            official = [name for name in shipped_names() if load_benchmark(name).status == "official"]
            raise ReferenceSystemError(
                f"--with published: {printable(result.label, 80)} is of {result.benchmark_name}, which is no MLPerf "
                "benchmark; MLPerf results may not be compared with others (MLCommons' Results Messaging "
                f"Guidelines). Only scores of {', '.join(official)} stand beside published ones."
            )


def place_results(results: Sequence[Result], table: PublishedTable) -> tuple[ResultPlace, ...]:
    """Rank each result among the published results of its benchmark and division.

    Raises ReferenceSystemError for a result that is not of an official benchmark, or has no logs.
    """
    refuse_own(results)
    return tuple(_place(result, table) for result in results)


def _place(result: Result, table: PublishedTable) -> ResultPlace:
    own = {run.log.log_sha256 for run in result.runs}
    division = result.first_run.division if result.first_run else None
    others = tuple(
        row
        for row in table.results
        if (row.benchmark, row.division) == (result.benchmark, division) and own.isdisjoint(row.logs.values())
    )
    if result.score.score_s is None or not 0 < result.score.score_s < float("inf"):
        return ResultPlace(result=result, others=others, problem="a result without a score has no rank")
    if not others:
        of = f"{result.benchmark_name}, {division or 'of no division'}"
        return ResultPlace(result=result, others=(), problem=f"the table has no other result of {of}")
    minutes = result.score.score_s / 60
    number, _ = count_accelerators(result)
    products = tuple(row.minutes * row.num_accelerators for row in others if row.num_accelerators)
    return ResultPlace(
        result=result,
        others=others,
        minutes=Place(minutes, tuple(row.minutes for row in others)),
        accelerator_minutes=Place(minutes * number, products) if number and products else None,
        num_accelerators=number,
    )


def _as_numbers(name: str) -> list[int]:
    return [int(part) for part in name.split(".")]
