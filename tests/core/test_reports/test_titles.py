"""The title of every page says what was found: of which benchmark, which one, by how much, from how many."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from comparison_builder import make_side
from log_builder import make_runs, write_set
from measured_builder import write_measured
from records_builder import group_content
from report_builder import write_run_set

from reports.comparison.comparability import list_changes
from reports.comparison.comparison import compare_results
from reports.comparison.export import remarks
from reports.comparison.history import read_history
from reports.comparison.sweep import SweepFacts, find_best
from reports.comparison.wording import sentence
from reports.page.content import ReportContent, gather_everything
from reports.page.head import Provenance, differing_words, head_facts
from reports.page.report import render_report
from reports.render.html import _breakable
from reports.results.measured import read_measured
from reports.text.formatting import epochs
from rules.benchmarks.loader import load_benchmark
from rules.records.load import LoadRecord

NOISE = (0.99, 1.0, 1.01, 1.005, 0.995)
HARDWARE = {"host_processor_model_name": "Example 9000", "host_processors_per_node": "2", "number_of_nodes": "1"}


def measure(folder: Path, kind: str, values: list[float], **set_values: Any) -> Path:
    """A set of processes that measured these values, with settings by key, on a system that is described."""
    path = write_measured(folder, kind, values) / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["config"] |= {key: {"value": value, "source": "option"} for key, value in set_values.items()}
    content["system"]["fields"] |= HARDWARE
    path.write_text(json.dumps(content))
    return folder


def trained(folder: Path, factor: float = 1.0, **set_values: Any) -> Path:
    """A set of five runs to the target, each of whose times is so many times as long."""
    benchmark = load_benchmark("dlrm_tiny")
    runs = [
        [
            {**record, "time_ms": round(run[0]["time_ms"] + factor * (record["time_ms"] - run[0]["time_ms"]))}
            for record in run
        ]
        for run in make_runs(benchmark)
    ]
    path = write_run_set(folder, runs=runs, interrupted=False) / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["config"] |= {key: {"value": value, "source": "option"} for key, value in set_values.items()}
    content["system"]["fields"] |= HARDWARE
    path.write_text(json.dumps(content))
    return folder


def sentence_of(base: Path, new: Path) -> str:
    """What `compare` and `versus` say of two measurements at the terminal."""
    sides = [read_measured(folder, "throughput") for folder in (base, new)]
    return sentence(compare_results(sides[0], sides[1:])[0])


def page_of(*folders: Path) -> tuple[str, str]:
    """The title, and the page."""
    page = render_report(gather_everything(folders, second_opinion=False))
    title = page.partition("<h1>")[2].partition("</h1>")[0]
    return re.sub("<[^>]*>", "", title).replace("\N{NO-BREAK SPACE}", " "), page


def head_of(page: str) -> dict[str, str]:
    """The rows of a page's head, by name."""
    head = "".join(re.findall('<dl class="head">(.*?)</dl>', page, re.DOTALL))
    rows = re.findall(r"<dt>([^<]*)</dt><dd>(.*?)</dd>", head)
    return {name: html.unescape(re.sub("<[^>]*>", "", text)) for name, text in rows}


def rates(mean: float, number: int = 5) -> list[float]:
    return [mean * factor for factor in NOISE[:number]]


def test_the_machine_has_the_numbers_that_tell_processors_of_one_name_apart(tmp_path: Path) -> None:
    path = measure(tmp_path / "one", "throughput", rates(2000)) / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["environment"] = {"processor": "AuthenticAMD family 25 model 17", "num_cores": 2}
    path.write_text(json.dumps(content))
    _, page = page_of(tmp_path / "one")
    assert head_of(page)["Machine"] == "2 × Example 9000 (family 25 model 17, 2 cores)"


def test_a_control_that_no_user_can_have_is_not_named_the_best(tmp_path: Path) -> None:
    folders = [
        measure(tmp_path / kind, "quality", [value * factor for factor in NOISE], **{"id_map.kind": kind})
        for kind, value in (("hash", 0.60), ("learned", 0.65), ("classes", 0.70))
    ]
    title, _ = page_of(*folders)
    assert title.startswith("learned is the best of 3 configurations of dlrm_tiny: ")
    assert title.endswith("; classes is a control, which no user can have")
    best = find_best([read_measured(folder, "quality") for folder in folders])
    assert str(best).startswith("Best: learned (") and str(best).endswith("Control, which no user can have: classes.")


