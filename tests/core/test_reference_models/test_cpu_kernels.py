"""The compiled passes of a step on a CPU: torch's numbers, for any number of threads, or they are not used."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from rounding import furthest, gamma, product_bound
from tiers import quick_first

from reference_models.fused import cpu_kernels, kernel_check
from reference_models.fused.cpu_kernels import MAX_FEATURES, WIDTHS, CPUKernels, find_cpu_kernels
from reference_models.fused.interaction import fuse_interaction
from reference_models.fused.kernel_check import checked_cpu_kernels
from reference_models.fused.matmul import Matmuls
from reference_models.fused.merged_embedding import MergedEmbedding, sort_rows
from reference_models.layers.interaction import DotInteraction, LowRankCrossNet

pytestmark = pytest.mark.numeric


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


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("num_samples", (1, 3, 2000))
@pytest.mark.parametrize("num_rows", ((1, 2, 2048, 2049), (16_384, 16_385, 160_000), ((1 << 22) + 1, 7)))
def test_lookups_are_sorted_stably(kernels: CPUKernels, num_rows: tuple[int, ...], num_samples: int) -> None:
    hot = (1, 5, 2, 1)[: len(num_rows)]
    embedding = MergedEmbedding(torch.empty(sum(num_rows), 16), None, num_rows, hot, cpu_kernels=kernels)
    generator = torch.Generator().manual_seed(num_samples)
    limits = torch.tensor(num_rows).repeat_interleave(torch.tensor(hot))
    ids = torch.randint(0, 2**40, (num_samples, sum(hot)), generator=generator) % limits
    ids[::3] = limits - 1
    shifts = limits.new_tensor([0, *num_rows[:-1]]).cumsum(0).repeat_interleave(torch.tensor(hot))
    bags = torch.arange(num_samples).unsqueeze(1) * (1 + len(hot)) + torch.arange(len(hot)).repeat_interleave(
        torch.tensor(hot)
    ).add(1)
    expected = torch.sort((ids + shifts).flatten(), stable=True)
    for number in (1, 3):
        torch.set_num_threads(number)
        plan = embedding.plan(num_samples)
        assert plan.scratch is not None
        ordered = kernels.sort(ids, embedding._layout, plan.scratch).long()
        assert torch.equal(ordered[:, 0], expected.values)
        assert torch.equal(ordered[:, 1], bags.flatten()[expected.indices])


@pytest.mark.parametrize("wrong", (-1, 7, 2**33))
def test_an_id_that_a_table_has_not_is_refused_before_a_row_is_read(kernels: CPUKernels, wrong: int) -> None:
    embedding = MergedEmbedding(torch.ones(12, 16), None, (5, 7), (1, 2), cpu_kernels=kernels)
    ids = torch.tensor([[4, 6, 6], [4, 6, wrong]])
    with pytest.raises(IndexError, match=rf"sample 1, lookup 2: id {wrong}, expected 0 to 6"):
        embedding.read(embedding.merge_ids(ids), embedding.plan(2))


@pytest.mark.parametrize("is_by_columns", ((False, False), (False, True), (True, False), (True, True)))
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (7, 5, 3), (40, 300, 1)]
    + [pytest.param(sizes, marks=pytest.mark.slow) for sizes in ((300, 1, 40), (1000, 33, 200), (70, 3, 900))],
)
@pytest.mark.usefixtures("threads")
def test_openblas_multiplies_as_torch(
    kernels: CPUKernels, sizes: tuple[int, int, int], is_by_columns: tuple[bool, bool]
) -> None:
    if not kernels.has_openblas:
        pytest.skip("numpy brings no OpenBLAS here")
    m, k, n = sizes
    generator = torch.Generator().manual_seed(m)
    a, b = (
        torch.randn(size[::-1], generator=generator).t() if turns else torch.randn(size, generator=generator)
        for size, turns in zip(((m, k), (k, n)), is_by_columns, strict=True)
    )
    expected = a.double() @ b.double()
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        for begins, adds in ((float("nan"), False), (1.0, True)):
            found = kernels.multiply(a, b, torch.full((m, n), begins), adds=adds)
            allowed = product_bound(a, b, added=1.0 if adds else 0.0)
            assert furthest(found, expected + (1 if adds else 0), allowed) <= 1


def test_what_is_no_number_stays_none(kernels: CPUKernels) -> None:
    """A run that diverges must say so: torch's ReLU, and its gradient, keep what is not a number."""
    y = kernels.add_bias(torch.full((2, 20), float("nan")), torch.zeros(20), has_relu=True)
    assert y.isnan().all()
    dy = torch.ones(2, 20)
    kernels.differentiate_relu(dy, y, sums=False)
    assert dy.eq(1).all()


