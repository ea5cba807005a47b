"""Studies that are measured: a process of their own does it, and what it says at its end is what the command says."""

import subprocess
import sys
from pathlib import Path

import pytest
from command import Command
from waiting import HANG_S

from harness.foundation.errors import ExitCode
from harness.launch.process import STDERR_FILE, WorkerEnd

FORWARD = ("profile", "dlrm_tiny", "--forward", "--threads", "1")
WITHOUT_WORKER = """
import harness.experiment.study
def interrupt(*args, **options):
    raise KeyboardInterrupt
harness.experiment.study.launch_worker = interrupt
"""
COMMAND = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
finally:
    print('torch' in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "words", "code"),
    [
        (WITHOUT_WORKER, (*FORWARD, "-q"), ExitCode.INTERRUPTED),
    ],
)
def test_the_command_itself_imports_no_torch_and_says_one_line(
    before: str, words: tuple[str, ...], code: ExitCode, data_root: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", before + COMMAND, *words, "--data", str(data_root)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (code, "False\n"), done.stderr
    said = [line for line in done.stderr.split("\n") if line and not line.startswith("warning: ")]
    assert len(said) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_starts_runs_and_shows_them_imports_no_torch(data_root: Path, tmp_path: Path) -> None:
    """It waits beside what it measures: 200 MB and seconds that no run has to share."""
    easy = ("--name", "easy", "--set", "quality.target=0.51")
    words = ("run", "dlrm_tiny", *easy, "-n", "1", "-q", "--data", data_root)
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == ExitCode.DONE, done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_a_defect_of_the_process_is_shown_whole_to_who_asks(
    inside: Command, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(spec_path: Path, **options: object) -> WorkerEnd:
        spec_path.with_name(STDERR_FILE).write_text("Traceback: line 7\nTypeError: no number\n")
        return WorkerEnd(exit_code=1, last_words="TypeError: no number")

    monkeypatch.setattr("harness.experiment.study.launch_worker", break_down)
    words = (*FORWARD, "--data", data_root)
    plain, debugged = inside(*words, "-q"), inside("--debug", *words, "-q")
    assert plain.returncode == debugged.returncode == ExitCode.INTERNAL_ERROR
    assert "TypeError: no number" in plain.stderr and "line 7" not in plain.stderr
    assert "line 7" in debugged.stderr
