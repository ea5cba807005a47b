"""The compiled update of tables on a CPU: torch's numbers, for any number of threads, or it is not used."""

from collections.abc import Iterator

import pytest
import torch

from reference_models.fused import cpu_kernels, kernel_check
from reference_models.fused.cpu_kernels import WIDTHS, CPUKernels, find_cpu_kernels
from reference_models.fused.kernel_check import checked_cpu_kernels
from reference_models.fused.merged_embedding import MergedEmbedding, sort_rows


@pytest.fixture
def kernels() -> CPUKernels:
    found = find_cpu_kernels()
    if isinstance(found, str):
        pytest.skip(f"nothing is compiled here: {found}")
    return found


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def forgotten() -> Iterator[None]:
    """What was found before is looked for again, and what is found in the test is not kept."""
    find_cpu_kernels.cache_clear()
    yield
    find_cpu_kernels.cache_clear()


@pytest.mark.parametrize("num_rows", (1, 2, 2048, 2049, 160_000, 1 << 22, (1 << 22) + 1, 2**31 - 1))
@pytest.mark.parametrize("length", (0, 1, 1000, 20_000))
def test_rows_are_sorted_stably(kernels: CPUKernels, num_rows: int, length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    rows = torch.randint(0, num_rows, (length,), generator=generator, dtype=torch.int32)
    rows[::3] = num_rows - 1
    scratch = torch.empty(4, length, dtype=torch.int32)
    ordered, order = kernels.sort(rows, num_rows, scratch)
    expected = torch.sort(rows, stable=True)
    assert torch.equal(ordered, expected.values) and torch.equal(order.long(), expected.indices)


@pytest.mark.parametrize("length", (8191, 8192, 20_000, 32_767, 32_768))
@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
def test_without_a_compiler_rows_are_sorted_stably_too(length: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 5000, (length,), generator=generator).to(dtype)
    ordered, order = sort_rows(rows, 5000)
    expected = torch.sort(rows, stable=True)
    assert torch.equal(ordered, expected.values) and torch.equal(order, expected.indices)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", WIDTHS)
@pytest.mark.parametrize("sums", ("none", "rowwise", "all"))
def test_updates_are_torchs_and_the_same_for_any_number_of_threads(kernels: CPUKernels, dim: int, sums: str) -> None:
    state_size = {"none": 0, "rowwise": 1, "all": dim}[sums]
    found = []
    for number, given in ((1, kernels), (2, kernels), (5, kernels), (1, None)):
        torch.set_num_threads(number)
        found.append(kernel_check._update_example(dim, state_size, given))
    one, *others, plain = found
    for other in others:
        assert all(torch.equal(mine.after, its.after) for mine, its in zip(one, other, strict=True))
    assert kernel_check._furthest(one, plain) <= 0.5


def test_a_batch_of_one_lookup_and_rows_that_nobody_names(kernels: CPUKernels) -> None:
    weight = torch.ones(7, 16)
    embedding = MergedEmbedding(weight, None, (7,), (1,), cpu_kernels=kernels)
    gradients = torch.ones(1, 2, 16)
    embedding.update(torch.tensor([3], dtype=torch.int32), embedding.plan(1), gradients, 0.5, 0.0)
    assert weight[3].eq(0.5).all() and weight[[0, 1, 2, 4, 5, 6]].eq(1).all()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("compiler", "words"),
    (("false", "exit code 1"), ("no_such_compiler -O1", "no C compiler: no_such_compiler"), ("'", "no command")),
)
def test_without_a_compiler_there_are_none_and_why(
    compiler: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    found = checked_cpu_kernels(16, 1)
    assert isinstance(found, str) and words in found


@pytest.mark.parametrize("factor", (0.0, 0.5, 1.01))
def test_an_update_that_ends_in_other_numbers_is_not_used(
    kernels: CPUKernels, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(CPUKernels):
        def __init__(self) -> None:
            self._sort, self._right = kernels._sort, kernels._update

        def _update(self, *given: object) -> None:
            *places, rate, eps, number = given
            assert isinstance(rate, float)
            self._right(*places, rate * factor, eps, number)

    monkeypatch.setattr(kernel_check, "find_cpu_kernels", Wrong)
    for state_size in (0, 1, 16):
        assert "differs from torch's" in str(checked_cpu_kernels(16, state_size))


def test_a_width_that_is_not_compiled_is_updated_by_torch() -> None:
    assert "rows of 24 numbers" in str(checked_cpu_kernels(24, 1))


@pytest.mark.usefixtures("forgotten")
def test_what_is_compiled_once_is_loaded_again(kernels: CPUKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    run = cpu_kernels._run
    monkeypatch.setattr(cpu_kernels, "_run", lambda words: (compiled.append(words), run(words))[1])
    find_cpu_kernels.cache_clear()
    assert isinstance(find_cpu_kernels(), CPUKernels)
    assert [words[-1] for words in compiled] == ["--version"]
