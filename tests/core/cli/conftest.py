"""What tests of commands share: a command line in this process, and workers that answer at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_builder import FastWorkers, use_fast_workers

from harness.cli import main


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Exit code, stdout and stderr of one command line."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, out, err

    return call


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> FastWorkers:
    """In place of the processes of a set, on a system that is not looked at: what it is does not change in a test."""
    made = FastWorkers()
    use_fast_workers(monkeypatch, made)
    monkeypatch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    return made


@pytest.fixture
def call(
    command: Callable[..., tuple[int, str, str]],
    workers: FastWorkers,
    data_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[int, str, str]]:
    """A command line in a folder of its own, in processes that answer at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLRMBENCH_DATA", str(data_root))
    return lambda *words: command(*words, "-q")
