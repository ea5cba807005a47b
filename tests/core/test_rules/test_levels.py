"""Submissions and rounds: what a path is taken for, verdicts above verdicts, many logs at once, hostile trees."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from log_builder import make_runs, write_log, write_set
from mlperf_fixtures import CISCO, FLORIDA, FOLDER, INTEL, NVIDIA, needs_published_results
from pool_functions import die_at_3, refuse_3_and_5
from submission_builder import DCNV2, set_folder, write, write_submission
from waiting import processes_of, wait_until

from rules.benchmarks.loader import load_benchmark
from rules.checks.verdict import Verdict
from rules.errors import InputError
from rules.judge.checker import check_paths
from rules.judge.document import verdicts_to_json
from rules.judge.parallel import map_in_order
from rules.tree.inventory import take_inventory
from rules.tree.others import OTHER_BENCHMARKS
from rules.tree.result_set import leads_out
from rules.tree.submission import Round, Submission, find_targets

TINY = load_benchmark("dlrm_tiny")


def check(*paths: Path, num_processes: int = 1) -> tuple[Verdict, ...]:
    return check_paths(paths, second_opinion=False, num_processes=num_processes)


def codes(verdict: Verdict, severity: str) -> set[str]:
    return {finding.code for finding in verdict.findings if finding.severity == severity}


def test_each_kind_of_directory_is_recognised(tmp_path: Path) -> None:
    round_folder = tmp_path / "training_results_v5.1"
    for name in ("Example", "Other"):
        write_submission(round_folder, organization=name)
    write_set(tmp_path / "mine", TINY)
    top = round_folder / "Example"
    kinds = [type(target).__name__ for target in find_targets(take_inventory(tmp_path))]
    assert kinds == ["ResultSet", "Round"]
    (found,) = find_targets(take_inventory(round_folder))
    assert isinstance(found, Round) and [submission.organization for submission in found.submissions] == [
        "Example",
        "Other",
    ]
    (found,) = find_targets(take_inventory(top))
    assert isinstance(found, Submission) and found.round == "5.1"
    assert [type(target).__name__ for target in find_targets(take_inventory(top / "results"))] == ["ResultSet"]
    assert find_targets(take_inventory(set_folder(top) / "result_0.txt")) == (set_folder(top) / "result_0.txt",)


def test_one_submission_is_a_round_only_below_a_rounds_name(tmp_path: Path) -> None:
    write_submission(tmp_path / "somewhere")
    write_submission(tmp_path / "training_results_v6.0")
    kinds = {type(target).__name__ for target in find_targets(take_inventory(tmp_path / "somewhere"))}
    assert kinds == {"Submission"}
    assert {type(target).__name__ for target in find_targets(take_inventory(tmp_path / "training_results_v6.0"))} == {
        "Round"
    }


def test_a_set_with_too_few_runs_is_incomplete_and_its_submission_invalid(tmp_path: Path) -> None:
    top = write_submission(tmp_path, runs=make_runs(DCNV2, 3, ours=False))
    (verdict,) = check(top)
    assert (verdict.level, verdict.outcome) == ("submission", "invalid")
    assert codes(verdict, "error") == {"RS101"}
    assert [part.outcome for part in verdict.parts] == ["incomplete"]
    (of_set,) = check(top / "results")
    assert (of_set.level, of_set.outcome, codes(of_set, "error")) == ("set", "incomplete", set())


def test_a_run_set_of_this_harness_is_no_submission(tmp_path: Path) -> None:
    write_set(tmp_path / "set", TINY, make_runs(TINY, 2))
    (verdict,) = check(tmp_path / "set")
    assert (verdict.level, verdict.outcome) == ("set", "incomplete")


def test_what_two_sets_say_of_one_description_is_said_once(tmp_path: Path) -> None:
    top = write_submission(tmp_path, submitter="Someone")
    second = top / "results" / "example" / "dlrm"
    for index, records in enumerate(make_runs(load_benchmark("dlrm"), ours=False, start_ms=1_780_000_000_000)):
        write_log(second / f"result_{index}.txt", records)
    (verdict,) = check(top)
    assert len(verdict.parts) == 2
    assert sum(finding.code == "SY105" for finding in verdict.findings) == 1


def test_other_benchmarks_are_named_and_not_judged(tmp_path: Path) -> None:
    top = write_submission(tmp_path)
    write(top / "results" / "example" / "bert" / "result_0.txt", "anything")
    (verdict,) = check(top)
    assert verdict.outcome == "valid"
    assert [(Path(part.subject).name, part.outcome) for part in verdict.parts] == [
        ("dlrm_dcnv2", "valid"),
        ("bert", "not judged"),
    ]
    assert [finding.found for finding in verdict.findings if finding.code == "SU110"] == ["bert"]


def test_names_of_other_benchmarks_are_the_official_ones() -> None:
    from mlperf_logging import benchmark_meta

    official = {name for names in benchmark_meta._ALL_ALLOWED_BENCHMARKS["training"].values() for name in names}
    assert official - {"dlrm", "dlrm_dcnv2", "dlrmv4"} <= OTHER_BENCHMARKS
    assert not OTHER_BENCHMARKS & {"dlrm", "dlrm_dcnv2", "dlrmv4"}


@needs_published_results
def test_published_submissions_and_rounds_get_sensible_verdicts() -> None:
    submissions = {folder: check(folder)[0] for folder in (NVIDIA, CISCO, INTEL, FLORIDA)}
    outcomes = {one.name: verdict.outcome for one, verdict in submissions.items()}
    assert outcomes == {
        "NVIDIA": "valid",
        "Cisco": "valid",
        "Intel": "valid",
        "University-of-Florida": "invalid",
    }
    # The trees are excerpts without code; that is all there is to ask about the clean one.
    assert codes(submissions[NVIDIA], "warning") == {"SU101"}
    assert codes(submissions[CISCO], "warning") == {"SU101", "ST113", "QU103"}
    assert codes(submissions[FLORIDA], "error") == {"CA101"}
    rounds = check(FOLDER)
    assert [(verdict.level, verdict.round, verdict.outcome) for verdict in rounds] == [
        ("round", "3.1", "valid"),
        ("round", "5.0", "valid"),
        ("round", "5.1", "invalid"),
    ]
    assert [Path(part.subject).name for part in rounds[2].parts] == ["Cisco", "University-of-Florida"]
    assert [len(verdict.logs) for verdict in rounds] == [10, 10, 20]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A round of 80 logs, one of them broken."""
    folder = tmp_path_factory.mktemp("many") / "training_results_v6.0"
    for number in range(8):
        runs = make_runs(DCNV2, ours=False, start_ms=1_700_000_000_000 + number * 10**10)
        write_submission(folder, organization=f"Example{number}", runs=runs)
    path = set_folder(folder / "Example5") / "result_3.txt"
    path.write_text(
        path.read_text().replace('"opt_adagrad_epsilon", "value": 1e-08', '"opt_adagrad_epsilon", "value": 1')
    )
    yield folder


