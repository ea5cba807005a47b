"""DLRM and DLRM-DCNv2 compute what an independent forward pass computes, and count as the papers count."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.utils.flop_counter import FlopCounterMode

from reference_models.data.registry import parse_data
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.spec import SPEC
from reference_models.process.errors import ConfigError

pytestmark = pytest.mark.numeric

NUM_EMBEDDINGS, MULTI_HOT, NUM_DENSE, DIM, BATCH = (5, 4, 3), (1, 3, 2), 6, 4, 7
INTERACTIONS = ("dot", "dcn", "cat")


def small_config(interaction: str) -> DLRMConfig:
    table = {"interaction": interaction, "embedding_dim": DIM, "bottom_mlp": [8, DIM], "top_mlp": [9, 5, 1]}
    if interaction == "dcn":
        table |= {"dcn_num_layers": 3, "dcn_low_rank_dim": 2}
    return parse_model(table)


def small_model(interaction: str) -> DLRM:
    torch.manual_seed(0)
    return DLRM(
        small_config(interaction), num_dense=NUM_DENSE, num_embeddings=NUM_EMBEDDINGS, multi_hot=MULTI_HOT
    ).double()


def small_batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    dense = torch.rand(BATCH, NUM_DENSE, generator=generator, dtype=torch.float64)
    columns = [
        torch.randint(0, rows, (BATCH, hot), generator=generator)
        for rows, hot in zip(NUM_EMBEDDINGS, MULTI_HOT, strict=True)
    ]
    return dense, torch.cat(columns, dim=1)


def numpy_forward(
    weights: dict[str, NDArray[np.float64]], interaction: str, dense: torch.Tensor, ids: torch.Tensor
) -> NDArray[np.float64]:
    """One sample at a time, from the formulas: MLPs, sums of rows, then dot products, crosses or nothing."""

    def mlp(name: str, x: NDArray[np.float64], *, ends_in_logit: bool) -> NDArray[np.float64]:
        layers = sorted({int(key.split(".")[1]) for key in weights if key.startswith(name)})
        for layer in layers:
            x = weights[f"{name}.{layer}.weight"] @ x + weights[f"{name}.{layer}.bias"]
            x = x if ends_in_logit and layer == layers[-1] else np.maximum(x, 0)
        return x

    logits = []
    for sample_dense, sample_ids in zip(dense.numpy(), ids.tolist(), strict=True):
        vectors, column = [mlp("bottom_mlp", sample_dense, ends_in_logit=False)], 0
        for feature, hot in enumerate(MULTI_HOT):
            rows = sample_ids[column : column + hot]
            vectors.append(sum(weights[f"embedding_bags.{feature}.weight"][row] for row in rows))
            column += hot
        if interaction == "dot":
            pairs = [vectors[i] @ vectors[j] for i in range(len(vectors)) for j in range(i)]
            x = np.concatenate([vectors[0], pairs])
        else:
            x = x_0 = np.concatenate(vectors)
        for layer in range(3 if interaction == "dcn" else 0):
            w, v, bias = (weights[f"interaction.{part}.{layer}"] for part in ("w", "v", "bias"))
            x = x_0 * (w @ (v @ x) + bias) + x
        logits.append(mlp("top_mlp", x, ends_in_logit=True)[0])
    return np.array(logits)


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_logits_equal_an_independent_forward_pass(interaction: str) -> None:
    model, (dense, ids) = small_model(interaction), small_batch()
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    expected = numpy_forward(weights, interaction, dense, ids)
    assert np.ptp(expected) > 1e-3, "the samples must differ for this to show anything"
    np.testing.assert_allclose(model(dense, ids).detach().numpy(), expected, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_gradients_of_every_dense_weight_match_finite_differences(interaction: str) -> None:
    model, (dense, ids) = small_model(interaction), small_batch()
    names = [name for name, _ in model.named_parameters() if not name.startswith("embedding_bags.")]
    weights = [model.get_parameter(name) for name in names]

    def logits(*values: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(model, dict(zip(names, values, strict=True)), (dense, ids))
        return out

    assert torch.autograd.gradcheck(logits, tuple(weights))


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_gradients_of_the_tables_match_finite_differences(interaction: str) -> None:
    model, (dense, ids) = small_model(interaction), small_batch()
    model(dense, ids).sum().backward()
    for parameter in model.embedding_parameters():
        assert parameter.grad is not None
        grad, step = parameter.grad.to_dense(), 1e-6
        for row, column in np.ndindex(*parameter.shape):
            with torch.no_grad():
                parameter[row, column] += step
                above = model(dense, ids).sum()
                parameter[row, column] -= 2 * step
                below = model(dense, ids).sum()
                parameter[row, column] += step
            assert grad[row, column].item() == pytest.approx((above - below).item() / (2 * step), abs=1e-6)


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_costs_equal_the_built_model_and_torch_counting_flop(interaction: str) -> None:
    data = parse_data(
        {
            "kind": "click_log",
            "name": "x",
            "train_samples": 1,
            "eval_samples": 1,
            "seed": 0,
            "num_dense": NUM_DENSE,
            "num_embeddings": list(NUM_EMBEDDINGS),
            "multi_hot": list(MULTI_HOT),
        }
    )
    counts, model = SPEC.costs.model(small_config(interaction), data), small_model(interaction)
    assert counts.num_embedding_parameters == sum(p.numel() for p in model.embedding_parameters())
    assert counts.num_dense_parameters == sum(p.numel() for p in model.dense_parameters())
    assert counts.num_parameters == sum(p.numel() for p in model.parameters())
    dense, ids = small_batch()
    with FlopCounterMode(display=False) as counter:
        logits = model(dense, ids)
    assert counter.get_total_flops() == BATCH * counts.forward_flop_per_sample
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    total = counter.get_total_flops() + backward.get_total_flops()
    assert total == BATCH * counts.training_flop_per_sample


def test_embedding_and_dense_parameters_are_all_and_share_none() -> None:
    model = small_model("dcn")
    parts = model.embedding_parameters() + model.dense_parameters()
    assert {id(p) for p in parts} == {id(p) for p in model.parameters()}
    assert len(parts) == len(list(model.parameters()))


def test_a_seed_makes_a_model() -> None:
    first, second = small_model("dot").state_dict(), small_model("dot").state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bottom_mlp": [8, 5]}, r"model\.bottom_mlp is \[8, 5\], expected a last width of model\.embedding_dim"),
        ({"top_mlp": [8, 2]}, r"model\.top_mlp is \[8, 2\], expected a last width of 1"),
        ({"interaction": "dto"}, r"model\.interaction is 'dto'.*'dot'"),
        ({"dcn_num_layers": 3}, r"model\.interaction is 'dot', expected 'dcn'"),
        ({"interaction": "dcn"}, r"model\.dcn_num_layers is missing"),
        ({"embedding_dim": True}, r"model\.embedding_dim is True, expected a whole number"),
        ({"top_mpl": [1]}, r"unknown key model\.top_mpl.*'top_mlp'"),
    ],
)
def test_configuration_errors_name_the_field(change: dict[str, object], message: str) -> None:
    table = {"interaction": "dot", "embedding_dim": 4, "bottom_mlp": [8, 4], "top_mlp": [8, 1]}
    with pytest.raises(ConfigError, match=message):
        parse_model(table | change)
