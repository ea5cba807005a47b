"""Compare plans that several searches find for embedding tables, with one another, with plain baselines and with
published figures."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from harness.extensions.placement.devices import plan_of_estimate
from harness.extensions.placement.shown import SAME, find_cheapest
from harness.extensions.placement.today import IMPROVED
from harness.foundation.study import Columns, make_table
from reference_models.distributed.planner_estimate import PlannerEstimate
from reference_models.distributed.search.costs import SetCost
from reference_models.distributed.search.repair import NoPlanError
from reference_models.distributed.search.task import EmbeddingTable, PlacementPlan, Task
from reference_models.process.errors import ConfigError
from reports.statistics.intervals import Interval, mean_interval
from reports.text.formatting import duration, num_bytes, percent, plural
from rules.records.study import StudyTable

BASELINES = ("greedy", "local")
"""Searches that every study of placement includes as baselines; learned searches are compared with the better of
these two."""
PUBLISHED = "up to 23.8 %, other tasks"
"""Improvement of the embedding cost over the best baseline that NeuroShard's abstract claims (MLSys'23), in words."""
ALIKE = 1e-3
"""Relative difference of cost up to which two plans of the same tables are called equally cheap."""
MOST_EVEN = 1.1
"""Largest balance of a placement plan (cost of the slowest device over the mean of all devices) that counts as even:
a study's sentences leave it out."""
TIMED = "timed on one thread of this CPU; the exchange is modelled"
TODAY = "today's plan"
"""Name of the study's table row for the placement plan that is in use today, with which the plans found are
compared."""
_OF_TODAY = {TODAY: TODAY, IMPROVED: "moves in today's plan"}
"""Names of two rows of the study's table: for the plan in use today, and for that plan improved by moving tables."""
_AUTOSHARD, _NEUROSHARD = "autoshard", "neuroshard"
_BEAM = "beam over columns"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementCosts:
    """Costs of plans in seconds: the costs that searches minimise, and the costs by which plans are judged, with
    notes on both."""

    make_search: Callable[[], SetCost]
    """Function that makes the cost function (seconds of a set of tables) which a search of plans minimises. It is
    called once for each search, so that no search uses another's measurements."""
    make_plain: Callable[[], SetCost]
    """Function called once for each baseline search. It returns the cost function that the search minimises: the
    seconds per step of a set of tables on one device."""
    judge: SetCost
    modelled: SetCost
    """Cost of a set of tables, modelled from the devices' bandwidths; AutoShard's policy is trained with it."""
    predicted: SetCost | None = None
    origin: Literal["measured", "modelled"] = "modelled"
    """Whether the costs by which plans are judged are measured or modelled."""
    spread_of: Callable[[Collection[EmbeddingTable]], float | None] = lambda tables: None
    """Function that returns the spread of repeated timings of a set of tables: the interquartile range of the rounds,
    as a fraction of their median. If tables were timed one by one, it is the largest spread of a table in the set;
    None if it is not known."""
    timed: str = TIMED
    """Words on how lookups and updates were timed; used only where costs are measured."""
    has_net: bool = False
    """Whether the searches of placement plans minimise the seconds that a trained cost net predicts."""
    findings: tuple[str, ...] = ()
    """Sentences on how costs of placement plans were found, which a study has before its sentences on the plans."""
    tables: tuple[StudyTable, ...] = ()
    """Tables of a study on how costs of placement plans were found, such as a cost net's errors; they come below the
    study's table of plans."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPlan:
    """A plan that one search found for one set of tables, with its cost; or the error, where the search found
    none."""

    search: str
    plan: PlacementPlan | None = None
    cost_s: float | None = None
    balance: float | None = None
    predicted_s: float | None = None
    took_s: float | None = None
    spread: float | None = None
    """Interquartile range over rounds of the measured time of the slowest device's tables, as a fraction of the
    median. If tables were timed one by one, the largest such fraction of any table. None if not known."""
    cuts: bool = False
    """True for TorchRec's own plan where it cuts tables by rows, copies tables to several devices, or leaves tables
    outside of the devices."""
    bound_s: float | None = None
    """Lower bound, proved by the search, of the cost in seconds of any placement plan that cuts no table; None
    without a proof."""
    moved: tuple[int, int] | None = None
    """Number of embedding tables that are on another device than in the plan in use today, and bytes of their moved
    columns. None where no plan in use today was given."""
    memory_bytes: int | None = None
    """Bytes of tables with their optimizer state on the device that holds most of them; None if not known."""
    fault: Exception | None = None
    note: str | None = None
    """Remark on the plan that a reader needs beside its cost, such as that the plan cuts no table; None without a
    remark."""


def judge_plans(
    costs: PlacementCosts, tasks: Sequence[Task], found: dict[str, list[FoundPlan]]
) -> dict[str, list[FoundPlan]]:
    """Return the plans of all searches with their costs filled in. Measured costs are measured anew, all plans
    alternately. A plan with an embedding table of unknown cost gets an error in place of a cost."""
    sets = {
        (name, at): each.plan.sets(tasks[at])
        for name, of in found.items()
        for at, each in enumerate(of)
        if each.plan is not None and each.cost_s is None
    }
    done = {name: [*of] for name, of in found.items()}
    try:
        judged = costs.judge([tables for each in sets.values() for tables in each])
    except ConfigError:  # some plans have a table of unknown cost: find them one by one
        for name, at in [*sets]:
            try:
                costs.judge(sets[name, at])
            except ConfigError as error:
                done[name][at] = replace(done[name][at], fault=error)
                del sets[name, at]
        judged = costs.judge([tables for each in sets.values() for tables in each])
    together = [tables for each in sets.values() for tables in each]
    seconds = [judged, *([] if costs.predicted is None else [costs.predicted(together)])]
    ends = np.cumsum([len(each) for each in sets.values()], dtype=int)[:-1]
    for (name, at), device_s, *predicted in zip(sets, *(np.split(each, ends) for each in seconds), strict=False):
        slowest_s, mean_s = float(device_s.max()), float(device_s.mean())
        predicted_s = float(predicted[0].max()) if predicted else None
        done[name][at] = replace(
            done[name][at],
            cost_s=slowest_s,
            balance=slowest_s / mean_s,
            memory_bytes=find_most_bytes(sets[name, at]),
            predicted_s=predicted_s,
            spread=costs.spread_of(sets[name, at][int(device_s.argmax())]),
        )
    return done


def find_most_bytes(sets: Sequence[Sequence[EmbeddingTable]]) -> int:
    """Return the bytes of tables, with their optimizer state, on the device that holds most of them."""
    return max(sum(table.memory_bytes for table in tables) for tables in sets)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchComparison:
    """Comparison of searches for placement plans over all tasks (sets of embedding tables to place): a table with a
    row per search, the sentence on the cheapest plans, and the comparison with published claims in words."""

    table: StudyTable
    closing: str
    claim: str


def compare_searches(
    costs: PlacementCosts,
    found: Mapping[str, Sequence[FoundPlan]],
    bounds: Sequence[float | None],
    *,
    is_small: bool,
) -> SearchComparison:
    """Compare searches by the costs of the placement plans that they found, over all tasks (sets of tables to place).

    `bounds` has for each task a lower bound of the cost of plans that cut no table. If `is_small`, tasks are so small
    that all such plans were tried: each bound is then the least cost of these plans.
    """
    least, origin = np.array(bounds, np.float64), costs.origin
    cost = {name: np.array([each.cost_s for each in of], np.float64) for name, of in found.items()}
    whole = {name: float(of.mean()) for name, of in cost.items() if not np.isnan(of).any()}
    base = _find_base(whole, BASELINES)
    cutting = [name for name, of in found.items() if any(_is_cut(each) for each in of)]
    gains = {} if base is None else {name: _gain(cost[base], of) for name, of in cost.items() if name != base}
    noise = {name: max((each.spread or 0.0 for each in of), default=0.0) for name, of in found.items()}
    verdicts = {}
    for name in (_AUTOSHARD, _NEUROSHARD):
        if base is None or name not in gains:
            continue
        cuts_too = name != _AUTOSHARD or base not in cutting  # AutoShard's plans are of whole tables
        fair = base if cuts_too else _find_base(whole, [each for each in BASELINES if each not in cutting]) or base
        said = _verdict(_gain(cost[fair], cost[name]), fair, max(noise[name], noise[fair]))
        verdicts[name] = said if cuts_too else f"{said} ({base} cuts tables, {name} none)"
    rows = []
    for name, of in found.items():
        gain = gains.get(name)
        rows.append(
            (
                name_row(name, costs),
                int((~np.isnan(cost[name])).sum()),
                whole.get(name),
                _mean([each.balance for each in of]),
                _mean(_share_over(cost[name], least)),
                _mean([each.took_s for each in of]),
                name in cutting,
                *_list_extra(gain),
                verdicts.get(name),
                *_say_repairs(of),
                _gap(of),
                *(of[0].moved or (None, None)),
                PUBLISHED if name == _NEUROSHARD and costs.has_net else None,
                _mean([each.predicted_s for each in of]),
                max((each.spread for each in of if each.spread is not None), default=None),
                next((_say_fault(each.fault) for each in of if each.fault is not None), None),
            )
        )
    columns: Columns = (
        ("Search", None, "given"), ("Tasks", None, "computed"), ("Cost", "s", origin), ("Balance", None, origin),
        ("Over the optimum" if is_small else "Over the bound of whole tables", "share", origin),
        ("Search time", "s", "measured"), ("Cuts tables", None, "computed"),
        (f"Over {base or 'a baseline'}", "share", origin), ("From", "share", origin), ("To", "share", origin),
        ("Against the best baseline", None, origin), ("Repaired", None, "computed"), ("Alone", None, origin),
        ("Above what it proved", "share", origin), ("Tables moved", None, "computed"),
        ("Bytes moved", "B", "computed"), ("Published", None, "published"),
        ("Predicted cost", "s", "modelled"), ("Spread of rounds", "share", "measured"),
        ("Why it has none", None, "computed"),
    )  # fmt: skip
    kept = [at for at in range(len(columns)) if at < 6 or any(row[at] is not None for row in rows)]
    table = make_table(
        "Plans: embedding time of the slowest device in a step"
        + (", means over the tasks" if len(bounds) > 1 else ""),
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
    )
    reached = [name for name in whole if not _share_over(cost[name], least).any()]
    first = _close(costs, found, whole, base, dict.fromkeys(reached, "optimum" if is_small else "bound"))
    learnt = [f"{name_row(name, costs)} {said}" for name, said in verdicts.items() if _is_learnt(name, costs)]
    closing = "; ".join([first.removesuffix("."), *learnt]) + f".{_rank(found, origin)}"
    return SearchComparison(table=table, closing=closing, claim=say_claim(costs, found, verdicts))


def _balances(found: Mapping[str, Sequence[FoundPlan]]) -> dict[str, float | None]:
    """Return a dict from search to the balance of its plans (cost of the slowest device over the mean of all
    devices), averaged over the tasks."""
    return {name: _mean([each.balance for each in of]) for name, of in found.items()}


def _find_base(whole: Mapping[str, float], names: Sequence[str]) -> str | None:
    """Return the baseline search in `names` with the cheapest plans; among equally cheap searches, the first. None if
    no baseline search has a plan of every task."""
    return next(iter(find_cheapest({name: whole[name] for name in names if name in whole})), None)


def _say_fault(fault: Exception) -> str:
    """Return the reason why a search found no placement plan, without the search's name, which the table row
    shows."""
    return fault.why if isinstance(fault, NoPlanError) else str(fault)


def _is_cut(found: FoundPlan) -> bool:
    return found.cuts or (found.plan is not None and found.plan.is_cut)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gain:
    """Share by which a search's plans cost less than the baseline's, negative if they cost more: the mean over the
    tasks and its confidence interval."""

    mean: float | None
    interval: Interval | None


def _gain(base: NDArray[np.float64], cost: NDArray[np.float64]) -> _Gain:
    both = ~np.isnan(base) & ~np.isnan(cost)
    shares = 0.0 - _share_over(cost[both], base[both])
    return _Gain(mean=_mean(shares), interval=mean_interval(shares))


def _list_extra(gain: _Gain | None) -> tuple[float | None, float | None, float | None]:
    """Return the share by which a search's plans cost more than the baseline's (negative if they cost less), and the
    two ends of the confidence interval of this share over the tasks. Unknown values are None."""
    if gain is None or gain.mean is None:
        return None, None, None
    ends = gain.interval
    return (0.0 - gain.mean, None, None) if ends is None else (0.0 - gain.mean, 0.0 - ends.high, 0.0 - ends.low)


def _verdict(gain: _Gain, base: str, noise: float) -> str:
    """Return a sentence that compares a search's plans with the best baseline's plans. For several tasks, the
    confidence interval of the mean difference of costs decides which is cheaper. For one task, a difference of costs
    must exceed `noise`, the spread of the measured rounds."""
    if gain.mean is None:
        return f"has no plan to compare with {base}'s"
    low, high = (gain.interval.low, gain.interval.high) if gain.interval else (gain.mean, gain.mean)
    if gain.interval is None and abs(gain.mean) <= max(ALIKE, noise):
        low = high = 0.0
        if noise > ALIKE:
            return f"shows no gain over {base}, within the rounds' spread"
    if low > 0:
        return f"is {percent(gain.mean)} cheaper than {base}"
    if high < 0:
        return f"is {percent(-gain.mean)} dearer than {base}: it loses"
    if low == high:
        return f"is no better than {base}, which is as cheap"
    return f"shows no gain over {base}"


def name_row(name: str, costs: PlacementCosts) -> str:
    """Return the name of a search's row in the table of plans, which is usually the search's own name. The exception
    is NeuroShard's search without a cost net: it is named 'beam over columns', since without the net it is only a
    beam search over cuts of columns."""
    return _BEAM if name == _NEUROSHARD and not costs.has_net else name


def _name_search(name: str, costs: PlacementCosts) -> str:
    """Return words for a row in the table of plans, such as "the search 'dim'". Two plans have other words, since no
    search found them: the plan in use today, and that plan improved by moving tables."""
    return _OF_TODAY.get(name) or f"the search '{name_row(name, costs)}'"


def _name_plan(name: str, costs: PlacementCosts) -> str:
    """Return the start of a title for a table that shows one plan: a plan found by a search, the plan in use today,
    or today's plan after moves of tables."""
    if name in _OF_TODAY:
        return "Today's plan" if name == TODAY else "Today's plan after moves"
    return f"Plan found by {_name_search(name, costs)}"


