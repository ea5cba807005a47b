"""The page of served configurations: its title answers, its words are explained, its tables fit."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from click.testing import CliRunner
from records_builder import run_set_content, serve_content, serve_process
from report_builder import write_report

from harness.cli import cli
from harness.extensions.serving.bench import found_words
from harness.extensions.serving.records import LoadGenRun, ServeProcess, ServeRecord
from harness.extensions.serving.shown.lines import quality_words, serve_facts
from harness.extensions.serving.shown.words import served_answer
from harness.foundation.errors import ExitCode, exit_code_of
from reports.results.measured import make_measured
from reports.results.result import Result
from rules.records.codec import convert, encode
from rules.records.study import Parameter, StudyColumn, StudyRecord, StudyTable

QUALITY = {
    "auc": 0.75,
    "log_loss": 0.5,
    "normalised_entropy": 0.9,
    "auc_ratio": 0.99512,
    "entropy_ratio": 1.01,
    "mlperf_class": "99 %",
}


def write_served(root: Path, rates: tuple[float, ...] = (100.0,), **changes: Any) -> Path:
    """A measurement of serving, a process per rate; `changes` are members of serve.json, of a process what it has."""
    own = ("quality", "alone_per_s", "completed_per_s", "spread_low_per_s", "spread_high_per_s", "loadgen_share")
    of_process = {key: changes.pop(key) for key in own if key in changes}
    (root / "extra").mkdir(parents=True)
    record = run_set_content(kind="serve", num_runs=len(rates), seeds=list(range(len(rates))))
    (root / "extra" / "run_set.json").write_text(json.dumps(record))
    processes = [serve_process(queries_per_s=rate, **of_process) for rate in rates]
    (root / "extra" / "serve.json").write_text(json.dumps(serve_content(processes, **changes)))
    return root


def queue_study(**changes: Any) -> StudyRecord:
    """Simulated latencies at two rates."""
    columns = (
        StudyColumn(name="Queries/s", unit="queries/s", origin="given"),
        StudyColumn(name="p95", unit="s", origin="simulated"),
    )
    members: dict[str, Any] = {
        "kind": "queue",
        "title": "Latency against load",
        "benchmark": "dlrm_tiny",
        "definition_sha256": None,
        "seed": 1,
        "parameters": (Parameter(name="limit", value=0.025, unit="s", source="given", note=None),),
        "tables": (StudyTable(title="Equal traffic", columns=columns, rows=((50.0, 0.01), (90.0, 0.02))),),
        "findings": ("Found so.",),
        "checks": (),
    }
    return StudyRecord(**members | changes)


def page_of(*folders: Path) -> str:
    return write_report(list(folders), folders[0].parent / "page.html").read_text(encoding="utf-8")


def title_of(page: str) -> str:
    found = re.search("<title>(.*?)</title>", page)
    assert found is not None
    return found[1].replace("\N{NO-BREAK SPACE}", " ")


def test_the_title_of_one_process_answers_and_says_that_it_has_no_interval(tmp_path: Path) -> None:
    page = page_of(write_served(tmp_path / "one"))
    assert title_of(page) == ("dlrm_tiny: 100 queries/s VALID within 25.0 ms at p95 (one process)")
    rest = "interval of ± 2.6 % (simulated); in steady state, the latency limit would allow 125"
    assert f"p95 latency 20.0 ms; five processes would have an {rest}" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "limit 25.0 ms" in page and "Latency against load" in page


def test_five_processes_have_their_interval_in_the_title(tmp_path: Path) -> None:
    title = title_of(page_of(write_served(tmp_path / "five", (99.0, 100.0, 101.0, 100.0, 100.0))))
    assert re.fullmatch(
        r"dlrm_tiny: 100.* queries/s VALID within 25.0 ms at p95 \(95 % interval 9.* – 10.*\)",
        title,
    )


def test_of_several_the_best_is_named_unless_they_were_asked_different_things(tmp_path: Path) -> None:
    slow, fast = write_served(tmp_path / "slow"), write_served(tmp_path / "fast", (200.0,), precision="int8")
    title = title_of(page_of(slow, fast))
    assert title.startswith(
        "fast answers the most of 2 served configurations: 200 queries/s VALID within 25.0 ms at p95"
    )
    other = write_served(tmp_path / "other", (300.0,), percentile=99.0, problem_sha256="d" * 64)
    assert "with different limits, queries or benchmarks" in title_of(page_of(slow, fast, other))


def test_a_rate_without_a_limit_names_its_scenario(tmp_path: Path) -> None:
    page = page_of(write_served(tmp_path / "off", scenario="offline", target_latency_s=None))
    assert "100 queries/s VALID in Offline" in title_of(page)
    assert "The runs of LoadGen in the first process" in page


@pytest.mark.parametrize(
    "changes, words, others",
    [
        ({}, {"p95", "Server", "VALID", "Simulation"}, {"p99", "Offline", "Co-location", "Olympic mean"}),
        ({"scenario": "offline", "target_latency_s": None}, {"Offline", "VALID"}, {"SingleStream", "Co-location"}),
        ({"num_copies": 2, "alone_per_s": 60.0}, {"Co-location", "p95"}, {"Offline", "Olympic mean"}),
    ],
)
def test_the_glossary_has_the_words_of_serving_that_are_on_the_page(
    changes: dict[str, Any], words: set[str], others: set[str], tmp_path: Path
) -> None:
    page = page_of(write_served(tmp_path / "one", **changes))
    explained = set(re.findall("<dt>([^<]*)</dt>", page.partition('id="glossary"')[2]))
    assert words <= explained and not others & explained, explained


def test_precision_and_colocation_have_their_numbers_and_kinds(tmp_path: Path) -> None:
    plain = write_served(tmp_path / "plain", quality={**QUALITY, "auc_ratio": 1.0, "mlperf_class": "99.9 %"})
    int8 = write_served(
        tmp_path / "int8",
        (200.0,),
        quality=QUALITY,
        precision="int8",
        table_precision="int4",
        num_copies=2,
        alone_per_s=125.0,
        is_oversubscribed=True,
    )
    page = page_of(plain, int8).replace("\N{NO-BREAK SPACE}", " ")
    for words in ("0.99512 of fp32", "2.000× of fp32", "99.9 %", "MLPerf® class", "oversubscribed", "1.600×",
                  "computed", "measured, mean", "0.75000", "0.90000"):  # fmt: skip
        assert words in page, words


def test_an_accuracy_is_shown_as_such_and_has_no_class(tmp_path: Path) -> None:
    quality = {
        "accuracy": 0.81234,
        "log_loss": 0.5,
        "normalised_entropy": 0.9,
        "accuracy_ratio": 1.0,
        "entropy_ratio": 1.0,
    }
    folder = write_served(tmp_path / "images", quality=quality)
    page = page_of(folder).replace("\N{NO-BREAK SPACE}", " ")
    assert "0.81234" in page and ">Accuracy<" in page and ">AUC<" not in page
    process = convert(serve_process(quality=quality), ServeProcess)
    assert isinstance(process, ServeProcess)
    assert quality_words(process) == "Accuracy 0.81234, 1.00000 of fp32; normalised entropy 0.90000"


def test_the_simulations_table_is_on_the_page_of_what_was_served(tmp_path: Path) -> None:
    folder = write_served(tmp_path / "one")
    (folder / "extra" / "serve_0").mkdir()
    (folder / "extra" / "serve_0" / "study.json").write_text(encode(queue_study()))
    page = page_of(folder)
    assert "The simulation's table" in page.replace("&#39;", "'") and "p95 (simulated)" in page


@pytest.mark.parametrize("path", ["", "study.json"])
def test_a_study_has_a_page_by_its_folder_and_by_its_file(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.json").write_text(encode(queue_study()))
    page = page_of(folder / path if path else folder)
    assert title_of(page) == "Latency against load" and "Found so." in page
    assert page.count("<svg") > 1 and "limit 25.0 ms" in page and "<dt>Simulation</dt>" in page


def test_a_damaged_study_is_nothing_to_show(tmp_path: Path) -> None:
    from rules.errors import InputError

    (tmp_path / "study.json").write_text("{")
    with pytest.raises(InputError, match="a study"):
        write_report([tmp_path], tmp_path / "page.html")


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH")
@pytest.mark.parametrize("width", [400, 1100])
def test_no_table_scrolls_at_1100_pixels_and_no_page_at_400(width: int, tmp_path: Path) -> None:
    names = ("rm1_deeprecsys-int8-20261122T120000Z", "rm1_deeprecsys-a_name_that_somebody_gave-20261122T120001Z")
    folders = [
        write_served(
            tmp_path / name,
            (12345.6, 12400, 12380, 12390, 12410),
            quality=QUALITY,
            num_copies=copies,
            alone_per_s=7000.0,
            is_oversubscribed=True,
        )
        for copies, name in enumerate(names, start=2)
    ]
    page = write_report(folders, tmp_path / "page.html").as_uri()
    with Browser(find_browser() or "", tmp_path) as browser, browser.tab(page, width=width) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        scrolling = (
            "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1)"
            ".map((box) => box.querySelector('caption').textContent + ' ' + box.scrollWidth)"
        )
        assert width < 1100 or tab.evaluate(scrolling) == []


def searched(num: int = 2, late: Mapping[str, Any] | None = None, **changes: Any) -> Result:
    """A measurement of processes whose searches ended so; `late` changes the INVALID run."""
    runs = serve_process()["runs"]
    runs[1] = {**runs[1], **(late or {})}
    known = {"runs": runs, **changes}
    record = convert(serve_content([serve_process(**known) for _ in range(num)]), ServeRecord)
    return make_measured(Path("here"), "serve", record, None)


def test_the_rate_is_the_one_that_was_valid_with_its_own_latency_and_the_steady_states_is_beside_it() -> None:
    facts = dict(serve_facts(found := searched()))
    assert facts["latency-bounded"] == (
        "100 queries/s, 16.5 k items/s, VALID by LoadGen in 2 of 2 processes, p95 20.0 ms of 25.0 ms"
    )
    assert facts["steady state"].startswith("would allow 125 queries/s (simulated): the VALID rate over 0.8, ")
    assert facts["spread"].startswith("96.0 – 104 queries/s: half of all runs of this length are VALID")
    assert facts["simulation"] == (
        "allows 130 queries/s in steady state, 104 queries/s by LoadGen's rule (simulated); the "
        "measured rate is 96.2 % of the simulated rate by this rule"
    )
    assert "doubt" not in facts and served_answer([found]).startswith("here: 100")


def test_one_process_says_what_five_would_tell() -> None:
    assert dict(serve_facts(searched(1)))["interval"].endswith(
        "five processes would have an interval of ± 2.6 % (simulated)"
    )
    unknown = searched(1, spread_low_per_s=None, spread_high_per_s=None)
    assert dict(serve_facts(unknown))["interval"] == "none, and no verdicts: needs 5 processes, has 1"
    assert "(one process)" in served_answer([unknown])


@pytest.mark.parametrize(
    ("end", "words"),
    (
        ("left_open", "no rate near"),
        ("invalid_below", "a run at a lower rate was INVALID"),
        ("none_late", "no query was late"),
    ),
)
def test_runs_that_contradict_the_simulation_leave_out_the_steady_state(end: str, words: str) -> None:
    found = searched(steady_state_per_s=None, steady_state_missing=end)
    facts = dict(serve_facts(found))
    assert facts["steady state"].startswith(f"not known for 2 of 2 processes: {words}")
    assert "steady state" not in served_answer([found])


VALID = [run for run in serve_process()["runs"] if run["is_valid"]]


def held_up(rate: float) -> dict[str, Any]:
    """An INVALID run at `rate` that stood still."""
    return {**serve_process()["runs"][1], "asked_per_s": rate, "is_held_up": True, "stall_s": 0.31}


OLDER = dict.fromkeys(("completed_per_s", "spread_low_per_s", "spread_high_per_s"))


def test_an_older_file_is_read_as_what_it_is_and_not_compared(tmp_path: Path) -> None:
    for changes, kind in (
        ({}, "the best of up to three"),
        ({"loadgen_share": None}, "completed in a short VALID run"),
    ):
        facts = dict(serve_facts(found := searched(**(OLDER | changes))))
        assert facts["latency-bounded"].startswith("100 queries/s") and kind in facts["older file"]
        assert f"{kind}, by an earlier version" in served_answer([found])
    old, new = write_served(tmp_path / "old", **OLDER), write_served(tmp_path / "new")
    done = CliRunner().invoke(cli, ["compare", str(old), str(new)])
    assert exit_code_of(done.exception or SystemExit()) == ExitCode.USAGE
    said = " ".join((done.output + str(done.exception)).split())
    assert "rates of different kinds: completed in a VALID run" in said and "Measure the older one again" in said


@pytest.mark.parametrize(
    ("changes", "rate", "doubt", "titled"),
    (
        ({"invalid_per_s": 300.0}, "between 100 and 300", "the rate was left open in 2 of 2", "300 was INVALID"),
        (
            {"invalid_per_s": None, "runs": VALID},
            "at least 100",
            "the rate was left open in 2 of 2",
            "no higher rate",
        ),
        (
            {"invalid_per_s": None, "late": {"asked_per_s": 150.0, "is_held_up": True}},
            "at least 100",
            "the rate was left open in 2 of 2",
            "150 was INVALID while held up)",
        ),
        (
            {"invalid_per_s": None, "runs": [*VALID, *map(held_up, (150.0, 200.0, 200.0))]},
            "at least 100",
            "the rate was left open in 2 of 2",
            "150 and more were INVALID while held up)",
        ),
        (
            {"late": {"is_held_up": True, "stall_s": 0.31}},
            "100",
            "2 of 6 runs held up, up to 310.0 ms: calls",
            "(95 % interval ",
        ),
        ({"runs": serve_process()["runs"][:2]}, "100", "VALID in a single run in 2 of 2", "one run of a process"),
    ),
)
def test_what_a_search_left_open_or_a_stall_disturbed_is_said_with_the_rate(
    changes: dict[str, Any], rate: str, doubt: str, titled: str
) -> None:
    facts = dict(serve_facts(found := searched(**changes)))
    assert facts["latency-bounded"].startswith(f"{rate} queries/s") and facts["doubt"].startswith(doubt)
    title = served_answer([found]).replace("\N{NO-BREAK SPACE}", " ")
    least = "at least " if rate.startswith("at least") else ""
    assert title.startswith(f"here: {least}100 queries/s VALID within 25.0 ms at p95") and titled in title
    assert len(title) <= 120


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"latency_s": 0.0231}, "742.8 queries/s was VALID, p95 23.1 ms"),
        (
            {"latency_s": 2.3123, "is_valid": False, "is_held_up": True},
            "742.8 queries/s was INVALID, p95 2.31 s, while held up",
        ),
    ],
)
def test_a_rate_that_loadgen_judged_is_told_in_a_unit_that_fits(changes: dict[str, Any], words: str) -> None:
    run = convert({**serve_process()["runs"][0], "asked_per_s": 742.8, **changes}, LoadGenRun)
    assert found_words(run, 95.0) == words
