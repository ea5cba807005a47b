"""Models and data of others: calibrated as ours are, or refused."""

from pathlib import Path

import dense_logistic
import pytest
import tomli_w
from calibration_builder import calibration_of, crossing_at
from command import Command
from dense_logistic import write_definition
from few_patterns import small_tables
from small_set import write_definition as write_small_definition

from harness.config.catalog import load_entry
from harness.extensions.calibration.calibrate import measure_oracle, plan_calibration
from harness.extensions.calibration.runs import CalibrationRun, RunStore, complete_runs, problem_digest
from harness.extensions.calibration.table import calibration_blocks
from harness.foundation.errors import ExitCode
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.errors import ConfigError
from reports.render.markdown import render_markdown

pytestmark = pytest.mark.numeric


@pytest.mark.slow
def test_calibration_trains_a_model_in_a_file(tmp_path: Path) -> None:
    own_file = tmp_path / "own" / "mine.py"
    own_file.parent.mkdir()
    own_file.write_text(Path(dense_logistic.__file__).read_text())
    definition = write_definition(tmp_path)
    with pytest.raises(ConfigError, match="no implementation 'reference', which calibration trains"):
        plan_calibration(load_entry(definition, f"{own_file}:SPEC"))
    own_file.write_text(own_file.read_text().replace('"plain": PLAIN', '"plain": PLAIN, "reference": PLAIN'))
    entry = load_entry(definition, f"{own_file}:SPEC")
    data = ensure_dataset(entry.workload.data, tmp_path, num_threads=1)
    run = CalibrationRun(model="reference", global_batch_size=512, opt_base_learning_rate=0.5, seed=1)
    store = RunStore(tmp_path / "runs", problem_digest(entry))
    (result,) = complete_runs(entry, data, [run], store, num_workers=1)
    assert result.final_quality > 0.6
    own_file.write_text(own_file.read_text() + "# changed\n")
    assert problem_digest(entry) != problem_digest(load_entry(definition, f"{own_file}:SPEC"))


def test_a_calibration_speaks_of_accuracy(tmp_path: Path) -> None:
    path = tmp_path / "few.toml"
    path.write_text(tomli_w.dumps(small_tables()))
    entry = load_entry(path)
    runs = [crossing_at(12, entry.benchmark.quality.target, seed=seed) for seed in range(3)]
    text = render_markdown(calibration_blocks(calibration_of(entry, runs, metric="accuracy")))
    assert "Accuracy over 3 seeds" in text and "best accuracy in the epoch" in text and "AUC" not in text
    oracle = measure_oracle(entry)
    assert oracle is not None and 0.7 < oracle < 1


def test_mapped_ids_are_refused_before_anything_is_written(inside: Command, tmp_path: Path) -> None:
    definition = write_small_definition(tmp_path / "hashed.toml")
    definition.write_text(f'{definition.read_text()}\n[id_map]\nkind = "hash"\n')
    done = inside("calibrate", "./hashed.toml", "-o", "out")
    assert done.returncode == ExitCode.USAGE and "calibrated without [id_map]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "data").exists()
