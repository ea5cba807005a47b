"""`codesign`: an accelerator is searched and its study kept; what it does not have is refused."""

import json
from pathlib import Path

import pytest
from command import Command

from harness.extensions.codesign.accelerator import SPACES

ASK = ("codesign", "dlrm_tiny", "--space", "pe_array", "--trials", 25)


@pytest.mark.slow
def test_a_space_begins_with_what_each_search_gains(inside: Command, tmp_path: Path) -> None:
    done = inside(*ASK, "--mode", "joint,separate")
    assert done.returncode == 0, done.stderr
    _, separate, joint, *_ = (" ".join(part.split()) for part in done.stdout.split("\n\n"))
    assert separate.startswith("Search 'hardware first' (modelled): ")
    assert separate.endswith("all 343 points tried, 40 valid; tiles: all 1,089 points tried, 134 valid.")
    assert (
        joint.startswith("Search 'together' (modelled): ") and "; this is the optimum of the design space. " in joint
    )
    assert joint.endswith("All 373,527 points tried, 22,609 valid.")
    (folder,) = (tmp_path / "results").iterdir()
    study = json.loads((folder / "study.json").read_text())
    assert (study["kind"], study["benchmark"], study["seed"]) == ("codesign", "dlrm_tiny", 0)
    assert {row[0] for row in study["tables"][0]["rows"]} == {"by hand", "hardware first", "together"}
    assert "Horowitz" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_one_mode_and_one_objective_are_searched_alone(inside: Command) -> None:
    done = inside(*ASK, "--mode", "separate", "--pareto", "energy", "--seed", 3, "--format", "json")
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    assert study["seed"] == 3 and [row[0] for row in study["tables"][0]["rows"]] == [
        "by hand",
        "hardware first",
    ]
    done = inside(*ASK, "--mode", "separate", "--pareto", "latency", "--format", "json")
    assert "energy-delay" not in json.loads(done.stdout)["findings"][0]


@pytest.mark.slow
def test_a_strangers_file_is_shown_as_text(inside: Command, tmp_path: Path) -> None:
    text = SPACES["pe_array"].read_text().replace('title = "Systolic', 'title = "<script>\\u001b[31m')
    (tmp_path / "mine.toml").write_text(text)
    done = inside("codesign", "dlrm_tiny", "--space", "mine.toml", "--trials", 2, "--mode", "separate")
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    assert "<script>\x1b" not in (page := (folder / "report.html").read_text()) and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--space", "pe_array", "--axis", "train.global_batch_size=1,2"), "No such option"),
        (("--space", "pe_array", "--threads", 2), "No such option"),
        (("--space", "pe_array", "--implementation", "optimized"), "No such option"),
        (("--space", "pe_array", "--serve"), "No such option"),
        (("--space", "pe_array", "--mode", "both"), "'both' is not one of"),
        (("--space", "pe_array", "--pareto", "area"), "'area' is not one of"),
        (("--space", "pe_aray"), "Did you mean 'pe_array'"),
        (("--space", "missing.toml"), "missing.toml"),
        (("--by", "gp,random", "--trials", 10), "Give --trials 11 or more (such as 40), or --by without gp."),
        (("--by", "random,nsga2", "--trials", 20), "the first 20 points of nsga2 are drawn at random"),
        (("--by", "gp,random", "--trials", 201), "a Gaussian process is fitted anew for each point"),
    ],
)
def test_what_does_not_go_together_is_refused(inside: Command, arguments: tuple[str, ...], said: str) -> None:
    done = inside("codesign", "dlrm_tiny", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and said in " ".join(done.stderr.split())


def test_where_no_folder_can_be_made_is_said_before_anything_is_computed(
    inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("harness.extensions.codesign.study.space_study", None)
    done = inside(*ASK, "-o", "file")
    assert done.returncode == 2 and "file: Not a directory" in done.stderr
