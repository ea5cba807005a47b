"""What runs read, as their records have it: other data, data that was changed meanwhile, no digest, no record."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from records_builder import read_data
from run_record_cases import CHANGED, TINY, write_recorded
from verdict_cases import VerdictCase

OTHER = "e" * 64
PINNED = TINY.sections["data"]["sha256"]


def record_path(root: Path, run: int = CHANGED) -> Path:
    return root / "extra" / f"run_{run}" / "attempt_1" / "run.json"


def changed_file(member: str) -> dict[str, Any]:
    """A copy with the right digest, one of whose files was changed and set back while the run read it."""
    copy = read_data(PINNED)
    (file,) = copy["files"]
    file["hashed"] = {**file["hashed"], member: file["hashed"][member] + 1}
    return copy


def _in_all(root: Path, make: Callable[[int], list[dict[str, Any]]]) -> Path:
    """The same set with other `read_data` in every record."""
    write_recorded(root)
    for run in range(TINY.score.num_runs):
        path = record_path(root, run)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"read_data": make(run)}))
    return root


def _without_extra(root: Path) -> Path:
    """The logs in their tree: above results/ it would be judged as a submission."""
    shutil.rmtree(write_recorded(root) / "extra")
    return root / "results"


def _without_records(root: Path) -> Path:
    for folder in write_recorded(root).glob("extra/run_*"):
        shutil.rmtree(folder)
    return root


def _case(name: str, *copies: dict[str, Any], **options: Any) -> VerdictCase:
    changes = options.pop("changes", {})
    write_bad = partial(write_recorded, read_data=list(copies), **changes)
    return VerdictCase(
        code="RS118",
        name=name,
        **{"write_bad": write_bad, "write_good": write_recorded, "file": "run.json", **options},
    )


def _blocks(run: int) -> list[dict[str, Any]]:
    return [read_data(OTHER if run == CHANGED else "d" * 64, scope="blocks")]


_RANKS = [{"rank": rank, "host": "example", "peak_rss_bytes": 1, "peak_device_bytes": None} for rank in (0, 1)]

CASES = [
    _case("other data in one run", read_data(OTHER)),
    _case("other data in all runs", write_bad=lambda root: _in_all(root, lambda run: [read_data(OTHER)])),
    _case("changed and set back", changed_file("ctime_ns")),
    _case("changed", changed_file("mtime_ns")),
    _case("other data on a second machine", read_data(PINNED), read_data(OTHER, host="second", ranks=[1])),
    _case("a rank that was not looked at", read_data(PINNED), changes={"ranks": _RANKS}),
    _case(
        "other blocks in one run",
        write_bad=lambda root: _in_all(root, _blocks),
    ),
    _case(
        "the same blocks in all runs",
        write_bad=lambda root: _in_all(root, lambda run: [read_data("d" * 64, scope="blocks")]),
        is_error=False,
    ),
    _case("not hashed", file=f"result_{CHANGED}.txt", is_error=False),
    VerdictCase(
        code="RS119",
        name="no extra",
        write_bad=lambda folder: _without_extra(folder / "Example"),
        write_good=write_recorded,
        file="dlrm_tiny",
        is_error=False,
    ),
    VerdictCase(
        code="RS119",
        name="no records",
        write_bad=_without_records,
        write_good=write_recorded,
        file="dlrm_tiny",
        is_error=False,
    ),
]