def test_of_several_benchmarks_none_is_the_fastest(tmp_path: Path) -> None:
    folders = [measure(tmp_path / f"side{number}", "throughput", rates(1000.0 * (1 + number))) for number in range(4)]
    for folder in folders[2:]:
        path = folder / "extra" / "run_set.json"
        content = json.loads(path.read_text())
        content["benchmark"]["name"] = "other"
        path.write_text(json.dumps(content))
    title, _ = page_of(*folders)
    assert title == "4 configurations of dlrm_tiny, other"


def test_a_group_that_was_killed_is_unfinished_and_says_how_to_go_on(tmp_path: Path) -> None:
    group = tmp_path / "group"
    folders = [measure(group / side, "throughput", rates(1000, number)) for side, number in (("a", 5), ("b", 3))]
    members = [{"label": side, "folder": side} for side in "ab"]
    for num_runs, is_unfinished in ((5, True), (3, False)):
        content = group_content("suite", "pairs", members, kind="throughput", num_runs=num_runs)
        (group / "experiment.json").write_text(json.dumps(content))
        title, _ = page_of(*folders)
        assert ("unfinished: 8 of 10 processes, 'dlrmbench resume " in html.unescape(title)) == is_unfinished


def test_one_measurement_says_its_value(tmp_path: Path) -> None:
    title, page = page_of(measure(tmp_path / "one", "throughput", rates(2000)))
    assert title == "dlrm_tiny: 2.00 k samples/s, mean throughput over 5 processes"
    assert head_of(page)["Machine"] == "2 × Example 9000" and "Reproduce" in page
    title, _ = page_of(measure(tmp_path / "two", "quality", [0.75] * 5))
    assert title == "dlrm_tiny: AUC 0.75000, mean quality over 5 processes"


@pytest.mark.parametrize(
    "kind, values, other, expected",
    (
        ("throughput", rates(2000), rates(5400), "new is 2.70× faster than base on dlrm_tiny: throughput of 5 pairs"),
        ("throughput", rates(5400), rates(2000), "new is 2.70× slower than base on dlrm_tiny: throughput of 5 pairs"),
        (
            "throughput",
            rates(2000),
            rates(2001),
            "new against base on dlrm_tiny: inconclusive, throughput of 5 p",
        ),
        (
            "quality",
            [0.75, 0.751] * 3,
            [0.76, 0.761] * 3,
            "new is better than base on dlrm_tiny: AUC +0.01000, 6",
        ),
    ),
)
def test_two_say_which_is_faster_and_by_how_much(
    tmp_path: Path, kind: str, values: list[float], other: list[float], expected: str
) -> None:
    base, new = measure(tmp_path / "base", kind, values), measure(tmp_path / "new", kind, other)
    title, page = page_of(base, new)
    assert title.startswith(expected)
    assert "What differs" in page and head_of(page)["Machine"] == "2 × Example 9000"


def test_a_ratio_that_is_known_badly_has_its_interval_and_a_disturbed_pair_says_so(tmp_path: Path) -> None:
    scattered = [4000.0, 9000.0, 30000.0, 12000.0, 26000.0]
    base, new = (
        measure(tmp_path / "base", "throughput", rates(2000)),
        measure(tmp_path / "new", "throughput", scattered),
    )
    title, _ = page_of(base, new)
    found = re.match(r"new is ([\d.]+)× faster \(([\d.]+)× to ([\d.]+)×\) than base on dlrm_tiny: ", title)
    assert found and float(found[2]) < float(found[1]) / 1.1 and float(found[3]) > float(found[1]) * 1.1
    assert title.endswith(", on a noisy machine")
    said = sentence_of(base, new)
    assert said.startswith(f"{found[1]}x faster ({found[2]}x to {found[3]}x)")
    assert said.endswith(" Measured on a noisy machine: new.")
    back, _ = page_of(new, base)
    assert f"slower ({found[2]}× to {found[3]}×) than new" in back


@pytest.mark.parametrize(
    ("status", "others", "is_noisy"),
    [
        ("warning", None, True),
        ("ok", None, False),
        ("warning", 0.0, False),  # the load average was of a command that had ended
        ("ok", 0.5, True),
    ],
)
def test_a_pair_measured_beside_other_work_says_so_in_its_title(
    tmp_path: Path, status: str, others: float | None, is_noisy: bool
) -> None:
    folders = (
        measure(tmp_path / "base", "throughput", rates(2000)),
        measure(tmp_path / "new", "throughput", rates(5400)),
    )
    path = folders[1] / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["preflight"] = [{"name": "load", "value": "9.00", "status": status, "why": "Busy.", "remedy": "Wait."}]
    path.write_text(json.dumps(content))
    path = folders[1] / "extra" / "throughput.json"
    load = LoadRecord(num_cpus=2, duration_s=9.0, load_avg_before=9.0, load_avg_after=9.0, other_cpus=others)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"loads": [msgspec.to_builtins(load)] * 5}))
    title, _ = page_of(*folders)
    assert title.startswith("new is 2.70× faster than base on dlrm_tiny: throughput of 5 pairs")
    assert title.endswith(", on a noisy machine" if is_noisy else "5 pairs of processes")
    assert ("Measured on a noisy machine: new." in sentence_of(*folders)) == is_noisy


