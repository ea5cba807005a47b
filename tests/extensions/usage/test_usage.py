"""`usage`: a study of several models with deadlines, and what is refused before anything is made."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_sets import made_in

from harness.extensions.usage.definition import STAND_IN, parse_usage, read_usage, shipped_usages
from harness.foundation.errors import ExitCode
from rules.records.codec import decode
from rules.records.study import TIMELINE, StudyRecord

Inside = Callable[..., "subprocess.CompletedProcess[str]"]
Call = Callable[..., tuple[int, str, str]]
OURS = ("cascade", "feed")
"""Shipped usages that are not XRBench's."""
ONE = ("--set", "usage.workers=1")
HEAD = '[usage]\ntitle = "a test <b>"\nsource = "a test"\nduration_s = 2\n'
EYES = '[eyes]\nsource = "stand_in"\nwidths = [8, 8]\nrate = 20\ndeadline_ms = 60000\n'
GAZE = '[gaze]\nsource = "stand_in"\nwidths = [8, 8]\nafter = "eyes"\ndeadline_ms = 60000\n'
FIND = '[find]\nsource = "retrieval"\nrate = 2\ndeadline_ms = 60000\ngraph = "edges.txt"\ntop_k = 5\n'


def rows_of(study: StudyRecord, title: str) -> list[dict[str, Any]]:
    (table,) = (table for table in study.tables if table.title.startswith(title))
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


def read_study(folder: Path) -> StudyRecord:
    (made,) = made_in(folder)
    study = decode(made / "study.json", StudyRecord)
    assert isinstance(study, StudyRecord)
    return study


