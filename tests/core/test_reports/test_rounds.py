"""The page of two whole rounds: 32 sets, one INVALID, names that differ in their middle, runs submitted twice."""

import json
import re
import shutil
from pathlib import Path

import pytest
from report_builder import Page
from round_builder import HPE_SYSTEMS, INVALID_LABEL, write_rounds

from reports.charts.svg import fit_names, text_width
from reports.document.blocks import Bullets, FindingList, Table
from reports.page.content import ReportContent
from reports.page.figures.times import runs_chart
from reports.page.report import render_report
from reports.page.sections.rules import rules_section
from reports.page.sections.runs import runs_table
from reports.page.sections.verdict import verdict_section
from reports.results.logs import gather, in_order, with_repeats
from reports.results.result import Result
from rules.judge.checker import check_paths

pytestmark = pytest.mark.once("rounds on a page")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rounds(tmp_path_factory.mktemp("rounds"))


@pytest.fixture(scope="module")
def sets(rounds: Path) -> tuple[Result, ...]:
    return gather([rounds], second_opinion=False)


@pytest.fixture(scope="module")
def page(sets: tuple[Result, ...]) -> Page:
    return Page(render_report(ReportContent(results=sets)))


@pytest.mark.slow
def test_an_invalid_set_is_the_first_thing_in_the_box(sets: tuple[Result, ...]) -> None:
    warnings, *_ = [block for block in verdict_section(sets, "g").blocks if isinstance(block, Bullets)]
    words = "INVALID by the rules, 10 errors; broken rule: HP101 ("
    assert warnings.items[0].startswith(f"{INVALID_LABEL}: {words}")


@pytest.mark.slow
def test_an_invalid_submission_is_named_at_each_of_its_sets(rounds: Path, tmp_path: Path) -> None:
    """A run in two systems of one organisation: both sets are valid, their submission is not."""
    top = Path(shutil.copytree(rounds / "training_results_v5.0" / "NVIDIA", tmp_path / "NVIDIA"))
    first, other = (top / "results" / name / "dlrm_dcnv2" for name in ("tyche_ngpu8", "tyche_ngpu64"))
    shutil.copy(first / "result_3.txt", other / "result_3.txt")
    description = top / "systems" / "tyche_ngpu64.json"
    content = json.loads(description.read_text()) | {"accelerators_per_node": "64"}
    description.write_text(json.dumps(content))
    sets = gather([top], second_opinion=False)
    assert {result.outcome for result in sets} == {"valid"}
    (warnings,) = [block for block in verdict_section(sets, "g").blocks if isinstance(block, Bullets)]
    assert "in the submission NVIDIA, which is INVALID: 1 error; broken rule: SU201 (" in warnings.items[0]


@pytest.mark.slow
def test_all_rows_of_the_verdicts_are_seen_at_once(page: Page, sets: tuple[Result, ...]) -> None:
    (table,) = [block for block in verdict_section(sets, "g").blocks if isinstance(block, Table)]
    assert len(table.rows) == len(sets) == 32
    (box,) = re.findall(r'<div class="([^"]*)"[^>]*>\s*<table id="group1-verdicts"', page.html)
    assert box == "scroll"


def test_a_table_that_scrolls_says_how_many_rows_it_has() -> None:
    rows = tuple(() for _ in range(31))
    assert Table(id="t", caption="Runs", columns=(), rows=rows).heading == "Runs; 31 rows"
    assert Table(id="t", caption="Runs", columns=(), rows=rows[:30]).heading == "Runs"


@pytest.mark.slow
def test_findings_of_submissions_are_on_the_page_and_counted_as_check_counts(
    rounds: Path, sets: tuple[Result, ...]
) -> None:
    blocks = rules_section(sets, "g").blocks
    (table,) = [block for block in blocks if isinstance(block, Table)]
    shown = {
        row[0].text if row[0].sub == "round" else f"{row[0].sub.removeprefix('submission in ')}/{row[0].text}": tuple(
            row[number].text for number in (1, 3, 4)
        )
        for row in table.rows
    }
    checked = {
        str(Path(part.subject).relative_to(rounds)): (
            part.outcome.upper(),
            str(part.count("error")),
            str(part.count("warning")),
        )
        for verdict in check_paths([rounds], second_opinion=False)
        for part in verdict.walk()
        if part.level in ("submission", "round")
    }
    assert shown == checked
    assert shown["training_results_v5.1/Cisco"] == ("VALID", "0", "1")
    assert shown["training_results_v5.1/Florida"] == ("INVALID", "10", "0")
    (_, levels) = [block for block in blocks if isinstance(block, FindingList)]
    (group,) = levels.groups
    assert (group.code, group.rows[0].where) == ("SU101", "Cisco")
    (table,) = [block for block in verdict_section(sets, "g").blocks if isinstance(block, Table)]
    (cell,) = [row[1] for row in table.rows if row[0].text == "Cisco · hpf_n8 · v5.1"]
    assert cell.sub == "0 errors, 0 warnings; submission: 1 warning"


@pytest.mark.slow
def test_names_that_differ_in_their_middle_differ_in_every_chart(page: Page) -> None:
    """In the drawing of every run, wide and narrow, and wherever else a system is named in a chart."""
    for drawing in re.findall(r'<svg role="img".*?</svg>', page.html, re.DOTALL):
        named = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", drawing) if text.startswith("HPE")]
        assert len(named) == len(set(named))
    assert page.html.count("141GB_n2") > 1


