"""Where searches put embedding tables, and what their plans cost the slowest device."""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from harness.config.catalog import refuse_without_bags
from harness.config.placement import record_plan, write_sharding
from harness.config.run_config import RunConfig
from harness.extensions.placement.devices import (
    list_device_parameters,
    make_devices_plan,
    plan_of_estimate,
    torchrec_tables,
)
from harness.extensions.placement.learnt import Keeper, learn_costs, learn_policy
from harness.extensions.placement.shown import SAME, find_cheapest
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import Columns, make_study, make_table
from harness.planning.plan import require_table_rows, source_of
from harness.run_sets.environment import Environment
from harness.system.resources import read_resources
from reference_models.data.traces.trace import AccessTrace
from reference_models.distributed.placement import Devices, PlannerEstimate
from reference_models.distributed.search.costs import DEVICE_S, TABLE_S, Additive, Bandwidth, Exchange, SetCost, Sum
from reference_models.distributed.search.optimal import MAX_ENUMERATED, lower_bound
from reference_models.distributed.search.registry import TORCHREC, find_search
from reference_models.distributed.search.task import Plan, Table, Task
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks, read_tasks, task_of
from reference_models.process.errors import ConfigError
from reference_models.registry import find_model
from reports.statistics.intervals import mean_interval
from reports.text.formatting import duration, percent
from rules.records.kept.placement import PlanRecord
from rules.records.study import Parameter, Scalar, Source, StudyRecord, StudyTable

if TYPE_CHECKING:
    from reference_models.distributed.search.measured import MeasuredCost

