"""The torchrec implementation on two CPU ranks: the same losses as the reference, whatever the sharding."""

import json
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click_files import make_ads
from inside import run_inside
from numpy.typing import NDArray
from places import TESTS
from ranks_builder import needs_torchrec, started_world
from small_set import write_definition
from waiting import HANG_S

from harness.config.catalog import load_entry
from harness.config.sharding_plan import write_sharding
from reference_models.config.exchange import SHARDING_TYPES
from reference_models.config.sections import parse_sharding
from reference_models.distributed.search.autoshard import Policy
from reference_models.distributed.search.net import repeatable
from reference_models.distributed.search.registry import find_search
from reference_models.distributed.search.repair import CUTTING
from reference_models.distributed.search.task import EmbeddingTable, Task
from reference_models.distributed.search.tasks import task_of

pytestmark = pytest.mark.numeric
SGD = {"opt_name": "sgd", "opt_base_learning_rate": 0.1, "optimizer": {"opt_learning_rate_warmup_steps": 5}}
BEGUN = {"optimizer": {"opt_adagrad_epsilon": 1e-8, "opt_adagrad_initial_accumulator_value": 0.01}}
ADAGRAD, ROWWISE = {"opt_name": "adagrad", **BEGUN}, {"opt_name": "rowwise_adagrad", **BEGUN}
"""Sums that start above zero: else Adagrad's first steps are the gradient's sign alone, whatever it rounds to."""
ONE_SAMPLE = {"sgd": 0.1 / 512, "adagrad": 0.06 / 0.01**0.5 / 512}
"""How much a ReLU whose argument rounding takes across zero may change a weight: the rate, over the root of the sums,
times one sample's gradient, below one, over the batch. All else that rounding moves is less."""
ROUNDED_LOSS = 1e-5
"""Twice and more the gamma of a mean of 512 losses of about .7, whose sums are in 8 numbers side by side: 64 u."""
PLANS = ("plan:0,1+0,1,0,1,0+1,0,1", "plan:1,1,1,1,1,1,1,1", "plan:0,1,1,0,0,1,0,1")
"""Of the 8 tables of dlrm_tiny: two with columns on both ranks, all on one rank, all whole."""
SEARCHED = ("lookup", "greedy", "local", "neuroshard", "autoshard")
"""Searches whose plans two ranks train by."""
COLUMN_TYPES = ("column_wise", "table_column_wise", "grid_shard")


def hot(sets: Sequence[Sequence[EmbeddingTable]]) -> NDArray[np.float64]:
    """A cost by columns, of which those of the table of 500 rows cost ten times the others': it is worth a cut."""
    return np.array([sum(each.dim * (10.0 if each.num_embeddings == 500 else 1.0) for each in held) for held in sets])


@cache
def plan_by(search: str) -> str:
    """The plan of a search for the 8 tables of dlrm_tiny on 2 devices; autoshard's by an untrained policy."""
    data = load_entry("dlrm_tiny").workload.data
    empty = Task(name="tiny", tables=(), num_devices=2, memory_bytes=1 << 30, batch_size=512)
    task = task_of(empty, data, data.num_embeddings or (), 16, "adagrad", None)
    with repeatable(0):
        more = {"policy": Policy()} if search == "autoshard" else {}
    return write_sharding(task, find_search(search)(task, hot, 0, **more))


def run_cases(cases: list[dict[str, Any]], folder: Path, *, num_ranks: int = 2) -> list[dict[str, Any]]:
    given, answered = folder / "cases.json", folder / "answers.json"
    given.write_text(json.dumps(cases))
    script = TESTS / "builders" / "torchrec_ranks.py"
    with started_world([[script, given, answered]] * num_ranks, folder, program=()) as world:
        outputs = [process.communicate(timeout=HANG_S)[0] for process in world]
    assert [process.returncode for process in world] == [0] * num_ranks, [output[-4000:] for output in outputs]
    results: list[dict[str, Any]] = json.loads(answered.read_text())
    return results


