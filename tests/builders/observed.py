"""What a run's timekeeper leaves, made of the run's log: for workers that have none."""

import json
from pathlib import Path
from typing import Any

from harness.launch.process import CLOCK_FILE
from rules.logs import keys
from rules.logs.log import RunLog, read_log


def observe(log: RunLog, *, early_s: float = 0.004, late_s: float = 0.004) -> dict[str, Any]:
    """What it saw where run_start and run_stop came so long after their stamps."""
    start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    assert start is not None and stop is not None
    seen_ms = (start.time_ms + round(early_s * 1e3), stop.time_ms + round(late_s * 1e3))
    run_s = (seen_ms[1] - seen_ms[0]) / 1e3
    return {"observed_s": run_s, **seen(seen_ms, process_s=run_s + 3.0)}


def seen(seen_ms: tuple[int, int], process_s: float | None, uncertain_s: float = 0.0) -> dict[str, Any]:
    """Members of `ObservedRecord`."""
    return {
        "uncertain_s": uncertain_s,
        "run_start_ms": seen_ms[0],
        "run_stop_ms": seen_ms[1],
        "process_s": process_s,
        "processor_s": None,
        "processor_before_s": None,
        "processor_run_s": None,
    }


def leave_observation(folder: Path, **late: float) -> None:
    """Leave in an attempt's folder what its timekeeper would have, where the run came to its end."""
    path = folder / "log.txt"
    if path.exists() and (log := read_log(path)).last(keys.RUN_STOP) is not None:
        (folder / CLOCK_FILE).write_text(json.dumps(observe(log, **late)), encoding="utf-8")
