"""Energy as it was measured, cost as it follows from the score; both absent where they are not known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from measured_builder import write_measured
from report_builder import write_attempt, write_run_set

from harness.cli import cli
from reports import frames
from reports.comparison.comparison import compare_results
from reports.facts.energy import compare_energy, energy_per_sample_j, mean_energy_j
from reports.page.content import ReportContent, gather_everything
from reports.page.report import render_report
from reports.parts.cost import cost_columns, cost_text, cost_to_train
from reports.parts.score import describe_score, score_facts
from reports.render.terminal import render_terminal
from reports.results.find import with_prices
from reports.results.logs import gather
from reports.results.result import Result
from reports.views.measurement import measured_blocks, measurement_document
from rules.errors import InputError

PART = {"name": "package-0", "source": "RAPL (powercap)", "energy_j": 100.0}


def energy(energy_j: float | None, reason: str = "") -> dict[str, Any]:
    return {
        "energy_j": energy_j,
        "duration_s": 4.0,
        "sampling_interval_s": 1.0,
        "parts": [PART] if energy_j is not None else [],
        "not_measured": [{"what": "CPU packages", "reason": reason}] if reason else [],
    }


def facts_of(root: Path) -> Result:
    (result,) = gather([root], second_opinion=False)
    return result


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    root = write_run_set(tmp_path / "set", interrupted=False)
    for run in range(5):
        write_attempt(root, run, 0, energy=energy(100.0 + run))
    return root


def test_energy_is_the_mean_over_runs_and_samples(measured: Path) -> None:
    result = facts_of(measured)
    samples = [run.log.samples_to_converge or 0 for run in result.runs]
    assert mean_energy_j(result) == pytest.approx(102.0)
    assert energy_per_sample_j(result) == pytest.approx(102.0 / (sum(samples) / 5))


def test_a_score_has_its_energy_and_what_measured_it(measured: Path) -> None:
    record = describe_score(facts_of(measured))
    assert record.energy_j == pytest.approx(102.0) and record.energy_per_sample_j is not None
    told = score_facts(record)["energy per run"].line
    assert told.startswith("102 J (") and told.endswith("measured by RAPL (powercap): package-0, read every 1 s)")
    write_attempt(measured, 3, 0, energy=energy(None, "permission"))
    record = describe_score(facts_of(measured))
    assert (record.energy_j, record.energy_source) == (None, None) and "energy per run" not in score_facts(record)


@pytest.mark.parametrize("kind", ["throughput", "quality"])
def test_energy_of_a_measurement_is_shown_wherever_its_value_is(kind: str, tmp_path: Path) -> None:
    file = write_measured(tmp_path / "set", kind, [0.7, 0.71, 0.72, 0.73, 0.74]) / "extra" / f"{kind}.json"
    content = json.loads(file.read_text())
    for number, process in enumerate(content["processes"]):
        process["energy"] = energy(10.0 + number)
    file.write_text(json.dumps(content))
    content_of_page = gather_everything([tmp_path / "set"], second_opinion=False)
    (found,) = content_of_page.measured
    told = render_terminal(measured_blocks(found, file), width=200)
    assert "12 J (" in told and "RAPL (powercap): package-0" in told
    assert measurement_document(found, file).energy_j == pytest.approx(12.0)
    for form in ("html", "md"):
        page = render_report(content_of_page, output_format=form)
        assert "12 J" in page and "Samples/J" in page
    assert frames.read(tmp_path / "set").measurements["energy_j"].tolist() == [10.0, 11.0, 12.0, 13.0, 14.0]


def test_a_run_without_energy_leaves_no_mean(measured: Path) -> None:
    write_attempt(measured, 3, 0, energy=energy(None, "permission"))
    result = facts_of(measured)
    assert mean_energy_j(result) is None
    assert energy_per_sample_j(result) is None


def test_the_page_says_how_energy_was_measured_or_why_not(measured: Path) -> None:
    page = render_report(ReportContent(results=[facts_of(measured)]))
    assert "Energy per run" in page
    assert "measured by RAPL (powercap): package-0, read every 1 s" in page
    assert "not measured" not in page.split("<script")[0].split("Energy per run")[1][:400]
    for run in range(5):
        write_attempt(measured, run, 0, energy=energy(None, "readable by root only"))
    page = render_report(ReportContent(results=[facts_of(measured)]))
    assert "Energy per run" not in page
    assert "readable by root only" in page


def test_cost_is_the_measured_mean_times_the_price_and_called_derived(measured: Path) -> None:
    assert cost_to_train(1800.0, 3.0) == 1.5
    assert cost_to_train(None, 3.0) is cost_to_train(10.0, None) is cost_to_train(float("inf"), 3.0) is None
    assert [cost_text(value) for value in (None, 0.00123456, 12.5, 123456.0)] == ["—", "0.001235", "12.5", "123,456"]
    result = facts_of(measured)
    page = render_report(ReportContent(results=[replace(result, price_per_hour=7200.0)]))
    assert result.score.olympic_mean_s is not None
    assert f">{cost_text(2 * result.score.olympic_mean_s)}<" in page.replace("\n", "")
    assert "derived: Olympic mean × the given price of 7200 per hour" in page
    assert "Cost to train" not in render_report(ReportContent(results=[result]))
    # A factor makes the score worse, not the bill.
    assert result.score.convergence is not None
    convergence = replace(result.score.convergence, factor=1.5)
    scaled = replace(result.score, score_s=1.5 * result.score.olympic_mean_s, convergence=convergence)
    priced = replace(result, price_per_hour=7200.0, score=scaled)
    shown = {column.name: show(priced).text for column, show in cost_columns([priced])}
    assert shown["Cost"] == cost_text(2 * result.score.olympic_mean_s)


def test_several_configurations_have_cost_and_energy_in_their_table(measured: Path, tmp_path: Path) -> None:
    other = write_run_set(tmp_path / "other", interrupted=False)
    sets = gather([measured, other], second_opinion=False)
    page = render_report(ReportContent(results=[replace(one, price_per_hour=2.0) for one in sets]))
    assert "derived: Olympic mean × 2 per hour" in page
    assert "measured; mean per run" in page


def test_every_configuration_may_have_a_price_of_its_own(measured: Path, tmp_path: Path) -> None:
    sets = [
        replace(one, index=number, label=label)
        for number, (one, label) in enumerate(
            zip(
                gather([measured], second_opinion=False) * 4,
                ("h100 · v5.1", "b200 · v5.1", "cpu", "dlrm_tiny-h-20261121T162315Z"),
                strict=True,
            )
        )
    ]
    for given, expected in (
        ((), [None, None, None, None]),
        (("2",), [2.0, 2.0, 2.0, 2.0]),
        (("b200=3.5", "2"), [2.0, 3.5, 2.0, 2.0]),
        (("h100 · v5.1=1", "CPU=0.5"), [1.0, None, 0.5, None]),
        # A part of other names, but exactly what --name gave to one.
        (("h=3",), [None, None, None, 3.0]),
    ):
        assert [one.price_per_hour for one in with_prices(sets, given)] == expected
    for wrong, why in (
        ("0", "above 0"),
        ("x", "above 0"),
        ("cpu=nan", "above 0"),
        ("v5.1=2", "fits 2 configurations"),
        ("a100=2", "is no"),
    ):
        with pytest.raises(InputError, match=why):
            with_prices(sets, (wrong,))
    refused = CliRunner().invoke(
        cli, ["report", str(measured), "-o", str(tmp_path / "p.html"), "--price-per-hour", "a100=2"]
    )
    assert refused.exit_code == 2 and not (tmp_path / "p.html").exists()


def test_score_prints_the_cost_with_its_price(measured: Path) -> None:
    arguments = ["score", str(measured), "--price-per-hour", "3600"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "cost to train" in done.output
    assert "derived: Olympic mean at 3600 per hour" in done.output
    (record,) = json.loads(CliRunner().invoke(cli, [*arguments, "--format", "json"]).output)["scores"]
    assert record["cost_to_train"] == pytest.approx(record["olympic_mean_s"])
    table = CliRunner().invoke(cli, [*arguments, "--format", "md"]).output
    assert "| cost to train |" in table
    assert f"| {cost_text(record['cost_to_train'])} (derived: Olympic mean at 3600 per hour) |" in table
    head, _, row = (line.split(" | ") for line in table.splitlines())
    assert " to " in row[head.index("interval")]
    assert CliRunner().invoke(cli, ["score", str(measured), "--price-per-hour", "0"]).exit_code == 2


def test_a_comparison_says_the_energy_of_both_sides_where_both_have_it(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reports.comparison.comparison.why_refused", lambda base, new: None)  # alike but for energy
    other = write_run_set(tmp_path / "other", interrupted=False)
    base = facts_of(measured)
    assert compare_energy(base, facts_of(other)) == ""
    for run in range(5):
        write_attempt(other, run, 0, energy=energy(50.0))
    new = facts_of(other)
    per_joule = [1 / (energy_per_sample_j(side) or 0.0) for side in (base, new)]
    words = f"base 102 J and {per_joule[0]:.3g} samples/J, new 50 J and {per_joule[1]:.3g} samples/J"
    assert compare_energy(base, new) == f"energy, measured, means: {words}"
    (comparison,) = compare_results(base, [new])
    assert any(words in note for note in comparison.notes)
    assert f"{per_joule[0]:.3g} samples/J; measured by RAPL" in render_report(ReportContent(results=[base]))
    shown = {column.name: show(new).text for column, show in cost_columns([base, new])}
    assert (shown["Energy"], shown["Samples/J"]) == ("50 J", f"{per_joule[1]:.3g}")