def _is_learnt(name: str, costs: PlacementCosts) -> bool:
    return name == _AUTOSHARD or (name == _NEUROSHARD and costs.has_net)


def say_claim(costs: PlacementCosts, found: Collection[str], verdicts: Mapping[str, str]) -> str:
    """Compare the verdicts on the learned searches AutoShard and NeuroShard with their papers' claims, in one
    sentence."""
    said = []
    if _AUTOSHARD in found:
        here = verdicts.get(_AUTOSHARD, "has no baseline beside it")
        shown = "as is claimed" if "cheaper" in here else "so this study does not confirm the claim"
        said.append(
            "AutoShard's paper (KDD'22) claims plans that are better than heuristics', without one figure: here "
            f"AutoShard {here}, {shown}"
        )
    if _NEUROSHARD in found and costs.has_net:
        here = verdicts.get(_NEUROSHARD, "has no baseline beside it")
        shown = "on tasks of our own" if "cheaper" in here else "so this study does not confirm the claim"
        said.append(
            f"NeuroShard's paper (MLSys'23) claims a gain of {PUBLISHED}, over its best baseline: here NeuroShard "
            f"{here}, {shown}"
        )
    elif _NEUROSHARD in found:
        said.append(
            f"NeuroShard's published improvement ({PUBLISHED}) rests on its cost net, which no search of this study "
            "uses: this study does not confirm the claim"
        )
    if not said:
        said.append(
            "This study compares no learned search, so it neither confirms nor refutes the gain published for "
            f"learned searches (NeuroShard: {PUBLISHED})"
        )
    return "; ".join(said) + "."


