"""Measure step times of several placement plans for `place --run`, and compare them with the plans' predicted
costs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import isclose, isnan, nan

from msgspec.structs import replace as change
from scipy.stats import kendalltau

from harness.config.sharding_plan import write_sharding
from harness.extensions.placement.compared import FoundPlan, judge_plans
from harness.extensions.placement.plans import Placement, PlacementQuestion
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_table
from reference_models.distributed.search.registry import find_search
from reference_models.process.errors import ConfigError
from reports.comparison.sweep import SweepFacts
from rules.records.study import Cell

MAX_PLANS = 10
_MOST_DRAWS = 100
_LEAST_RANKED = 5
"""Minimum number of plans for a correlation of predicted with measured times. With fewer plans, the p-value is above
5 % even if both times rank the plans alike."""
Plans = Mapping[str, tuple[str, float]]
"""Placement plans by name: the value of `runtime.sharding`, and the predicted cost in seconds."""


def list_plans(placement: Placement, question: PlacementQuestion) -> Plans:
    """List placement plans that a training run can use, at most MAX_PLANS: first the plans found, then random plans.
    No two of them have equal cost.

    Raises HarnessError (exit 7) if no plan can be used.
    """
    (task,) = placement.tasks
    draw, cost, first = find_search("random"), placement.costs.make_search(), question.learnt.seed + 1
    plans: dict[str, tuple[str, float]] = {}

    def take(name: str, found: FoundPlan) -> None:
        cost_s = found.cost_s
        if found.plan is None or cost_s is None or any(isclose(cost_s, of[1], rel_tol=1e-6) for of in plans.values()):
            return
        with suppress(ConfigError):  # a run would refuse this plan
            plans[name] = write_sharding(task, found.plan), cost_s

    for name, of in placement.found.items():
        take(name, of[0])
    for seed in range(first, first + _MOST_DRAWS):
        if len(plans) >= MAX_PLANS:
            break
        with suppress(ConfigError):  # this random order leaves a table without room
            drawn = FoundPlan(search="random", plan=draw(task, cost, seed))
            take(f"random-{seed}", judge_plans(placement.costs, [task], {"random": [drawn]})["random"][0])
    if not plans:
        raise HarnessError(
            "no plan can be run: each cuts tables in a way that a run refuses. Add --by lookup, which cuts none.",
            ExitCode.INCONCLUSIVE,
        )
    return plans


def add_measured(placement: Placement, plans: Plans, sweep: SweepFacts) -> Placement:
    """Add two things to a study: the plans' measured step times, and the rank correlation of measured step times with
    predicted costs."""
    batch_size = placement.tasks[0].batch_size
    rows: list[tuple[Cell, ...]] = []
    pairs = []
    for name, row in zip(["auto", *plans], sweep.rows, strict=True):
        rate, cost_s = row.throughput, plans[name][1] if name in plans else None
        step_s = None if rate is None else batch_size / rate.geometric_mean
        rows.append((name, cost_s, step_s, row.failure))
        if cost_s is not None and step_s is not None:
            pairs.append((cost_s, step_s))
    table = make_table(
        f"Steps of {placement.tasks[0].num_devices} ranks, one thread each, in one process a plan",
        (
            ("Plan", None, "given"),
            ("Predicted cost", "s", placement.costs.origin),
            ("Step", "s", "measured"),
            ("Failed", None, "measured"),
        ),
        rows,
    )
    said = f"{len(pairs)} of {len(plans)} plans were measured. {_correlate(pairs)}"
    tables, findings = (*placement.study.tables, table), (said, *placement.study.findings)
    return replace(placement, study=change(placement.study, tables=tables, findings=findings))


def _correlate(pairs: list[tuple[float, float]]) -> str:
    """Return words on the rank correlation of the plans' predicted costs with their measured steps: Kendall's tau,
    and whether its exact test shows that it differs from 0."""
    tau, chance = kendalltau(*zip(*pairs, strict=True)) if len(pairs) >= _LEAST_RANKED else (nan, nan)
    if isnan(tau):
        return f"No rank correlation is shown: {_LEAST_RANKED} plans of different costs and steps are needed for one."
    shown = "No" if chance > 0.05 else "A positive" if tau > 0 else "A negative"
    said = f"{shown} rank correlation of predicted costs and measured steps is shown"
    return f"{said}: Kendall's tau {tau:.2f}, p = {chance:.2g}."
