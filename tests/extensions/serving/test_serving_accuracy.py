"""LoadGen's accuracy log: who answered what is in it, as MLPerf's own script for dlrm-v2 reads it."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import accuracy_process
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from waiting import HANG_S

from harness.extensions.serving.accuracy import read_accuracy_log
from harness.extensions.serving.loadgen import ACCURACY_LOG, DETAIL, MODULE
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.training.metrics import roc_auc

pytestmark = pytest.mark.numeric

needs_loadgen = pytest.mark.skipif(find_spec(MODULE) is None, reason="MLPerf LoadGen is not installed")


def make_items(seed: int, sizes: tuple[int, ...]) -> list[list[tuple[float, int]]]:
    """Logits and labels that have to do with each other."""
    drawn = np.random.default_rng(seed)
    logits = [drawn.normal(size=size).astype(np.float32).tolist() for size in sizes]
    return [[(logit, int(drawn.random() < 1 / (1 + np.exp(-logit)))) for logit in of_query] for of_query in logits]


def read_officially(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """What accuracy-dlrm.py takes out of a log that has the labels: results and targets, and how many queries."""
    seen, results, targets = set(), [], []
    for entry in json.loads(path.read_text()):
        if entry["qsl_idx"] in seen:
            continue
        seen.add(entry["qsl_idx"])
        data = np.frombuffer(bytes.fromhex(entry["data"]), np.float32)
        data = data.reshape((data.size // 2, 2))
        results.extend(data[:, 0])
        targets.extend(data[:, 1])
    return np.array(results), np.array(targets), len(seen)


@pytest.mark.slow
@needs_loadgen
@pytest.mark.parametrize(
    "more",
    ({"scenario": "server", "threads": 3, "batch": 7}, {"scenario": "offline"}, {"scenario": "single_stream"}),
)
def test_every_item_is_in_the_log_once_with_its_probability(tmp_path: Path, more: dict[str, Any]) -> None:
    items = make_items(5, (1, 20, 3, 8, 40, 2) * 4)
    asked = json.dumps({"items": items, **more})
    command = [sys.executable, accuracy_process.__file__, str(tmp_path), asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    probabilities, labels, num_queries = read_officially(tmp_path / ACCURACY_LOG)
    expected = sorted((1 / (1 + np.exp(-logit)), label) for of_query in items for logit, label in of_query)
    found = sorted(zip(probabilities.tolist(), labels.tolist(), strict=True))
    assert num_queries == len(items) and np.array(found) == pytest.approx(np.array(expected), rel=1e-6)
    for entry in json.loads((tmp_path / ACCURACY_LOG).read_text()):
        pairs = np.frombuffer(bytes.fromhex(entry["data"]), np.float32).reshape(-1, 2)
        assert pairs[:, 1].tolist() == [label for _, label in items[entry["qsl_idx"]]]
    read = read_accuracy_log(tmp_path / ACCURACY_LOG)
    assert read[2] == num_queries
    assert roc_auc(read[1], read[0]) == pytest.approx(roc_auc_score(labels, probabilities), abs=1e-12)
    assert '"key": "effective_test_mode", "value": "AccuracyOnly"' in (tmp_path / DETAIL).read_text()


def entry(number: int, *pairs: tuple[float, float]) -> dict[str, Any]:
    return {"seq_id": 0, "qsl_idx": number, "data": np.array(pairs, dtype=np.float32).tobytes().hex().upper()}


def test_a_query_that_was_asked_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / ACCURACY_LOG
    path.write_text(json.dumps([entry(1, (0.5, 1)), entry(0, (0.25, 0), (0.75, 1)), entry(1, (0.125, 0))]))
    probabilities, labels, num_queries = read_accuracy_log(path)
    official = read_officially(path)
    assert num_queries == official[2] == 2
    assert sorted(zip(probabilities, labels, strict=True)) == sorted(zip(*official[:2], strict=True))


@pytest.mark.parametrize(
    "content",
    ("", "[", "{}x", "[3]", "[{}]", '[{"qsl_idx": 0, "data": "zz"}]', '[{"qsl_idx": 0, "data": "00"}]', "3"),
)
def test_a_damaged_log_is_no_result(tmp_path: Path, content: str) -> None:
    (tmp_path / ACCURACY_LOG).write_text(content)
    with pytest.raises(HarnessError, match="no accuracy log of LoadGen") as refused:
        read_accuracy_log(tmp_path / ACCURACY_LOG)
    assert refused.value.exit_code == ExitCode.INCONCLUSIVE
