"""The update of merged tables by Triton's kernels: under its interpreter, and what needs no Triton at all."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_step import trace
from kernel_bytes import Runs, find_runs, update_bytes
from places import ROOT, TESTS
from step_traffic import BEFORE, Traffic, draw_runs, times
from torch._subclasses.fake_tensor import FakeTensorMode
from waiting import HANG_S

from harness.system.preflight import run_checks
from reference_models.data.registry import parse_data
from reference_models.fused import kernel_check, merged_embedding
from reference_models.fused.dense_kernels import plain_cross_gradients
from reference_models.fused.kernel_check import example_distance, keep_compiled_kernels, kernel_problem
from reference_models.fused.kernel_sizes import KernelSizes, choose_sizes
from reference_models.fused.merged_embedding import MergedEmbedding
from reference_models.fused.private_folder import private_folder
from reference_models.fused.sorted_update import num_edges, update_sorted
from rules.benchmarks.loader import load_benchmark

pytestmark = pytest.mark.numeric

BLOCK, PIECES = 256, choose_sizes().pieces
BUILDERS = TESTS / "builders"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None and "NEEDS_TRITON" not in os.environ,
    reason="triton is not installed: its interpreter runs the kernels",
)
"""NEEDS_TRITON, which tests/run_checks.sh sets for long tests, makes a failure of it."""


def answer_of(builder: str, *arguments: str, **variables: str) -> list[dict[str, Any]]:
    """What a script prints; in a process of its own, as Triton looks at its environment once."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, BUILDERS / builder, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert found
    return found


def interpret(what: str) -> list[dict[str, Any]]:
    return answer_of("interpreted_kernels.py", what, TRITON_INTERPRET="1")


@pytest.mark.long
@needs_triton
def test_interpreted_kernels_end_where_the_plain_form_does() -> None:
    """Three optimizers, five sizes of blocks, widths that are and are not powers of two, keys of 32 and 64 bits."""
    found = interpret("update")
    assert len(found) == 15
    assert [entry for entry in found if entry["distance"] > 2e-6 or not entry["repeats"]] == []


@pytest.mark.long
@needs_triton
def test_interpreted_kernels_load_and_store_what_the_formula_says() -> None:
    found = interpret("bytes")
    assert len({entry["counted"] for entry in found}) > 10
    assert [entry for entry in found if entry["counted"] != entry["stated"]] == []


@pytest.mark.long
@needs_triton
def test_a_row_and_a_pair_of_samples_are_read_before_they_are_written() -> None:
    """A load after a store waits for memory once more: the sum of a row's squares, then its weights, and x_0."""
    found = {entry["case"]: entry["order"] for entry in interpret("order")}
    assert found.keys() == {"sgd", "adagrad", "rowwise_adagrad", "cross"}
    stores = {case: order[order.index("S") : order.rindex("S") + 1] for case, order in found.items()}
    # Of two samples dx_0 and z, and the sums.
    assert stores == {"sgd": "S", "adagrad": "SS", "rowwise_adagrad": "SS", "cross": "SSSSS"}


@pytest.mark.long
@needs_triton
def test_the_example_that_accepts_a_device_accepts_the_interpreter() -> None:
    assert [entry for entry in interpret("example") if entry["distance"] > 1] == []


@pytest.mark.long
@needs_triton
def test_models_trained_by_interpreted_kernels_end_where_torchs_operators_do() -> None:
    """In bf16 within what a rounding of a gradient, added in another order, moves a weight by."""
    found = interpret("models")
    assert len(found) == 12
    assert [entry for entry in found if entry["distance"] > (4e-4 if entry["narrow"] else 1e-6)] == []


@pytest.mark.long
@needs_triton
def test_kernels_compile_for_gpus_that_are_not_here(tmp_path: Path) -> None:
    """Down to machine code, by the assembler in Triton's wheel, and without an atomic operation."""
    found = answer_of("compiled_kernels.py", "80", "90", TRITON_CACHE_DIR=str(tmp_path))
    assert len(found) == 2 * (12 + 6 + 4 + 4 + 1)
    assert [entry for entry in found if not entry["num_bytes"] or entry["has_atomics"]] == []


