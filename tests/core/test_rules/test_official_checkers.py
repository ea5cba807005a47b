"""Every official checker's opinion beside ours: verdicts, factors, known crashes, and where the two differ."""

import json
from pathlib import Path

import pytest
from log_builder import Record, make_records, make_runs, make_system_desc, with_record, without, write_log, write_set
from mlperf_fixtures import CISCO, FLORIDA, FOLDER, INTEL, NVIDIA, needs_published_results

from rules.benchmarks.loader import load_benchmark
from rules.checks.verdict import Verdict
from rules.judge.agreement import ComparedFamily, compare_opinions, differences
from rules.judge.checker import check_paths
from rules.judge.second_opinion import with_second_opinion
from rules.judge.sets import check_log, judge_set
from rules.official.opinion import CheckerName, CheckerQuery, OfficialOpinion, ask_official_checkers
from rules.tree.inventory import find_result_sets

DCNV2, DLRM = load_benchmark("dlrm_dcnv2"), load_benchmark("dlrm")


Question = tuple[CheckerName, Path, str]


def ask(*questions: Question) -> tuple[OfficialOpinion, ...]:
    """Opinions of one process: starting it costs more than its answers."""
    return ask_official_checkers(
        [
            CheckerQuery(
                checker=checker,
                path=path,
                round=round_name,
                logs=tuple(sorted(path.glob("result_*.txt"))) if checker in ("seed", "rcp") else (),
            )
            for checker, path, round_name in questions
        ]
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("asked")


@pytest.fixture(scope="module")
def opinions(root: Path) -> dict[str, list[OfficialOpinion]]:
    """What they say of all that the functions `*_questions` write: one process answers for several tests."""
    asked = {make.__name__: make(root / make.__name__) for make in QUESTIONS}
    answers = iter(ask(*(question for questions in asked.values() for question in questions)))
    return {name: [next(answers) for _ in questions] for name, questions in asked.items()}


def write_runs(folder: Path, runs: list[list[Record]]) -> Path:
    for index, records in enumerate(runs):
        write_log(folder / f"result_{index}.txt", records)
    return folder


def test_nothing_is_asked_where_there_is_nothing_to_ask() -> None:
    assert ask_official_checkers([]) == ()


def seed_questions(folder: Path) -> list[Question]:
    runs = {
        "good": make_runs(DCNV2, 3, ours=False),
        "same": [make_records(DCNV2, ours=False)] * 3,
        "none": [without(make_records(DCNV2, ours=False), "seed")] * 2,
        "open": make_runs(DCNV2, 2, division="open", ours=False),
    }
    return [("seed", write_runs(folder / name, records), "6.0") for name, records in runs.items()]


@pytest.mark.slow
def test_seeds_are_compared_by_its_own_rule(opinions: dict[str, list[OfficialOpinion]]) -> None:
    found = opinions["seed_questions"]
    assert [opinion.outcome for opinion in found] == ["valid", "invalid", "invalid", "not asked"]
    assert "already logs the same seed" in " ".join(found[1].messages)
    assert "logs no seed" in " ".join(found[2].messages)


def convergence_questions(folder: Path) -> list[Question]:
    other_batch = make_records(DCNV2, global_batch_size=32768, ours=False)
    runs = {
        "good": make_runs(DCNV2, ours=False),
        "fast": make_runs(DCNV2, num_evals=6, ours=False),
        "one": make_runs(DCNV2, 1, ours=False),
        "mixed": [*make_runs(DCNV2, 2, ours=False), other_batch],
        "open": make_runs(DCNV2, 2, division="open", ours=False),
        "dlrm": make_runs(DLRM, ours=False),
    }
    folders = {name: write_runs(folder / name, records) for name, records in runs.items()}
    return [("rcp", made, "2.1" if name == "dlrm" else "6.0") for name, made in folders.items()]


@pytest.mark.slow
def test_convergence_gives_a_factor_and_known_crashes_are_its_own(opinions: dict[str, list[OfficialOpinion]]) -> None:
    good, fast, one, mixed, of_open, dlrm = opinions["convergence_questions"]
    assert good.outcome == "valid" and good.factor is not None and good.factor >= 1.0
    assert fast.outcome == "invalid" and of_open.outcome == "not asked"
    assert dlrm.outcome == "valid" and dlrm.factor is not None and dlrm.factor >= 1.0
    assert dlrm.messages[0].startswith("asked with 5 runs of dlrm added, which its table of runs lacks: ")
    for crashed, said in ((one, "nan, not a number"), (mixed, "KeyError: None")):
        assert crashed.outcome == "crashed" and said in crashed.messages[0] and crashed.factor is None


def description_questions(folder: Path) -> list[Question]:
    contents = {
        "good": make_system_desc(accelerators_per_node="8"),
        "number": make_system_desc() | {"accelerators_per_node": 8},
        "status": make_system_desc(status="available"),
        "short": {"submitter": "Example"},
        "list": [],
    }
    folder.mkdir()
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return [("system", folder / f"{name}.json", "6.0") for name in contents]


@pytest.mark.slow
def test_descriptions_and_its_crash_on_whole_numbers(opinions: dict[str, list[OfficialOpinion]]) -> None:
    found = opinions["description_questions"]
    assert [opinion.outcome for opinion in found] == ["valid", "crashed", "invalid", "invalid", "invalid"]
    assert "TypeError" in found[1].messages[0] and "non valid value" in found[2].messages[0]


SCALING = '{"scaling_factor": 7}'


def package_questions(folder: Path) -> list[Question]:
    good, bad = folder / "Good", folder / "Bad"
    sets = [write_set(root, DCNV2, ours=False) for root in (good, bad)]
    (sets[1] / "result_9.txt").unlink()
    (bad / "with space.txt").touch()
    for made in sets:
        (made / "scaling.json").write_text(SCALING)
    return [
        ("package", good, "6.0"),
        ("repo", good, "6.0"),
        ("rcp", sets[0], "6.0"),
        ("package", bad, "6.0"),
        ("repo", bad, "6.0"),
    ]


@pytest.mark.slow
def test_package_and_repository_are_judged_as_a_whole_and_without_scaling_json(
    root: Path, opinions: dict[str, list[OfficialOpinion]]
) -> None:
    package, repo, rcp, bad_package, bad_repo = opinions["package_questions"]
    assert (package.outcome, repo.outcome) == ("valid", "valid")
    assert bad_package.outcome == "invalid" and "found 9, expected 10" in bad_package.messages[0]
    assert bad_repo.outcome == "invalid" and "git-unfriendly" in bad_repo.messages[0]
    assert not any("Unknown files" in said for said in package.messages) and rcp.factor != 7
    assert [path.read_text() for path in root.rglob("scaling.json")] == [SCALING] * 2


QUESTIONS = (seed_questions, convergence_questions, description_questions, package_questions)


@pytest.mark.slow
@needs_published_results
def test_theirs_and_ours_come_to_one_factor_on_published_results() -> None:
    sets = [result_set for folder in (NVIDIA, CISCO, INTEL, FLORIDA) for result_set in find_result_sets(folder)]
    opinions = ask(*(("rcp", found.folder, str(found.round)) for found in sets))
    for one, opinion in zip(sets, opinions, strict=True):
        assert opinion.outcome == "valid"
        assert judge_set(one).result.rcp_factor == pytest.approx(opinion.factor, rel=1e-12)
        published = one.folder / "scaling.json"
        if published.exists():
            assert json.loads(published.read_text())["scaling_factor"] == pytest.approx(opinion.factor, rel=1e-12)


def rows(verdict: Verdict) -> dict[str, ComparedFamily]:
    return {row.family: row for row in compare_opinions(verdict)}


@pytest.mark.slow
@needs_published_results
def test_on_published_results_only_the_cadence_differs() -> None:
    for verdict in check_paths([FOLDER / "training_results_v5.1"]):
        for part in verdict.parts if verdict.level == "round" else (verdict,):
            agreements = {family: row.agreement for family, row in rows(part).items()}
            assert set(agreements.values()) <= {"same", "ours alone"}, (part.subject, agreements)
            lone = [line for line in differences(part) if line.startswith("only ours")]
            assert bool(lone) == ("University-of-Florida" in part.subject)
            assert all("cadence" in line for line in lone)


@pytest.mark.slow
@needs_published_results
def test_every_checker_has_its_row_for_a_submission() -> None:
    (verdict,) = check_paths([NVIDIA])
    assert verdict.level == "submission" and verdict.outcome == "valid"
    asked = {opinion.checker for opinion in (*verdict.official, *verdict.parts[0].official)}
    assert asked == {"package", "repo", "seed", "rcp", "system"}
    table = rows(verdict)
    assert "factor 1.023809524" in table["RC"].theirs and table["RC"].agreement == "same"
    assert "package accepts" in table["SU"].theirs and "repo accepts" in table["SU"].theirs
    assert differences(verdict) == ()


def test_a_row_says_agreement_difference_and_crash(tmp_path: Path) -> None:
    good = make_records(DCNV2, ours=False)
    logs = {
        "epsilon": with_record(good, "opt_adagrad_epsilon", value=1e-7),
        "aborted": with_record(good, "run_stop", metadata={"status": "aborted"}),
        "null": with_record(good, "eval_accuracy", value=None),
    }
    verdicts = [check_log(write_log(tmp_path / f"{name}.txt", records)) for name, records in logs.items()]
    epsilon, aborted, null = with_second_opinion(verdicts)
    # A complaint is in the row that it concerns.
    assert "opt_adagrad_epsilon" in rows(epsilon)["HP"].theirs and rows(epsilon)["HP"].agreement == "same"
    assert rows(epsilon)["QU"].theirs == "accepts it" and rows(epsilon)["QU"].agreement == "same"
    assert rows(epsilon)["CA"].agreement == "ours alone"
    # It accepts what ours does not.
    assert rows(aborted)["QU"].agreement == "differ"
    assert any(line.startswith("ours and theirs differ on quality") for line in differences(aborted))
    # Its crash is no verdict.
    assert rows(null)["QU"].agreement == "no verdict" and "TypeError" in rows(null)["QU"].theirs
    # What was not judged has not passed.
    assert rows(null)["QU"].ours == "passed in part, not judged: QU102, QU104, QU105, QU109, QU110 (ST105 failed)"


@pytest.mark.slow
def test_the_run_that_may_fail_is_no_difference(tmp_path: Path) -> None:
    runs = make_runs(DCNV2, ours=False)
    runs[4] = make_records(DCNV2, num_evals=20, converged=False, ours=False, seed=4, start_ms=1_790_001_500_000)
    write_set(tmp_path, DCNV2, runs, ours=False)
    (verdict,) = check_paths([tmp_path])
    row = rows(next(part for part in (verdict, *verdict.parts) if part.level == "set"))["QU"]
    assert row.agreement == "same" and "which its package checker accepts" in row.theirs


def test_own_benchmarks_have_no_table(tmp_path: Path) -> None:
    write_set(tmp_path, load_benchmark("dlrm_tiny"))
    (verdict,) = check_paths([tmp_path])
    assert compare_opinions(verdict) == () and differences(verdict) == ()