NUM_GENERATED = 10
HEURISTICS = ("random", "dim", "lookup", "size_lookup", "greedy")
PUBLISHED = "up to 23.8 %, other tasks"
"""NeuroShard's abstract (MLSys'23): improvement of the embedding cost over the best baseline."""
MOST_EVEN = 1.1
"""Balance up to which nothing is said of it."""
_TIMED = "timed on one thread of this CPU; the exchange is modelled"
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

    @property
    def is_measured(self) -> bool:
        """Whether sets of tables are measured here."""
        return self.cost == "measured" or self.num_measured is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What searches minimise, what plans are judged by, and what is shown beside that."""

    make_search: Callable[[], SetCost]
    """Makes what is minimised, for each search anew: none knows, or holds in memory, what another has measured."""
    judge: SetCost
    modelled: SetCost
    """By the bandwidths, which AutoShard's policy is trained by."""
    predicted: SetCost | None = None
    origin: Literal["measured", "modelled"] = "modelled"
    """Origin of what plans are judged by."""
    spread_of: Callable[[Collection[Table]], float | None] = lambda tables: None
    """How far apart the rounds lay in which a set of tables was measured, as a fraction of their median."""
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
    spread: float | None = None
    """How far apart the rounds lay in which the slowest device's tables were measured."""
    fault: Exception | None = None
    note: str | None = None
    """What must be known of the plan beside its cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """All that was found: by search and task, with the study whose first finding says in a sentence what."""

    tasks: tuple[Task, ...]
    found: dict[str, list[FoundPlan]]
    costs: Costs
    study: StudyRecord


def task_of_benchmark(config: RunConfig, question: PlacementQuestion, trace: AccessTrace | None) -> Task:
    """Return the task that the tables of a benchmark are on so many devices. Raises ConfigError or DatasetError."""
    workload, devices = config.workload, question.devices
    refuse_without_bags(workload, "place")
    rows = require_table_rows(config, question.keeper.data_root)
    empty = Task(
        name=config.benchmark.name,
        tables=(),
        num_devices=devices.num_devices,
        memory_bytes=devices.memory_bytes,
        batch_size=workload.train.global_batch_size,
    )
    return task_of(empty, workload.data.mapped, rows, workload.costs(rows).row_width, workload.train.opt_name, trace)


def make_tasks(question: PlacementQuestion, number: int | None, files: tuple[Path, Path] | None) -> list[Task]:
    """Generate so many of NeuroShard's tasks, or read the first ones of a file; `files` are tasks and their tables.

    None stands for NUM_GENERATED, or all that the file has. Raises ConfigError or DatasetError.
    """
    devices = question.devices
    empty = replace(NEUROSHARD, num_devices=devices.num_devices, memory_bytes=devices.memory_bytes)
    if files is None:
        return generate_tasks(NUM_GENERATED if number is None else number, question.keeper.seed, empty)
    return read_tasks(*files, empty)[:number]


def record_best(placement: Placement, question: PlacementQuestion) -> tuple[PlanRecord, str]:
    """Make the record of the cheapest plan that can be run; say after a semicolon each why cheaper ones cannot.

    Raises HarnessError (exit 7) where no plan whose cost is known can be run.
    """
    task, of, skipped = placement.tasks[0], placement.study, ""
    made = {
        "cost": question.cost,
        "seed": of.seed,
        "benchmark": of.benchmark,
        "definition_sha256": of.definition_sha256,
    }
    known = [each[0] for each in placement.found.values() if each[0].plan is not None and each[0].cost_s is not None]
    least = find_cheapest({each.search: each.cost_s or 0.0 for each in known})
    for found in sorted(known, key=lambda each: 0.0 if each.search in least else each.cost_s or 0.0):
        assert found.plan is not None
        try:
            write_sharding(task, found.plan)
            return record_plan(task, found.plan, search=found.search, **made), skipped
        except ConfigError as error:
            skipped += f"; that of {found.search} costs no more and cannot be run: {error}"
    why = f"no search has one whose cost is known and that can be run{skipped or '.'}"
    raise HarnessError(f"there is no plan to keep: {why}", ExitCode.INCONCLUSIVE)


def search_plans(question: PlacementQuestion, tasks: Sequence[Task], config: RunConfig | None) -> Placement:
    """Search plans of tasks, which are those of a benchmark or of none.

    Where sets of tables are measured here, the study has the environment check, which warns on standard error, and
    the load meanwhile. Raises the first search's error where no search has a plan; of several searches a row says why
    one has none.
    """
    if not question.is_measured:
        return _search_plans(question, tasks, config)
    environment = Environment.check(question.keeper.data_root)
    with environment.measuring():
        placement = _search_plans(question, tasks, config)
    return replace(placement, study=environment.put_on(placement.study))


def _search_plans(question: PlacementQuestion, tasks: Sequence[Task], config: RunConfig | None) -> Placement:
    for name in question.by:
        if name != TORCHREC:
            find_search(name)
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
        exact = replace(costs, make_search=lambda: costs.judge)
        found[_OPTIMUM] = [_search(question, exact, "optimal", task, None) for task in tasks]
    found = judge_plans(costs, tasks, found)
    bounds = [each.cost_s for each in found.pop(_OPTIMUM, ())] or [lower_bound(task, costs.judge) for task in tasks]
    table, closing = _compare(question, costs, found, bounds, is_small=is_small)
    notes = dict.fromkeys(f"{each.search}: {each.note}" for of in found.values() for each in of if each.note)
    tables = [table, *(_list_cheapest(tasks[0], found, costs, estimate) if len(tasks) == 1 else ())]
    findings, checks = [closing, *notes, *costs.findings], []
    if estimate is not None and config is not None:
        more, said, check = torchrec_tables(config, estimate)
        tables, findings, checks = [*tables, *more], [*findings, *said], [check]
    study = make_study(
        "place",
        f"{config.benchmark.name if config else f'{len(tasks)} tasks'} on {question.devices.num_devices} "
        f"{question.devices.device_type} devices: {_as_clause(closing)}",
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
    return Placement(tasks=tuple(tasks), found=found, costs=costs, study=study)


def _make_costs(question: PlacementQuestion, tasks: Sequence[Task]) -> Costs:
    batch_size = tasks[0].batch_size
    memory = Bandwidth(batch_size=batch_size, memory_bandwidth=question.devices.memory_bandwidth)
    exchange = Exchange(batch_size=batch_size, devices=question.devices)
    bandwidth = Sum((memory, exchange))
    if question.cost == "bandwidth":
        return Costs(make_search=lambda: bandwidth, judge=bandwidth, modelled=bandwidth)
    if question.cost == TORCHREC:
        make = find_model("dlrm").table_cost
        assert make is not None
        estimate = partial(make, batch_size=batch_size, devices=question.devices)
        return Costs(make_search=lambda: Additive(estimate()), judge=Additive(estimate()), modelled=bandwidth)

    def make_true() -> SetCost:
        return _measure_sets(question, batch_size) if question.is_measured else memory

    judged = partial(Costs, judge=Sum((make_true(), exchange)), modelled=bandwidth)
    if question.is_measured:
        true = _measure_sets(question, batch_size)
        judged = partial(judged, judge=Sum((true, exchange)), origin="measured", spread_of=true.spread_of)
    if question.cost == "measured":
        return judged(make_search=lambda: Sum((make_true(), exchange)), predicted=bandwidth)
    from reference_models.distributed.search.net import choose

    tables = [*dict.fromkeys(table for task in tasks for table in task.tables)]
    net = learn_costs(question.keeper, memory, make_true(), tables, question.num_measured)
    used = "the net is" if choose(net, memory) is net else "the sum is"
    finding = (
        f"On sets of tables that it was not trained on the cost net ranks with Kendall's tau {net.tau:.3f}, adding "
        f"single tables up with {net.additive_tau:.3f}: {used} used."
    )

    def make_search() -> SetCost:
        return Sum((choose(net, make_true()), exchange))

    return judged(make_search=make_search, predicted=make_search(), findings=(finding,))


def _measure_sets(question: PlacementQuestion, batch_size: int) -> "MeasuredCost":
    """Return what measures sets of tables, and knows none yet."""
    from reference_models.distributed.search.measured import MeasuredCost

    free = read_resources().available_memory_bytes
    return MeasuredCost(batch_size=batch_size, available_bytes=free, seed=question.keeper.seed)


def _search(question: PlacementQuestion, costs: Costs, name: str, task: Task, policy: object) -> FoundPlan:
    search, start_s = find_search(name), time.perf_counter()
    more = {} if name != "autoshard" else {"policy": policy}
    try:
        plan = search(task, costs.make_search(), question.keeper.seed, **more)
    except ConfigError as error:
        return FoundPlan(search=name, fault=error)
    return FoundPlan(search=name, plan=plan, took_s=time.perf_counter() - start_s)


def judge_plans(costs: Costs, tasks: Sequence[Task], found: dict[str, list[FoundPlan]]) -> dict[str, list[FoundPlan]]:
    """Say what each plan costs. What is measured is measured anew, of all plans in turns."""
    sets = {
        (name, at): each.plan.sets(tasks[at])
        for name, of in found.items()
        for at, each in enumerate(of)
        if each.plan is not None and each.cost_s is None
    }
    together = [tables for each in sets.values() for tables in each]
    seconds = [costs.judge(together), *([] if costs.predicted is None else [costs.predicted(together)])]
    done = {name: [*of] for name, of in found.items()}
    ends = np.cumsum([len(each) for each in sets.values()], dtype=int)[:-1]
    for (name, at), device_s, *predicted in zip(sets, *(np.split(each, ends) for each in seconds), strict=False):
        slowest_s, mean_s = float(device_s.max()), float(device_s.mean())
        predicted_s = float(predicted[0].max()) if predicted else None
        done[name][at] = replace(
            done[name][at],
            cost_s=slowest_s,
            balance=slowest_s / mean_s,
            predicted_s=predicted_s,
            spread=costs.spread_of(sets[name, at][int(device_s.argmax())]),
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
        found = _ask_for_whole_tables(question, config)
    return found, estimate


def _ask_for_whole_tables(question: PlacementQuestion, config: RunConfig) -> FoundPlan:
    """Ask TorchRec for a plan of whole tables in place of its own, or say why there is none."""
    own = "its planner's choice also cuts rows or copies tables, which this cost does not know"
    start_s = time.perf_counter()
    try:
        whole = make_devices_plan(
            config, question.devices, question.keeper.data_root, question.on_progress, sharding="table_wise"
        )
    except ConfigError as error:
        return FoundPlan(search=TORCHREC, fault=ConfigError(f"{own}, and it has none of whole tables: {error}"))
    plan, took_s = plan_of_estimate(whole), time.perf_counter() - start_s
    if plan is None:
        return FoundPlan(search=TORCHREC, fault=ConfigError(f"{own}, and it has none of whole tables."))
    return FoundPlan(search=TORCHREC, plan=plan, took_s=took_s, note=f"{own}; this plan of it is of whole tables.")


def _list_parameters(question: PlacementQuestion, task: Task, config: RunConfig | None) -> list[Parameter]:
    batch = source_of(config, "train.global_batch_size") if config else "default"
    rows: list[tuple[str, Scalar, str | None, Source]] = [
        ("cost", question.cost, None, "default" if question.cost == "bandwidth" else "given"),
        ("global batch size", task.batch_size, None, batch),
    ]
    if question.cost != TORCHREC or "autoshard" in question.by:
        rows.append(("fixed time of a device that holds tables, assumed", DEVICE_S, "s", "default"))
        rows.append(("fixed time of a table, assumed", TABLE_S, "s", "default"))
    if question.is_measured:
        rows.append(("lookups and updates", _TIMED, None, "measured"))
    if config is not None and TORCHREC in question.by:
        sharding = config.workload.runtime.sharding
        rows.append(("sharding asked of TorchRec", sharding, None, source_of(config, "runtime.sharding")))
    return [Parameter(name=name, value=value, unit=unit, source=of, note=None) for name, value, unit, of in rows]


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
    base = next(iter(find_cheapest({name: whole[name] for name in whole if name in HEURISTICS})), None)
    rows = []
    for name, of in found.items():
        placed = ~np.isnan(cost[name])
        gain = _share_over(cost[base][placed], cost[name][placed]) if base else np.array([])
        interval = None if name == base else mean_interval(gain)
        rows.append(
            (
                name,
                int(placed.sum()),
                whole.get(name),
                _mean([each.balance for each in of]),
                _mean(_share_over(cost[name], least)),
                _mean([each.took_s for each in of]),
                any(each.plan is not None and each.plan.is_cut for each in of),
                _mean(gain),
                *((interval.low, interval.high) if interval else (None, None)),
                PUBLISHED if name == "neuroshard" else None,
                _mean([each.predicted_s for each in of]),
                max((each.spread for each in of if each.spread is not None), default=None),
                next((str(each.fault) for each in of if each.fault is not None), None),
            )
        )
    columns: Columns = (
        ("Search", None, "given"), ("Tasks", None, "computed"), ("Cost", "s", origin), ("Balance", None, origin),
        ("Over the optimum" if is_small else "Over the bound of whole tables", "share", origin),
        ("Search time", "s", "measured"), ("Cuts tables", None, "computed"),
        (f"Faster than {base or 'a heuristic'}", "share", origin), ("From", "share", origin), ("To", "share", origin),
        ("Published", None, "published"), ("Predicted cost", "s", "modelled"),
        ("Spread of rounds", "share", "measured"), ("Why it has none", None, "computed"),
    )  # fmt: skip
    kept = [at for at in range(len(columns)) if at < 6 or any(row[at] is not None for row in rows)]
    table = make_table(
        "Plans: the slowest device's embeddings per step" + (", means over the tasks" if len(bounds) > 1 else ""),
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
    )
    by_task = zip(*found.values(), strict=True)
    pairs = [{(each.predicted_s, each.cost_s) for each in of if each.predicted_s} for of in by_task]
    taus = [float(kendalltau(*zip(*each, strict=True)).statistic) for each in pairs if len(each) > 2]
    tau, over = _mean(taus), f", the mean over {len(taus)} tasks" if len(taus) > 1 else ""
    of_plans = f"Predicted and {origin} costs of {sum(map(len, pairs))} plans"
    said = "" if tau is None else f" {of_plans}: Kendall's tau {tau:.2f}{over}."
    reached = [name for name in whole if not _share_over(cost[name], least).any()]
    bound = "optimum" if is_small else "bound"
    balance = {name: _mean([each.balance for each in of]) for name, of in found.items()}
    return table, _close(whole, base, origin, dict.fromkeys(reached, bound), balance) + said


def _list_cheapest(
    task: Task, found: Mapping[str, Sequence[FoundPlan]], costs: Costs, estimate: PlannerEstimate | None
) -> list[StudyTable]:
    """List where the plan that is called the cheapest has each table, and what each device holds by it.

    There is none of TorchRec's own plan, which has tables of its own, nor where no plan is known.
    """
    known = {name: of[0].cost_s for name, of in found.items() if of[0].cost_s is not None}
    name = next(iter(find_cheapest(known)), "")
    plan = found[name][0].plan if name else None
    if plan is None or (estimate is not None and plan == plan_of_estimate(estimate)):
        return []
    shards = [[shard for shard in plan.shards if shard.table == number] for number in range(len(task.tables))]
    places: Columns = (
        ("Table", None, "given"), ("Rows", None, "given"), ("Columns", None, "given"), ("Shards", None, "computed"),
        ("Shard columns", None, "computed"), ("Devices", None, "computed"),
    )  # fmt: skip
    of_tables = [
        (number, table.num_embeddings, table.dim, len(of), max(shard.num_columns for shard in of),
         tuple(shard.device for shard in of))
        for number, (table, of) in enumerate(zip(task.tables, shards, strict=True))
    ]  # fmt: skip
    sets = plan.sets(task)
    device_s = costs.judge(sets).tolist() if costs.origin == "modelled" else [None] * len(sets)
    loads: Columns = (
        ("Device", None, "given"), ("Tables", None, "computed"), ("Memory", "B", "computed"),
        ("Of its memory", "share", "computed"), ("Embeddings per step", "s", "modelled"),
    )  # fmt: skip
    of_devices = []
    for device, (tables, seconds) in enumerate(zip(sets, device_s, strict=True)):
        memory = sum(table.memory_bytes for table in tables)
        numbers = tuple(sorted({shard.table for shard in plan.shards if shard.device == device}))
        of_devices.append((device, numbers or None, memory, memory / task.memory_bytes, seconds))
    return [
        make_table(f"The plan by {name}: where each table would be", places, of_tables),
        make_table(f"The plan by {name}: what each device would hold", loads, of_devices),
    ]


def _share_over(costs: NDArray[np.float64], least: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by what share costs are above others, 0 where they differ by no more than rounding."""
    over = costs / least - 1
    return np.where(np.abs(over) <= SAME, 0.0, over)


