"""d2nn_small as it is served: its quality is an accuracy, and its numbers are fp32."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
import torch
from few_patterns import small_tables

from harness.config.catalog import load_entry
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.model import ServedModel, build_served
from harness.extensions.serving.worker_pool import QueryPart
from harness.measure.kinds import Job
from harness.run_sets.dataset import ensure_dataset
from rules.benchmarks.loader import read_toml

pytestmark = pytest.mark.numeric


@pytest.fixture
def definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "few.toml"
    path.write_text(tomli_w.dumps(small_tables()))
    return path


def test_codes_are_refused(command: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = command("serve", "d2nn_small", "--target-latency", "25ms", "--set", "runtime.precision=int8")
    assert (code, out, len(err.splitlines())) == (2, "", 1) and "runtime.precision is 'int8', expected 'fp32'" in err


def share_right(served: ServedModel, num_samples: int) -> float:
    """The share of classes that answers to queries of 8 name right, of all tasks of so many samples."""
    places = range(num_samples // 8)
    right = [
        served.answer([QueryPart(place, 0, 8)]).argmax(-1) == served.pool[place].classes  # [8, T]
        for place in places
    ]
    return float(torch.cat(right).float().mean())


@pytest.mark.slow
def test_what_is_served_has_its_accuracy_and_none_where_weights_are_random(definition: Path, tmp_path: Path) -> None:
    entry = load_entry(definition)
    data_dir = ensure_dataset(entry.workload.data, tmp_path / "data", num_threads=1)
    job = Job(
        tables=read_toml(definition),
        definition_path=str(definition),
        data_dir=str(data_dir),
        seed=3,
        folder=str(tmp_path),
    )
    benchmark, config = job.parse()
    asked = {"scenario": "offline", "queries": "fixed:8"}
    for more, has_quality in (({"train_samples": 640}, True), ({}, False)):
        served, quality = build_served(job, benchmark, config, parse_serve(asked | more), with_quality=True)
        assert served.servable.served_bytes.total_bytes == 4 * 16**2 * entry.workload.model.num_shared_masks + 4 * (
            16**2 * 2 * entry.workload.model.num_task_masks
        )
        assert (quality is not None) == has_quality
        if quality is not None:
            assert quality.auc is quality.auc_ratio is quality.mlperf_class is None
            assert quality.accuracy == pytest.approx(share_right(served, 64))
            assert quality.accuracy_ratio == 1
            assert quality.normalised_entropy == pytest.approx(quality.log_loss / 1.386, rel=0.1)
