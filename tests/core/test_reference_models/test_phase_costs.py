"""What phases count adds up to what models are published with, and to what torch counts."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from reference_models.config.sections import DataConfig
from reference_models.costs import Matmul, PhaseCosts
from reference_models.data.registry import parse_data
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.phases import DLRMPhase
from reference_models.dlrm.spec import SPEC

OFFICIAL_HOT = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]


def data_of(multi_hot: list[int], num_dense: int = 13) -> DataConfig:
    sizes = {"num_embeddings": [10] * len(multi_hot), "multi_hot": multi_hot, "num_dense": num_dense}
    return parse_data({"kind": "mlperf_multi_hot", "name": "any", **sizes})


def model_of(interaction: str, dim: int, bottom: list[int], top: list[int], **more: Any) -> DLRMConfig:
    layers = {"bottom_mlp": [*bottom, dim], "top_mlp": [*top, 1]}
    return parse_model({"interaction": interaction, "embedding_dim": dim, **layers, **more})


def counted(model: DLRMConfig, data: DataConfig, batch_size: int, **more: Any) -> dict[DLRMPhase, PhaseCosts]:
    options = {"opt_name": "adagrad", "unique_rows": batch_size, **more}
    return SPEC.costs.phases(model, data, batch_size=batch_size, **options)


def torch_flop(model: DLRMConfig, data: DataConfig, batch_size: int) -> tuple[int, int]:
    """Forward, and both passes, as FlopCounterMode counts them; it counts nothing for embedding bags."""
    sizes = {"num_dense": data.num_dense, "num_embeddings": [10] * data.num_sparse, "multi_hot": data.multi_hot}
    with torch.device("meta"):
        built = DLRM(model, **sizes)
        ids = torch.zeros(batch_size, data.num_lookups, dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            logits = built(torch.zeros(batch_size, data.num_dense), ids)
            forward = counter.get_total_flops()
            logits.sum().backward()
    return forward, counter.get_total_flops()


def test_the_official_dcnv2_and_the_papers_kaggle_model_have_their_published_flop() -> None:
    official = model_of("dcn", 128, [512, 256], [1024, 1024, 512, 256], dcn_num_layers=3, dcn_low_rank_dim=512)
    kaggle = model_of("dot", 16, [512, 256, 64], [512, 256])
    for model, hot, forward_flop, training_flop in (
        (official, OFFICIAL_HOT, 32.06e6, 96.2e6),
        (kaggle, [1] * 26, 2 * 0.486e6, 2.90e6),
    ):
        counts = counted(model, data_of(hot), 64)
        forward = sum(one.matmul_flop for phase, one in counts.items() if phase.endswith("_forward"))
        assert forward / 64 == pytest.approx(forward_flop, rel=1e-3)
        assert sum(one.matmul_flop for one in counts.values()) / 64 == pytest.approx(training_flop, rel=2e-3)


def test_the_official_dcnv2_by_part() -> None:
    """10.6 M multiply-adds in the cross layers, 5.2 M on top, 0.17 M at the bottom."""
    model = model_of("dcn", 128, [512, 256], [1024, 1024, 512, 256], dcn_num_layers=3, dcn_low_rank_dim=512)
    counts = counted(model, data_of(OFFICIAL_HOT), 10)
    parts = [DLRMPhase.INTERACTION_FORWARD, DLRMPhase.TOP_MLP_FORWARD, DLRMPhase.BOTTOM_MLP_FORWARD]
    assert [counts[part].matmul_flop / 2e7 for part in parts] == pytest.approx([10.6, 5.2, 0.17], rel=0.03)
    assert counts[DLRMPhase.EMBEDDING_FORWARD].rows == 10 * 214
    assert counts[DLRMPhase.EMBEDDING_FORWARD].bytes == 10 * (109_568 + 26 * 128 * 4 + 214 * 8)


widths = st.lists(st.integers(1, 9), max_size=3)


@settings(max_examples=examples(25))
@given(
    st.sampled_from(["dot", "cat", "dcn"]),
    st.integers(1, 8),
    widths,
    widths,
    st.lists(st.integers(1, 4), min_size=1),
    st.integers(1, 5),
    st.integers(1, 50),
)
def test_matmuls_are_those_that_torch_counts(
    interaction: str, dim: int, bottom: list[int], top: list[int], hot: list[int], num_dense: int, batch_size: int
) -> None:
    more = {"dcn_num_layers": 2, "dcn_low_rank_dim": 3} if interaction == "dcn" else {}
    model, data = model_of(interaction, dim, bottom, top, **more), data_of(hot, num_dense)
    counts = counted(model, data, batch_size)
    forward = sum(one.matmul_flop for phase, one in counts.items() if phase.endswith("_forward"))
    both = sum(one.matmul_flop for one in counts.values())
    assert (forward, both) == torch_flop(model, data, batch_size)
    assert both == batch_size * SPEC.costs.model(model, data).training_flop_per_sample


def test_rows_are_updated_once_however_often_they_are_looked_up() -> None:
    model, data = model_of("dot", 4, [], []), data_of([3, 2])
    few, many = (counted(model, data, 10, unique_rows=rows)[DLRMPhase.SPARSE_OPTIMIZER] for rows in (5, 50))
    assert (few.rows, many.rows) == (10, 100)  # a row and its state
    assert many.bytes == 10 * few.bytes == 50 * (3 * 4 + 2 * 4) * 4
    row_wise = counted(model, data, 10, unique_rows=50, opt_name="rowwise_adagrad")[DLRMPhase.SPARSE_OPTIMIZER]
    sgd = counted(model, data, 10, unique_rows=50, opt_name="sgd")[DLRMPhase.SPARSE_OPTIMIZER]
    assert (row_wise.bytes, sgd.bytes, sgd.rows) == (50 * (12 + 2) * 4, 50 * 12 * 4, 50)


def test_a_fused_update_neither_writes_nor_reads_the_rows_gradients() -> None:
    model, data = model_of("dot", 4, [], []), data_of([3, 2])
    apart = counted(model, data, 10, unique_rows=20)
    entered = set(DLRMPhase) - {DLRMPhase.EMBEDDING_BACKWARD}
    fused = counted(model, data, 10, unique_rows=20, entered=entered)
    both = apart[DLRMPhase.EMBEDDING_BACKWARD] + apart[DLRMPhase.SPARSE_OPTIMIZER]
    assert DLRMPhase.EMBEDDING_BACKWARD not in fused
    assert fused[DLRMPhase.SPARSE_OPTIMIZER].bytes == both.bytes - 2 * 20 * 4 * 4
    assert fused[DLRMPhase.SPARSE_OPTIMIZER].flop == both.flop


def test_a_product_and_its_transpose_have_one_shape() -> None:
    one, other = (Matmul(phase=DLRMPhase.LOSS, layer="any", num=1, m=m, k=5, n=n) for m, n in ((3, 7), (7, 3)))
    assert one.shape == other.shape
    assert one.flop == 2 * 3 * 5 * 7
    assert one.bytes == 4 * (15 + 35 + 21)


def test_counting_does_not_import_torch() -> None:
    code = "import sys, reference_models.dlrm.costs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
