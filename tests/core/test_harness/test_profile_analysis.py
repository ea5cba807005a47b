"""What bounds a phase and a step, from invented ceilings and times; and both sides of a measured ridge."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.profile.analysis import (
    OVERHEAD_BELOW,
    analyse_phases,
    analyse_step,
    compute_ceilings,
    find_bound,
    move_s,
    phase_limit_s,
)
from harness.measure.profile.measure_ceilings import measure_ceilings, measure_matmul
from reference_models.config.sections import DataConfig
from reference_models.costs import Matmul, PhaseCosts
from reference_models.data.registry import parse_data
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.phases import LABELS, DLRMPhase
from reference_models.dlrm.spec import SPEC
from rules.records.profile import (
    CeilingsRecord,
    CopyRate,
    GatherRate,
    LayerProduct,
    MeasuredCeilings,
    Rate,
    SquareProduct,
)

BATCH = 512


def problem(tables: int, lookups: int, top: list[int]) -> tuple[DLRMConfig, DataConfig]:
    model = {"interaction": "cat", "embedding_dim": 16, "bottom_mlp": [16], "top_mlp": [*top, 1]}
    data = {"num_embeddings": [20_000] * tables, "multi_hot": [lookups] * tables, "num_dense": 1}
    return parse_model(model), parse_data({"kind": "mlperf_multi_hot", "name": "any", **data})


MATMUL_ONLY = problem(1, 1, [512, 512])
LOOKUP_ONLY = problem(20, 20, [])


def counts_of(model: DLRMConfig, data: DataConfig) -> dict[DLRMPhase, PhaseCosts]:
    return SPEC.costs.phases(
        model,
        data,
        batch_size=BATCH,
        opt_name="sgd",
        unique_rows=BATCH * data.num_lookups,
    )


def steady(value: float) -> Rate:
    return Rate(best=value, median=value / 2)


def ceilings_of(
    matmuls: tuple[Matmul, ...], *, flop_per_s: float = 1e9, bytes_per_s: float = 1e8, rows_per_s: float = 1e6
) -> CeilingsRecord:
    def matmul(num: int, m: int, k: int, n: int, rate: float) -> LayerProduct:
        return LayerProduct(num=num, m=m, k=k, n=n, layout="any", flop_per_s=steady(rate), used_by=("any",))

    gather = GatherRate(ids="any", method="any", table_rows=9, row_bytes=64, rows_per_s=steady(rows_per_s))
    return compute_ceilings(
        MeasuredCeilings(
            matmul=tuple(matmul(*shape, flop_per_s) for shape in {product.shape for product in matmuls}),
            square=(SquareProduct(num=1, m=8, k=8, n=8, layout="any", flop_per_s=steady(2 * flop_per_s)),),
            copies=(
                CopyRate(bytes=1000, bytes_per_s=steady(10 * bytes_per_s)),
                CopyRate(bytes=10**9, bytes_per_s=steady(bytes_per_s)),
            ),
            random_rows=gather,
            batch_rows=gather,
            transfer=None,
        )
    )


def side_of_ridge(model: DLRMConfig, data: DataConfig, ceilings: CeilingsRecord) -> str:
    counts = counts_of(model, data)
    step = analyse_step(1.0, (), counts, (), ceilings, BATCH)
    assert step.flop_per_byte == sum(phase.flop for phase in counts.values()) / step.bytes
    return step.ridge_side


def test_a_matmul_only_and_a_lookup_only_model_are_on_the_two_sides_of_a_ridge() -> None:
    ceilings = ceilings_of(())
    assert ceilings.computed.ridge_flop_per_byte == pytest.approx(2e9 / 1e8)
    sides = [side_of_ridge(*shape, ceilings) for shape in (MATMUL_ONLY, LOOKUP_ONLY)]
    assert sides == ["compute", "memory"]
    assert counts_of(*LOOKUP_ONLY)[DLRMPhase.EMBEDDING_FORWARD].flop * 4 < step_bytes(LOOKUP_ONLY)


def step_bytes(one: tuple[DLRMConfig, DataConfig]) -> int:
    return sum(counts.bytes for counts in counts_of(*one).values())


@pytest.mark.long
def test_they_lie_there_with_the_ceilings_of_this_very_machine() -> None:
    for (model, data), side in ((MATMUL_ONLY, "compute"), (LOOKUP_ONLY, "memory")):
        measured = measure_ceilings(
            SPEC.costs.matmuls(model, data, BATCH),
            batches_ids=[torch.randint(0, 20_000, (BATCH, data.num_lookups))],
            num_embeddings=data.num_embeddings or (),
            multi_hot=data.multi_hot,
            embedding_dim=16,
            device=torch.device("cpu"),
            dtype=torch.float32,
            available_bytes=1 << 30,
        )
        assert side_of_ridge(model, data, compute_ceilings(measured)) == side
        assert all(product.flop_per_s.best >= product.flop_per_s.median > 0 for product in measured.matmul)
        assert measured.copies[-1].bytes_per_s.best >= measured.copies[-1].bytes_per_s.median > 0


@pytest.mark.parametrize(
    ("limits", "bound"),
    [((3.0, 1.0, 2.0), "compute"), ((1.0, 3.0, 2.0), "memory"), ((1.0, 2.0, 3.0), "gather"), ((0, 0, 0), "overhead")],
)
def test_the_largest_part_of_the_limit_bounds_a_phase_near_it(limits: tuple[float, ...], bound: str) -> None:
    parts = dict(zip(("compute", "memory", "gather"), limits, strict=True))
    assert find_bound(4.0, parts)[1] == bound
    assert find_bound(3.0 / OVERHEAD_BELOW * 1.01, parts)[1] == "overhead"
    assert find_bound(None, parts) == (None, None)


def test_a_phase_of_matmuls_is_limited_by_the_rate_of_their_own_shapes() -> None:
    model, data = MATMUL_ONLY
    matmuls = SPEC.costs.matmuls(model, data, BATCH)
    phases = analyse_phases(
        {DLRMPhase.TOP_MLP_FORWARD: 1.0}, counts_of(model, data), matmuls, ceilings_of(matmuls), LABELS
    )
    (top,) = (phase.computed for phase in phases if phase.phase == DLRMPhase.TOP_MLP_FORWARD)
    flop = 2 * BATCH * (32 * 512 + 512 * 512 + 512)
    assert top.compute_limit_s == pytest.approx(flop / 1e9)
    assert top.memory_limit_s == 0  # operands are part of a product's measured time
    assert top.ceiling_fraction == pytest.approx(flop / 1e9)
    assert top.bound == ("compute" if flop / 1e9 >= OVERHEAD_BELOW else "overhead")


def test_small_phases_may_use_the_rate_of_small_copies_and_large_ones_may_not() -> None:
    ceilings = ceilings_of(())
    assert move_s(500, ceilings.measured.copies) == pytest.approx(500 / 1e9)
    assert move_s(2000, ceilings.measured.copies) == pytest.approx(2000 / 1e8)
    assert move_s(10**12, ceilings.measured.copies) == pytest.approx(10**12 / 1e8)


def test_the_steps_limits_add_up() -> None:
    model, data = MATMUL_ONLY
    matmuls = SPEC.costs.matmuls(model, data, BATCH)
    ceilings = ceilings_of(matmuls)
    counts = counts_of(model, data)
    phases = analyse_phases(dict.fromkeys(DLRMPhase, 0.01), counts, matmuls, ceilings, LABELS)
    limits = analyse_step(0.1, phases, counts, matmuls, ceilings, BATCH).limits
    flop = SPEC.costs.model(model, data).training_flop_per_sample * BATCH
    assert limits.matmul.step_s == pytest.approx(flop / 1e9)
    assert limits.matmul.fraction == pytest.approx(limits.matmul.step_s / 0.1)
    assert limits.matmul.samples_per_s == pytest.approx(BATCH / limits.matmul.step_s)
    assert limits.matmul_median.step_s == pytest.approx(2 * limits.matmul.step_s)
    assert limits.matmul_best_shape.step_s == pytest.approx(limits.matmul.step_s / 2)
    assert limits.all_phases.step_s == pytest.approx(sum(phase_limit_s(phase.computed) for phase in phases))
    assert limits.all_phases.step_s >= limits.matmul.step_s


@given(st.dictionaries(st.sampled_from(list(DLRMPhase)), st.floats(1e-9, 1e3), min_size=1))
def test_shares_sum_to_one_and_no_phase_is_lost(times_s: dict[DLRMPhase, float]) -> None:
    model, data = LOOKUP_ONLY
    matmuls = SPEC.costs.matmuls(model, data, BATCH)
    counts: dict[Any, PhaseCosts] = counts_of(model, data)
    phases = analyse_phases(times_s, counts, matmuls, ceilings_of(matmuls), LABELS)
    computed = [phase.computed for phase in phases]
    assert math.isclose(sum(phase.share for phase in computed if phase.share is not None), 1.0)
    assert [phase.phase for phase in phases] == [
        phase for phase in DLRMPhase if phase in times_s.keys() | counts.keys()
    ]
    assert sum(phase.bytes for phase in computed) == sum(phase.bytes for phase in counts.values())


def test_a_ceiling_is_measured_on_one_thread_too_and_the_threads_are_back_afterwards() -> None:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        measured = measure_matmul((1, 4, 5, 6), torch.device("cpu"), budget_s=0)
        batched = measure_matmul((3, 4, 5, 6), torch.device("cpu"), budget_s=0)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(num_threads)
    assert measured.flop_per_s.best >= measured.flop_per_s.median > 0
    assert (batched.num, batched.m, batched.k, batched.n) == (3, 4, 5, 6)
    assert measured.layout.split(" to ")[0] in {f"{a} x {b}" for a in ("row", "column") for b in ("row", "column")}
