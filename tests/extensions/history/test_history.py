"""history on the command line: past sets whatever their state."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from log_builder import make_runs, write_set
from records_builder import process_content, run_set_content, throughput_content
from report_builder import Page, write_run_set

from harness.extensions.history.page import TERMS, render_history
from harness.extensions.history.series import NO_RECORD, UNFINISHED, read_series
from reports.results.logs import gather
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import canonical_sha256, load_benchmark
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
CONFIG = {
    "train.global_batch_size": {"value": 512, "source": "definition"},
    "runtime.threads": {"value": 1, "source": "file mine.toml"},
}
CONFIG_DIGEST = canonical_sha256({key: value["value"] for key, value in CONFIG.items()})[:8]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Sets in every state: whole, incomplete, empty, a measurement, one under way, broken JSON, lost record."""
    folder = tmp_path / "results"
    when = "2026-11-{:02d}T03:00:00+00:00".format
    write_run_set(folder / "whole", changes={"created_utc": when(20), "config": CONFIG})
    write_run_set(
        folder / "below" / "part", runs=make_runs(TINY, 2), changes={"created_utc": when(21), "num_runs": 5}
    )
    for name, day in (("empty", 22), ("measured", 23), ("under_way", 24)):
        extra = folder / name / "extra"
        extra.mkdir(parents=True)
        kind = "training" if name == "empty" else "throughput"
        record = run_set_content(created_utc=when(day), kind=kind)
        (extra / "run_set.json").write_text(json.dumps(record), encoding="utf-8")
    processes = [process_content(num_samples=1000, duration_s=0.5 + 0.01 * i) for i in range(5)]
    content = json.dumps(throughput_content(processes))
    (folder / "measured" / "extra" / "throughput.json").write_text(content, encoding="utf-8")
    write_run_set(folder / "bad")
    (folder / "bad" / "extra" / "run_set.json").write_text("{", encoding="utf-8")
    write_set(folder / "lost", TINY)
    return folder


def test_history_lists_every_set_newest_first(command: Any, results: Path) -> None:
    code, out, err = command("history", results, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, json_schema(DOCUMENTS["history"]))
    assert (code, err) == (0, "")
    by_name = {Path(one["folder"]).name: one for one in document["run_sets"]}
    assert list(by_name)[:5] == ["under_way", "measured", "empty", "part", "whole"]
    kinds = {name: (one["kind"], one["outcome"]) for name, one in by_name.items()}
    assert kinds == {
        "under_way": ("throughput", None),
        "measured": ("throughput", None),
        "empty": ("training", "incomplete"),
        "part": ("training", "incomplete"),
        "whole": ("training", "valid"),
        "bad": ("broken", None),
        "lost": ("broken", None),
    }
    assert by_name["lost"]["problem"].startswith("extra/run_set.json is missing")
    assert "run_set.json: found" in by_name["bad"]["problem"]
    assert by_name["whole"]["config_digest"] == canonical_sha256({k: v["value"] for k, v in CONFIG.items()})[:8]
    assert by_name["whole"]["score_s"] == pytest.approx(gather([results / "whole"])[0].score.score_s)
    assert (by_name["part"]["num_done"], by_name["part"]["num_runs"]) == (2, 5)
    assert by_name["measured"]["throughput_samples_per_s"] == pytest.approx(1000 / 0.52, rel=1e-3)


def test_the_page_says_why_sets_are_on_no_series_and_explains_its_words(results: Path) -> None:
    every, left_out = read_series(results)
    assert {point.result.label for series in every for point in series.points} == {"whole", "measured"}
    assert left_out == {UNFINISHED: 3, NO_RECORD: 2}  # part, empty, under_way; bad, lost
    page = Page(render_history(every, left_out)).text
    assert f"5 sets on no series: 3 {UNFINISHED}, 2 {NO_RECORD}" in page and "dlrmbench · a history" in page
    assert "sets on no series" not in Page(render_history(every, {})).text
    assert all(TERMS[word] in page for word in ("Series", "Change", "Interval"))


def test_history_has_four_forms_and_a_limit(command: Any, results: Path) -> None:
    out = command("history", results, "--limit", "2")[1]
    assert "2 of 7 shown; --limit shows more." in out
    assert "not finished" in out
    assert len(list(csv.DictReader(io.StringIO(command("history", results, "--format", "csv")[1])))) == 7
    assert command("history", results, "--format", "md")[1].count("\n") == 9


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("dlrm_tiny-mine-20261121T162315Z", "mine"),
        (f"dlrm_tiny-{CONFIG_DIGEST}-20261121T162315Z", None),
        ("something else", None),
    ],
)
def test_history_shows_the_name_that_was_given(command: Any, tmp_path: Path, folder: str, name: str | None) -> None:
    write_run_set(tmp_path / "set", changes={"name": folder, "config": CONFIG})
    (found,) = json.loads(command("history", tmp_path, "--format", "json")[1])["run_sets"]
    assert (found["name"], found["config_digest"]) == (name, CONFIG_DIGEST)
    shown = command("history", tmp_path)[1]
    head, row = shown.splitlines()[0], next(line for line in shown.splitlines() if CONFIG_DIGEST in line)
    assert row[head.index("config") :].startswith(CONFIG_DIGEST)
    assert row[head.index("name") :].startswith(name or "—")


def test_history_of_nothing(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("history", tmp_path) == (0, "No run sets here.\n", "")
    code, _, err = command("history", tmp_path / "nowhere")
    assert code == 8
    assert "no such directory" in err
    monkeypatch.chdir(tmp_path)
    assert command("history")[0] == 8


def test_history_names_cannot_move_the_cursor(command: Any, tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e|<b>`"
    write_run_set(
        tmp_path / f"set{evil}",
        changes={"benchmark": {"name": evil}, "harness_version": evil, "system": {"name": evil}, "config": {evil: 1}},
    )
    for form in ("table", "md", "csv", "json"):
        out = command("history", tmp_path, "--format", form)[1]
        assert "\x1b" not in out and "\u202e" not in out, form