def test_runs_are_found_with_the_blocks_that_they_enter() -> None:
    lengths = (3, BLOCK - 3, 2 * BLOCK, 5 * BLOCK // 2, 1, BLOCK, BLOCK // 2 - 1, 4)
    rows = torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(torch.tensor(lengths))
    # Edges are where the second and the third run end; the fourth enters two blocks more, and the sixth one.
    assert find_runs(rows, BLOCK) == Runs(len(rows), len(lengths), BLOCK, ((1, 1), (3, 2), (5, 1)))
    assert find_runs(torch.tensor([7]), BLOCK) == Runs(1, 1, BLOCK, ())
    assert num_edges(BLOCK, BLOCK) == 2 and num_edges(BLOCK + 1, BLOCK) == 4


def test_the_formula_counts_each_lookup_row_and_piece() -> None:
    """One lookup of one row: its key and three keys of each kernel's edges, its place, bag and gradient, its row."""
    sizes: dict[str, int] = {"dim": 128, "key_bytes": 4, "gradient_bytes": 2, "state_size": 1, "pieces": PIECES}
    one = update_bytes(Runs(1, 1, BLOCK, ()), **sizes)
    assert one == (4 + 8 + 4 + 256) + 2 * 4 * 129 + (6 * 4 + 4)
    assert update_bytes(Runs(2, 1, BLOCK, ()), **sizes) - one == 4 + 8 + 4 + 256
    assert update_bytes(Runs(2, 2, BLOCK, ()), **sizes) - one == 4 + 8 + 4 + 256 + 2 * 4 * 129
    cut, whole = (update_bytes(Runs(2 * BLOCK, 2, BLOCK, runs), **sizes) for runs in (((0, 1),), ()))
    assert cut - whole == 2 * 2 * 4 * 128 + 4 + 4


@pytest.mark.slow
@pytest.mark.parametrize("width", [0, 1, 4])
def test_fake_tensors_go_through_the_operator_and_stay_what_they_were(width: int) -> None:
    with FakeTensorMode():
        embedding = MergedEmbedding(
            torch.empty(50, 4), torch.empty(50, width) if width else None, (43, 7), (2, 3), has_kernels=True
        )
        rows, plan = embedding.merge_ids(torch.empty(64, 5, dtype=torch.int64)), embedding.plan(64)
        assert plan.bags is None and rows.dtype == torch.int32
        embedding.update_static(rows, plan, torch.empty(64, 3, 4, dtype=torch.bfloat16), torch.empty(()), 1e-8)
        with pytest.raises(ValueError, match=r"gradients is torch.float16 \[64, 3, 4\].*expected torch.float32 or"):
            embedding.update_static(rows, plan, torch.empty(64, 3, 4, dtype=torch.float16), torch.empty(()), 1e-8)
        with pytest.raises(ValueError, match=r"order is torch.int32 \[320\].*; expected torch.int64 \[320\]"):
            update_sorted(
                rows,
                rows,
                torch.empty(5, dtype=torch.int32),
                torch.empty(64, 3, 4),
                torch.empty(50, 4),
                None,
                torch.empty(()),
                1e-8,
            )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system's temporary folder, for a process without Triton's variables."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for variable in ("TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.setenv(variable, "")  # so that it is as before afterwards
        monkeypatch.delenv(variable)
    return tmp_path


def test_compiled_kernels_are_kept_in_one_folder_of_this_user_alone(temporary: Path) -> None:
    for _ in range(2):
        keep_compiled_kernels()
        (folder,) = temporary.iterdir()
        assert os.environ.pop("TRITON_CACHE_DIR") == str(folder)
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("variable", ["TRITON_CACHE_DIR", "TRITON_HOME"])
def test_the_folder_that_the_user_names_for_kernels_is_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "mine")
    keep_compiled_kernels()
    assert {name: os.environ[name] for name in os.environ if name.startswith("TRITON_")} == {variable: "mine"}
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("planted", ["link", "writable", "file"])
def test_kernels_are_not_run_from_a_folder_that_others_may_fill(temporary: Path, planted: str) -> None:
    name = temporary / f"dlrmbench-kernels-{os.getuid()}"
    if planted == "link":
        (temporary / "theirs").mkdir(mode=0o700)
        name.symlink_to(temporary / "theirs")
    elif planted == "writable":
        name.mkdir()
        name.chmod(0o777)
    else:
        name.write_text("")
    keep_compiled_kernels()
    folder = Path(os.environ["TRITON_CACHE_DIR"])
    assert folder.parent == temporary and folder not in (name, temporary / "theirs")
    assert folder.stat().st_mode & 0o777 == 0o700
    with private_folder() as made:  # as compiled passes use it, which stay loaded
        assert made.parent == temporary and made not in (name, folder) and made.stat().st_mode & 0o777 == 0o700
    assert not made.exists()
    (said,) = (check for check in run_checks(temporary, temporary) if check.name == "kernels_folder")
    assert said.status == "warning" and str(name) in said.value and "TMPDIR" in said.remedy


