"""Counts match the published figures of the models they describe."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from reference_models.config.sections import DataConfig, TrainConfig, parse_train
from reference_models.data.registry import parse_data
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.costs import interaction_width
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.spec import SPEC
from reference_models.process.errors import ConfigError

DCNV2_ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4,
    976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
DCNV2_MULTI_HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


@pytest.fixture
def dcnv2() -> tuple[DLRMConfig, DataConfig]:
    """The official DLRM-DCNv2."""
    model = parse_model(
        {
            "interaction": "dcn",
            "embedding_dim": 128,
            "bottom_mlp": [512, 256, 128],
            "top_mlp": [1024, 1024, 512, 256, 1],
            "dcn_num_layers": 3,
            "dcn_low_rank_dim": 512,
        }
    )
    sizes = {"num_embeddings": list(DCNV2_ROWS), "multi_hot": list(DCNV2_MULTI_HOT)}
    return model, parse_data({"kind": "mlperf_multi_hot", "name": "criteo_1tb_multi_hot", **sizes})


@pytest.fixture
def kaggle() -> tuple[DLRMConfig, DataConfig]:
    """The DLRM paper's Criteo Kaggle model; its tables' sizes come with the data."""
    layers = {"bottom_mlp": [512, 256, 64, 16], "top_mlp": [512, 256, 1]}
    model = parse_model({"interaction": "dot", "embedding_dim": 16, **layers})
    return model, parse_data({"kind": "criteo", "name": "kaggle"})


def adagrad(**keys: float) -> TrainConfig:
    base = {"global_batch_size": 1024, "opt_name": "adagrad", "opt_base_learning_rate": 0.01}
    return parse_train(base | keys)


def test_official_dcnv2(dcnv2: tuple[DLRMConfig, DataConfig]) -> None:
    counts = SPEC.costs.model(*dcnv2)
    assert counts.num_embedding_rows == 204_184_588
    assert counts.num_lookups_per_sample == 214
    assert counts.embedding_bytes_per_sample == 109_568
    assert counts.embedding_bytes / 1e9 == pytest.approx(104.5, abs=0.05)
    assert counts.forward_flop_per_sample / 1e6 == pytest.approx(32.06, abs=0.005)
    assert counts.training_flop_per_sample / 1e6 == pytest.approx(96.2, abs=0.05)


def test_official_dcnv2_by_part(dcnv2: tuple[DLRMConfig, DataConfig]) -> None:
    """10.6 M multiply-adds in the cross layers, 5.2 M in the top MLP, 0.17 M in the bottom MLP."""
    model, data = dcnv2
    wide = interaction_width(model, data.num_sparse)
    assert wide == 27 * 128
    without_cross = SPEC.costs.model(replace(model, interaction="cat", dcn_num_layers=0), data)
    cross = (SPEC.costs.model(model, data).forward_flop_per_sample - without_cross.forward_flop_per_sample) // 2
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    assert cross / 1e6 == pytest.approx(10.6, abs=0.05)
    assert bottom / 1e6 == pytest.approx(0.17, abs=0.005)
    assert (without_cross.forward_flop_per_sample // 2 - bottom) / 1e6 == pytest.approx(5.2, abs=0.05)


def test_kaggle_shape(kaggle: tuple[DLRMConfig, DataConfig]) -> None:
    counts = SPEC.costs.model(*kaggle, num_embeddings=[100] * 26)
    assert counts.forward_flop_per_sample / 2e6 == pytest.approx(0.486, abs=0.0005)
    assert counts.training_flop_per_sample / 1e6 == pytest.approx(2.90, abs=0.005)


def test_tables_of_unknown_size_are_an_error_that_says_what_to_do(kaggle: tuple[DLRMConfig, DataConfig]) -> None:
    with pytest.raises(ConfigError, match=r"'kaggle'.*once it is prepared.*data prepare"):
        SPEC.costs.model(*kaggle)


def test_dcnv2_with_capped_tables_has_the_counted_parameters(dcnv2: tuple[DLRMConfig, DataConfig]) -> None:
    model, data = dcnv2
    capped = tuple(min(rows, 50) for rows in DCNV2_ROWS)
    built = DLRM(model, num_dense=13, num_embeddings=capped, multi_hot=DCNV2_MULTI_HOT)
    assert SPEC.costs.model(model, data, capped).num_parameters == sum(p.numel() for p in built.parameters())


@pytest.mark.parametrize(("opt_name", "floats_per_row"), [("sgd", 0), ("rowwise_adagrad", 1), ("adagrad", 128)])
def test_optimizer_state_is_counted_per_row(
    dcnv2: tuple[DLRMConfig, DataConfig], opt_name: str, floats_per_row: int
) -> None:
    train = parse_train({"global_batch_size": 1, "opt_name": opt_name, "opt_base_learning_rate": 0.1})
    estimate = SPEC.costs.memory(*dcnv2, train, eval_samples=1000)
    dense = SPEC.costs.model(*dcnv2).num_dense_parameters if opt_name != "sgd" else 0
    assert estimate.optimizer_bytes == 4 * (floats_per_row * 204_184_588 + dense)
    assert estimate.weights_bytes / 1e9 == pytest.approx(104.6, abs=0.05)


@pytest.mark.parametrize("name", ["dcnv2", "kaggle"])
def test_activations_are_close_to_what_autograd_saves(name: str, request: pytest.FixtureRequest) -> None:
    model, data = request.getfixturevalue(name)
    batch_size, rows = 64, (50,) * 26
    built = DLRM(model, num_dense=13, num_embeddings=rows, multi_hot=data.multi_hot)
    weights = {p.untyped_storage().data_ptr() for p in [*built.parameters(), *built.buffers()]}
    saved: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    indices = torch.randint(0, 50, (batch_size, data.num_lookups))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logits = built(torch.rand(batch_size, 13), indices)
    estimate = SPEC.costs.memory(model, data, adagrad(global_batch_size=64), eval_samples=1, num_embeddings=rows)
    assert logits.shape == (batch_size,)
    assert 1.0 <= estimate.activations_bytes / sum(saved.values()) <= 1.6


def test_the_larger_of_training_and_evaluation_decides_the_peak(kaggle: tuple[DLRMConfig, DataConfig]) -> None:
    few, many = (
        SPEC.costs.memory(*kaggle, adagrad(), eval_samples=n, num_embeddings=[10] * 26) for n in (1000, 10**9)
    )
    held = few.weights_bytes + few.optimizer_bytes
    assert few.total_bytes == held + few.gradients_bytes + few.activations_bytes
    assert many.total_bytes == held + many.evaluation_bytes > 10**10


def test_counting_does_not_import_torch() -> None:
    code = "import sys, reference_models.dlrm.costs; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
