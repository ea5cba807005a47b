"""Words of the page that do not depend on results: glossary, footnotes, explanations."""

import re
from collections.abc import Collection, Mapping, Sequence

from reports.document.blocks import Fact
from reports.results.result import Standing
from rules.records.metrics import METRICS, ROC_AUC, Metric

_TERMS = {
    "Run": "One training from new weights to the quality target, in a process of its own.",
    "Time to train": "Wall-clock time from run_start, before any sample is touched, to run_stop; evaluations "
    "included.",
    "Olympic mean": "Mean of the runs' times without the fastest and the slowest. One run that did not converge may "
    "be the dropped slowest; with more there is no score.",
    "Interval": "Where the geometric mean of no end of runs plausibly is: Student's t on the logarithms. Times and "
    "samples end at an evaluation; their intervals are at least as wide as that grid asks.",
    "Quality": METRICS[ROC_AUC].meaning,
    "Epochs to converge": "Fraction of the training data that was seen when the target was met.",
    "Smoothed samples": "Samples to converge by a line through the last evaluations: on no grid, with less luck, "
    "not scored.",
    "Throughput": "Samples trained until the target, divided by the time spent training, evaluations left out.",
    "Overhead": "Time to train minus training time: evaluations, and what lies between the blocks.",
    "CV": "Coefficient of variation over runs: standard deviation divided by mean.",
    "RCP": "Reference convergence point: how many epochs the reference needs at a batch size. A set that "
    "converges faster than chance allows is refused or scaled.",
    "Geometric mean": "Mean taken through logarithms, so that time = samples ÷ throughput × overhead holds for means "
    "too.",
}
_SERVING_TERMS = {
    "Latency-bounded throughput": "The highest rate of queries at which the percentile of their latencies stays "
    "within the limit. A virtual clock says near which rate that is; LoadGen judges real rates around it, and the "
    "answer is the highest that is VALID.",
    "Query": "A number of items to be ranked for one user, in one request.",
    "Ranked items/s": "Queries a second times the items of a query, on average.",
    "Percentile": "p95 within 25 ms: of 100 queries, 95 are answered at most 25 ms after they arrived, waiting "
    "included.",
    "Server": "LoadGen's scenario in which queries arrive at random and have a latency limit.",
    "Offline": "All queries are there at once; only the rate counts.",
    "SingleStream": "The next query comes when the one before it is answered; only the latency counts.",
    "Poisson": "How Server's queries arrive: each at a moment of its own, independent of the others, so that some "
    "come close together and wait.",
    "VALID": "LoadGen's own verdict on one run: enough queries for enough time, and few enough of them late.",
    "Early stopping": "LoadGen's rule for how many of so many queries may be late: few enough to be 99 % sure that "
    "the percentile holds. At p95, 90 queries suffice where none is late, at p99 459.",
    "Co-location": "Several processes that serve on one system at the same time, each its own queries. With more "
    "threads than cores they are oversubscribed.",
    "Virtual clock": "A simulated queue: equal random arrivals at every rate, and the service times that were "
    "measured. Its latencies are simulated, and no result.",
    "Normalised entropy": "Log loss over that of always saying the share of clicks; lower is better.",
    "MLPerf class": "Which share of the quality in fp32 reduced precision keeps: MLPerf inference asks for 99.9 % or "
    "99 %.",
}


def page_glossary(*, is_trained: bool, is_served: bool, metrics: Collection[Metric] = ()) -> tuple[Fact, ...]:
    """What the words on a page mean: those of training, of serving, or both; quality is what `metrics` measure."""
    terms = (_TERMS if is_trained or not is_served else {}) | (_SERVING_TERMS if is_served else {})
    if "Quality" in terms and metrics:
        terms["Quality"] = " ".join(dict.fromkeys(metric.meaning for metric in metrics))
    return tuple(Fact(name=name, value=registered(value)) for name, value in terms.items())


NOT_MLPERF = "Own benchmark: not an MLPerf® result, and not comparable with one."
UNVERIFIED = "Unverified: result not verified by MLCommons Association."
PUBLISHED = "Verification by MLCommons is not known here."
OF_BOTH = "Own results are unverified; of published ones, verification by MLCommons is not known here."
MARKS: Mapping[str, str] = {"unverified": "unverified", "published": "verification not known here"}
"""What is said beside a score under an official name, by its standing."""
UNDEFINED = "No definition of this benchmark is known here, so there is no target, number of runs or score."
UNVERIFIED_COMPARED = (
    "Unverified results have not been through an MLPerf® review and may use measurement methodologies and/or "
    "workload implementations that are inconsistent with the MLPerf specification for verified results."
)
FOOTNOTE_UNVERIFIED = "Result not verified by MLCommons Association."
FOOTNOTE_PUBLISHED = (
    "Verification by MLCommons is not known here: no log says whether its result has been through an MLPerf® review. "
    "Whoever cites or compares it must say whether it is verified."
)
TRADEMARK = (
    "The MLPerf name and logo are registered and unregistered trademarks of MLCommons Association in the United "
    "States and other countries. All rights reserved. Unauthorized use strictly prohibited. See www.mlcommons.org "
    "for more information."
)


def footnotes(standings: Sequence[Standing]) -> tuple[str, ...]:
    """What MLCommons' messaging guidelines ask to be printed under results that carry its benchmarks' names.

    `standings` are those of all results, each as often as it occurs.
    """
    num_official = sum(standing in MARKS for standing in standings)
    notes = [FOOTNOTE_UNVERIFIED] if "unverified" in standings else []
    notes += [UNVERIFIED_COMPARED] if "unverified" in standings and num_official > 1 else []
    notes += [FOOTNOTE_PUBLISHED] if "published" in standings else []
    return (*notes, TRADEMARK)


def standing_line(standings: Collection[Standing]) -> str:
    """What kind of results these are, all of one status, in one sentence."""
    if {"unverified", "published"} <= set(standings):
        return OF_BOTH
    lines = {"own": NOT_MLPERF, "unknown": UNDEFINED, "unverified": UNVERIFIED, "published": PUBLISHED}
    return lines[next(iter(standings))]


def registered(text: str) -> str:
    """`text` with the mark that the messaging guidelines ask for on every use of the name."""
    return re.sub(r"MLPerf(?!®)", "MLPerf®", text)
