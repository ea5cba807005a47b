"""The official checker as oracle: it agrees where it looks, and its crashes and silences are known."""

import subprocess
import sys
from pathlib import Path

import pytest
from log_builder import Record, make_records, make_runs, to_text, with_record, without, write_log, write_set
from mlperf_fixtures import FOLDER, NVIDIA, needs_published_results
from official_opinion import ask_official_checker
from tiers import quick_first

from rules.benchmarks.loader import load_benchmark
from rules.judge.checker import check_paths
from rules.judge.sets import check_log, judge_set, judge_sets
from rules.logs import keys
from rules.tree.inventory import find_result_sets

DCNV2, DLRM = load_benchmark("dlrm_dcnv2"), load_benchmark("dlrm")
GOOD = make_records(DCNV2, num_evals=15, ours=False)

AGREE = {
    "as it should be": GOOD,
    "cut line": None,
    "no eval_samples": without(GOOD, keys.EVAL_SAMPLES),
    "no run_stop": without(GOOD, keys.RUN_STOP),
    "no global_batch_size": without(GOOD, keys.GLOBAL_BATCH_SIZE),
    "no cache_clear": without(GOOD, keys.CACHE_CLEAR),
    "number in quotes": with_record(GOOD, "opt_weight_decay", value="0"),
    "wrong epsilon": with_record(GOOD, "opt_adagrad_epsilon", value=1e-7),
    "wrong optimizer": with_record(GOOD, "opt_name", value="adam"),
    "other eval_samples": with_record(GOOD, keys.EVAL_SAMPLES, value=89137318),
    "just under the target": with_record(GOOD, keys.EVAL_ACCURACY, -1, value=0.80274999),
    "above 1": with_record(GOOD, keys.EVAL_ACCURACY, -1, value=1.0000001),
    "empty platform": with_record(GOOD, keys.SUBMISSION_PLATFORM, value=""),
    "no accumulation": with_record(GOOD, keys.GRADIENT_ACCUMULATION_STEPS, value=0),
    "no status": with_record(GOOD, keys.RUN_STOP, metadata={"status": None}),
    "two batch sizes": [*GOOD[:12], {**GOOD[12], "key": keys.GLOBAL_BATCH_SIZE, "value": 5}, *GOOD[12:]],
    "no epoch_num": with_record(GOOD, keys.EVAL_ACCURACY, metadata={"epoch_num": None}),
    "init over 30 minutes": [
        {**record, "time_ms": record["time_ms"] + 31 * 60_000} if index >= 26 else record
        for index, record in enumerate(GOOD)
    ],
}
STRICTER = {
    "aborted with the target met": with_record(GOOD, keys.RUN_STOP, metadata={"status": "aborted"}),
    "negative time": with_record(GOOD, keys.RUN_STOP, time_ms=GOOD[0]["time_ms"]),
    "run_start a second before run_stop": with_record(GOOD, keys.RUN_START, time_ms=GOOD[-1]["time_ms"] - 1000),
    "target met after run_stop only": [*GOOD[:-4], GOOD[-1], *GOOD[-4:-1]],
    "one evaluation": [r for i, r in enumerate(GOOD) if r["key"] != keys.EVAL_ACCURACY or i > len(GOOD) - 5],
    "seven samples": with_record(GOOD, keys.TRAIN_SAMPLES, value=7),
    "batch size in words": with_record(GOOD, keys.GLOBAL_BATCH_SIZE, value="abc"),
    "negative batch size": with_record(GOOD, keys.GLOBAL_BATCH_SIZE, value=-5),
    "no seed": without(GOOD, keys.SEED),
    "cache cleared afterwards": with_record(GOOD, keys.CACHE_CLEAR, time_ms=GOOD[-1]["time_ms"] + 5),
}
CRASHES = {
    "other division": with_record(GOOD, keys.SUBMISSION_DIVISION, value="ajar"),
    "no metadata": [{k: v for k, v in GOOD[0].items() if k != "metadata"}, *GOOD[1:]],
    "quality null": with_record(GOOD, keys.EVAL_ACCURACY, value=None),
    "quality in words": with_record(GOOD, keys.EVAL_ACCURACY, value="high"),
}


def write(folder: Path, name: str, records: list[Record] | None) -> Path:
    path = folder / f"{name.replace(' ', '_')}.txt"
    if records is not None:
        return write_log(path, records)
    path.write_text(to_text(GOOD)[:-50])
    return path


def ours(path: Path) -> str:
    return check_log(path, ruleset="6.0").outcome


@pytest.mark.slow
def test_same_verdict_where_the_official_checker_looks(tmp_path: Path) -> None:
    paths = [write(tmp_path, name, records) for name, records in AGREE.items()]
    opinions = ask_official_checker(paths, "6.0")
    assert {opinion.outcome for opinion in opinions} == {"valid", "invalid"}
    for path, opinion in zip(paths, opinions, strict=True):
        assert ours(path) == opinion.outcome, (path.name, opinion.messages)


@pytest.mark.slow
def test_stricter_where_it_does_not_look(tmp_path: Path) -> None:
    paths = [write(tmp_path, name, records) for name, records in STRICTER.items()]
    for path, opinion in zip(paths, ask_official_checker(paths, "6.0"), strict=True):
        assert (ours(path), opinion.outcome) == ("invalid", "valid"), (path.name, opinion.messages)


def test_its_crashes_are_findings_here_and_reported_as_its_crashes(tmp_path: Path) -> None:
    paths = [write(tmp_path, name, records) for name, records in CRASHES.items()]
    for path, opinion in zip(paths, ask_official_checker(paths, "6.0"), strict=True):
        assert ours(path) == "invalid"
        assert opinion.outcome == "crashed" and "Error" in opinion.messages[0], path.name