def test_a_set_of_runs_says_its_value_too(tmp_path: Path) -> None:
    title, page = page_of(trained(tmp_path / "trained"))
    assert "dlrm_tiny" in title
    assert re.search(r"\d+\.\d+ s", title) and "dlrmbench run" in page.partition("Reproduce")[2]


def test_runs_of_several_commits_name_each_in_the_head_and_in_the_history(tmp_path: Path) -> None:
    folder = trained(tmp_path / "trained")
    for index, commit in enumerate("aabbb"):
        path = folder / "extra" / f"run_{index}" / "attempt_0" / "run.json"
        content = json.loads(path.read_text())
        content["code"] = {"sha256": commit * 64, "commit": commit * 40, "commit_is_dirty": commit == "b"}
        path.write_text(json.dumps(content))
    several = f"{'a' * 12} (2 runs), {'b' * 12}+ (3 runs)"
    assert f"commits {several}" in head_of(page_of(folder)[1])["Code"]
    (past,), _ = read_history(tmp_path)
    assert past.commit == f"several versions: {several}"


def test_runs_to_the_target_are_compared_in_the_title(tmp_path: Path) -> None:
    key = "train.global_batch_size"
    folders = trained(tmp_path / "base", **{key: 512}), trained(tmp_path / "new", factor=0.4, **{key: 1024})
    title, page = page_of(*folders)
    assert title.startswith(
        "global_batch_size=1024 (INVALID: RS116, CA105) trains 2.50× faster than global_batch_size=512 on dlrm_tiny: "
        "time to train of 5 pairs of runs"
    )
    shown_folded = page.partition('<details class="made"')[0]
    assert "<dt>Differs</dt>" in shown_folded and "<dt>Code</dt>" not in shown_folded
    table = page.partition("What differs")[2].partition("</section>")[0]
    assert key in table and "512" in table and "1024" in table
    assert "dlrmbench run" in page.partition("Reproduce")[2]


def test_fewer_than_a_verdict_takes_say_how_many_it_would_be(tmp_path: Path) -> None:
    folders = [
        measure(tmp_path / name, "throughput", rates(mean, 3)) for name, mean in (("base", 2000.0), ("new", 5200.0))
    ]
    title, _ = page_of(*folders)
    expected = "new measured 2.60× faster than base in 3 of 3 pairs on dlrm_tiny, which decides nothing: 5 runs"
    assert title.startswith(expected)


@pytest.mark.parametrize(
    ("number", "mean", "expected"),
    [
        (3, 2010.0, "Highest so far: b (2.01 k samples/s). Not shown to differ from the highest so far: a"),
        (5, 2001.0, "Fastest: b (2.00 k samples/s). Not shown to differ from the fastest: a"),
        (5, 9000.0, "Fastest: b (9.00 k samples/s). All others are slower"),
    ],
)
def test_one_of_too_few_runs_that_is_not_told_apart_is_the_best_only_so_far(
    tmp_path: Path, number: int, mean: float, expected: str
) -> None:
    means = {"a": 2000.0, "b": mean, "c": 500.0}
    folders = [measure(tmp_path / name, "throughput", rates(each, number)) for name, each in means.items()]
    assert str(find_best([read_measured(folder, "throughput") for folder in folders])).startswith(expected)


def test_the_lowest_time_of_one_run_each_is_the_lowest_so_far() -> None:
    sides = [make_side(label, [epochs], [1000.0]) for label, epochs in (("a", 0.7), ("b", 0.65), ("c", 0.7))]
    best = find_best(sides)
    assert best is not None and best.word == "lowest so far" and str(best).startswith("Lowest so far: b (")


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"train.a": "12"}, "train.a (1, 2)"),
        ({"train.a": "12", "train.b": "12345"}, "train.a (1, 2) × train.b (5)"),
    ],
)
def test_a_head_names_the_few_values_of_an_axis_and_counts_many(axes: dict[str, str], expected: str) -> None:
    named = tuple((key, tuple(values)) for key, values in axes.items())
    sweep = SweepFacts(name="s", kind="throughput", num_steps=None, axes=named, rows=(), problems=())
    assert differing_words(ReportContent(sweeps=(sweep,))) == expected