def compute(kind: type, features: torch.Tensor, kernels: CPUKernels | None, *, by_size: bool) -> list[torch.Tensor]:
    """An interaction's result and gradients, computed in the features' type; `by_size` all numbers are made positive.

    Every term has a plus before it: of positive numbers the same sums are the sizes of all terms together.
    """
    num_samples, num_features, dim = features.shape
    torch.manual_seed(0)
    given = (num_features, dim, 1, 4) if kind is LowRankCrossNet else (num_features, dim)
    module, matmuls = kind(*given).to(features.dtype), Matmuls(cpu_kernels=kernels)
    for parameter in module.parameters():
        parameter.data.copy_(parameter.data.abs() if by_size else parameter.data)
    optimizer = torch.optim.SGD([*module.parameters()] or [torch.empty(1)], lr=0.1)
    fused = fuse_interaction(module, num_features, features.new_empty(0, dim), optimizer, matmuls)
    interaction = fused.over(num_samples, matmuls, trains=True)
    y = interaction.forward(features.abs() if by_size else features).clone()
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(features.dtype)
    gradients: list[torch.Tensor] = []
    dx = interaction.backward(dy.abs() if by_size else dy, lambda _, gradient: gradients.append(gradient.clone()))
    return [y, dx.clone(), *gradients]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", quick_first((24, 16, 128)))
@pytest.mark.parametrize("shape", ((1, 2), (65, 27), (130, 64), (3, 65)))
@pytest.mark.parametrize("kind", (DotInteraction, LowRankCrossNet))
def test_dot_products_and_cross_layers_are_those_of_float64(
    kernels: CPUKernels, kind: type, shape: tuple[int, int], dim: int
) -> None:
    """Within the roundings of a number on its longest way: the sums of two products, of samples, and what is around.

    Bits are the same for any number of threads where nothing is multiplied by a library.
    """
    num_samples, num_features = shape
    features = torch.randn(num_samples, num_features, dim, generator=torch.Generator().manual_seed(dim))
    expected, sizes = (compute(kind, features.double(), None, by_size=by_size) for by_size in (False, True))
    longest = dim + num_features if kind is DotInteraction else 2 * num_features * dim + 2 * 4 + num_samples
    ours = []
    for number in (1, 3):
        torch.set_num_threads(number)
        ours.append(compute(kind, features, kernels, by_size=False))
        for one, exact, size in zip(ours[-1], expected, sizes, strict=True):
            assert furthest(one, exact, gamma(longest + 8) * size) <= 1
    if kind is DotInteraction and dim in WIDTHS and num_features <= MAX_FEATURES:
        assert all(map(torch.equal, *ours))