def _say_repairs(of: Sequence[FoundPlan]) -> tuple[str | None, str | None]:
    """Say how a search's plans were repaired where devices had too little room, and what the search's plans without
    repair cost; (None, None) if no plan was repaired."""
    repairs = [each.plan.repair for each in of if each.plan is not None and each.plan.repair is not None]
    if not repairs:
        return None, None
    if len(of) == 1:
        return str(repairs[0]), "none found"
    counts = [sum(each.num_moves for each in repairs), sum(each.num_swaps for each in repairs)]
    alone = [each.cost_s for each in of if each.plan is not None and each.plan.repair is None]
    mean_s = _mean(alone)
    what = f"{duration(mean_s)} in {len(alone)} of {len(of)} tasks" if mean_s is not None else "none found"
    steps = f"{plural(counts[0], 'move')} and {plural(counts[1], 'swap')}"
    return f"repaired in {len(repairs)} of {len(of)} tasks, by {steps}", what


def _gap(of: Sequence[FoundPlan]) -> float | None:
    """Return the largest share by which a plan's cost exceeds the lower bound that its search proved; None without a
    proved bound."""
    pairs = [(each.cost_s, each.bound_s) for each in of if each.bound_s is not None and each.cost_s is not None]
    return max((float(_share_over(np.array(cost_s), np.array(bound_s))) for cost_s, bound_s in pairs), default=None)