def case(
    benchmark: str,
    data_dir: Path,
    num_steps: int,
    train: dict[str, Any] | None = None,
    *,
    exchange: str | None = None,
    ahead: bool = False,
    as_on_gpus: bool = False,
    **runtime: Any,
) -> dict[str, Any]:
    """`exchange`: also measure what ranks exchange, 'steps' alone or 'all', with an evaluation.

    `ahead`: ids of the next batch travel while this one is computed, as between GPUs. `as_on_gpus`: ids have 32
    bits, and the area under the curve is computed where rank 0 computes.
    """
    return {
        "benchmark": benchmark,
        "data_dir": str(data_dir),
        "num_steps": num_steps,
        "train": train or {},
        "runtime": runtime,
        "exchange": exchange,
        "ahead": ahead,
        "as_on_gpus": as_on_gpus,
    }


def largest_difference(result: dict[str, Any]) -> float:
    assert "error" not in result, result
    assert len(result["losses"]) == result["num_steps"]
    return max(abs(a - b) for a, b in zip(result["losses"], result["reference_losses"], strict=True))


def ensure(benchmark: str, root: Path) -> Path:
    from harness.config.catalog import load_entry
    from harness.run_sets.dataset import ensure_dataset

    return ensure_dataset(load_entry(benchmark).workload.data, root, num_threads=1)


def prepare_soft(folder: Path) -> tuple[str, Path]:
    """A definition with soft labels, and the folder of its data."""
    make_ads(8000).assign(click=np.arange(8000) % 9 / 8).to_csv(folder / "soft.csv", index=False)
    for line in ("init soft.toml --from-columns soft.csv", "data prepare soft.toml --train soft.csv --data soft"):
        done = run_inside(folder, *line.split())
        assert done.returncode == 0, done.stderr
    return str(folder / "soft.toml"), next((folder / "soft").iterdir())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Results by a short name, of one launch: of dlrm_tiny's model on few samples."""
    folder = tmp_path_factory.mktemp("small")
    benchmark = str(write_definition(folder / "small.toml"))
    of_small = partial(case, benchmark, ensure(benchmark, folder))
    cases = {
        **{f"sgd {kind}": of_small(10, SGD, sharding=kind) for kind in SHARDING_TYPES},
        **{f"adagrad {kind}": of_small(5, ADAGRAD, sharding=kind, exchange="steps") for kind in SHARDING_TYPES},
        "rowwise row_wise": of_small(5, ROWWISE, sharding="row_wise"),
        "rowwise data_parallel": of_small(5, ROWWISE, sharding="data_parallel"),
        "rowwise column_wise": of_small(5, ROWWISE, sharding="column_wise"),
        "again": of_small(10, SGD, sharding="row_wise"),
        **{
            f"{kind} as on GPUs": of_small(10, SGD, sharding=kind, as_on_gpus=True)
            for kind in ("row_wise", "table_wise", "data_parallel")
        },
        "row_wise ahead": of_small(10, SGD, sharding="row_wise", ahead=True),
        "adagrad ahead": of_small(5, ADAGRAD, sharding="table_wise", exchange="steps", ahead=True),
        "fp16": of_small(20, SGD, sharding="table_wise", comm="fp16", exchange="steps"),
        "int8": of_small(20, SGD, sharding="table_wise", comm="int8", exchange="steps"),
        "int8 row_wise": of_small(20, SGD, sharding="row_wise", comm="int8"),
        "bf16": of_small(20, SGD, sharding="table_wise", comm="bf16"),
        "grad fp16": of_small(20, SGD, sharding="table_wise", grad_comm="fp16", exchange="steps"),
        "powersgd": of_small(20, SGD, sharding="table_wise", grad_comm="powersgd:2", exchange="steps"),
        "topk": of_small(20, SGD, sharding="table_wise", grad_comm="topk:0.01", exchange="steps"),
        "topk whole": of_small(20, SGD, sharding="table_wise", grad_comm="topk:1"),
        "dense": of_small(20, SGD, sharding="table_wise", exchange="all"),
        "odd batch": of_small(1, {**SGD, "global_batch_size": 511}, sharding="table_wise"),
        **{
            f"{optimizer} {plan}": of_small(steps, train, sharding=plan, exchange="steps")
            for optimizer, steps, train in (("sgd", 10, SGD), ("adagrad", 5, ADAGRAD))
            for plan in PLANS
        },
        **{f"by {name}": of_small(5, ADAGRAD, sharding=plan_by(name), exchange="steps") for name in SEARCHED},
        "rowwise plan": of_small(5, ROWWISE, sharding=PLANS[0]),
        "odd evaluation": of_small(1, {**SGD, "eval_batch_size": 999}, sharding="table_wise"),
        "soft labels": case(*prepare_soft(folder), 10, {**SGD, "eval_batch_size": 333}, sharding="row_wise"),
    }
    answers = run_cases(list(cases.values()), tmp_path_factory.mktemp("ranks"))
    return dict(zip(cases, answers, strict=True))


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize("kind", SHARDING_TYPES)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_every_sharding_gives_the_losses_of_the_reference(
    tiny: dict[str, dict[str, Any]], kind: str, optimizer: str
) -> None:
    result = tiny[f"{optimizer} {kind}"]
    assert largest_difference(result) < ROUNDED_LOSS
    assert result["quality"] == pytest.approx(result["reference_quality"], abs=1e-5)
    # Gathered on rank 0, under the reference's names.
    assert result["weights_difference"] < ONE_SAMPLE[optimizer]
    if kind != "auto":
        assert set(result["types"].values()) == {kind}


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_a_plan_gives_the_losses_of_the_reference_and_is_what_is_built(
    tiny: dict[str, dict[str, Any]], plan: str, optimizer: str
) -> None:
    check_built(tiny[f"{optimizer} {plan}"], plan, optimizer)


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize("search", SEARCHED)
def test_ranks_hold_what_the_plan_of_a_search_says(tiny: dict[str, dict[str, Any]], search: str) -> None:
    check_built(tiny[f"by {search}"], plan_by(search), "adagrad")
    assert (plan_by(search).count("+") > 0) == (search in CUTTING)


