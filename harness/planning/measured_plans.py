"""`place --run`: what steps take by several plans, beside what the plans were predicted to cost."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from msgspec.structs import replace as change
from scipy.stats import kendalltau

from harness.config.placement import write_sharding
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_table
from harness.planning.placement import FoundPlan, Placement, PlacementQuestion, judge_plans, record_found
from reference_models.distributed.search.registry import find_search
from reference_models.process.errors import ConfigError
from reports.comparison.sweep import SweepFacts
from rules.records.kept.placement import PlacementRecord
from rules.records.study import Cell

MIN_PLANS = 10
_MOST_DRAWS = 100
_NUM_RESAMPLES = 2000
Plans = Mapping[str, tuple[PlacementRecord, float]]
"""By name, a plan and its cost in seconds."""


def list_plans(placement: Placement, question: PlacementQuestion) -> Plans:
    """List the plans that TorchRec can run, each once however devices are numbered, with random ones up to MIN_PLANS.

    Raises HarnessError (exit 7) where there is none.
    """
    (task,) = placement.tasks
    known = {name: of[0] for name, of in placement.found.items() if of[0].plan is not None}
    draw = find_search("random")
    seeds = range(question.keeper.seed + 1, question.keeper.seed + 1 + _MOST_DRAWS)
    drawn = ((f"random-{seed}", seed) for seed in seeds)
    plans: dict[str, tuple[PlacementRecord, float]] = {}
    taken: set[str] = set()

    def take(name: str, found: FoundPlan) -> None:
        if found.plan is None or found.cost_s is None:
            return
        try:
            text = _number_anew(write_sharding(task, found.plan))
        except ConfigError:  # parts of unequal width, which TorchRec cannot be given
            return
        if text not in taken:
            taken.add(text)
            plans[name] = record_found(task, found, question, placement.benchmark), found.cost_s

    for name, found in known.items():
        take(name, found)
    for name, seed in drawn:
        if len(plans) >= MIN_PLANS:
            break
        plan = draw(task, placement.costs.search, seed)
        take(name, judge_plans(placement.costs, [task], {name: [FoundPlan(search=name, plan=plan)]})[name][0])
    if not plans:
        raise HarnessError("TorchRec can run none of these plans: all cut tables unequally.", ExitCode.INCONCLUSIVE)
    return plans


def _number_anew(sharding: str) -> str:
    """Number devices in the order in which tables are on them: devices are equal."""
    head, _, text = sharding.partition(":")
    words = [part.split("+") for part in text.split(",")]
    order = {
        device: str(number)
        for number, device in enumerate(dict.fromkeys(device for each in words for device in each))
    }
    return f"{head}:" + ",".join("+".join(order[device] for device in each) for each in words)


def add_measured(placement: Placement, plans: Plans, sweep: SweepFacts) -> Placement:
    """Add to a study what was measured of the plans, and how well the predicted costs rank them."""
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
            ("Plan", None, "given"), ("Predicted cost", "s", placement.costs.origin), ("Step", "s", "measured"),
            ("Failed", None, "measured"),
        ),
        rows,
    )  # fmt: skip
    said = _correlate(pairs)
    findings = (*placement.study.findings, said)
    study = change(placement.study, tables=(*placement.study.tables, table), findings=findings)
    return replace(placement, study=study, closing=said)


def _correlate(pairs: list[tuple[float, float]]) -> str:
    """Say Kendall's tau of predicted and measured times, with its 95 % bootstrap interval over plans."""
    values = np.array(pairs)
    if len(pairs) < 3 or not np.ptp(values, axis=0).all():
        return "Too few plans differ to rank them."
    rng = np.random.default_rng(0)
    drawn = [
        kendalltau(*values[rng.integers(len(pairs), size=len(pairs))].T).statistic for _ in range(_NUM_RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    tau = kendalltau(*values.T).statistic
    none = " With 0 in it: no difference shown." if low <= 0 <= high else ""
    return (
        f"Predicted costs rank the measured steps of {len(pairs)} plans with Kendall's tau {tau:.2f} (95 % interval "
        f"{low:.2f} to {high:.2f}).{none}"
    )