def _rank(found: Mapping[str, Sequence[FoundPlan]], origin: str) -> str:
    """Say how well predicted costs rank the plans: Kendall's tau between predicted costs and the costs by which plans
    are judged, as a mean over the tasks. Empty without predictions."""
    by_task = zip(*found.values(), strict=True)
    pairs = [{(each.predicted_s, each.cost_s) for each in of if each.predicted_s} for of in by_task]
    taus = [float(kendalltau(*zip(*each, strict=True)).statistic) for each in pairs if len(each) > 2]
    tau, over = _mean(taus), f", the mean over {len(taus)} tasks" if len(taus) > 1 else ""
    of_plans = f"Predicted and {origin} costs of {sum(map(len, pairs))} plans"
    return "" if tau is None else f" {of_plans}: Kendall's tau {tau:.2f}{over}."


def list_cheapest(
    task: Task,
    found: Mapping[str, Sequence[FoundPlan]],
    costs: PlacementCosts,
    estimate: PlannerEstimate | None,
    names: Sequence[str] = (),
) -> list[StudyTable]:
    """Return two tables that describe the cheapest plan: the embedding tables with the devices that hold them, and
    the devices with their load.

    Return no table if no plan has a cost. Also return none if the cheapest plan is TorchRec's own, since
    `torchrec_tables` describes it.
    """
    known = {name: of[0].cost_s for name, of in found.items() if of[0].cost_s is not None}
    name = next(iter(find_cheapest(known, _balances(found))), "")
    plan = found[name][0].plan if name else None
    if plan is None or (estimate is not None and plan == plan_of_estimate(estimate)):
        return []
    shards = [[shard for shard in plan.shards if shard.table == number] for number in range(len(task.tables))]
    places: Columns = (
        ("Table", None, "given"), ("Rows", None, "given"), ("Columns", None, "given"), ("Shards", None, "computed"),
        ("Shard columns", None, "computed"), ("Devices", None, "computed"),
    )  # fmt: skip
    of_tables = [
        (names[number] if names else number, table.num_embeddings, table.dim, len(of),
         max(shard.num_columns for shard in of), tuple(shard.device for shard in of))
        for number, (table, of) in enumerate(zip(task.tables, shards, strict=True))
    ]  # fmt: skip
    sets = plan.sets(task)
    device_s = costs.judge(sets).tolist() if costs.origin == "modelled" else [None] * len(sets)
    loads: Columns = (
        ("Device", None, "given"), ("Tables", None, "computed"), ("Memory", "B", "computed"),
        ("Of what tables may take", "share", "computed"), ("Embeddings per step", "s", "modelled"),
    )  # fmt: skip
    of_devices = []
    for device, (tables, seconds) in enumerate(zip(sets, device_s, strict=True)):
        memory = sum(table.memory_bytes for table in tables)
        numbers = tuple(sorted({shard.table for shard in plan.shards if shard.device == device}))
        of_devices.append((device, numbers or None, memory, memory / task.memory_bytes, seconds))
    return [
        make_table(f"{_name_plan(name, costs)}: where each table would be", places, of_tables),
        make_table(f"{_name_plan(name, costs)}: what each device would hold", loads, of_devices),
    ]