def check_built(result: dict[str, Any], plan: str, optimizer: str) -> None:
    """Assert that each of 8 tables has the columns on the ranks that a plan says, and that losses are the
    reference's."""
    assert largest_difference(result) < ROUNDED_LOSS
    assert result["quality"] == pytest.approx(result["reference_quality"], abs=1e-5)
    assert result["weights_difference"] < ONE_SAMPLE[optimizer]
    ranks = parse_sharding(plan) or ()
    kinds = ["table_wise" if len(each) == 1 else "column_wise" for each in ranks]
    assert [result["types"][f"table_{table}"] for table in range(8)] == kinds
    for table, each in zip(result["exchange"]["placement"], ranks, strict=True):
        columns = [(s["first_column"], s["num_columns"], s["rank"]) for s in table["shards"]]
        width = 16 // len(each)
        assert sorted(columns) == [(width * part, width, rank) for part, rank in enumerate(each)]


@pytest.mark.slow
@needs_torchrec
def test_what_is_logged_of_a_plan_is_the_type_of_each_table_as_built(tiny: dict[str, dict[str, Any]]) -> None:
    whole = ", ".join(f"table_{table}" for table in (0, 2, 3, 4, 6, 7))
    logged = tiny[f"sgd {PLANS[0]}"]["hyperparameters"]["sharding"]
    assert logged == f"column_wise: table_1, table_5; table_wise: {whole}"
    assert tiny["sgd auto"]["hyperparameters"]["sharding"] == "auto"


@pytest.mark.slow
@needs_torchrec
def test_rowwise_adagrad_follows_the_reference_where_rows_stay_whole(tiny: dict[str, dict[str, Any]]) -> None:
    assert largest_difference(tiny["rowwise row_wise"]) < ROUNDED_LOSS
    assert largest_difference(tiny["rowwise data_parallel"]) < ROUNDED_LOSS
    assert "row-wise Adagrad" in tiny["rowwise column_wise"]["error"]
    assert "row-wise Adagrad" in tiny["rowwise plan"]["error"]


