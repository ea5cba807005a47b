"""The schema of definitions takes every shipped one, and refuses what their reader refuses."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.config.catalog import has_implementation, parse_workload
from harness.config.schema import definition_schema
from rules.benchmarks.loader import (
    list_workload_names,
    load_benchmark,
    parse_benchmark,
    read_definition,
    shipped_names,
)
from rules.errors import DefinitionError

SCHEMA = definition_schema("dlrm")
TINY = read_definition(load_benchmark("dlrm_tiny").path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*shipped_names(), *list_workload_names()])
def test_every_shipped_definition_fits(name: str) -> None:
    benchmark = load_benchmark(name)
    if has_implementation(benchmark):
        schema = definition_schema(benchmark.model)
        jsonschema.Draft202012Validator(schema).validate(read_definition(benchmark.path))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_editors_show_what_each_key_means() -> None:
    for name, record in SCHEMA["$defs"].items():
        entries = record["properties"].items()
        assert [key for key, entry in entries if len(entry.get("description", "")) < 10] == [], name
    target = SCHEMA["$defs"]["Quality"]["properties"]["target"]
    assert target["description"].startswith("Quality at which a run ends")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("benchmark.name", "No Name", "expected lower case letters, digits and '_'"),
        ("benchmark.name", "name\n", "benchmark.name"),
        ("benchmark.version", 0, "benchmark.version is 0, expected a whole number of at least 1"),
        ("benchmark.notes", "one", "benchmark.notes is 'one', expected a list"),
        ("quality.target", 1.5, "quality.target is 1.5, expected a number from 0.5 to 1"),
        ("quality.metric", "f1", "quality.metric is 'f1', expected 'roc_auc' or 'accuracy'"),
        ("quality.binds_open", 1, "quality.binds_open is 1, expected true or false"),
        ("quality.first_eval", {"slope": 1, "offset": 0, "divisor": 0}, "quality.first_eval.divisor is 0"),
        ("quality.taget", 0.8, "unknown key 'taget' in [quality]. Did you mean 'target'"),
        ("score.num_runs", 2.5, "score.num_runs is 2.5, expected a whole number"),
        ("model.embedding_dim", "16", "model.embedding_dim is '16', expected a whole number of at least 1"),
        ("model.bottom_mlp", [32, 0], "model.bottom_mlp is [32, 0], expected a list of whole numbers of at least 1"),
        ("model.interaction", "dott", "model.interaction is 'dott'. Did you mean 'dot'"),
        ("data.kind", "click_logs", "data.kind is 'click_logs'. Did you mean 'click_log'"),
        ("data.seed", -1, "data.seed is -1, expected a whole number of at least 0"),
        ("train.opt_name", "adam", "train.opt_name = 'adam' contradicts"),
        ("train.sgd_opt_base_learning_rate", 0.1, "unknown key train.sgd_opt_base_learning_rate"),
        ("runtime.threads", "many", "runtime.threads is 'many', expected a whole number of at least 1"),
        ("runtime.sharding", "rows", "runtime.sharding is 'rows'"),
    ],
)
def test_what_the_reader_refuses_does_not_fit(key: str, value: Any, message: str) -> None:
    tables = deepcopy(TINY)
    section, _, name = key.partition(".")
    tables[section][name] = value
    with pytest.raises(DefinitionError) as refused:
        benchmark = parse_benchmark(tables, Path("mine.toml"))
        parse_workload(benchmark, benchmark.sections)
    assert message in str(refused.value)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(tables)


@pytest.mark.parametrize("spelling", ["made_up", "synthetic"])
def test_both_spellings_of_synthetic_data_are_one_problem(spelling: str) -> None:
    tables = deepcopy(TINY)
    tables["data"] = {"kind": spelling, "num_tables": 2, "rows_per_table": 9}
    jsonschema.Draft202012Validator(SCHEMA).validate(tables)
    benchmark = parse_benchmark(tables, Path("mine.toml"))
    assert parse_workload(benchmark, benchmark.sections).data.kind == "made_up"
    older = {**tables, "data": {**tables["data"], "kind": "made_up"}}
    assert benchmark.definition_sha256 == parse_benchmark(older, Path("mine.toml")).definition_sha256
