"""Results by name: sets of the results folder, its latest one, and one configuration of an exported file."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from log_builder import make_runs
from past_sets import past_sets
from records_builder import group_content, write_group
from report_builder import write_run_set
from seams import READING, reading

from harness.api import make_request
from harness.cli import cli
from harness.cli.shared.options import ResultPath
from harness.cli.shared.requests import _find_beside
from harness.experiment.request import Request
from harness.run_sets.names import find_named, link_latest, names_to_give
from rules.benchmarks.loader import load_benchmark
from rules.records.experiment import not_one_set

LAST = "dlrm_tiny-new-20260102T000000Z-2"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of four sets, two of them called `twice`, given by the environment."""
    folder = tmp_path / "made"
    tiny = load_benchmark("dlrm_tiny")
    write_run_set(folder / "dlrm_tiny-base-20260101T000000Z")
    write_run_set(folder / "dlrm_tiny-new-20260102T000000Z-2", runs=make_runs(tiny, throughput=15_000.0))
    for moment in ("20260103T000000Z", "20260104T000000Z"):
        write_run_set(folder / f"dlrm_tiny-twice-{moment}")
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_set_has_its_folders_name_and_its_label(results: Path) -> None:
    assert find_named("base", results) == find_named("dlrm_tiny-base-20260101T000000Z", results)
    assert find_named("new", results) == [results / "dlrm_tiny-new-20260102T000000Z-2"]
    assert [path.name[-5:] for path in find_named("twice", results)] == ["0000Z", "0000Z"]
    assert find_named("dlrm_tiny", results) == find_named("nothing", results) == find_named("../made", results) == []


def test_a_label_comes_before_the_name_of_an_own_benchmark(results: Path) -> None:
    for benchmark in ("base", "mine"):
        folder = write_run_set(results / f"{benchmark}-8e6236c6-20260105T000000Z")
        record = json.loads((folder / "extra" / "run_set.json").read_text())
        record["benchmark"]["name"] = benchmark
        (folder / "extra" / "run_set.json").write_text(json.dumps(record))
    assert find_named("base", results) == [results / "dlrm_tiny-base-20260101T000000Z"]
    assert find_named("mine", results) == [results / "mine-8e6236c6-20260105T000000Z"]


@pytest.mark.parametrize("word", ["base", "made/dlrm_tiny-base-20260101T000000Z"])
def test_show_of_a_set_says_which_verbs_show_one(command: Any, results: Path, word: str) -> None:
    code, _, err = command("show", word)
    assert code == 2 and "is a set of results" in err and f"dlrmbench report {word}" in err
    assert command("show", "dlrm_tiny")[0] == 0


def test_compare_diff_check_score_and_report_take_names(command: Any, results: Path) -> None:
    code, out, err = command("compare", "base", "new")
    assert (code, err) == (
        0,
        "",
    ) and "dlrm_tiny-new-20260102T000000Z-2 against dlrm_tiny-base-20260101T000000Z" in out
    assert command("diff", "base", "new")[0] == 0
    assert command("score", "base", "--format", "csv")[1].count("\n") == 2
    assert "dlrm_tiny-base-20260101T000000Z" in command("check", "base", "--no-second-opinion")[1]
    assert command("report", "base", "--format", "csv", "--no-second-opinion")[1].count("dlrm_tiny-base") >= 5


def test_what_is_measured_beside_is_found_in_the_folder_of_its_output(results: Path, tmp_path: Path) -> None:
    other = write_run_set(tmp_path / "res" / "dlrm_tiny-there-20260101T000000Z")
    assert _find_beside(Path("there"), tmp_path / "res") == other
    assert _find_beside(results, tmp_path / "res") == results
    assert _find_beside(Path("nowhere"), tmp_path / "res") == Path("nowhere")
    with pytest.raises(click.UsageError, match="several sets"):
        _find_beside(Path("twice"), results)


def test_a_name_of_several_sets_is_an_error_that_lists_them(command: Any, results: Path) -> None:
    code, _, err = command("score", "twice")
    assert code == 2 and "several sets" in err
    assert "dlrm_tiny-twice-20260103T000000Z" in err and "dlrm_tiny-twice-20260104T000000Z" in err


def takes_names(verb: str) -> bool:
    """Return whether what a verb reads may be the name of a set."""
    command = cli.get_command(click.Context(cli), verb)
    return command is not None and any(isinstance(each.type, ResultPath) for each in command.params)


