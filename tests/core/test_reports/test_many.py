"""A page of many sets: a row of each, everything of the first and the INVALID ones, and where the rest is."""

import json
import re

import pytest
from log_builder import START_MS, make_runs, with_record
from msgspec.structs import replace
from report_builder import Page, write_run_set

from reports.comparison.comparison import compare_results, context_of
from reports.page.content import ReportContent
from reports.page.exports import export_json
from reports.page.figures.detail import MOST_DETAILED, MOST_WHOLE, detail_words, detailed, detailed_parts
from reports.page.report import page_data, render_report
from reports.page.sections.comparison import compare_group
from reports.results.logs import gather
from reports.results.result import Result
from rules.benchmarks.loader import load_benchmark

pytestmark = pytest.mark.once("many sets on a page")

TINY = load_benchmark("dlrm_tiny")
NUM_SETS, INVALID = 30, (20, 28)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, ...]:
    folder, start_ms = tmp_path_factory.mktemp("many"), START_MS
    for number in range(NUM_SETS):
        runs = make_runs(TINY, throughput=15_000.0 + 150 * number, start_ms=start_ms)
        runs = [with_record(records, "seed", value=1000 * number + index) for index, records in enumerate(runs)]
        start_ms = runs[-1][-1]["time_ms"] + 60_000
        if number in INVALID:
            runs = [with_record(records, "opt_adagrad_epsilon", value=0.5) for records in runs]
        write_run_set(folder / f"set-{number:02d}", runs=runs, interrupted=False)
    return gather([folder], second_opinion=False)


@pytest.fixture(scope="module")
def page(sets: tuple[Result, ...]) -> Page:
    return Page(render_report(ReportContent(results=sets)))


@pytest.mark.slow
def test_up_to_a_number_of_sets_everything_is_shown(sets: tuple[Result, ...]) -> None:
    few = sets[:MOST_WHOLE]
    assert detailed(few) == few and detail_words(few) == ""
    assert [part for _, part in detailed_parts(few)] == [few]


@pytest.mark.slow
def test_of_more_the_first_and_every_invalid_one_are_shown_whole(sets: tuple[Result, ...], page: Page) -> None:
    assert {result.index for result in sets if result.outcome == "invalid"} == set(INVALID)
    shown = [result.index for result in detailed(sets)]
    assert shown == [*range(MOST_DETAILED), *INVALID]
    assert [result.index for _, part in detailed_parts(sets) for result in part] == shown
    ids = {attributes.get("id", "") for _, attributes in page.elements}
    for result in sets:
        named = {f"set{result.index + 1}", f"set{result.index + 1}-files", f"group1-quality-{result.index}-table"}
        assert named <= ids if result.index in shown else not named & ids


@pytest.mark.slow
def test_every_set_has_its_row_and_every_link_leads_somewhere(sets: tuple[Result, ...], page: Page) -> None:
    for table in ("group1-verdicts", "group1-comparison-table"):
        rows = page.html.partition(f'id="{table}"')[2].partition("</table>")[0]
        missing = [result.label for result in sets if f">{result.label}<" not in rows]
        assert missing == ([] if table == "group1-verdicts" else ["set-00"]), "the baseline is compared with no one"
    ids = {attributes.get("id") for _, attributes in page.elements}
    links = [attributes["href"][1:] for attributes in page.all("a") if attributes["href"].startswith("#")]
    assert [link for link in links if link not in ids] == []


@pytest.mark.slow
def test_what_is_invalid_comes_first(page: Page) -> None:
    assert "; INVALID: set-20, set-28" in page.html.partition("<h1>")[2].partition("</h1>")[0]
    warnings = page.html.partition('class="warnings"')[2]
    refused = r"><li>set-20, set-28: INVALID by the rules, \d+ errors; broken rule: HP101 \("
    assert re.match(refused, warnings)


def test_the_page_says_what_is_elsewhere_and_there_it_is(sets: tuple[Result, ...], page: Page) -> None:
    assert page.html.index("configurations has its row. Runs,") < page.html.index('id="group1-verdicts"')
    assert "'dlrmbench report PATH --format json' has runs and evaluations of all" in page.text
    assert (
        page.text.count("Details are shown for the first 12 configurations and for 2 INVALID ones after them.") >= 4
    )
    members = json.loads(export_json(sets))["configurations"]
    assert [len(member["runs"]) for member in members] == [len(result.runs) for result in sets]
    assert all(run["evaluations"]["quality"] for member in members for run in member["runs"])


def test_programs_find_a_row_of_each_on_the_page(sets: tuple[Result, ...], page: Page) -> None:
    (text,) = [text for attributes, text in page.scripts if attributes.get("id") == "data"]
    data = json.loads(text)
    shown = [member["configuration"] for member in data["configurations"]]
    assert shown == [result.label for result in detailed(sets)]
    assert sorted([*shown, *data["others"]["configuration"]]) == [result.label for result in sets]
    scores = dict(zip(data["others"]["configuration"], data["others"]["score_s"], strict=True))
    assert scores["set-15"] == pytest.approx(sets[15].score.score_s, rel=1e-6)
    assert "others" not in page_data(sets[:MOST_WHOLE])


@pytest.mark.slow
def test_a_further_set_adds_its_rows_alone(sets: tuple[Result, ...]) -> None:
    """A thousand take less than 2 MB."""
    sizes = [
        len(render_report(ReportContent(results=sets[:number])).encode()) for number in (NUM_SETS - 1, NUM_SETS - 4)
    ]
    assert sizes[0] - sizes[1] < 2_000 * 3 + 20_000, "of these three one is INVALID, and is there with all it has"


def test_verdicts_do_not_depend_on_what_is_explained(sets: tuple[Result, ...]) -> None:
    sides = context_of(sets)
    brief, long = (compare_group(sets, sets[0], sides, is_brief=is_brief) for is_brief in (True, False))
    assert any(factor.runs_needed or factor.smallest_shown for factor in long[0].factors)
    for short, explained in zip(brief, long, strict=True):
        stripped = tuple(
            replace(factor, smallest_shown=None, runs_needed=None, runs_needed_low=None, runs_needed_high=None)
            for factor in explained.factors
        )
        assert short == replace(explained, factors=stripped, pairs_to_tell=())
    judged = compare_results(sets[0], sets[1:], context=sides, is_described=False)
    assert [(each.new, each.refusal, each.verdict) for each in judged] == [
        (each.new, each.refusal, each.verdict) for each in long
    ]
    assert not any(factor.smallest_shown or factor.runs_needed for factor in long[MOST_DETAILED].factors)
