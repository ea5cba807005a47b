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
from places import TESTS
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
    assert command("compare", slow, base)[1].startswith("FASTER")


UNDECIDED = {"no difference shown", "below the smallest effect", "inconclusive"}


def write_turns(
    root: Path, new_speed: float, *, num_runs: int = 10, is_luck_shared: bool = True
) -> tuple[Path, Path]:
    """Two sets whose runs took turns, an hour each, at 20,000 samples/s and so much more; unless told, with equal
    convergence."""
    for side, speed in enumerate((20_000.0, 20_000.0 * new_speed)):
        moved = []
        for index, shift in enumerate((0, 1, -2, 2, -1, 1, 0, -1, 2, -2)[:num_runs]):
            (run,) = runs_at(speed * (1 + 0.001 * shift * (-1) ** side), seed=index, num_runs=1)
            if not is_luck_shared and side:
                (run,) = runs_at(speed, seed=index + 3, num_runs=1)
            start = 1_790_000_000_000 + (2 * index + side) * 3_600_000
            moved.append(
                [record | {"time_ms": start + int(record["time_ms"]) - int(run[0]["time_ms"])} for record in run]
            )
        write_set(root / ("base", "new")[side], TINY, moved)
    return root / "base", root / "new"


def test_the_gate_passes_where_a_regression_is_excluded_in_turns(command: Any, tmp_path: Path) -> None:
    code, out, err = command("compare", *write_turns(tmp_path, 1.0), "--fail-on", "regression", "--format", "json")
    (comparison,) = json.loads(out)["comparisons"]
    assert (code, err) == (0, "")
    assert comparison["is_interleaved"] is True and comparison["measure_better"] is None
    assert {one["verdict"] for one in comparison["factors"]} <= {*UNDECIDED, "identical"}
    base, new = write_turns(tmp_path / "slower", 1 / 1.1)
    assert command("compare", base, new, "--fail-on", "regression")[0] == 5


def test_the_gate_rejects_what_the_rules_reject_whatever_it_compares_as(command: Any, tmp_path: Path) -> None:
    """A set of runs that are shown to be as fast, one of which breaks a rule."""
    base, new = write_turns(tmp_path, 1.0)
    log = next(new.glob("results/*/*/result_3.txt"))
    log.write_text(log.read_text().replace('"opt_name", "value": "', '"opt_name", "value": "other_'))
    for first, second, name in ((base, new, "new"), (new, base, "new"), (new, new.parent / "base", "new")):
        code, _, err = command("compare", first, second, "--fail-on", "regression")
        assert code == 3 and f"{name}: INVALID by the rules" in err, (code, err)
    assert command("compare", base, new)[0] == 0


def test_own_code_on_one_side_alone_is_warned_of(command: Any, tmp_path: Path) -> None:
    base, new = write_turns(tmp_path, 1.0)
    for log in new.glob("results/*/*/result_*.txt"):
        log.write_text(log.read_text().replace('"value": "reference"', '"value": "mine.py:Mine"'))
    words = 'warning: own code trained new alone ("mine.py:Mine")'
    assert words in " ".join(command("compare", base, new)[1].split())
    assert "own code" not in command("compare", base, base.parent / "base")[1]


@pytest.mark.slow
def test_the_gate_does_not_pass_in_turns_what_may_be_slower(command: Any, tmp_path: Path) -> None:
    """Convergence that differs from run to run hides 3 % of the time to train, and too few runs hide everything."""
    base, new = write_turns(tmp_path, 1.0, is_luck_shared=False)
    for asked in ("regression", "inconclusive"):
        code, _, err = command("compare", base, new, "--fail-on", asked)
        assert code == 7
        assert "new: a regression against base by 3 % or more is neither shown nor ruled out. " in err
        assert "pairs measured alternately should decide, if it is as measured; look once, when all are made." in err
    assert command("compare", base, new, "--fail-on", "regression", "--min-effect", "30%")[0] == 0
    few = write_turns(tmp_path / "few", 1.0, num_runs=4)
    assert command("compare", *few, "--fail-on", "regression")[0] == 7
    assert command("compare", *few)[0] == 0


@pytest.mark.parametrize("speed", ["same", "fast"])
def test_the_gate_does_not_pass_where_drift_is_assumed(command: Any, base: Path, speed: str, tmp_path: Path) -> None:
    write_set(tmp_path / speed, TINY, runs_at({"same": 20_000.0, "fast": 40_000.0}[speed], seed=6))
    code, out, err = command("compare", base, tmp_path / speed, "--fail-on", "regression")
    assert code == 7
    drift = "they were measured one after the other, and a difference of 20 % is"
    assert f"by 3 % or more is neither shown nor ruled out: {drift}" in err
    assert "and about 5 where equal seeds converge alike" in err and f"'dlrmbench versus {base} -n 5'" in err
    words = " ".join(out.split())
    why = "assumed, as fewer than 3 sets of one configuration and code were found"
    assumed = f"a difference of 20 % is allowed for drift ({why})"
    assert assumed in words
    if speed == "same":
        assert "No verdict. The sets were measured one after the other. " in words and "(80 % power)" in words
        assert f"'dlrmbench versus {base}' measures alternately" in words
    else:
        assert "FASTER fast against base 1.99x faster: 2.00x from throughput" in words
        assert f". The sets were measured one after the other; {assumed}." in words
    assert command("compare", base, tmp_path / speed)[0] == 0


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


MEASURED = TESTS / "data" / "sets" / "throughput_sweep" / "01-global_batch_size-128"


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
    assert "new: INVALID by the rules; 'dlrmbench check' says why." in " ".join(out.split())


@pytest.mark.slow
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
    assert "Own results are unverified; of published results it is not known whether MLCommons verified them." in text
    assert "cross-system" in text
    assert "different rounds: 5.0 and 5.1." in text
    assert "normalised scores: 0.696" in text


@pytest.mark.slow
def test_neither_ever_imports_torch(base: Path, slow: Path) -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        "for line in sys.argv[1:]:\n    try:\n        main(line.split('|'))\n"
        "    except SystemExit as leaving:\n        print(leaving.code, 'torch' in sys.modules, file=sys.stderr)\n"
    )
    asked = [f"compare|{base}|{slow}", f"diff|{base}|{slow}"]
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "0 False\n" * 2)
