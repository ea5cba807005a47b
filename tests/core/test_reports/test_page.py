"""The page: what it must say, what it must not let happen, and how large it may become."""

import base64
import copy
import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import make_runs, with_record, write_set
from mlperf_fixtures import CISCO, FOLDER, NVIDIA, needs_published_results
from report_builder import Page, write_report, write_run_set

from reports.comparison.comparison import context_of
from reports.page.content import ReportContent
from reports.page.page import comparable_groups
from reports.page.report import render_report
from reports.page.sections.comparison import compare_group
from reports.page.sections.verdict import verdict_table
from reports.results.logs import gather
from rules.benchmarks.loader import load_benchmark

TINY_RUNS = make_runs(load_benchmark("dlrm_tiny"))
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ATTACK = "</script><img src=x onerror=alert(1)><svg onload=alert(2)>"
NASTY = (ATTACK, "\u202egnp.exe", "a\x00b\x1b[31mc", "x" * 10_000, "{{ 7*7 }}{% raw %}", "javascript:alert(1)")


def render(*paths: Path) -> Page:
    return Page(render_report(ReportContent(results=gather(paths, second_opinion=False)), now=NOW))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return render(write_run_set(tmp_path_factory.mktemp("own") / "my-set"))


def test_headline_verdict_and_every_section_are_there(own: Page) -> None:
    assert own.elements[0] == ("html", {"lang": "en"})
    assert own.unclosed == []
    for words in (
        "VALID", "Own benchmark: not an MLPerf® result", "Olympic mean", "Every run", "Convergence",
        "Where the time goes", "Steadiness", "rules passed", "Second opinion", "Noise and environment", "powersave",
        "System description", "given (option)", "Resolved configuration", "option --threads", "Files and checksums",
        "dlrmbench run dlrm_tiny", "Glossary", "Energy: not measured", "registered and unregistered trademarks",
    ):  # fmt: skip
        assert words in own.text, words


def test_interrupted_attempts_are_listed(own: Page) -> None:
    assert "run 0, attempt 0" in own.text
    assert "interrupted: killed" in own.text
    assert "1 attempt without a result" in own.text


def test_nothing_is_fetched_and_only_the_pages_own_style_and_script_may_act(own: Page) -> None:
    (policy,) = [one["content"] for one in own.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert own.all("link") == [{"rel": "icon", "href": "data:,"}]
    (style,) = own.styles
    (data, script) = [text for _, text in own.scripts]
    for kind, text in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert own.scripts[0][0] == {"type": "application/json", "id": "data"}
    assert json.loads(data)["schema_version"] == 1
    assert "url(" not in style and "@import" not in style
    for tag, attributes in own.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")], tag
        assert attributes.get("href", "#").startswith("#") or tag == "link"


def test_ids_are_unique_and_everything_referred_to_exists(own: Page) -> None:
    ids = [attributes["id"] for _, attributes in own.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in own.elements:
        wanted = attributes.get("aria-labelledby", "").split()
        wanted += [attributes["href"][1:]] if attributes.get("href", "").startswith("#") else []
        assert set(wanted) <= set(ids), (tag, attributes)


def test_every_chart_has_a_name_and_a_table(own: Page) -> None:
    charts = [one for one in own.all("svg") if one.get("role") == "img"]
    # Runs, convergence in three views, reference, order, time in parts, steadiness; each wide and narrow.
    assert len(charts) == 2 * 8
    assert all(one["aria-labelledby"] for one in charts)
    assert len(own.all("figure")) == 8
    assert own.text.count("The numbers of this chart") == 5
    assert "The table of all runs lists the start and status of each run." in own.text


def test_tables_name_their_columns_and_rows(own: Page) -> None:
    assert {one["scope"] for one in own.all("th")} == {"col", "row"}
    assert len(own.all("caption")) == len(own.all("table"))
    regions = [one for one in own.all("div") if one.get("class", "").split()[:1] == ["scroll"]]
    assert len(regions) == len(own.all("table"))
    assert all(one["tabindex"] == "0" and one["aria-label"] for one in regions)


@pytest.mark.parametrize("nasty", NASTY)
def test_hostile_names_stay_text(tmp_path: Path, own: Page, nasty: str) -> None:
    benchmark = load_benchmark("dlrm_tiny")
    runs = make_runs(benchmark, organization=nasty, platform=nasty)
    runs[0] = with_record(runs[0], "run_stop", metadata={"status": "aborted", "reason": nasty})
    changes = {
        "name": nasty,
        "command": nasty,
        "environment": {nasty: nasty},
        "dataset": {nasty: nasty},
        "config": {nasty: {"value": nasty, "source": nasty}},
        "system": {"provenance": {nasty: nasty}},
        "preflight": [dict.fromkeys(("name", "value", "status", "why", "remedy"), nasty)],
    }
    root = write_run_set(tmp_path / "set", runs=runs, changes=changes)
    (root / "systems" / "example.json").write_text(json.dumps({nasty: nasty, "division": nasty}), encoding="utf-8")
    sets = gather([root], second_opinion=False)
    page = Page(render_report(ReportContent(results=sets), title=nasty, now=NOW))
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in own.elements} | {"div", "span", "wbr"}
    assert not page.all("img")
    assert [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)] == []
    assert len(page.scripts) == 2
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page.html)
    assert len(page.html) < 3 * len(own.html)
    for exported in ("json", "csv", "md"):
        render_report(ReportContent(results=sets), output_format=exported)


