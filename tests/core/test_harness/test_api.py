"""The functions of `harness.api`, with workers that answer at once; the README's example, with real ones."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from inside import use_workers_inside
from places import ROOT
from sweep_builder import FastWorkers, use_fast_workers_of_dlrm_tiny
from waiting import HANG_S, needs_two_cpus

from harness import api
from harness.cli import cli
from harness.experiment.loop import complete
from harness.foundation.errors import HarnessError
from reference_models.process.errors import ConfigError
from rules.errors import DefinitionError, InputError

README = ROOT / "reports" / "README.md"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FastWorkers:
    made = FastWorkers()
    use_fast_workers_of_dlrm_tiny(monkeypatch, made, tmp_path / "data")
    return made


def record_of(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "extra" / "run_set.json").read_text())
    return content


def test_a_run_is_a_set_with_its_page_and_frames(workers: FastWorkers, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=2, seed=3, settings={"runtime.threads": 1}, output=tmp_path / "results")
    assert folder.parent == tmp_path / "results"
    assert (folder / "report.html").is_file()
    data = api.results(folder)
    assert isinstance(data, api.Frames)
    assert data.runs["status"].tolist() == ["success", "success"]
    assert [launch["seed"] for launch in workers.launches] == record_of(folder)["seeds"]


def test_the_record_has_the_command_line_that_does_the_same(workers: FastWorkers, tmp_path: Path) -> None:
    settings = {"runtime.threads": 1, "train.global_batch_size": 256}
    folder = api.run("dlrm_tiny", runs=1, seed=3, settings=settings, output=tmp_path / "results", timeout_s=60)
    words = shlex.split(str(record_of(folder)["command"]))
    assert words[:3] == ["dlrmbench", "run", "dlrm_tiny"]
    # As the command line makes it: a command remembers the first help option that it is asked for.
    context = click.Context(cli, **cli.context_settings)
    command = cli.get_command(context, "run")
    assert command is not None
    parsed = command.make_context("run", words[2:], parent=context).params
    assert (parsed["runs"], parsed["seed"], parsed["timeout_s"]) == (1, 3, 60)
    assert parsed["assignments"] == ("runtime.threads=1", "train.global_batch_size=256")


@pytest.mark.slow
@needs_two_cpus
def test_measurements_are_compared_and_rendered(workers: FastWorkers, tmp_path: Path) -> None:
    base, new = (
        api.run("dlrm_tiny", throughput=20, seed=1, settings={"runtime.threads": threads}, output=tmp_path / "r")
        for threads in (1, 2)
    )
    frame = api.compare(base, new)
    assert frame["overall_verdict"].tolist() == ["faster"]
    assert frame["ratio"].tolist() == [pytest.approx(2.0, rel=0.01)]
    assert len(api.results(base, new).measurements) == 10
    page = api.render(base, new, output=tmp_path / "page.html", title="Both")
    assert "<title>Both" in page.read_text()


def test_unlike_things_are_not_compared_without_a_word(workers: FastWorkers, tmp_path: Path) -> None:
    trained = api.run("dlrm_tiny", runs=1, seed=3, output=tmp_path / "r")
    timed = api.run("dlrm_tiny", throughput=20, seed=3, output=tmp_path / "r")
    with pytest.raises(InputError, match=r"1 of 1 not compared: .* measured differently\. Compare results of one"):
        api.compare(trained, timed)
    with pytest.raises(InputError, match=r"the same set\. Give another"):
        api.compare(trained, trained)


@pytest.mark.slow
@needs_two_cpus
def test_a_sweep_has_a_set_per_combination_and_a_page(workers: FastWorkers, tmp_path: Path) -> None:
    axes = {"train.global_batch_size": [256, 512], "runtime.threads": [1, 2]}
    folder = api.sweep("dlrm_tiny", axes, runs=1, seed=2, output=tmp_path / "results")
    content = json.loads((folder / "experiment.json").read_text())
    assert [(axis["key"], axis["values"]) for axis in content["axes"]] == [
        ("train.global_batch_size", ["256", "512"]),
        ("runtime.threads", ["1", "2"]),
    ]
    assert len(workers.launches) == len(content["configurations"]) == 4
    assert (folder / "report.html").is_file() and (folder.parent / "latest").resolve() == folder.resolve()
    first = next(path for path in sorted(folder.iterdir()) if path.name.startswith("01-"))
    assert len(api.compare(first, folder)["new"].unique()) == 3


def test_a_set_of_a_named_system_goes_on_only_with_the_framework_that_it_began_with(
    workers: FastWorkers, tmp_path: Path
) -> None:
    settings = {"submission.system_name": "my-box"}
    folder = api.run("dlrm_tiny", runs=1, seed=3, settings=settings, output=tmp_path / "results")
    assert (folder / "systems" / "my-box.json").is_file() and (folder / "results" / "my-box").is_dir()
    record = record_of(folder)
    record["system"]["fields"]["framework"] = "PyTorch 1.0"  # type: ignore[index]
    (folder / "extra" / "run_set.json").write_text(json.dumps(record))
    with pytest.raises(HarnessError, match=r"was begun on 'PyTorch 1\.0', this is 'PyTorch 2"):
        complete(folder)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_the_ending_decides_the_form(form: str, workers: FastWorkers, tmp_path: Path) -> None:
    folder = api.run("dlrm_tiny", runs=1, seed=3, output=tmp_path / "results")
    text = api.render(folder, output=tmp_path / f"out.{form}", second_opinion=False).read_text()
    assert {"json": '"configurations"', "csv": "configuration,", "md": "| "}[form] in text


@pytest.mark.slow
@needs_two_cpus
def test_a_set_grows_until_it_is_precise_and_is_completed_and_extended(workers: FastWorkers, tmp_path: Path) -> None:
    output = tmp_path / "results"
    folder = api.run("dlrm_tiny", until=0.9, max_runs=7, seed=3, output=output)
    record = record_of(folder)
    assert record["until"] == {"width": 0.9, "min_runs": 5, "max_runs": 7}
    assert shlex.split(str(record["command"]))[3:7] == ["--until", "0.9", "--max-runs", "7"]
    (log,) = folder.rglob("result_1.txt")
    shutil.rmtree(folder / "extra" / "run_1")
    log.unlink()
    assert api.resume(folder, runs=8) == folder
    assert log.is_file() and len(list(folder.rglob("result_*.txt"))) == 8
    swept = api.sweep("dlrm_tiny", {"runtime.threads": [1, 2]}, throughput=4, output=output)
    api.resume(swept, runs=6)
    measured = [json.loads(path.read_text())["processes"] for path in swept.glob("*/extra/throughput.json")]
    assert [len(processes) for processes in measured] == [6, 6]
    of_other_code = record_of(folder) | {"code_sha256": "f" * 64, "until": None}
    (folder / "extra" / "run_set.json").write_text(json.dumps(of_other_code))
    with pytest.warns(UserWarning, match="was begun by other code"):
        api.resume(folder)


def test_what_cannot_be_is_refused_before_anything_is_written(workers: FastWorkers, tmp_path: Path) -> None:
    output = tmp_path / "results"
    with pytest.raises(HarnessError, match=r"settings: 'threads', expected section\.key"):
        api.run("dlrm_tiny", settings={"threads": 2}, output=output)
    with pytest.raises(ConfigError, match=r"settings: unknown key 'runtime\.thread'"):
        api.run("dlrm_tiny", settings={"runtime.thread": 2}, output=output)
    with pytest.raises(DefinitionError, match="unknown benchmark"):
        api.run("dlrm_teeny", output=output)
    with pytest.raises(HarnessError, match="throughput and quality are two measurements"):
        api.run("dlrm_tiny", throughput=5, quality=5, output=output)
    for asked in ({"until": 0.0}, {"until": 1.5}, {"until": 0.03, "throughput": 5}, {"max_runs": 9}):
        with pytest.raises(HarnessError, match="until"):
            api.run("dlrm_tiny", output=output, **asked)  # type: ignore[arg-type]
    with pytest.raises(HarnessError, match="no such run set"):
        api.resume(output / "nothing")
    with pytest.raises(HarnessError, match="throughput is 0"):
        api.sweep("dlrm_tiny", {"runtime.threads": [1]}, throughput=0, output=output)
    with pytest.raises(HarnessError, match=r"ends in \.html, \.json"):
        api.render(tmp_path, output=tmp_path / "page.pdf")
    with pytest.raises(InputError):
        api.compare(tmp_path, tmp_path)
    assert not output.exists()


@pytest.mark.slow
def test_the_import_is_light(tmp_path: Path) -> None:
    code = "import sys; from harness import api; print('torch' in sys.modules, 'click' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.slow
def test_the_example_of_the_page_runs(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first run in a process of its own, the others in this one."""
    (source,) = re.findall(r"```python\n(from harness import api\n.*?)```", README.read_text(), flags=re.DOTALL)
    (tmp_path / "example.py").write_text(source)
    (tmp_path / "data").symlink_to(data_root)
    monkeypatch.chdir(tmp_path)
    use_workers_inside(monkeypatch, num_real=1)
    runpy.run_path("example.py", run_name="__main__")
    assert (tmp_path / "page.html").is_file()
    printed = capsys.readouterr().out
    assert re.search(r"throughput +\d+\.\d+ +inconclusive", printed), printed


@pytest.mark.slow
@needs_two_cpus
def test_a_pair_is_two_sets_in_turns_with_a_comparison(workers: FastWorkers, tmp_path: Path) -> None:
    output = tmp_path / "results"
    base = api.run("dlrm_tiny", throughput=20, settings={"runtime.threads": 1}, output=output)
    pair = api.run(beside=base, settings={"runtime.threads": 2}, seed=5, output=output)
    assert [spec["tables"]["runtime"]["threads"] for spec in workers.launches[5:]] == [1, 2, 2, 1, 1, 2, 2, 1, 1, 2]
    assert api.compare(pair / "base", pair / "new")["overall_verdict"].tolist() == ["faster"]
    assert (pair / "report.html").is_file() and (output / "latest").resolve() == pair.resolve()
    words = shlex.split(json.loads((pair / "experiment.json").read_text())["command"])
    assert words[:3] == ["dlrmbench", "run", "--beside"] and "runtime.threads=2" in words
    with pytest.raises(HarnessError, match="give that too"):
        api.run("dlrm_tiny", python=sys.executable, output=output)