@pytest.mark.parametrize("words", ["compare bse new", "compare new bse", "diff new bse", "score bse", "check bse",
                                   "report bse", "resume bse", *(
                                       " ".join(reading(verb, "bse", "tree")) for verb in filter(takes_names, READING)
                                   )])  # fmt: skip
def test_a_name_that_nothing_has_says_where_it_was_looked_for_and_what_is_near(
    words: str, command: Any, results: Path
) -> None:
    code, out, err = command(*words.split())
    assert (code, out) == (8, "")
    printed = " ".join(err.split())
    assert f"bse: no such file or directory, and no set of that name in {results}. Did you mean 'base'?" in printed


def test_a_part_of_a_name_is_near_it(command: Any, results: Path) -> None:
    assert "Did you mean 'new', 'dlrm_tiny-new-20260102T000000Z-2'?" in command("score", "ne")[2]
    assert "Give a path, or the name of a set there: 'base', 'new', " in command("score", "q")[2]


def test_a_path_that_is_no_name_is_looked_for_as_a_path_only(command: Any, results: Path) -> None:
    for path in ("some/where", "export.json", "export.json:base"):
        code, _, err = command("compare", "base", path)
        assert code == 8 and "no such file" in err and "no set of that name" not in err


def test_a_set_whose_name_became_its_benchmarks_is_found_by_it(command: Any, results: Path) -> None:
    """As `run --set model.embedding_dim=8 --name narrow` makes it."""
    folder = write_run_set(results / "narrow-0123abcd-20260105T000000Z")
    record = folder / "extra" / "run_set.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps(content | {"benchmark": content["benchmark"] | {"name": "narrow"}}))
    assert find_named("narrow", results) == find_named("0123abcd", results) == [folder]
    assert names_to_give(results)[:3] == ["base", "new", "narrow"]
    record.write_text(json.dumps(content | {"benchmark": content["benchmark"] | {"name": "dlrm_tiny"}}))
    folder.rename(results / "dlrm_tiny-0123abcd-20260105T000000Z")
    assert find_named("dlrm_tiny", results) == []


def test_a_path_wins_over_a_name(command: Any, results: Path, tmp_path: Path) -> None:
    write_run_set(tmp_path / "base", runs=make_runs(load_benchmark("dlrm_tiny"), 3))
    (record,) = json.loads(command("score", "base", "--format", "json")[1])["scores"]
    assert record["num_runs"] == 3
    assert command("score", "nowhere")[0] == 8


