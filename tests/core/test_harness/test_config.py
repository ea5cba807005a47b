"""Values and their sources; what may change under a benchmark's own name and what may not."""

from pathlib import Path

import pytest

from harness.config.run_config import (
    Override,
    parse_value,
    read_config_file,
    read_environment,
    read_set_option,
    resolve,
)
from harness.foundation.errors import HarnessError
from reference_models.process.errors import ConfigError
from rules.benchmarks.loader import load_benchmark, read_definition_text
from rules.errors import DefinitionError


def sets(*assignments: str) -> list[Override]:
    return [read_set_option(text) for text in assignments]


def test_without_overrides_everything_comes_from_the_definition() -> None:
    config = resolve("dlrm_tiny", [])
    assert config.benchmark.definition_sha256 == load_benchmark("dlrm_tiny").definition_sha256
    assert {v["source"] for k, v in config.values().items() if not k.startswith("runtime.")} == {"definition"}


def test_the_stronger_source_wins_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nglobal_batch_size = 256\nopt_base_learning_rate = 0.5\n")
    environment = {"DLRMBENCH_TRAIN_GLOBAL_BATCH_SIZE": "1024", "PATH": "/bin"}
    overrides = [*read_config_file(file), *read_environment(environment), *sets("train.global_batch_size=2048")]
    values = resolve("dlrm_tiny", overrides).values()
    assert values["train.global_batch_size"] == {"value": 2048, "source": "--set train.global_batch_size"}
    assert values["train.opt_base_learning_rate"]["source"] == f"file {file}"
    without_set = resolve("dlrm_tiny", overrides[:-1]).values()
    assert without_set["train.global_batch_size"]["source"] == "environment DLRMBENCH_TRAIN_GLOBAL_BATCH_SIZE"


def test_free_fields_and_runtime_keep_the_benchmark() -> None:
    config = resolve("dlrm_tiny", sets("train.global_batch_size=1024", "runtime.threads=1"))
    assert config.benchmark.name == "dlrm_tiny"
    assert config.benchmark.definition_sha256 == load_benchmark("dlrm_tiny").definition_sha256
    assert config.digest() != resolve("dlrm_tiny", []).digest()


@pytest.mark.parametrize(
    "assignment", ["quality.target=0.6", "model.embedding_dim=4", "data.seed=5", "train.opt_weight_decay=0.1"]
)
@pytest.mark.parametrize("name", ["dlrm_tiny", "dlrm_dcnv2"])
def test_a_fixed_field_cannot_change_under_the_benchmarks_name(name: str, assignment: str) -> None:
    with pytest.raises((ConfigError, DefinitionError)) as caught:
        resolve(name, sets(assignment))
    assert assignment.partition("=")[0].partition(".")[2] in str(caught.value)


def test_with_a_name_it_becomes_another_benchmark() -> None:
    config = resolve("dlrm_dcnv2", sets("quality.target=0.7"), name="my_dcnv2")
    assert (config.benchmark.name, config.benchmark.status, config.benchmark.rounds) == ("my_dcnv2", "own", ())
    assert config.benchmark.definition_sha256 != load_benchmark("dlrm_dcnv2").definition_sha256


def test_other_data_has_another_size_in_closed_and_no_digest() -> None:
    config = resolve("dlrm_tiny", sets("data.train_samples=4096"), name="short")
    assert "sha256" not in config.tables["data"] and config.workload.data.sha256 is None
    assert config.tables["closed"]["train_samples"] == 4096
    tiny = load_benchmark("dlrm_tiny")
    same = resolve("dlrm_tiny", sets(f"data.train_samples={tiny.sections['data']['train_samples']}"), name="label")
    assert same.benchmark.definition_sha256 == tiny.definition_sha256


def test_in_throughput_mode_the_bottom_mlp_follows_the_embedding_dimension_unless_it_is_set() -> None:
    config = resolve("dlrm_tiny", sets("model.embedding_dim=32"), derived_suffix="_throughput")
    assert (config.benchmark.name, config.tables["model"]["bottom_mlp"]) == ("dlrm_tiny_throughput", [32, 32])
    assert config.values()["model.bottom_mlp"]["source"].startswith("--set model.embedding_dim")
    with pytest.raises(ConfigError, match="last width"):
        resolve("dlrm_tiny", sets("model.embedding_dim=32", "model.bottom_mlp=[8, 16]"), derived_suffix="_throughput")


def test_a_key_inside_a_table_changes_alone_and_each_source_is_recorded() -> None:
    before = resolve("dlrm_tiny", []).values()["data.parameters"]["value"]
    overrides = sets("data.parameters.bias=-1.5", "data.parameters.num_interactions=2")
    after = resolve("dlrm_tiny", overrides, name="mine").values()["data.parameters"]
    assert after["value"] == {**before, "bias": -1.5, "num_interactions": 2}
    assert after["source"] == "--set data.parameters.bias, --set data.parameters.num_interactions"
    with pytest.raises(ConfigError, match=r"data\.parameters is fixed .*--set data\.parameters\.bias"):
        resolve("dlrm_tiny", overrides)


def test_a_shipped_name_cannot_be_taken() -> None:
    with pytest.raises(ConfigError, match="shipped"):
        resolve("dlrm_tiny", sets("quality.target=0.7123"), name="dlrm_small")


def test_a_users_file_with_a_shipped_name_and_other_content_is_refused(tmp_path: Path) -> None:
    text = read_definition_text(load_benchmark("dlrm_dcnv2").path).replace("target = 0.80275", "target = 0.7")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match="shipped benchmark with other"):
        resolve(tmp_path / "mine.toml", [])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.global_batchsize=3", "Did you mean 'global_batch_size'"),
        ("runtime.treads=1", "Did you mean 'threads'"),
        ("trian.global_batch_size=3", "Did you mean 'train'"),
        ("global_batch_size=3", "section.key=value"),
        ("train.global_batch_size", "section.key=value"),
        ("train.global_batch_size=0", "at least 1"),
        ("train.global_batch_size=many", "whole number"),
        ("runtime.precision=fp4", "fp32"),
        ("train.opt_name.kind=sgd", "--set train.opt_name.kind: train.opt_name is 'adagrad', no table"),
        ("train.oops.kind=sgd", "unknown key 'train.oops'"),
        ("submission.cloud=x", "not a submission field"),
        ("submission.status=Sold", "rules do not know"),
    ],
)
def test_bad_assignments_say_what_was_expected(assignment: str, message: str) -> None:
    with pytest.raises((ConfigError, DefinitionError, HarnessError)) as caught:
        resolve("dlrm_tiny", sets(assignment))
    assert message in str(caught.value)


def test_an_unknown_environment_variable_is_an_error() -> None:
    with pytest.raises(ConfigError, match="DLRMBENCH_THREADS"):
        read_environment({"DLRMBENCH_THREADS": "2"})


def test_a_section_of_two_words_is_set_by_a_variable_too() -> None:
    (override,) = read_environment({"DLRMBENCH_ID_MAP_KIND": "hash"})
    assert (override.key, override.value) == ("id_map.kind", "hash")


def test_an_unknown_section_of_a_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[trian]\nglobal_batch_size = 1\n")
    with pytest.raises(ConfigError, match=r"c\.toml.*Did you mean 'train'"):
        read_config_file(file)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("1e-3", 1e-3), ("true", True), ("[1, 2]", [1, 2]), ("cuda:0", "cuda:0"), ("", "")]
)
def test_values_are_toml_or_plain_text(text: str, value: object) -> None:
    assert parse_value(text) == value
