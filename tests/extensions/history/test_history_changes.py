"""history on the command line: what changed over time, and the page of it."""

import json
from collections.abc import Sequence
from math import sin
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from browser import Browser, find_browser
from log_builder import make_runs
from measured_builder import write_measured
from records_builder import system_part
from report_builder import Page, write_run_set
from tiers import quick_first

from harness.extensions.history.series import IDENTICAL, UNFINISHED, read_series
from harness.extensions.history.words import change_blocks
from reports.document.blocks import Bullets
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema

NOISE = (0.99, 1.02, 0.98, 1.01, 1.0, 1.02, 0.99, 1.0, 0.97, 1.01)
STEADY = [1000.0 * factor for factor in NOISE]
SLOWER = [*STEADY, *(850.0 * factor for factor in NOISE[:4])]
NASTY = "</script><img src=x onerror=document.title='owned'>\x1b[2J\u202e"
TINY = load_benchmark("dlrm_tiny")


def write_sets(folder: Path, values: Sequence[float], kind: str = "throughput", first: int = 0, **about: Any) -> Path:
    """Write a set a day, each of five processes around its value; the code changes with every fifth set."""
    for day, value in enumerate(values, start=first):
        known = {
            "created_utc": f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T03:00:00+00:00",
            "code_sha256": f"{day // 5:x}" * 64,
            "environment": {"commit": f"{day // 5:x}" * 40, "packages": {"torch": "2.13" if day > 9 else "2.11"}},
            "system": system_part(host_processor_model_name="Example 9000"),
        }
        each = [value * (1 + 0.001 * number) for number in range(5)]
        write_measured(folder / f"{about.get('name', 'day')}-{day:03d}", kind, each, **{**known, **about})
    return folder


def looked(command: Any, folder: Path, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    code, out, err = command("history", folder, "--fail-on", "regression", "--format", "json", *more)
    document = json.loads(out)
    jsonschema.validate(document, json_schema(DOCUMENTS["history"]))
    return code, document["changes"], err


def test_a_slower_code_is_a_regression_and_named(command: Any, tmp_path: Path) -> None:
    code, (change,), err = looked(command, write_sets(tmp_path, SLOWER))
    assert code == 5
    assert (change["commit_before"], change["commit_after"]) == ("1" * 12, "2" * 12)
    assert (change["code_before"], change["code_after"]) == ("1" * 12, "2" * 12)
    assert (Path(change["last_before"]).name, Path(change["first_after"]).name) == ("day-009", "day-010")
    assert change["low"] < change["step"] < change["high"] < 1 and change["step"] == pytest.approx(0.85, rel=0.02)
    assert (change["is_worse"], change["num_after"]) == (True, 4)
    assert change["others"] == [{"name": "packages.torch", "base": "2.11", "new": "2.13"}]
    assert change["in_turns"] == f"dlrmbench versus {change['last_before']} --python OLDER/bin/python"
    assert err.startswith("regression: Samples/s of dlrm_tiny, configuration day-013: 0.8")
    out = command("history", tmp_path, "--fail-on", "regression")[1]
    assert "worse, from day-010 of 2026-01-11" in " ".join(out.split()) and "packages.torch" in out
    assert json.loads(command("history", tmp_path, "--format", "json")[1])["changes"] is None


def test_a_set_that_is_not_finished_or_a_copy_is_on_no_series(tmp_path: Path) -> None:
    write_sets(tmp_path, STEADY[:2])
    write_sets(tmp_path, STEADY[:1], first=2, num_runs=6)
    write_sets(tmp_path / "copy", STEADY[:1])
    ((series,), left_out) = read_series(tmp_path)
    assert (len(series.points), left_out) == (2, {UNFINISHED: 1, IDENTICAL: 1})


def test_series_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for number, system in enumerate(("Example 9000", "Example 7000")):
        about = system_part(host_processor_model_name=system)
        write_sets(tmp_path / str(number), STEADY[:2], system=about, name="a")
    for number, threads in enumerate((1, 2), start=2):
        config = {"runtime.threads": {"value": threads, "source": "option"}}
        write_sets(tmp_path / str(number), STEADY[:2], config=config, name="b")
    names = [series.name for series in read_series(tmp_path)[0]]
    assert len(set(names)) == 4
    assert sum("runtime.threads 1" in name for name in names) == 1
    assert sum("runtime.threads 2" in name for name in names) == 1


def test_a_faster_code_is_a_change_and_no_regression(command: Any, tmp_path: Path) -> None:
    code, (change,), err = looked(command, write_sets(tmp_path, [1e6 / value for value in SLOWER]))
    assert (code, change["is_worse"], err) == (0, False, "")


def test_what_became_worse_longer_ago_than_the_last_sets_is_no_failure(command: Any, tmp_path: Path) -> None:
    write_sets(tmp_path, SLOWER)
    assert looked(command, tmp_path, "--last", "4")[0] == 5
    assert looked(command, tmp_path, "--last", "3")[0] == 0
    assert command("history", tmp_path, "--last", "2")[0] == 2


@pytest.mark.parametrize("number", [0, 5, 7])
def test_with_too_few_sets_nothing_is_passed(command: Any, tmp_path: Path, number: int) -> None:
    code, changes, err = looked(command, write_sets(tmp_path, SLOWER[14 - number :]))
    assert (code, changes) == (7, [])
    assert "no series of sets can show a regression" in err


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1000 + 15 * day + (day * 7 % 5) for day in range(18)], "a steady trend, 1.25"),
        ([1000 + round(100 * sin(day / 3)) for day in range(24)], "neighbouring sets are correlated"),
    ],
)
def test_sets_that_drift_pass_nothing_either(command: Any, tmp_path: Path, values: list[float], why: str) -> None:
    code, changes, err = looked(command, write_sets(tmp_path, values))
    assert (code, changes) == (7, [])
    assert why in err


