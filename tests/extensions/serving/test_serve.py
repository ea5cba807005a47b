"""`serve` and `sweep --serve`: what is asked of processes, and how what they found is said, compared and shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from past_sets import past_sets
from sweep_builder import FastWorkers

from harness.cli import cli
from harness.extensions.serving import loadgen
from harness.extensions.serving.records import ServeRecord
from harness.foundation.errors import ExitCode, HarnessError, exit_code_of
from rules.records.codec import decode

Run = Callable[..., Result]


@pytest.fixture
def run(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verb on dlrm_tiny, in processes that answer at once; LoadGen is asked for by its name alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loadgen, "find_spec", lambda name: object())

    def invoke(verb: str, *arguments: str) -> Result:
        words = [verb, "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return invoke


def words_of(done: Result) -> str:
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.stdout.split())


def the_set(tmp_path: Path, name: str) -> Path:
    (folder,) = (path for path in made_in(tmp_path / "out") if f"-{name}-" in path.name)
    return folder


def test_a_measurement_of_one_process_says_what_it_cannot(run: Run, tmp_path: Path) -> None:
    said = words_of(run("serve", "-n", "1"))
    assert "latency-bounded 10" in said and "VALID by LoadGen" in said
    assert "p95 20.0 ms of 25.0 ms" in said and "simulation allows 13" in said
    assert "interval none, and no verdicts: needs 5 processes, has 1" in said
    (folder,) = made_in(tmp_path / "out")
    record = decode(folder / "extra" / "serve.json", ServeRecord)
    assert isinstance(record, ServeRecord) and record.percentile == 95


def test_five_processes_have_an_interval(run: Run, workers: FastWorkers) -> None:
    said = words_of(run("serve"))
    assert len(workers.launches) == 5 and len({launch["seed"] for launch in workers.launches}) == 5
    assert "VALID by LoadGen in 5 of 5 processes" in said and "95 % interval 9" in said
    found = json.loads(run("serve", "--format", "json").stdout)
    assert (found["kind"], found["quantity"], found["unit"]) == ("serve", "Queries/s", "queries/s")
    assert found["low"] < found["mean"] < found["high"]


def test_options_are_keys_of_serve(run: Run, workers: FastWorkers) -> None:
    words_of(run("serve", "-n", "1", "--target-latency", "0.05s", "--percentile", "99", "--queries", "fixed:7",
                 "--batch", "4", "--colocate", "2", "--set", "serve.threads=2"))  # fmt: skip
    assert workers.launches[0]["tables"]["serve"] == {
        "target_latency_ms": 50,
        "percentile": 99,
        "queries": "fixed:7",
        "batch": 4,
        "colocate": 2,
        "threads": 2,
    }


def test_colocation_says_how_many_times_the_queries_of_one(run: Run) -> None:
    assert "2 processes answer 2.00 times the queries of one" in words_of(run("serve", "-n", "1", "--colocate", "2"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    (
        (("--target-latency", "0ms"), "must be above 0"),
        (("--target-latency", "-5ms"), "not a duration"),
        (("--target-latency", "25"), "Write it like 25ms"),
        (("--percentile", "100"), "not in the range"),
        (("--percentile", "98"), "expected one that LoadGen reports"),
        (("-n", "0"), "not in the range"),
        (("--colocate", "0"), "not in the range"),
        (("--queries", "fixed:0"), "serve.queries is 'fixed:0'"),
        (("--set", "serve.latency=3"), "unknown key 'serve.latency'"),
        (("--weights", "a", "--train", "512"), ""),
    ),
)
def test_what_cannot_be_asked_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run("serve", *arguments)
    said = done.output + str(done.exception)
    assert words in said
    code = done.exit_code if isinstance(done.exception, SystemExit) else exit_code_of(done.exception or Exception())
    assert code in (ExitCode.USAGE, ExitCode.INPUT), said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    (
        ("wukong_small", ("runtime.precision=int8",), "runtime.precision is 'int8', expected 'fp32' or 'bf16'"),
        ("dlrmv4_small", ("runtime.table_precision=int4",), "runtime.table_precision is 'int4', expected 'fp32'"),
        ("wukong_small", ("runtime.implementation=optimized",), "cannot be served: its buffers hold one batch"),
    ),
)
@pytest.mark.parametrize("verb", (("serve",), ("sweep", "--serve", "--axis", "serve.batch=1,2")))
def test_what_a_forward_pass_of_training_cannot_do_is_refused_before_anything_is_made(
    verb: tuple[str, ...], name: str, settings: tuple[str, ...], words: str, run: Run, tmp_path: Path
) -> None:
    given = [word for setting in ("serve.target_latency_ms=25", *settings) for word in ("--set", setting)]
    done = CliRunner().invoke(cli, [verb[0], name, *verb[1:], *given, "-o", str(tmp_path / "out")])
    assert exit_code_of(done.exception or Exception()) == ExitCode.USAGE
    assert words in str(done.exception)
    assert "\n" not in str(done.exception) and not (tmp_path / "out").exists()


def test_without_loadgen_nothing_is_made(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadgen, "find_spec", lambda name: None)
    for words in (("serve",), ("sweep", "--serve", "--axis", "serve.batch=1,2")):
        done = run(*words)
        assert isinstance(done.exception, HarnessError) and "pip install '.[serve]'" in str(done.exception)
        assert exit_code_of(done.exception) == ExitCode.USAGE
    assert not (tmp_path / "out").exists()


def test_runs_do_not_know_what_is_served(run: Run) -> None:
    done = run("run", "--throughput", "5", "--set", "serve.batch=2")
    assert "serve.batch is only for 'dlrmbench serve'" in str(done.exception)


@pytest.mark.slow
def test_queries_per_second_are_compared_by_ratio(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    workers.rate = lambda spec: 100.0 * spec["tables"]["serve"].get("batch", 1)
    words_of(run("serve", "--name", "one"))
    words_of(run("serve", "--name", "two", "--batch", "2"))
    done = CliRunner().invoke(cli, ["compare", str(the_set(tmp_path, "one")), str(the_set(tmp_path, "two"))])
    said = " ".join(done.stdout.split())
    assert "better" in said.lower() and "serve.batch" in said and "queries/s" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    (
        (("--target-latency", "30ms"), "different latency limits: 0.025 s and 0.03 s"),
        (("--percentile", "99"), "judged at different percentiles: 95.0 and 99.0"),
        (("--queries", "mlperf"), "queries of different sizes: deeprecsys and mlperf"),
    ),
)
def test_another_question_is_not_compared(run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    words_of(run("serve", "--name", "one"))
    words_of(run("serve", "--name", "two", *arguments))
    done = CliRunner().invoke(cli, ["compare", str(the_set(tmp_path, "one")), str(the_set(tmp_path, "two"))])
    assert words in " ".join((done.output + str(done.exception)).split())


@pytest.mark.slow
def test_the_page_shows_latency_against_load_and_colocation(run: Run, tmp_path: Path) -> None:
    words_of(run("serve", "--name", "one"))
    words_of(run("serve", "--name", "both", "--colocate", "2"))
    done = CliRunner().invoke(cli, ["report", "out", "-o", "page.html"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Latency against load" in page and "Co-location" in page and "LoadGen, measured" in page
    assert "Rate and quality by precision" not in page
    past = past_sets("out")
    assert {entry["kind"] for entry in past} == {"serve"}
    assert all(entry["mean"] > 100 and entry["unit"] == "queries/s" for entry in past)


@pytest.mark.slow
def test_a_sweep_serves_every_configuration(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    workers.rate = lambda spec: 100.0 * spec["tables"]["serve"]["batch"]
    said = words_of(run("sweep", "--serve", "--axis", "serve.batch=1,2", "--format", "csv"))
    assert "queries_per_s" in said and "better" in said
    assert [launch["tables"]["serve"]["batch"] for launch in workers.launches[:4]] == [1, 2, 2, 1]
    (folder,) = made_in(tmp_path / "out")
    assert "Latency against load" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_interrupted_sweep_is_completed(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    failing: dict[str, Any] = {"on": True}
    workers.fail = lambda spec: failing["on"] and spec["tables"]["serve"]["batch"] == 2
    assert run("sweep", "--serve", "--axis", "serve.batch=1,2", "-n", "2").exit_code == ExitCode.RESOURCES
    (folder,) = made_in(tmp_path / "out")
    failing["on"], before = False, len(workers.launches)
    done = CliRunner().invoke(cli, ["resume", str(folder), "-q"])
    assert done.exit_code == 0, done.output
    assert [launch["tables"]["serve"]["batch"] for launch in workers.launches[before:]] == [2, 2]


def test_a_set_is_resumed_and_grows(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    words_of(run("serve", "-n", "1"))
    (folder,) = made_in(tmp_path / "out")
    words_of(CliRunner().invoke(cli, ["resume", str(folder), "-n", "5", "-q"]))
    assert len(workers.launches) == 5
    record = decode(folder / "extra" / "serve.json", ServeRecord)
    assert isinstance(record, ServeRecord) and len(record.processes) == 5


@pytest.mark.slow
def test_a_set_is_served_again_beside_another_way(run: Run, workers: FastWorkers, tmp_path: Path) -> None:
    workers.rate = lambda spec: 100.0 * spec["tables"]["serve"].get("batch", 1)
    words_of(run("serve", "--name", "one"))
    words = ["run", "--beside", str(the_set(tmp_path, "one")), "--set", "serve.batch=2", "-q", "-o", "out"]
    said = words_of(CliRunner().invoke(cli, words))
    assert [launch["tables"]["serve"].get("batch", 1) for launch in workers.launches[5:9]] == [1, 2, 2, 1]
    assert "better" in said.lower()