def _as_clause(closing: str) -> str:
    """Return what a closing sentence says first, as the end of a title."""
    first = re.split(r"[.;] |\.$", closing, maxsplit=1)[0]
    return first[:1].lower() + first[1:]


def _mean(values: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    known = np.array([value for value in values if value is not None], np.float64)
    return float(np.nanmean(known)) if known.size and not np.isnan(known).all() else None


def _close(
    whole: Mapping[str, float],
    base: str | None,
    origin: str,
    reached: Mapping[str, str],
    balance: Mapping[str, float | None],
) -> str:
    """Say in a sentence whose plans are the cheapest, of the searches that placed all tasks, and how even they are.

    `reached` are the searches whose plans cost what no plan of whole tables is below, with the name of that.
    """
    if not whole:
        return "No search has a plan of every task whose cost is known."
    name, *alike = find_cheapest(whole)
    also = f" (as by {', '.join(alike)})" if alike else ""
    is_less = base is not None and base not in (name, *alike)
    than = f", {percent(1 - whole[name] / whole[base])} less than by {base}" if is_less and base else ""
    how = f"{origin}: {_TIMED}" if origin == "measured" else origin
    found = f"{name}{also}: {duration(whole[name])} a step on the slowest device ({how}){than}"
    if (times := balance[name] or 1.0) > MOST_EVEN:
        found += f"; that is {times:.2f} times the mean of all devices"
    if origin == "measured":
        return f"Lowest by {found}; sets were measured once more, which is no verdict: --run measures steps."
    limit = f"; it is the {reached[name]}, so no plan of whole tables is cheaper" if name in reached else ""
    return f"Cheapest by {found}{limit}."
