"""The peak of training holds weights and optimizer state once, and little else; as torch's allocator counts."""

import json
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from reference_models.config.sections import parse_runtime, parse_train
from reference_models.data.registry import parse_data
from reference_models.dlrm.config import parse_model
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import Workload, WorkloadSpec

BATCH, STEPS = 64, 4
ROWS = [150_000, 3, 90_000, 60_000]
INTERACTIONS: dict[str, dict[str, Any]] = {
    "dot": {"interaction": "dot"},
    "dcn": {"interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 8},
}


def specification(opt_name: str, interaction: str) -> WorkloadSpec:
    """Tables of 19 MB, which are nearly all that the model holds; data in memory, none of it torch's own."""
    data = {"kind": "synthetic", "num_embeddings": ROWS, "num_dense": 4, "train_samples": BATCH * STEPS}
    layers = {"embedding_dim": 16, "bottom_mlp": [32, 16], "top_mlp": [32, 1], **INTERACTIONS[interaction]}
    return WorkloadSpec(
        model=parse_model(layers),
        data=parse_data(data),
        train=parse_train({"global_batch_size": BATCH, "opt_name": opt_name, "opt_base_learning_rate": 0.01}),
        runtime=parse_runtime({"threads": 1}),
        data_dir=Path(),
        seed=1,
    )


def live_bytes(profiled: Any, folder: Path) -> Iterator[int]:
    """Bytes that torch's CPU allocator has given out since profiling began and not got back, after each event.

    What was given out before counts nothing, nor when it is freed: an earlier model waits for the collector.
    """
    path = folder / "trace.json"
    profiled.export_chrome_trace(str(path))
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    assert all(event["args"]["Device Type"] == 0 for event in events)
    given: set[int] = set()
    changes = []
    for event in sorted(events, key=lambda event: event["args"]["Ev Idx"]):
        address, num_bytes = event["args"]["Addr"], event["args"]["Bytes"]
        if num_bytes > 0:
            given.add(address)
        if address in given:
            changes.append(num_bytes)
        if num_bytes < 0:
            given.discard(address)
    return accumulate(changes)


def held_bytes(workload: Workload) -> int:
    """Bytes of weights and optimizer state."""
    state = workload.state()
    sums = [entry for part in state["optimizers"] for held in part["state"].values() for entry in held.values()]
    tensors = [*state["model"].values(), *(entry for entry in sums if isinstance(entry, torch.Tensor))]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("interaction", ["dot", pytest.param("dcn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "opt_name", ["adagrad", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sgd", "rowwise_adagrad"))]
)
@pytest.mark.parametrize("implementation", ["reference", "optimized"])
def test_the_peak_is_little_above_weights_and_optimizer_state(
    tmp_path: Path, implementation: str, opt_name: str, interaction: str
) -> None:
    spec = specification(opt_name, interaction)
    workload = find_implementation("dlrm", implementation).load(spec, SingleProcess())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        workload.build()
        assert workload.train(STEPS).num_steps == STEPS
        workload.evaluate()
    held = held_bytes(workload)
    tables = sum(ROWS) * 16 * 4
    assert held > tables * (2 if opt_name == "adagrad" else 1)
    peak = max(live_bytes(profiled, tmp_path))
    assert held <= peak <= 1.15 * held