def test_kernels_are_used_where_they_give_the_plain_forms_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 0)
    monkeypatch.setenv("TRITON_CACHE_DIR", "unused")
    monkeypatch.setitem(sys.modules, "triton", object())
    for distance, problem in ((1e-7, None), (1.5, "differ from the plain form by 1.5"), (float("nan"), "by nan")):
        monkeypatch.setattr(kernel_check, "example_distance", lambda *args, found=distance: found)
        said = kernel_problem(gpu, 128, 1)
        assert said is None if problem is None else problem in str(said)

    def fail(*args: object) -> float:
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    monkeypatch.setattr(kernel_check, "example_distance", fail)
    assert str(kernel_problem(gpu, 128, 1)).endswith("do not run here: RuntimeError: Failed to find C compiler.")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert str(kernel_problem(gpu, 128, 1)).startswith("Triton cannot be imported")
    assert kernel_problem(torch.device("cpu"), 128, 1) == "Triton's kernels are for CUDA, not for cpu"


def _right_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that compute what the kernels do, without Triton."""

    def read(
        rows: torch.Tensor, limits: torch.Tensor, weight: torch.Tensor, num_samples: int, dtype: torch.dtype
    ) -> torch.Tensor:
        bags = [weight[rows.view(num_samples, -1)[:, a:b].long()].sum(1) for a, b in pairwise(limits.tolist())]
        return torch.stack(bags, dim=1).to(dtype)

    def update(
        ordered: torch.Tensor,
        order: torch.Tensor,
        bags: torch.Tensor,
        gradients: torch.Tensor,
        weight: torch.Tensor,
        state: torch.Tensor | None,
        rate: torch.Tensor,
        eps: float,
    ) -> None:
        sums = torch.zeros_like(weight)
        sums.index_add_(0, ordered, gradients[order // len(bags), bags[order % len(bags)].long()].float())
        if state is not None:
            state += sums.square().mean(1, keepdim=True) if state.shape[1] == 1 else sums.square()
            sums /= state.sqrt() + eps
        weight -= rate * sums

    monkeypatch.setattr(merged_embedding, "read_bags", read)
    monkeypatch.setattr(merged_embedding, "update_sorted", update)
    monkeypatch.setattr(kernel_check, "cross_gradients", _plain_cross)


def _plain_cross(*operands: Any, adds: bool, sizes: KernelSizes) -> tuple[torch.Tensor, torch.Tensor]:
    return plain_cross_gradients(*operands, adds=adds)


FORMS = [(dtype, size) for dtype in (torch.float32, torch.bfloat16) for size in (0, 1, 16)]


@pytest.mark.parametrize(("dtype", "state_size"), FORMS)
def test_the_example_accepts_kernels_that_are_right(
    dtype: torch.dtype, state_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _right_kernels(monkeypatch)
    assert example_distance(torch.device("cpu"), 16, state_size, dtype) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ("halved", "zeroed", "stale"))
@pytest.mark.parametrize("what", ("read", "weight", "sums", "z", "dx_0", "first dx_0", "bias"))
@pytest.mark.parametrize(("dtype", "state_size"), FORMS)
def test_the_example_refuses_each_result_that_is_wrong(
    dtype: torch.dtype, state_size: int, what: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stale is what was there before; what is computed anew was zeros."""
    _right_kernels(monkeypatch)
    read, update = merged_embedding.read_bags, merged_embedding.update_sorted

    def spoil(right: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return {"halved": right / 2, "zeroed": torch.zeros_like(right), "stale": before}[how]

    def spoilt_read(*given: Any) -> torch.Tensor:
        found = read(*given)
        return spoil(found, torch.zeros_like(found))

    def spoilt_update(*given: Any) -> None:
        changed = [tensor for tensor in given[4:6] if tensor is not None]
        before = [tensor.clone() for tensor in changed]
        update(*given)
        place = 0 if what == "weight" else -1  # the sums, where there are some
        changed[place].copy_(spoil(changed[place], before[place]))

    def spoilt_cross(
        dy: torch.Tensor,
        x_0: torch.Tensor,
        z: torch.Tensor,
        dx_0: torch.Tensor | None,
        *,
        adds: bool,
        sizes: KernelSizes,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        old_z, old = z.clone(), torch.zeros_like(dy) if dx_0 is None else dx_0.clone()
        found, bias = plain_cross_gradients(dy, x_0, z, dx_0, adds=adds)
        if what == "z":
            z.copy_(spoil(z, old_z))
        if what == ("dx_0" if adds else "first dx_0"):
            found = spoil(found, old)
        return found, spoil(bias, torch.zeros_like(bias)) if what == "bias" else bias

    monkeypatch.setattr(kernel_check, "cross_gradients", spoilt_cross)
    if what == "read":
        monkeypatch.setattr(merged_embedding, "read_bags", spoilt_read)
    if what in ("weight", "sums"):
        monkeypatch.setattr(merged_embedding, "update_sorted", spoilt_update)
    assert example_distance(torch.device("cpu"), 16, state_size, dtype) > 10


@pytest.mark.parametrize(("dtype", "state_size"), FORMS)
@pytest.mark.parametrize("left", ("one block", "rows of few lookups"))
def test_the_example_refuses_an_update_that_leaves_something_out(
    left: str, dtype: torch.dtype, state_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece of a run that is longer than `PIECES` blocks; the rows beside the frequent ones."""
    _right_kernels(monkeypatch)
    update = merged_embedding.update_sorted

    def part(ordered: torch.Tensor, order: torch.Tensor, *others: Any) -> None:
        places = torch.arange(len(ordered))
        kept = (places // choose_sizes().block != PIECES) if left == "one block" else (ordered < 3)
        update(ordered[kept], order[kept], *others)

    monkeypatch.setattr(merged_embedding, "update_sorted", part)
    assert example_distance(torch.device("cpu"), 16, state_size, dtype) > 10


@pytest.mark.slow
def test_the_full_size_step_by_kernels_fits_a_gpu_and_moves_a_third() -> None:
    """Row-wise Adagrad, batch 65,536, as tests/performance/gpu_step.py prints it."""
    sections = dict(load_benchmark("dlrm_dcnv2").sections)
    data = parse_data(sections["data"])
    block = choose_sizes(num_lookups=65536 * sum(data.multi_hot)).block
    runs = times(draw_runs(data.num_embeddings or (), data.multi_hot, 4096, block), 16)
    narrow, wide = (
        trace(sections, "rowwise_adagrad", 65536, has_kernels=True, dtype=dtype, runs=runs)
        for dtype in (torch.bfloat16, None)
    )
    assert "dlrmbench::update_sorted" in narrow.training.calls
    assert not {"aten::index_add_", "aten::embedding_bag", "aten::cat"} & set(narrow.training.calls)
    assert wide.device_bytes <= 115e9 and narrow.device_bytes <= 111e9
    assert narrow.training.largest_bytes <= 65536 * 27 * 128 * 2, "no gradient per lookup, and features in bf16 alone"
    assert narrow.traffic.num_bytes <= BEFORE["bf16"] / 3
    assert wide.traffic.num_bytes <= 0.45 * BEFORE["fp32"]


@pytest.mark.parametrize(
    ("opt_name", "dtype", "most"),
    [("sgd", None, 80), ("rowwise_adagrad", None, 85), ("adagrad", torch.bfloat16, 90)],
)
def test_dense_weights_are_updated_together(opt_name: str, dtype: torch.dtype | None, most: int) -> None:
    """Operators that compute, of the whole step of DLRM-DCNv2; one by one its 24 weights took 264 in bf16."""
    traced = trace(dict(load_benchmark("dlrm_dcnv2").sections), opt_name, 65536, has_kernels=True, dtype=dtype)
    assert traced.training.num_kernels <= most, traced.training.calls


@pytest.mark.parametrize(("rows", "hot"), [((5, 9), (1, 2)), ((40_000_000, 1), (20, 1))])
def test_a_batch_names_at_most_the_rows_that_its_parts_do(rows: tuple[int, ...], hot: tuple[int, ...]) -> None:
    whole, parts = draw_runs(rows, hot, 4096, BLOCK), times(draw_runs(rows, hot, 512, BLOCK), 8)
    assert whole.num_lookups == parts.num_lookups == 4096 * sum(hot)
    assert whole.num_rows <= parts.num_rows


def test_bytes_of_operators_are_those_of_their_operands() -> None:
    a, table, index = torch.zeros(8, 4), torch.zeros(1000, 4), torch.arange(3)
    for expected, compute in (
        (3 * 128, lambda: a * a.clone()),
        (2 * 128, lambda: a.clone()),
        (3 * 128, lambda: a.add_(torch.zeros(8, 4))),
        (2 * 128, lambda: a.copy_(torch.zeros(8, 4))),
        (2 * 48 + 24, lambda: table.index_select(0, index)),
        (3 * 48 + 24, lambda: table.index_add_(0, index, a[:3])),
        (0, lambda: a.view(4, 8).t()),
    ):
        with Traffic() as traffic:
            compute()
        made = sum(traffic.by_operator[name] for name in ("aten::clone", "aten::zeros"))
        counted = traffic.num_bytes - (made if len(traffic.by_operator) > 1 else 0)
        assert counted == expected, traffic.by_operator
