"""A set as this version makes it: each run has its timekeeper and follows the one before; and what was done to it."""

import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from consistency_cases import LOG, write_kept_set
from log_builder import make_runs
from observed import observe
from read_data_cases import record_path
from run_record_cases import CHANGED, TINY, moment
from verdict_cases import VerdictCase

from rules.logs import keys
from rules.logs.log import read_log
from rules.records.chain import LAST_FILE, digest_record, first_link
from rules.records.codec import convert
from rules.records.run_set import RunSetRecord

Members = dict[str, Any]
Edit = Callable[[int, Members], Mapping[str, Any]]
LAST = 4


def log_path(root: Path, index: int) -> Path:
    return next(root.glob(f"results/*/*/result_{index}.txt"))


def read_members(root: Path, index: int) -> Members:
    content: Members = json.loads(record_path(root, index).read_text())
    return content


def write_watched_set(
    root: Path,
    edit: Edit = lambda index, record: {},
    *,
    late: Callable[[int], tuple[float, float]] = lambda index: (0.004, 0.004),
    edit_set: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """A whole chained set of five runs. `edit` changes members of records before they are linked; run_start and
    run_stop of run i come `late(i)` seconds after their stamps."""
    write_kept_set(root, is_chained=True, **options)
    path = root / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    link = first_link(convert(dict(content), RunSetRecord))
    path.write_text(json.dumps({**content, **(edit_set or {})}))
    for index in range(LAST + 1):
        log = read_log(log_path(root, index))
        stop, (early_s, late_s) = log.last(keys.RUN_STOP), late(index)
        assert stop is not None
        seen = observe(log, early_s=early_s, late_s=late_s)
        record = read_members(root, index) | {
            "observed_s": seen.pop("observed_s"),
            "observed_by": "timekeeper",
            "observed": seen,
            "closed_utc": moment(stop.time_ms),
            "ended_utc": moment(stop.time_ms),
            "samples_before_start": 0,
            "previous_sha256": link,
        }
        text = json.dumps(record | edit(index, record))
        record_path(root, index).write_text(text)
        link = digest_record(text.encode())
    (root / "extra" / LAST_FILE).write_text(f"{link}\n")
    return root


def only_changed(**members: Any) -> Edit:
    """An edit of the one run that is changed."""
    return lambda index, record: members if index == CHANGED else {}


def seen_otherwise(**members: Any) -> Edit:
    """An edit of what the one run's timekeeper saw."""
    return lambda index, record: {"observed": record["observed"] | members} if index == CHANGED else {}


def _line(key: str) -> int:
    return next(number for number, one in enumerate(make_runs(TINY)[CHANGED], 1) if one["key"] == key)


def take_away(root: Path, index: int) -> None:
    """Remove a finished run with all that is left of it."""
    shutil.rmtree(root / "extra" / f"run_{index}")
    log_path(root, index).unlink()


def make_again(root: Path, index: int, *, is_linked: bool = True) -> None:
    """Make a run that is a copy of the removed one again, after all others, as `resume` does."""
    record, log = read_members(root, index), log_path(root, index).read_text()
    take_away(root, index)
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in log.splitlines()]
    stop_ms = json.loads(log_path(root, LAST - 1).read_text().splitlines()[-1].removeprefix(":::MLLOG "))["time_ms"]
    shift = stop_ms + 10**7 - lines[0]["time_ms"]
    text = "".join(f":::MLLOG {json.dumps(line | {'time_ms': line['time_ms'] + shift})}\n" for line in lines)
    path = log_path(root, LAST - 1).with_name(f"result_{index}.txt")
    path.write_text(text)
    seen, last = record["observed"], (root / "extra" / LAST_FILE)
    changes = {
        "observed": seen | {key: seen[key] + shift for key in ("run_start_ms", "run_stop_ms")},
        "log_sha256": digest_record(text.encode()),
        **{key: moment(lines[place]["time_ms"] + shift) for key, place in (("started_utc", 0), ("ended_utc", -1))},
        "closed_utc": moment(lines[-1]["time_ms"] + shift),
        "previous_sha256": last.read_text().strip() if is_linked else None,
    }
    made = record_path(root, index)
    made.parent.mkdir(parents=True)
    made.write_text(json.dumps(record | changes))
    last.write_text(f"{digest_record(made.read_bytes())}\n")


def _after(change: Callable[[Path], object], **options: Any) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        write_watched_set(root, **options)
        change(root)
        return root

    return write


def _without_link(root: Path) -> None:
    path = record_path(root, LAST)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"previous_sha256": None}))
    (root / "extra" / LAST_FILE).write_text(f"{digest_record(record_path(root, LAST - 1).read_bytes())}\n")


