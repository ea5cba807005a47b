"""Compliant logs and result sets of any benchmark, in memory and on disk, for tests of everything that reads logs.

`make_records` gives the records of one run as plain dicts, in the order in which the harness writes them; a
test changes them and turns them into text with `to_text`. `write_set` lays out a whole run-set directory.
"""

import copy
import json
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rules.benchmarks.loader import Benchmark, shipped_twin
from rules.benchmarks.seeds import derive_seeds
from rules.logs import keys
from rules.logs.log import RunLog, parse_bytes
from rules.records.metrics import ROC_AUC
from rules.records.system import SYSTEM_FIELDS
from rules.scoring.rcp import load_points, rcp_file
from rules.tree.system_desc import COUNTS

Record = dict[str, Any]
START_MS = 1_790_000_000_000
SEEDS = derive_seeds(7, 40)
"""Seeds of the runs of a set whose base seed is 7."""
_THROUGHPUT = 20_000.0
DISCLOSED: dict[str, Any] = {
    keys.LOWEST_NUMERICAL_PRECISION_IN_LINEAR: "bfloat16",
    keys.LOWEST_NUMERICAL_PRECISION_IN_ATTN: "bfloat16",
    keys.LOWEST_NUMERICAL_PRECISION_IN_COMM: "fp32",
    keys.TENSOR_PARALLELISM: 1,
    keys.PIPELINE_PARALLELISM: 1,
    keys.CONTEXT_PARALLELISM: 1,
    keys.EXPERT_PARALLELISM: 1,
    keys.MICRO_BATCH_SIZE: 1024,
    keys.CONFIG_FILENAME: "config.sh",
}
"""What every log must disclose from round 6.1 on."""
_STARTS = {"init_start", "run_start", "block_start", "eval_start", "epoch_start"}
_STOPS = {"init_stop", "run_stop", "block_stop", "eval_stop", "epoch_stop"}


class _Writer:
    """Collects records with a clock that only goes forward."""

    def __init__(self, start_ms: int) -> None:
        self.time_ms: float = start_ms
        self.records: list[Record] = []

    def add(self, key: str, value: Any = None, **metadata: Any) -> None:
        kind = "INTERVAL_START" if key in _STARTS else "INTERVAL_END" if key in _STOPS else "POINT_IN_TIME"
        self.records.append(
            {
                "namespace": "",
                "time_ms": round(self.time_ms),
                "event_type": kind,
                "key": key,
                "value": value,
                "metadata": {"file": "harness/worker.py", "lineno": 1, **metadata},
            }
        )

    def wait(self, seconds: float) -> None:
        self.time_ms += seconds * 1e3


