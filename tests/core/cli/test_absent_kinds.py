"""Sets of a kind that this copy does not have are named as such, by every verb that reads sets, with exit code 8."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from measured_builder import write_measured
from past_sets import past_sets
from report_builder import write_run_set

Command = Callable[..., tuple[int, str, str]]
SENTENCE = "levitation: a kind of measurement that this copy does not have"


@pytest.fixture
def levitated(tmp_path: Path) -> Path:
    """A set that a copy with a kind called levitation made."""
    folder = write_measured(tmp_path / "results" / "levitated", "throughput", [1.0] * 5)
    record = folder / "extra" / "run_set.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"kind": "levitation"}))
    (folder / "extra" / "throughput.json").rename(folder / "extra" / "levitation.json")
    return folder


@pytest.mark.parametrize(
    "words",
    [("check", "{}"), ("score", "{}"), ("report", "{}", "-o", "{}.html"), ("compare", "{}", "{}"),
     ("diff", "{}", "{}"), ("resume", "{}"), ("check", "{}/.."), ("report", "{}/..", "-o", "{}.html")],
    ids=" ".join,
)  # fmt: skip
def test_a_set_of_an_absent_kind_is_named(words: tuple[str, ...], command: Command, levitated: Path) -> None:
    code, out, err = command(*(word.format(levitated) for word in words))
    assert (code, out) == (8, "") and SENTENCE in err, err
    assert "no such file" not in err and not levitated.with_suffix(".html").exists()


def test_among_past_sets_it_is_one(levitated: Path) -> None:
    (past,) = past_sets(levitated.parent)
    assert (past["kind"], past["outcome"]) == ("levitation", None) and past["problem"].startswith(SENTENCE)


def test_beside_others_it_is_mentioned_and_left_out(command: Command, levitated: Path) -> None:
    write_run_set(levitated.parent / "trained")
    code, _, err = command("check", levitated.parent, "--no-second-opinion")
    assert code == 0 and SENTENCE in err and "levitated" in err
    code, _, err = command("report", levitated.parent, "--no-second-opinion", "-o", levitated.with_suffix(".html"))
    assert code == 0 and levitated.with_suffix(".html").exists(), err


def test_a_sweep_of_an_absent_kind_is_named(call: Command, command: Command, tmp_path: Path) -> None:
    axis = "train.opt_base_learning_rate=0.03,0.06"
    code, _, err = call("sweep", "dlrm_tiny", "--throughput", 10, "--threads", 1, "--axis", axis)
    assert code == 0, err
    (folder,) = {path.resolve() for path in (tmp_path / "results").iterdir()}
    for record in [folder / "experiment.json", *folder.rglob("run_set.json")]:
        record.write_text(record.read_text().replace('"kind": "throughput"', '"kind": "levitation"'))
    for measured in [*folder.rglob("throughput.json")]:
        measured.rename(measured.with_name("levitation.json"))
    for words in (
        ("check", folder),
        ("report", folder, "-o", "page.html"),
        ("compare", folder, folder),
        ("resume", folder),
    ):
        code, _, err = command(*words)
        assert code == 8 and SENTENCE in err, err