def look(name: str, **changes: object) -> dict[str, object]:
    counts = {"num_cells": [200, 100], "num_missing": [20, 0], "num_unknown": [0, 75], "num_distinct": 7, "auc": 0.97}
    return {"name": f"column {name!r}", "kind": "category", **counts, **changes}


@pytest.mark.parametrize("nasty", NASTY)
def test_the_look_at_prepared_data_is_shown_whatever_its_columns_are_called(
    tmp_path: Path, own: Page, nasty: str
) -> None:
    columns = [look(nasty), look("price", kind="number", num_distinct=None, auc=None)]
    seen = {
        "positives": {"train": 0.25, "eval": 0.5},
        "columns": columns,
        "num_columns": 900,
        "remarks": [f"{nasty} tells"],
    }
    changes = {"dataset": {"dir": "data/mine", "dataset_sha256": "d" * 64, "look": seen}}
    page = render(write_run_set(tmp_path / "set", changes=changes))
    for words in (
        "Labels are 1 in 25.0 % of training, 50.0 % of evaluation",
        "10.0 %",
        "75.0 %",
        "0.970",
        "898 more",
    ):
        assert words in page.text, words
    assert "Rare or unseen" not in own.text
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in own.elements} | {"ul", "li", "div", "span", "wbr"}
    assert not page.all("img")
    assert len(page.scripts) == len(own.scripts)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page.html)


def test_soft_labels_are_shown_as_shares(tmp_path: Path) -> None:
    seen = {"positives": {"train": 0.25, "eval": 0.5}, "columns": [look("user")], "num_columns": 1}
    soft = {"best_auc": 0.8125, "variance": 0.01}
    changes = {"dataset": {"dir": "data/mine", "dataset_sha256": "d" * 64, "look": {**seen, "soft_labels": soft}}}
    page = render(write_run_set(tmp_path / "set", changes=changes))
    assert "Labels are soft, shares from 0 to 1; their mean is 0.25 in training, 0.5 in evaluation." in page.text
    assert "have a ROC AUC of 0.8125, which no model passes there" in page.text and "Labels are 1 in" not in page.text


