"""What many tests share: a generated dataset, a clean environment, the command as a newcomer starts it."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command import Command
from costs import Costs
from goldens import lay_data
from hypothesis import HealthCheck, settings
from inside import run_inside, use_workers_inside
from seams import put_builders_on_path
from small_set import SmallBenchmark, make_small_benchmark
from sweep_builder import FastWorkers, use_fast_workers
from tiers import note_files
from waiting import HANG_S

from harness.cli import main
from harness.config.catalog import load_entry
from harness.run_sets.dataset import ensure_dataset
from rules.tree.result_set import RESULT_FILE

# The same examples in every run, so that no run fails by chance; "quick" has a tenth of them (builders/examples.py).
# `make test-long` looks for new ones. How long one takes, or takes to draw, says more of the machine's load than of
# the product.
LIMITS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("repeatable", LIMITS, derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=10)
settings.register_profile("random", LIMITS)
settings.load_profile("repeatable")


# What tests start compiles each module once, and not in every process again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

put_builders_on_path()

# A shell ignores Ctrl-C for what it starts in the background, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", type=float, metavar="UNITS", help="print what tests cost, and of how many units allowed"
    )


def pytest_configure(config: pytest.Config) -> None:
    if (budget := config.getoption("costs")) is not None:
        config.pluginmanager.register(Costs(config, budget), "costs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    note_files(config, items)


@pytest.fixture(autouse=True, scope="module")
def nothing_to_look_at_again() -> None:
    """What is imported and collected by now stays: looking whether it is garbage took a third of many tests' time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of ours from outside; and what a command sets for its children ends with the test."""
    before = dict(os.environ)
    for variable in [name for name in os.environ if name.startswith("DLRMBENCH_")]:
        monkeypatch.delenv(variable)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True, scope="session")
def the_same_seed() -> Iterator[None]:
    """A set that is given no seed draws this one: whether it reaches its target is not left to chance. What tests
    start in a process of its own is given `--seed` where its result is asked for.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rules.benchmarks.seeds.randbits", lambda bits: 1)
        yield


@pytest.fixture(autouse=True)
def patience_with_the_official_checkers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they answer in a test does not depend on how long they take for it."""
    monkeypatch.setattr("rules.official.opinion.TIMEOUT_S", HANG_S)
    monkeypatch.setattr("rules.official.process.ANSWER_TIMEOUT_S", HANG_S)


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with dlrm_tiny's dataset. Its files are links to one copy, which all workers of a session share; what
    is written beside them (choices by timing, locks) is the worker's own."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "shared_data"
    ensure_dataset(load_entry("dlrm_tiny").workload.data, shared, num_threads=1)
    return lay_data(shared, tmp_path_factory.mktemp("own")) / "data"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallBenchmark:
    """dlrm_tiny on few samples, for what asks nothing of dlrm_tiny itself: its runs take a tenth of a second."""
    return make_small_benchmark(tmp_path_factory.mktemp("small"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders, in which nothing stays."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def dlrmbench(tmp_path: Path) -> Iterator[Command]:
    """Run the command line in a fresh process below `tmp_path`; output is text, the exit code is not checked."""

    def run(*arguments: object, **options: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "harness", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=HANG_S,
            check=False,
            **options,  # type: ignore[call-overload]
        )

    yield run


@pytest.fixture
def inside(tmp_path: Path) -> Command:
    """The same in this process: what a command says and leaves, where no process of its own matters."""
    return partial(run_inside, tmp_path)


@pytest.fixture
def workers_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set's jobs are done in this process, too."""
    use_workers_inside(monkeypatch)


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


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """How often each log was opened to be read. Copies are made without os.open."""
    count: Counter[Path] = Counter()
    original = os.open

    def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if isinstance(path, str | Path) and RESULT_FILE.match(Path(path).name) and not flags & os.O_WRONLY:
            count[Path(path)] += 1
        return original(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", open_)
    return count
