"""What every day needs: warnings before the first run, exit codes of plans, profiles that are no empty sets."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from past_sets import past_sets
from places import TESTS
from seams import READING, reading
from sweep_builder import FastWorkers, use_fast_workers
from waiting import HANG_S

from harness import api
from harness.cli import cli
from harness.foundation.errors import ExitCode, compose_message, exit_code_of
from harness.foundation.status_line import StatusLine
from harness.launch.process import WorkerEnd, explain_end, remove_empty_cache
from harness.run_sets.progress import RunProgress
from rules.benchmarks.loader import Quality
from rules.records.metrics import MetricName
from rules.records.run_set import PreflightCheck

Run = Callable[..., Result]
LOAD = PreflightCheck(
    name="load average", value="13.33 on 2 cores", status="warning", why="It slows.", remedy="Wait."
)


@pytest.fixture
def run(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process, with workers that answer at once, on a system that is disturbed."""
    use_fast_workers(monkeypatch, FastWorkers())
    for module in ("experiment.create", "system.preflight"):
        monkeypatch.setattr(f"harness.{module}.run_checks", lambda *folders: (LOAD,))
    monkeypatch.chdir(tmp_path)

    def run(verb: str, *words: object) -> Result:
        common = ["--data", data_root, "-o", "out"]
        return CliRunner().invoke(cli, [verb, "dlrm_tiny", *map(str, (*common, *words))])

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["run", "-n", 1],
        ["run", "--throughput", 4],
        ["profile"],
        ["sweep", "-n", 1, "--axis", "train.opt_base_learning_rate=0.04,0.05"],
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_what_disturbs_is_said_before_the_first_run(run: Run, words: list[object]) -> None:
    done = run(*words)
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("warning: ")] == [
        "warning: load average: 13.33 on 2 cores. It slows. See 'dlrmbench doctor'."
    ]
    assert lines.index("warning: load average: 13.33 on 2 cores. It slows. See 'dlrmbench doctor'.") <= 1
    assert "warning: load average: 13.33 on 2 cores." in run(*words, "-q").stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["run", "-n", 1], ["sweep", "-n", 1, "--axis", "train.opt_base_learning_rate=0.04,0.05"]]
)
def test_what_disturbs_is_said_again_before_a_set_goes_on(
    run: Run, words: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*words).exit_code == 0
    monkeypatch.setattr("harness.run_sets.environment.run_checks", lambda *folders: ())
    (lenient,) = (path for path in Path("out").iterdir() if not path.is_symlink())
    monkeypatch.setattr(sys, "argv", ["dlrmbench", *map(str, words), "--strict-env"])  # which the set keeps
    assert run(*words, "--strict-env", "-q").exit_code == 0
    strict = Path("out/latest").resolve()
    for folder in (lenient, strict):
        assert "warning" not in CliRunner().invoke(cli, ["resume", str(folder)]).stderr
    monkeypatch.setattr("harness.run_sets.environment.run_checks", lambda *folders: (LOAD,))
    assert "warning: load average" in CliRunner().invoke(cli, ["resume", str(lenient)]).stderr
    assert "warning: load average" in CliRunner().invoke(cli, ["resume", str(lenient), "-q"]).stderr
    refused = CliRunner().invoke(cli, ["resume", str(strict)]).exception
    assert refused is not None and exit_code_of(refused) == ExitCode.ENVIRONMENT, repr(refused)


@pytest.mark.parametrize("words", [["-n", 2], ["--throughput", 4]], ids=["runs", "throughput"])
def test_what_is_interrupted_says_how_it_is_completed(
    run: Run, words: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object, **options: object) -> WorkerEnd:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.experiment.executors.launch_worker", interrupt)
    printed = run("run", *words, "-q").stderr
    assert (
        f"are kept. Complete the {'set' if '-n' in words else 'measurement'} with: dlrmbench resume out/" in printed
    )