def test_a_placeholder_is_nothing_that_differs(tmp_path: Path) -> None:
    base = measure(tmp_path / "base", "throughput", rates(2000), **{"a.org": "SUBMISSION_ORG_PLACEHOLDER", "a.b": 1})
    new = measure(tmp_path / "new", "throughput", rates(5400), **{"a.org": "Example", "a.b": 2})
    assert head_of(page_of(base, new)[1])["Differs"] == "a.b: 1 → 2"


def test_sides_without_names_are_called_by_the_one_setting_that_differs(tmp_path: Path) -> None:
    key = "runtime.implementation"
    base = measure(tmp_path / "base", "throughput", rates(2000), **{key: "reference"})
    new = measure(tmp_path / "new", "throughput", rates(5400), **{key: "optimized"})
    title, page = page_of(base, new)
    assert title.startswith("optimized is 2.70× faster than reference on dlrm_tiny")
    table = page.partition("What differs")[2].partition("</section>")[0]
    assert key in table and "optimized" in table and "Example" not in table
    keys = {"train.global_batch_size": 512}
    named = measure(tmp_path / "named", "throughput", rates(4000), **{key: "optimized", **keys})
    assert page_of(base, named)[0].startswith("named is 2.00× faster than base")
    half = measure(tmp_path / "half", "throughput", rates(1000), **{key: "reference"})
    assert page_of(half, new)[0].startswith("optimized is 5.40× faster than half")


@pytest.mark.parametrize("words", ("203.9 µs", "3 s", "4.5 GiB", "12.4 %"))
def test_a_number_in_a_title_stays_with_its_unit(words: str) -> None:
    number, unit = words.split(" ")
    assert str(_breakable(f"takes {words} a step")) == f"takes {number}\u00a0{unit} a step"


def test_a_long_name_breaks_on_a_phone_where_its_words_do(tmp_path: Path) -> None:
    key = "train.global_batch_size"
    base = measure(tmp_path / "base", "throughput", rates(2000), **{key: 512})
    new = measure(tmp_path / "new", "throughput", rates(5400), **{key: 1024})
    title, page = page_of(base, new)
    assert title.startswith("global_batch_size=1024 is 2.70× faster than global_batch_size=512")
    assert (
        '<h1><span class="whole">global_batch_size=<wbr>1024</span> is' in page
        and "<title>global_batch_size=1024 is" in page
    )
    table = page.partition("What differs")[2].partition("</section>")[0]
    assert table.count("global_batch_size") == 1


def test_runs_on_several_machines_say_which_is_the_fastest_and_name_all(tmp_path: Path) -> None:
    folders = [trained(tmp_path / name, factor) for name, factor in (("a", 1.6), ("b", 1.0), ("c", 2.0))]
    for folder, processor in zip(folders, ("Example 9000", "Other 1", "Third <3>"), strict=True):
        path = folder / "systems" / "example.json"
        described = HARDWARE | {"host_processor_model_name": processor, "accelerators_per_node": "0"}
        path.write_text(json.dumps(json.loads(path.read_text()) | described))
    title, page = page_of(*folders)
    assert title.startswith("b is the fastest of 3 configurations of dlrm_tiny")
    below = head_of(page)["Machine"]
    assert all(f"2 × {name}" in below for name in ("Example 9000", "Other 1", "Third <3>"))
    assert "&lt;3&gt;" in page and "<3>" not in page
    assert "dlrmbench run" in page.partition("Reproduce")[2]


def test_what_differs_in_nothing_says_so_first_and_the_command_names_what_does(tmp_path: Path) -> None:
    key = "train.global_batch_size"
    base = measure(tmp_path / "base", "throughput", rates(2000), **{key: 512})
    again = measure(tmp_path / "again", "throughput", rates(2001), **{key: 512})
    new = measure(tmp_path / "new", "throughput", rates(2030), **{key: 1024})
    sides = [read_measured(folder, "throughput") for folder in (base, again, new)]
    same, other = compare_results(sides[0], sides[1:])
    assert any(text.startswith("same configuration: no recorded setting") for text in remarks(same)[:2])
    assert not any("same configuration" in text for text in remarks(other))
    assert same.measure_better == f"dlrmbench versus {base}"
    assert other.measure_better == f"dlrmbench versus {base} --set {key}=1024"


def test_what_logs_alone_do_not_say_is_named_in_the_head(tmp_path: Path) -> None:
    write_set(tmp_path / "set", load_benchmark("dlrm"), make_runs(load_benchmark("dlrm"), ours=False), ours=False)
    head = head_of(page_of(tmp_path)[1])
    assert (
        head["Not on record"].endswith("command, versions of the code, noise of the machine")
        and "Date" in head
        and "Command" not in head
    )