def make_records(
    benchmark: Benchmark,
    *,
    num_evals: int = 12,
    converged: bool = True,
    reason: str = "max_epochs",
    seed: int = 1,
    start_ms: int = START_MS,
    global_batch_size: int | None = None,
    throughput: float = _THROUGHPUT,
    division: str = "closed",
    organization: str = "Example",
    platform: str = "1x Example",
    ours: bool = True,
    settings: dict[str, Any] | None = None,
) -> list[Record]:
    """Records of one run that meets its target at evaluation `num_evals`, or gives up after it.

    `ours=False` leaves out what only this harness writes, as in anyone's official log. `settings` overrides
    values of settings by key.
    """
    train, data = benchmark.sections["train"], benchmark.sections["data"]
    batch = global_batch_size or int(train["global_batch_size"])
    samples = int(data.get("train_samples", 1_000_000))
    values: dict[str, Any] = {
        keys.SUBMISSION_BENCHMARK: benchmark.name,
        keys.SUBMISSION_DIVISION: division,
        keys.SUBMISSION_ORG: organization,
        keys.SUBMISSION_PLATFORM: platform,
        keys.SUBMISSION_STATUS: "onprem",
    }
    if ours:
        values |= {
            keys.BENCHMARK_VERSION: benchmark.version,
            keys.DEFINITION_SHA256: benchmark.definition_sha256,
            keys.QUALITY_TARGET: benchmark.quality.target,
        }
        if benchmark.quality.metric != ROC_AUC:
            values[keys.QUALITY_METRIC] = benchmark.quality.metric
        if not str(data.get("kind")).startswith("mlperf_"):
            values[keys.DATASET_SHA256] = data.get("sha256", "d" * 64)
    values[keys.SEED] = seed
    if ours:
        values |= {keys.IMPLEMENTATION: "reference", keys.PRECISION: "fp32", keys.NUM_THREADS: 2, keys.WORLD_SIZE: 1}
    values |= {keys.GLOBAL_BATCH_SIZE: batch, keys.GRADIENT_ACCUMULATION_STEPS: 1}
    values |= {
        key: value
        for key, value in train.items()
        if "opt_" in key or key.startswith("lr_") or key in benchmark.closed
    }
    if benchmark.name == "dlrmv4":
        rate = 1e-6 * batch / 8192
        values |= {"opt_base_learning_rate": rate, "opt_sparse_base_learning_rate": rate, **DISCLOSED}
    values |= {keys.TRAIN_SAMPLES: samples, keys.EVAL_SAMPLES: int(data.get("eval_samples", 10_000))}
    values[keys.GLOBAL_BATCH_SIZE] = batch
    values |= settings or {}
    out = _Writer(start_ms)
    out.add(keys.CACHE_CLEAR, True, method="posix_fadvise")
    out.wait(0.5)
    out.add(keys.INIT_START)
    for key, value in values.items():
        out.wait(0.001)
        out.add(key, value)
    if benchmark.name == "dlrm":
        for tensor in (
            "embeddings",
            *(f"bottom_mlp_dense{i}" for i in (1, 2, 3)),
            *(f"top_mlp_dense{i}" for i in range(1, 6)),
        ):
            out.add(keys.WEIGHTS_INITIALIZATION, None, tensor=tensor)
    out.wait(2)
    out.add(keys.INIT_STOP)
    out.wait(0.001)
    out.add(keys.RUN_START)
    chance = None if ours else random.Random(f"{organization} {seed} {start_ms}")
    _add_blocks(out, benchmark, samples, batch, num_evals, throughput, converged, chance)
    reached = _reached(benchmark, samples, batch, num_evals - 1)
    ending = {"status": "success"} if converged else {"status": "aborted", "reason": reason}
    out.add(
        keys.RUN_STOP,
        **ending,
        samples_count=reached,
        epoch_num=benchmark.quality.first_epoch_num + reached / samples,
    )
    return out.records


def _reached(benchmark: Benchmark, samples: int, batch: int, index: int) -> int:
    """Samples trained at evaluation number `index` from 0; none before it."""
    interval = batch * benchmark.steps_between_evals(samples, batch)
    return benchmark.first_eval_samples(samples, batch) + index * interval if index >= 0 else 0


def _add_blocks(
    out: _Writer,
    benchmark: Benchmark,
    samples: int,
    batch: int,
    num_evals: int,
    throughput: float,
    converged: bool,
    chance: random.Random | None,
) -> None:
    """Qualities of others' logs scatter as those of trainings do, each seed's in its own way."""
    first_epoch, target = benchmark.quality.first_epoch_num, benchmark.quality.target
    for index in range(num_evals):
        first, last = (_reached(benchmark, samples, batch, place) for place in (index - 1, index))
        size = last - first
        block = {"first_epoch_num": first_epoch + first / samples, "epoch_count": size / samples}
        place = {"epoch_num": first_epoch + last / samples, "samples_count": last}
        out.wait(0.001)
        out.add(keys.BLOCK_START, **block, samples_count=first)
        out.wait(size / throughput)
        out.add(keys.BLOCK_STOP, **block, samples_count=last)
        out.add(keys.TRACKED_STATS, {"throughput": throughput}, **place)
        out.wait(0.001)
        out.add(keys.EVAL_START, **place)
        out.wait(0.1 * size / throughput)
        is_met = converged and index == num_evals - 1
        quality = target + 0.0005 if is_met else target - 0.02 * (1 - 0.9 * index / max(num_evals, 1)) - 0.0005
        if chance is not None:
            quality += chance.uniform(0, 4e-4) * (1 if is_met else -1)
        out.add(keys.EVAL_ACCURACY, quality, **place)
        out.wait(0.001)
        out.add(keys.EVAL_STOP, **place)
    out.wait(0.001)


