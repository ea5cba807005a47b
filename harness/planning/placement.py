"""`place`: where searches put embedding tables, and what their plans cost the slowest device."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from harness.config.catalog import refuse_without_bags
from harness.config.placement import record_plan
from harness.config.run_config import RunConfig
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_study, make_table
from harness.planning.devices import (
    list_device_parameters,
    make_devices_plan,
    plan_of_estimate,
    require_sizes,
    source_of,
    torchrec_tables,
)
from harness.planning.learnt import Keeper, learn_costs, learn_policy
from harness.planning.trace import Columns
from harness.system.resources import read_resources
from reference_models.data.traces.trace import AccessTrace
from reference_models.distributed.placement import Devices, PlannerEstimate
from reference_models.distributed.search.costs import Additive, Bandwidth, Exchange, SetCost, Sum
from reference_models.distributed.search.optimal import MAX_ENUMERATED, lower_bound
from reference_models.distributed.search.registry import SEARCHES, find_search
from reference_models.distributed.search.task import Plan, Table, Task
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks, read_tasks, task_of
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.registry import find_model
from reports.text.formatting import duration, percent
from rules.benchmarks.loader import Benchmark
from rules.records.kept.placement import PlacementRecord
from rules.records.study import Parameter, Scalar, Source, StudyRecord, StudyTable

TORCHREC = "torchrec"
HEURISTICS = ("random", "dim", "lookup", "size_lookup", "greedy")
PUBLISHED = "up to 23.8 %, other tasks"
"""NeuroShard's abstract (MLSys'23): improvement of the embedding cost over the best baseline."""
_NUM_RESAMPLES = 9999
_OPTIMUM = "optimum"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementQuestion:
    """What is asked: which searches, by which cost, for which devices."""

    by: tuple[str, ...]
    devices: Devices
    given: Collection[str]
    """Members of `devices` that the user gave."""
    keeper: Keeper
    cost: Literal["bandwidth", "torchrec", "measured", "net"] = "bandwidth"
    num_measured: int | None = None
    """Sets of tables that a net is trained on after those of the bandwidths; None: none is measured."""
    on_progress: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What searches minimise, what plans are judged by, and what is shown beside that."""

    search: SetCost
    judge: SetCost
    predicted: SetCost | None
    modelled: SetCost
    """By the bandwidths, which AutoShard's policy is trained by."""
    origin: Literal["measured", "modelled"] = "modelled"
    """Origin of what plans are judged by."""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPlan:
    """A plan that one search found for one task, and what it costs; or why there is none."""

    search: str
    plan: Plan | None = None
    cost_s: float | None = None
    balance: float | None = None
    predicted_s: float | None = None
    took_s: float | None = None
    fault: Exception | None = None

    def sets(self, task: Task) -> list[list[Table]]:
        """Return the tables that each device holds by the plan; nothing where its cost is known, or there is none."""
        return self.plan.sets(task) if self.plan is not None and self.cost_s is None else []


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """All that was found: by search and task, with the study that says so."""

    tasks: tuple[Task, ...]
    found: dict[str, list[FoundPlan]]
    costs: Costs
    benchmark: Benchmark | None
    study: StudyRecord
    closing: str
    """Which search has the cheapest plans, in a sentence."""

    @property
    def best(self) -> FoundPlan | None:
        """Return the cheapest plan of the first task; None where no search has one whose cost is known."""
        known = [each[0] for each in self.found.values() if each[0].plan is not None and each[0].cost_s is not None]
        return min(known, key=lambda each: each.cost_s or 0.0, default=None)


def refuse_searches(by: Sequence[str]) -> None:
    """Raise ConfigError for a search that there is not."""
    known = [*SEARCHES, TORCHREC]
    for name in by:
        if name not in known:
            raise ConfigError(f"--by {name!r}: there is no such search.{did_you_mean(name, known)}")


def task_of_benchmark(config: RunConfig, question: PlacementQuestion, trace: AccessTrace | None) -> Task:
    """Return the task that the tables of a benchmark are on so many devices. Raises ConfigError or DatasetError."""
    workload, devices = config.workload, question.devices
    refuse_without_bags(workload, "place")
    rows = require_sizes(config, question.keeper.data_root)[2]
    empty = Task(
        name=config.benchmark.name, tables=(), num_devices=devices.num_devices, memory_bytes=devices.memory_bytes,
        batch_size=workload.train.global_batch_size,
    )  # fmt: skip
    return task_of(empty, workload.data.mapped, rows, workload.costs(rows).row_width, workload.train.opt_name, trace)


