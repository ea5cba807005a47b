"""Search plans of embedding tables on devices by several searches, and make the study of the plans' costs."""

import platform
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.config.catalog import refuse_without_bags
from harness.config.run_config import RunConfig
from harness.config.sharding_plan import record_plan, write_sharding
from harness.extensions.placement.compared import (
    BASELINES,
    TIMED,
    TODAY,
    FoundPlan,
    PlacementCosts,
    as_clause,
    compare_searches,
    find_most_bytes,
    judge_plans,
    list_cheapest,
    say_moves,
)
from harness.extensions.placement.cpu_rates import ASSUMED, CPU, FixedTimes, rate_cpu
from harness.extensions.placement.devices import (
    describe_layouts,
    list_device_parameters,
    make_devices_plan,
    parts_of_estimate,
    plan_of_estimate,
    torchrec_tables,
)
from harness.extensions.placement.kept_costs import KeptCosts
from harness.extensions.placement.learnt import LearntStore, learn_costs, learn_policy
from harness.extensions.placement.net_verdict import say_verdict, tabulate_verdict
from harness.extensions.placement.shown import find_cheapest
from harness.extensions.placement.today import IMPROVED, count_moved, improve_today, name_devices_as_today
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_study
from harness.planning.plan import require_table_rows, source_of
from harness.run_sets.environment import Environment
from harness.system.hardware import read_processors
from harness.system.resources import read_resources
from reference_models.data.table_file import read_tables
from reference_models.data.traces.trace import AccessTrace
from reference_models.distributed.planner_estimate import Devices, PlannerEstimate
from reference_models.distributed.search.costs import Additive, Bandwidth, Exchange, SetCost, Sum
from reference_models.distributed.search.known_sets import KnownSets, ask_sets, draw_sets, list_parts
from reference_models.distributed.search.optimal import MAX_ENUMERATED, lower_bound
from reference_models.distributed.search.registry import TORCHREC, find_search
from reference_models.distributed.search.task import PlacementPlan, Task, find_fault, list_not_kept
from reference_models.distributed.search.tasks import NEUROSHARD, describe_tables, generate_tasks, read_tasks, task_of
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.registry import find_model
from reports.text.formatting import num_bytes, plural
from rules.records.kept.placement import PlanRecord
from rules.records.study import Parameter, Scalar, Source, StudyRecord, StudyTable

if TYPE_CHECKING:
    from reference_models.distributed.search.measured import MeasuredCost
    from reference_models.distributed.search.net import Net

