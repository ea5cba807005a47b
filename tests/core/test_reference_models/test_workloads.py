"""RM1 to RM3 of DeepRecSys: their golden counts, and that nobody can train them to a target or judge them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.config.catalog import load_entry
from harness.config.run_config import Override, resolve
from reference_models.dlrm.spec import SPEC
from reference_models.process.errors import ConfigError
from rules.benchmarks.loader import (
    list_workload_names,
    load_benchmark,
    parse_benchmark,
    read_definition,
    read_definition_text,
    shipped_names,
)
from rules.errors import DefinitionError

pytestmark = pytest.mark.numeric

NAMES = ("rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys")
PUBLISHED = {  # rows per table, tables, lookups, embedding dimension
    "rm1_deeprecsys": (4_000_000, 8, 80, 32),
    "rm2_deeprecsys": (500_000, 32, 120, 64),
    "rm3_deeprecsys": (2_000_000, 10, 20, 32),
}


@pytest.mark.parametrize(
    ("name", "flop", "embedding_bytes"),
    [
        ("rm1_deeprecsys", 200_832, 81_920),
        ("rm2_deeprecsys", 639_104, 983_040),
        ("rm3_deeprecsys", 6_406_656, 25_600),
    ],
)
def test_flop_and_bytes_per_sample_are_the_published_shapes(name: str, flop: int, embedding_bytes: int) -> None:
    workload = load_entry(name).workload
    counts = SPEC.costs.model(workload.model, workload.data)
    assert counts.forward_flop_per_sample == flop
    assert counts.embedding_bytes_per_sample == embedding_bytes


@pytest.mark.parametrize("name", NAMES)
def test_row_scale_restores_the_published_tables(name: str) -> None:
    rows, num_tables, lookups, dim = PUBLISHED[name]
    shipped = load_entry(name).workload.data
    assert shipped.num_embeddings == (rows // 100,) * num_tables
    override = Override(key="data.row_scale", value=1, source="test")
    full = resolve(name, [override], derived_suffix="_throughput").workload
    assert full.data.num_embeddings == (rows,) * num_tables
    assert full.data.multi_hot == (lookups,) * num_tables
    assert full.model.embedding_dim == dim


def test_workloads_are_known_by_name_and_are_no_benchmarks() -> None:
    assert list_workload_names() == ("click_log_twins", *NAMES)
    assert not set(list_workload_names()) & set(shipped_names())


@pytest.mark.parametrize("name", ["click_log_twins", *NAMES])
def test_a_workload_has_no_target_and_says_what_to_do(name: str) -> None:
    workload = load_benchmark(name)
    assert workload.status == "workload"
    for ask in (lambda: workload.quality, lambda: workload.score, lambda: workload.is_met_by(1.0)):
        with pytest.raises(DefinitionError, match=f"{name}.*--throughput"):
            ask()


@pytest.mark.parametrize("verb", [("run",), ("sweep", "--axis", "runtime.threads=1,2"), ("plan",)])
def test_verbs_that_need_a_target_refuse_a_workload(verb: tuple[str, ...], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, [verb[0], "rm1_deeprecsys", *verb[1:]])
    assert isinstance(done.exception, DefinitionError)
    assert "without a quality target" in str(done.exception)


def test_a_workload_with_a_section_to_judge_by_is_refused() -> None:
    path = load_benchmark("rm1_deeprecsys").path
    tables = read_definition(path)
    for section in ("quality", "score", "closed"):
        with pytest.raises(DefinitionError, match=rf"\[{section}\]"):
            parse_benchmark({**tables, section: {}}, path)


def test_a_changed_workload_stays_one_under_another_name() -> None:
    overrides = [Override(key="data.num_tables", value=3, source="test")]
    changed = resolve("rm1_deeprecsys", overrides, derived_suffix="_throughput")
    assert changed.benchmark.status == "workload"
    assert changed.benchmark.name == "rm1_deeprecsys_throughput"
    with pytest.raises(ConfigError, match="--name"):
        resolve("rm1_deeprecsys", overrides)


@pytest.mark.parametrize(
    "key", ["data.num_tables", "data.rows_per_table", "data.lookups_per_table", "data.num_dense"]
)
def test_throughput_of_another_shape_reads_synthetic_data_of_the_definitions_shape(key: str) -> None:
    original = load_entry("dlrm_tiny").workload.data
    changed = resolve("dlrm_tiny", [Override(key=key, value=8, source="test")], derived_suffix="_throughput")
    data = changed.workload.data
    assert data.kind == "made_up"
    assert data.num_sparse == original.num_sparse == 8
    assert data.parameters == {"zipf_exponent": original.parameters["zipf_exponent"]}
    assert (data.num_embeddings == original.num_embeddings) == (key != "data.rows_per_table")
    assert changed.values()["data.kind"]["source"].startswith("synthetic, since")


def test_throughput_of_the_definitions_shape_reads_its_dataset() -> None:
    overrides = [Override(key="model.top_mlp", value=[8, 1], source="test")]
    assert resolve("dlrm_tiny", overrides, derived_suffix="_throughput").workload.data.kind == "click_log"


def test_nothing_is_trained_to_a_target_on_synthetic_data(tmp_path: Path) -> None:
    text = read_definition_text(load_benchmark("dlrm_tiny").path).replace('name = "dlrm_tiny"', 'name = "mine"')
    start, stop = text.index("[data]"), text.index("[train]")
    made = '[data]\nkind = "made_up"\nname = "m"\nnum_tables = 2\nrows_per_table = 9\n\n'
    (tmp_path / "mine.toml").write_text(text[:start] + made + text[stop:])
    done = CliRunner().invoke(cli, ["run", str(tmp_path / "mine.toml"), "-o", str(tmp_path / "out")])
    assert "coin flips" in str(done.exception)
    assert not (tmp_path / "out").exists()
