"""A run set of this harness with the record of each attempt: what a log that was changed afterwards contradicts."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from log_builder import Record, make_runs, with_record, write_log, write_set
from records_builder import cache_clear, read_data, run_content
from verdict_cases import VerdictCase

from rules.benchmarks.loader import load_benchmark
from rules.logs import keys

TINY = load_benchmark("dlrm_tiny")
CHANGED = 2
"""The run whose log is changed after its record was written."""
Change = Callable[[list[Record]], list[Record]]


def record_of(records: list[Record], index: int, log: bytes) -> dict[str, Any]:
    """run.json of an attempt as the run wrote it."""

    def spans(start: str, stop: str) -> list[float]:
        times = [[one["time_ms"] for one in records if one["key"] == key] for key in (start, stop)]
        return [(end - begin) / 1e3 for begin, end in zip(*times, strict=True)]

    evals = [one for one in records if one["key"] == keys.EVAL_ACCURACY]
    durations = spans(keys.EVAL_START, keys.EVAL_STOP)
    blocks = spans(keys.BLOCK_START, keys.BLOCK_STOP)
    return run_content(
        run_index=index,
        attempt=1,
        seed=next(one["value"] for one in records if one["key"] == keys.SEED),
        cache_clear=cache_clear(True),
        blocks=[{"first_sample": 0, "num_samples": 1, "duration_s": took_s} for took_s in blocks],
        evaluations=[
            {"samples_count": 1, "quality": one["value"], "duration_s": took_s}
            for one, took_s in zip(evals, durations, strict=True)
        ],
        read_data=[read_data(next(one["value"] for one in records if one["key"] == keys.DATASET_SHA256))],
        log_sha256=hashlib.sha256(log).hexdigest(),
        started_utc=moment(records[0]["time_ms"]),
        ended_utc=moment(records[-1]["time_ms"]),
    )


def moment(time_ms: int) -> str:
    """A stamp as records say when something was."""
    return datetime.fromtimestamp(time_ms / 1e3, UTC).isoformat(timespec="milliseconds")


def write_recorded(
    root: Path, change: Change = lambda records: records, *, runs: list[list[Record]] | None = None, **changes: Any
) -> Path:
    """A set with records; one log is then changed, and fields of its record."""
    runs = make_runs(TINY) if runs is None else runs
    folder = write_set(root, TINY, runs)
    for index, records in enumerate(runs):
        attempt = root / "extra" / f"run_{index}" / "attempt_1"
        attempt.mkdir(parents=True)
        record = record_of(records, index, (folder / f"result_{index}.txt").read_bytes())
        (attempt / "run.json").write_text(json.dumps(record | (changes if index == CHANGED else {})))
        interrupted = attempt.with_name("attempt_2")
        interrupted.mkdir()
        (interrupted / "run.json").write_text(json.dumps(record | {"status": "interrupted", "seed": 99}))
        (interrupted / "log.txt").write_text("")
    write_log(folder / f"result_{CHANGED}.txt", change(runs[CHANGED]))
    return root


def _without_record(root: Path) -> Path:
    write_recorded(root)
    (root / "extra" / f"run_{CHANGED}" / "attempt_1" / "run.json").unlink()
    return root


def _broken(root: Path) -> Path:
    write_recorded(root)
    (root / "extra" / f"run_{CHANGED}" / "attempt_1" / "run.json").write_text("{")
    return root


def _shorter(records: list[Record]) -> list[Record]:
    """From the first block's end on, everything 20 ms earlier: plausible in itself."""
    start = next(index for index, record in enumerate(records) if record["key"] == keys.BLOCK_STOP)
    return [
        {**record, "time_ms": record["time_ms"] - 20} if index >= start else record
        for index, record in enumerate(records)
    ]


def _line(key: str, index: int = 0) -> int:
    return [number for number, one in enumerate(make_runs(TINY)[CHANGED], 1) if one["key"] == key][index]


def _without_log(root: Path, **changes: Any) -> Path:
    """A run that finished, without its log."""
    write_recorded(root, **changes)
    next(root.glob(f"results/*/*/result_{CHANGED}.txt")).unlink()
    return root


def _set_aside(root: Path) -> Path:
    """A finished log moved back to its attempt."""
    write_recorded(root)
    log = next(root.glob(f"results/*/*/result_{CHANGED}.txt"))
    log.rename(root / "extra" / f"run_{CHANGED}" / "attempt_1" / "log.txt")
    return root


def _run_again(root: Path) -> Path:
    """A finished run whose log is gone and that was made once more."""
    write_recorded(root)
    attempt = root / "extra" / f"run_{CHANGED}" / "attempt_0"
    attempt.mkdir()
    (attempt / "run.json").write_text(json.dumps(run_content(status="not_converged")))
    return root


def _case(name: str, line: int | None, change: Change = lambda records: records, **options: Any) -> VerdictCase:
    changes = options.pop("changes", {})
    file = f"result_{CHANGED}.txt"
    write_bad = options.pop("write_bad", lambda folder: write_recorded(folder, change, **changes))
    return VerdictCase(
        code="RS116", name=name, write_bad=write_bad, write_good=write_recorded, file=file, line=line, **options
    )


CASES = [
    _case("seed", _line(keys.SEED), lambda records: with_record(records, keys.SEED, value=4711)),
    _case(
        "quality",
        _line(keys.EVAL_ACCURACY),
        lambda records: with_record(records, keys.EVAL_ACCURACY, value=0.6012345),
    ),
    _case("number of evaluations", _line(keys.EVAL_ACCURACY, -1), changes={"evaluations": []}),
    _case("status", _line(keys.RUN_STOP), changes={"status": "not_converged", "reason": "timeout"}),
    _case("reason", _line(keys.RUN_STOP), changes={"reason": "timeout"}),
    _case("cache", _line(keys.CACHE_CLEAR), changes={"cache_clear": cache_clear(False)}),
    _case("number", None, changes={"run_index": 3}),
    _case("less time", _line(keys.BLOCK_STOP), _shorter, also=frozenset({"CA105"})),
    _case(
        "digest",
        None,
        lambda records: with_record(records, keys.SUBMISSION_ORG, value="Other"),
        also=frozenset({"RS104"}),
    ),
    _case("no record", None, write_bad=_without_record, is_error=False),
    *(
        VerdictCase(
            code="RS117",
            name=name,
            write_bad=write_bad,
            write_good=write_good,
            file="run.json",
            also=frozenset() if name == "made again" else frozenset({"RS101", "RS110"}),
        )
        for name, write_bad, write_good in (
            ("without its log", _without_log, write_recorded),
            ("not converged", partial(_without_log, status="not_converged"), write_recorded),
            ("set aside", _set_aside, write_recorded),
            ("made again", _run_again, partial(_without_log, status="interrupted")),
        )
    ),
    VerdictCase(
        code="RS116",
        name="broken",
        write_bad=_broken,
        write_good=write_recorded,
        file="run.json",
        is_error=False,
    ),
]
