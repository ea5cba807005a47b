"""Logs that were changed by hand: a late run_start, time before it, a throughput, an interval, an evaluation or a
batch size that does not fit, a copied run."""

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path

from log_builder import make_runs, with_record, write_set
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


def as_published(records: Records) -> Records:
    """epoch_num in steps of an epoch that is rounded up, as HugeCTR counts them."""
    changed = copy.deepcopy(records)
    batch, samples = (_value(records, key) for key in (keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES))
    for record in changed:
        if keys.EPOCH_NUM in record["metadata"]:
            record["metadata"][keys.EPOCH_NUM] = (
                record["metadata"][keys.SAMPLES_COUNT] // batch / -(-samples // batch)
            )
    return changed


def _value(records: Records, key: str) -> int:
    return int(next(record["value"] for record in records if record["key"] == key))


def other_batch(records: Records, batch: int) -> Records:
    return with_record(as_published(records), keys.GLOBAL_BATCH_SIZE, value=batch)


def shorter_interval(records: Records, by_s: float) -> Records:
    """Everything from the third eval_accuracy on so much earlier, and what is above it no later than that."""
    changed = copy.deepcopy(records)
    third = [place for place, record in enumerate(changed) if record["key"] == keys.EVAL_ACCURACY][2]
    for record in changed[third:]:
        record["time_ms"] -= round(by_s * 1e3)
    for record in changed[:third]:
        record["time_ms"] = min(record["time_ms"], changed[third]["time_ms"])
    return changed


def less(records: Records, key: str, index: int = 0) -> Records:
    """Without one record of a key."""
    lost = [place for place, record in enumerate(records) if record["key"] == key][index]
    return [*records[:lost], *records[lost + 1 :]]


def late_accuracy(records: Records) -> Records:
    """The first eval_accuracy below its eval_stop."""
    place = next(place for place, record in enumerate(records) if record["key"] == keys.EVAL_ACCURACY)
    accuracy, stop = records[place : place + 2]
    return [*records[:place], stop, {**accuracy, "time_ms": stop["time_ms"]}, *records[place + 2 :]]


def copied_run(folder: Path, shared: int) -> Path:
    """Run 3 has so many exact qualities of run 1."""
    runs = make_runs(DCNV2, ours=False)
    qualities = [record["value"] for record in runs[1] if record["key"] == keys.EVAL_ACCURACY]
    evaluations = [record for record in runs[3] if record["key"] == keys.EVAL_ACCURACY]
    for record, quality in zip(evaluations[2 : 2 + shared], qualities[3:], strict=False):
        record["value"] = quality
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


_mild = partial(official, round_name="5.1", is_error=False)
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
    _mild(partial(shorter_interval, by_s=5000), keys.EVAL_ACCURACY, index=2).verdict_case("CA109"),
    _mild(partial(less, key=keys.EVAL_STOP, index=1), keys.EVAL_START, index=2).verdict_case("CA107"),
    _mild(partial(less, key=keys.EVAL_START, index=1), keys.EVAL_ACCURACY, index=1).verdict_case("CA107"),
    _mild(partial(less, key=keys.EVAL_STOP, index=3), keys.EVAL_ACCURACY, index=3).verdict_case("CA107"),
    _mild(late_accuracy, keys.EVAL_STOP).verdict_case("CA107"),
    _mild(partial(other_batch, batch=55296), keys.GLOBAL_BATCH_SIZE).verdict_case("CA108"),
    VerdictCase(
        code="RS115",
        write_bad=partial(copied_run, shared=2),
        write_good=partial(copied_run, shared=1),
        file="result_3.txt",
        line=28,
        is_error=False,
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
