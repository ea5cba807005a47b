"""Fixed texts of the page, which do not depend on results: glossary, footnotes, explanations."""

import re
from collections.abc import Collection, Mapping, Sequence

from reports.document.blocks import Fact
from reports.results.result import Standing
from rules.records.metrics import METRICS, ROC_AUC, Metric

_TERMS = {
    "Run": "One training from newly initialised weights to the quality target, in its own process.",
    "Time to train": "Wall-clock time from the log's run_start, before any sample is read, to its run_stop, "
    "evaluations included.",
    "Olympic mean": "Mean of the runs' times without the fastest and the slowest run. One run that did not converge "
    "may count as the slowest run; with two or more such runs, the set has no score.",
    "Interval": "A confidence interval of the geometric mean: Student's t on the logarithms. The target is seen to "
    "be met only at an evaluation, so the confidence intervals of times to train and samples to converge are "
    "widened: by the spacing of evaluations, divided by the number of runs.",
    "Quality": METRICS[ROC_AUC].meaning,
    "Epochs to converge": "Fraction of the training data seen when the target was met.",
    "Interpolated": "Samples to converge, estimated as the point where a line through the last evaluations meets the "
    "target. Interpolated samples to converge vary less by chance, but are not part of the score.",
    "Throughput": "Samples trained until the quality target, divided by the training time without evaluations.",
    "Overhead": "Time to train minus the time in training steps: evaluations, and the time between blocks of steps.",
    "CV": "Coefficient of variation over runs: standard deviation divided by mean.",
    "RCP": "Reference convergence point: number of epochs that the reference needs at a batch size. The score of "
    "a set that converges faster than chance allows is refused or scaled.",
    "Geometric mean": "The exponential of the mean of the logarithms. The equation time to train = (samples ÷ "
    "throughput) × (time to train ÷ time in training steps) holds for geometric means, too.",
}

_COMMON = {
    "Detectable difference": "The true difference between two sets that a comparison would show with 80 % power. "
    "Drift adds to the measured difference unless the runs of the two sets alternate (A/B).",
    "Noisy machine": "Other work, drift or throttling changed the speed during a measurement.",
    "Baseline": "The configuration with which all others are compared: the first, or the one asked for.",
}
"""Terms explained on pages of measurements as well as on pages of training runs."""


def page_glossary(
    terms: Mapping[str, str], *, is_trained: bool, metrics: Collection[Metric] = ()
) -> tuple[Fact, ...]:
    """Return the glossary of a page: terms of training if `is_trained`, and the entries `terms` of other kinds of
    measurement.

    The entry on quality explains the `metrics` that the page shows.
    """
    shown = (_TERMS if is_trained else {}) | _COMMON | dict(terms)
    if "Quality" in shown and metrics:
        shown["Quality"] = " ".join(dict.fromkeys(metric.meaning for metric in metrics))
    return tuple(Fact(name=name, value=registered(value)) for name, value in shown.items())


NOT_MLPERF = "Own benchmark: not an MLPerf® result, and not comparable with one."
UNVERIFIED = "Unverified: result not verified by MLCommons Association."
PUBLISHED = "It is not known whether MLCommons verified the result."
OF_BOTH = "Own results are unverified; of published results it is not known whether MLCommons verified them."
MARKS: Mapping[str, str] = {"unverified": "unverified", "published": "MLCommons verification unknown"}
"""Words next to a score under the name of an official MLPerf benchmark, by the verification status of the result
(unverified or published)."""
UNDEFINED = "No definition of this benchmark is known here, so there is no target, number of runs or score."
UNVERIFIED_COMPARED = (
    "Unverified results have not been through an MLPerf® review and may use measurement methodologies and/or "
    "workload implementations that are inconsistent with the MLPerf specification for verified results."
)
FOOTNOTE_UNVERIFIED = "Result not verified by MLCommons Association."
FOOTNOTE_PUBLISHED = (
    "It is not known whether MLCommons verified the result: no log says whether its result has been through an "
    "MLPerf® review. Whoever cites or compares the result must say whether it is verified."
)
TRADEMARK = (
    "The MLPerf name and logo are registered and unregistered trademarks of MLCommons Association in the United "
    "States and other countries. All rights reserved. Unauthorized use strictly prohibited. See www.mlcommons.org "
    "for more information."
)


def footnotes(standings: Sequence[Standing]) -> tuple[str, ...]:
    """Return the footnotes that MLCommons' messaging guidelines ask for below results that carry the names of
    MLCommons' benchmarks.

    `standings` has the verification status of each result.
    """
    num_official = sum(standing in MARKS for standing in standings)
    notes = [FOOTNOTE_UNVERIFIED] if "unverified" in standings else []
    notes += [UNVERIFIED_COMPARED] if "unverified" in standings and num_official > 1 else []
    notes += [FOOTNOTE_PUBLISHED] if "published" in standings else []
    return (*notes, TRADEMARK)


def standing_line(standings: Collection[Standing]) -> str:
    """Return a sentence on the verification status of results. Either all have one status, or some are unverified and
    some published."""
    if {"unverified", "published"} <= set(standings):
        return OF_BOTH
    lines = {"own": NOT_MLPERF, "unknown": UNDEFINED, "unverified": UNVERIFIED, "published": PUBLISHED}
    return lines[next(iter(standings))]


def registered(text: str) -> str:
    """Return `text` with the mark ® after every use of the name MLPerf, as MLCommons' messaging guidelines ask."""
    return re.sub(r"MLPerf(?!®)", "MLPerf®", text)