NUM_GENERATED = 10
_OPTIMUM = "optimum"
_MAX_NAMED = 5
"""Maximum number of embedding tables that one message names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementQuestion:
    """Request for a search of placement plans of embedding tables: by which searches, at which cost, on which
    devices."""

    by: tuple[str, ...]
    """Names of the searches of placement plans that the user asked for; with `has_baselines` those in BASELINES run,
    too."""
    devices: Devices
    given: Collection[str]
    """Names of the fields of `devices` (sizes and rates) that the user set on the command line."""
    learnt: LearntStore
    cost: Literal["bandwidth", "torchrec", "measured", "net"] = "bandwidth"
    kept_costs: KeptCosts | None = None
    """Costs of embedding tables read from a costs file, used instead of measuring on this machine; None without a
    file."""
    num_measured: int | None = None
    """Number of measured sets of tables that a cost net is trained on at last, after sets whose cost was modelled;
    None if no set is measured."""
    has_baselines: bool = True
    today: PlacementPlan | None = None
    """Placement plan in use in production today, for a single task; None if there is none. It is listed in the study,
    also improved by moving tables. For every other plan the study says how many tables would have to move to other
    devices."""
    table_names: tuple[str, ...] = ()
    """Names of the embedding tables to place, for a single task (set of tables); empty where tables have only
    numbers."""
    measured: Collection[str] = ()
    """Names of the fields of `devices` (sizes and rates) whose values were measured on this CPU."""
    fixed: FixedTimes = ASSUMED
    on_progress: Callable[[int, int], None] = lambda done, total: None

    @property
    def is_measured(self) -> bool:
        """Whether times of sets of tables are measured on this machine."""
        return (self.cost == "measured" and self.kept_costs is None) or self.num_measured is not None


UNBOUNDED = PlacementQuestion(
    by=(),
    devices=Devices(
        num_devices=1,
        device_type=CPU,
        memory_bytes=1 << 62,
        memory_bandwidth=1.0,
        devices_per_host=1,
        intra_host_bandwidth=1.0,
        inter_host_bandwidth=1.0,
    ),
    given=(),
    learnt=LearntStore(data_root=None, seed=0, retrain=False, say=lambda text: None),
)
"""Placement request with one device that has room for any tables, and without a search, where only the embedding
tables matter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Placement plans found, by search and by task (set of tables), with their study. The study's findings on how
    costs were found come first; the next one names the search with the cheapest plans."""

    tasks: tuple[Task, ...]
    found: dict[str, list[FoundPlan]]
    costs: PlacementCosts
    study: StudyRecord


def task_of_benchmark(config: RunConfig, question: PlacementQuestion, trace: AccessTrace | None) -> Task:
    """Return the task of placing a benchmark's embedding tables on the devices. Raises ConfigError or
    DatasetError."""
    workload, devices = config.workload, question.devices
    refuse_without_bags(workload, "place")
    rows = require_table_rows(config, question.learnt.data_root)
    empty = Task(
        name=config.benchmark.name,
        tables=(),
        num_devices=devices.num_devices,
        memory_bytes=devices.usable_bytes,
        batch_size=workload.train.global_batch_size,
    )
    return task_of(empty, workload.data.mapped, rows, workload.costs(rows).row_width, workload.train.opt_name, trace)


def describe_file(path: Path, question: PlacementQuestion, batch_size: int | None) -> tuple[PlacementQuestion, Task]:
    """Read tables from the file `path`. Return the task of placing them on the devices of the request `question`, and
    the request with the tables' names filled in. Raises DatasetError or ConfigError."""
    devices = question.devices
    try:
        entries = read_tables(path, ("width", "pooling"))
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror}.") from None
    empty = replace(
        NEUROSHARD, name=path.stem, num_devices=devices.num_devices, memory_bytes=devices.usable_bytes,
        batch_size=batch_size or NEUROSHARD.batch_size,
    )  # fmt: skip
    return replace(question, table_names=tuple(entry.name for entry in entries)), describe_tables(entries, empty)


def make_tasks(question: PlacementQuestion, number: int | None, files: tuple[Path, Path] | None) -> list[Task]:
    """Return `number` tasks (sets of tables to place). Without `files` the tasks are generated as NeuroShard does;
    otherwise they are the first ones of a file. `files` are a file of tasks and a file of the tasks' tables.

    If `number` is None, return NUM_GENERATED generated tasks, or all tasks of the file. Raises ConfigError or
    DatasetError if a file is wrong.
    """
    devices = question.devices
    empty = replace(NEUROSHARD, num_devices=devices.num_devices, memory_bytes=devices.usable_bytes)
    if files is None:
        return generate_tasks(NUM_GENERATED if number is None else number, question.learnt.seed, empty)
    return read_tasks(*files, empty)[:number]


def record_best(placement: Placement, question: PlacementQuestion) -> tuple[PlanRecord, str]:
    """Return the content of a plan file for the cheapest placement plan that a run can train with. Also return words
    that name the plans that cost no more but that a run cannot use; '' if there are none.

    Raises HarnessError (exit 7) if a run can use none of the plans whose cost is known.
    """
    task, of, skipped = placement.tasks[0], placement.study, ""
    made = {
        "cost": question.cost,
        "seed": of.seed,
        "benchmark": of.benchmark,
        "definition_sha256": of.definition_sha256,
    }
    known = [each[0] for each in placement.found.values() if each[0].plan is not None and each[0].cost_s is not None]
    costs_s = {each.search: each.cost_s or 0.0 for each in known}
    least = find_cheapest(costs_s, {each.search: each.balance for each in known})
    others = sorted((name for name in costs_s if name not in least), key=lambda name: costs_s[name])
    for found in (placement.found[name][0] for name in (*least, *others)):
        assert found.plan is not None
        try:
            write_sharding(task, found.plan)
            skipped += _say_cheaper_without_file(placement, found.cost_s or 0.0)
            return record_plan(task, found.plan, search=found.search, **made), skipped
        except ConfigError as error:
            skipped += f"; that of {found.search} costs no more and cannot be run: {error}"
    why = f"no search has one whose cost is known and that can be run{skipped or '.'}"
    raise HarnessError(f"there is no plan to keep: {why}", ExitCode.INCONCLUSIVE)


