"""compare on the command line: verdicts, refusals, exit codes, four forms, nothing heavy imported."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from log_builder import Record, make_records, usual_evals, with_record, write_set
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from records_builder import process_content, run_set_content, system_part, throughput_content

from reports.page.content import ReportContent
from reports.page.report import render_report
from reports.results.logs import gather
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema

TINY, SMALL = load_benchmark("dlrm_tiny"), load_benchmark("dlrm_small")
SCHEMA = json_schema(DOCUMENTS["comparison"])
EVALS = tuple(usual_evals(TINY) + change for change in (-1, 0, 1, 0, -1, 1, 0, -1, 0, 1))


def runs_at(throughput: float, *, seed: int = 0, num_runs: int = 10, **options: Any) -> list[list[Record]]:
    """Runs whose throughput varies by a few tenths of a percent; `seed` sets apart what would be the same logs."""
    return [
        make_records(
            TINY,
            num_evals=EVALS[(index + seed) % len(EVALS)],
            seed=1000 + seed * 100 + index,
            start_ms=1_790_000_000_000 + (seed * 50 + index) * 600_000,
            throughput=throughput * (1 + 0.002 * ((index * 7 + seed) % 5 - 2)),
            **options,
        )
        for index in range(num_runs)
    ]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_set(tmp_path / "base", TINY, runs_at(20_000.0))
    return tmp_path / "base"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    write_set(tmp_path / "slow", TINY, runs_at(10_000.0, seed=3))
    return tmp_path / "slow"


@pytest.fixture
def same(tmp_path: Path) -> Path:
    write_set(tmp_path / "same", TINY, runs_at(20_000.0, seed=6))
    return tmp_path / "same"


def test_slower_is_said_with_its_cause_and_exits_0_unless_asked(command: Any, base: Path, slow: Path) -> None:
    code, out, err = command("compare", base, slow)
    assert (code, err) == (0, "")
    assert out.startswith("SLOWER  slow against base\n  2.00x slower: 2.00x from throughput")
    assert "not an MLPerf® result" in out
    assert command("compare", base, slow, "--fail-on", "regression")[0] == 5
    assert command("compare", slow, base, "--fail-on", "inconclusive")[0] == 0
    assert command("compare", slow, base)[1].startswith("FASTER")


UNDECIDED = {"no difference shown", "below the smallest effect", "inconclusive"}


def test_the_same_again_is_no_difference_and_no_regression(command: Any, tmp_path: Path) -> None:
    """Where the runs took turns; measured one after the other, nothing rules a regression out."""
    turns = [runs_at(20_000.0), runs_at(20_000.0, seed=6)]
    for side, runs in enumerate(turns):
        moved = [[record | {"time_ms": moment(index, side, runs[index], record)} for record in log]
                 for index, log in enumerate(runs)]  # fmt: skip
        write_set(tmp_path / ("base", "same")[side], TINY, moved)
    asked = ("compare", tmp_path / "base", tmp_path / "same", "--fail-on", "regression", "--format", "json")
    code, out, _ = command(*asked)
    (comparison,) = json.loads(out)["comparisons"]
    assert code == 0
    assert comparison["is_interleaved"] is True and comparison["measure_better"] is None
    assert {one["verdict"] for one in comparison["factors"]} <= UNDECIDED


def moment(index: int, side: int, log: list[Record], record: Record) -> int:
    """When a record is made where the runs of two sides take turns, an hour each."""
    start = 1_790_000_000_000 + (2 * index + side) * 3_600_000
    return start + int(record["time_ms"]) - int(log[0]["time_ms"])


def test_where_drift_may_hide_a_regression_it_is_not_ruled_out(command: Any, base: Path, same: Path) -> None:
    code, out, err = command("compare", base, same, "--fail-on", "regression")
    assert code == 7
    assert "a regression is neither shown nor ruled out" in err and f"dlrmbench run --beside {base}" in err
    words = " ".join(out.split())
    assert "Not decided, measured one after the other." in words
    assert "drift may make 20 % (assumed: no 3 sets are known here that repeat one configuration and code)" in words
    assert "or more in 80 % of cases" in words and f"'dlrmbench run --beside {base}' measures them in turns" in words
    assert command("compare", base, same)[0] == 0


def test_inconclusive_fails_only_where_asked(command: Any, base: Path, tmp_path: Path) -> None:
    write_set(tmp_path / "few", TINY, runs_at(10_000.0, seed=5, num_runs=4))
    assert command("compare", base, tmp_path / "few", "--fail-on", "never")[0] == 0
    assert command("compare", base, tmp_path / "few", "--fail-on", "regression")[0] == 7
    code, out, _ = command("compare", base, tmp_path / "few", "--fail-on", "inconclusive")
    assert code == 7
    assert "INCONCLUSIVE" in out
    assert "too few runs (base 10, new 4)" in " ".join(out.split())


def test_a_wider_smallest_effect_calls_less_a_difference(command: Any, base: Path, slow: Path) -> None:
    asked = ("compare", base, slow, "--format", "json")
    for given in ("80%", "0.8"):
        (one,) = json.loads(command(*asked, "--min-effect", given)[1])["comparisons"]
        assert one["min_effect"] == 0.8
        assert one["overall_verdict"] == "slower"
    (one,) = json.loads(command(*asked, "--confidence", "99%")[1])["comparisons"]
    assert one["factors"][0]["interval_confidence"] == 0.99


@pytest.mark.parametrize(
    ("option", "value"),
    [("--min-effect", "3"), ("--min-effect", "x%"), ("--min-effect", "nan"), ("--confidence", "1")],
)
def test_numbers_that_are_no_fractions_exit_2(command: Any, base: Path, slow: Path, option: str, value: str) -> None:
    code, out, err = command("compare", base, slow, option, value)
    assert (code, out) == (2, "")
    assert "expected a" in err and "such as" in err


def test_different_problems_are_refused_with_the_reason_and_exit_2(command: Any, base: Path, tmp_path: Path) -> None:
    write_set(tmp_path / "other", SMALL)
    code, out, err = command("compare", base, tmp_path / "other")
    assert code == 2
    assert out.startswith(
        "REFUSED  other against base\n  Not compared: different benchmark: dlrm_tiny and dlrm_small."
    )
    assert "1 of 1 not compared: other: different benchmark" in err


MEASURED = Path(__file__).parents[1] / "data" / "version_1" / "throughput_sweep" / "01-global_batch_size-128"


@pytest.mark.parametrize("measured", [None, MEASURED])
def test_a_set_against_itself_exits_2_and_says_that_it_is_the_same(
    command: Any, base: Path, measured: Path | None
) -> None:
    code, out, err = command("compare", measured or base, measured or base)
    assert code == 2
    assert "Not compared: BASE and NEW are the same set." in out
    assert "BASE and NEW are the same set. Give another set as NEW." in err
    assert "one benchmark, target" not in err


def test_a_directory_of_news_leaves_base_out(command: Any, base: Path, slow: Path, same: Path) -> None:
    code, out, _ = command("compare", base, base.parent, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert {row["new"] for row in rows} == {"slow", "same"}
    assert len(rows) == 8
    assert {row["verdict"] for row in rows if row["new"] == "slow" and row["factor"] == "throughput"} == {"slower"}


def test_base_must_be_one(command: Any, base: Path, slow: Path) -> None:
    code, _, err = command("compare", base.parent, slow)
    assert code == 8
    assert "holds 2 configurations; give one of them:\n  base\n  slow" in err
    assert command("compare", base, base.parent / "nowhere")[0] == 8


def test_json_holds_to_its_schema_in_every_case(command: Any, base: Path, slow: Path, tmp_path: Path) -> None:
    write_set(tmp_path / "other", SMALL)
    write_set(tmp_path / "one", TINY, runs_at(20_000.0, seed=8, num_runs=1))
    write_set(tmp_path / "none", TINY, [make_records(TINY, converged=False, num_evals=19, seed=9)])
    code, out, _ = command("compare", base, base.parent, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    assert code == 2
    assert len(document["comparisons"]) == 4
    by_name = {one["new"]: one for one in document["comparisons"]}
    assert by_name["none"]["factors"][0]["reason"] == "not known of new: no run converged"
    assert by_name["slow"]["is_regression"] is True


def test_exported_json_compares_like_its_directory(command: Any, base: Path, slow: Path, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(render_report(ReportContent(results=gather([base])), output_format="json"), encoding="utf-8")
    ours = json.loads(command("compare", base, slow, "--format", "json")[1])["comparisons"][0]
    theirs = json.loads(command("compare", path, slow, "--format", "json")[1])["comparisons"][0]
    assert theirs["factors"][0]["ratio"] == pytest.approx(ours["factors"][0]["ratio"], rel=1e-8)
    assert [one["verdict"] for one in theirs["factors"]] == [one["verdict"] for one in ours["factors"]]
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    code, _, err = command("compare", tmp_path / "bad.json", slow)
    assert code == 8
    assert "bad.json: not a JSON export" in err


def test_markdown_is_a_summary(command: Any, base: Path, slow: Path) -> None:
    code, out, _ = command("compare", base, slow, "--format", "md")
    assert code == 0
    assert out.startswith("## SLOWER: slow against base\n\n2.00x slower")
    assert "| throughput |" in out


def test_sets_that_break_rules_are_compared_and_marked(command: Any, base: Path, tmp_path: Path) -> None:
    runs = runs_at(20_000.0, seed=4)
    runs[0] = with_record(runs[0], "opt_adagrad_epsilon", value=1e-7)
    write_set(tmp_path / "broken", TINY, runs)
    out = command("compare", base, tmp_path / "broken")[1]
    assert "new: the rules reject this set; 'dlrmbench check' says why." in " ".join(out.split())


def test_names_cannot_move_the_cursor(command: Any, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evil\x1b[2J\u202e|<b>`"
    write_set(folder, TINY, runs_at(10_000.0, seed=7, platform="\x1b[31mred\u202e"))
    for form in ("table", "md", "csv", "json"):
        out = command("compare", base, folder, "--format", form)[1]
        assert "\x1b" not in out and "\u202e" not in out, form


def write_throughput(root: Path, rates: list[float], **changes: Any) -> Path:
    (root / "extra").mkdir(parents=True)
    processes = [
        process_content(num_steps=100, num_samples=100_000, duration_s=100_000 / rate, samples_per_s=rate)
        for rate in rates
    ]
    content = throughput_content(processes, **changes)
    (root / "extra" / "throughput.json").write_text(json.dumps(content), encoding="utf-8")
    record = run_set_content(
        kind="throughput",
        seeds=list(range(5)),
        system=system_part("box"),
        config={"runtime.threads": {"value": 2, "source": "option --threads"}},
    )
    (root / "extra" / "run_set.json").write_text(json.dumps(record), encoding="utf-8")
    return root


def test_measurements_of_throughput_are_compared_by_it_alone(command: Any, base: Path, tmp_path: Path) -> None:
    one = write_throughput(tmp_path / "one", [1000.0, 1002.0, 999.0, 1001.0, 998.0])
    two = write_throughput(tmp_path / "two", [1301.0, 1300.0, 1299.0, 1302.0, 1298.0])
    code, out, _ = command("compare", one, two, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    (comparison,) = document["comparisons"]
    assert code == 0
    assert [(one["factor"], one["verdict"]) for one in comparison["factors"]] == [("throughput", "faster")]
    assert comparison["is_paired"] is True
    assert command("compare", base, one)[0] == 2
    synthetic = write_throughput(tmp_path / "made", [1000.0] * 5, data_kind="made_up")
    read = write_throughput(tmp_path / "read", [1001.0] * 5, data_kind="click_log")
    code, _, err = command("compare", synthetic, read)
    assert code == 2
    assert "different input: made_up and click_log data" in err


def test_a_measurement_without_processes_exits_8(command: Any, tmp_path: Path) -> None:
    one = write_throughput(tmp_path / "one", [])
    code, _, err = command("compare", one, one)
    assert code == 8
    assert "processes: found []" in err


@needs_published_results
def test_published_results_are_compared_across_systems(command: Any) -> None:
    code, out, _ = command("compare", NVIDIA, CISCO)
    assert code == 0
    text = " ".join(out.split())
    assert "Own results are unverified; of published ones, verification by MLCommons is not known here." in text
    assert "cross-system" in text
    assert "different rounds: 5.0 and 5.1." in text
    assert "normalised scores: 0.696" in text


def test_none_of_the_three_ever_imports_torch(base: Path, slow: Path) -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        "for line in sys.argv[1:]:\n    try:\n        main(line.split('|'))\n"
        "    except SystemExit as leaving:\n        print(leaving.code, 'torch' in sys.modules, file=sys.stderr)\n"
    )
    asked = [f"compare|{base}|{slow}", f"diff|{base}|{slow}", f"history|{base.parent}"]
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "0 False\n" * 3)
