"""Companions of a process that trains: which moment comes when, for each kind and on every rank."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from scripted_workload import ScriptedWorkload, run_spec

from harness.config.catalog import WorkloadConfig
from harness.measure import companions
from harness.measure.companions import COMPANIONS, Companion
from harness.measure.quality import QualityJob, train_and_evaluate
from harness.measure.throughput import ThroughputJob, measure_throughput
from harness.measure.training import run_attempt
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError, NotFiniteError
from reference_models.training.metrics import QualityMetrics
from rules.benchmarks.loader import load_benchmark, read_toml
from rules.extensions import load_place

T = TypeVar("T")
MOMENTS = ("before_build", "start", "stop", "after")
BEFORE = [
    "energy before_build",
    "weights before_build",
    "read_data before_build",
    "checkpoints before_build",
    "build",
]
HASHED = ["gather", "broadcast", "gather"]
STOPPED = ["energy stop", "gather"]
PEAKS = ["peaks after", "gather", "checkpoints after", "traffic after"]


class NotedWorkload(ScriptedWorkload):
    """Notes what is asked of it between the moments of companions, and has all that they may ask for."""

    def evaluate_with(self, metric: Callable[[Any, Any], Any]) -> QualityMetrics:
        self.events.append("evaluate")
        return QualityMetrics(auc=0.7, log_loss=0.5, normalised_entropy=0.9)

    def weights(self) -> Mapping[str, Any]:
        self.events.append("weights")
        return {}

    def measure_traffic(self, num_steps: int, *, with_evaluation: bool = True) -> Any:
        self.events.append(f"traffic, {with_evaluation=}")
        return None


class NotedWorld:
    """One rank of two, which notes its collective calls; the other rank always says the same."""

    size = 2

    def __init__(self, rank: int, note: Callable[[str], None]) -> None:
        self.rank, self._note = rank, note

    def gather(self, value: T) -> list[T] | None:
        self._note("gather")
        return [value, value] if self.rank == 0 else None

    def broadcast(self, value: T) -> T:
        self._note("broadcast")
        return value

    def barrier(self) -> None:
        self._note("barrier")


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch) -> NotedWorkload:
    """A workload that every job loads, over no data; each moment that a companion makes use of is noted too."""
    benchmark = load_benchmark("dlrm_tiny")
    made = NotedWorkload(benchmark, [0.6, 0.7, benchmark.quality.target, 0.7])
    made_by = SimpleNamespace(load=lambda spec, world: made)
    monkeypatch.setattr(WorkloadConfig, "implementation", made_by)
    split: Any = SimpleNamespace(num_samples=made.train_samples, num_embeddings=[10] * 8)
    dataset = OpenedDataset(train=split, eval=split, dataset_sha256="a" * 64, files={})
    monkeypatch.setattr(companions, "open_dataset", lambda folder, data: dataset)
    for name, place in COMPANIONS.items():
        found = load_place(place)
        for moment in set(MOMENTS) & set(vars(found)):
            monkeypatch.setattr(found, moment, noting(f"{name} {moment}", getattr(found, moment), made.events.append))
    return made


def noting(event: str, method: Callable[[Companion], T], note: Callable[[str], None]) -> Callable[[Companion], T]:
    def noted(companion: Companion) -> T:
        note(event)
        return method(companion)

    return noted


def measure(kind: str, workload: NotedWorkload, folder: Path, rank: int = 0) -> list[str]:
    """Do a job of the kind as one of two ranks, and return what was noted."""
    world = NotedWorld(rank, workload.events.append)
    members: dict[str, Any] = {"folder": str(folder), "data_dir": str(folder)}
    members |= {"tables": read_toml(workload.benchmark.path), "definition_path": str(workload.benchmark.path)}
    if kind == "training":
        run_attempt(
            run_spec(**members, keep_weights=True),
            world,
            lambda event: workload.events.append(event["event"]) if "run_" in event["event"] else None,
        )
    elif kind == "throughput":
        measure_throughput(ThroughputJob(**members, seed=1, num_steps=7), world, lambda event: None)
    else:
        train_and_evaluate(QualityJob(**members, seed=1, num_samples=8192), world, lambda event: None)
    noted = [event for event in workload.events if event != "synchronize"]
    workload.events.clear()
    return noted


def test_a_run_keeps_weights_then_hashes_then_looks_at_peaks_and_trains_on_last(
    workload: NotedWorkload, tmp_path: Path
) -> None:
    (tmp_path / "attempt_0").mkdir()
    noted = measure("training", workload, tmp_path / "attempt_0")
    begun, stopped = noted.index("run_start"), noted.index("run_stop")
    assert noted[:begun] == BEFORE
    # No companion does anything in the run but at its start, and no rank is called but by the loop.
    assert noted[begun + 1] == "energy start"
    assert {event.split()[0] for event in noted[begun + 2 : stopped]} == {"train", "evaluate", "broadcast"}
    after = ["energy after", "weights after", "weights", "read_data after", *HASHED, *PEAKS]
    assert noted[stopped + 1 :] == [*STOPPED, "gather", *after, "traffic, with_evaluation=True"]


@pytest.mark.parametrize(
    ("kind", "timed"),
    [
        ("throughput", ["train 10", "energy start", "barrier", "train 7", "barrier"]),
        ("quality", ["energy start", "train 2", "evaluate", "train 2", "evaluate", "train 4", "evaluate"]),
    ],
)
def test_a_measurement_is_timed_between_start_and_stop_of_its_companions(
    kind: str, timed: list[str], workload: NotedWorkload, tmp_path: Path
) -> None:
    after = ["energy after", "weights after", "read_data after", *HASHED, "broadcast", *PEAKS]
    traffic = ["traffic, with_evaluation=False"] if kind == "throughput" else []
    assert measure(kind, workload, tmp_path) == [*BEFORE, *timed, *STOPPED, *after, *traffic]


@pytest.mark.parametrize("kind", ["training", "throughput", "quality"])
def test_all_ranks_make_the_same_calls_in_the_same_order(kind: str, workload: NotedWorkload, tmp_path: Path) -> None:
    calls = {"gather", "broadcast", "barrier", "weights", "evaluate"}
    made = []
    for rank in (0, 1):
        folder = tmp_path / str(rank) / "attempt_0"
        folder.mkdir(parents=True)
        noted = measure(kind, workload, folder, rank)
        made.append([event for event in noted if event in calls or event.startswith("traffic")])
    assert made[0] == made[1] and made[0].count("gather") >= 4


def test_a_companion_that_the_workload_cannot_have_refuses_before_anything_is_built(
    workload: NotedWorkload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "__class__", ScriptedWorkload)
    with pytest.raises(ConfigError, match="does not hand out its weights"):
        measure("training", workload, tmp_path)
    assert "build" not in workload.events and not list(tmp_path.iterdir())


def test_after_an_error_no_companion_is_asked_any_more(workload: NotedWorkload, tmp_path: Path) -> None:
    workload.qualities = [float("nan")]
    with pytest.raises(NotFiniteError):
        measure("throughput", workload, tmp_path)
    assert workload.events[-1].startswith("train")
