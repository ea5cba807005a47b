"""Exports: exact text for one set, a schema that holds for all, and no formulas from strangers."""

import csv
import io
import json
import re
from pathlib import Path

import jsonschema
import pytest
from log_builder import START_MS, make_records, make_runs, write_set
from pinned_definition import DEFINITION
from report_builder import write_run_set

from reports.page.content import ReportContent
from reports.page.exports import export_csv, export_json
from reports.page.report import render_report
from reports.results.logs import gather
from reports.results.result import Result
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
SCHEMA = json_schema(DOCUMENTS["report"])


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of round numbers, an incomplete set of an own benchmark, by a relative path."""
    monkeypatch.chdir(tmp_path)
    Path("pinned.toml").write_text(DEFINITION, encoding="utf-8")
    benchmark = load_benchmark("./pinned.toml")
    runs = [
        make_records(benchmark, num_evals=n, seed=n, start_ms=START_MS + n * 10_000, throughput=10_000.0)
        for n in (10, 12)
    ]
    write_set(Path("mine"), benchmark, runs, system="box")
    return Path("mine")


def test_csv_is_exactly_this(pair: Path) -> None:
    sets = gather([pair])
    first, second = (run.log.log_sha256 for run in sets[0].runs)
    assert export_csv(sets) == (
        "configuration,benchmark,benchmark_version,division,run,attempt,status,counted,reason,seed,started_ms,"
        "time_to_train_s,train_s,eval_s,overhead_s,init_s,samples_to_converge,epochs_to_converge,"
        "throughput_samples_per_s,final_quality,quality_target,num_evaluations,global_batch_size,learning_rate,"
        "peak_rss_bytes,peak_device_bytes,log_sha256,path,organization,platform,train_samples,eval_samples,energy_j,"
        "samples_to_converge_smoothed\n"
        "mine,pinned,1,closed,0,,success,no score,,10,1790000102520,5.531,5.0,0.51,0.531,2.019,50000,0.5,10000.0,"
        f"0.7505,0.75,10,500,0.1,,,{first},mine/results/box/pinned/result_0.txt,Example,1x Example,100000,1000,,\n"
        "mine,pinned,1,closed,1,,success,no score,,12,1790000122520,6.637,6.0,0.612,0.637,2.019,60000,0.6,10000.0,"
        f"0.7505,0.75,12,500,0.1,,,{second},mine/results/box/pinned/result_1.txt,Example,1x Example,100000,1000,,\n"
    )


def as_markdown(sets: list[Result]) -> str:
    return render_report(ReportContent(results=sets), output_format="md")


def test_markdown_is_exactly_this(pair: Path) -> None:
    assert as_markdown(gather([pair])) == (
        "## pinned, closed division\n\n"
        "Own benchmark: not an MLPerf® result, and not comparable with one.\n\n"
        "| Configuration | Verdict | Time to train (measured, s) | Epochs (to converge) | Samples/s "
        "| Final AUC (mean) | Runs (converged / required) | RCP | Batch size (samples, learning rate) |\n"
        "|:--|:--|--:|--:|--:|--:|--:|:--|--:|\n"
        "| mine (8 × as built) | ◐ INCOMPLETE (0 errors, 2 warnings) | 6.06 (no score) | 0.548 (CV 12.9 %) "
        "| 10,000 (all equal) | 0.75050 | 2 / 5 | no RCP | 500 (0.1) |\n"
        "\n2 of 2 runs reached the target; a verdict takes at least 5 on each side. "
        "'dlrmbench resume mine --runs 5' makes the missing runs.\n"
    )


def test_json_holds_to_its_schema_and_knows_every_run(tmp_path: Path) -> None:
    write_run_set(tmp_path / "own")
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "result_0.txt").write_bytes(b"nothing\n")
    sets = gather([tmp_path], second_opinion=False)
    document = json.loads(render_report(ReportContent(results=sets), output_format="json"))
    jsonschema.validate(document, SCHEMA)
    by_name = {one["configuration"]: one for one in document["configurations"]}
    own = by_name["own"]
    assert [run["status"] for run in own["runs"]] == ["success"] * 5 + ["interrupted"]
    assert len(own["runs"][0]["evaluations"]["quality"]) == own["runs"][0]["num_evaluations"]
    assert own["runs"][-1]["evaluations"]["quality"] == []
    assert (by_name["bare"]["benchmark"], by_name["bare"]["score_s"]) == (None, None)


def test_json_numbers_are_the_facts(tmp_path: Path) -> None:
    (one,) = gather([write_run_set(tmp_path / "own")])
    (exported,) = json.loads(export_json([one]))["configurations"]
    assert exported["score_s"] == pytest.approx(one.score.score_s)
    assert [run["time_to_train_s"] for run in exported["runs"][:5]] == pytest.approx([run.time_s for run in one.runs])


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"])
def test_a_spreadsheet_takes_no_name_for_a_formula(tmp_path: Path, text: str) -> None:
    runs = make_runs(TINY, converged=False, reason=text, num_evals=19)
    cells = next(iter(csv.DictReader(io.StringIO(export_csv(gather([write_run_set(tmp_path / "own", runs=runs)]))))))
    assert cells["reason"] == f"'{text}"


def test_both_ends_of_an_interval_are_text_in_markdown(tmp_path: Path) -> None:
    """On the page a space that does not break keeps them in one line."""
    sets = gather([write_run_set(tmp_path / "set")], second_opinion=False)
    assert re.search(r"\(\d+\.\d+ – \d+\.\d+\)", as_markdown(sets))
    assert "xa0" not in as_markdown(sets)


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of html, json, csv, md"):
        render_report(ReportContent(results=[]), output_format="pdf")
