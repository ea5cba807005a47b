"""Telling phases names every part of a step and changes no number."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.config.catalog import load_entry
from reference_models.dlrm.config import parse_model
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.phases import DLRMPhase
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.process.world import SingleProcess
from reference_models.training.phases import ReportsPhases, ignore_phase

pytestmark = pytest.mark.numeric

STEP = [
    DLRMPhase.DATA, DLRMPhase.BOTTOM_MLP_FORWARD, DLRMPhase.EMBEDDING_FORWARD, DLRMPhase.INTERACTION_FORWARD,
    DLRMPhase.TOP_MLP_FORWARD,
    DLRMPhase.LOSS, DLRMPhase.ZERO_GRAD, DLRMPhase.LOSS, DLRMPhase.TOP_MLP_BACKWARD, DLRMPhase.INTERACTION_BACKWARD,
    DLRMPhase.EMBEDDING_BACKWARD, DLRMPhase.BOTTOM_MLP_BACKWARD, DLRMPhase.SPARSE_OPTIMIZER,
    DLRMPhase.DENSE_OPTIMIZER,
]  # fmt: skip


@pytest.fixture
def workloads(data_root: Path) -> list[ReferenceWorkload]:
    """Two of the same seed."""
    entry = load_entry("dlrm_tiny").workload
    (folder,) = data_root.glob(f"{entry.data.name}-*")
    made = [ReferenceWorkload(entry.spec(folder, seed=3), SingleProcess()) for _ in range(2)]
    for workload in made:
        workload.build()
    return made


def test_every_step_goes_through_the_phases_in_order(workloads: list[ReferenceWorkload]) -> None:
    reported: list[str] = []
    assert isinstance(workloads[0], ReportsPhases)
    with workloads[0].report_phases(reported.append):
        workloads[0].train(2)
    assert reported == [*STEP, *STEP, DLRMPhase.OTHER]
    workloads[0].train(1)
    assert len(reported) == 2 * len(STEP) + 1  # nothing is reported any more


def test_every_operation_of_a_step_belongs_to_a_named_phase(workloads: list[ReferenceWorkload]) -> None:
    def count(num_steps: int) -> Counter[str]:
        entered, counts = [str(DLRMPhase.OTHER)], Counter[str]()

        class CountsOperations(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                counts[entered[-1]] += 1
                return func(*args, **(kwargs or {}))

        with workloads[0].report_phases(entered.append), CountsOperations():
            workloads[0].train(num_steps)
        return counts

    one_step, five_steps = count(1), count(5)
    assert one_step[DLRMPhase.OTHER] == five_steps[DLRMPhase.OTHER] < 10  # once per call: the sum of the losses
    assert set(STEP) - set(one_step) <= {DLRMPhase.ZERO_GRAD}  # which only frees


def test_reporting_phases_changes_no_weight(workloads: list[ReferenceWorkload]) -> None:
    with workloads[0].report_phases(lambda phase: None):
        workloads[0].train(3)
    workloads[1].train(3)
    first, second = (workload.state()["model"] for workload in workloads)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("interaction", ["dot", "cat", "dcn"])
def test_the_models_phases_come_in_order_whatever_the_interaction(interaction: str) -> None:
    layers: dict[str, Any] = {"embedding_dim": 4, "bottom_mlp": [4], "top_mlp": [3, 1], "interaction": interaction}
    layers |= {"dcn_num_layers": 2, "dcn_low_rank_dim": 2} if interaction == "dcn" else {}
    model = DLRM(parse_model(layers), num_dense=2, num_embeddings=[5, 6], multi_hot=[1, 2])
    reported: list[str] = []
    model.enter = reported.append
    model(torch.rand(7, 2), torch.zeros(7, 3, dtype=torch.int64)).sum().backward()
    model.enter = ignore_phase
    assert reported == [*STEP[1:6], *STEP[8:12]]
    with torch.no_grad():
        model(torch.rand(7, 2), torch.zeros(7, 3, dtype=torch.int64))
    assert len(reported) == 9


def test_phases_are_reported_until_a_failure_and_not_after_it(workloads: list[ReferenceWorkload]) -> None:
    reported: list[str] = []
    with pytest.raises(KeyError), workloads[0].report_phases(reported.append):
        raise KeyError
    workloads[0].train(1)
    assert reported == []
