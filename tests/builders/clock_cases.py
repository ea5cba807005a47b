"""Logs whose clock says less than the run took: a late run_start, time before it, a throughput that does not fit."""

import copy
from dataclasses import replace
from functools import partial

from rule_cases import DCNV2, LogCase, Records, official, own, published_factor
from verdict_cases import VerdictCase

from rules.logs import keys

LIMIT_MS = 30 * 60 * 1000


def late_start(records: Records, by_ms: int = 6000) -> Records:
    """run_start stamped after the first block began; lines stay where they are."""
    changed = copy.deepcopy(records)
    next(record for record in changed if record["key"] == keys.RUN_START)["time_ms"] += by_ms
    return changed


def gap(records: Records, by_ms: int) -> Records:
    """Everything from run_start on so much later."""
    changed = copy.deepcopy(records)
    first = next(index for index, record in enumerate(changed) if record["key"] == keys.RUN_START)
    for record in changed[first:]:
        record["time_ms"] += by_ms
    return changed


def with_throughput(records: Records, share: float) -> Records:
    """The throughput of the whole run below run_stop, as HugeCTR logs it, times `share`."""
    start, stop = (
        next(record["time_ms"] for record in records if record["key"] == key)
        for key in (keys.RUN_START, keys.RUN_STOP)
    )
    evaluation = [record for record in records if record["key"] == keys.EVAL_ACCURACY][-1]
    samples = evaluation["metadata"][keys.EPOCH_NUM] * DCNV2.sections["data"]["train_samples"]
    rate = share * samples / ((stop - start) / 1e3)
    template = next(record for record in records if record["key"] == keys.SEED)
    stats = {**template, "key": keys.TRACKED_STATS, "value": {"throughput": rate}, "time_ms": stop}
    others = [record for record in records if record["key"] != keys.TRACKED_STATS]
    return [*copy.deepcopy(others), stats]


CASES = [
    LogCase(break_records=partial(late_start, by_ms=100), key=keys.RUN_START, also=frozenset({"TI101"})).verdict_case(
        "TI109"
    ),
    official(partial(late_start, by_ms=1_500_000), keys.RUN_START, also=frozenset({"TI101", "TI102"})).verdict_case(
        "TI109"
    ),
    own(partial(gap, by_ms=1500), keys.RUN_START, is_error=False).verdict_case("TI102"),
    official(partial(gap, by_ms=LIMIT_MS), keys.INIT_STOP).verdict_case("TI102"),
    official(partial(with_throughput, share=2.0), keys.TRACKED_STATS, round_name="5.1", is_error=False).verdict_case(
        "TI110"
    ),
    VerdictCase(
        code="RC103",
        name="below 1",
        write_bad=lambda folder: published_factor(folder / "Example", 0.95) / "results",
        write_good=lambda folder: published_factor(folder / "Example", 1.0) / "results",
        file="scaling.json",
    ),
]
CASES = [replace(case, name=f"clock {number}") for number, case in enumerate(CASES)]
