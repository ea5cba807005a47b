"""Which round judges a set that no folder names a round of: one that was open when the runs were made, unless
asked."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from inside import run_inside
from log_builder import Record, make_runs, without, write_set
from rule_cases import DCNV2, DLRM, DLRMV4, TINY

from rules.benchmarks.rounds import OFFICIAL_ROUNDS, infer_round, open_round
from rules.judge.checker import check_paths
from rules.judge.sets import check_log
from rules.logs import keys


def _at(day: str, **options: object) -> list[list[Record]]:
    start_ms = round(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp() * 1e3)
    return make_runs(DCNV2, ours=False, start_ms=start_ms, **options)


def _write(folder: Path, runs: list[list[Record]]) -> Path:
    write_set(folder / "Example", DCNV2, runs, ours=False)
    return folder / "Example" / "results"


@pytest.mark.parametrize(
    ("day", "round_name"),
    [
        ("2023-05-01", "3.0"),
        ("2024-04-25", "4.0"),
        ("2024-06-12", "4.0"),
        ("2024-06-13", "4.1"),
        ("2026-06-16", "6.0"),
    ],
)
def test_the_round_is_the_first_that_was_not_published_yet(day: str, round_name: str) -> None:
    assert open_round(DCNV2, date.fromisoformat(day)) == round_name
    assert infer_round(DCNV2, None, None, date.fromisoformat(day)) == round_name


def test_what_is_asked_for_and_what_a_folder_says_come_first() -> None:
    day = date(2024, 4, 25)
    assert infer_round(DCNV2, "5.1", "3.1", day) == "3.1" and infer_round(DCNV2, "5.1", None, day) == "5.1"
    assert (
        infer_round(DCNV2, None, None, date(2026, 11, 1)) == "6.0" and infer_round(DCNV2, None, None, None) == "6.0"
    )
    assert infer_round(TINY, None, None, day) is None
    assert infer_round(DLRMV4, None, None, date(2026, 9, 1)) == OFFICIAL_ROUNDS[-1]
    assert infer_round(DLRM, None, None, date(2021, 5, 20)) == "1.0"


def test_a_set_of_april_2024_without_seeds_is_valid_wherever_it_lies(tmp_path: Path) -> None:
    """Seeds are demanded from round 4.1 on."""
    place = _write(tmp_path, [without(records, keys.SEED) for records in _at("2024-04-25")])
    (verdict,) = check_paths([place], second_opinion=False)
    assert (verdict.outcome, verdict.round) == ("valid", "4.0")
    assert verdict.ruleset_source == "open when the runs were made, 2024-05-15; --ruleset ROUND judges by another"
    (log,) = check_paths([next(place.rglob("result_3.txt"))], second_opinion=False)
    assert log.round == "4.0"
    (asked,) = check_paths([place], second_opinion=False, ruleset="4.1")
    assert (asked.outcome, asked.round, asked.ruleset_source) == ("invalid", "4.1", "asked for")


def test_stamps_in_seconds_are_of_their_round_too(tmp_path: Path) -> None:
    """As HugeCTR's of 0.7."""
    start_ms = round(datetime(2020, 6, 25, tzinfo=UTC).timestamp() * 1e3)
    (records,) = make_runs(DLRM, 1, ours=False, start_ms=start_ms)
    path = tmp_path / "result_0.txt"
    in_seconds = ({**one, "time_ms": one["time_ms"] // 1000} for one in records)
    path.write_text("".join(f":::MLLOG {json.dumps(one)}\n" for one in in_seconds))
    verdict = check_log(path)
    assert verdict.round == "0.7"
    assert verdict.ruleset_source == "open when the runs were made, 2020-06-25; --ruleset ROUND judges by another"


@pytest.mark.parametrize("time_ms", [0, 1_790_000_000, 1e14])
def test_stamps_of_no_time_say_nothing_of_the_round(time_ms: float, tmp_path: Path) -> None:
    (records,) = _at("2024-04-25", num_runs=1)
    path = tmp_path / "result_0.txt"
    path.write_text("".join(f":::MLLOG {json.dumps({**one, 'time_ms': time_ms})}\n" for one in records))
    verdict = check_log(path)
    assert verdict.round == "6.0" and verdict.ruleset_source.startswith("the last round of dlrm_dcnv2; --ruleset")


@pytest.mark.parametrize(
    "words",
    [("check", "--no-second-opinion"), ("score",), ("report", "--no-second-opinion"), ("compare",), ("diff",)],
    ids=lambda words: words[0],
)
def test_every_verb_that_judges_takes_a_ruleset(words: tuple[str, ...], tmp_path: Path) -> None:
    one = _write(tmp_path / "one", _at("2024-04-25"))
    paths = [one]
    if words[0] in ("compare", "diff"):
        paths.append(_write(tmp_path / "two", _at("2024-04-27")))
    done = run_inside(tmp_path, *words, *paths, "--ruleset", "3.1", "--format", "json")
    assert done.returncode in (0, 3), done.stderr
    said = json.loads(done.stdout)
    if words[0] == "check":
        assert said["verdicts"][0]["round"] == "3.1"
    elif words[0] == "score":
        assert said["scores"][0]["round"] == "3.1"
    elif words[0] == "report":
        assert {part["round"] for part in said["configurations"]} == {"3.1"}
    elif words[0] == "diff":
        rows = [row for row in said["identical"] if row["section"] == "rules"]
        assert {row["a"]["source"] for row in rows} == {"MLPerf Training 3.1"}
        assert ("verdict", "VALID") in {(row["name"], row["a"]["value"]) for row in rows}
    refused = run_inside(tmp_path, *words, *paths, "--ruleset", "9.9")
    assert refused.returncode == 2 and "unknown ruleset '9.9'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_exported_file_has_no_logs_to_judge(tmp_path: Path) -> None:
    place = _write(tmp_path, _at("2024-04-25"))
    made = run_inside(tmp_path, "report", place, "--no-second-opinion", "--format", "json", "-o", "all.json")
    assert made.returncode == 0
    refused = run_inside(tmp_path, "report", "all.json", "--format", "csv", "--ruleset", "4.0")
    assert refused.returncode == 2 and "--ruleset judges logs" in refused.stderr