def _say_cheaper_without_file(placement: Placement, cost_s: float) -> str:
    """Return a clause that says how to train by the plan of TorchRec's planner. It is needed if that plan costs less
    than `cost_s` seconds but no plan file can describe it; '' otherwise."""
    found = placement.found.get(TORCHREC, [FoundPlan(search=TORCHREC)])[0]
    if found.plan is not None or found.cost_s is None or found.cost_s >= cost_s:
        return ""
    return f"; that of {TORCHREC} costs less, and fits in no file: 'run --sharding auto' trains with that plan"


def search_plans(question: PlacementQuestion, tasks: Sequence[Task], config: RunConfig | None) -> Placement:
    """Search placement plans for the tables of each of `tasks`. `config` is the benchmark's configuration; None if
    the tables are not a benchmark's.

    If the search measures sets of tables or rates of the CPU, the environment is checked first, and warnings go to
    standard error. The study then records the result of the check and the machine's load. If no search finds a plan,
    the first search's error is raised. If only some find none, their rows in the study state the reason.
    """
    is_cpu = question.devices.device_type == CPU
    if not (question.is_measured or is_cpu):
        return _search_plans(question, tasks, config)
    environment = Environment.check(question.learnt.data_root)
    with environment.measuring():
        if is_cpu:
            devices, measured, fixed = rate_cpu(question.devices, question.given, question.learnt.seed)
            question = replace(question, devices=devices, measured=measured, fixed=fixed)
        placement = _search_plans(question, tasks, config)
    return replace(placement, study=environment.put_on(placement.study))


def _search_plans(question: PlacementQuestion, tasks: Sequence[Task], config: RunConfig | None) -> Placement:
    for name in question.by:
        if name != TORCHREC:
            find_search(name)
    costs = _make_costs(question, tasks)
    found, estimate = _find_plans(question, costs, tasks, config)
    is_small = all(len(task.tables) <= MAX_ENUMERATED and not task.kept for task in tasks)
    is_small = is_small and costs.origin == "modelled"
    if is_small:
        exact = replace(costs, make_search=lambda: costs.judge)
        found[_OPTIMUM] = [_search(question, exact, "optimal", task, None) for task in tasks]
    found = judge_plans(costs, tasks, found)
    optima = [each.cost_s for each in found.pop(_OPTIMUM, ())]
    bounds = optima or [_find_bound(costs, found, tasks, number) for number in range(len(tasks))]
    compared = compare_searches(costs, found, bounds, is_small=is_small)
    notes = dict.fromkeys(f"{each.search}: {each.note}" for of in found.values() for each in of if each.note)
    tables, checks = [compared.table, *costs.tables], []
    findings = [*costs.findings, compared.closing, *notes]
    if len(tasks) == 1:
        tables += list_cheapest(tasks[0], found, costs, estimate, question.table_names)
    if question.today is not None:
        findings.insert(len(costs.findings) + 1, say_moves(tasks[0], found))
    if estimate is not None and config is not None:
        more, said, check = torchrec_tables(config, estimate)
        tables, findings, checks = [*tables, *more], [*findings, *said], [check]
    study = make_study(
        "place",
        f"{config.benchmark.name if config else _name_tasks(question, tasks)} on "
        f"{plural(question.devices.num_devices, f'{question.devices.device_type} device')}: "
        f"{as_clause(compared.closing)}",
        config.benchmark if config else None,
        findings=[*findings, *([compared.claim] if question.has_baselines else [])],
        tables=tables,
        parameters=[
            *list_device_parameters(question.devices, question.given, question.measured),
            *_list_parameters(question, tasks[0], config),
        ],
        checks=checks,
        seed=question.learnt.seed,
    )
    return Placement(tasks=tuple(tasks), found=found, costs=costs, study=study)


