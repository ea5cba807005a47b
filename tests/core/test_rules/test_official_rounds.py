"""Round by round from 0.7 to 6.1: the same keys are demanded as often, and the same limits hold, as officially."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from log_builder import Record, make_records, parse_lines, with_record, without, write_log
from mlperf_logging import compliance_checker
from official_opinion import ask_official_checker

from rules.benchmarks.loader import load_benchmark
from rules.checks.run_log.required_keys import EITHER_OR, TENSORS_OF_DLRM, required_keys_of
from rules.checks.subject import LogSubject, make_log_subject
from rules.judge.sets import check_log
from rules.logs import keys

FOLDER = Path(next(iter(compliance_checker.__path__)))
ROUNDS = [
    (name, round_name) for name in ("dlrm", "dlrm_dcnv2", "dlrmv4") for round_name in load_benchmark(name).rounds
]
DIVISIONS = ("closed", "open")
LIMITS_CHANGED = ("0.7", "1.1", "5.0", "6.1")
"""Rounds whose logs are judged every time; the others are of the long tests."""
OURS_ONLY = {keys.SEED}
"""Required by the seed checker, not by the compliance checker."""


def official_keys(benchmark: str, round_name: str, division: str) -> dict[str, str]:
    """REQ of every key, a later file replacing an earlier one."""
    found: dict[str, str] = {}
    for file in ("common", f"{division}_common", f"{division}_{benchmark}"):
        path = FOLDER / f"training_{round_name}.0" / f"{file}.yaml"
        for record in yaml.safe_load(path.read_text()):
            if (key := record.get("KEY")) is not None:
                found[key["NAME"]] = key.get("REQ", "OPTIONAL")
    return found


def subject_of(benchmark: str, round_name: str, division: str) -> LogSubject:
    log = parse_lines(
        f':::MLLOG {{"key": "submission_division", "value": "{division}", "time_ms": 1, "event_type": "", '
        '"metadata": {}}'
    )
    return make_log_subject(log, load_benchmark(benchmark), round_name)


@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(("benchmark", "round_name"), ROUNDS)
def test_required_keys_are_those_of_the_round_s_files(benchmark: str, round_name: str, division: str) -> None:
    official = official_keys(benchmark, round_name, division)
    required = required_keys_of(subject_of(benchmark, round_name, division))
    is_once = {"EXACTLY_ONE": True, "AT_LEAST_ONE": False}
    wanted = {key: is_once[req] for key, req in official.items() if req in is_once}
    if wanted.pop(keys.WEIGHTS_INITIALIZATION, None) is not None:
        assert len(TENSORS_OF_DLRM) == 9  # ST112 asks for each of them
    assert {key: ours.is_once for key, ours in required.items() if key not in OURS_ONLY} == wanted
    either = {tuple(sorted((key, req[16:-1]))) for key, req in official.items() if req.startswith("AT_LEAST_ONE_OR(")}
    assert {tuple(sorted(pair)) for pair in EITHER_OR} >= either
    assert len(either) >= 3


def later(records: list[Record], minutes: float) -> list[Record]:
    """Initialisation that takes that long."""
    changed = copy.deepcopy(records)
    start = next(record["time_ms"] for record in changed if record["key"] == keys.INIT_START)
    stop = next(i for i, record in enumerate(changed) if record["key"] == keys.INIT_STOP)
    by_ms = start + minutes * 60_000 - changed[stop]["time_ms"]
    for record in changed[stop:]:
        record["time_ms"] = round(record["time_ms"] + by_ms)
    return changed


def twice(records: list[Record], of: str, /, **changes: Any) -> list[Record]:
    index = next(i for i, record in enumerate(records) if record["key"] == of)
    return [*records[: index + 1], {**records[index], **changes}, *records[index + 1 :]]


def moved_behind(records: list[Record], key: str, behind: str) -> list[Record]:
    moved = next(record for record in records if record["key"] == key)
    rest = [record for record in records if record is not moved]
    index = next(i for i, record in enumerate(rest) if record["key"] == behind)
    return [*rest[: index + 1], {**moved, "time_ms": rest[index]["time_ms"]}, *rest[index + 1 :]]


def variants(good: list[Record], limit_min: int) -> dict[str, list[Record]]:
    return {
        "as it should be": good,
        "just in time": later(good, limit_min - 0.01),
        "at the limit": later(good, limit_min),
        "batch size twice": twice(good, keys.GLOBAL_BATCH_SIZE),
        "samples twice, differing": twice(good, keys.EVAL_SAMPLES, value=5),
        "cache cleared twice": twice(good, keys.CACHE_CLEAR),
        "two nodes start": twice(good, keys.INIT_START),
        "init_start after init_stop": twice(good, keys.INIT_STOP, key=keys.INIT_START, event_type="INTERVAL_START"),
        "stopped twice": twice(good, keys.RUN_STOP),
        "no evaluation at all": [r for r in good if not r["key"].startswith(("eval_a", "eval_st", "block"))],
        "no status": with_record(good, keys.RUN_STOP, metadata={"status": None}),
        "no blocks": without(without(good, keys.BLOCK_START), keys.BLOCK_STOP),
        "a block of no length": with_record(good, keys.BLOCK_START, metadata={"epoch_count": 0}),
        "division after initialisation": moved_behind(good, keys.SUBMISSION_DIVISION, keys.INIT_STOP),
        "benchmark after initialisation": moved_behind(good, keys.SUBMISSION_BENCHMARK, keys.INIT_STOP),
        "an empty platform": with_record(good, keys.SUBMISSION_PLATFORM, value=""),
    }


@pytest.mark.slow
@pytest.mark.parametrize("division", DIVISIONS)
@pytest.mark.parametrize(
    ("benchmark", "round_name"),
    [pytest.param(*case, marks=[] if case[1] in LIMITS_CHANGED else pytest.mark.long) for case in ROUNDS],
)
def test_limits_and_duplicates_are_judged_alike(
    benchmark: str, round_name: str, division: str, tmp_path: Path
) -> None:
    good = make_records(load_benchmark(benchmark), ours=False, num_evals=2, division=division)
    limit_min = 20 if round_name == "0.7" else 30 if division == "closed" or round_name < "2.0" else 240
    paths = {
        name: write_log(tmp_path / f"{name}.txt", records) for name, records in variants(good, limit_min).items()
    }
    opinions = ask_official_checker(list(paths.values()), round_name)
    differing = {}
    for (name, path), opinion in zip(paths.items(), opinions, strict=True):
        ours = check_log(path, ruleset=round_name)
        if ours.outcome != opinion.outcome:
            differing[name] = (ours.outcome, opinion.outcome, opinion.messages, ours.findings)
    assert differing == {}
