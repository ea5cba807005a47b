"""Exports: exact text for one set, a schema that holds for all, and no formulas from strangers."""

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from log_builder import make_runs, write_log, write_set
from report_builder import write_run_set

import reports.schemas
from reports.exports import export_csv, export_json, export_markdown
from reports.facts import gather
from reports.report import render_report
from rules.benchmarks import load_benchmark

TINY = load_benchmark("dlrm_tiny")
SCHEMA = json.loads((Path(reports.schemas.__path__[0]) / "report.schema.json").read_text(encoding="utf-8"))


def pair(tmp_path: Path) -> Path:
    """Two runs of round numbers, as an incomplete set of somebody else's."""
    folder = tmp_path / "Org" / "results" / "box" / "dlrm_tiny"
    for index, num_evals in enumerate((10, 12)):
        records = make_runs(TINY, 1, num_evals=num_evals + 1, throughput=16_384.0, ours=False)[0]
        write_log(folder / f"result_{index}.txt", records)
    return tmp_path / "Org"


def test_csv_is_exactly_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pair(tmp_path).parent)
    sets = gather([Path("Org")])
    digests = [run.result.log_sha256 for run in sets[0].runs]
    batch, rate = TINY.sections["train"]["global_batch_size"], TINY.sections["train"]["opt_base_learning_rate"]
    header, first, second = export_csv(sets).splitlines()
    assert header == (
        "configuration,benchmark,benchmark_version,division,run,attempt,status,counted,reason,seed,started_ms,"
        "time_to_train_s,train_s,eval_s,overhead_s,init_s,samples_to_converge,epochs_to_converge,"
        "throughput_samples_per_s,final_quality,quality_target,num_evaluations,global_batch_size,learning_rate,"
        "peak_rss_bytes,peak_device_bytes,log_sha256,path"
    )
    rows = list(csv.DictReader(io.StringIO("\n".join((header, first, second)))))
    assert [
        (row["configuration"], row["benchmark"], row["run"], row["status"], row["counted"], row["num_evaluations"])
        for row in rows
    ] == [
        ("Org · box", "dlrm_tiny", "0", "success", "no score", "10"),
        ("Org · box", "dlrm_tiny", "1", "success", "no score", "12"),
    ]
    assert [row["log_sha256"] for row in rows] == digests
    assert {(row["global_batch_size"], row["learning_rate"]) for row in rows} == {(str(batch), str(rate))}
    assert {(row["benchmark_version"], row["attempt"], row["peak_rss_bytes"]) for row in rows} == {("", "", "")}
    assert first.endswith(",Org/results/box/dlrm_tiny/result_0.txt")


def test_markdown_is_exactly_this(tmp_path: Path) -> None:
    (one,) = sets = gather([pair(tmp_path)])
    errors, warnings = one.verdict.count("error"), one.verdict.count("warning")
    times = [run.time_s for run in one.runs if run.time_s is not None]
    assert [round(time_s / 1.1) for time_s in times] == [10, 12]
    assert export_markdown(sets) == (
        "## dlrm\\_tiny, closed division\n\n"
        "Own benchmark: not an MLPerf® result, and not comparable with one.\n\n"
        "| Configuration | Verdict | Time to train | 95 % interval | Runs | RCP | Epochs | CV | Samples/s | CV "
        "| Final AUC | Errors / warnings | Batch size | Learning rate | Peak memory |\n"
        "|:--|:--|--:|--:|--:|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        f"| Org · box | {'✕ INVALID' if errors else '◐ INCOMPLETE'} | — | — | 2 / 5 | no RCP | 0.548 | 12.9 % "
        f"| 16,384 | 0.0 % | 0.77050 | {errors} / {warnings} | 512 | 0.06 | — |\n"
    )  # fmt: skip


def test_json_holds_to_its_schema_and_knows_every_run(tmp_path: Path) -> None:
    write_run_set(tmp_path / "own")
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "result_0.txt").write_bytes(b"nothing\n")
    sets = gather([tmp_path], second_opinion=False)
    document = json.loads(render_report(sets, output_format="json"))
    jsonschema.validate(document, SCHEMA)
    by_name = {one["configuration"]: one for one in document["configurations"]}
    own = by_name["own"]
    assert [run["status"] for run in own["runs"]] == ["success"] * 5 + ["interrupted"]
    assert len(own["runs"][0]["evaluations"]["quality"]) == own["runs"][0]["num_evaluations"]
    assert own["runs"][-1]["evaluations"]["quality"] == []
    assert (by_name["bare"]["benchmark"], by_name["bare"]["score_s"]) == (None, None)


def test_json_numbers_are_the_facts(tmp_path: Path) -> None:
    (one,) = gather([write_run_set(tmp_path / "own")])
    (exported,) = export_json([one])["configurations"]
    assert exported["score_s"] == pytest.approx(one.result.score_s)
    assert [run["time_to_train_s"] for run in exported["runs"][:5]] == pytest.approx([run.time_s for run in one.runs])


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)"])
def test_a_spreadsheet_takes_no_name_for_a_formula(tmp_path: Path, text: str) -> None:
    runs = make_runs(TINY, converged=False, reason=text, num_evals=19)
    cells = next(iter(csv.DictReader(io.StringIO(export_csv(gather([write_run_set(tmp_path / "own", runs=runs)]))))))
    assert cells["reason"] == f"'{text}"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one of html, json, csv, md"):
        render_report([], output_format="pdf")