def test_hardware_that_differs_is_beside_the_settings(tmp_path: Path) -> None:
    base = measure(tmp_path / "base", "throughput", rates(2000))
    new = measure(tmp_path / "new", "throughput", rates(4000))
    path = new / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    content["system"]["fields"]["host_processor_model_name"] = "<b>Other</b> 1"
    path.write_text(json.dumps(content))
    _, page = page_of(base, new)
    table = page.partition("What differs")[2].partition("</section>")[0]
    assert "host_processor_model_name" in table and "&lt;b&gt;Other&lt;/b&gt; 1" in table
    assert "2 × Example 9000, 2 × &lt;b&gt;Other&lt;/b&gt; 1" in page


def test_of_several_the_fastest_and_what_is_like_it(tmp_path: Path) -> None:
    folders = [
        measure(tmp_path / name, "throughput", rates(mean))
        for name, mean in (("a", 2000.0), ("b", 5400.0), ("c", 5390.0))
    ]
    title, _ = page_of(*folders)
    assert title.startswith("b is the fastest of 3 configurations of dlrm_tiny: throughput 5.4")
    assert title.endswith("; not shown to differ from it: c")


def test_sets_that_repeat_each_other_say_so(tmp_path: Path) -> None:
    folders = [write_run_set(tmp_path / name, interrupted=False) for name in ("a", "b")]
    _, page = page_of(*folders)
    assert "What differs" in page


@pytest.mark.parametrize("name", ("dlrm", "dlrm_dcnv2", "dlrm_tiny"))
def test_an_epoch_is_one_that_was_trained_everywhere_on_the_page(tmp_path: Path, name: str) -> None:
    """The logs of some rounds count epochs from 1: a page that shows 0.9 epochs does not call that 1.9 below."""
    benchmark = load_benchmark(name)
    write_set(tmp_path / "set", benchmark, make_runs(benchmark, ours=name == "dlrm_tiny"), ours=name == "dlrm_tiny")
    gathered = gather_everything([tmp_path], second_opinion=False)
    trained = {epochs(run.log.epochs_to_converge) for run in gathered.sets[0].runs}
    ends = re.findall(
        r"met the target of [\d.]+, (?:at epoch|between epoch) (\d\.\d+)(?: and (\d\.\d+))?", render_report(gathered)
    )
    assert ends and {end for pair in ends for end in pair if end} <= trained


def test_a_page_for_a_decision_has_the_answer_and_what_it_rests_on(tmp_path: Path) -> None:
    folders = [
        measure(tmp_path / name, "throughput", rates(mean)) for name, mean in (("base", 2000.0), ("new", 5400.0))
    ]
    gathered = gather_everything(folders, second_opinion=False)
    brief, whole = render_report(gathered, is_brief=True), render_report(gathered)
    assert brief.partition("<h1>")[2].startswith("new is 2.70× faster than base")
    headings = [set(re.findall(r"<h2[^>]*>([^<]+)<", page)) for page in (brief, whole)]
    assert headings[0] == {"Throughput alone", "Every process", "Notes"} < headings[1]
    assert "Glossary" in headings[1] and "#glossary" not in brief
    assert head_of(brief) == head_of(whole) and head_of(brief)["Command"]
    assert not re.search("[0-9a-f]{40}", brief.partition("</style>")[2].partition("<script")[0])


def test_a_date_is_of_the_stamps_that_are_of_a_calendar() -> None:
    """Logs of round 0.7 have stamps of two clocks, one of which began with the machine."""
    made = [Provenance(machine="m", moments_ms=(1_593_000_000.0, 1_592_654_400_000.0))]
    facts = {fact.name: fact.value for fact in head_facts(made)}
    assert facts["Date"] == "2020-06-20"
    none = head_facts([Provenance(machine="m", moments_ms=(1_593_000_000.0,))])
    assert "date" in {fact.name: fact.value for fact in none}["Not on record"]


def test_how_much_was_measured_is_a_setting_of_a_comparison(tmp_path: Path) -> None:
    """And what ran around it."""
    base, new = (
        read_measured(measure(tmp_path / name, "throughput", rates(2000)), "throughput") for name in ("base", "new")
    )
    assert base.asked is not None
    other = msgspec.structs.replace(base.asked, options={"num_steps": 7}, hooks={"prepare": "sync"})
    changes = {change.name: (change.base, change.new) for change in list_changes(base, replace(new, asked=other))}
    assert changes.keys() == {"num_steps", "--prepare"} and changes["num_steps"][1] == "7"