def make_tasks(
    question: PlacementQuestion, num_tasks: int | None, file: Path | None, tables: Path | None
) -> list[Task]:
    """Generate so many of NeuroShard's tasks, or read those of a file. Raises ConfigError or DatasetError."""
    devices = question.devices
    empty = replace(NEUROSHARD, num_devices=devices.num_devices, memory_bytes=devices.memory_bytes)
    if file is not None and tables is not None:
        return read_tasks(file, tables, empty)
    return generate_tasks(num_tasks or 1, question.keeper.seed, empty)


def record_best(placement: Placement, question: PlacementQuestion) -> PlacementRecord:
    """Make the record of the cheapest plan. Raises HarnessError (exit 7) where no cost of any plan is known."""
    if placement.best is None:
        raise HarnessError("no search has a plan whose cost is known: there is none to keep.", ExitCode.INCONCLUSIVE)
    return record_found(placement.tasks[0], placement.best, question, placement.benchmark)


def record_found(
    task: Task, found: FoundPlan, question: PlacementQuestion, benchmark: Benchmark | None
) -> PlacementRecord:
    """Make the record of a plan that was found."""
    assert found.plan is not None
    of = {"benchmark": benchmark.name, "definition_sha256": benchmark.definition_sha256} if benchmark else {}
    asked = {"search": found.search, "cost": question.cost, "seed": question.keeper.seed}
    return record_plan(task, found.plan, **{"benchmark": None, "definition_sha256": None, **of, **asked})


def search_plans(question: PlacementQuestion, tasks: Sequence[Task], config: RunConfig | None) -> Placement:
    """Search plans of tasks, which are those of a benchmark or of none.

    Raises the first search's error where no search has a plan; of several searches a row says why one has none.
    """
    costs = _make_costs(question, tasks)
    policy = None
    if "autoshard" in question.by:
        policy = learn_policy(question.keeper, costs.modelled, tasks[0].batch_size)
    estimate: PlannerEstimate | None = None
    found: dict[str, list[FoundPlan]] = {}
    for name in question.by:
        if name == TORCHREC:
            each, estimate = _ask_torchrec(question, tasks[0], config)
            found[name] = [each] * len(tasks)
        else:
            found[name] = [_search(question, costs, name, task, policy) for task in tasks]
    faults = [each.fault for of in found.values() for each in of]
    if None not in faults and estimate is None:
        raise next(fault for fault in faults if fault is not None)
    is_small = all(len(task.tables) <= MAX_ENUMERATED for task in tasks) and costs.origin == "modelled"
    if is_small:
        exact = replace(costs, search=costs.judge)
        found[_OPTIMUM] = [_search(question, exact, "optimal", task, None) for task in tasks]
    found = judge_plans(costs, tasks, found)
    bounds = [each.cost_s for each in found.pop(_OPTIMUM, ())] or [lower_bound(task, costs.judge) for task in tasks]
    table, closing = _compare(question, costs, found, bounds, is_small=is_small)
    tables, findings, checks = [table], [closing, *costs.findings], []
    if estimate is not None and config is not None:
        more, said, check = torchrec_tables(config, estimate)
        tables, findings, checks = [table, *more], [*findings, *said], [check]
    study = make_study(
        "place",
        f"{config.benchmark.name if config else f'{len(tasks)} tasks'}: tables over {question.devices.num_devices} "
        f"{question.devices.device_type} devices",
        config.benchmark if config else None,
        findings=findings,
        tables=tables,
        parameters=[
            *list_device_parameters(question.devices, question.given),
            *_list_parameters(question, tasks[0], config),
        ],
        checks=checks,
        seed=question.keeper.seed,
    )
    benchmark = config.benchmark if config else None
    return Placement(tasks=tuple(tasks), found=found, costs=costs, benchmark=benchmark, study=study, closing=closing)


