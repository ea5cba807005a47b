"""Miniatures of what published rounds hold and their rules allow: made by our own builder, shaped as others log.

`older_set` is a submission of round 2.1 whose logs give in train_samples, at the end, what was trained.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from log_builder import BEYOND_33, Record, make_runs, make_system_desc, with_record, without, write_set
from verdict_cases import VerdictCase

from rules.benchmarks.loader import load_benchmark
from rules.logs import keys

DLRM, DCNV2 = load_benchmark("dlrm"), load_benchmark("dlrm_dcnv2")
SIZE = 4_195_197_692
BATCH = 55_296


def trained_samples(records: Sequence[Record], batch: int = BATCH, division: str = "closed") -> list[Record]:
    """As HugeCTR logs in 2.1: no samples_count, and train_samples behind run_stop, which counts the samples that were
    trained by batches of `batch` where epoch_num counts batches of BATCH."""
    changed = [
        {**record, "metadata": {key: value for key, value in record["metadata"].items() if key != "samples_count"}}
        for record in without(records, keys.TRAIN_SAMPLES)
        if record["key"] not in (keys.BLOCK_START, keys.BLOCK_STOP, keys.TRACKED_STATS)
    ]
    run_start = next(index for index, record in enumerate(changed) if record["key"] == keys.RUN_START)
    changed.insert(run_start + 1, {**changed[run_start], "key": keys.EPOCH_START, "metadata": {"epoch_num": 1}})
    stop = changed[-1]
    steps = round((stop["metadata"]["epoch_num"] - 1) * SIZE / BATCH)
    last = {**stop, "event_type": "POINT_IN_TIME", "key": keys.TRAIN_SAMPLES, "value": steps * batch, "metadata": {}}
    took_s = (stop["time_ms"] - changed[run_start]["time_ms"]) / 1e3
    statistics = {**last, "key": keys.TRACKED_STATS, "value": {"throughput": steps * batch / took_s}}
    changed += [{**stop, "key": keys.EPOCH_STOP, "metadata": {"epoch_num": 1}}, last, statistics]
    changed = with_record(changed, keys.GLOBAL_BATCH_SIZE, value=batch)
    return with_record(changed, keys.SUBMISSION_DIVISION, value=division)


def older_set(folder: Path, batch: int = BATCH, organization: str = "Example") -> Path:
    """A set of five runs in training_results_v2.1, ended by different evaluations; returns the round's folder."""
    runs = make_runs(DLRM, ours=False, num_evals=19, global_batch_size=BATCH)
    root = folder / "training_results_v2.1"
    write_set(root / organization, DLRM, [trained_samples(records, batch) for records in runs], ours=False)
    return root


def described_set(folder: Path, round_name: str, status: str) -> Path:
    """A submission of a round whose system has this availability; returns the round's folder."""
    root = folder / f"training_results_v{round_name}"
    write_set(root / "Example", DCNV2, ours=False)
    path = root / "Example" / "systems" / "example.json"
    path.write_text(json.dumps(make_system_desc(status=status, **BEYOND_33)))
    return root


def with_constant_blocks(records: Sequence[Record], num_samples: int = 209_762_611) -> list[Record]:
    """As the trainer that is no HugeCTR logs in 6.0: blocks of one samples_count, the target, steps, other
    statistics, and cache_clear at the end."""
    changed, steps = [], 0
    for record in without(without(records, keys.TRACKED_STATS), keys.CACHE_CLEAR):
        metadata = {key: record["metadata"][key] for key in ("epoch_num", "status") if key in record["metadata"]}
        if record["key"] in (keys.BLOCK_START, keys.BLOCK_STOP):
            metadata = {"samples_count": num_samples}
            steps += record["key"] == keys.BLOCK_STOP
        changed.append({**record, "metadata": {**metadata, "step": steps}})
    init_stop = next(index for index, record in enumerate(changed) if record["key"] == keys.INIT_STOP)
    changed.insert(init_stop, {**changed[init_stop - 1], "key": "target_accuracy", "value": 0.80275})
    statistics = {
        **changed[-1],
        "event_type": "POINT_IN_TIME",
        "key": keys.TRACKED_STATS,
        "value": {"step_time": 2e-3},
    }
    return [*changed, {**statistics, "metadata": {"step": steps}}, records[0]]


def crashed(records: Sequence[Record], last: str = keys.EVAL_STOP) -> list[Record]:
    """What the log of a run that crashed holds: everything up to the first record of `last`."""
    end = next(index for index, record in enumerate(records) if record["key"] == last)
    return list(records[: end + 1])


def crashed_set(folder: Path, num_crashed: int = 1, last: str = keys.EVAL_STOP) -> Path:
    """A set of ten runs, of which the last ones crashed; returns the folder of the submission's results."""
    runs = make_runs(DCNV2, ours=False)
    for index in range(1, num_crashed + 1):
        runs[-index] = crashed(runs[-index], last)
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


CASES = [
    VerdictCase(
        code="ST116",
        write_bad=partial(crashed_set, num_crashed=2),
        write_good=partial(crashed_set, num_crashed=0),
        file="result_9.txt",
        line=29,
        also=frozenset({"RS105"}),
    ),
    VerdictCase(
        code="ST116",
        name="one of ten",
        write_bad=crashed_set,
        write_good=partial(crashed_set, num_crashed=0),
        file="result_9.txt",
        line=29,
        is_error=False,
    ),
    *(
        VerdictCase(
            code="SY104",
            name=f"{status} in {round_name}",
            write_bad=partial(described_set, round_name=round_name, status=status),
            write_good=partial(described_set, round_name=round_name, status="Available cloud"),
            file="example.json",
            also=frozenset({"SU101"}),
            is_error=round_name == "4.1",
        )
        for round_name, status in (("4.0", "onprem"), ("4.0", "cloud"), ("4.0", "shelved"), ("4.1", "onprem"))
    ),
    VerdictCase(
        code="HP103",
        name="trained by other batches than epoch_num counts",
        write_bad=partial(older_set, batch=27_648),
        write_good=older_set,
        file="result_0.txt",
        line=87,
        also=frozenset({"RC101", "SU101"}),
        is_error=False,
    ),
]