@pytest.mark.slow
@pytest.mark.parametrize(("words", "origin"), (((), "measured"), (("--simulated", "--workers", "1"), "simulated")))
def test_models_one_after_another_meet_deadlines_far_away(
    words: tuple[str, ...], origin: str, inside: Inside, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(HEAD + EYES + GAZE)
    done = inside("usage", "mine.toml", *words, "--seed", 3, "-n", 2, "-o", "out", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "process 1 (2 of 2): timing models, then scheduling requests, about " in done.stderr
    study = read_study(tmp_path / "out")
    assert json.loads(done.stdout)["kind"] == study.kind == "usage" and study.seed == 3
    models = rows_of(study, "Models")
    assert [(row["Model"], row["Requested"], row["Late"]) for row in models] == [("eyes", 80, 0), ("gaze", 80, 0)]
    assert all(0 < row["p50"] <= row["p99"] for row in models) and len(models[0]) == 10  # a page has room for them
    parts = rows_of(study, "Parts of the models' scores")
    assert [(row["Model"], row["Quality of experience"]) for row in parts] == [("eyes", 1), ("gaze", 1)]
    assert all(row["Score"] == pytest.approx(1) for row in parts)
    assert ("p99 in simulated time" in parts[0]) == (origin == "measured")
    said = "Score 100.00 of 100 (95 % interval 100.00 to 100.00 over 2 processes), 160 of 160 deadlines met"
    assert said in study.findings[0] and origin in study.findings[0]
    (score,) = rows_of(study, "Score")
    assert [score[name] for name in ("Score", "From", "To", "Processes")] == [pytest.approx(100)] * 3 + [2]
    processes = rows_of(study, "Processes")
    assert [row["Process"] for row in processes] == [0, 1] and len(
        {row["Seed of arrivals"] for row in processes}
    ) == 2
    assert len(study.loads) == 2 and study.preflight
    (late,) = (column for column in study.tables[1].columns if column.name == "Late")
    assert late.origin == origin
    energy = next(parameter for parameter in study.parameters if parameter.name == "energy of a request")
    assert energy.value == ("measured" if parts[0]["Energy"] is not None else "not given")
    requests = rows_of(study, TIMELINE)
    assert len(requests) == 40 and all(row["Released"] < 1 for row in requests)
    begun = {(row["Model"], row["Request"]): row["Begun"] for row in requests}
    ended = {(row["Model"], row["Request"]): row["Done"] for row in requests}
    assert all(begun["gaze", number] >= ended["eyes", number] for number in range(20))
    assert all(row["Begun"] >= row["Released"] for row in requests)
    (folder,) = made_in(tmp_path / "out")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Requests of the first second" in page and "a test <b>" not in page


@pytest.mark.slow
def test_a_retrieval_is_held_against_exact_candidates_at_each_value_of_an_axis(
    inside: Inside, tmp_path: Path
) -> None:
    """On a star every ball of three hops is the whole graph: no setting saves memory, and the study says so."""
    (tmp_path / "mine.toml").write_text(HEAD + FIND)
    (tmp_path / "edges.txt").write_text("# a star\n" + "".join(f"0 {leaf}\n" for leaf in range(1, 60)))
    words = ("--simulated", "--axis", "find.num_subgraphs=1,all", *ONE, "-n", 1, "-o", "out")
    done = inside("usage", "mine.toml", *words)
    assert done.returncode == 0, done.stderr
    study = read_study(tmp_path / "out")
    rows = rows_of(study, "Retrieval")
    assert [(row["find.num_subgraphs"], row["Subgraphs"]) for row in rows] == [("1", "1"), ("all", "all")]
    assert rows[1]["Precision"] == 1 and all(row["Less memory"] <= 1 for row in rows)
    assert all(row["Mean"] > 0 and row["Speed-up over one stage"] > 0 for row in rows)
    said = " ".join(done.stdout.split())
    assert "no less memory" in said
    assert study.findings[-1].endswith("(computed).") and "not both above 1 on edges.txt" in study.findings[-1]
    assert TIMELINE not in said
    for number in ("1", "all"):
        assert any(each.startswith(f"find.num_subgraphs={number}: score") for each in study.findings)
    assert [row["find.num_subgraphs"] for row in rows_of(study, "Models")] == ["1", "all"]


@pytest.mark.slow
def test_a_benchmark_ranks_what_is_handed_on(inside: Inside, data_root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        HEAD + FIND + '[rank]\nsource = "dlrm_tiny"\nafter = "find"\ndeadline_ms = 60000\n'
    )
    (tmp_path / "edges.txt").write_text("".join(f"{node} {node + 1}\n" for node in range(30)))
    done = inside(
        "usage",
        "mine.toml",
        "--simulated",
        "--data",
        data_root,
        "-q",
        "-o",
        "out",
        "-n",
        1,
        "--score",
        "once",
        *ONE,
    )
    assert done.returncode == 0, done.stderr
    study = read_study(tmp_path / "out")
    models = [(row["Model"], row["Items"], row["Requested"]) for row in rows_of(study, "Models")]
    assert models == [("find", 1, 4), ("rank", 5, 4)]
    assert any("The quality of find and rank end to end is not shown" in each for each in study.findings)
    assert next(each.value for each in study.parameters if each.name == "score") == "once"


@pytest.mark.once("workers of a usage")
def test_where_no_rate_meets_all_deadlines_the_model_is_named(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(HEAD + EYES + GAZE.replace("60000", "0.0001"))
    done = inside("usage", "mine.toml", "--simulated", "-n", 1, "-o", "out", *ONE)
    assert done.returncode == ExitCode.INCONCLUSIVE, done.stderr
    assert "no rate meets all deadlines: at 1 % of the given rates gaze fails first" in done.stderr
    study = read_study(tmp_path / "out")
    assert "% of deadlines met; no rate meets all deadlines: gaze fails first" in study.title
    assert "Next, a deadline that a call can meet: dlrmbench usage mine.toml" in study.findings[1]


@pytest.mark.parametrize(
    ("text", "said"),
    (
        (EYES.replace("rate = 20", 'after = "gaze"') + GAZE, "eyes, gaze: each comes after another of them"),
        (EYES.replace("20", "0"), "eyes.rate is 0, expected a number above 0"),
        (EYES.replace("20", "-3"), "eyes.rate is -3, expected a number above 0"),
        (EYES.replace("20", "nan"), "eyes.rate is nan, expected a number above 0"),
        (EYES.replace("60000", "0"), "eyes.deadline_ms is 0, expected a number above 0"),
        (EYES.replace("60000", "-1"), "eyes.deadline_ms is -1, expected a number above 0"),
        (EYES + GAZE + "probability = 1.5\n", "gaze.probability is 1.5, expected a number of at least 0, at most 1"),
        (EYES + GAZE + "probability = -0.5\n", "gaze.probability is -0.5"),
        (EYES + GAZE + "rate = 5\n", "gaze: expected one of rate and after"),
        (EYES.replace("rate = 20", ""), "eyes: expected one of rate and after"),
        (EYES + GAZE.replace('"eyes"', '"eye"'), "gaze.after is 'eye': no such model. Did you mean 'eyes'?"),
        (EYES + "rates = 5\n", "unknown key eyes.rates. Did you mean 'rate'?"),
        (EYES + "top_k = 0\n", "eyes.top_k is 0"),
        (EYES.replace("[8, 8]", "[8]"), "eyes.widths: expected two or more"),
        (EYES + "num_subgraphs = 4\n", "eyes.num_subgraphs is for source = 'retrieval' alone"),
        (EYES + "wanted_precision = 0.5\n", "eyes.wanted_precision is for source = 'retrieval' alone"),
        (FIND + "wanted_precision = 1.5\n", "find.wanted_precision is 1.5, expected a number above 0, at most 1"),
        (EYES + "items = 2000\n", "eyes.items is 2000"),
        (EYES + "top_k = 5000\n" + GAZE, "gaze: 5,000 items a request, expected 1,024 at most"),
        (EYES.replace("deadline_ms = 60000", 'arrivals = "poisson"'), "eyes.deadline_ms is missing"),
        (EYES.replace("20", "1e6"), "requests, expected 100,000 at most"),
        (EYES.replace("stand_in", "stand_inn").replace("widths = [8, 8]\n", ""), "which cannot be served"),
        (EYES.replace("stand_in", "dlrm_tinny").replace("widths = [8, 8]\n", ""), "retrieval, stand_in, d2nn_small,"),
        ("", "no model, expected a table for each"),
        ("x = 3\n" + EYES, "unknown key usage.x"),
        ("workers = 0\n" + EYES, "usage.workers is 0"),
    ),
)
def test_what_is_no_usage_is_refused_by_its_file(
    text: str, said: str, command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(HEAD + text)
    code, out, err = command("usage", "mine.toml", "--simulated", "-o", "out")
    assert (code, out) == (ExitCode.USAGE, "") and "mine.toml: " in err and said in err, err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    (
        (("vr_gamin",), ExitCode.USAGE, "neither a usage scenario nor a FILE.toml. Did you mean 'vr_gaming'?"),
        (("none.toml",), ExitCode.USAGE, "none.toml: no such file"),
        (("mine.toml", "--batch", "4"), ExitCode.USAGE, "No such option"),
        (("mine.toml", "--axis", "find.top_k"), ExitCode.USAGE, "expected MODEL.KEY=VALUE"),
        (("mine.toml", "--axis", "found.top_k=1,2"), ExitCode.USAGE, "Did you mean 'find'?"),
        (("mine.toml", "--set", "find.rate=0"), ExitCode.USAGE, "find.rate is 0"),
        (("mine.toml", "--set", "find.query_nodes=[9]"), ExitCode.USAGE, "node 9 is outside the graph"),
        (
            ("mine.toml", "--set", "find.graph=bad.txt"),
            ExitCode.INPUT,
            "bad.txt:2: '1 x', expected an edge",
        ),
        (("mine.toml", "--set", "find.graph=no.txt"), ExitCode.INPUT, "no.txt"),
    ),
)
def test_what_cannot_be_asked_is_refused(
    words: tuple[str, ...], code: int, said: str, command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(HEAD + FIND)
    (tmp_path / "edges.txt").write_text("1 2\n")
    (tmp_path / "bad.txt").write_text("1 2\n1 x\n")
    found, out, err = command("usage", *words, "-o", "out")
    assert (found, out) == (code, "") and said in err, err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", shipped_usages())
def test_every_usage_that_is_shipped_is_one_and_says_its_source(name: str) -> None:
    usage = parse_usage(read_usage(name)[1], name)
    is_ours = name in OURS
    assert ("XRBench/XRBench-MLSys2023" in usage.source) != is_ours and "urs:" in usage.source
    assert all((model.source == STAND_IN) != is_ours for model in usage.models.values())


def test_the_scenarios_of_xrbench_are_those_of_its_released_code() -> None:
    """XRbench_evaluation/usage_scenarios/*.m: requests a second, and of what depends on another its probability."""
    eyes, keyword = {"ES": 60, "GE": ("ES", 1.0)}, {"KD": 3, "ASR": ("KD", 0.2)}
    expected = {
        "vr_gaming": {**eyes, "HT": 45},
        "ar_gaming": {"HT": 45, "DE": 30, "PD": 15},
        "ar_assistant": {"KD": 3, "ASR": ("KD", 0.5), "SS": 10, "DE": 30, "PD": 15, "OD": 10},
        "outdoor_activity_a": {**keyword, "SS": 10, "OD": 30},
        "outdoor_activity_b": {**keyword, "OD": 30},
        "social_interaction_a": {**eyes, "DR": 30, "HT": 30},
        "social_interaction_b": {**eyes, "AS": 30},
    }
    found = {
        name: {
            each: model.rate if model.after is None else (model.after, model.probability)
            for each, model in parse_usage(read_usage(name)[1], name).models.items()
        }
        for name in shipped_usages()
        if name not in OURS
    }
    assert found == expected


def test_stand_ins_above_the_memory_are_refused_before_any_worker_is_started(
    command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(HEAD + EYES.replace("[8, 8]", "[60000000, 60000000]"))
    code, _, err = command("usage", "mine.toml")
    assert code == ExitCode.RESOURCES and "mine.toml: the widths of stand-ins ask for" in err, err
    assert "on 2 workers" in err and not (tmp_path / "out").exists()