def _make_costs(question: PlacementQuestion, tasks: Sequence[Task]) -> Costs:
    batch_size = tasks[0].batch_size
    memory = Bandwidth(batch_size=batch_size, memory_bandwidth=question.devices.memory_bandwidth)
    exchange = Exchange(batch_size=batch_size, devices=question.devices)
    bandwidth = Sum((memory, exchange))
    if question.cost == "bandwidth":
        return Costs(search=bandwidth, judge=bandwidth, predicted=None, modelled=bandwidth)
    if question.cost == TORCHREC:
        make = find_model("dlrm").table_cost
        assert make is not None
        estimated = Additive(make(batch_size=batch_size, devices=question.devices))
        return Costs(search=estimated, judge=estimated, predicted=None, modelled=bandwidth)
    if question.cost == "measured":
        search, judge = (Sum((_measured(question, batch_size), exchange)) for _ in range(2))
        return Costs(search=search, judge=judge, predicted=bandwidth, modelled=bandwidth, origin="measured")
    from reference_models.distributed.search.net import choose

    true: SetCost = memory if question.num_measured is None else _measured(question, batch_size)
    tables = [*dict.fromkeys(table for task in tasks for table in task.tables)]
    net = learn_costs(question.keeper, memory, true, tables, question.num_measured)
    chosen = choose(net, true)
    finding = (
        f"On sets of tables that it was not trained on the cost net ranks with Kendall's tau {net.tau:.3f}, adding "
        f"single tables up with {net.additive_tau:.3f}: {'the net is' if chosen is net else 'the sum is'} used."
    )
    search = Sum((chosen, exchange))
    judge = Sum((true, exchange))
    return Costs(
        search=search, judge=judge, predicted=search, modelled=bandwidth, findings=(finding,),
        origin="modelled" if question.num_measured is None else "measured",
    )  # fmt: skip


def _measured(question: PlacementQuestion, batch_size: int) -> SetCost:
    from reference_models.distributed.search.measured import MeasuredCost

    free = read_resources().available_memory_bytes
    return MeasuredCost(batch_size=batch_size, available_bytes=free, seed=question.keeper.seed)


def _search(question: PlacementQuestion, costs: Costs, name: str, task: Task, policy: object) -> FoundPlan:
    search, start_s = find_search(name), time.perf_counter()
    more = {} if name != "autoshard" else {"policy": policy}
    try:
        plan = search(task, costs.search, question.keeper.seed, **more)
    except ConfigError as error:
        return FoundPlan(search=name, fault=error)
    return FoundPlan(search=name, plan=plan, took_s=time.perf_counter() - start_s)


def judge_plans(costs: Costs, tasks: Sequence[Task], found: dict[str, list[FoundPlan]]) -> dict[str, list[FoundPlan]]:
    """Say what each plan costs. What is measured is measured anew, of all plans in turns."""
    sets = {(name, at): of[at].sets(task) for name, of in found.items() for at, task in enumerate(tasks)}
    sets = {key: each for key, each in sets.items() if each}
    together = [tables for each in sets.values() for tables in each]
    seconds = [costs.judge(together), *([] if costs.predicted is None else [costs.predicted(together)])]
    done = {name: [*of] for name, of in found.items()}
    ends = np.cumsum([len(each) for each in sets.values()], dtype=int)[:-1]
    for (name, at), device_s, *predicted in zip(sets, *(np.split(each, ends) for each in seconds), strict=False):
        slowest_s, mean_s = float(device_s.max()), float(device_s.mean())
        predicted_s = float(predicted[0].max()) if predicted else None
        done[name][at] = replace(
            done[name][at], cost_s=slowest_s, balance=slowest_s / mean_s, predicted_s=predicted_s
        )
    return done


def _ask_torchrec(
    question: PlacementQuestion, task: Task, config: RunConfig | None
) -> tuple[FoundPlan, PlannerEstimate | None]:
    try:
        if config is None:
            raise ConfigError("TorchRec's planner plans the model of a benchmark, and these tasks are of none.")
        if (make := config.workload.model_spec.table_cost) is not None:
            make(batch_size=task.batch_size, devices=question.devices)  # imports TorchRec, which is no search
        start_s = time.perf_counter()
        estimate = make_devices_plan(config, question.devices, question.keeper.data_root, question.on_progress)
    except ConfigError as error:
        return FoundPlan(search=TORCHREC, fault=error), None
    found = FoundPlan(search=TORCHREC, plan=plan_of_estimate(estimate), took_s=time.perf_counter() - start_s)
    if question.cost == TORCHREC:
        found = replace(found, cost_s=estimate.step_s, balance=estimate.balance)
    elif found.plan is None:
        why = ConfigError(
            "It also cuts rows or copies tables, which this cost does not know; --set runtime.sharding=table_wise "
            "keeps them whole."
        )
        found = replace(found, fault=why)
    return found, estimate


