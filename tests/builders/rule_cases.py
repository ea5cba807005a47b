"""One way to break each rule on logs and sets: what to do to compliant ones, and which findings that makes."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from log_builder import SEEDS, Record, make_records, make_runs, to_text, with_record, without, write_set
from verdict_cases import VerdictCase, check

from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.logs import keys

TINY, DCNV2, DLRM = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_dcnv2"), load_benchmark("dlrm")
DLRMV4 = load_benchmark("dlrmv4")
Records = list[Record]


@dataclass(frozen=True, kw_only=True, slots=True)
class LogCase:
    """`break_text` is applied to the log's text, after `break_records` to its records.

    The finding is at the `index`-th record of `key` in what comes out, or at the line number `line`, or
    (without both) at no line. `also` are the codes of other rules that the same break offends.
    """

    benchmark: Benchmark = TINY
    ours: bool = True
    round: str | None = None
    break_records: Callable[[Records], Records] = lambda records: records
    break_text: Callable[[str], str] = lambda text: text
    key: str | None = None
    index: int = 0
    line: int | None = None
    also: frozenset[str] = frozenset()
    is_error: bool = True

    def good(self) -> str:
        return to_text(make_records(self.benchmark, ours=self.ours, num_evals=4))

    def bad(self) -> str:
        records = make_records(self.benchmark, ours=self.ours, num_evals=4)
        return self.break_text(to_text(self.break_records(records)))

    def line_num(self) -> int | None:
        if self.key is None:
            return self.line
        announced = f'"key": "{self.key}"'
        numbers = [number for number, text in enumerate(self.bad().splitlines(), 1) if announced in text]
        return numbers[self.index]

    def verdict_case(self, code: str) -> VerdictCase:
        def write(folder: Path, text: str) -> Path:
            path = folder / "result_0.txt"
            path.write_text(text)
            return path

        return VerdictCase(
            code=code,
            write_bad=lambda folder: write(folder, self.bad()),
            write_good=lambda folder: write(folder, self.good()),
            file="result_0.txt",
            line=self.line_num(),
            also=self.also,
            is_error=self.is_error,
            check=lambda path: check(path, self.round),
        )


def official(
    break_records: Callable[[Records], Records],
    key: str | None,
    benchmark: Benchmark = DCNV2,
    round_name: str = "6.0",
    **expected: Any,
) -> LogCase:
    return LogCase(
        benchmark=benchmark, ours=False, round=round_name, break_records=break_records, key=key, **expected
    )


def own(break_records: Callable[[Records], Records], key: str, **expected: Any) -> LogCase:
    return LogCase(break_records=break_records, key=key, **expected)


def _glue(text: str) -> str:
    first, rest = text.split("\n", 1)
    return f"{first} {rest}"


def _swap(records: Records, one: str, other: str) -> Records:
    """Exchange two records' places, not their stamps."""
    swapped = copy.deepcopy(records)
    i, j = (next(k for k, record in enumerate(swapped) if record["key"] == key) for key in (one, other))
    swapped[i], swapped[j] = swapped[j], swapped[i]
    swapped[i]["time_ms"], swapped[j]["time_ms"] = swapped[j]["time_ms"], swapped[i]["time_ms"]
    return swapped


def _late_init(records: Records) -> Records:
    """As if everything from init_stop on came half an hour later."""
    changed = copy.deepcopy(records)
    start = next(i for i, record in enumerate(changed) if record["key"] == keys.INIT_STOP)
    for record in changed[start:]:
        record["time_ms"] += 30 * 60 * 1000
    return changed


def _shift(records: Records, key: str, by_ms: int) -> Records:
    changed = copy.deepcopy(records)
    for record in changed:
        if record["key"] == key:
            record["time_ms"] += by_ms
    return changed


def _sparse(records: Records) -> Records:
    """Every second evaluation only."""
    evals = [i for i, record in enumerate(records) if record["key"] == keys.EVAL_ACCURACY]
    return [record for i, record in enumerate(records) if i not in evals[0:-1:2]]


def _aborted(records: Records, **metadata: object) -> Records:
    before = [record["value"] for record in records if record["key"] == keys.EVAL_ACCURACY][-2]
    low = with_record(records, keys.EVAL_ACCURACY, -1, value=before + 1e-5)
    return with_record(low, keys.RUN_STOP, metadata={"status": "aborted", "reason": "max_epochs", **metadata})


def _second_seed(records: Records) -> Records:
    return [one for record in records for one in (record, {**record, "value": 2})[: 1 + (record["key"] == keys.SEED)]]


def _no_time(records: Records) -> Records:
    """Everything happens at run_start."""
    changed = copy.deepcopy(records)
    start = next(i for i, record in enumerate(changed) if record["key"] == keys.RUN_START)
    for record in changed[start:]:
        record["time_ms"] = changed[start]["time_ms"]
    return changed


LOG_CASES: dict[str, LogCase] = {
    "ST101": LogCase(break_text=lambda text: text[:-40] + "\n", key=keys.RUN_STOP),
    "ST102": LogCase(break_text=_glue, line=1),
    "ST103": own(
        lambda records: [{k: v for k, v in r.items() if k != "metadata"} for r in records[:1]] + records[1:],
        keys.CACHE_CLEAR,
        also=frozenset({"TI107"}),
    ),
    "ST104": official(lambda records: without(records, keys.EVAL_SAMPLES), None),
    "ST105": own(lambda records: with_record(records, keys.NUM_THREADS, value="2"), keys.NUM_THREADS),
    "ST106": own(lambda records: with_record(records, keys.INIT_STOP, event_type="INTERVAL_START"), keys.INIT_STOP),
    "ST107": own(lambda records: _swap(records, keys.INIT_STOP, keys.RUN_START), keys.INIT_STOP),
    "ST110": own(
        lambda records: with_record(records, keys.SUBMISSION_BENCHMARK, value="dlrm_other"),
        keys.SUBMISSION_BENCHMARK,
    ),
    "ST111": own(
        lambda records: with_record(records, keys.DEFINITION_SHA256, value="0" * 64), keys.DEFINITION_SHA256
    ),
    "ST112": official(
        lambda records: with_record(records, keys.WEIGHTS_INITIALIZATION, metadata={"tensor": "top_mlp_dense9"}),
        keys.WEIGHTS_INITIALIZATION,
        DLRM,
        "2.1",
    ),
    "ST113": official(
        lambda records: with_record(records, keys.SUBMISSION_PLATFORM, value="8xSUBMISSION_PLATFORM_PLACEHOLDER"),
        keys.SUBMISSION_PLATFORM,
        is_error=False,
    ),
    "ST114": own(lambda records: _swap(records, keys.SEED, keys.RUN_START), keys.SEED, also=frozenset({"ST107"})),
    "TI101": own(lambda records: _shift(records, keys.TRACKED_STATS, -60_000), keys.TRACKED_STATS),
    "TI102": own(_late_init, keys.INIT_STOP),
    "TI103": own(_no_time, keys.RUN_STOP, also=frozenset({"CA105"})),
    "TI104": official(lambda records: _shift(records, keys.CACHE_CLEAR, 10**9), keys.CACHE_CLEAR),
    "TI105": official(
        lambda records: _shift(records, keys.EVAL_ACCURACY, 10**9),
        keys.EVAL_ACCURACY,
        also=frozenset({"QU102", "TI101"}),
    ),
    "TI106": own(
        lambda records: with_record(records, keys.CACHE_CLEAR, value=False), keys.CACHE_CLEAR, is_error=False
    ),
    "TI107": own(lambda records: with_record(records, keys.CACHE_CLEAR, metadata={"method": None}), keys.CACHE_CLEAR),
    "TI108": own(lambda records: with_record(records, keys.CACHE_CLEAR, time_ms=1_790_000_000), keys.CACHE_CLEAR),
    "HP101": official(
        lambda records: with_record(records, keys.OPT_ADAGRAD_EPSILON, value=1e-7), keys.OPT_ADAGRAD_EPSILON
    ),
    "HP102": official(
        lambda records: with_record(records, keys.GLOBAL_BATCH_SIZE, value=10**12), keys.GLOBAL_BATCH_SIZE
    ),
    "HP103": official(
        lambda records: with_record(records, keys.TRAIN_SAMPLES, value=7_000_000_000), keys.TRAIN_SAMPLES
    ),
    "HP104": own(
        lambda records: with_record(records, keys.PRECISION, value="fp33"),
        keys.PRECISION,
        also=frozenset({"HP101"} if keys.PRECISION in TINY.closed else ()),
    ),
    "HP105": official(
        lambda records: with_record(
            with_record(records, keys.SUBMISSION_DIVISION, value="open"), keys.OPT_ADAGRAD_EPSILON, value=1e-7
        ),
        keys.SUBMISSION_DIVISION,
        is_error=False,
    ),
    "CA101": official(_sparse, keys.EVAL_ACCURACY, also=frozenset({"CA107"})),
    "CA102": official(
        lambda records: with_record(records, keys.EVAL_ACCURACY, metadata={"epoch_num": None}), keys.EVAL_ACCURACY
    ),
    "CA103": own(lambda records: without(records, keys.TRACKED_STATS), keys.EVAL_START),
    "CA104": own(
        lambda records: with_record(records, keys.EVAL_STOP, 2, metadata={"samples_count": 5}),
        keys.EVAL_STOP,
        index=2,
    ),
    "CA105": own(
        lambda records: with_record(records, keys.TRACKED_STATS, value={"throughput": 1e9}), keys.TRACKED_STATS
    ),
    "CA106": official(
        lambda records: with_record(records, keys.EVAL_ACCURACY, 1, metadata={"samples_count": 59637761}),
        keys.EVAL_ACCURACY,
        DLRMV4,
        "6.1",
        index=1,
    ),
    "QU101": official(
        lambda records: with_record(records, keys.RUN_STOP, metadata={"status": "finished"}), keys.RUN_STOP
    ),
    "QU102": official(
        lambda records: with_record(records, keys.EVAL_ACCURACY, -1, value=0.8027499), keys.EVAL_ACCURACY, index=-1
    ),
    "QU103": official(_aborted, keys.RUN_STOP),
    "QU104": official(
        lambda records: with_record(records, keys.RUN_STOP, metadata={"status": "aborted"}),
        keys.EVAL_ACCURACY,
        index=-1,
        also=frozenset({"QU103"}),
    ),
    "QU105": own(lambda records: with_record(records, keys.EVAL_ACCURACY, 1, value=1.0), keys.EVAL_ACCURACY, index=1),
    "QU106": official(
        lambda records: with_record(records, keys.EVAL_ACCURACY, -1, metadata={"epoch_num": 1.05}),
        keys.EVAL_ACCURACY,
        index=-1,
        also=frozenset({"CA101", "CA110"}),
    ),
    "QU107": own(lambda records: _aborted(records, reason=None), keys.RUN_STOP, also=frozenset({"QU103"})),
    "SE102": official(lambda records: without(records, keys.SEED), None, round_name="4.0", is_error=False),
    "SE103": official(_second_seed, keys.SEED, index=1, is_error=False),
}


