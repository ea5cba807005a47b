"""Breaks that are as severe as the text says which they break, and no more."""

from dataclasses import replace
from pathlib import Path

from log_builder import make_runs, with_record, write_set
from rule_cases import DCNV2, DLRM, LogCase, Records, official
from verdict_cases import VerdictCase

from rules.logs import keys


def _tabs(text: str) -> str:
    """A tab behind the token in two lines."""
    first, second, rest = text.split("\n", 2)
    return "\n".join((first.replace(":::MLLOG ", ":::MLLOG\t"), second.replace(":::MLLOG ", ":::MLLOG\t"), rest))


def _start_below(records: Records) -> Records:
    """run_start is written below the first evaluation, and stamped before it."""
    start = next(one for one in records if one["key"] == keys.RUN_START)
    rest = [one for one in records if one is not start and one["key"] not in (keys.BLOCK_START, keys.BLOCK_STOP)]
    rest = [
        {**one, "key": one["key"].replace("block", "epoch"), "metadata": {"epoch_num": 0.05}}
        if one["key"] in (keys.BLOCK_START, keys.BLOCK_STOP)
        else one
        for one in rest
    ]
    stop = next(one for one in records if one["key"] == keys.RUN_STOP)
    epochs = [
        {**stop, "key": key, "event_type": kind, "metadata": {"epoch_num": 0.05}}
        for key, kind in ((keys.EPOCH_START, "INTERVAL_START"), (keys.EPOCH_STOP, "INTERVAL_END"))
    ]
    place = next(index for index, one in enumerate(rest) if one["key"] == keys.EVAL_ACCURACY) + 1
    return [*rest[:place], start, *rest[place:-1], *epochs, rest[-1]]


def _by_samples(records: Records) -> Records:
    """eval_start says samples_count alone."""
    return with_record(records, keys.EVAL_START, metadata={"epoch_num": None})


CASES_OF_LOGS: dict[tuple[str, str], LogCase] = {
    ("ST117", ""): LogCase(benchmark=DCNV2, ours=False, round="6.0", break_text=_tabs, key=keys.CACHE_CLEAR),
    ("ST105", "seed in quotes"): official(
        lambda records: with_record(records, keys.SEED, value="1"), keys.SEED, is_error=False
    ),
    ("ST105", "seed in words"): official(lambda records: with_record(records, keys.SEED, value="one"), keys.SEED),
    ("TI105", "run_start below"): official(_start_below, keys.EVAL_ACCURACY, also=frozenset({"TI101"})),
    ("CA102", "samples before 4.0"): official(_by_samples, keys.EVAL_START, round_name="3.0"),
    ("CA101", "before 3.0"): official(
        lambda records: [
            one for one in records if one["key"] != keys.EVAL_ACCURACY or one["metadata"]["epoch_num"] > 1.1
        ],
        keys.EVAL_ACCURACY,
        DLRM,
        "2.1",
    ),
}


def _set(folder: Path, changes: dict[int, dict[str, object]]) -> Path:
    runs = make_runs(DCNV2, ours=False)
    for index, fields in changes.items():
        runs[index] = with_record(runs[index], keys.SEED, **fields)  # type: ignore[arg-type]
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


def _open_set(folder: Path, quality: float | None) -> Path:
    runs = make_runs(DCNV2, ours=False, division=keys.OPEN)
    if quality is not None:
        runs[2] = with_record(runs[2], keys.EVAL_ACCURACY, -1, value=quality)
    root = folder / "Example"
    write_set(root, DCNV2, runs, ours=False)
    path = root / "systems" / "example.json"
    path.write_text(path.read_text().replace('"closed"', '"open"'))
    return root / "results"


CASES = [
    *(replace(case.verdict_case(code), name=name) for (code, name), case in CASES_OF_LOGS.items()),
    VerdictCase(
        code="SE101",
        name="on another line of the source",
        write_bad=lambda folder: _set(folder, {3: {"value": 7}, 8: {"value": 7, "metadata": {"lineno": 2}}}),
        write_good=lambda folder: _set(folder, {}),
        file="result_8.txt",
        line=8,
        is_error=False,
    ),
    VerdictCase(
        code="SE101",
        name="in quotes",
        write_bad=lambda folder: _set(folder, {3: {"value": 7}, 8: {"value": "7"}}),
        write_good=lambda folder: _set(folder, {}),
        file="result_8.txt",
        line=8,
        also=frozenset({"ST105"}),
    ),
    VerdictCase(
        code="QU108",
        write_bad=lambda folder: _open_set(folder, 0.0),
        write_good=lambda folder: _open_set(folder, None),
        file="result_2.txt",
        also=frozenset({"HP105"}),
        is_error=False,
    ),
]