@pytest.mark.slow
@needs_torchrec
def test_runs_repeat_bit_for_bit(tiny: dict[str, dict[str, Any]]) -> None:
    assert tiny["again"]["losses"] == tiny["sgd row_wise"]["losses"]
    assert tiny["again"]["quality"] == tiny["sgd row_wise"]["quality"]


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize("kind", ["row_wise", "table_wise", "data_parallel"])
def test_ids_of_32_bits_and_an_auc_on_the_device_change_no_number(tiny: dict[str, dict[str, Any]], kind: str) -> None:
    found, plain = tiny[f"{kind} as on GPUs"], tiny[f"sgd {kind}"]
    assert "error" not in found and found["as_on_gpus"]
    for what in ("losses", "quality", "weights_difference"):
        assert found[what] == plain[what]


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize(
    ("ahead", "plain"),
    [("row_wise ahead", "sgd row_wise"), ("adagrad ahead", "adagrad table_wise")],
)
def test_sending_ids_ahead_changes_no_number(tiny: dict[str, dict[str, Any]], ahead: str, plain: str) -> None:
    """Neither losses nor the quality after them, bit for bit, nor the bytes of the steps that are measured."""
    assert (tiny[ahead]["is_ahead"], tiny[plain]["is_ahead"]) == (True, False)
    for what in ("losses", "quality", "types"):
        assert tiny[ahead][what] == tiny[plain][what]
    if tiny[plain]["exchange"] is not None:
        found, expected = tiny[ahead]["exchange"], tiny[plain]["exchange"]
        assert found["bytes_per_step"] == expected["bytes_per_step"]


@pytest.mark.slow
@needs_torchrec
def test_the_last_part_of_an_evaluation_is_shared_too(tiny: dict[str, dict[str, Any]]) -> None:
    result = tiny["odd evaluation"]
    assert result["quality"] == pytest.approx(result["reference_quality"], abs=1e-6)


@pytest.mark.slow
@needs_torchrec
def test_soft_labels_are_trained_on_and_gathered_as_shares(tiny: dict[str, dict[str, Any]]) -> None:
    result = tiny["soft labels"]
    assert largest_difference(result) < ROUNDED_LOSS
    assert result["quality"] == pytest.approx(result["reference_quality"], abs=1e-5)
    assert 0 < abs(result["quality"] - 0.5) < 0.1, "shares that follow no column are ranked by chance"


@pytest.mark.slow
@needs_torchrec
def test_logs_what_was_built(tiny: dict[str, dict[str, Any]]) -> None:
    values = tiny["adagrad row_wise"]["hyperparameters"]
    assert values["world_size"] == 2
    assert values["local_batch_size"] * 2 == values["global_batch_size"] == 512
    assert (values["sharding"], values["comm"], values["grad_comm"]) == ("row_wise", "fp32", "dense")
    assert values["opt_name"] == "adagrad"
    assert values["opt_adagrad_epsilon"] == 1e-8


@pytest.mark.slow
@needs_torchrec
def test_what_cannot_be_shared_or_sent_is_refused(tiny: dict[str, dict[str, Any]]) -> None:
    assert "2 ranks cannot share" in tiny["odd batch"]["error"]
    assert "int8" in tiny["int8 row_wise"]["error"]
    assert "fp16" in tiny["bf16"]["error"]


@pytest.mark.slow
@needs_torchrec
def test_reduced_traffic_stays_near_and_is_less(tiny: dict[str, dict[str, Any]]) -> None:
    whole = tiny["dense"]["exchange"]["bytes_per_step"]
    for name, tolerance, kind, share in (
        ("fp16", 1e-4, "embedding_forward", 0.5),
        ("int8", 1e-3, "embedding_backward", 0.32),
        ("grad fp16", 1e-4, "dense_reduce", 0.51),
        ("topk", 0.02, "dense_reduce", 0.03),
    ):
        assert largest_difference(tiny[name]) < tolerance, name
        assert tiny[name]["exchange"]["bytes_per_step"][kind] <= share * whole[kind], name
    assert largest_difference(tiny["powersgd"]) < 0.02


@pytest.mark.slow
@needs_torchrec
def test_topk_of_everything_is_the_dense_reduction(tiny: dict[str, dict[str, Any]]) -> None:
    assert tiny["topk whole"]["losses"] == tiny["dense"]["losses"]