@pytest.mark.usefixtures("threads")
def test_passes_are_the_same_for_any_number_of_threads(kernels: CPUKernels) -> None:
    """Of more numbers than one thread takes alone, in columns that no number of threads divides evenly."""
    generator = torch.Generator().manual_seed(0)
    a, b, c, d = (torch.randn(300, 371, generator=generator) for _ in range(4))
    bias, features = torch.randn(371, generator=generator), torch.randn(70, 30, 32, generator=generator)

    def results() -> list[torch.Tensor]:
        z, dx_0, dy, value, squares = b.clone(), c.clone(), a.clone(), a.clone(), b.square()
        sums = kernels.differentiate_cross(a, d, z, bias, dx_0, adds=True, adds_dy=True)
        dbias = kernels.differentiate_relu(dy, d, sums=True)
        kernels.adagrad(value, squares, c, 0.1, 1e-8)
        products, gradients = torch.zeros(70, 32 + 30 * 29 // 2), torch.empty_like(features)
        kernels.dot(features, products)
        kernels.differentiate_dot(features, products, gradients)
        biased, crossed = kernels.add_bias(a.clone(), bias, has_relu=True), kernels.cross(a, b, c, bias)
        assert dbias is not None
        return [z, dx_0, sums, dy, dbias, value, squares, products, gradients, biased, crossed]

    found = []
    for number in (1, 2, 3, 7):
        torch.set_num_threads(number)
        found.append(results())
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@pytest.mark.parametrize("length", (8191, 8192, 20_000, 32_767, 32_768))
@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
def test_without_a_compiler_rows_are_sorted_stably_too(length: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 5000, (length,), generator=generator).to(dtype)
    ordered, order = sort_rows(rows, 5000)
    expected = torch.sort(rows, stable=True)
    assert torch.equal(ordered, expected.values) and torch.equal(order, expected.indices)


@pytest.mark.slow
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dim", WIDTHS)
@pytest.mark.parametrize("sums", ("none", "rowwise", "all"))
def test_updates_are_torchs_and_the_same_for_any_number_of_threads(kernels: CPUKernels, dim: int, sums: str) -> None:
    """Within the bound that they are accepted by where they run."""
    state_size = {"none": 0, "rowwise": 1, "all": dim}[sums]
    found = []
    for number, given in ((1, kernels), (2, kernels), (5, kernels), (1, None)):
        torch.set_num_threads(number)
        found.append(kernel_check._update_example(dim, state_size, given))
    one, *others, plain = found
    for other in others:
        assert all(torch.equal(mine[0], its[0]) for mine, its in zip(one, other, strict=True))
    assert kernel_check._furthest(one, plain) <= 1


def test_a_batch_of_one_lookup_and_rows_that_nobody_names(kernels: CPUKernels) -> None:
    weight = torch.ones(7, 16)
    embedding = MergedEmbedding(weight, None, (7,), (1,), cpu_kernels=kernels)
    gradients = torch.ones(1, 2, 16)
    embedding.update(embedding.merge_ids(torch.tensor([[3]])), embedding.plan(1), gradients, 0.5, 0.0)
    assert weight[3].eq(0.5).all() and weight[[0, 1, 2, 4, 5, 6]].eq(1).all()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize(
    ("compiler", "words"),
    (
        ("false", "exit code 1"),
        ("no_such_compiler -O1", "no C compiler: no_such_compiler"),
        ("'", "no command"),
        ("gcc\udcff", "no C compiler: gcc"),
        ("false \udcff", "exit code 1"),
        ("'\udcff", "no command"),
    ),
)
def test_without_a_compiler_there_are_none_and_why(
    compiler: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler)
    found = checked_cpu_kernels(16, 1)
    assert isinstance(found, str) and words in found
    assert found.encode().decode() == found, "a log has it, which is UTF-8"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "few bytes": lambda content: content[:5_000],
    "other bytes": lambda content: content[:6_000] + bytes(400) + content[6_400:],
}


