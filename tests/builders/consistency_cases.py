"""A whole run set whose records say the same, and sets where one of them says something else."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from log_builder import SEEDS, Record, make_runs, make_system_desc, with_record
from read_data_cases import record_path
from records_builder import run_set_content, system_part
from run_record_cases import CHANGED, TINY, moment, write_recorded
from verdict_cases import VerdictCase

from rules.logs import keys

DESCRIBED = make_system_desc()


def observe(records: list[Record]) -> float:
    """Seconds from run_start to run_stop by the log."""
    first, last = (next(one["time_ms"] for one in records if one["key"] == key) for key in ("run_start", "run_stop"))
    return float(last - first) / 1e3


def write_kept_set(
    root: Path,
    *,
    late_s: Callable[[float], float | None] = lambda said_s: 0.004,
    is_all_late: bool = False,
    change: Callable[[list[Record]], list[Record]] = lambda records: records,
    throughput: float = 20_000.0,
    **run_set: Any,
) -> Path:
    """A set with all its records. The second clock saw the run that is changed, or all, so much longer."""
    runs = make_runs(TINY, throughput=throughput)
    runs[CHANGED] = change(runs[CHANGED])
    write_recorded(root, runs=runs)
    for index, records in enumerate(runs):
        path, said_s = record_path(root, index), observe(records)
        late = late_s(said_s) if is_all_late or index == CHANGED else 0.004
        members = {"observed_s": None if late is None else said_s + late}
        path.write_text(json.dumps(json.loads(path.read_text()) | members))
    created_utc = moment(min(run[0]["time_ms"] for run in runs))
    content = {"system": system_part(**DESCRIBED), "created_utc": created_utc, **run_set}
    (root / "extra" / "run_set.json").write_text(json.dumps(run_set_content(**content)))
    return root


def with_own_code(root: Path, name: str = "mine.py:Mine@0123456789ab") -> Path:
    runs = [with_record(run, keys.IMPLEMENTATION, value=name) for run in make_runs(TINY)]
    return write_recorded(root, runs=runs)


def _other_code(root: Path) -> Path:
    write_kept_set(root)
    path = record_path(root)
    code = {"sha256": "e" * 64, "commit": None, "commit_is_dirty": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": code}))
    return root


def _line(key: str) -> int:
    return next(number for number, one in enumerate(make_runs(TINY)[CHANGED], 1) if one["key"] == key)


def _claimed(root: Path) -> Path:
    runs = make_runs(TINY)
    for run in runs:
        next(record for record in run if record["key"] == keys.OPT_NAME)["metadata"][keys.IS_CLAIMED] = True
    return write_recorded(root, runs=runs)


def _case(code: str, name: str, file: str | None, line: int | None = None, **options: Any) -> VerdictCase:
    members = {key: options.pop(key) for key in ("also", "is_error") if key in options}
    write_bad = options.pop("write_bad", partial(write_kept_set, **options))
    return VerdictCase(
        code=code, name=name, write_bad=write_bad, write_good=write_kept_set, file=file, line=line, **members
    )


LOG = f"result_{CHANGED}.txt"
CASES = [
    _case("RS121", "a run", LOG, _line(keys.RUN_STOP), late_s=lambda said_s: 1.001 + 0.03 * said_s),
    _case(
        "RS121", "all runs", "dlrm_tiny", late_s=lambda said_s: 0.5 * said_s, is_all_late=True, throughput=200_000.0
    ),
    _case("RS121", "one without", "run.json", late_s=lambda said_s: None, is_error=False),
    _case("RS122", "base seed", "run_set.json", base_seed=8),
    _case("RS122", "seed", LOG, _line(keys.SEED), change=lambda run: with_record(run, keys.SEED, value=9)),
    _case(
        "RS122",
        "run beyond the seeds",
        "result_4.txt",
        _line(keys.SEED),
        seeds=SEEDS[:4],
    ),
    _case("RS122", "threads", LOG, _line(keys.NUM_THREADS), num_threads=3, is_error=False),
    _case("RS122", "code", "run.json", write_bad=_other_code, is_error=False),
    _case(
        "RS122",
        "system",
        "example.json",
        system=system_part(**DESCRIBED | {"host_processor_model_name": "another"}),
        is_error=False,
    ),
    _case("RS123", "a file", "dlrm_tiny", write_bad=with_own_code, is_error=False),
    _case("RS123", "a package", "dlrm_tiny", write_bad=partial(with_own_code, name="theirs"), is_error=False),
    _case("HP106", "claimed", LOG, _line(keys.OPT_NAME), write_bad=_claimed, is_error=False),
]
