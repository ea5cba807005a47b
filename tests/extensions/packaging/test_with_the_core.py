"""`package` of what the core makes and finds: weights, other benchmarks, names, choices, code in files."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from command import Command
from other_benchmark_builder import write_other_set
from package_builder import TINY, make_set, package, run_set_record
from submission_builder import SYSTEM, set_folder, write_submission

from harness.extensions.packaging.code import system_files
from harness.extensions.packaging.tree import Tree, left_out
from harness.run_sets.folder import open_run_set
from harness.run_sets.names import link_latest
from rules.records.run_set import ChoiceRecord
from rules.tree.inventory import find_result_sets

OTHER = "llama31_8b is an MLPerf benchmark that dlrmbench does not judge"
WORDS = ("--submitter", "Example", "--no-second-opinion", "-o")


@pytest.mark.slow
def test_a_package_reads_each_log_of_its_sources_once_to_judge_it(tmp_path: Path, opened: Counter[Path]) -> None:
    root = make_set(tmp_path / "set")
    package([root], tmp_path / "package", second_opinion=False)
    (found,) = find_result_sets(root)
    assert {log: opened[log] for log in found.logs} == dict.fromkeys(found.logs, 1)


def test_a_package_leaves_weights_out_and_says_so(tmp_path: Path) -> None:
    root = make_set(tmp_path / "set")
    kept = root / "extra" / "run_0" / "weights"
    kept.mkdir(parents=True)
    for name in ("manifest.json", "weights.npz"):
        (kept / name).write_text("kept")
    (weights,) = (item for item in left_out([root], Tree(tmp_path, "ORG")) if "weights" in item.place)
    assert weights.place == "extra/run_0/weights/" and "--weights packages" in weights.reason
    assert weights.num_files == 2


def test_another_benchmark_is_refused(inside: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path / "training_results_v5.1")
    set_folder(top).rename(tmp_path / "aside")
    write_other_set(set_folder(top).with_name("llama31_8b"))
    done = inside("package", top, *WORDS, "package")
    assert done.returncode == 8 and OTHER in done.stderr and not (tmp_path / "package").exists()


def test_another_benchmark_is_left_out(inside: Command, tmp_path: Path) -> None:
    top = write_submission(tmp_path / "a")
    lost = write_other_set(set_folder(top).with_name("llama31_8b"))
    done = inside("package", top, *WORDS, "package")
    assert (done.returncode, done.stderr) == (0, f"not judged: {lost}: {OTHER}.\n"), done.stderr
    assert "1 set: 1 valid" in done.stdout
    results = tmp_path / "package" / "Example" / "results" / SYSTEM
    assert [path.name for path in results.iterdir()] == ["dlrm_dcnv2"]


@pytest.mark.slow
def test_a_set_is_packed_once_by_its_name_and_by_the_link_to_it(inside: Command, tmp_path: Path) -> None:
    link_latest(make_set(tmp_path / "results" / "dlrm_tiny-mine-20260105T000000Z"))
    done = inside("package", "mine", "latest", *WORDS, "tree")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "tree").rglob("result_0.txt"))) == 1


def test_a_package_repeats_what_was_chosen(tmp_path: Path) -> None:
    matmul = {"num_threads": 2, "precision": "fp32", "torch_version": "2.13.0", "cpu": "a test", "products": []}
    chosen = {
        "key": "a" * 64,
        "num_threads": 2,
        "spin_count": 300_000,
        "tried": [],
        "matmul": matmul,
        "matmul_source": "timing",
        "chosen_utc": "2026-11-21T03:00:00Z",
    }
    root = make_set(tmp_path / "set", choice=chosen)
    run_set, record = open_run_set(root)
    assert isinstance(record.choice, ChoiceRecord)
    files = dict(system_files(record, TINY, run_set.definition, record.system.name))
    script = str(files["run_and_time.sh"])
    assert '--matmul "$here/matmul.json"' in script and 'GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-300000}"' in script
    assert json.loads(str(files["matmul.json"])) == json.loads(msgspec.json.encode(record.choice.matmul)) == matmul


@pytest.mark.slow
def test_a_model_in_a_file_is_packed_with_its_file(tmp_path: Path) -> None:
    plain = tmp_path / "mine.py"
    plain.write_text("SPEC = None\n")
    place = f"{plain}:SPEC@{hashlib.sha256(plain.read_bytes()).hexdigest()}"
    config = run_set_record()["config"] | {
        "runtime.model": {"value": place, "source": "option --model"},
        "runtime.implementation": {"value": "plain", "source": "option --implementation"},
    }
    made = package([make_set(tmp_path / "set", config=config)], tmp_path / "out")
    (script,) = made.submission.rglob("run_and_time.sh")
    assert '--model "$here"/../implementations/dlrmbench-plain/own/model/mine.py:SPEC ' in script.read_text()
    (packed,) = made.submission.rglob("own/model/mine.py")
    assert packed.read_bytes() == plain.read_bytes()