def _swap_logs(root: Path) -> Path:
    """Two logs with their records in one another's place, in a set without a chain, whose seeds say so, too."""
    runs = make_runs(TINY)
    content = {"base_seed": 7}
    write_kept_set(root, **content)
    first, second = (log_path(root, index) for index in (1, 2))
    texts = [path.read_text() for path in (first, second)]
    starts = [next(one["time_ms"] for one in runs[index] if one["key"] == keys.INIT_START) for index in (1, 2)]
    for path, text, index, shift in (
        (first, texts[0], 1, starts[1] - starts[0] + 500),
        (second, texts[1], 2, 0),
    ):
        lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]
        shifted = "".join(f":::MLLOG {json.dumps(one | {'time_ms': one['time_ms'] + shift})}\n" for one in lines)
        path.write_text(shifted)
        record = record_path(root, index)
        changes = {
            "log_sha256": digest_record(shifted.encode()),
            "started_utc": moment(lines[0]["time_ms"] + shift),
            "ended_utc": moment(lines[-1]["time_ms"] + shift),
        }
        record.write_text(json.dumps(json.loads(record.read_text()) | changes))
    return root


def _case(code: str, name: str, file: str | None, line: int | None = None, **options: Any) -> VerdictCase:
    members = {key: options.pop(key) for key in ("also", "is_error") if key in options}
    write_bad = options.pop("write_bad", None) or partial(write_watched_set, **options)
    return VerdictCase(
        code=code, name=name, write_bad=write_bad, write_good=write_watched_set, file=file, line=line, **members
    )


def _all(**members: Any) -> Edit:
    return lambda index, record: members


STARTUP = {"kind": "sitecustomize", "path": "/home/someone/sitecustomize.py", "sha256": "e" * 64}
CASES = [
    _case("RS121", "watched", LOG, _line(keys.RUN_STOP), late=lambda index: (0.0, 1.0 if index == CHANGED else 0.0)),
    _case("RS121", "start sent late", LOG, _line(keys.RUN_START), late=lambda index: (5.0, 5.0)),
    _case("RS121", "start alone sent late", LOG, _line(keys.RUN_START), late=lambda index: (5.0, 0.0)),
    _case("RS121", "removed from all", "run.json", edit=_all(observed_s=None)),
    _case("RS121", "all of it removed", "run.json", edit=_all(observed_s=None, observed_by=None, observed=None)),
    _case("RS121", "kept by the run itself", "run.json", edit=_all(observed_by="itself", observed=None)),
    _case("RS121", "shorter life", LOG, _line(keys.RUN_STOP), edit=seen_otherwise(process_s=0.1)),
    _case("RS121", "held up", LOG, _line(keys.RUN_STOP), edit=seen_otherwise(uncertain_s=9.0), is_error=False),
    _case(
        "RS121", "closed late", LOG, _line(keys.RUN_STOP), is_error=False,
        edit=only_changed(closed_utc="2027-01-01T00:00:00+00:00", ended_utc="2027-01-01T00:00:01+00:00"),
    ),
    _case("RS122", "batch size", LOG, _line(keys.GLOBAL_BATCH_SIZE), is_error=False,
          config={"train.global_batch_size": {"value": 64, "source": "option"}}),
    _case("RS122", "implementation", LOG, _line(keys.IMPLEMENTATION), is_error=False,
          config={"runtime.implementation": {"value": "optimized", "source": "option"}}),
    _case("RS122", "created later", LOG, _line(keys.INIT_START), is_error=False,
          created_utc="2027-01-01T00:00:00+00:00"),
    _case("RS122", "ended before", LOG, _line(keys.RUN_STOP), is_error=False,
          edit=only_changed(ended_utc="2026-01-01T00:00:00+00:00")),
    _case("RS131", "first removed", "run.json", also=frozenset({"RS101"}), is_error=True,
          write_bad=_after(lambda root: take_away(root, 0))),
    _case("RS131", "last removed", LAST_FILE, also=frozenset({"RS101"}),
          write_bad=_after(lambda root: take_away(root, LAST))),
    _case("RS131", "made again", "run.json", also=frozenset({"RS132", "RS114"}),
          write_bad=_after(lambda root: make_again(root, 1))),
    _case("RS131", "last made again", "run.json", also=frozenset({"RS114"}),
          write_bad=_after(lambda root: make_again(root, LAST))),
    _case("RS131", "record changed", "run.json",
          write_bad=_after(lambda root: record_path(root, 1).write_text(record_path(root, 1).read_text() + " "))),
    _case("RS131", "no link", "run.json", write_bad=_after(_without_link)),
    _case("RS131", "no chain said", "run_set.json", edit_set={"is_chained": False}),
    _case("RS131", "no last link", LAST_FILE, write_bad=_after(lambda root: (root / "extra" / LAST_FILE).unlink())),
    _case("RS132", "without a chain", "result_2.txt", _line(keys.RUN_START), is_error=False,
          write_bad=_swap_logs, also=frozenset({"RS113"})),
    _case("RS133", "", LOG, _line(keys.RUN_START), edit=only_changed(samples_before_start=131_072)),
    _case("RS134", "", "run.json", edit=_all(startup=[STARTUP]), is_error=False),
    _case("RS134", "one alone", "run.json", edit=only_changed(startup=[STARTUP]), is_error=False),
]  # fmt: skip
