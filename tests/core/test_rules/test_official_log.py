"""Under the official name, on a small row-capped set, only the official checker's true complaints remain.

Users cannot make such a log by options (test_harness_config): it would be another benchmark.
"""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import mlperf_layout_builder as builder
import pytest
from scripted_workload import ScriptedWorkload, run_scripted, run_spec

from harness.measure.training import run_attempt
from reference_models.data.registry import parse_data
from reference_models.process.world import SingleProcess
from rules.benchmarks.loader import load_benchmark, read_toml
from rules.logs import keys
from rules.logs.log import read_log


def capped_tables(folder: Path) -> dict[str, Any]:
    """dlrm_dcnv2's definition with tables of at most 50 rows, and a generated set of that shape in `folder`."""
    tables = deepcopy(read_toml(load_benchmark("dlrm_dcnv2").path))
    data = builder.cap_tables(parse_data(tables["data"]), 50, train_samples=23 * 60, eval_samples=150)
    assert data.num_embeddings is not None
    builder.write_multi_hot_layout(folder, data, [60] * 23 + [300])
    tables["data"] |= {
        "num_embeddings": list(data.num_embeddings),
        "train_samples": 23 * 60,
        "eval_samples": 150,
    }
    tables["train"]["global_batch_size"] = 64
    tables["runtime"] = {"device": "cpu", "threads": 1}
    return tables


@pytest.fixture(scope="module")
def official_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("official")
    tables = capped_tables(folder / "data")
    (folder / "attempt").mkdir()
    spec = run_spec(
        tables=tables,
        definition_path="dlrm_dcnv2.toml",
        data_dir=str(folder / "data"),
        folder=str(folder / "attempt"),
    )
    run_attempt(spec, SingleProcess(), lambda event: None)
    return folder / "attempt" / "log.txt"


_ASK = """
import json, sys
from mlperf_logging.compliance_checker import mlp_compliance
checker = mlp_compliance.make_checker("training", sys.argv[2], True, False)
valid, *_ = mlp_compliance.main(sys.argv[1], f"training_{sys.argv[2]}/common.yaml", checker)
print(json.dumps([valid, sorted(checker.overwritable), checker.not_overwritable]))
"""


def official_opinion(log: Path, ruleset: str = "6.0.0") -> tuple[bool, list[str], list[str]]:
    """(valid, keys complained about, other complaints) of the official checker."""
    done = subprocess.run([sys.executable, "-c", _ASK, str(log), ruleset], capture_output=True, text=True, check=True)
    valid, by_key, others = json.loads(done.stdout.splitlines()[-1])
    return valid, by_key, others


@pytest.mark.slow
def test_the_official_checker_complains_about_what_is_untrue_and_nothing_else(official_log: Path) -> None:
    log = read_log(official_log)
    assert log.value(keys.SUBMISSION_BENCHMARK) == "dlrm_dcnv2"
    assert log.value(keys.SUBMISSION_DIVISION) == "closed"
    assert log.value(keys.EVAL_SAMPLES) == 150
    assert max(line.value for line in log.all(keys.EVAL_ACCURACY)) < 0.80275
    valid, by_key, others = official_opinion(official_log)
    assert not valid
    assert by_key == ["eval_samples"]
    assert len(others) == 1 and "eval_accuracy" in others[0]


@pytest.mark.slow
def test_readers_and_optimizer_are_logged_as_they_are(official_log: Path) -> None:
    log = read_log(official_log)
    assert log.value(keys.TRAIN_SAMPLES) == 23 * 60
    assert log.value(keys.OPT_ADAGRAD_EPSILON) == 1e-8
    assert log.value(keys.GLOBAL_BATCH_SIZE) == 64


def test_with_the_true_counts_and_the_target_met_it_complains_about_nothing(tmp_path: Path) -> None:
    benchmark = load_benchmark("dlrm_dcnv2")
    workload = ScriptedWorkload(
        benchmark, [0.79, 0.803], global_batch_size=65536, train_samples=4195197692, eval_samples=89137319
    )
    run_scripted(tmp_path / "log.txt", workload)
    assert official_opinion(tmp_path / "log.txt") == (True, [], [])


def test_dlrm_v1_names_the_initialised_weights(tmp_path: Path) -> None:
    benchmark = load_benchmark("dlrm")
    workload = ScriptedWorkload(
        benchmark, [0.7, 0.8026], global_batch_size=65536, train_samples=4195197692, eval_samples=89137319
    )
    run_scripted(tmp_path / "log.txt", workload)
    lines = read_log(tmp_path / "log.txt").all(keys.WEIGHTS_INITIALIZATION)
    assert sorted(line.metadata["tensor"] for line in lines) == [
        "bottom_mlp_dense1", "bottom_mlp_dense2", "bottom_mlp_dense3", "embeddings",
        "top_mlp_dense1", "top_mlp_dense2", "top_mlp_dense3", "top_mlp_dense4", "top_mlp_dense5",
    ]  # fmt: skip
    assert official_opinion(tmp_path / "log.txt", "2.1.0") == (True, [], [])
