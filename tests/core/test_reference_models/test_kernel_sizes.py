"""Sizes of Triton's kernels: enough programs for small batches, and little more bytes. Counted, not measured."""

import pytest
from kernel_bytes import cross_bytes, update_bytes
from step_traffic import draw_runs, times

from reference_models.data.registry import parse_data
from reference_models.fused.dense_kernels import num_parts
from reference_models.fused.kernel_sizes import H100_MULTIPROCESSORS, choose_sizes
from reference_models.fused.sorted_update import num_edges
from rules.benchmarks.loader import load_benchmark

SHAPES = [("dlrm_small", 1024, 1), ("dlrm_dcnv2_small", 512, 1), ("dlrm_dcnv2", 4096, 16)]


@pytest.mark.parametrize(("name", "batch_size", "times_larger"), SHAPES)
def test_updates_keep_a_gpu_busy_and_move_little_more_than_they_must(
    name: str, batch_size: int, times_larger: int
) -> None:
    """Blocks of 256 made 104 programs of dlrm_small's batch; short blocks leave more pieces, a sixth more bytes."""
    sections = dict(load_benchmark(name).sections)
    data, dim = parse_data(sections["data"]), sections["model"]["embedding_dim"]
    sizes = choose_sizes(num_lookups=times_larger * batch_size * sum(data.multi_hot))
    runs = times(draw_runs(data.num_embeddings or (), data.multi_hot, batch_size, sizes.block), times_larger)
    moved = update_bytes(runs, dim, key_bytes=4, gradient_bytes=2, state_size=1, pieces=sizes.pieces)
    least = runs.num_lookups * (4 + 8 + 4 + 2 * dim) + 2 * 4 * runs.num_rows * (dim + 1)
    assert num_edges(runs.num_lookups, sizes.block) // 2 >= 12 * H100_MULTIPROCESSORS
    assert moved <= (1.01 if times_larger > 1 else 1.17) * least


@pytest.mark.parametrize("multiprocessors", [16, 108, H100_MULTIPROCESSORS])
@pytest.mark.parametrize(("num_samples", "num_columns"), [(512, 432), (2048, 432), (65536, 3456), (7, 10)])
def test_cross_layers_make_four_programs_for_each_multiprocessor(
    num_samples: int, num_columns: int, multiprocessors: int
) -> None:
    """64 samples in each made 16 programs of dlrm_dcnv2_small's 512."""
    sizes = choose_sizes(num_samples=num_samples, num_columns=num_columns, num_multiprocessors=multiprocessors)
    programs = num_parts(num_samples, sizes.samples) * -(-num_columns // sizes.columns)
    assert programs >= min(4 * multiprocessors, num_samples * -(-num_columns // sizes.columns))
    moved = cross_bytes(num_samples, num_columns, 2, adds=True, samples=sizes.samples)
    assert moved <= 1.34 * 6 * 2 * num_samples * num_columns, "at worst a sum for each sample"


@pytest.mark.parametrize("multiprocessors", [16, 108, H100_MULTIPROCESSORS])
def test_blocks_are_as_long_as_a_device_and_a_batch_let_them(multiprocessors: int) -> None:
    for num_lookups in (1, 300, 26_624, 109_568, 1 << 20, 14_024_704, 1 << 30):
        block = choose_sizes(num_lookups=num_lookups, num_multiprocessors=multiprocessors).block
        assert 16 <= block <= 256 and block.bit_count() == 1
        assert block in (16, 256) or 1 <= num_lookups / block / (64 * multiprocessors) < 2