def test_a_series_that_cannot_be_judged_is_named_and_passes_nothing(command: Any, tmp_path: Path) -> None:
    write_sets(tmp_path / "steady", STEADY)
    write_sets(tmp_path / "short", SLOWER[8:13], first=5, options={"num_steps": 20})
    code, changes, err = looked(command, tmp_path)
    assert (code, changes) == (7, [])
    assert "not judged: Samples/s" in err and "5 sets, too few to show a change" in err
    assert "but 1 series cannot be judged" in err
    page = tmp_path / "page.html"
    assert command("history", tmp_path, "--format", "html", "-o", page)[0] == 0
    assert Page(page.read_text(encoding="utf-8")).text.count("no change shown in 1 series; 1 not judged") >= 2


def test_a_series_that_ended_before_the_last_sets_is_not_asked_for(command: Any, tmp_path: Path) -> None:
    write_sets(tmp_path / "short", SLOWER[8:13], options={"num_steps": 20})
    write_sets(tmp_path / "steady", STEADY, first=6)
    assert looked(command, tmp_path)[0] == 0
    write_sets(tmp_path / "more", STEADY[:1], first=6, options={"num_steps": 20})
    assert looked(command, tmp_path)[0] == 7


def test_a_series_of_too_few_sets_says_so(tmp_path: Path) -> None:
    every, _ = read_series(write_sets(tmp_path, SLOWER[:2]))
    said = [item for block in change_blocks(every) if isinstance(block, Bullets) for item in block.items]
    assert len(said) == 1 and "2 sets, too few to show a change" in str(said[0])


def test_steady_sets_pass(command: Any, tmp_path: Path) -> None:
    assert looked(command, write_sets(tmp_path, STEADY)) == (0, [], "")


@pytest.mark.parametrize(
    "other",
    quick_first(
        [
            {"system": system_part(host_processor_model_name="Example 9001")},
            {"config": {"train.global_batch_size": {"value": 1024, "source": "option --set"}}},
            {"dataset": {"dir": "data", "dataset_sha256": "e" * 64}},
            {"options": {"num_steps": 20}},
        ]
    ),
)
def test_another_system_or_configuration_starts_a_series(command: Any, tmp_path: Path, other: dict[str, Any]) -> None:
    write_sets(tmp_path / "one", STEADY)
    write_sets(tmp_path / "two", SLOWER[10:], first=10, **other)
    assert looked(command, tmp_path)[:2] == (7, [])
    write_sets(tmp_path / "three", SLOWER[10:], first=14)
    assert looked(command, tmp_path)[0] == 5


def test_another_name_of_the_system_and_a_new_default_do_not(command: Any, tmp_path: Path) -> None:
    write_sets(tmp_path / "one", STEADY)
    for day, value in enumerate(SLOWER[10:]):
        about: dict[str, Any] = {
            "system": system_part("example_torch-2.14", host_processor_model_name="Example 9000"),
            "config": {"runtime.new_key": {"value": "auto", "source": "default"}},
            "created_utc": f"2026-03-{day + 1:02d}T03:00:00+00:00",
        }
        write_sets(tmp_path / str(day), [value], **about)
    code, (change,), _ = looked(command, tmp_path)
    assert (code, change["num_after"]) == (5, 4)
    assert change["others"] == [{"name": "runtime.new_key", "base": None, "new": "auto"}]


