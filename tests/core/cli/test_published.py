"""Published results: a table of facts made by scoring rounds, and results of official benchmarks among them."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle_builder import write_runs, write_speed
from log_builder import make_runs, write_set
from mlperf_fixtures import FOLDER as FIXTURES
from mlperf_fixtures import needs_published_results
from submission_builder import DCNV2, write_submission

from reports.charts.text_strip import WIDTH, draw_strip
from reports.comparison.among_published import Place
from reports.document.glossary import FOOTNOTE_UNVERIFIED, TRADEMARK, UNVERIFIED_COMPARED
from reports.results.published import SHIPPED, load_table
from rules.records.codec import convert
from rules.records.kept.published import PublishedTable

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def round_(tmp_path: Path) -> Path:
    """A round of three submitters, of which the second has eight nodes, and the third no accelerator."""
    folder = tmp_path / "training_results_v5.1"
    runs = {
        name: make_runs(DCNV2, ours=False, organization=name, throughput=rate, start_ms=1_790_000_000_000 + 10**9 * n)
        for n, (name, rate) in enumerate({"Ann": 2e7, "Bob": 4e7, "Cyd": 1e6}.items())
    }
    about = {"accelerators_per_node": "8", "accelerator_model_name": "GPU X", "status": "Available on-premise"}
    write_submission(folder, organization="Ann", systems=("one",), runs=runs["Ann"], number_of_nodes="1", **about)
    write_submission(folder, organization="Bob", systems=("eight",), runs=runs["Bob"], number_of_nodes="8", **about)
    none = {"accelerators_per_node": "0", "accelerator_model_name": "N/A", "status": "preview"}
    write_submission(folder, organization="Cyd", systems=("cpu",), runs=runs["Cyd"], number_of_nodes="4", **none)
    return folder


def made(command: Command, *folders: Path) -> tuple[dict[str, Any], str]:
    code, out, err = command("score", *folders, "--format", "published")
    assert code == 0, err
    return json.loads(out), err


def scores_of(command: Command, *folders: Path) -> dict[str, dict[str, Any]]:
    """The records that `score` prints, by the folder of the logs."""
    return {each["path"]: each for each in json.loads(command("score", *folders, "--format", "json")[1])["scores"]}


def hold_to_scores(table: dict[str, Any], scores: dict[str, dict[str, Any]]) -> None:
    """Each row is of one scored folder, by the digests of its logs, and says what `score` says of it."""
    digests = {
        path: {log.name: hashlib.sha256(log.read_bytes()).hexdigest() for log in Path(path).glob("result_*.txt")}
        for path in scores
    }
    for row in table["results"]:
        (path,) = (path for path, logs in digests.items() if logs == row["logs"])
        score = scores[path]
        assert row["minutes"] == pytest.approx(score["score_s"] / 60)
        assert row["minutes"] / row["rcp_factor"] == pytest.approx(score["olympic_mean_s"] / 60)
        assert (row["rcp_factor"], row["num_runs"]) == (score["rcp_factor"] or 1.0, score["num_runs"])
        for member in ("benchmark", "round", "division", "outcome"):
            assert row[member] == score[member]
        assert row["repository"] == f"mlcommons/training_results_v{row['round']}"


@needs_published_results
def test_the_shipped_table_is_the_score_of_the_rounds_at_hand(command: Command) -> None:
    rounds = sorted(
        [*FIXTURES.glob("training_results_v*"), *FIXTURES.with_name("rounds").glob("training_results_v*")]
    )
    table, err = made(command, *rounds)
    assert table == json.loads(SHIPPED.read_text())
    hold_to_scores(table, scores_of(command, *rounds))
    assert len(table["results"]) == 12 and "XA_NB3I_E12/dlrm_dcnv2: incomplete: 1 of 10 runs" in err
    assert {row["accelerator"] for row in table["results"] if row["submitter"] == "Intel"} == {None}


def test_the_same_command_makes_such_a_table_of_a_round_that_was_built(command: Command, round_: Path) -> None:
    table, err = made(command, round_)
    assert isinstance(convert(table, PublishedTable), PublishedTable) and "not in the table" not in err
    hold_to_scores(table, scores_of(command, round_))
    facts = ("submitter", "system", "accelerator", "num_accelerators", "num_nodes", "availability")
    assert [[row[name] for name in facts] for row in table["results"]] == [
        ["Ann", "one", "GPU X", 8, 1, "Available on-premise"],
        ["Bob", "eight", "GPU X", 64, 8, "Available on-premise"],
        ["Cyd", "cpu", None, None, 4, "preview"],
    ]
    assert "MLLOG" not in json.dumps(table) and "/" not in json.dumps(table).replace("mlcommons/training", "")


def test_what_has_no_score_or_is_no_rounds_is_left_out_and_said(
    command: Command, round_: Path, tmp_path: Path
) -> None:
    for log in (round_ / "Ann" / "results" / "one" / "dlrm_dcnv2").glob("result_[5-9].txt"):
        log.unlink()
    own = write_runs(tmp_path / "mine", 10_000.0)
    table, err = made(command, round_, own)
    assert [row["submitter"] for row in table["results"]] == ["Bob", "Cyd"]
    text = " ".join(err.split())
    assert "results/one/dlrm_dcnv2: incomplete: 5 of 10 runs" in text and "dlrm_tiny: no result of MLPerf's" in text
    table, _ = made(command, round_.rename(tmp_path / "elsewhere"))
    assert {row["repository"] for row in table["results"]} == {None}


def test_tables_are_listed(command: Command, round_: Path, tmp_path: Path) -> None:
    code, out, _ = command("list", "--published")
    assert code == 0 and "tyche_ngpu8_ngc25.03_hugectr" in out and "mlcommons/training_results_v5.0" in out
    assert " ".join(TRADEMARK.split()) in " ".join(out.split())
    longer = tmp_path / "longer.json"
    longer.write_text(command("score", round_, "--format", "published")[1])
    code, out, _ = command("list", "--published", longer, "--format", "json")
    assert code == 0 and json.loads(out) == json.loads(longer.read_text())
    assert command("list", "--published", "--systems")[0] == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"minutes": -1}, "results[0].minutes"),
        ({"logs": {"result_0.txt": "x"}}, "results[0].logs"),
        ({"round": "latest"}, "results[0].round"),
        ({"division": "half"}, "results[0].division"),
        ({"num_accelerators": 0}, "results[0].num_accelerators"),
    ],
)
def test_a_damaged_table_is_refused_by_its_member(
    change: dict[str, Any], said: str, command: Command, tmp_path: Path
) -> None:
    table = json.loads(SHIPPED.read_text())
    table["results"][0] |= change
    (tmp_path / "table.json").write_text(json.dumps(table))
    code, _, err = command("list", "--published", tmp_path / "table.json")
    assert code == 8 and said in err and "score ROUND... --format published" in err
    assert command("list", "--published", tmp_path / "absent.json")[0] == 8


def test_an_official_result_stands_among_the_others_of_its_benchmark(
    command: Command, round_: Path, tmp_path: Path
) -> None:
    longer = tmp_path / "longer.json"
    longer.write_text(command("score", round_, "--format", "published")[1])
    ann = round_ / "Ann"
    code, out, err = command("compare", ann, "--with", f"published:{longer}")
    text = " ".join(out.split())
    assert code == 0, err
    minutes = next(iter(scores_of(command, ann).values()))["score_s"] / 60
    assert f"{minutes:.2f} minutes (MLCommons verification unknown) would be number 2 of 3" in text
    assert "2 published results of dlrm_dcnv2, closed, round 5.1, by time to train" in text
    assert "by accelerator-minutes (derived: 8 accelerators), number 1 of 2" in text, (
        "8 against 64 of twice the speed"
    )
    assert "o" in re.findall(r"minutes: (\S+)", text)[0] and TRADEMARK in text
    code, out, _ = command("compare", ann, round_ / "Bob", "--with", f"published:{longer}")
    assert code == 0 and "FASTER" in out and " ".join(out.split()).count("would be number") == 2
    page = tmp_path / "page.html"
    assert command("report", ann, "--with", f"published:{longer}", "-o", page, "--no-second-opinion")[0] == 0
    words = " ".join(re.sub("<[^>]+>", " ", page.read_text()).split())
    assert "Where it would stand among published results" in words and "would be number 2 of 3" in words
    assert "accelerator-minutes, derived" in words and "Bob, eight, round 5.1" in page.read_text()


def test_an_unverified_score_says_so_with_mlcommons_words(command: Command, tmp_path: Path) -> None:
    """Logs of this harness under an official name."""
    write_set(tmp_path / "mine", DCNV2, make_runs(DCNV2, throughput=2e7))
    code, out, err = command("compare", tmp_path / "mine", "--with", "published")
    text = " ".join(out.split())
    assert code == 0, err
    assert "minutes (unverified) would be number" in text
    for words in (FOOTNOTE_UNVERIFIED, UNVERIFIED_COMPARED):
        assert " ".join(words.split()) in text


def test_own_benchmarks_never_stand_beside_published_results(command: Command, tmp_path: Path) -> None:
    own, speed = write_runs(tmp_path / "mine", 10_000.0), write_speed(tmp_path / "speed", 2_000.0)
    official = tmp_path / "official"
    write_set(official, DCNV2, make_runs(DCNV2, throughput=2e7))
    for words in (
        ("compare", own), ("compare", official, own), ("report", speed), ("report", official, own),
    ):  # fmt: skip
        page = () if words[0] == "compare" else ("-o", tmp_path / "page.html", "--no-second-opinion")
        code, out, err = command(*words, "--with", "published", *page)
        assert code == 2 and out == "" and "which is no MLPerf benchmark" in err, words
        assert "MLCommons' Results Messaging Guidelines" in err and not (tmp_path / "page.html").exists()


def test_forms_that_cannot_say_it_are_refused(command: Command, tmp_path: Path) -> None:
    official = tmp_path / "official"
    write_set(official, DCNV2, make_runs(DCNV2, throughput=2e7))
    for words in (("compare", "json"), ("compare", "csv"), ("report", "md"), ("report", "json")):
        code, _, err = command(words[0], official, "--with", "published", "--format", words[1])
        assert code == 2 and "--with published" in err


def test_a_place_is_counted_by_hand() -> None:
    assert (
        Place(2.0, (1.0, 3.0, 2.0)).number == 2 and Place(0.5, (1.0,)).number == 1 and Place(9.0, (1.0,)).number == 2
    )


def test_a_strip_has_every_value_in_its_order_on_one_line() -> None:
    strip = draw_strip(10.0, [1.0, 100.0], "{:g}".format)
    assert strip == f"1|{'-' * (WIDTH // 2 - 1)}o{'-' * (WIDTH // 2 - 1)}|100" and " " not in strip
    assert draw_strip(5.0, [5.0], "{:g}".format).count("o") == 1


def test_the_shipped_table_is_facts_alone() -> None:
    table = load_table()
    assert SHIPPED.stat().st_size < 100_000
    assert {len(digest) for row in table.results for digest in row.logs.values()} == {64}
