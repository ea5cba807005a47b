"""Measure the quality of a cascade end to end. A cascade is two models: a cheap model filters the items of a query,
and a larger model ranks the items that the filter keeps.

Both models are trained on the same generated data, whose click probabilities are known. Queries are random items of
the evaluation split. The quality is the NDCG of the list that the cascade returns, with the known probabilities as
gains. It is measured for several numbers of items that the filter keeps. If the filter keeps all items, the larger
model ranks as it would without a filter. RecPipe (Gupta et al., MICRO'21) builds such cascades.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from harness.config.run_config import RunConfig
from harness.extensions.usage.crew import Crew, Models
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, Usage
from harness.foundation.study import Columns, make_table
from harness.measure.kinds import Job
from harness.measure.throughput import train_steps
from reference_models.data.registry import find_data
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reports.statistics.intervals import Interval, mean_interval
from reports.text.formatting import percent
from rules.records.study import Cell, Parameter, StudyRecord

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
LEAST_QUERIES = 400
"""Minimum number of queries by which a cascade of two models is judged; where the evaluation split gives fewer, it is
shuffled again for more."""
TOLERANCE = 0.01
"""Largest loss of NDCG that a study accepts when it recommends how many items the filter keeps, as a share of the
NDCG that the larger model has without a filter."""
_SHARES = (1.0, 0.5, 0.25, 0.125, 1 / 16, 1 / 32, 1 / 64)
"""Shares of a query's items that the filter of a cascade keeps, for each of which the cascade is judged. The number
in the usage file is added to these."""
_COLUMNS: Columns = (
    ("Cascade", None, "given"),
    ("Items kept", None, "given"),
    ("NDCG", None, "measured"),
    ("From", None, "measured"),
    ("To", None, "measured"),
    ("Of all kept", "share", "measured"),
    ("FLOP a query, of all kept", "share", "computed"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cascade:
    """Cascade of two served models on the same generated data: one model filters the items, the other ranks the kept
    ones."""

    filter: str
    """Name, in the usage file (models that one application requests), of the cheap model, which filters the items
    before the larger model ranks them."""
    ranker: str
    items: int
    """Number of items (candidates to rank) of a query, all of which the filter scores."""
    kept: int
    """Number of items that the filter hands on to the ranker when the whole usage (all models of one application) is
    measured."""
    shown: int
    """Number of items of the list that the ranker returns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CascadePoint:
    """Quality of a cascade of two models at one number of items kept by the filter."""

    kept: int
    ndcg: Sequence[float]
    """Mean NDCG over all queries, one value for each time that the cascade's two models were trained."""
    of_all: Sequence[float]
    """NDCG of the cascade divided by its NDCG if the filter keeps all items, one value for each time that the two
    models were trained."""
    flop_share: float
    """FLOP of the cascade for a query, relative to the ranker's FLOP for all items."""


def find_cascades(usage: Usage, configs: Mapping[str, RunConfig]) -> list[Cascade]:
    """Find pairs of models in which one model filters items and the other ranks the kept ones, both on the same data
    with known click probabilities.

    Raises ConfigError if the usage has no such pair.
    """
    found = list[Cascade]()
    for name, model in usage.models.items():
        before = usage.models.get(model.after or "")
        if before is None or {model.source, before.source} & {RETRIEVAL, STAND_IN}:
            continue
        data, items, kept = configs[name].workload.data, before.items or 1, model.items or 1
        has_oracle = find_data(data.kind).oracle is not None
        if has_oracle and data == configs[model.after or ""].workload.data and kept < items:
            shown = min(kept, model.top_k or kept)
            found.append(Cascade(filter=model.after or "", ranker=name, items=items, kept=kept, shown=shown))
    if not found:
        raise ConfigError(
            "--train: no model ranks what another one filters: expected a benchmark 'after' another benchmark on the "
            "same generated data, which hands on fewer items than it is given ('top_k'), as in the usage scenario "
            "'cascade'."
        )
    return found