def test_latest_leads_to_the_newest_set_and_is_not_listed_beside_it(command: Any, results: Path) -> None:
    for name in ("dlrm_tiny-base-20260101T000000Z", "dlrm_tiny-new-20260102T000000Z-2"):
        link_latest(results / name)
    assert (results / "latest").resolve() == results / "dlrm_tiny-new-20260102T000000Z-2"
    assert "dlrm_tiny-new" in command("score", "latest")[1]
    assert len(past_sets(results)) == 4


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("versus latest --threads 2", "versus {set} --threads 2"),
        ("versus -q made/latest --name latest", "versus -q {set} --name latest"),
        ("versus made/latest/base", "versus {set}/base"),
        ("versus new --threads 2", "versus new --threads 2"),
        ("run --beside latest --name=latest", "run --beside {set} --name=latest"),
        ("run dlrm_tiny --beside=made/latest", "run dlrm_tiny --beside={set}"),
    ],
)
def test_a_command_that_names_latest_is_kept_with_the_set_that_it_was(
    typed: str, kept: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next set takes the name, so that the words that were typed would mean that one."""
    requests: list[Request] = []
    monkeypatch.setattr("harness.cli.run.start_and_show", lambda request, **_: requests.append(request))
    results = tmp_path / "made"
    (results / LAST / "base").mkdir(parents=True)
    link_latest(results / LAST)
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(results))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["dlrmbench", *typed.split()])
    code, _, err = command(*typed.split())
    (request,) = requests
    place = Path("made") / LAST if "made/" in typed else results / LAST
    assert (code, err) == (0, "")
    assert request.command() == ["dlrmbench", *kept.format(set=place).split()]
    assert request.beside in (place, place / "base", Path("new"), None)
    asked = make_request("run", {"beside": "latest", "weights": "latest:0"})
    assert (asked.beside, asked.weights) == (results / LAST, f"{results / LAST}:0")


def test_a_file_called_latest_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("mine")
    link_latest(write_run_set(tmp_path / "set"))
    assert (tmp_path / "latest").read_text() == "mine" and len(list(tmp_path.iterdir())) == 2


def test_one_configuration_of_an_export_is_chosen_by_its_name(command: Any, results: Path, tmp_path: Path) -> None:
    export = tmp_path / "all.json"
    export.write_text(command("report", results, "--format", "json", "--no-second-opinion")[1])
    code, _, err = command("compare", export, results)
    assert code == 8 and f"{export}:dlrm_tiny-base-20260101T000000Z" in err
    code, out, err = command("compare", f"{export}:base", f"{export}:new")
    assert (code, err) == (
        0,
        "",
    ) and "dlrm_tiny-new-20260102T000000Z-2 against dlrm_tiny-base-20260101T000000Z" in out
    assert command("diff", f"{export}:base", f"{export}:new")[0] == 0
    rows = command("report", f"{export}:new", "--format", "csv")[1].splitlines()[1:]
    assert len(rows) >= 5 and all(row.startswith("dlrm_tiny-new") for row in rows)
    code, _, err = command("compare", f"{export}:twice", "base")
    assert code == 8 and "fits 2 configurations: dlrm_tiny-twice" in err


def test_a_baseline_that_fits_several_is_an_error_that_lists_those(command: Any, results: Path) -> None:
    code, _, err = command("report", results, "--baseline", "twice", "--no-second-opinion")
    assert code == 2 and "fits 2 configurations: dlrm_tiny-twice-20260103T000000Z, dlrm_tiny-twice-2026" in err
    assert "dlrm_tiny-base" not in err and "dlrm_tiny-new" not in err


@pytest.mark.parametrize("name", ["hidden", "hidden.json"])
@pytest.mark.parametrize("verb", ["report", "check", "score"])
def test_a_path_in_a_folder_that_may_not_be_read_is_input_that_is_missing(
    verb: str, name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system answers where it is asked for anything inside; root may read everything."""
    hidden, stat = tmp_path / "locked" / name, os.stat

    def refuse(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path) == str(hidden):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, *arguments, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "stat", refuse)
    code, _, err = command(verb, hidden)
    assert code == 8 and f"{hidden}: cannot be read: Permission denied." in err


def test_a_file_with_a_colon_in_its_name_is_that_file(command: Any, results: Path, tmp_path: Path) -> None:
    odd = tmp_path / "r.json:base.json"
    odd.write_text(command("report", "new", "--format", "json", "--no-second-opinion")[1])
    assert command("report", odd, "--format", "csv")[1].count("\ndlrm_tiny-new") >= 5


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("compare", "PAIR"), 2),
        pytest.param(("compare", "PAIR", "base"), 8, marks=pytest.mark.slow),
        (("diff", "base", "PAIR"), 8),
        (("versus", "PAIR", "--threads", "1"), 2),
        pytest.param(("data", "predict", "dlrm_tiny", "PAIR", "-o", "logits.parquet"), 8, marks=pytest.mark.slow),
    ],
)
def test_a_group_where_a_set_is_asked_says_what_it_is_and_which_command_shows_it(
    words: tuple[str, ...], expected: int, command: Any, results: Path
) -> None:
    pair = results / "beside-dlrm_tiny-20260106T000000Z"
    for side in ("base", "new"):
        write_run_set(pair / side)
    write_group(pair, group_content("sides", "pair", [{"label": side, "folder": side} for side in ("base", "new")]))
    code, out, err = command(*(str(pair) if word == "PAIR" else word for word in words))
    assert (code, out) == (expected, "")
    assert f"{pair}" in err and "is a pair of 2 sets, not one set: " in err
    assert f"'dlrmbench compare {pair}/base {pair}/new' compares its sides, 'dlrmbench report {pair}' shows it" in err
    assert err.endswith(f"\n  {pair}/base\n  {pair}/new\n")


def test_a_sweep_says_so_and_lists_the_first_of_its_sets(tmp_path: Path) -> None:
    members = [{"label": str(number), "folder": str(number)} for number in range(14)]
    write_group(tmp_path, group_content("matrix", "table", members))
    said = str(not_one_set(tmp_path))
    assert said.startswith(f"is a sweep of 14 sets, not one set: 'dlrmbench report {tmp_path}' shows it. ")
    assert said.endswith(f"\n  {tmp_path}/11\n  and 2 more")
    write_group(tmp_path, {"schema_version": 1})
    assert not_one_set(tmp_path) is not_one_set(tmp_path / "nowhere") is None
