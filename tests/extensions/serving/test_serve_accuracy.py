"""`serve --mode accuracy`, `--mlperf` and `--user-conf` as they are typed."""

import json
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click_files import make_ads
from made_sets import made_in
from sklearn.metrics import roc_auc_score

from harness.extensions.serving.loadgen import ACCURACY_LOG, DETAIL, MODULE, SUMMARY
from harness.foundation.errors import ExitCode
from rules.records.codec import decode
from rules.records.study import StudyRecord

pytestmark = [
    pytest.mark.numeric,
    pytest.mark.skipif(find_spec(MODULE) is None, reason="MLPerf LoadGen is not installed"),
]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.once("kind serve: LoadGen asks a process, and its log is judged")
def test_the_log_is_kept_and_its_auc_is_judged(inside: Command, data_root: Path, tmp_path: Path) -> None:
    asked = ("--train", "8192", "--set", "runtime.precision=int8", "--set", "runtime.threads=1", "--batch", "256")
    words = (*asked, "--seed", "3", "-q", "-o", "out")
    done = inside("serve", "dlrm_tiny", "--mode", "accuracy", *words, "--data", data_root)
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    assert names == {"study.json", "report.html", ACCURACY_LOG, DETAIL, SUMMARY}
    study = decode(folder / "study.json", StudyRecord)
    assert (
        isinstance(study, StudyRecord) and study.kind == "accuracy" and all(each.is_passed for each in study.checks)
    )
    entries = json.loads((folder / ACCURACY_LOG).read_text())
    pairs = np.concatenate([np.frombuffer(bytes.fromhex(each["data"]), np.float32) for each in entries]).reshape(
        -1, 2
    )
    assert len(pairs) == 8192
    values = {each.name: each.value for each in study.parameters}
    reference = values["reference AUC"]
    assert isinstance(reference, float) and values["precision"] == "int8"
    for row, (name, share) in zip(study.tables[0].rows, (("99.9 %", 0.999), ("99 %", 0.99)), strict=True):
        assert row[0] == name and row[1] == pytest.approx(share * reference)
        assert row[2] == pytest.approx(roc_auc_score(pairs[:, 1], pairs[:, 0]))
        assert row[3] == (row[2] >= row[1])
    assert "the same weights" in study.findings[0] and "is not MLPerf's" in study.findings[1]


@pytest.mark.parametrize(
    ("words", "said"),
    (
        (("--mode", "accuracy"), "Give --weights SET of a 'run --keep-weights', or --train SAMPLES"),
        (("--mode", "accuracy", "--train", "512", "-n", "2"), "--mode accuracy takes one process"),
        (
            ("--mode", "accuracy", "--train", "512", "--set", "data.num_dense=3"),
            "labels of synthetic data are random",
        ),
        (("--mlperf",), "takes 55,296,000 samples, but the evaluation split holds 8,192: 30 queries"),
        (("--user-conf", "user.conf"), "user.conf:2: *.Server.max_duration' cannot be honoured"),
    ),
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    words: tuple[str, ...], said: str, inside: Command, data_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "user.conf").write_text("*.Server.target_qps = 9\n*.Server.max_duration = 4\n")
    done = inside("serve", "dlrm_tiny", *words, "-q", "-o", "out", "--data", data_root)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert said in done.stderr.replace("take ", "takes ") and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_accuracy_log_of_soft_labels_is_refused(inside: Command, tmp_path: Path) -> None:
    make_ads(2000).assign(click=np.arange(2000) % 9 / 8).to_csv(tmp_path / "soft.csv", index=False)
    assert inside("init", "soft.toml", "--from-columns", "soft.csv").returncode == 0
    words = ("--mode", "accuracy", "--train", "512", "--target-latency", "25ms", "-q", "-o", "out")
    done = inside("serve", "./soft.toml", *words)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "holds clicks, 0 or 1" in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