def _name_tasks(question: PlacementQuestion, tasks: Sequence[Task]) -> str:
    """Return words that name the tables of a study without a benchmark: the name of their file, or the number of
    tasks."""
    return tasks[0].name if question.table_names else plural(len(tasks), "task")


def _find_plans(
    question: PlacementQuestion, costs: PlacementCosts, tasks: Sequence[Task], config: RunConfig | None
) -> tuple[dict[str, list[FoundPlan]], PlannerEstimate | None]:
    """Find placement plans by the searches that the user asked for and by the baselines. Return a dict from search to
    its plans, and the cost that TorchRec's planner estimates for its own plan. The estimate is None if TorchRec's
    planner did not run or found no plan.

    Raises the first search's error if no search has a plan. Also raises the error of TorchRec's planner if the user
    asked for no other search.
    """
    policy = None
    if "autoshard" in question.by:
        _, kept_by = _find_kept_by(question, tasks[0].batch_size)
        policy = learn_policy(question.learnt, costs.modelled, tasks, kept_by=kept_by)
    estimate: PlannerEstimate | None = None
    found: dict[str, list[FoundPlan]] = {}
    for name in dict.fromkeys((*question.by, *(BASELINES if question.has_baselines else ()))):
        if name == TORCHREC:
            each, estimate = _ask_torchrec(question, costs, tasks[0], config)
            found[name] = [each] * len(tasks)
            if each.fault is not None and estimate is None and question.by == (TORCHREC,):
                raise each.fault
        else:
            found[name] = [_search(question, costs, name, task, policy) for task in tasks]
    if question.today is not None:
        found = _add_today(question.today, costs, tasks[0], found)
    if tasks[0].kept:
        found = {name: [_refuse_not_kept(tasks[0], each, question.table_names)] for name, (each,) in found.items()}
    faults = [each.fault for of in found.values() for each in of]
    if None not in faults and estimate is None:
        raise next(fault for fault in faults if fault is not None)
    return found, estimate


def _add_today(
    today: PlacementPlan, costs: PlacementCosts, task: Task, found: dict[str, list[FoundPlan]]
) -> dict[str, list[FoundPlan]]:
    """Return a dict from search to plan: first the plan in use today, then this plan improved by moves of tables,
    then the plans of all searches. Their devices are renamed to match today's plan where that is possible."""
    fault = find_fault(task, today)
    why = None if fault is None else ConfigError(f"today's plan does not fit: {fault}")
    rows = {TODAY: FoundPlan(search=TODAY, plan=None if fault else today, fault=why)}
    start_s = time.perf_counter()
    try:
        moved = improve_today(task, costs.make_search(), today)
        rows[IMPROVED] = FoundPlan(search=IMPROVED, plan=moved, took_s=time.perf_counter() - start_s)
    except ConfigError as error:
        rows[IMPROVED] = FoundPlan(search=IMPROVED, fault=error)
    rows |= {name: each for name, (each,) in found.items()}
    return {name: [_name_as_today(task, each, today)] for name, each in rows.items()}


def _refuse_not_kept(task: Task, found: FoundPlan, names: Sequence[str]) -> FoundPlan:
    """Return a found placement plan if it obeys --keep, which ties tables to devices. Otherwise return the reason, so
    that the plan is neither compared nor saved. It does not obey either if it is unknown which columns each device
    holds, as in some plans of TorchRec's planner.

    `names` are the tables' names; empty if tables have none.
    """
    if found.plan is None:
        if found.cost_s is None:
            return found
        why = "it does not obey --keep: TorchRec's planner knows no tables that stay where they are."
    elif away := list_not_kept(task, found.plan):
        said = [f"{names[table] if names else f'table {table}'} to device {device}" for table, device in away]
        more = f" and {len(said) - _MAX_NAMED} more" if len(said) > _MAX_NAMED else ""
        why = f"it does not obey --keep: it would have to move {', '.join(said[:_MAX_NAMED])}{more}."
    else:
        return found
    return FoundPlan(search=found.search, fault=ConfigError(why))