def _list_parameters(question: PlacementQuestion, task: Task, config: RunConfig | None) -> list[Parameter]:
    batch = source_of(config, "train.global_batch_size") if config else "default"
    rows: list[tuple[str, Scalar, Source]] = [
        ("cost", question.cost, "default" if question.cost == "bandwidth" else "given"),
        ("global batch size", task.batch_size, batch),
    ]
    if question.cost == "measured" or question.num_measured is not None:
        rows.append(("lookups and updates", "timed on one thread of this CPU; the exchange is modelled", "measured"))
    if config is not None and TORCHREC in question.by:
        sharding = config.workload.runtime.sharding
        rows.append(("sharding asked of TorchRec", sharding, source_of(config, "runtime.sharding")))
    return [Parameter(name=name, value=value, unit=None, source=source, note=None) for name, value, source in rows]


def _compare(
    question: PlacementQuestion,
    costs: Costs,
    found: dict[str, list[FoundPlan]],
    bounds: Sequence[float | None],
    *,
    is_small: bool,
) -> tuple[StudyTable, str]:
    """Compare the searches over all tasks, in a table and in a sentence; `bounds` are optima, or lower bounds."""
    origin = costs.origin
    least = np.array(bounds, np.float64)
    cost = {name: np.array([each.cost_s for each in of], np.float64) for name, of in found.items()}
    whole = {name: float(of.mean()) for name, of in cost.items() if not np.isnan(of).any()}
    base = min((name for name in whole if name in HEURISTICS), key=whole.__getitem__, default=None)
    rng = np.random.default_rng(question.keeper.seed)
    rows = []
    for name, of in found.items():
        placed = ~np.isnan(cost[name])
        gain = cost[base][placed] / cost[name][placed] - 1 if base else np.array([])
        rows.append(
            (
                name, int(placed.sum()), _mean(cost[name]), _mean([each.balance for each in of]),
                _mean(cost[name] / least - 1), _mean([each.took_s for each in of]),
                any(each.plan is not None and each.plan.is_cut for each in of), _mean(gain), *_interval(gain, rng),
                PUBLISHED if name == "neuroshard" else None, _mean([each.predicted_s for each in of]),
                next((str(each.fault) for each in of if each.fault is not None), None),
            )
        )  # fmt: skip
    columns: Columns = (
        ("Search", None, "given"), ("Tasks", None, "computed"), ("Cost", "s", origin), ("Balance", None, origin),
        ("Over the optimum" if is_small else "Over the bound of whole tables", "share", origin),
        ("Search time", "s", "measured"), ("Cuts tables", None, "computed"),
        (f"Faster than {base or 'a heuristic'}", "share", origin), ("From", "share", origin), ("To", "share", origin),
        ("Published", None, "published"), ("Predicted cost", "s", "modelled"), ("Why it has none", None, "computed"),
    )  # fmt: skip
    kept = [at for at in range(len(columns)) if at < 6 or any(row[at] is not None for row in rows)]
    table = make_table(
        "Plans: the slowest device's embeddings per step" + (", means over the tasks" if len(bounds) > 1 else ""),
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
    )
    pairs = [(each.predicted_s, each.cost_s) for of in found.values() for each in of if each.predicted_s is not None]
    tau = float(kendalltau(*zip(*pairs, strict=True)).statistic) if len(pairs) > 2 else np.nan
    said = "" if np.isnan(tau) else f" Predicted and {origin} costs of {len(pairs)} plans: Kendall's tau {tau:.2f}."
    return table, _close(whole, base, origin) + said


def _mean(values: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    known = np.array([value for value in values if value is not None], np.float64)
    return float(np.nanmean(known)) if known.size and not np.isnan(known).all() else None


def _interval(gains: NDArray[np.float64], rng: np.random.Generator) -> tuple[float | None, float | None]:
    """Return the 95 % bootstrap interval of a mean over tasks; None of fewer than two, or where all are alike."""
    if len(gains) < 2 or not np.ptp(gains):
        return None, None
    means = rng.choice(gains, (_NUM_RESAMPLES, len(gains))).mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975)).tolist()
    return low, high


def _close(whole: dict[str, float], base: str | None, origin: str) -> str:
    """Say in a sentence whose plans are the cheapest, of the searches that placed all tasks."""
    if not whole:
        return "No search has a plan of every task whose cost is known."
    name = min(whole, key=whole.__getitem__)
    alike = [other for other in whole if other != name and whole[other] == whole[name]]
    also = f" (as by {', '.join(alike)})" if alike else ""
    than = f", {percent(1 - whole[name] / whole[base])} less than by {base}" if base not in (None, name) else ""
    found = f"{name}{also}: {duration(whole[name])} a step on the slowest device ({origin}){than}"
    if origin == "measured":
        return f"Lowest by {found}; sets were measured once more, which is no verdict: --run measures steps."
    return f"Cheapest by {found}."
