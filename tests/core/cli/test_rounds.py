"""Every verb on miniature rounds of every shape that published ones have."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import make_runs
from mixed_round_builder import write_round
from other_benchmark_builder import write_other_set
from published_round_cases import described_set, older_set
from submission_builder import DCNV2, set_folder, write, write_submission

from rules.benchmarks.loader import load_benchmark

V4 = load_benchmark("dlrmv4")
OTHER = "an MLPerf benchmark that dlrmbench does not judge"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2.1 that logs samples trained; 3.0 at a batch size whose points came later; 4.0 in its own words; 5.0; 5.1 with
    its runs again, other benchmarks, and a submission without ours; 6.0 of others alone; 6.1 of DLRMv4."""
    folder = tmp_path_factory.mktemp("rounds")
    older_set(folder)
    runs = make_runs(DCNV2, ours=False, num_evals=17, global_batch_size=55_296, start_ms=1_690_000_000_000)
    write_submission(folder / "training_results_v3.0", runs=runs)
    described_set(folder, "4.0", "onprem")
    runs = make_runs(DCNV2, ours=False, organization="Twice", start_ms=1_750_000_000_000)
    twice = write_submission(folder / "training_results_v5.0", organization="Twice", runs=runs)
    newer = write_round(folder, num_ours=1, num_others=2, num_logs=2)
    shutil.copytree(twice, newer / "Twice")
    write_other_set(
        folder / "training_results_v6.0" / "Example" / "results" / "system" / "gpt_oss_20b", "gpt_oss_20b"
    )
    write(folder / "training_results_v6.0" / "Example" / "systems" / "system.json", "{}")
    runs = make_runs(V4, ours=False, num_evals=8, start_ms=1_770_000_000_000)
    write_submission(folder / "training_results_v6.1", benchmark=V4, runs=runs)
    return folder


@pytest.mark.slow
def test_check_judges_each_round_by_its_own_rules(command: Command, rounds: Path) -> None:
    code, out, err = command("check", rounds, "--no-second-opinion", "--format", "json")
    found = {Path(verdict["subject"]).name[-4:]: verdict for verdict in json.loads(out)["verdicts"]}
    assert {name: verdict["outcome"] for name, verdict in found.items()} == {
        "v2.1": "valid",
        "v3.0": "valid",
        "v4.0": "valid",
        "v5.0": "valid",
        "v5.1": "valid",
        "v6.0": "not judged",
        "v6.1": "valid",
    }
    assert (code, err) == (0, "")
    assert {name: verdict["benchmark"] for name, verdict in found.items()} == {
        "v2.1": "dlrm",
        "v3.0": "dlrm_dcnv2",
        "v4.0": "dlrm_dcnv2",
        "v5.0": "dlrm_dcnv2",
        "v5.1": "dlrm_dcnv2",
        "v6.0": None,
        "v6.1": "dlrmv4",
    }
    for name, verdict in found.items():
        judged = verdict["outcome"] != "not judged"
        assert verdict["ruleset"] == (f"MLPerf Training {name[1:]}" if judged else "layout only")
    parts = {Path(part["subject"]).name: part["outcome"] for part in found["v5.1"]["parts"]}
    assert parts == {"Example0": "valid", "Example1": "not judged", "Twice": "valid"}
    of_example = [(Path(part["subject"]).name, part["outcome"]) for part in found["v5.1"]["parts"][0]["parts"]]
    assert of_example == [("dlrm_dcnv2", "valid"), ("llama31_8b", "not judged")]


def test_a_round_of_others_alone_is_not_judged(command: Command, rounds: Path) -> None:
    code, out, _ = command("check", rounds / "training_results_v6.0", "--no-second-opinion")
    assert code == 8 and out.startswith("NOT JUDGED  round")
    assert command("score", rounds / "training_results_v6.0")[0] == 8
    assert command("report", rounds / "training_results_v6.0", "--format", "json")[0] == 8


@pytest.mark.slow
def test_every_set_of_ours_has_a_score_and_a_row_and_no_other(command: Command, rounds: Path) -> None:
    code, out, err = command("score", rounds, "--format", "json")
    scores = json.loads(out)["scores"]
    assert code == 0 and all(record["score_s"] for record in scores)
    expected = ["2.1", "3.0", "4.0", "5.0", "5.1", "5.1", "6.1"]
    assert sorted(record["round"] for record in scores) == expected
    assert err.count(OTHER) == len(err.splitlines()) == 3
    code, out, err = command("report", rounds, "--no-second-opinion", "--format", "json")
    assert code == 0 and err.count(OTHER) == 3
    assert sorted(found["round"] for found in json.loads(out)["configurations"]) == expected


@pytest.mark.slow
def test_the_page_shows_ours_alone(command: Command, rounds: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert command("report", rounds, "--no-second-opinion", "-o", page)[0] == 0
    text = page.read_text()
    assert all(name in text for name in ("Twice", "Example0", "v2.1", "v6.1", "dlrmv4"))
    assert not any(name in text for name in ("llama2_70b_lora", "gpt_oss", "Example1", "3.29005"))
    assert text.count("llama31_8b") == 1 and f"1 result directory of {OTHER}<td>llama31_8b<td>Nothing:" in text


def test_sets_of_compatible_rounds_are_compared_and_others_refused(command: Command, rounds: Path) -> None:
    older, newer = (rounds / f"training_results_v{name}" for name in ("3.0", "5.1"))
    assert command("compare", set_folder(older / "Example"), set_folder(newer / "Example0"))[0] == 0
    code, _, err = command("compare", older, rounds / "training_results_v2.1")
    assert code == 2 and "dlrm" in err
    code, _, err = command("compare", older, rounds / "training_results_v6.0")
    assert code == 8 and OTHER in err


@pytest.mark.slow
def test_the_second_opinion_agrees_on_a_mixed_round(command: Command, rounds: Path) -> None:
    code, out, _ = command("check", rounds / "training_results_v5.1")
    assert (
        code == 0
        and "ours and theirs agree" in out
        and "Skipping" not in out
        and "llama" not in out.split("second opinion")[1]
    )