EXTREMES = (
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    2**63,
    10**300,
    0,
    -1,
    None,
    True,
    "x",
    [],
    {},
    "\ud800",
)


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(data=st.data())
def test_no_value_in_any_record_breaks_the_page(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    runs = [copy.deepcopy(records) for records in TINY_RUNS]
    for _ in range(data.draw(st.integers(1, 5))):
        record = data.draw(st.sampled_from(data.draw(st.sampled_from(runs))))
        field = data.draw(st.sampled_from(["time_ms", "value", *record["metadata"]]))
        place = record["metadata"] if field in record["metadata"] else record
        place[field] = data.draw(st.sampled_from(EXTREMES))
    root = tmp_path_factory.getbasetemp() / "extreme"
    sets = gather([write_run_set(root, runs=runs)], second_opinion=False)
    html = render_report(ReportContent(results=sets), now=NOW)
    drawings = re.findall(r'<svg role="img".*?</svg>', html, re.DOTALL)
    assert drawings
    for drawing in drawings:
        assert not re.search(r'=("[^"]*|\S*)(nan|inf)', drawing)
    json.loads(render_report(ReportContent(results=sets), output_format="json"))


def test_a_set_that_is_not_complete_says_so(tmp_path: Path) -> None:
    page = render(write_run_set(tmp_path / "set", runs=make_runs(load_benchmark("dlrm_tiny"), num_runs=2)))
    assert "INCOMPLETE" in page.text
    assert "No score: incomplete: 2 of 5 runs." in page.text
    assert "2 of 2 runs trained to AUC" in page.text


def test_the_verdict_says_how_each_compares_with_the_baseline_and_what_a_set_without_a_score_took(
    tmp_path: Path,
) -> None:
    tiny = load_benchmark("dlrm_tiny")
    for name, num_runs, throughput in (("a", 5, 9000.0), ("b", 5, 4000.0), ("c", 2, 3000.0)):
        write_run_set(tmp_path / name, runs=make_runs(tiny, num_runs=num_runs, throughput=throughput))
    sets = gather([tmp_path], second_opinion=False)
    table = verdict_table(sets, "v", compare_group(sets, sets[0], context_of(sets)))
    heads = [column.name for column in table.columns]
    times, against = ([row[heads.index(name)] for row in table.rows] for name in ("Time to train", "Against"))
    assert [one.sub == "no score" for one in times] == [False, False, True]
    assert float(times[2].text) == pytest.approx(3 * float(times[0].text), rel=0.1)
    # Points are known: a set that cannot be scored was not tested against them.
    assert table.rows[2][heads.index("RCP")].text == "not tested" != table.rows[0][heads.index("RCP")].text
    assert (against[0].text, against[1].text) == ("baseline", "2.25× slower")
    assert against[2].text == "inconclusive" and against[2].sub.endswith("slower")


def test_a_single_log_makes_a_page(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", load_benchmark("dlrm_tiny"), ours=False)
    page = render(folder / "result_0.txt")
    assert "1 of 1 run reached the target" in page.text


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 500, b":::MLLOG {", b'{"a": 1}\n'])
def test_logs_that_hold_nothing_make_a_page_that_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result_0.txt").write_bytes(content)
    page = render(tmp_path)
    assert "INVALID" in page.text
    assert "No definition of this benchmark is known here" in page.text


def test_own_and_official_results_never_share_a_table(tmp_path: Path) -> None:
    tiny = write_run_set(tmp_path / "tiny")
    other = write_run_set(tmp_path / "other")
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    sets = gather([tiny, tmp_path / "Org", other], second_opinion=False)
    assert [[one.label for one in group] for group in comparable_groups(sets)] == [
        ["tiny", "other"],
        ["Org · example"],
    ]
    page = Page(render_report(ReportContent(results=sets), now=NOW))
    assert "2 benchmarks, whose times must not be compared" in page.text
    assert "It is not known whether MLCommons verified the result: no log says" in page.text
    for table in re.findall(r"<table.*?</table>", page.html, re.DOTALL):
        assert not ("MLCommons verification unknown" in table and ">tiny<" in table)


@pytest.mark.parametrize(
    ("is_ours", "mark", "line", "footnote"),
    [
        (True, "unverified", "Unverified: result not verified by MLCommons Association.", "Result not verified by"),
        (
            False,
            "MLCommons verification unknown",
            "It is not known whether MLCommons verified the result.",
            "no log says whether its result has been through an MLPerf® review",
        ),
    ],
)
def test_scores_under_official_names_are_marked_wherever_they_are(
    tmp_path: Path, is_ours: bool, mark: str, line: str, footnote: str
) -> None:
    """Own runs are unverified; of results that somebody published it is not known here whether they are."""
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=is_ours)
    gathered = ReportContent(results=gather([tmp_path / "Org"], second_opinion=False))
    (result,) = gathered.sets
    assert result.score.score_s is not None
    page = Page(render_report(gathered, now=NOW))
    score = f"{result.score.score_s / 60:,.3f}"
    beside = f"{score} {mark}" if is_ours else f"90 % interval; {mark}"
    for words in (f"{score} min, {mark}", beside, line, footnote):
        assert words in page.text
    assert ("unverified" in page.text.lower()) == is_ours
    assert "not an MLPerf® result" not in page.text
    # Every use of the name carries its mark, but for the two sentences that MLCommons words itself.
    assert len(re.findall("MLPerf(?!®)", page.text)) == page.text.count("The MLPerf name and logo") == 1
    assert line in render_report(gathered, output_format="md")