@pytest.mark.slow
@needs_torchrec
def test_bytes_of_a_step_are_those_of_the_shapes(tiny: dict[str, dict[str, Any]]) -> None:
    """Table-wise on two ranks: half of the samples' ids, vectors and gradients belong to the other rank."""
    from harness.config.catalog import load_entry

    workload = load_entry("dlrm_tiny").workload
    batch_size, dim = workload.train.global_batch_size, workload.model.embedding_dim
    num_tables = len(workload.data.multi_hot)
    num_bytes = tiny["dense"]["exchange"]["bytes_per_step"]
    assert num_bytes["embedding_forward"] == batch_size // 2 * num_tables * dim * 4
    assert num_bytes["embedding_backward"] == num_bytes["embedding_forward"]
    ids = batch_size // 2 * workload.data.num_lookups * (8 + 4)  # an id and a bag's length each
    assert ids <= num_bytes["input_redistribution"] <= ids + 200
    assert num_bytes["evaluation_gather"] == 0
    assert tiny["dense"]["exchange"]["bytes_per_evaluation"]["evaluation_gather"] >= workload.data.eval_samples // 2
    assert tiny["dense"]["exchange"]["formulas"]["evaluation_gather"][-1] == "gather_: input bytes, but for rank 0"
    assert tiny["topk"]["exchange"]["bytes_per_evaluation"] is None


@pytest.mark.slow
@needs_torchrec
def test_powersgd_sends_its_matrices_and_what_stays_whole(tiny: dict[str, dict[str, Any]]) -> None:
    """All of it is counted, also the rounds that begin in the group's own threads (Vogels et al. 2019, section 3)."""
    from harness.config.catalog import load_entry

    workload = load_entry("dlrm_tiny").workload
    model, num_features = workload.model, len(workload.data.multi_hot) + 1
    top_in = model.embedding_dim + num_features * (num_features - 1) // 2
    widths = [(workload.data.num_dense, *model.bottom_mlp), (top_in, *model.top_mlp)]
    layers = [(n, m) for mlp in widths for m, n in pairwise(mlp)]
    numbers = 0
    for n, m in layers:
        factors = min(2, n, m) * (n + m)
        numbers += n + (factors if 2 * factors < n * m else n * m)
    exchange = tiny["powersgd"]["exchange"]
    assert exchange["bytes_per_step"]["dense_reduce"] == 2 * numbers * 4  # each of two ranks sends all of them once
    assert exchange["formulas"]["dense_reduce"] == [
        "powersgd: 2 (N - 1) / N x bytes of P, Q and of the tensors that stay whole (ring)"
    ]


@pytest.mark.slow
@needs_torchrec
def test_the_link_between_ranks_is_measured(tiny: dict[str, dict[str, Any]]) -> None:
    exchange = tiny["dense"]["exchange"]  # how fast it is says more of the load than of the product
    assert exchange["link_bytes_per_s"] > 0 and exchange["link_sent_bytes"] > 0


@pytest.mark.slow
@needs_torchrec
@pytest.mark.parametrize("kind", SHARDING_TYPES)
def test_every_value_of_every_table_has_its_place(tiny: dict[str, dict[str, Any]], kind: str) -> None:
    """Rows and columns of the shards that were built: all of a table once, of a replicated one once per rank."""
    from harness.config.catalog import load_entry

    workload, result = load_entry("dlrm_tiny").workload, tiny[f"adagrad {kind}"]
    placement = result["exchange"]["placement"]
    assert {f"table_{table['table']}": table["sharding"] for table in placement} == result["types"]
    kernels = {"data_parallel": "dense"}
    assert all(table["kernel"] == kernels.get(table["sharding"], "fused") for table in placement)
    for table, rows in zip(placement, workload.data.num_embeddings or (), strict=True):
        held = [
            (row, column)
            for shard in table["shards"]
            for row in range(shard["first_row"], shard["first_row"] + shard["num_rows"])
            for column in range(shard["first_column"], shard["first_column"] + shard["num_columns"])
        ]
        whole = [(row, column) for row in range(rows) for column in range(workload.model.embedding_dim)]
        assert sorted(held) == sorted(whole * (2 if table["sharding"] == "data_parallel" else 1))
