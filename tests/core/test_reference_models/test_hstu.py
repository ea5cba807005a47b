"""HSTU is what its formula says, sees what it may see, and both implementations are one model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import is_as_near, sway_of, weights_of
from sequence_builder import CONFIG, make_batch, small_workload
from torch.utils.flop_counter import FlopCounterMode

from harness.config.describe import describe_benchmark
from harness.run_sets.dataset import ensure_dataset
from reference_models.hstu.baselines import MeanHistory
from reference_models.hstu.config import HSTUConfig, SequenceShape
from reference_models.hstu.fused_layers import FusedHSTU
from reference_models.hstu.model import HSTU, HSTULayer
from reference_models.hstu.sequences import Sequences, make_synthetic_sequences
from reference_models.hstu.spec import SPEC
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training.workload import Workload

pytestmark = pytest.mark.numeric
NUM_ITEMS, NUM_ARTISTS = 9, 4


def build(model: type[HSTU] = HSTU, config: HSTUConfig = CONFIG, seed: int = 1) -> HSTU:
    """A model in double precision whose every weight matters: tables and norms are not at their small beginnings."""
    torch.manual_seed(seed)
    built = model(config, num_items=NUM_ITEMS, num_artists=NUM_ARTISTS).double()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return built


def norm(x: np.ndarray, layer: torch.nn.LayerNorm) -> np.ndarray:
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return np.array([(value - mean) / math.sqrt(variance + 1e-6) for value in x]) * weight + bias


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def layer_by_loops(layer: HSTULayer, tokens: np.ndarray, num_past: int, max_length: int) -> np.ndarray:
    """The formula, token by token and pair by pair, in float64."""
    heads, width = layer.num_heads, layer.width
    weight, bias = layer.uvqk.weight.detach().numpy(), layer.uvqk.bias.detach().numpy()
    parts = [np.split(weight @ norm(token, layer.input_norm) + bias, 4) for token in tokens]
    made = []
    for row, token in enumerate(tokens):
        u, a = silu(parts[row][0]), np.zeros(heads * width)
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            for column in range(len(tokens)):
                if column == row or column < min(row, num_past):
                    score = sum(parts[row][2][part] * parts[column][3][part]) / math.sqrt(width)
                    a[part] += silu(score) / max_length * parts[column][1][part]
        joined = np.concatenate([u, a, u * norm(a, layer.output_norm)])
        made.append(token + layer.output.weight.detach().numpy() @ joined)
    return np.array(made)


def mlp_by_loops(mlp: torch.nn.Sequential, x: np.ndarray) -> np.ndarray:
    for part in mlp:
        if isinstance(part, torch.nn.Linear):
            x = part.weight.detach().numpy() @ x + part.bias.detach().numpy()
        else:
            inner = getattr(part, "norm", None)
            x = norm(x, part) if inner is None else x / (1 + np.exp(-norm(x, inner)))  # type: ignore[arg-type]
    return x


def logits_by_loops(model: HSTU, batch: Sequences) -> list[float]:
    """All of the model for every sequence by itself."""
    table, artists = (each.weight.detach().numpy() for each in (model.item_table, model.artist_table))
    actions, ages = model.actions.detach().numpy(), model.ages.detach().numpy()
    past_begin = begin = 0
    logits = []
    for num_past, num in zip(batch.past_lengths, batch.lengths, strict=True):
        scale = math.sqrt(table.shape[1])
        places = range(past_begin, past_begin + num_past)
        past = [
            scale * (table[batch.past_items[i]] + artists[batch.past_artists[i]])
            + actions[batch.past_actions[i]]
            + ages[num_past - place]
            for place, i in enumerate(places)
        ]
        items = [table[batch.items[i]] + artists[batch.artists[i]] for i in range(begin, begin + num)]
        tokens = np.array([*past, *(scale * item + actions[2] + ages[0] for item in items)])
        for layer in model.layers:
            assert isinstance(layer, HSTULayer)
            tokens = layer_by_loops(layer, tokens, num_past, model.max_length)
        for item, token in zip(items, tokens[num_past:], strict=True):
            user = norm(token, model.output_norm)
            logits.append(float(mlp_by_loops(model.head, user * mlp_by_loops(model.item_mlp, item))[0]))
        past_begin, begin = past_begin + num_past, begin + num
    return logits


BOTH = pytest.mark.parametrize("model", [HSTU, FusedHSTU])


@BOTH
def test_it_equals_loops_written_from_the_formula(model: type[HSTU]) -> None:
    batch = make_batch([5, 0, 3, 5], [3, 2, 4, 3])
    built = build(model)
    torch.testing.assert_close(built(batch).tolist(), logits_by_loops(built, batch), rtol=1e-10, atol=1e-10)


def test_a_past_event_changes_nothing_before_it() -> None:
    layer = build().layers[0]
    mask = torch.ones(9, 9).tril().double()
    x = torch.randn(1, 9, CONFIG.embedding_dim, dtype=torch.float64)
    before = layer(x, mask.unsqueeze(0))
    for changed in range(9):
        other = x.clone()
        other[0, changed, 0] += 1.0
        after = layer(other, mask.unsqueeze(0))
        assert torch.equal(after[0, :changed], before[0, :changed])
        assert not torch.isclose(after[0, changed:], before[0, changed:]).all(dim=1).any()


@BOTH
def test_every_past_event_matters_to_every_candidate_and_no_candidate_to_another(model: type[HSTU]) -> None:
    built = build(model)
    batch = make_batch([6, 4], [3, 2], num_items=NUM_ITEMS - 1, num_artists=NUM_ARTISTS - 1)
    before = built(batch)

    def change(name: str, place: int) -> list[bool]:
        ids = getattr(batch, name).clone()
        ids[place] = {"items": NUM_ITEMS - 1, "artists": NUM_ARTISTS - 1, "actions": 2}[name.removeprefix("past_")]
        return (~torch.isclose(built(replace(batch, **{name: ids})), before, rtol=0, atol=1e-12)).tolist()

    for name in ("items", "artists"):
        for candidate in range(5):
            assert change(name, candidate) == [other == candidate for other in range(5)]
    for name in ("past_items", "past_artists", "past_actions"):
        for event in range(10):
            assert change(name, event) == [event < 6] * 3 + [event >= 6] * 2


def one_by_one(batch: Sequences) -> list[Sequences]:
    """Each sequence alone, so that nothing is padded."""
    pasts = torch.tensor([0, *batch.past_lengths]).cumsum(0).tolist()
    begins = torch.tensor([0, *batch.lengths]).cumsum(0).tolist()
    return [
        Sequences(
            past_items=batch.past_items[p:q],
            past_artists=batch.past_artists[p:q],
            past_actions=batch.past_actions[p:q],
            past_ages=batch.past_ages[p:q],
            past_lengths=(q - p,),
            items=batch.items[a:b],
            artists=batch.artists[a:b],
            lengths=(b - a,),
            labels=batch.labels[a:b],
        )
        for p, q, a, b in zip(pasts, pasts[1:], begins, begins[1:], strict=False)
    ]


@settings(max_examples=examples(20))
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4)), min_size=1, max_size=5), st.integers(0, 9))
def test_padded_equals_jagged_values_and_gradients(shapes: list[tuple[int, int]], seed: int) -> None:
    batch = make_batch([past for past, _ in shapes], [num for _, num in shapes], seed=seed)
    padded, fused = build(HSTU), build(FusedHSTU)
    found = padded(batch)
    torch.testing.assert_close(torch.cat([padded(each) for each in one_by_one(batch)]), found)
    torch.testing.assert_close(fused(batch), found)
    weights = torch.randn(len(found), dtype=torch.float64)
    for model in (padded, fused):
        (model(batch) * weights).sum().backward()
    for (name, expected), other in zip(padded.named_parameters(), fused.parameters(), strict=True):
        assert expected.grad is not None and other.grad is not None
        torch.testing.assert_close(other.grad.to_dense(), expected.grad.to_dense(), msg=lambda m, n=name: f"{n}: {m}")


def test_a_sequence_longer_than_the_definitions_is_refused() -> None:
    for model in (HSTU, FusedHSTU):
        with pytest.raises(ValueError, match="a sequence of 13 events and candidates, expected at most 12"):
            build(model)(make_batch([9, 2], [4, 1]))


def test_flop_are_those_of_torchs_counter() -> None:
    data = small_workload().data
    for config in (
        HSTUConfig(
            embedding_dim=6,
            num_layers=3,
            num_heads=2,
            attention_dim=5,
            item_mlp=7,
            head_mlp=9,
            max_sequence_length=16,
        ),
        small_workload().model,
    ):
        model = HSTU(config, num_items=80, num_artists=16)
        batch = make_synthetic_sequences(20, SequenceShape(num_past=config.max_sequence_length - 4, num_candidates=4))
        with FlopCounterMode(display=False) as counter:
            logits = model(batch)
            forward = counter.get_total_flops()
            logits.sum().backward()
        matmuls = SPEC.costs.matmuls(config, data, 20)
        assert sum(m.flop for m in matmuls if m.phase.endswith("_forward")) == forward
        assert sum(m.flop for m in matmuls) == counter.get_total_flops()
        costs = SPEC.costs.model(config, data)
        assert costs.training_flop_per_sample == counter.get_total_flops() // 20
        assert costs.num_parameters == sum(parameter.numel() for parameter in model.parameters())


def test_flop_at_full_size_are_those_of_mlperfs_formula() -> None:
    """L (3 2 S D H (2 dqk + 2 dv) + 3.5 2 S^2/2 H (dqk + dv) + 3 2 S 3 H dv D) = 315.7 G a sample: half of all pairs,
    as causal attention needs them, and one product more in its backward pass, as fused kernels make it."""
    data = small_workload(parameters={"events_per_window": 1}, data={"train_samples": 1536, "eval_samples": 64}).data
    config = HSTUConfig(
        embedding_dim=512,
        num_layers=3,
        num_heads=4,
        attention_dim=128,
        item_mlp=512,
        head_mlp=512,
        max_sequence_length=4096,
    )
    layers = [matmul for matmul in SPEC.costs.matmuls(config, data, 1) if matmul.layer.startswith("layers.")]
    pairs = sum(matmul.flop for matmul in layers if matmul.layer.endswith((".qk", ".av")))
    assert sum(m.flop for m in layers) - pairs + pairs * 3.5 / 3 / 2 == pytest.approx(315.7e9, rel=1e-3)


@pytest.mark.slow
def test_both_implementations_train_the_same_model(tmp_path: Path) -> None:
    """Same weights, same batches: twelve steps end where rounding leaves them.

    Adam's epsilon is of the gradients' size: with less, its first steps are their signs, whatever they round to.
    """
    config = small_workload(train={"opt_adam_epsilon": 1e-3})
    folder = ensure_dataset(config.data, tmp_path, num_threads=1)

    def build(name: str) -> Workload:
        workload = find_implementation("hstu", name).load(config.spec(folder, 3), SingleProcess())
        workload.build()
        return workload

    found, drawn = [], []
    for name in ("reference", "optimized"):
        found.append(build(name))
        assert found[-1].train(12).num_samples == 1536
        drawn.append(found[-1].state()["rng"])
    assert torch.equal(*drawn)
    bound = sway_of(found[0], lambda: build("reference"), 12, has_relu=False)
    assert is_as_near(weights_of(found[1]), *bound)
    assert found[0].evaluate() == pytest.approx(found[1].evaluate(), abs=1e-3)


def test_what_departs_from_the_official_model_is_shown_with_the_benchmark() -> None:
    assert any("departs from MLPerf's reference" in note for note in describe_benchmark("dlrmv4_small")["notes"])


def test_the_baseline_sees_of_a_history_no_more_than_its_mean() -> None:
    """Candidates of a sequence have equal codes, which the order of the past changes by rounding alone."""
    model, batch = build(MeanHistory), make_batch((5, 3), (2, 3))
    order = torch.tensor([4, 2, 0, 1, 3, 7, 5, 6])
    turned = replace(
        batch,
        past_items=batch.past_items[order],
        past_artists=batch.past_artists[order],
        past_actions=batch.past_actions[order],
        past_ages=batch.past_ages[order],
    )
    codes = []
    for each in (batch, turned):
        encoded = model.encode(torch.split(model.read_rows(each), [8, 5]), each)
        assert encoded.shape == (5, CONFIG.embedding_dim)
        assert torch.equal(encoded[:2], encoded[:1].expand(2, -1))
        assert torch.equal(encoded[2:], encoded[2:3].expand(3, -1))
        codes.append(encoded)
    assert torch.allclose(codes[0], codes[1], rtol=0, atol=1e-12)
    assert not torch.allclose(codes[0][0], codes[0][2])