def to_text(records: Iterable[Record]) -> str:
    return "".join(f":::MLLOG {json.dumps(record)}\n" for record in records)


def parse_lines(text: str | bytes, path: str = "<text>") -> RunLog:
    """Parse a log held in memory, each of its lines as a whole; `path` is only named in findings."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return parse_bytes(data, path)


def to_log(records: Iterable[Record], path: str = "result_0.txt") -> RunLog:
    return parse_lines(to_text(records), path)


def with_record(records: Sequence[Record], key: str, index: int = 0, **changes: Any) -> list[Record]:
    """A copy with fields of the `index`-th record of `key` changed; metadata is merged, None removes from it."""
    changed = copy.deepcopy(list(records))
    record = [one for one in changed if one["key"] == key][index]
    metadata = changes.pop("metadata", None)
    record.update(changes)
    if metadata is not None:
        merged = {**record["metadata"], **metadata}
        record["metadata"] = {name: value for name, value in merged.items() if value is not None}
    return changed


def without(records: Sequence[Record], key: str) -> list[Record]:
    return [record for record in records if record["key"] != key]


def write_log(path: Path, records: Iterable[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(records), encoding="utf-8")
    return path


def usual_evals(benchmark: Benchmark) -> int:
    """How many evaluations a run takes that converges as the reference does: faster sets would be suspicious."""
    if benchmark.status == "official":
        return 17
    file = rcp_file(shipped_twin(benchmark) or benchmark, None)
    batch_size = benchmark.sections["train"]["global_batch_size"]
    points = load_points(file, benchmark.score.num_runs) if file is not None else ()
    means = [point.mean for point in points if point.global_batch_size == batch_size]
    return math.floor(means[0] * benchmark.quality.evals_per_epoch) + 1 if means else 13


def make_runs(benchmark: Benchmark, num_runs: int | None = None, **options: Any) -> list[list[Record]]:
    """Records of the runs of one set: own seeds, one after another, different numbers of evaluations."""
    start_ms = options.pop("start_ms", START_MS)
    middle = options.pop("num_evals", usual_evals(benchmark))
    runs: list[list[Record]] = []
    for index in range(benchmark.score.num_runs if num_runs is None else num_runs):
        runs.append(
            make_records(benchmark, num_evals=middle + index % 3 - 1, seed=SEEDS[index], start_ms=start_ms, **options)
        )
        for record in runs[-1]:
            if record["key"] == keys.EVAL_ACCURACY:  # no two trainings end alike
                record["value"] += index * 1e-9
        start_ms = runs[-1][-1]["time_ms"] + 60_000
    return runs


BEYOND_33 = {"system_type": "datacenter", "host_network_card_count": "1"}
"""What the rules' text asks of official descriptions besides."""


def make_system_desc(**fields: str) -> dict[str, str]:
    """The 33 fields, filled in so that the checks find nothing amiss."""
    known = {"submitter": "Example", "division": "closed", "status": "Available on-premise", "system_name": "example"}
    known |= dict.fromkeys(COUNTS, "8") | {"number_of_nodes": "1"}
    return {field: known.get(field, "as built") for field in SYSTEM_FIELDS} | fields


def write_set(
    root: Path,
    benchmark: Benchmark,
    runs: Sequence[Sequence[Record]] | None = None,
    *,
    system: str = "example",
    ours: bool = True,
) -> Path:
    """Write systems/, results/ and, for our own sets, extra/ below `root`; returns the folder of the logs."""
    folder = root / "results" / system / benchmark.name
    for index, records in enumerate(make_runs(benchmark, ours=ours) if runs is None else runs):
        write_log(folder / f"result_{index}.txt", records)
    (root / "systems").mkdir(parents=True, exist_ok=True)
    (root / "systems" / f"{system}.json").write_text(
        json.dumps(make_system_desc(**({} if ours else BEYOND_33))), encoding="utf-8"
    )
    if ours:
        (root / "extra").mkdir(exist_ok=True)
        (root / "extra" / "definition.toml").write_text(benchmark.path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder
