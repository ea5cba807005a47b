"""Further ways to break rules on logs, beside the one of rule_cases.py: by the rule's code and what is broken."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from log_builder import make_records, make_runs, with_record, write_log, write_set
from rule_cases import DCNV2, DLRM, LogCase, Records, official
from verdict_cases import VerdictCase, check

from rules.benchmarks.loader import Benchmark
from rules.logs import keys


def _in_seconds(records: Records) -> Records:
    return [{**record, "time_ms": record["time_ms"] // 1000} for record in records]


def _twice(records: Records, key: str, later_ms: int = 0, **changes: Any) -> Records:
    """A second record of a key behind the first."""
    first = next(record for record in records if record["key"] == key)
    second = {**first, "time_ms": first["time_ms"] + later_ms, **changes}
    return [one for record in records for one in (record, second)[: 1 + (record["key"] == key)]]


def _earlier(records: Records, key: str, before: str) -> Records:
    """The first record of a key put before the first of another, at its time."""
    moved = next(record for record in records if record["key"] == key)
    rest = [record for record in records if record is not moved]
    place = next(index for index, record in enumerate(rest) if record["key"] == before)
    return [*rest[:place], {**moved, "time_ms": rest[place]["time_ms"]}, *rest[place:]]


def _lacking(records: Records, key: str, field: str) -> Records:
    return [
        {name: one for name, one in record.items() if name != field or record["key"] != key} for record in records
    ]


VARIANTS: dict[tuple[str, str], LogCase] = {
    ("ST104", "second run_start at another time"): official(
        lambda records: _twice(records, keys.RUN_START, later_ms=1), keys.RUN_START, index=1
    ),
    ("ST104", "second run_stop of another status"): official(
        lambda records: _twice(records, keys.RUN_STOP, metadata={"status": "aborted"}), keys.RUN_STOP, index=1
    ),
    ("ST107", "block above run_start"): official(
        lambda records: _earlier(records, keys.BLOCK_START, keys.RUN_START), keys.BLOCK_START
    ),
    ("TI106", "no boolean"): official(
        lambda records: with_record(records, keys.CACHE_CLEAR, value="perhaps"), keys.CACHE_CLEAR, is_error=False
    ),
    ("TI108", "seconds"): official(_in_seconds, keys.INIT_START),
    # One fact, one finding: no ST105 beside the first, no HP103 beside the second.
    ("HP101", "number in quotes"): official(
        lambda records: with_record(records, keys.OPT_ADAGRAD_EPSILON, value="1e-8"), keys.OPT_ADAGRAD_EPSILON
    ),
    ("HP101", "seven samples"): official(
        lambda records: with_record(records, keys.EVAL_SAMPLES, value=7), keys.EVAL_SAMPLES
    ),
    ("SE103", "before seeds were demanded"): official(
        lambda records: _twice(records, keys.SEED, value=2), keys.SEED, index=1, round_name="4.0", is_error=False
    ),
    ("ST106", "a point"): official(
        lambda records: with_record(records, keys.RUN_STOP, event_type="POINT_IN_TIME"), keys.RUN_STOP, is_error=False
    ),
    ("ST106", "slip of the reference"): official(
        lambda records: with_record(records, keys.INIT_STOP, event_type="INTERVAL_START"),
        keys.INIT_STOP,
        is_error=False,
    ),
    # One fact, one finding: no ST106 beside the first, no CA101 and CA102 beside the second.
    ("ST103", "no event type"): official(
        lambda records: _lacking(records, keys.SEED, "event_type"), keys.SEED, is_error=False
    ),
    ("ST103", "no metadata"): official(
        lambda records: _lacking(records, keys.EVAL_ACCURACY, "metadata"), keys.EVAL_ACCURACY
    ),
    ("QU105", "official"): official(
        lambda records: with_record(records, keys.EVAL_ACCURACY, 1, value=0.9),
        keys.EVAL_ACCURACY,
        index=1,
        also=frozenset({"QU109"}),
        is_error=False,
    ),
}


def _two_logs(folder: Path, benchmark: Benchmark) -> Path:
    write_log(folder / "a" / "result_0.txt", make_records(DCNV2, ours=False, num_evals=4))
    write_log(folder / "b" / "result_1.txt", make_records(benchmark, ours=False, num_evals=4))
    return folder


def _other_benchmark(folder: Path, name: str) -> Path:
    runs = make_runs(DCNV2, ours=False)
    runs[3] = with_record(runs[3], keys.SUBMISSION_BENCHMARK, value=name)
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


def _alike(folder: Path, is_alike: bool) -> Path:
    runs = make_runs(DCNV2, ours=False)
    if is_alike:
        qualities = [record["value"] for record in runs[0] if record["key"] == keys.EVAL_ACCURACY]
        evals = (record for record in runs[3] if record["key"] == keys.EVAL_ACCURACY)
        for record, quality in zip(evals, qualities, strict=True):
            record["value"] = quality
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


def _another(folder: Path, key: str | None) -> Path:
    """One of ten runs names another organisation, platform, status or way to compute."""
    runs = make_runs(DCNV2, ours=False)
    runs = [[*run[:7], {**run[6], "key": keys.KERNELS, "value": "compiled"}, *run[7:]] for run in runs]
    if key is not None:
        runs[3] = with_record(runs[3], key, value="preview" if key == keys.SUBMISSION_STATUS else "Another")
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


CASES = [
    *(
        VerdictCase(
            code="RS104",
            name=f"another {key}",
            write_bad=partial(_another, key=key),
            write_good=partial(_another, key=None),
            file="result_3.txt",
            line=line,
            is_error=key not in (keys.SUBMISSION_STATUS, keys.KERNELS),
        )
        for line, key in enumerate(
            (keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM, keys.SUBMISSION_STATUS, keys.KERNELS), 5
        )
    ),
    VerdictCase(
        code="RS115",
        write_bad=partial(_alike, is_alike=True),
        write_good=partial(_alike, is_alike=False),
        file="result_3.txt",
        line=28,
        is_error=False,
    ),
    *(replace(case.verdict_case(code), name=name) for (code, name), case in VARIANTS.items()),
    VerdictCase(  # without RS104 beside it
        code="ST110",
        write_bad=partial(_other_benchmark, name="dlrm"),
        write_good=partial(_other_benchmark, name="dlrm_dcnv2"),
        file="result_3.txt",
        line=3,
        name="in a set",
    ),
    VerdictCase(
        code="ST115",
        write_bad=partial(_two_logs, benchmark=DLRM),
        write_good=partial(_two_logs, benchmark=DCNV2),
        file="result_1.txt",
        line=3,
        also=frozenset({"RS101"}),
        check=partial(check, ruleset="5.1"),
    ),
]
