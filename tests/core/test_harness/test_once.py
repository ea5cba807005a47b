"""Each log is read once, and the official checkers are asked once, whatever is made of a set."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from report_builder import write_report, write_run_set

from harness.experiment.finish import finish_set
from reports.comparison.history import read_history
from rules.benchmarks.loader import load_benchmark
from rules.judge import second_opinion
from rules.judge.checker import check_paths
from rules.judge.sets import judge_set
from rules.official.opinion import CheckerQuery, OfficialOpinion
from rules.scoring.scoring import score_runs
from rules.tree.inventory import find_result_sets


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of questions each time the official checkers were asked, which here accept everything."""
    numbers: list[int] = []

    def ask(questions: Sequence[CheckerQuery], *arguments: Any) -> tuple[OfficialOpinion, ...]:
        numbers.append(len(questions))
        return tuple(
            OfficialOpinion(
                checker=question.checker, tool="", ruleset="", subject=str(question.path), outcome="valid"
            )
            for question in questions
        )

    monkeypatch.setattr(second_opinion, "ask_official_checkers", ask)
    return numbers


def test_finishing_a_set_reads_each_log_once_and_asks_once(
    tmp_path: Path, opened: Counter[Path], asked: list[int]
) -> None:
    root = write_run_set(tmp_path / "set")
    (found,) = find_result_sets(root)
    result, page = finish_set(root)
    assert opened == dict.fromkeys(found.logs, 1)
    assert len(asked) == 1
    assert result.outcome == "valid" and result.score.score_s is not None
    assert page.stat().st_size > 0


@pytest.mark.parametrize("use", [check_paths, lambda paths: write_report(paths, paths[0].parent / "page.html")])
def test_check_and_report_read_each_log_once_and_ask_once(
    use: Callable[[list[Path]], object], tmp_path: Path, opened: Counter[Path], asked: list[int]
) -> None:
    folder = tmp_path / "sets"
    for name in ("a", "b"):
        write_run_set(folder / name)
    logs = [log for result_set in find_result_sets(folder) for log in result_set.logs]
    use([folder])
    assert opened == dict.fromkeys(logs, 1)
    assert len(asked) == 1


@needs_published_results
def test_the_official_checkers_are_asked_about_all_sets_of_a_report_at_once(tmp_path: Path, asked: list[int]) -> None:
    write_report([CISCO, NVIDIA], tmp_path / "page.html")
    (num_questions,) = asked
    assert num_questions > sum(len(found.logs) for top in (CISCO, NVIDIA) for found in find_result_sets(top))


def test_past_sets_are_listed_with_each_log_read_once(tmp_path: Path, opened: Counter[Path]) -> None:
    root = write_run_set(tmp_path / "set")
    ((past,), _) = read_history(tmp_path)
    assert opened == dict.fromkeys(find_result_sets(root)[0].logs, 1)
    assert past.outcome == "valid" and past.score_s is not None


def test_a_judged_set_is_scored_from_the_runs_that_were_judged(tmp_path: Path) -> None:
    (found,) = find_result_sets(write_run_set(tmp_path / "set"))
    judged = judge_set(found)
    assert judged.result == score_runs(judged.runs, load_benchmark("dlrm_tiny"), None)
    assert [part.subject for part in judged.verdict.parts] == [run.path for run in judged.runs]