def _name_as_today(task: Task, found: FoundPlan, today: PlacementPlan) -> FoundPlan:
    """Return a found plan with its devices renamed to match the plan in use today, where that is possible. The result
    also states how many tables and bytes the plan moves to other devices than in today's plan."""
    if found.plan is None:
        return found
    plan = found.plan if found.search == TODAY else name_devices_as_today(task, found.plan, today)
    return replace(found, plan=plan, moved=count_moved(task, plan, today))


def _find_bound(
    costs: PlacementCosts, found: dict[str, list[FoundPlan]], tasks: Sequence[Task], number: int
) -> float | None:
    """Return the highest known lower bound of the cost in seconds of plans that cut no table, for the task (set of
    tables) at index `number`; None without a bound."""
    proved = [of[number].bound_s for of in found.values()]
    known = [bound for bound in (lower_bound(tasks[number], costs.judge), *proved) if bound is not None]
    return max(known, default=None)


def _make_costs(question: PlacementQuestion, tasks: Sequence[Task]) -> PlacementCosts:
    batch_size = tasks[0].batch_size
    memory, exchange = _model(question.devices, question.fixed, batch_size)
    bandwidth = Sum((memory, exchange))
    if question.cost == "bandwidth":
        return PlacementCosts(
            make_search=lambda: bandwidth, make_plain=lambda: bandwidth, judge=bandwidth, modelled=bandwidth
        )
    if question.cost == TORCHREC:
        make = find_model("dlrm").table_cost
        assert make is not None
        estimate = partial(make, batch_size=batch_size, devices=question.devices)
        return PlacementCosts(
            make_search=lambda: Additive(estimate()),
            make_plain=lambda: Additive(estimate()),
            judge=Additive(estimate()),
            modelled=bandwidth,
        )

    if question.kept_costs is not None:
        return _take_kept(question, question.kept_costs, tasks, bandwidth)

    def make_true() -> SetCost:
        return _measure_sets(question, batch_size) if question.is_measured else memory

    judged = partial(PlacementCosts, judge=Sum((make_true(), exchange)), modelled=bandwidth)
    if question.is_measured:
        true = _measure_sets(question, batch_size)
        judged = partial(judged, judge=Sum((true, exchange)), origin="measured", spread_of=true.spread_of)
    if question.cost == "measured":

        def make_measured() -> SetCost:
            return Sum((make_true(), exchange))

        return judged(make_search=make_measured, make_plain=make_measured, predicted=bandwidth)
    from reference_models.distributed.search.net import choose

    net, findings, shown = _learn_net(question, tasks)

    def make_search() -> SetCost:
        return Sum((choose(net, make_true()), exchange))

    def make_plain() -> SetCost:
        return Sum((Additive(make_true(), net.device_s) if question.is_measured else memory, exchange))

    return judged(
        make_search=make_search,
        make_plain=make_plain,
        predicted=make_search(),
        has_net=net.is_better,
        findings=findings,
        tables=shown,
    )


def _take_kept(
    question: PlacementQuestion, kept: KeptCosts, tasks: Sequence[Task], modelled: SetCost
) -> PlacementCosts:
    """Return the costs of placement plans, computed from a costs file. By default a plan's cost is the sum of the
    times of single tables. If the user asks for a cost net, a neural net is trained on the file's measured sets of
    tables. Its predictions replace the sums only if it is shown to predict better."""
    exchange = _model(question.devices, question.fixed, tasks[0].batch_size)[1]
    added = Sum((Additive(kept), exchange))
    costs = PlacementCosts(
        make_search=lambda: added,
        make_plain=lambda: added,
        judge=added,
        modelled=modelled,
        predicted=modelled,
        origin="measured",
        timed=f"timed on {kept.device}; tables are added up, and the exchange is modelled",
        spread_of=kept.spread_of,
    )
    if question.cost != "net":
        return costs
    net, findings, shown = _learn_net(question, tasks)
    added = Sum((Additive(kept, net.device_s), exchange))
    costs = replace(
        costs,
        make_search=lambda: added,
        make_plain=lambda: added,
        judge=added,
        findings=findings,
        tables=shown,
    )
    if not net.is_better:
        return costs
    by_net = Sum((net, exchange))
    said = f"Plans are judged by the net of what was measured on {kept.device}: --run measures steps."
    return replace(
        costs,
        make_search=lambda: by_net,
        judge=by_net,
        predicted=added,
        origin="modelled",
        spread_of=lambda tables: None,
        has_net=True,
        findings=(*findings, said),
    )


