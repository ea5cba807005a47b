"""Logs and sets that no published one is like: what they contradict is known for nothing, from what all of them
show."""

from dataclasses import replace
from pathlib import Path

from log_builder import make_runs, with_record, write_set
from rule_cases import DCNV2, LogCase, Records, official
from verdict_cases import VerdictCase

from rules.logs import keys

TARGET = DCNV2.quality.target


def _qualities(records: Records, *values: float) -> Records:
    for index, value in enumerate(values):
        records = with_record(records, keys.EVAL_ACCURACY, index, value=value)
    return records


def _stop_at(records: Records, more: float) -> Records:
    last = [one for one in records if one["key"] == keys.EVAL_ACCURACY][-1]["metadata"]["epoch_num"]
    return with_record(records, keys.RUN_STOP, metadata={"epoch_num": last + more})


LOG_CASES: dict[tuple[str, str], LogCase] = {
    ("CA110", ""): official(lambda records: _stop_at(records, 0.05), keys.RUN_STOP, is_error=False),
    ("CA110", "slightly"): official(lambda records: _stop_at(records, 0.0008), keys.RUN_STOP, is_error=False),
    ("QU109", "far"): official(
        lambda records: _qualities(records, TARGET - 0.002, TARGET - 0.00421, TARGET - 0.001),
        keys.EVAL_ACCURACY,
        index=1,
        is_error=False,
    ),
    ("QU109", "often"): official(
        lambda records: _qualities(records, TARGET - 0.002, TARGET - 0.003, TARGET - 0.004),
        keys.EVAL_ACCURACY,
        index=1,
        is_error=False,
    ),
    ("QU110", ""): official(
        lambda records: _qualities(records, *(TARGET - 0.003 + 0.0011 * index for index in range(4))),
        keys.EVAL_ACCURACY,
        is_error=False,
    ),
}


def _set_with_pace(folder: Path, pace: float) -> Path:
    """One of ten runs takes another time per epoch, evenly."""
    runs = make_runs(DCNV2, ours=False)
    start = next(one["time_ms"] for one in runs[4] if one["key"] == keys.RUN_START)
    for one in runs[4]:
        if one["time_ms"] > start:
            one["time_ms"] = round(start + (one["time_ms"] - start) * pace)
        if one["key"] == keys.TRACKED_STATS:
            one["value"] = {"throughput": one["value"]["throughput"] / pace}
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


CASES = [
    *(replace(case.verdict_case(code), name=name) for (code, name), case in LOG_CASES.items()),
    *(
        VerdictCase(
            code="TI111",
            name=f"{pace:g}",
            write_bad=lambda folder, pace=pace: _set_with_pace(folder, pace),  # type: ignore[misc]
            write_good=lambda folder: _set_with_pace(folder, 0.985),
            file="result_4.txt",
            is_error=False,
        )
        for pace in (0.975, 0.85)
    ),
]