def say_moves(task: Task, found: Mapping[str, Sequence[FoundPlan]]) -> str:
    """Say how many tables, and how many bytes, would move from the plan in use today to the cheapest plan found, and
    by what share the cheapest plan costs less or more than today's."""
    costs = {name: of[0].cost_s for name, of in found.items() if of[0].cost_s is not None and of[0].moved is not None}
    today_s = costs.pop(TODAY, None)
    if not costs:
        return "No plan is known beside today's."
    moved = {name: found[name][0].moved or (0, 0) for name in find_cheapest(costs)}
    name = min(moved, key=lambda each: moved[each][1])
    whole = sum(table.memory_bytes for table in task.tables)
    said = (
        f"From today's plan to the cheapest, {_OF_TODAY.get(name) or name!r}, {moved[name][0]} of "
        f"{plural(len(task.tables), 'table')} move, {num_bytes(moved[name][1])} of {num_bytes(whole)}"
    )
    if today_s is None:
        fault = found[TODAY][0].fault if TODAY in found else None
        return f"{said}; today's plan has no cost" + (f": {fault}" if fault else ".")
    share = costs[name] / today_s - 1
    return f"{said}, for a cost {percent(abs(share))} {'higher' if share > 0 else 'lower'}."


def _share_over(costs: NDArray[np.float64], least: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share by which each of `costs` exceeds `least`, 0 where they differ only by rounding."""
    over = costs / least - 1
    return np.where(np.abs(over) <= SAME, 0.0, over)


def as_clause(closing: str) -> str:
    """Return the first clause of `closing`, the last sentence of a study, to end the study's title. Its first letter
    becomes lower case. A full stop in parentheses does not end the clause."""
    ends = (
        found.start()
        for found in re.finditer(r"[.;] |\.$", closing)
        if closing.count("(", 0, found.start()) <= closing.count(")", 0, found.start())
    )
    first = closing[: next(ends, None)]
    return first[:1].lower() + first[1:]


def _mean(values: Sequence[float | None] | NDArray[np.float64]) -> float | None:
    known = np.array([value for value in values if value is not None], np.float64)
    return float(np.nanmean(known)) if known.size and not np.isnan(known).all() else None


def _close(
    costs: PlacementCosts,
    found: Mapping[str, Sequence[FoundPlan]],
    whole: Mapping[str, float],
    base: str | None,
    reached: Mapping[str, str],
) -> str:
    """Return a sentence that names the search with the cheapest plans and says how evenly these plans load devices.
    Only searches that placed all tasks are compared.

    `reached` is a dict from search to a word. The word is 'optimum' if the search's plans are as cheap as the
    cheapest plans that cut no table. It is 'bound' if the plans are as cheap as a lower bound of the cost of plans
    that cut no table.
    """
    if not whole:
        return "No search has a plan of every task whose cost is known."
    name, *alike = find_cheapest(whole, _balances(found))
    label, origin = _name_search(name, costs), costs.origin
    if len(found[name]) == 1 and (repaired := _say_repairs(found[name])[0]):
        label += f", {repaired}"
    quoted = (_OF_TODAY.get(each) or f"'{name_row(each, costs)}'" for each in alike)
    also = f" (same cost by {', '.join(quoted)})" if alike else ""
    is_less = base is not None and base not in (name, *alike)
    than = f", {percent(1 - whole[name] / whole[base])} less than by '{base}'" if is_less and base else ""
    how = f"{origin}: {costs.timed}" if origin == "measured" else origin
    most = max((each.memory_bytes for each in found[name] if each.memory_bytes is not None), default=None)
    memory = "" if most is None else f", at most {num_bytes(most)} on a device"
    mean = f" (mean of {len(found[name])} tasks)" if len(found[name]) > 1 else ""
    said = f"{label}{also}: {duration(whole[name])} a step on the slowest device{mean}{memory} ({how}){than}"
    if (times := _mean([each.balance for each in found[name]]) or 1.0) > MOST_EVEN:
        said += f"; that is {times:.2f} times the mean of all devices"
    if origin == "measured":
        what = "sets were measured once more" if costs.timed == TIMED else "single tables were measured"
        return f"Lowest cost by {said}; {what}, which is no verdict: --run measures steps."
    least = "" if name not in reached else f"{duration(whole[name])} is the {reached[name]}"
    limit = f". No plan of whole tables is cheaper: {least}" if least else ""
    plans = "plan" if len(found[name]) == 1 else "plans"
    return f"Cheapest {plans} {'is' if name == TODAY else 'by'} {said}{limit}."
