"""d2nn_small from the command line: whatever shows a quality calls it accuracy, and wrong values are one line."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from few_patterns import small_tables
from made_sets import made_in
from past_sets import past_sets
from records_builder import quality_content, quality_process
from sweep_builder import FastWorkers, stamps, use_fast_workers

from harness.config.catalog import load_entry
from harness.measure.quality import QualityJob, train_and_evaluate
from harness.run_sets.dataset import ensure_dataset
from reference_models.process.world import SingleProcess
from rules.benchmarks.loader import load_benchmark, read_toml
from rules.records.codec import Damage, decode
from rules.records.measured.quality import QualityRecord

pytestmark = pytest.mark.numeric

CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "few.toml"
    path.write_text(tomli_w.dumps(small_tables()))
    return path


class AccuracyWorkers(FastWorkers):
    """Measure accuracies instead of AUCs."""

    def quality_answer(self, spec: Mapping[str, Any], number: int) -> dict[str, Any]:
        """As a process would measure it: less with more noise."""
        value = 0.8 - 0.1 * spec["tables"]["model"].get("mask_noise", 0) + spec["seed"] % 97 / 1e5
        return quality_content([accuracy_process(value, num_samples=spec["num_samples"], **stamps(number))])


def accuracy_process(value: float, **changes: Any) -> dict[str, Any]:
    process = quality_process(auc=value, **changes)
    for evaluation in process["evaluations"]:
        evaluation["accuracy"] = evaluation.pop("auc")
    return process


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.pitch_mm=0.5", "model.pitch_mm is 0.5, expected more than 0.5303 (wavelength_mm / sqrt(2))"),
        ("model.mask_noize=1", "unknown key model.mask_noize. Did you mean 'mask_noise'?"),
        ("model.grid=20", "model.grid is 20, expected a multiple of 8"),
        ("data.parameters.flip_shar=0.1", "unknown key data.parameters.flip_shar. Did you mean 'flip_share'?"),
    ],
)
def test_a_wrong_definition_is_one_line_and_exit_code_2(
    setting: str, message: str, definition: Path, command: CLI
) -> None:
    code, out, err = command("run", definition, "--name", "other", "--set", setting)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert message in err


@pytest.mark.parametrize(
    ("name", "metric", "model"), [("d2nn_small", "roc_auc", "d2nn"), ("dlrm_tiny", "accuracy", "dlrm")]
)
def test_a_metric_that_the_model_does_not_measure_is_refused(
    name: str, metric: str, model: str, tmp_path: Path, command: CLI
) -> None:
    tables = deepcopy(read_toml(load_benchmark(name).path))
    tables["benchmark"]["name"], tables["quality"]["metric"] = "mine", metric
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(tables))
    code, _, err = command("plan", path)
    assert code == 2 and f"quality.metric is '{metric}', but model '{model}' is measured by" in err


def test_show_and_plan_name_the_metric(command: CLI) -> None:
    content = json.loads(command("show", "d2nn_small", "--format", "json")[1])
    assert content["quality"]["metric"] == "accuracy" and content["size"]["num_parameters"] == 4096
    code, out, _ = command("plan", "d2nn_small", "--no-measure")
    assert code == 0 and "accuracy 0." in out and "AUC" not in out


@pytest.mark.slow
def test_a_set_is_judged_and_shown_by_its_accuracy(definition: Path, workers: FastWorkers, command: CLI) -> None:
    code, out, err = command("run", definition, "--name", "first", "--seed", "5")
    assert code == 0, err + out
    assert "AUC" not in out + err and "5 runs to accuracy 0." in err
    (folder,) = made_in(Path("results"))
    log = next(folder.rglob("result_0.txt"))
    assert '"quality_metric", "value": "accuracy"' in log.read_text()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "AUC" not in page
    for words in (
        "few_patterns trained to accuracy 0.",
        "Accuracy on the held-out split",
        "mean of final accuracies",
        "Final accuracy",
        "the share of samples whose most likely class is the right one",
    ):
        assert words in page, words
    for verb in ("check", "score", "report"):
        code, out, err = command(verb, folder)
        assert code == 0 and "AUC" not in out + err, out + err
    assert command("run", definition, "--name", "second", "--seed", "6")[0] == 0
    second = next(path for path in made_in(Path("results")) if path != folder)
    for verb in ("compare", "diff"):
        code, out, err = command(verb, folder, second)
        assert code == 0 and "AUC" not in out + err, out + err
    text = log.read_text()
    log.write_text(text.replace('"value": "accuracy"', '"value": "roc_auc"'))
    code, out, _ = command("check", folder, "--no-second-opinion")
    assert code == 3 and "quality_metric is not that of the definition few_patterns" in " ".join(out.split())
    log.write_text("".join(line for line in text.splitlines(keepends=True) if "quality_metric" not in line))
    code, out, _ = command("check", folder, "--no-second-opinion")
    assert code == 3 and "quality_metric" in out


@pytest.mark.slow
def test_accuracies_are_compared_by_their_difference(
    definition: Path, command: CLI, monkeypatch: pytest.MonkeyPatch, workers: FastWorkers
) -> None:
    use_fast_workers(monkeypatch, AccuracyWorkers())
    axis = ("--axis", "model.mask_noise=0,0.5", "--quality", "640", "-n", "5", "--seed", "5")
    code, out, err = command("sweep", definition, *axis)
    assert code == 0, err
    words = " ".join(out.split())
    assert "Worse: Accuracy \N{MINUS SIGN}0.05000" in words and "AUC" not in out + err
    (folder,) = made_in(Path("results"))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Accuracy" in page and "AUC" not in page
    base, new = sorted(path.parent.parent for path in folder.rglob("quality.json"))
    code, out, err = command("compare", base, new)
    assert "Accuracy" in out and "AUC" not in out, out + err
    assert {past["quantity"] for past in past_sets("results")} == {"Accuracy"}
    code, out, _ = command("compare", base, new, "--format", "json")
    assert json.loads(out)["comparisons"][0]["factors"][0]["unit"] == "accuracy"


def test_a_quality_file_without_any_quality_is_damaged(
    definition: Path, command: CLI, monkeypatch: pytest.MonkeyPatch, workers: FastWorkers
) -> None:
    use_fast_workers(monkeypatch, AccuracyWorkers())
    assert command("run", definition, "--quality", "640", "-n", "5")[0] == 0
    (folder,) = made_in(Path("results"))
    path = folder / "extra" / "quality.json"
    content = json.loads(path.read_text())
    content["processes"][3]["evaluations"][-1]["accuracy"] = None
    path.write_text(json.dumps(content))
    code, _, err = command("compare", folder, folder)
    assert code in (2, 8) and "processes[3].accuracy: found nothing, expected Accuracy of every process" in err


def test_quality_is_measured_as_accuracy(definition: Path, tmp_path: Path) -> None:
    entry = load_entry(definition)
    data_dir = ensure_dataset(entry.workload.data, tmp_path / "data", num_threads=1)
    job = QualityJob(
        tables=read_toml(definition),
        definition_path=str(definition),
        data_dir=str(data_dir),
        seed=3,
        folder=str(tmp_path),
        num_samples=640,
    )
    events: list[Mapping[str, Any]] = []
    record = train_and_evaluate(job, SingleProcess(), events.append)
    assert record is not None and record.measure.unit == "accuracy"
    (process,) = record.processes
    assert process.auc is None and process.accuracy is not None and 0 < process.accuracy < 1
    assert [event["quality"] for event in events] == [evaluation.accuracy for evaluation in process.evaluations]
    assert process.normalised_entropy == pytest.approx(process.log_loss / 1.386, rel=0.1)


@pytest.mark.slow
def test_a_profile_has_the_phases_of_images(definition: Path, tmp_path: Path, command: CLI) -> None:
    code, out, err = command(
        "profile",
        definition,
        "--steps",
        10,
        "--threads",
        1,
        "--data",
        tmp_path / "data",
        "-o",
        tmp_path,
        "-q",
    )
    assert code == 0, err
    assert "propagation" in out


def test_a_record_of_both_kinds_of_evaluations_is_read(tmp_path: Path) -> None:
    """A file of AUCs says nothing of accuracy, as those written before there was one."""
    path = tmp_path / "quality.json"
    path.write_text(json.dumps(quality_content([quality_process(auc=0.7)])))
    record = decode(path, QualityRecord)
    assert not isinstance(record, Damage) and record.measure.name == "AUC"
    path.write_text(json.dumps(quality_content([accuracy_process(0.7)])))
    record = decode(path, QualityRecord)
    assert not isinstance(record, Damage) and (record.measure.name, record.measure.unit) == ("Accuracy", "accuracy")
