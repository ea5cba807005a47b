"""What the official compliance checker does not see, crashes on, rightly rejects and rightly tolerates.

Each case changes a log that is compliant: one made here, and a published one where it is beside the checkout.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from log_builder import Record, make_records, make_runs, to_text, with_record, without, write_set
from mlperf_fixtures import NVIDIA

from harness.cli import main
from rules.benchmarks.loader import load_benchmark
from rules.errors import DefinitionError
from rules.judge.checker import check_paths
from rules.judge.sets import check_log
from rules.logs import keys
from rules.logs.log import read_log

DCNV2 = load_benchmark("dlrm_dcnv2")
PUBLISHED = NVIDIA / "results" / "tyche_ngpu8_ngc25.03_hugectr" / "dlrm_dcnv2" / "result_0.txt"
Records = list[Record]


def _published() -> Records:
    text = PUBLISHED.read_text()
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]


BASES: dict[str, Records] = {"made": make_records(DCNV2, num_evals=14, ours=False)}
if PUBLISHED.is_file():
    BASES["published"] = _published()


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """`code` is found as an error at the `index`-th record of `key` (None: in the file as a whole)."""

    code: str
    key: str | None
    index: int = 0
    change: Callable[[Records], Records] = lambda records: records
    change_text: Callable[[str], str] = lambda text: text
    severity: str = "error"


def _stamp(records: Records, key: str, time_ms: float, index: int = 0) -> Records:
    return with_record(records, key, index, time_ms=time_ms)


def _time(records: Records, key: str) -> float:
    return next(float(record["time_ms"]) for record in records if record["key"] == key)


def _value(key: str, value: Any) -> Callable[[Records], Records]:
    return lambda records: with_record(records, key, -1 if key == keys.EVAL_ACCURACY else 0, value=value)


def _status(status: str | None) -> Callable[[Records], Records]:
    return lambda records: with_record(records, keys.RUN_STOP, metadata={"status": status})


def _met_after_run_stop(records: Records) -> Records:
    """The last evaluation moves below run_stop, a second later."""
    last = [record for record in records if record["key"] == keys.EVAL_ACCURACY][-1]
    rest = [record for record in records if record is not last]
    stop = next(i for i, record in enumerate(rest) if record["key"] == keys.RUN_STOP)
    return [*rest[: stop + 1], {**last, "time_ms": rest[stop]["time_ms"] + 1000}, *rest[stop + 1 :]]


def _evaluations_before_init(records: Records) -> Records:
    changed = copy.deepcopy(records)
    evals = [record for record in changed if record["key"] == keys.EVAL_ACCURACY]
    rest = [record for record in changed if record["key"] != keys.EVAL_ACCURACY]
    for record in evals:
        record["time_ms"] = _time(records, keys.INIT_START) - 1000
    return [*evals, *rest]


def _one_evaluation(records: Records) -> Records:
    evals = [record for record in records if record["key"] == keys.EVAL_ACCURACY]
    return [record for record in records if not any(record is evaluation for evaluation in evals[:-1])]


def _two_seeds(records: Records) -> Records:
    index = next(i for i, record in enumerate(records) if record["key"] == keys.SEED)
    return [*records[: index + 1], {**records[index], "value": 987654321}, *records[index + 1 :]]


def _wrong_event_types(records: Records) -> Records:
    other = {"INTERVAL_START": "INTERVAL_END", "INTERVAL_END": "POINT_IN_TIME", "POINT_IN_TIME": "INTERVAL_START"}
    return [{**record, "event_type": other[record["event_type"]]} for record in records]


def _at_one_place(records: Records) -> Records:
    first = next(record for record in records if record["key"] == keys.EVAL_ACCURACY)["metadata"][keys.EPOCH_NUM]
    return [
        {**record, "metadata": {**record["metadata"], keys.EPOCH_NUM: first}}
        if record["key"] == keys.EVAL_ACCURACY
        else record
        for record in records
    ]


def _late_init(records: Records) -> Records:
    stop = next(i for i, record in enumerate(records) if record["key"] == keys.INIT_STOP)
    return [*records[:stop], *({**record, "time_ms": record["time_ms"] + 31 * 60_000} for record in records[stop:])]


def _disorder(records: Records) -> Records:
    """The third evaluation is stamped two seconds before the record above it."""
    index = [i for i, record in enumerate(records) if record["key"] == keys.EVAL_ACCURACY][2]
    return _stamp(records, keys.EVAL_ACCURACY, records[index - 1]["time_ms"] - 2000, 2)


def _lacking(key: str, field: str) -> Callable[[Records], Records]:
    return lambda records: [
        {name: one for name, one in record.items() if name != field} if record["key"] == key else record
        for record in records
    ]


def _glue(text: str) -> str:
    """The batch size's record loses its line end."""
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if '"key": "global_batch_size"' in line)
    return "\n".join([*lines[:index], lines[index] + " " + lines[index + 1], *lines[index + 2 :]]) + "\n"