@pytest.mark.once("passes are compiled")
@pytest.mark.usefixtures("forgotten", "kernels")
def test_a_compiled_file_that_is_damaged_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never loaded: its functions would end the process by a signal."""
    compiled = []

    real_run = cpu_kernels._run

    def run(words: list[str]) -> str:
        compiled.append("-o" in words)
        if "-o" not in words:
            return real_run(words)
        Path(words[words.index("-o") + 1]).write_bytes(whole)
        return ""

    @contextmanager
    def private() -> Iterator[Path]:
        yield tmp_path

    monkeypatch.setattr(cpu_kernels, "private_folder", private)
    find_cpu_kernels.cache_clear()
    assert isinstance(find_cpu_kernels(), CPUKernels)
    (library,) = tmp_path.iterdir()
    whole = library.read_bytes()
    monkeypatch.setattr(cpu_kernels, "_run", run)
    monkeypatch.setattr(cpu_kernels, "CPUKernels", lambda path: path.read_bytes())
    for damage in ({**DAMAGES, "pipe": None, "folder": None, "link": None}).items():
        library.unlink()
        match damage:
            case "pipe", _:
                os.mkfifo(library)
            case "folder", _:
                library.mkdir()
            case "link", _:
                library.symlink_to("/dev/zero")
            case _, damaged:
                assert damaged is not None
                library.write_bytes(damaged(whole))
        find_cpu_kernels.cache_clear()
        assert find_cpu_kernels() == whole, damage[0]
        left = [*tmp_path.iterdir()]
        assert len(left) == 1 and left[0].is_file() and not left[0].is_symlink() and left[0].read_bytes() == whole
        library = left[0]
    assert sum(compiled) == 7
    find_cpu_kernels.cache_clear()
    assert find_cpu_kernels() == whole and sum(compiled) == 7, "a whole one is loaded"


@pytest.mark.parametrize("spoilt", quick_first(("half", "zero", "stale")))
@pytest.mark.parametrize(
    "name",
    ("update_rows", "read_bags", "add_bias", "differentiate_relu", "cross", "differentiate_cross", "adagrad", "dot",
     "differentiate_dot", "multiply"),
)  # fmt: skip
def test_passes_that_end_in_other_numbers_are_not_used(
    kernels: CPUKernels, name: str, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass whose results are halved, zero or left as they were is found by the example that is run before use."""
    if name == "multiply" and not kernels.has_openblas:
        pytest.skip("numpy has no OpenBLAS here")
    assert isinstance(checked_cpu_kernels(16, 1), CPUKernels)  # the right numbers are somewhere in memory now
    right = kernels._call[name]
    written = {
        "update_rows": (2,), "read_bags": (5,), "add_bias": (0,), "differentiate_relu": (0, 2), "cross": (4,),
        "differentiate_cross": (2, 4, 5), "adagrad": (0, 1), "dot": (1,), "differentiate_dot": (2,),
        "multiply": (11,),
    }[name]  # fmt: skip

    at = 16 if name == "read_bags" else 0  # the first bag is empty

    def call(*given: object) -> int | None:
        result = None if spoilt == "stale" else right(*given)
        for place in written if spoilt != "stale" else ():
            if isinstance(address := given[place], int):
                first = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
                first[at] = first[at] / 2 if spoilt == "half" else 0.0
        return -1 if name == "read_bags" else result

    monkeypatch.setitem(kernels._call, name, call)
    assert "differ from torch's" in str(checked_cpu_kernels(16, 1))


def test_a_width_of_rows_that_is_not_compiled_leaves_tables_to_torch(kernels: CPUKernels) -> None:
    assert isinstance(checked_cpu_kernels(24, 1), CPUKernels)
    embedding = MergedEmbedding(torch.ones(7, 24), None, (7,), (1,), cpu_kernels=kernels)
    assert embedding.plan(3).scratch is None


@pytest.mark.usefixtures("forgotten")
def test_what_is_compiled_once_is_loaded_again(kernels: CPUKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    run = cpu_kernels._run
    monkeypatch.setattr(cpu_kernels, "_run", lambda words: (compiled.append(words), run(words))[1])
    find_cpu_kernels.cache_clear()
    assert isinstance(find_cpu_kernels(), CPUKernels)
    assert [words[-1] for words in compiled] == ["--version"]