def _learn_net(
    question: PlacementQuestion, tasks: Sequence[Task]
) -> "tuple[Net, tuple[str, ...], tuple[StudyTable, ...]]":
    """Train a cost net for the tasks' tables, on sets of tables with modelled costs, then on sets measured in a file
    or on this machine; return the net, and sentences and tables on it."""
    batch_size = tasks[0].batch_size
    tables = [*dict.fromkeys(table for task in tasks for table in task.tables)]
    kept_by, _ = _find_kept_by(question, batch_size)
    known: Callable[[], KnownSets] | None = None
    known_by: object = None
    if question.kept_costs is not None:
        sets = question.kept_costs.know_sets(tables)
        known, known_by = (lambda: sets), (sets.sets, sets.seconds.tolist(), [*sets.alone.values()])
    elif (num_sets := question.num_measured) is not None:
        measured = _measure_sets(question, batch_size)
        known_by = (measured, num_sets, platform.node())

        def known() -> KnownSets:
            return ask_sets(measured, draw_sets(list_parts(tables), num_sets, question.learnt.seed))

    memory, _ = _model(question.devices, question.fixed, batch_size)
    net = learn_costs(question.learnt, memory, tables, known, kept_by=kept_by, known_by=known_by)
    is_measured = known is not None
    findings = (say_verdict(net, is_measured=is_measured),)
    return net, findings, (tabulate_verdict(net, is_measured=is_measured),)


def _model(devices: Devices, fixed: FixedTimes, batch_size: int) -> tuple[Bandwidth, Exchange]:
    """Return two modelled cost functions: of lookups and updates in a device's memory, and of the exchange between
    devices."""
    memory = Bandwidth(
        batch_size=batch_size,
        memory_bandwidth=devices.memory_bandwidth,
        table_s=fixed.table_s,
        device_s=fixed.device_s,
    )
    return memory, Exchange(batch_size=batch_size, devices=devices)


def _find_kept_by(question: PlacementQuestion, batch_size: int) -> tuple[object, object]:
    """Return two keys under which trained cost nets and placement policies are stored. One is for costs of memory
    alone, the other for costs of memory and of the exchange between devices.

    A key is the cost model with its rates. If rates were measured on this CPU, which differ from call to call, this
    machine's name and processor stand in the key in their place.
    """
    if not question.fixed.is_measured:
        costs = _model(question.devices, question.fixed, batch_size)
        return costs[0], Sum(costs)
    here = (platform.node(), read_processors().model_name, *question.measured)
    blanks: dict[str, Any] = dict.fromkeys(question.measured, 1.0)
    blank = replace(question.devices, **blanks)
    memory, exchange = _model(blank, ASSUMED, batch_size)
    return (here, memory), (here, memory, exchange)


def _measure_sets(question: PlacementQuestion, batch_size: int) -> "MeasuredCost":
    """Return a cost function that measures sets of tables on this CPU when it is called; nothing is measured yet."""
    from reference_models.distributed.search.measured import MeasuredCost

    free = read_resources().available_memory_bytes
    return MeasuredCost(batch_size=batch_size, available_bytes=free, seed=question.learnt.seed)


