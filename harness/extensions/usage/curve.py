"""Sum up precision, time and memory of a retrieval (which finds candidates near graph nodes by PageRank, in two
stages) for each number of subgraphs, and advise which number to take."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from harness.extensions.usage.crew import RetrievalTrial
from harness.extensions.usage.definition import CURVE, AskedModel
from harness.foundation.queue_simulation import percentile_of
from reference_models.serving.pagerank import STEPS
from reports.statistics.intervals import Interval, mean_interval
from reports.text.formatting import names, percent, printable
from rules.records.study import Cell, Origin

PUBLISHED = "1.5 to 13.4 times less memory and up to 15 times the speed at 80 % precision (a CPU, six other graphs)"
_MOST_NAMED = 2
"""Largest number of graphs that are named in the sentence which compares measured savings with published ones."""
CURVE_COLUMNS: tuple[tuple[str, str | None, Origin], ...] = (
    ("Retrieval", None, "given"),
    ("Graph", None, "given"),
    ("Subgraphs", None, "given"),
    ("Nodes asked for", None, "given"),
    ("Precision", "share", "measured"),
    ("Mean", "s", "measured"),
    ("p99", "s", "measured"),
    ("Peak memory", "B", "measured"),
    ("Peak of one stage", "B", "measured"),
    ("Less memory", None, "computed"),
    ("Speed-up over one stage", None, "measured"),
    ("From", None, "measured"),
    ("To", None, "measured"),
    (f"Nodes within {STEPS[0]} steps", None, "computed"),
    (f"Nodes within {sum(STEPS)} steps", None, "computed"),
)


class RetrievalPoint(NamedTuple):
    """Precision, time and memory of a retrieval that finds candidates by PageRank in two stages, for one number of
    subgraphs. Subgraphs are the nodes from which the second stage goes on. Values are means over all query nodes if
    not stated otherwise.

    The retrieval in two stages is compared with a retrieval in one stage. `speed_up` is the time in one stage over
    the time in two, as a geometric mean over query nodes; `interval` is its 95 % interval (Student's t on
    logarithms), None for one node. `less_memory` is the largest peak memory in one stage over the largest in two.
    """

    subgraphs: str
    precision: float
    mean_s: float
    p99_s: float
    staged_bytes: int
    at_once_bytes: int
    speed_up: float
    interval: Interval | None

    @property
    def less_memory(self) -> float:
        return self.at_once_bytes / self.staged_bytes

    @property
    def many(self) -> str:
        """Return the number of subgraphs in words, such as '5 subgraphs'."""
        return "1 subgraph" if self.subgraphs == "1" else f"{self.subgraphs} subgraphs"

    def words(self) -> str:
        """Say precision, speed and memory in words: 'With 5 subgraphs: precision 83.0 %, 5.04 times as fast as one
        stage (4.8 to 5.2), …'."""
        low, high = self.bounds
        between = "" if self.interval is None else f" ({low:.2f} to {high:.2f})"
        memory = f"{self.less_memory:.1f} times less memory" if self.less_memory > 1 else "no less memory"
        return (
            f"With {self.many}: precision {percent(self.precision)}, {self.speed_up:.2f} times as fast as one stage"
            f"{between}, {memory}"
        )

    @property
    def bounds(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the speed-up of the retrieval in two stages over one stage; 0 and infinity
        where there is no interval."""
        return (0.0, math.inf) if self.interval is None else (self.interval.low, self.interval.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievalCurve:
    """Precision, time and memory of a retrieval of candidates in two stages, one point for each number of subgraphs
    (starting nodes of the second stage), in rising order."""

    name: str
    graph: str
    wanted: float
    """Wanted precision: the share of the exact candidates that the retrieval should find."""
    points: Sequence[RetrievalPoint]
    num_nodes: int
    """Number of graph nodes whose candidates were retrieved."""
    num_near: float
    """Mean number of graph nodes within reach of a query node in as many edges as the first stage of the retrieval
    follows."""
    num_far: float
    """Mean number of graph nodes within reach of a query node in as many edges as the two stages of the retrieval
    follow together."""

    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the rows of a study's table on the retrieval, one for each number of subgraphs, in the order of
        CURVE_COLUMNS."""
        bounds = [(None, None) if each.interval is None else each.bounds for each in self.points]
        return [
            (
                self.name, self.graph, each.subgraphs, self.num_nodes, *each[1:6], each.less_memory, each.speed_up,
                *its, self.num_near, self.num_far,
            )
            for each, its in zip(self.points, bounds, strict=True)
        ]  # fmt: skip

    def chosen(self) -> RetrievalPoint | None:
        """Return the point with the fewest subgraphs at which the retrieval has the wanted precision; None where none
        has it."""
        # rounded, since the mean of precisions that all equal the wanted one may be a last digit below it
        return next((each for each in self.points if round(each.precision, 9) >= self.wanted), None)

    def title(self, axis: str, met: Mapping[str, float]) -> str:
        """Return a title that recommends a value of `axis`, the key that varies the number of subgraphs. Empty if no
        value has the wanted precision, or if the retrieval in one stage is faster than in two.

        `met` is a dict from number of subgraphs to the share of deadlines met.
        """
        found = self.chosen()
        if found is None or found.bounds[1] < 1 or found.subgraphs not in met:
            return ""
        share = met[found.subgraphs]
        deadlines = "all deadlines" if share == 1 else f"{percent(share)} of deadlines"
        precise = f"precision {percent(found.precision)}, {percent(self.wanted, 0)} is wanted"
        return f"take {axis}={found.subgraphs}, of {len(met)}: {precise}; {deadlines} met"

    def advice(self, where: str) -> str:
        """Return a sentence that recommends a number of subgraphs (starting nodes of the second stage) for the wanted
        precision, or a retrieval in one stage if that is better.

        `where` is the beginning of the sentence: the value of the varied key, or nothing. If the number of subgraphs
        is the varied key, the usual numbers that were not tried are named, too.
        """
        tried = [each.subgraphs for each in self.points]
        untried = [str(number) for number in CURVE if str(number) not in tried]
        note = (
            f" Only {names(tried, 5)} subgraphs were tried, not {names(untried, 5)}; without --axis all these "
            "numbers are tried."
            if untried
            else ""
        )
        return f"{self._advise(where)}{note}"

    def _advise(self, where: str) -> str:
        found, start = self.chosen(), f"{where}{self.name}, for a precision of {percent(self.wanted, 0)}"
        measured = f"(measured, over {self.num_nodes} nodes)"
        if found is None:
            tried = names([each.subgraphs for each in self.points], 12)
            exact = "one stage is exact: take one stage"
            return f"{start}: none of {tried} subgraphs has this precision; {exact} {measured}."
        low, high = found.bounds
        if high < 1:
            saved = "" if found.less_memory <= 1 else ", unless memory is short"
            return f"{start}: one stage is faster, and exact: take one stage{saved}. {found.words()} {measured}."
        sure = "" if low > 1 else " No difference in speed is shown."
        return f"{start}: take {found.many}. {found.words()} {measured}.{sure}"


def make_curve(name: str, model: AskedModel, trials: Sequence[RetrievalTrial]) -> RetrievalCurve:
    """Return the curve of a retrieval: precision, time and memory for each number of subgraphs (starting nodes of its
    second stage). It is made from the trials of all processes."""
    numbers = dict.fromkeys(trial.subgraphs for trial in trials)
    by_number = [[trial for trial in trials if trial.subgraphs == number] for number in numbers]
    return RetrievalCurve(
        name=name,
        graph=model.graph,
        wanted=model.wanted_precision,
        points=[_sum_up(number, its) for number, its in zip(numbers, by_number, strict=True)],
        num_nodes=len(by_number[0]),
        num_near=fmean(trial.num_near for trial in by_number[0]),
        num_far=fmean(trial.num_far for trial in by_number[0]),
    )


def _sum_up(number: str, trials: Sequence[RetrievalTrial]) -> RetrievalPoint:
    times_s = np.array([trial.staged_s for trial in trials])
    logs = np.log([trial.at_once_s for trial in trials]) - np.log(times_s)
    found = mean_interval(logs)
    return RetrievalPoint(
        subgraphs=number,
        precision=fmean(trial.precision for trial in trials),
        mean_s=float(times_s.mean()),
        p99_s=percentile_of(times_s, 0.99),
        staged_bytes=max(trial.staged_bytes for trial in trials),
        at_once_bytes=max(trial.at_once_bytes for trial in trials),
        speed_up=math.exp(float(logs.mean())),
        interval=None if found is None else replace(found, low=math.exp(found.low), high=math.exp(found.high)),
    )


def join_varied(
    retrievals: Sequence[tuple[str, RetrievalCurve]], axis: str | None
) -> list[tuple[str, RetrievalCurve]]:
    """Return the curves of retrievals (precision, time and memory over numbers of subgraphs), each with words to
    begin its sentences with: the value of the key `axis` that the study varies. If `axis` is the number of subgraphs
    itself, one curve of each retrieval has the points of all values, and the words are empty."""
    if axis is None:
        return [("", curve) for _, curve in retrievals]
    if not axis.endswith(".num_subgraphs"):
        return [(f"{axis}={text}: ", curve) for text, curve in retrievals]
    joined = dict[str, RetrievalCurve]()
    for _, curve in retrievals:
        before = joined.get(curve.name, replace(curve, points=()))
        points = {point.subgraphs: point for point in (*before.points, *curve.points)}
        joined[curve.name] = replace(curve, points=sorted(points.values(), key=_number))
    return [("", curve) for curve in joined.values()]


def _number(point: RetrievalPoint) -> float:
    return math.inf if point.subgraphs == "all" else int(point.subgraphs)


def hold_against_published(curves: Sequence[tuple[str, RetrievalCurve]]) -> str:
    """Say how a retrieval's measured savings of memory and time compare with those published in the paper MeLoPPR,
    and what causes the gap."""
    shown, missed = list[str](), list[str]()
    for _, curve in curves:
        found, place = curve.chosen(), printable(Path(curve.graph).name, 22)
        if found is not None and found.less_memory > 1 and found.bounds[0] > 1:
            shown.append(f"{found.less_memory:.1f} and {found.speed_up:.1f} on {place}")
        else:
            missed.append(place)
    held = [names(shown, _MOST_NAMED)] if shown else []
    held += [f"not both above 1 on {names(missed, _MOST_NAMED)}"] if missed else []
    balls = [f"{near:,.0f} of {far:,.0f}" for near, far in _balls(curve for _, curve in curves)]
    return (
        f"MeLoPPR published {PUBLISHED}. Measured here (times less memory, times the speed): {', '.join(held)}. "
        f"Both depend on how many of the nodes within {sum(STEPS)} steps are within {STEPS[0]}: "
        f"{names(balls, _MOST_NAMED)} (computed)."
    )


def _balls(curves: Iterable[RetrievalCurve]) -> list[tuple[float, float]]:
    return list({curve.graph: (curve.num_near, curve.num_far) for curve in curves}.values())