def _cut(text: str) -> str:
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if '"key": "run_stop"' in line)
    return "\n".join([*lines[:index], lines[index][: len(lines[index]) * 2 // 3]]) + "\n"


def _append(key: str, more: str) -> Callable[[str], str]:
    return lambda text: "".join(
        f"{line}{more}\n" if f'"key": "{key}"' in line else f"{line}\n" for line in text.splitlines()
    )


EVAL, STOP = keys.EVAL_ACCURACY, keys.RUN_STOP
NOT_CAUGHT = {
    "all evaluations at one place": Unseen(code="CA101", key=EVAL, index=2, change=_at_one_place),
    "aborted with the target met": Unseen(code="QU104", key=EVAL, index=-1, change=_status("aborted")),
    "negative time": Unseen(
        code="TI103", key=STOP, change=lambda r: _stamp(r, STOP, _time(r, keys.RUN_START) - 1000)
    ),
    "run_start a second before run_stop": Unseen(
        code="TI105", key=EVAL, change=lambda r: _stamp(r, keys.RUN_START, _time(r, STOP) - 1000)
    ),
    "target met after run_stop only": Unseen(code="QU102", key=EVAL, index=-2, change=_met_after_run_stop),
    "all evaluations before init_start": Unseen(code="TI105", key=EVAL, change=_evaluations_before_init),
    "one evaluation at the end": Unseen(code="CA101", key=EVAL, change=_one_evaluation),
    "seven training samples": Unseen(code="HP103", key=keys.TRAIN_SAMPLES, change=_value(keys.TRAIN_SAMPLES, 7)),
    "batch size in words": Unseen(
        code="ST105", key=keys.GLOBAL_BATCH_SIZE, change=_value(keys.GLOBAL_BATCH_SIZE, "abc")
    ),
    "negative batch size": Unseen(
        code="ST105", key=keys.GLOBAL_BATCH_SIZE, change=_value(keys.GLOBAL_BATCH_SIZE, -5)
    ),
    "no seed": Unseen(code="ST104", key=None, change=lambda r: without(r, keys.SEED)),
    "two records on one line": Unseen(code="ST102", key=keys.GLOBAL_BATCH_SIZE, change_text=_glue),
    "one event type everywhere": Unseen(
        code="ST106",
        key=keys.INIT_STOP,
        change=lambda r: [{**record, "event_type": "POINT_IN_TIME"} for record in r],
        severity="warning",
    ),
    "wrong event types everywhere": Unseen(
        code="ST106", key=keys.INIT_START, change=_wrong_event_types, severity="warning"
    ),
    "cache cleared after run_start": Unseen(
        code="TI104",
        key=keys.CACHE_CLEAR,
        change=lambda r: [
            {**record, "time_ms": _time(r, STOP) + 5} if record["key"] == keys.CACHE_CLEAR else record for record in r
        ],
    ),
    "two different seeds": Unseen(code="SE103", key=keys.SEED, index=1, change=_two_seeds, severity="warning"),
    # What the rules do not forbid and only a reviewer would ask about is a warning.
    "time stamps out of order": Unseen(code="TI101", key=EVAL, index=2, change=_disorder, severity="warning"),
    "placeholder for the platform": Unseen(
        code="ST113",
        key=keys.SUBMISSION_PLATFORM,
        change=_value(keys.SUBMISSION_PLATFORM, "8xSUBMISSION_PLATFORM_PLACEHOLDER"),
        severity="warning",
    ),
}
CRASHES = {
    "no metadata": Unseen(code="ST103", key=keys.OPT_NAME, change=_lacking(keys.OPT_NAME, "metadata")),
    "quality null": Unseen(code="ST105", key=EVAL, index=-1, change=_value(EVAL, None)),
    "quality in words": Unseen(code="ST105", key=EVAL, index=-1, change=_value(EVAL, "high")),
    "unknown benchmark": Unseen(
        code="ST110", key=keys.SUBMISSION_BENCHMARK, change=_value(keys.SUBMISSION_BENCHMARK, "dlrm_dcnv3")
    ),
    "unknown division": Unseen(
        code="ST105", key=keys.SUBMISSION_DIVISION, change=_value(keys.SUBMISSION_DIVISION, "ajar")
    ),
}
REJECTED = {
    "cut line": Unseen(code="ST101", key=STOP, change_text=_cut),
    "text behind the record": Unseen(
        code="ST101", key=keys.OPT_NAME, change_text=_append(keys.OPT_NAME, " and so on")
    ),
    "number in quotes": Unseen(code="HP101", key=keys.OPT_WEIGHT_DECAY, change=_value(keys.OPT_WEIGHT_DECAY, "0")),
    "no run_stop": Unseen(code="ST104", key=None, change=lambda r: without(r, STOP)),
    "no batch size": Unseen(code="ST104", key=None, change=lambda r: without(r, keys.GLOBAL_BATCH_SIZE)),
    "init over 30 minutes": Unseen(code="TI102", key=keys.INIT_STOP, change=_late_init),
    "eval_samples": Unseen(code="HP101", key=keys.EVAL_SAMPLES, change=_value(keys.EVAL_SAMPLES, 89137318)),
    "just under the target": Unseen(code="QU102", key=EVAL, index=-1, change=_value(EVAL, 0.80274999)),
    "quality above 1": Unseen(code="ST105", key=EVAL, index=-1, change=_value(EVAL, 1.0000001)),
}
CASES = NOT_CAUGHT | CRASHES | REJECTED


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", CASES)
def test_is_found_at_its_line_and_decides_the_exit_code(
    name: str, base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    text = case.change_text(to_text(case.change(BASES[base])))
    path = tmp_path / "result_0.txt"
    path.write_text(text)
    with pytest.raises(SystemExit) as leaving:
        main(["check", str(path), "--ruleset", "6.0", "--no-second-opinion", "--format", "json"])
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    line_num = None
    if case.key is not None:
        marked = f'"key": "{case.key}"'
        line_num = [number for number, line in enumerate(text.splitlines(), 1) if marked in line][case.index]
    places = [
        (finding["severity"], finding["line_num"]) for finding in verdict["findings"] if finding["code"] == case.code
    ]
    assert (case.severity, line_num) in places, verdict["findings"]
    assert leaving.value.code == (3 if case.severity == "error" else 0)
    with pytest.raises(SystemExit) as leaving:
        main(["check", str(path), "--ruleset", "6.0", "--no-second-opinion", "--fail-on", "warning"])
    assert leaving.value.code == 3


@pytest.mark.parametrize("base", BASES)
def test_what_is_rightly_tolerated_changes_nothing(base: str, tmp_path: Path) -> None:
    text = to_text(BASES[base])
    lines = text.splitlines()
    noisy = [line for index, one in enumerate(lines) for line in (f"+ shell trace {index}", f"12: {one}")]
    forms = {
        "as it is": text.encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
        "ranks": "\n".join(f"{index % 4}: {one}" for index, one in enumerate(lines)).encode(),
        "brackets": "\n".join(f"[{index % 4}] {one}" for index, one in enumerate(lines)).encode(),
        "noise": "\n".join(noisy).encode(),
        "latin-1": ("Universit\xe9\n" + text).encode("latin-1"),
        "nul bytes": b"\0\0\0\n" + text.encode() + b"\0",
        "byte order mark": b"\xef\xbb\xbf" + text.encode(),
    }
    for name, content in forms.items():
        path = tmp_path / "result_0.txt"
        path.write_bytes(content)
        verdict = check_log(path, ruleset="6.0")
        assert (verdict.outcome, verdict.count("error"), verdict.count("warning")) == ("valid", 0, 0), (
            name,
            verdict.findings,
        )


@pytest.mark.parametrize("base", BASES)
def test_ranks_that_log_the_same_evaluation_are_at_one_place(base: str, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    ranks = [
        {**record, "time_ms": record["time_ms"] + delay_ms}
        for record in BASES[base]
        for delay_ms in ((0, 40, 90) if record["key"] == keys.EVAL_ACCURACY else (0,))
    ]
    path.write_text(to_text(sorted(ranks, key=lambda record: record["time_ms"])))
    assert "CA101" not in {finding.code for finding in check_log(path, ruleset="6.0").findings}


def test_retired_benchmark_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(to_text(BASES["made"]))
    with pytest.raises(DefinitionError, match=r"ruleset 6\.1 has no benchmark 'dlrm_dcnv2'; it was in 3\.0"):
        check_log(path, ruleset="6.1")
    with pytest.raises(SystemExit) as leaving:
        main(["check", str(path), "--ruleset", "6.1"])
    assert leaving.value.code == 2


def test_division_flipped_in_one_log_of_a_set_is_found(tmp_path: Path) -> None:
    """By itself a log may be of either division; that it drops every check of hyperparameters shows in its set."""
    runs = make_runs(DCNV2, ours=False)
    runs[4] = with_record(runs[4], keys.SUBMISSION_DIVISION, value="open")
    write_set(tmp_path / "Example", DCNV2, runs, ours=False)
    findings = [finding for verdict in check_paths([tmp_path], second_opinion=False) for finding in verdict.findings]
    assert [(Path(finding.path).name, finding.severity) for finding in findings if finding.code == "RS104"] == [
        ("result_4.txt", "error")
    ]


def test_glued_records_are_both_judged(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(_glue(to_text(BASES["made"])))
    assert len(read_log(path).lines) == len(BASES["made"])
