"""Two sets that pair.json calls measured in turns: whether their runs' stamps say so, too."""

import json
from pathlib import Path
from typing import Any

from log_builder import START_MS, make_runs, write_set
from verdict_cases import VerdictCase

from rules.benchmarks.loader import load_benchmark
from rules.records.codec import VERSION

TINY = load_benchmark("dlrm_tiny")
_STEP_MS = 3_600_000
"""Longer than any run."""
IN_TURNS = {"base": (0, 3, 4, 7, 8), "new": (1, 2, 5, 6, 9)}
ONE_AFTER_THE_OTHER = {"base": (0, 1, 2, 3, 4), "new": (5, 6, 7, 8, 9)}
AT_ONCE = {"base": (0, 3, 4, 7, 8), "new": (0.001, 2, 5, 6, 9)}


def pair_content(**changes: Any) -> dict[str, Any]:
    """pair.json of five pairs of runs."""
    return {
        "schema_version": VERSION,
        "name": "beside-dlrm_tiny-20261121T030000Z",
        "created_utc": "2026-11-21T03:00:00+00:00",
        "harness_version": "0.1.0",
        "command": "dlrmbench run --beside old",
        "kind": "training",
        "options": {},
        "num_runs": 5,
        "base_seed": 7,
        "source": "results/old",
        "python": None,
        **changes,
    }


def write_pair(folder: Path, places: dict[str, tuple[float, ...]], **changes: Any) -> Path:
    """A pair whose runs began in these places of one order; returns the folder of its base."""
    for side, order in places.items():
        runs = [
            [{**record, "time_ms": record["time_ms"] - records[0]["time_ms"] + begin_ms} for record in records]
            for begin_ms, records in zip(
                [START_MS + int(place * _STEP_MS) for place in order], make_runs(TINY), strict=True
            )
        ]
        write_set(folder / side, TINY, runs)
    (folder / "pair.json").write_text(json.dumps(pair_content(**changes)))
    return folder / "base"


def _broken(folder: Path) -> Path:
    write_pair(folder, IN_TURNS)
    (folder / "pair.json").write_text("{")
    return folder / "base"


CASES = [
    VerdictCase(
        code="RS120",
        name=name,
        write_bad=write_bad,
        write_good=lambda folder: write_pair(folder, IN_TURNS),
        file=file,
        also=frozenset({"RS119"}),  # logs alone, without the runs' records
        is_error=False,
    )
    for name, write_bad, file in (
        ("one after the other", lambda folder: write_pair(folder, ONE_AFTER_THE_OTHER), "extra"),
        ("at the same time", lambda folder: write_pair(folder, AT_ONCE), "extra"),
        ("alone", lambda folder: write_pair(folder, {"base": IN_TURNS["base"]}), "pair.json"),
        ("broken", _broken, "pair.json"),
    )
]
