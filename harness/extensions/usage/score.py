"""Compute XRBench's score of a usage (several models that one application requests), from 0 to 100, from deadlines,
energy and dropped requests.

Source: Kwon et al., "XRBench: An Extended Reality (XR) Machine Learning Benchmark Suite for the Metaverse", MLSys
2023. The formulas are those of its released code (github.com/XRBench/XRBench-MLSys2023, HET_scoring-module.hpp). Its
score of the models' accuracy is left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum
from typing import Literal

from scipy.special import expit

from harness.extensions.usage.schedule import ModelRequest, Spans

Counting = Literal["released", "once"]
"""Rule for dropped requests in XRBench's score: they count twice ("released", as in XRBench's released code) or
once."""
STEEPNESS_PER_MS = 15.0
"""Constant k of XRBench's score: the steepness of the real-time score."""
MAX_ENERGY_J = 1.5
"""Constant E_max of XRBench's score. It is 1500 in XRBench's code, without a unit, and is taken as millijoules
here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelScore:
    """Counts, latencies and XRBench's scores of the requests of one model.

    `real_time` is the mean real-time score of the requests that were not dropped, None if there are none. `quality`
    is the quality of experience, the share of requests that were not dropped. `quality` and `score` are None without
    requests.
    """

    requested: int
    dropped: int
    late: int
    latencies_s: tuple[float, ...]
    real_time: float | None
    quality: float | None
    score: float | None


def score_request(end_s: float, deadline_s: float) -> float:
    """Return XRBench's real-time score of a request: 1 well before its deadline, 0.5 at the deadline, 0 well
    after."""
    return float(expit(-STEEPNESS_PER_MS * (end_s - deadline_s) * 1e3))


def score_model(
    requests: Sequence[ModelRequest], spans: Spans, counting: Counting, energy_j: float | None
) -> ModelScore:
    """Compute XRBench's score of the requests of one model. `energy_j` is the energy of a request in joules, None if
    it was not measured.

    A dropped request has a score of 0. If `counting` is "released", a dropped request counts twice, as in XRBench's
    released code: the mean over all requests is also multiplied by the share of requests that were not dropped.
    """
    kept = [(request, span) for request, span in zip(requests, spans, strict=True) if span is not None]
    scores, requested = fsum(score_request(span.end_s, request.deadline_s) for request, span in kept), len(requests)
    energy = 1.0 if energy_j is None else (MAX_ENERGY_J - energy_j) / MAX_ENERGY_J
    quality = len(kept) / requested if requested else None
    factor = quality if counting == "released" else 1.0
    return ModelScore(
        requested=requested,
        dropped=requested - len(kept),
        late=sum(span.end_s > request.deadline_s for request, span in kept),
        latencies_s=tuple(span.end_s - request.release_s for request, span in kept),
        real_time=scores / len(kept) if kept else None,
        quality=quality,
        score=None if quality is None or factor is None else scores * energy / requested * factor,
    )


def join_scores(scores: Sequence[ModelScore]) -> ModelScore:
    """Join the scores of one model over several processes: add the counts, collect the latencies of all requests, and
    take the means of the scores."""

    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fsum(known) / len(known) if known else None

    return ModelScore(
        requested=sum(score.requested for score in scores),
        dropped=sum(score.dropped for score in scores),
        late=sum(score.late for score in scores),
        latencies_s=tuple(chain.from_iterable(score.latencies_s for score in scores)),
        real_time=mean(score.real_time for score in scores),
        quality=mean(score.quality for score in scores),
        score=mean(score.score for score in scores),
    )


def score_usage(models: Iterable[ModelScore]) -> float:
    """Return XRBench's score of a usage (the models of one application) from 0 to 100: 100 times the mean over the
    models that had requests."""
    scores = [model.score for model in models if model.score is not None]
    return 100 * fsum(scores) / len(scores) if scores else 0.0