def _tree(root: Path, **options: object) -> Path:
    write_set(root, DCNV2, ours=False, **options)  # type: ignore[arg-type]
    return root


def _runs(root: Path, change: Callable[[list[Records]], list[Records]], benchmark: Benchmark = DCNV2) -> Path:
    ours = benchmark.status == "own"
    write_set(root, benchmark, change(make_runs(benchmark, ours=ours)), ours=ours)
    return root


def _change_system(root: Path, change: Callable[[dict[str, object]], object]) -> Path:
    _tree(root)
    path = root / "systems" / "example.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    return root


def _remove_system(root: Path) -> Path:
    _tree(root)
    (root / "systems" / "example.json").unlink()
    return root


def _rename_benchmark(root: Path) -> Path:
    _tree(root)
    (root / "results" / "example" / "dlrm_dcnv2").rename(root / "results" / "example" / "recommendation")
    return root


def _last(runs: list[Records], change: Callable[[Records], Records]) -> list[Records]:
    return [*runs[:-1], change(runs[-1])]


def _copy_first(root: Path) -> Path:
    _tree(root)
    folder = root / "results" / "example" / "dlrm_dcnv2"
    (folder / "result_9.txt").write_bytes((folder / "result_0.txt").read_bytes())
    return root


def _other_batch(root: Path) -> Path:
    runs = make_runs(DCNV2, ours=False, global_batch_size=10**7)
    write_set(root, DCNV2, runs, ours=False)
    return root


