"""XRBench's score of a usage, from 0 to 100: deadlines, energy and dropped frames of every model.

Kwon et al., "XRBench: An Extended Reality (XR) Machine Learning Benchmark Suite for the Metaverse", MLSys 2023, in
the form of its released code (github.com/XRBench/XRBench-MLSys2023, HET_scoring-module.hpp), without accuracy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum
from typing import Literal

from scipy.special import expit

from harness.extensions.usage.schedule import Frame, Spans

Counting = Literal["released", "once"]
"""How often a dropped frame counts: twice, as in the released code, or once."""
STEEPNESS_PER_MS, MAX_ENERGY_J = 15.0, 1.5
"""XRBench's k, and its E_max of 1500, whose unit its code does not say: taken as millijoules."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelScore:
    """What became of a model's frames; `real_time`, the mean over those that were kept, `quality` of experience and
    `score` are None where there is no such frame."""

    requested: int
    dropped: int
    late: int
    latencies_s: tuple[float, ...]
    real_time: float | None
    quality: float | None
    score: float | None


def score_frame(end_s: float, deadline_s: float) -> float:
    """Return the real-time score of one frame: 1 well before its deadline, .5 at it, 0 well after."""
    return float(expit(-STEEPNESS_PER_MS * (end_s - deadline_s) * 1e3))


def score_model(frames: Sequence[Frame], spans: Spans, counting: Counting, energy_j: float | None) -> ModelScore:
    """Score the frames of one model; `energy_j` is what one takes, None where that was not measured.

    A dropped frame is one of score 0. "released" counts it again, as the released code does: the mean over requested
    frames is multiplied by the share of those that were not dropped.
    """
    kept = [(frame, span) for frame, span in zip(frames, spans, strict=True) if span is not None]
    scores, requested = fsum(score_frame(span.end_s, frame.deadline_s) for frame, span in kept), len(frames)
    energy = 1.0 if energy_j is None else (MAX_ENERGY_J - energy_j) / MAX_ENERGY_J
    quality = len(kept) / requested if requested else None
    factor = quality if counting == "released" else 1.0
    return ModelScore(
        requested=requested,
        dropped=requested - len(kept),
        late=sum(span.end_s > frame.deadline_s for frame, span in kept),
        latencies_s=tuple(span.end_s - frame.release_s for frame, span in kept),
        real_time=scores / len(kept) if kept else None,
        quality=quality,
        score=None if quality is None or factor is None else scores * energy / requested * factor,
    )


def join_scores(scores: Sequence[ModelScore]) -> ModelScore:
    """Join the scores of one model over several processes: counts and latencies of all frames, means of the rest."""

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
    """Return 100 times the mean over the models that something was asked."""
    scores = [model.score for model in models if model.score is not None]
    return 100 * fsum(scores) / len(scores) if scores else 0.0