def test_copies_of_a_set_are_one(command: Any, tmp_path: Path) -> None:
    write_sets(tmp_path / "one", STEADY[:5])
    write_sets(tmp_path / "two", STEADY[:5])
    assert looked(command, tmp_path)[0] == 7


@pytest.mark.parametrize(("kind", "scale"), [("quality", 7e-4), ("serve", 1.0)])
def test_every_kind_has_its_series(command: Any, tmp_path: Path, kind: str, scale: float) -> None:
    code, (change,), _ = looked(command, write_sets(tmp_path, [scale * value for value in SLOWER], kind))
    assert (code, change["is_worse"], change["is_ratio"]) == (5, True, kind == "serve")


@pytest.mark.slow
def test_runs_to_a_target_have_two_series_and_sets_without_record_none(command: Any, tmp_path: Path) -> None:
    for day, value in enumerate([*SLOWER, 1.0]):
        runs = make_runs(TINY, throughput=15.0 * value, start_ms=1_770_000_000_000 + day * 86_400_000)
        for index, run in enumerate(runs):
            for record in run:
                if record["key"] == "seed":
                    record["value"] = 1 + 5 * day + index
        when = f"2026-02-{day + 1:02d}T03:00:00+00:00"
        write_run_set(tmp_path / f"s{day}", runs=runs, changes={"created_utc": when}, interrupted=False)
        if day == len(SLOWER):
            (tmp_path / f"s{day}" / "extra" / "run_set.json").unlink()
    code, changes, _ = looked(command, tmp_path)
    assert (code, {change["line"].partition(" of ")[0] for change in changes}) == (5, {"Time to train", "Throughput"})
    assert sorted(change["step"] for change in changes) == pytest.approx([0.85, 1 / 0.85], rel=0.03)
    page = tmp_path / "page.html"
    assert command("history", tmp_path, "--format", "html", "-o", page)[0] == 0
    assert "1 set on no series: 1 without" in Page(page.read_text(encoding="utf-8")).text


def test_the_page_is_written_where_it_is_asked_for(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("history", write_sets(tmp_path / "sets", SLOWER), "--format", "html") == (0, "history.html\n", "")
    page = Page((tmp_path / "history.html").read_text(encoding="utf-8"))
    assert "1 change for the worse, Samples/s 0.85" in page.text
    assert sum(tag == "circle" and "cx" in about and "r" in about for tag, about in page.elements) >= 2 * len(SLOWER)
    assert command("history", "sets", "--format", "html", "--fail-on", "regression", "-o", "b.html")[0] == 5
    code, out, err = command("history", "sets", "-o", "b.html")
    assert (code, out) == (2, "") and "--output is for --format html" in err
    assert command("history", "sets", "--format", "html", "-o", "nowhere/b.html")[0] == 8
    (tmp_path / "empty").mkdir()
    assert command("history", "empty", "--format", "html", "-o", "c.html")[0] == 0


def hostile_page(command: Any, folder: Path) -> Path:
    """Write a page of series whose every text is hostile."""
    about: dict[str, Any] = {
        "benchmark": {"name": NASTY, "version": 1, "status": "own", "definition_sha256": "a" * 64},
        "system": system_part(NASTY, host_processor_model_name=NASTY),
        "environment": {"commit": NASTY, NASTY: NASTY},
        "harness_version": NASTY,
        "name": "x" * 100,
    }
    write_sets(folder / "sets", SLOWER, **about)
    write_sets(folder / "more", STEADY[:3], environment={"commit": "y" * 5000}, options={NASTY: 1})
    assert command("history", folder, "--format", "html", "-o", folder / "page.html")[0] == 0
    return folder / "page.html"


def test_what_strangers_wrote_stays_text(command: Any, tmp_path: Path) -> None:
    page = Page(hostile_page(command, tmp_path).read_text(encoding="utf-8"))
    assert "img" not in {tag for tag, _ in page.elements} and page.unclosed == []
    assert "<img src=x" in page.text and "\x1b" not in page.html and "\u202e" not in page.html


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH")
def test_the_page_is_sound_in_a_browser(command: Any, tmp_path: Path) -> None:
    page = hostile_page(command, tmp_path).as_uri()
    with Browser(find_browser() or "", tmp_path / "profile") as browser:
        for width, scheme in ((360, "light"), (1280, "dark")):
            with browser.tab(page, width=width, features=[("prefers-color-scheme", scheme)]) as tab:
                tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
                assert tab.evaluate("document.documentElement.scrollWidth") <= width
                assert (tab.requests(), tab.complaints()) == ([page], [])
                assert tab.evaluate("document.title").endswith("in 1 series; 1 not judged")