def _two_aborted(runs: list[Records]) -> list[Records]:
    return [_aborted(one) if index < 2 else one for index, one in enumerate(runs)]


def _too_fast(root: Path) -> Path:
    write_set(root, DCNV2, make_runs(DCNV2, ours=False, num_evals=12), ours=False)
    return root


def _other_organization(root: Path) -> Path:
    return _tree(root / "Elsewhere")


def published_factor(root: Path, factor: float = 1.5) -> Path:
    _tree(root)
    (root / "results" / "example" / "dlrm_dcnv2" / "scaling.json").write_text(f'{{"scaling_factor": {factor}}}')
    return root


SET_CASES: dict[str, Callable[[Path], Path]] = {
    "RS101": lambda root: _runs(root, lambda runs: runs[:-1]),
    "RS102": lambda root: _runs(root, lambda runs: [*runs, make_runs(DCNV2, 11, ours=False)[-1]]),
    "RS103": _copy_first,
    "RS104": lambda root: _runs(
        root, lambda runs: _last(runs, lambda one: with_record(one, keys.OPT_BASE_LEARNING_RATE, value=0.005))
    ),
    "RS105": lambda root: _runs(root, _two_aborted),
    "RS106": _rename_benchmark,
    "RS107": _other_organization,
    "SE101": lambda root: _runs(
        root, lambda runs: _last(runs, lambda one: with_record(one, keys.SEED, value=SEEDS[0]))
    ),
    "SY101": _remove_system,
    "SY102": lambda root: _change_system(root, lambda desc: {k: v for k, v in desc.items() if k != "cooling"}),
    "SY103": lambda root: _change_system(root, lambda desc: {**desc, "accelerators_per_node": 8}),
    "SY104": lambda root: _change_system(root, lambda desc: {**desc, "status": "onprem"}),
    "RC101": _too_fast,
    "RC102": _other_batch,
    "RC103": published_factor,
}


def write_good_set(root: Path) -> Path:
    """A set that breaks none of the set rules."""
    return _tree(root / "Example")


_PLACES: dict[str, tuple[str, int | None]] = {
    "RS103": ("result_9.txt", 23),
    "RS104": ("result_9.txt", 12),
    "RS105": ("result_0.txt", None),
    "RS106": ("recommendation", None),
    "RS107": ("result_0.txt", 5),
    "SE101": ("result_9.txt", 8),
    "SY102": ("example.json", None),
    "SY103": ("example.json", None),
    "SY104": ("example.json", None),
    "RC103": ("scaling.json", None),
}
"""File and line of the finding; by default the directory of the logs."""
_ALSO = {"RS103": frozenset({"SE101"}), "RS105": frozenset({"QU103"}), "RS107": frozenset({"SY105"})}
_WARNINGS = ("RS101", "RS107", "RC103")
_GOOD: dict[str, Callable[[Path], Path]] = {"RC103": lambda folder: published_factor(folder / "Example", 1.0)}
"""Sets that the rule is asked about; by default write_good_set. Slower than the reference, so the factor is 1."""


def _set_case(code: str, write: Callable[[Path], Path]) -> VerdictCase:
    file, line = _PLACES.get(code, ("dlrm_dcnv2", None))
    return VerdictCase(
        code=code,
        write_bad=lambda folder: write(folder / "Example") / "results",
        write_good=lambda folder: _GOOD.get(code, write_good_set)(folder) / "results",
        file=file,
        line=line,
        also=_ALSO.get(code, frozenset()),
        is_error=code not in _WARNINGS,
    )


CASES = [
    *(case.verdict_case(code) for code, case in LOG_CASES.items()),
    *(_set_case(code, write) for code, write in SET_CASES.items()),
]