@pytest.mark.parametrize(("metric", "label"), [("roc_auc", "AUC"), ("accuracy", "accuracy")])
def test_progress_does_not_round_a_miss_to_the_target(
    monkeypatch: pytest.MonkeyPatch, metric: MetricName, label: str
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(StatusLine, "show_rows", lambda line, rows, text, now: shown.append(text))
    progress = RunProgress("run 1 of 1", Quality(metric=metric, target=0.905, evals_per_epoch=20, max_epochs=1.0))
    progress.on_event({"event": "start", "train_samples": 1000})
    progress.on_event({"event": "eval", "quality": 0.90496})
    assert f"{label} 0.90496 (target 0.905)" in shown[-1]


@pytest.mark.slow
def test_a_set_that_cannot_be_packaged_says_so_before_it_is_run(run: Run) -> None:
    assert "no submitter is given (--submitter)" in run("run", "-n", 1).stderr
    assert "submitter" not in run("run", "-n", 1, "--submitter", "Example").stderr
    assert "submitter" not in run("run", "-n", 1, "-q").stderr + run("run", "--throughput", 4).stderr


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["--set", "train.global_batch_size=999999"], 2),
        (["--sharding", "row_wise"], 2),
        (["--device", "foo"], 2),
        (["--format", "json", "--set", "train.global_batch_size=999999"], 2),
        (["-n", 2], 0),
        ([], 0),
    ],
)
def test_a_plan_of_what_cannot_start_is_an_error(
    words: list[object], exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["plan", "dlrm_tiny", "--no-measure", *map(str, words)])
    assert done.exit_code == exit_code, done.output
    if "json" in words:
        assert any("cannot start" in problem for problem in json.loads(done.stdout)["problems"])


@pytest.mark.slow
def test_a_profile_is_no_set_that_lacks_its_runs(run: Run) -> None:
    assert run("profile", "-q").exit_code == 0
    (folder,) = (path for path in Path("out").iterdir() if not path.is_symlink())
    (past,) = past_sets("out")
    assert (past["kind"], past["num_done"], past["num_runs"], past["problem"]) == ("profile", 1, 1, None)
    checked = CliRunner().invoke(cli, ["check", str(folder)])
    assert exit_code_of(checked.exception) == ExitCode.INPUT  # type: ignore[arg-type]
    assert "a profile measurement, which has no logs to judge" in str(checked.exception)
    assert "resume" not in str(checked.exception)
    assert run("run", "-n", 1, "-q").exit_code == 0
    skipped = CliRunner().invoke(cli, ["check", "out", "--no-second-opinion"]).stderr
    assert "a profile measurement, without logs; 'dlrmbench report' shows it" in skipped
    (folder / "extra" / "profile.json").unlink()
    (unfinished,) = [past for past in past_sets("out") if past["kind"] == "profile"]
    assert (unfinished["num_done"], unfinished["problem"]) == (0, "not finished")