def score_split(models: Models, served: Mapping[str, Any], seed: int, num_samples: int) -> Floats:
    """Train a model on `num_samples` samples, and return its logits of the evaluation split [samples].

    Raises ConfigError where the training split holds less than a batch.
    """
    _, config = (job := Job(**served, seed=seed, folder="")).parse()
    workload: Any = config.implementation.load(job.spec(config), SingleProcess())
    workload.build()
    train_steps(workload.train, -(-num_samples // workload.global_batch_size))
    return np.asarray(workload.evaluate_with(lambda labels, logits: logits), dtype=np.float64)


def draw_items(num_samples: int, items: int, seed: int) -> Ids:
    """Draw the items of each query from `num_samples` samples, none twice in a query: [queries, items].

    Raises ConfigError where there are fewer samples than items.
    """
    if num_samples < items:
        raise ConfigError(
            f"--train: {items:,} items a query, but the evaluation split holds {num_samples:,} samples. Ask for "
            "fewer items."
        )
    rng, per_shuffle = np.random.default_rng((seed, 7)), num_samples // items
    shuffles = [rng.permutation(num_samples) for _ in range(-(-LEAST_QUERIES // per_shuffle))]
    return np.concatenate([each[: per_shuffle * items].reshape(per_shuffle, items) for each in shuffles])


def judge_lists(queries: Ids, filtering: Floats, ranking: Floats, gains: Floats, kept: int, shown: int) -> Floats:
    """Return the NDCG of the list that a cascade returns for each query: [queries]. The filter keeps the `kept` items
    of a query with the highest `filtering`. The list has the `shown` of these items with the highest `ranking`.

    `filtering`, `ranking` and `gains` have a value for each sample: [samples]. `queries` has the samples that are the
    items of each query: [queries, items]. The ideal list of the NDCG has the items of highest gain among all items of
    the query.
    """
    discounts = 1.0 / np.log2(np.arange(2, shown + 2))
    passed = _take_highest(queries, filtering, kept)
    listed, ideal = _take_highest(passed, ranking, shown), _take_highest(queries, gains, shown)
    return np.asarray((gains[listed] @ discounts) / (gains[ideal] @ discounts))


def _take_highest(items: Ids, scores: Floats, number: int) -> Ids:
    """Return the `number` items of highest score of each row, the highest first: [rows, number]."""
    order = np.argsort(-scores[items], axis=1, kind="stable")[:, :number]
    return np.take_along_axis(items, order, axis=1)


def measure_cascade(
    cascade: Cascade,
    configs: Mapping[str, RunConfig],
    served: Mapping[str, Any],
    seeds: Sequence[int],
    num_samples: int,
    num_threads: int,
) -> list[CascadePoint]:
    """Train both models of a cascade once for each seed in a fresh process, and judge the cascade at falling numbers
    of items kept."""
    data = configs[cascade.ranker].workload.data
    oracle = find_data(data.kind).oracle
    assert oracle is not None, "find_cascades has looked"
    gains = np.asarray(oracle(data, "eval")[0], dtype=np.float64)
    flop = {name: _forward_flop(configs[name]) for name in (cascade.filter, cascade.ranker)}
    sizes = {max(cascade.shown, round(share * cascade.items)) for share in _SHARES} | {cascade.kept}
    by_kept: dict[int, list[float]] = {size: [] for size in sorted(sizes, reverse=True)}
    for seed in seeds:
        with Crew(1, num_threads) as crew:
            filtering, ranking = (
                crew.ask([partial(score_split, served=served[name], seed=seed, num_samples=num_samples)])[0]
                for name in (cascade.filter, cascade.ranker)
            )
        queries = draw_items(len(gains), cascade.items, seed)
        for kept, found in by_kept.items():
            found.append(float(judge_lists(queries, filtering, ranking, gains, kept, cascade.shown).mean()))
    of_all = by_kept[cascade.items]
    return [
        CascadePoint(
            kept=kept,
            ndcg=found,
            of_all=[each / whole for each, whole in zip(found, of_all, strict=True)],
            flop_share=(kept / cascade.items)
            + (flop[cascade.filter] / flop[cascade.ranker] if kept < cascade.items else 0.0),
        )
        for kept, found in by_kept.items()
    ]


def _forward_flop(config: RunConfig) -> int:
    workload = config.workload
    return workload.costs(workload.data.num_embeddings).forward_flop_per_sample


def find_fewest(points: Sequence[CascadePoint]) -> CascadePoint:
    """Return the point of a cascade at which the filter keeps the fewest items without losing too much quality.
    `points` are ordered from all items kept to the fewest; the search ends at the first point that loses too much.

    A point loses too much if its NDCG, divided by the NDCG with all items kept, is below 1 - TOLERANCE. The lower end
    of the 95 % interval of this ratio decides, or the mean ratio if there is no interval.
    """
    best = points[0]
    for point in points[1:]:
        interval = mean_interval(point.of_all)
        if (fmean(point.of_all) if interval is None else interval.low) < 1 - TOLERANCE:
            break
        best = point
    return best


def with_cascade(
    study: StudyRecord, cascade: Cascade, points: Sequence[CascadePoint], num_samples: int
) -> StudyRecord:
    """Return the study of a usage (the models of one application) with the quality of a cascade added: a sentence,
    which comes first, and a table."""
    name = f"{cascade.filter} and {cascade.ranker}"
    rows = [(name, *_list_point(point)) for point in points]
    table = make_table("Quality of the cascade end to end, by items kept", _COLUMNS, rows)
    given = Parameter(name="training samples", value=num_samples, unit=None, source="given", note="of each model")
    return structs.replace(
        study,
        findings=(*_say(cascade, points), *study.findings),
        tables=(*study.tables[:1], table, *study.tables[1:]),
        parameters=(*study.parameters, given),
    )


def _list_point(point: CascadePoint) -> Iterator[Cell]:
    interval = mean_interval(point.ndcg)
    yield from (point.kept, fmean(point.ndcg))
    yield from (None, None) if interval is None else (interval.low, interval.high)
    yield from (fmean(point.of_all), point.flop_share)


def _say(cascade: Cascade, points: Sequence[CascadePoint]) -> Iterator[str]:
    """Say what quality a cascade has at the number of items kept in the measured usage, and the fewest items that the
    filter can keep with a loss of at most TOLERANCE."""
    chosen = next(point for point in points if point.kept == cascade.kept)
    whole, fewest = points[0], find_fewest(points)
    lists = f"lists of {cascade.shown} from {cascade.items} items"
    yield (
        f"{cascade.filter} and {cascade.ranker} end to end, {lists}: NDCG {fmean(chosen.ndcg):.3f} with "
        f"{cascade.kept} items kept, {percent(fmean(chosen.of_all))}{_between(mean_interval(chosen.of_all))} of the "
        f"{fmean(whole.ndcg):.3f} where {cascade.ranker} ranks all items, for {percent(chosen.flop_share)} of the "
        f"FLOP (measured over {len(chosen.ndcg)} trainings of each model; gains are known click probabilities)."
    )
    lost = f"an NDCG within {percent(TOLERANCE, 0)} of that with all items kept"
    if fewest is whole:
        least = f"No fewer items than all are shown to have {lost}"
    else:
        least = (
            f"{fewest.kept} is the fewest items kept that have {lost}, for {percent(fewest.flop_share)} of the FLOP: "
            f"take {cascade.filter}.top_k={fewest.kept}"
        )
    yield (
        f"{least}. RecPipe (MICRO'21) publishes that a cascade keeps quality at less compute, on other models and "
        "data; the filter's own quality sets how many items must be kept."
    )


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f" (95 % interval {percent(interval.low)} to {percent(interval.high)})"
