"""Two sets that a group's file calls measured in turns: whether their runs' stamps say so, too."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from log_builder import START_MS, make_runs, write_set
from records_builder import pair_content, write_group
from verdict_cases import VerdictCase

from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")
_STEP_MS = 3_600_000
"""Longer than any run."""
IN_TURNS = {"base": (0, 3, 4, 7, 8), "new": (1, 2, 5, 6, 9)}
ONE_AFTER_THE_OTHER = {"base": (0, 1, 2, 3, 4), "new": (5, 6, 7, 8, 9)}
AT_ONCE = {"base": (0, 3, 4, 7, 8), "new": (0.001, 2, 5, 6, 9)}


SIDES = {"base": "zebra", "new": "antelope"}
"""What a side's folder is called in experiment.json, where any name will do: here not in the order of the sides."""


def write_pair(folder: Path, places: dict[str, tuple[float, ...]], **members: Any) -> Path:
    """A pair whose runs began in these places of one order; returns the folder of its base."""
    for side, order in places.items():
        runs = [
            [{**record, "time_ms": record["time_ms"] - records[0]["time_ms"] + begin_ms} for record in records]
            for begin_ms, records in zip(
                [START_MS + int(place * _STEP_MS) for place in order], make_runs(TINY), strict=True
            )
        ]
        write_set(folder / SIDES[side], TINY, runs)
    content = pair_content(**members)
    for configuration in content["configurations"]:
        configuration["folder"] = SIDES[configuration["folder"]]
    write_group(folder, content)
    return folder / SIDES["base"]


def _broken(folder: Path) -> Path:
    base = write_pair(folder, IN_TURNS)
    (folder / "experiment.json").write_text("{")
    return base


def _with_other(folder: Path, name: str) -> Path:
    """A pair whose second side is said to be in a folder of that name."""
    base = write_pair(folder, IN_TURNS)
    file = folder / "experiment.json"
    file.write_text(file.read_text().replace(json.dumps(SIDES["new"]), json.dumps(name)))
    return base


CASES = [
    VerdictCase(
        code="RS120",
        name=name,
        write_bad=write_bad,
        write_good=partial(write_pair, places=IN_TURNS),
        file=file or "experiment.json",
        also=frozenset({"RS119"}),  # logs alone, without the runs' records
        is_error=False,
    )
    for name, write_bad, file in (
        ("one after the other", partial(write_pair, places=ONE_AFTER_THE_OTHER), "extra"),
        ("at the same time", partial(write_pair, places=AT_ONCE), "extra"),
        ("alone", partial(write_pair, places={"base": IN_TURNS["base"]}), None),
        ("broken", _broken, None),
    )
] + [
    VerdictCase(
        code="RS120",
        name=f"other side {name!r}",
        write_bad=partial(_with_other, name=name),
        write_good=partial(write_pair, places=IN_TURNS),
        file="experiment.json",
        also=frozenset({"RS119"}),
        is_error=False,
    )
    for name in ("../elsewhere", "..", "a/b", "/etc", "", "\0")
]