@pytest.mark.slow
def test_the_order_is_that_of_scores_on_request_with_what_the_rules_ask_of_a_comparison(
    rounds: Path, sets: tuple[Result, ...], tmp_path: Path
) -> None:
    """INVALID sets after the others, those without a score last; in Markdown as on the page."""
    first = rounds / "training_results_v5.0" / "HPE" / "results" / HPE_SYSTEMS[0] / "dlrm_dcnv2"
    shutil.copytree(first, tmp_path / "short")
    for number in range(3, 10):
        (tmp_path / "short" / f"result_{number}.txt").unlink()
    known = (*sets, *gather([tmp_path / "short"], second_opinion=False))
    ordered = in_order(known, "score")
    assert (ordered[-2].label, ordered[-1].score.score_s) == (INVALID_LABEL, None)
    scores = [result.score.score_s or 0.0 for result in ordered[:-2]]
    assert scores == sorted(scores) and len(scores) == 31
    page, text = (
        render_report(ReportContent(results=sets), order="score", output_format=output_format)
        for output_format in ("html", "md")
    )
    rows = re.findall(r'<th scope="row">(?:<a href="#set\d+">)?([^<]+)', page.partition('id="group1-verdicts"')[2])[
        :32
    ]
    assert rows == [result.label for result in in_order(sets, "score")]
    for words in (
        "in the order of their scores, as was asked for; INVALID sets follow the others",
        "names every difference in version, division, category, verified or unverified status, and number of chips",
    ):
        assert words in page and words in text
    labels = [result.label for result in in_order(sets, "score")]
    assert [text.index(label) for label in labels[:3]] == sorted(text.index(label) for label in labels[:3])
    assert "as built; Available on-premise" in page
    # The baseline is that of the order of the files.
    assert f"<small>{HPE_SYSTEMS[0][:3]}" in page.partition('id="group1-verdicts"')[2].partition("</thead>")[0]


def dots(drawing: str) -> int:
    """Runs in a drawing of strips: each is a point without extent; open ones have a smaller one on top."""
    return sum(path.count("h0") for path in re.findall(r'<path d="([^"]*)" class="spots \w+"', drawing))


@pytest.mark.slow
def test_a_run_of_two_entries_is_drawn_once_and_named(sets: tuple[Result, ...], page: Page) -> None:
    shown = with_repeats(sets)
    again = [result for result in shown if result.is_repeat]
    assert [result.label for result in again] == ["NVIDIA · tyche_ngpu8 · v5.1", "NVIDIA · tyche_ngpu64 · v5.1"]
    chart = runs_chart(shown, "c")
    assert chart is not None
    assert (dots(chart.figure.wide), dots(chart.figure.narrow)) == (300, 300)
    assert chart.lead.startswith(
        "300 runs of 32 configurations, all of which converged. 20 more runs are those of an earlier"
    )
    assert f"{INVALID_LABEL} (INVALID)" in chart.figure.wide
    assert page.html.count(f">{INVALID_LABEL} (INVALID)  ") == 2  # its score, wide and narrow
    named = re.findall(r"<text[^>]*>(NVIDIA[^<]*)</text>", chart.figure.wide)
    assert named == ["NVIDIA · tyche_ngpu8 · v5.0", "NVIDIA · tyche_ngpu64 · v5.0"]
    words = "10 of the set's 10 runs are those of NVIDIA · tyche_ngpu8 · v5.0, and drawn only with that set."
    assert f"NVIDIA · tyche_ngpu8 · v5.1: {words}" in page.text
    overlaps = page.html.partition('id="group1-scores-table"')[2].partition("</table>")[0]
    assert overlaps.count("tyche_ngpu8 · v5.0") and "tyche_ngpu8 · v5.1" not in overlaps


@pytest.mark.slow
def test_of_a_set_that_shares_a_run_the_others_are_drawn(rounds: Path, tmp_path: Path) -> None:
    top = Path(shutil.copytree(rounds / "training_results_v5.0" / "NVIDIA", tmp_path / "NVIDIA"))
    first, other = (top / "results" / name / "dlrm_dcnv2" for name in ("tyche_ngpu64", "tyche_ngpu8"))
    shutil.copy(first / "result_3.txt", other / "result_7.txt")
    shown = with_repeats(gather([top], second_opinion=False))
    chart = runs_chart(shown, "c")
    assert chart is not None and dots(chart.figure.wide) == 19
    assert "1 more run is that of an earlier configuration" in chart.lead
    (later,) = [result for result in shown if result.label.startswith("NVIDIA · tyche_ngpu64")]
    table = runs_table([later], "t")
    repeated = [row[0].text for row in table.rows if row[1].sub == "the same run as in NVIDIA · tyche_ngpu8"]
    assert repeated == ["run 3"]


@pytest.mark.parametrize("width", [60.0, 120.0, 240.0, 400.0])
def test_different_names_are_cut_differently(width: float) -> None:
    names = [f"HPE · {system} · v5.0" for system in HPE_SYSTEMS]
    cut = fit_names([*names, names[0]], width)
    assert len(set(cut)) == 3 and cut[0] == cut[3]
    assert all(text_width(text) <= width for text in cut)
    assert fit_names(["short", "shorter"], width) == ["short", "shorter"]