def _search(question: PlacementQuestion, costs: PlacementCosts, name: str, task: Task, policy: object) -> FoundPlan:
    search, start_s = find_search(name), time.perf_counter()
    more = {} if name != "autoshard" else {"policy": policy}
    try:
        make = costs.make_plain if name in BASELINES else costs.make_search
        plan = search(task, make(), question.learnt.seed, **more)
    except ConfigError as error:
        return FoundPlan(search=name, fault=error)
    is_of_row = costs.predicted is None or question.kept_costs is not None  # else the bound is of another cost
    bound_s = plan.bound_s if is_of_row else None
    return FoundPlan(search=name, plan=plan, took_s=time.perf_counter() - start_s, bound_s=bound_s)


def _ask_torchrec(
    question: PlacementQuestion, costs: PlacementCosts, task: Task, config: RunConfig | None
) -> tuple[FoundPlan, PlannerEstimate | None]:
    try:
        if config is None:
            raise ConfigError("TorchRec's planner plans the model of a benchmark, and these tasks are of none.")
        if (make := config.workload.model_spec.table_cost) is not None:
            make(batch_size=task.batch_size, devices=question.devices)  # imports TorchRec before the timing begins
        start_s = time.perf_counter()
        estimate = make_devices_plan(config, question.devices, question.learnt.data_root, question.on_progress)
    except ConfigError as error:
        return FoundPlan(search=TORCHREC, fault=error), None
    found = FoundPlan(search=TORCHREC, plan=plan_of_estimate(estimate), took_s=time.perf_counter() - start_s)
    if question.cost == TORCHREC:
        found = replace(found, cost_s=estimate.step_s, balance=estimate.balance, cuts=found.plan is None)
    elif found.plan is None:
        parts = parts_of_estimate(estimate, task) if costs.origin == "modelled" else None
        if parts is None:
            return _ask_for_whole_tables(question, config, estimate), estimate
        seconds = costs.judge(parts)
        layouts = f"{describe_layouts(estimate)}{_say_copies(estimate, task)}"
        note = f"its plan is {layouts}; it fits in no file, and 'run --sharding auto' trains with it."
        slowest_s, mean_s, most = float(seconds.max()), float(seconds.mean()), find_most_bytes(parts)
        found = replace(found, cost_s=slowest_s, balance=slowest_s / mean_s, memory_bytes=most, cuts=True, note=note)
    return found, estimate


def _say_copies(estimate: PlannerEstimate, task: Task) -> str:
    """Return a clause on the memory that tables copied to every device take beyond one copy; '' without such
    tables."""
    copied = [task.tables[each.table].memory_bytes for each in estimate.tables if each.sharding == "data_parallel"]
    return f", whose copies on every device add {num_bytes(sum(copied))} to each but one" if copied else ""


def _ask_for_whole_tables(question: PlacementQuestion, config: RunConfig, estimate: PlannerEstimate) -> FoundPlan:
    """Ask TorchRec's planner for a plan that cuts no table, because the cost of its first plan, `estimate`, cannot be
    modelled. Return the new plan, or the reason why there is none."""
    own = "its planner's choice also cuts rows or copies tables, which this cost does not know"
    if any(table.is_outside_devices for table in estimate.tables):
        own = "its planner's choice leaves tables outside of the devices' memory"
    start_s = time.perf_counter()
    try:
        whole = make_devices_plan(
            config, question.devices, question.learnt.data_root, question.on_progress, sharding="table_wise"
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
        fixed, how = question.fixed, "measured here" if question.fixed.is_measured else "assumed"
        source: Source = "measured" if fixed.is_measured else "default"
        rows.append((f"fixed time of a device that holds tables, {how}", fixed.device_s, "s", source))
        rows.append((f"fixed time of a table, {how}", fixed.table_s, "s", source))
    if question.is_measured:
        rows.append(("lookups and updates", TIMED, None, "measured"))
    if question.kept_costs is not None:
        rows.append(("lookups and updates", f"measured on {question.kept_costs.device}", None, "file"))
    if config is not None and TORCHREC in question.by:
        sharding = config.workload.runtime.sharding
        rows.append(("sharding asked of TorchRec", sharding, None, source_of(config, "runtime.sharding")))
    return [Parameter(name=name, value=value, unit=unit, source=of, note=None) for name, value, unit, of in rows]