def test_retired_benchmark_crashes_it_and_not_us(tmp_path: Path) -> None:
    path = write(tmp_path, "good", GOOD)
    (opinion,) = ask_official_checker([path], "6.1")
    assert opinion.outcome == "crashed"


@pytest.mark.parametrize(
    ("benchmark", "round_name"),
    quick_first([(DLRM, "0.7"), (DCNV2, "6.0"), *((DLRM, name) for name in ("1.0", "1.1", "2.0", "2.1")),
                 *((DCNV2, name) for name in ("3.0", "3.1", "4.0", "4.1", "5.0", "5.1"))], 2),
    ids=lambda value: value if isinstance(value, str) else value.name,
)  # fmt: skip
def test_compliant_logs_pass_in_every_round_and_every_needed_key_is_needed(
    benchmark,
    round_name: str,
    tmp_path: Path,  # type: ignore[no-untyped-def]
) -> None:
    """Both agree on the compliant log, and on each log that lacks one key altogether."""
    good = make_records(benchmark, num_evals=2, ours=False)
    names = [name for name in dict.fromkeys(record["key"] for record in good) if name != keys.SEED]
    paths = [write_log(tmp_path / "good.txt", good)]
    paths += [write_log(tmp_path / f"without_{key}.txt", without(good, key)) for key in names]
    for path, opinion in zip(paths, ask_official_checker(paths, round_name), strict=True):
        verdict = check_log(path, ruleset=round_name)
        if path.stem == f"without_{keys.SUBMISSION_BENCHMARK}":
            # It then knows nothing to check; without a benchmark our log-level rules find the missing key.
            assert verdict.outcome == "invalid"
            continue
        if path.stem == f"without_{keys.SUBMISSION_DIVISION}":
            assert verdict.outcome == "invalid"
            continue
        assert verdict.outcome == opinion.outcome, (path.name, opinion.messages, verdict.findings)


@pytest.mark.slow
def test_second_opinion_is_beside_ours(tmp_path: Path) -> None:
    write_set(tmp_path, DCNV2, make_runs(DCNV2, 2, ours=False), ours=False)
    (verdict,) = check_paths([tmp_path / "results"])
    opinions = [opinion for log in verdict.logs for opinion in log.official]
    assert [(opinion.checker, opinion.outcome, opinion.ruleset) for opinion in opinions] == [
        ("compliance", "valid", "6.0.0")
    ] * 2
    assert {opinion.checker for opinion in verdict.official} == {"seed", "rcp", "system"}
    (silent,) = check_paths([tmp_path / "results"], second_opinion=False)
    assert not silent.official and not any(log.official for log in silent.logs)


def test_own_benchmarks_are_not_shown_to_it(tmp_path: Path) -> None:
    write_set(tmp_path, load_benchmark("dlrm_tiny"))
    (verdict,) = check_paths([tmp_path])
    assert verdict.official == () and [log.official for log in verdict.logs] == [()] * 5


@pytest.mark.slow
def test_it_leaves_nothing_behind_and_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = tmp_path / "logs"
    path = write_log(logs / "result_0.txt", GOOD)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    ask_official_checker([path], "6.0")
    assert list(here.iterdir()) == [] and list(logs.iterdir()) == [path]
    code = f"import sys; from rules.judge.sets import check_log; check_log({str(path)!r}); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here)
    heavy = {"torch", "pandas", "scipy", "numpy", "mlperf_logging.compliance_checker", "yaml"}
    assert not heavy & set(eval(done.stdout))


def test_timeout_and_death_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "result_0.txt", GOOD)
    assert ask_official_checker([path], "6.0", timeout_s=0.0)[0].outcome == "timeout"
    dying = tmp_path / "dying.py"
    dying.write_text("import os; os._exit(7)")
    monkeypatch.setattr("rules.official.opinion.WORKER", dying)
    (dead,) = ask_official_checker([path], "6.0")
    assert dead.outcome == "crashed" and "7" in dead.messages[0]


def test_hostile_log_cannot_reach_out(tmp_path: Path) -> None:
    """A division like this would make the checker load a rule file from there, and run the code in it."""
    code = "- BEGIN:\n    CODE: >\n        pass\n"
    (tmp_path / "evil_common.yaml").write_text(code)
    evil = with_record(GOOD, keys.SUBMISSION_DIVISION, value=f"/{'../' * 20}{tmp_path}/evil")
    path = write_log(tmp_path / "result_0.txt", evil)
    (opinion,) = ask_official_checker([path], "6.0")
    assert opinion.outcome == "not asked" and "plain word" in opinion.messages[0]


@pytest.mark.slow
@needs_published_results
def test_agrees_on_published_results_but_for_the_cadence() -> None:
    for result_set in find_result_sets(FOLDER):
        for log in judge_sets([result_set])[0].verdict.logs:
            (opinion,) = log.official
            only_cadence = {finding.code for finding in log.findings if finding.severity == "error"} == {"CA101"}
            assert (log.outcome == opinion.outcome) != only_cadence, log.subject


@needs_published_results
def test_gets_the_same_score_as_the_official_summarizer() -> None:
    from mlperf_logging.rcp_checker import rcp_checker

    (one,) = find_result_sets(NVIDIA)
    passed, _, factor = rcp_checker.check_directory(
        str(one.folder), "training", "5.0.0", False, False, rcp_pass="pruned_rcps"
    )
    assert passed and judge_set(one).result.rcp_factor == pytest.approx(factor, rel=1e-12)