@pytest.mark.slow
@pytest.mark.parametrize("closing", ["2>&-", ">&-", ">&- 2>&-"])
def test_a_closed_standard_stream_is_no_defect(closing: str, tmp_path: Path) -> None:
    """No file that is opened afterwards gets the number of the stream, and no traceback is made of it."""
    code = "from harness.cli import main; main(['list'])"
    script = f'"{sys.executable}" -c "{code}" {closing}; echo "exit $?" > code.txt'
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, timeout=HANG_S)
    assert (tmp_path / "code.txt").read_text() == "exit 0\n"
    probe = (
        "import os, sys; from harness.cli import fill_closed_streams; fill_closed_streams(); "
        "sys.stderr.write('lost'); sys.exit(0 if os.open('file', os.O_CREAT | os.O_WRONLY) > 2 else 1)"
    )
    subprocess.run(["sh", "-c", f'"{sys.executable}" -c "{probe}" {closing}'], cwd=tmp_path, check=True)
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize(
    "words",
    ["check {}", "score {}", "report {}", "compare {} {}", "diff {} {}", "resume {}", "resume {} -n 9",
     "run dlrm_tiny --data {} -q", "profile dlrm_tiny --data {} -q",
     *(" ".join(reading(verb, "{}", "out")) for verb in READING)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["loop", "a" * 300])
def test_a_link_to_itself_and_a_name_that_is_too_long_are_input_errors(
    words: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    done = CliRunner().invoke(cli, words.format(name, name).split())
    assert done.exception is not None and exit_code_of(done.exception) == ExitCode.INPUT, repr(done.exception)
    assert compose_message(done.exception).strip().count("\n") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_stream_that_is_full_is_named(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "harness", "list"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, "standard output: No space left on device" in done.stderr) == (9, True), done.stderr


def test_a_system_without_threads_or_memory_left_is_out_of_resources() -> None:
    words = "libgomp: Thread creation failed: Resource temporarily unavailable"
    assert explain_end(WorkerEnd(exit_code=1, last_words=words)) == (words, ExitCode.RESOURCES)
    assert exit_code_of(RuntimeError("can't start new thread")) == ExitCode.RESOURCES
    words = "RuntimeError: Resource temporarily unavailable"  # as std::thread says it
    assert explain_end(WorkerEnd(exit_code=1, last_words=words)) == (words, ExitCode.RESOURCES)
    assert exit_code_of(ImportError("x.so: failed to map segment from shared object")) == ExitCode.RESOURCES
    assert exit_code_of(RuntimeError("something else")) is exit_code_of(ImportError("no module")) is None


@pytest.mark.parametrize(("words", "exit_code"), [("list", 0), ("score runs", 9), ("report runs", 9)])
def test_too_little_address_space_is_out_of_memory_and_no_interrupt(
    words: str, exit_code: int, tmp_path: Path
) -> None:
    """OpenBLAS would end the process by itself, with 1 or with the signal of Ctrl-C."""
    (tmp_path / "runs").symlink_to(TESTS / "data" / "sets" / "runs")
    script = f'ulimit -v 150000; "{sys.executable}" -m harness {words}'
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "64"},
        check=False,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == exit_code, done.stderr
    assert not exit_code or "this process may have 146 MiB of address space (ulimit -v)" in done.stderr


@pytest.mark.parametrize(
    "verb",
    [["run"], ["run", "--throughput", 4], ["sweep", "--axis", "train.opt_base_learning_rate=0.04,0.05"], ["profile"]],
    ids=["run", "throughput", "sweep", "profile"],
)
@pytest.mark.parametrize(("output", "exit_code"), [("loop", 8), ("file", 2), ("file/below", 2), ("gone", 8)])
def test_where_results_cannot_be_is_said_before_data_is_made(
    verb: list[object], output: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("gone").symlink_to("nowhere")
    Path("file").touch()
    done = CliRunner().invoke(cli, [str(verb[0]), "dlrm_tiny", *map(str, verb[1:]), "-o", output, "-q"])
    assert done.exception is not None and exit_code_of(done.exception) == exit_code, repr(done.exception)
    assert compose_message(done.exception).strip().count("\n") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "gone", "loop"]
    with pytest.raises(OSError, match=r"loop|file|gone"):
        api.run("dlrm_tiny", output=output)


@pytest.mark.slow
def test_what_has_the_place_of_an_attempt_is_passed_over(run: Run, tmp_path: Path) -> None:
    """As a file system that was repaired may leave it."""
    assert run("run", "-n", 1, "-q").exit_code == 0
    (folder,) = (path for path in Path("out").iterdir() if not path.is_symlink())
    (log,) = folder.rglob("result_0.txt")
    log.unlink()
    attempts = folder / "extra" / "run_0"
    shutil.rmtree(attempts / "attempt_0")
    (attempts / "attempt_1").touch()
    (attempts / "attempt_x").mkdir()
    # The run that was finished, and is gone, is missed.
    assert CliRunner().invoke(cli, ["resume", str(folder), "-q"]).exit_code == 3
    assert log.is_file() and sorted(path.name for path in attempts.iterdir())[-2:] == ["attempt_2", "attempt_x"]
    log.unlink()
    shutil.rmtree(attempts)
    attempts.touch()
    refused = CliRunner().invoke(cli, ["resume", str(folder), "-q"]).exception
    assert refused is not None and exit_code_of(refused) == ExitCode.USAGE
    assert f"{attempts}" in compose_message(refused) and "Move away the file" in compose_message(refused)


def test_the_folder_for_compiled_code_stays_only_where_something_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("getpass.getuser", lambda: "a/b")
    folder = tmp_path / "torchinductor_a_b"
    for content in (None, "kernel.so"):
        folder.mkdir()
        if content:
            (folder / content).touch()
        remove_empty_cache({})
        assert folder.exists() is (content is not None)
    (folder / "kernel.so").unlink()
    remove_empty_cache({"TORCHINDUCTOR_CACHE_DIR": "elsewhere"})
    assert folder.exists()


@pytest.mark.parametrize(
    ("precision", "says"),
    [("int8", "runtime.precision 'int8' serves, and does not train"), ("tf32", "runtime.precision is 'tf32'")],
)
def test_a_set_is_refused_before_its_data_is_made(tmp_path: Path, precision: str, says: str) -> None:
    arguments = ["run", "dlrm_tiny", "-n", "1", "--set", f"runtime.precision={precision}", "--data", str(tmp_path)]
    result = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "out")])
    assert result.exception is not None and exit_code_of(result.exception) == ExitCode.USAGE
    assert says in compose_message(result.exception)
    assert list(tmp_path.iterdir()) == []