@pytest.mark.slow
def test_several_processes_say_the_same_in_the_same_order(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.judge.checker.MANY_LOGS", 80)
    reported: list[tuple[int, int]] = []
    serial = check(many)
    parallel = check_paths(
        [many], second_opinion=False, num_processes=2, on_progress=lambda *numbers: reported.append(numbers)
    )
    assert verdicts_to_json(parallel) == verdicts_to_json(serial)
    assert reported[-1] == (80, 80) and [done for done, _ in reported] == sorted(done for done, _ in reported)
    (verdict,) = serial
    assert [part.outcome for part in verdict.parts].count("invalid") == 1
    assert codes(verdict, "error") == {"HP101", "RS104"}


def test_a_process_that_dies_is_an_error_and_no_lost_verdict() -> None:
    with pytest.raises(BrokenProcessPool):
        list(map_in_order(die_at_3, range(8), 2))


def test_no_process_outlives_one_that_is_killed(tmp_path: Path) -> None:
    places = [tmp_path / str(index) for index in range(2)]
    code = (
        "from pool_functions import wait_without_end\nfrom rules.judge.parallel import map_in_order\n"
        f"list(map_in_order(wait_without_end, {[str(place) for place in places]}, 2))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
    wait_until(lambda: all(place.exists() and place.read_text() for place in places), "both processes at work")
    assert len(processes_of(parent.pid)) >= 4, "the parent, the two, and who forks them"
    parent.kill()
    parent.wait()
    wait_until(lambda: not processes_of(parent.pid), "the end of all processes")


def test_the_first_error_in_order_is_raised() -> None:
    for num_processes in (1, 2):
        with pytest.raises(InputError, match="number 3"):
            list(map_in_order(refuse_3_and_5, range(8), num_processes))


def test_nothing_that_leads_out_of_a_tree_is_read(tmp_path: Path) -> None:
    """A description and a log from elsewhere, and a whole directory: named, and without effect."""
    outside = tmp_path / "outside"
    secret = write(outside / "secret.txt", make_secret := ":::MLLOG not a record but a secret\n")
    top = write_submission(tmp_path / "tree")
    (set_folder(top) / "result_9.txt").unlink()
    (set_folder(top) / "result_9.txt").symlink_to(secret)
    (top / "systems" / "example.json").unlink()
    (top / "systems" / "example.json").symlink_to(write(outside / "example.json", "{}"))
    (top / "results" / "more").symlink_to(outside, target_is_directory=True)
    (verdict,) = check(top)
    assert {"RS108", "SU109", "SY101", "RS101"} <= codes(verdict, "error")
    assert make_secret.strip()[9:] not in str(verdicts_to_json([verdict]))
    assert len(verdict.logs) == 9


def test_a_link_within_the_tree_is_followed(tmp_path: Path) -> None:
    top = write_submission(tmp_path)
    log = set_folder(top) / "result_9.txt"
    log.rename(top / "benchmarks" / "kept.txt")
    log.symlink_to(Path("..", "..", "..", "benchmarks", "kept.txt"))
    (verdict,) = check(top)
    assert verdict.outcome == "valid" and len(verdict.logs) == 10


def test_pipes_and_directories_named_as_logs_do_not_stall(tmp_path: Path) -> None:
    top = write_submission(tmp_path)
    (set_folder(top) / "result_8.txt").unlink()
    os.mkfifo(set_folder(top) / "result_8.txt")
    (set_folder(top) / "result_10.txt").mkdir()
    (verdict,) = check(top)
    assert [finding.message for finding in verdict.findings if finding.code == "RS108"] == ["not a regular file"] * 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    top = write_submission(tmp_path)
    set_folder(top).chmod(0)
    try:
        with pytest.raises(InputError, match="cannot be read"):
            check(top)
    finally:
        set_folder(top).chmod(0o755)


def test_deep_trees_are_looked_through(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 300)
    for index, records in enumerate(make_runs(TINY, 2)):
        write_log(deep / f"result_{index}.txt", records)
    (verdict,) = check(tmp_path)
    assert verdict.level == "set" and len(verdict.logs) == 2


def test_a_path_leads_out_by_any_link_on_its_way(tmp_path: Path) -> None:
    top, other = tmp_path / "top", tmp_path / "other"
    (top / "inner" / "deep").mkdir(parents=True)
    other.mkdir()
    (top / "away").symlink_to(other)
    (top / "inner" / "within").symlink_to(top / "inner" / "deep")
    (tmp_path / "alias").symlink_to(top)
    for inside in ("inner/deep", "inner/within", "inner/none", "inner/../inner/deep", "."):
        assert not leads_out(top / inside, top) and not leads_out(tmp_path / "alias" / inside, tmp_path / "alias")
    for outside in ("away", "away/none", "inner/../../other", ".."):
        assert leads_out(top / outside, top) and leads_out(tmp_path / "alias" / outside, tmp_path / "alias")
    assert leads_out(other, top) and not leads_out(tmp_path / "alias" / "inner", top)
