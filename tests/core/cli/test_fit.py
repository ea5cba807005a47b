"""`sweep --quality --fit`: a law over computed FLOP, printed and on the page, or why there is none."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from records_builder import quality_content, quality_process
from sweep_builder import FastWorkers, stamps

from harness.cli import cli
from harness.config.catalog import has_implementation, load_entry
from harness.experiment.expand import expand
from harness.experiment.request import Request
from harness.foundation.errors import ExitCode, exit_code_of
from reports.comparison.sweep import read_sweep_facts
from rules.benchmarks.loader import load_benchmark, shipped_names

Run = Callable[..., Result]
WIDTHS = {8: 1e9, 32: 3e9, 128: 1e10, 512: 5e10}
AXIS = "model.mlp=8,32,128,512"


@pytest.fixture
def run(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A sweep of dlrm_tiny, in processes that answer at once, by a law of exponent 0.3."""
    monkeypatch.chdir(tmp_path)

    def answer(spec: Mapping[str, Any], number: int) -> dict[str, Any]:
        flop = WIDTHS[spec["tables"]["model"]["top_mlp"][0]]
        process = quality_process(num_samples=spec["num_samples"], **stamps(number), training_flop=int(flop))
        noise = (spec["seed"] % 997 * int(flop / 1e9)) % 997 / 997 - 0.5
        process["evaluations"][-1]["normalised_entropy"] = 0.7 + 40 * flop**-0.3 + 1e-3 * noise
        return quality_content([process])

    workers.quality_answer = answer  # type: ignore[method-assign]

    def invoke(*arguments: str) -> Result:
        words = ["sweep", "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return invoke


@pytest.mark.slow
def test_a_law_is_printed_and_drawn(run: Run, tmp_path: Path) -> None:
    done = run("--axis", AXIS, "--quality", "1000", "--fit")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "Scaling law: normalised entropy = a·C^−b + c over training FLOP C, exponent b 0." in words
    assert "95 % interval" in words and "from 4 sizes over 1.7 decades of C" in words
    assert "quality measured, FLOP computed, law fitted" in words
    (folder,) = made_in(tmp_path / "out")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Scaling laws" in page and "law1-chart" in page
    law = read_sweep_facts(folder).law
    assert law is not None and law.fitted is not None and law.fitted.interval is not None
    assert law.fitted.interval.low < 0.3 < law.fitted.interval.high
    assert law.fitted.exponent == pytest.approx(0.3, abs=0.05)


@pytest.mark.slow
def test_two_sweeps_on_one_dataset_share_a_chart(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run("--axis", AXIS, "--quality", "1000", "--fit", "--name", name).exit_code == 0
    folders = [str(folder) for folder in made_in(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["report", *folders, "-o", "both.html"])
    assert done.exit_code == 0, done.output
    page = Path("both.html").read_text(encoding="utf-8")
    assert "law1-chart" in page and "law2" not in page
    assert "the most that all of them reach, the laws say: " in page


@pytest.mark.slow
def test_sweeps_and_their_laws_are_in_markdown(run: Run, tmp_path: Path) -> None:
    assert run("--axis", AXIS, "--quality", "1000", "--fit").exit_code == 0
    (folder,) = made_in(tmp_path / "out")
    done = CliRunner().invoke(cli, ["report", str(folder), "--format", "md"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("## Scaling laws\n\nScaling law: normalised entropy")
    assert "| Exponent b (fitted) |" in done.output and "## Sweep: quality over model.mlp" in done.output
    assert "| mlp=512 |" in done.output and "<" not in done.output


@pytest.mark.slow
def test_the_law_is_in_json(run: Run) -> None:
    done = run("--axis", AXIS, "--quality", "1000", "--fit", "--format", "json")
    law = json.loads(done.stdout)["law"]
    assert law["exponent_low"] < law["exponent"] < law["exponent_high"]
    assert (law["num_sizes"], law["num_seeds"], law["training_flop_low"]) == (4, 5, 1e9)
    without = run("--axis", AXIS, "--quality", "1000", "--format", "json", "--name", "plain")
    assert "law" not in json.loads(without.stdout)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--axis", AXIS, "--fit"), 2, "--fit is for --quality SAMPLES"),
        (("--axis", AXIS, "--throughput", "5", "--fit"), 2, "--fit is for --quality SAMPLES"),
        (("--axis", "model.mlp=8,64,512", "--quality", "1000", "--fit"), 7, "3 different amounts of training FLOP"),
        (
            ("--axis", "model.mlp=32,40,48,56", "--quality", "1000", "--fit"),
            7,
            "decades, at least 1 is needed (per sample). Vary what makes the model larger, such as --axis model.mlp=",
        ),
        (
            ("--axis", "train.opt_base_learning_rate=0.01,0.02,0.03,0.04", "--quality", "1000", "--fit"),
            7,
            "1 different amounts of training FLOP, at least 4 are needed",
        ),
    ],
)
def test_what_has_no_law_is_refused_before_anything_is_trained(
    arguments: tuple[str, ...], code: int, words: str, run: Run, tmp_path: Path, workers: FastWorkers
) -> None:
    done = run(*arguments)
    assert done.exit_code == code or exit_code_of(done.exception) == code  # type: ignore[arg-type]
    assert words in done.output + str(done.exception)
    assert not (tmp_path / "out").exists() and not workers.launches


@pytest.mark.parametrize("name", shipped_names())
def test_the_sizes_that_are_named_have_a_law(name: str) -> None:
    entry = load_entry(name) if has_implementation(load_benchmark(name)) else None
    if entry is None or not (axis := entry.workload.model_spec.scaling_axis) or entry.benchmark.status == "official":
        return
    expand(Request(verb="sweep", benchmark=name, axes=[axis], kinds={"quality": 4096}, with_fit=True))


@pytest.mark.slow
def test_a_law_that_lost_a_size_is_inconclusive(run: Run, workers: FastWorkers) -> None:
    workers.fail = lambda spec: spec["tables"]["model"]["top_mlp"][0] == 512
    done = run("--axis", AXIS, "--quality", "1000", "--fit")
    assert "No scaling law was fitted: 3 different amounts of training FLOP" in " ".join(done.stdout.split())
    assert done.exit_code in (ExitCode.INCONCLUSIVE, ExitCode.RESOURCES)