def test_own_and_published_scores_of_one_group_have_marks_of_their_own(tmp_path: Path) -> None:
    for name, is_ours in (("Org", False), ("mine", True)):
        write_set(tmp_path / name, load_benchmark("dlrm_dcnv2"), ours=is_ours)
    gathered = ReportContent(results=gather([tmp_path], second_opinion=False))
    page = Page(render_report(gathered, now=NOW))
    assert "2 configurations of dlrm_dcnv2, unverified" not in page.text
    assert (
        "Own results are unverified; of published results it is not known whether MLCommons verified them."
        in page.text
    )
    assert "inconsistent with the MLPerf specification for verified results" in page.text
    cells = verdict_table(gathered.sets, "v").rows
    assert {row[0].text: "unverified" in row[2].sub for row in cells} == {"Org · example": False, "mine": True}


def test_groups_of_one_benchmark_say_what_keeps_them_apart(tmp_path: Path) -> None:
    for name, train_samples in (("a", 327_680), ("b", 400_000)):
        runs = [with_record(records, "train_samples", value=train_samples) for records in TINY_RUNS]
        write_run_set(tmp_path / name, runs=runs)
    page = render(tmp_path)
    assert "dlrm_tiny, closed division (2)" in page.text
    assert page.text.count("Not in one table with a: different training samples: 400000 and 327680.") == 1


def test_the_same_results_at_the_same_moment_make_the_same_page(tmp_path: Path) -> None:
    sets = gather([write_run_set(tmp_path / "set")], second_opinion=False)
    assert render_report(ReportContent(results=sets), now=NOW) == render_report(ReportContent(results=sets), now=NOW)


def test_the_command_is_asked_for_the_right_inputs_and_left_untouched(tmp_path: Path) -> None:
    root = write_run_set(tmp_path / "set")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    output = tmp_path / "page.html"
    assert write_report([root, root / "results"], output, title="A title") == output
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    page = Page(output.read_text(encoding="utf-8"))
    assert "A title" in page.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "set"]
    assert "1 of" not in page.text.partition("Verdict")[0]


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    root = write_run_set(tmp_path / "set")
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        write_report([root], tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "taken"]


@pytest.mark.slow
@pytest.mark.parametrize(("num_sets", "limit_bytes"), [(1, 110_000), (3, 150_000), (12, 500_000)])
def test_the_page_stays_small(tmp_path: Path, num_sets: int, limit_bytes: int) -> None:
    benchmark = load_benchmark("dlrm_tiny")
    runs = [*make_runs(benchmark, num_runs=10, num_evals=18)]
    for number in range(num_sets):
        write_run_set(tmp_path / f"set-{number}", runs=runs)
    assert len(render(tmp_path).html.encode()) <= limit_bytes


@needs_published_results
def test_published_results_are_shown_with_their_published_scores() -> None:
    page = render(NVIDIA, CISCO)
    for words in ("2.241", "1.559", "did not converge; dropped as slowest", "not known whether"):
        assert words in page.text
    assert "Not in one table" not in page.text


@needs_published_results
def test_every_published_set_has_its_part() -> None:
    page = render(FOLDER)
    for words in ("Cisco · hpf_n8", "University-of-Florida", "NVIDIA · tyche", "Intel · 4-nodes-SPR"):
        assert words in page.text, words


def test_a_lone_set_is_called_by_its_folder_and_not_by_a_digest(tmp_path: Path) -> None:
    folder = tmp_path / "dlrm_tiny-8e6236c6-20261123T174921Z"
    page = render(write_run_set(folder, runs=TINY_RUNS))
    assert f'<p class="dek">{folder.name}: 5 runs with different seeds.</p>' in page.html.replace("<wbr>", "")
