"""A model that another package provides: trained to a target, planned, shown and profiled by its name alone."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dense_logistic
import pytest
from command import Command
from dense_logistic import install, write_definition
from inside import use_short_ceilings
from made_sets import made_in
from seams import READING
from sweep_builder import FastWorkers

import reference_models.registry
from harness.config.axes import read_axis, refuse_other_problems
from harness.config.catalog import load_entry
from harness.config.run_config import Override, resolve
from reference_models.process.errors import ConfigError
from reference_models.registry import find_implementation, find_model, pin_code
from rules.benchmarks.loader import load_benchmark
from rules.errors import DefinitionError

pytestmark = pytest.mark.numeric

MODEL = ("[dlrmbench.models]", "dense_logistic = dense_logistic:SPEC")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site", *MODEL, "[dlrmbench.implementations]", "dlrm.plain = dense_logistic:PLAIN")


@pytest.fixture
def beside_it(dlrmbench: Command, site: Path) -> Callable[..., Any]:
    """The command line with the package of the model beside it."""
    environment = os.environ | {"PYTHONPATH": str(site)}
    return lambda *arguments: dlrmbench(*arguments, env=environment)


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_model_of_its_own_folder_is_trained_planned_shown_and_profiled(
    inside: Command, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    use_short_ceilings(monkeypatch)
    definition = write_definition(tmp_path)
    shown = json.loads(inside("show", definition, "--format", "json").stdout)
    assert (shown["model"], shown["size"]["num_parameters"]) == ({"has_bias": True}, 5)
    planned = json.loads(inside("plan", definition, "--format", "json", "--no-measure").stdout)
    assert planned["counts"]["forward_flop_per_sample"] == 8
    done = inside("run", definition, "-n", "1", "--threads", "1", "-o", tmp_path / "results", "-q")
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "results").rglob("result_0.txt")
    assert '"implementation", "value": "plain"' in log.read_text()
    profiled = inside(
        "profile", definition, "--steps", "10", "--threads", "1", "-o", tmp_path / "profiles", "--format", "json"
    )
    assert profiled.returncode == 0, profiled.stderr
    phases = {phase["label"]: phase for phase in json.loads(profiled.stdout)["phases"]}
    assert phases["logits fwd"]["computed"]["matmul_flop"] == 2 * 512 * 4
    assert phases["logits fwd"]["measured"]["time_s"] > 0


def test_one_line_of_the_registry_makes_it_one_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    models = {**reference_models.registry.MODELS, "dense_logistic": "dense_logistic"}
    monkeypatch.setattr(reference_models.registry, "MODELS", models)
    workload = load_entry(write_definition(tmp_path)).workload
    assert workload.costs().num_parameters == 5
    assert workload.implementation is find_implementation("dense_logistic", "plain")


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_set_of_other_code_goes_on_only_where_its_names_are_given_again(
    beside_it: Callable[..., Any], inside: Command, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = write_definition(tmp_path)
    assert beside_it("run", definition, "-n", "1", "--threads", "1", "-o", tmp_path / "results", "-q").returncode == 0
    (folder,) = made_in(tmp_path / "results")
    (log,) = folder.rglob("result_0.txt")
    log.unlink()
    shutil.rmtree(folder / "extra" / "run_0")
    monkeypatch.syspath_prepend(site)
    refused = inside("resume", folder)
    assert refused.returncode == 2, refused.stderr
    assert f"dlrmbench resume {folder} --model dense_logistic --implementation plain" in refused.stderr
    assert inside("resume", folder, "--model", "dense_logistic").returncode == 2
    named = inside("resume", folder, "--model", "dense_logistic", "--implementation", "plain")
    assert named.returncode == 3, named.stderr  # a run that was finished and removed is made again, and not VALID
    assert log.is_file()


def test_an_implementation_of_our_model_may_come_from_outside(
    inside: Command, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    planned = inside("plan", "dlrm_tiny", "--implementation", "plain", "--no-measure")
    assert planned.returncode == 0, planned.stderr
    wrong = inside("plan", "dlrm_tiny", "--implementation", "plane", "--no-measure")
    assert (wrong.returncode, "Did you mean 'plain'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((MODEL[0], "dense_logistic = dense_logistic:PLAIN"), "is a Implementation, expected a ModelSpec"),
        ((MODEL[0], "dense_logistic = nowhere:SPEC"), "cannot be loaded: ModuleNotFoundError"),
        ((MODEL[0], "dens_logistic = dense_logistic:SPEC"), "Did you mean 'dens_logistic'"),
    ],
)
def test_what_is_no_model_is_an_error_in_one_line(
    lines: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "site", *lines))
    with pytest.raises(ConfigError, match=message):
        find_model("dense_logistic")


def test_two_packages_of_one_name_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "one", *MODEL))
    other = install(tmp_path / "two", MODEL[0], "dense_logistic = other:SPEC")
    (other / "dense_logistic-1.0.dist-info").rename(other / "other-1.0.dist-info")
    (other / "other-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(other)
    with pytest.raises(ConfigError, match=r"several packages: dense_logistic:SPEC of dense-logistic, other:SPEC"):
        find_model("dense_logistic")


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """The model in a file, of which nothing is installed."""
    path = tmp_path / "own" / "mine.py"
    path.parent.mkdir()
    path.write_text(Path(dense_logistic.__file__).read_text())
    return path


@pytest.mark.slow
def test_a_model_in_a_file_trains_and_is_on_record(dlrmbench: Command, own_file: Path, tmp_path: Path) -> None:
    definition, place = write_definition(tmp_path), f"{own_file}:SPEC"
    digest = hashlib.sha256(own_file.read_bytes()).hexdigest()
    given = ("-n", "1", "--seed", "1", "--threads", "1", "-q", "--submitter", "A")
    done = dlrmbench("run", definition, "--model", place, *given)
    assert done.returncode == 0, done.stderr
    (folder,) = made_in(tmp_path / "results")
    entry = json.loads((folder / "extra" / "run_set.json").read_text())["config"]["runtime.model"]
    assert entry == {"value": f"{place}@{digest}", "source": "option --model"}
    (log,) = folder.rglob("result_0.txt")
    assert f'"implementation", "value": "plain of mine.py:SPEC@{digest[:12]}"' in log.read_text()


@pytest.mark.slow
def test_every_verb_that_trains_takes_a_model_in_a_file(
    command: Callable[..., tuple[int, str, str]],
    workers: FastWorkers,
    own_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    definition, place = write_definition(tmp_path), f"{own_file}:SPEC"
    assert command("data", "generate", definition)[0] == 0  # which needs no model
    (manifest,) = tmp_path.glob("data/*/manifest.json")
    sha256 = json.loads(manifest.read_text())["dataset_sha256"]  # which the workers log
    definition.write_text(definition.read_text().replace("[data]", f'[data]\nsha256 = "{sha256}"'))
    code, _, err = command("run", definition)
    assert code == 2 and "given as --model PATH.py:OBJECT" in err
    shown = json.loads(command("show", definition, "--model", place, "--format", "json")[1])
    assert (shown["model"], shown["size"]["num_parameters"]) == ({"has_bias": True}, 5)
    assert command("plan", definition, "--no-measure", "--model", place)[0] == 0
    for words in (["profile"], ["run", "--throughput", 4], ["sweep", "--axis", "runtime.threads=1", "-n", 1]):
        code, _, err = command(*words, definition, "--model", place, "-q")
        assert code in (0, 3), err  # the logs of these workers are not of this definition
    assert command("run", definition, "-n", 1, "--model", place, "-q", "-o", "out")[0] in (0, 3)
    (folder,) = made_in(tmp_path / "out")
    pinned = pin_code(place)
    assert {spec["tables"]["runtime"]["model"] for spec in workers.launches} == {pinned}
    (log,) = folder.rglob("result_0.txt")
    log.unlink()
    shutil.rmtree(folder / "extra" / "run_0")
    code, _, err = command("resume", folder)
    assert code == 2 and f"dlrmbench resume {folder} --model {place}" in err
    assert command("resume", folder, "--model", place, "-q")[0] in (0, 3) and log.is_file()
    own_file.write_text(own_file.read_text() + "# changed\n")
    code, _, err = command("resume", folder, "--model", place)
    assert (code, "has changed" in err) == (2, True), err


@pytest.mark.parametrize(
    ("benchmark", "model", "message"),
    [
        (
            "dlrm_tiny",
            "{}:SPEC",
            "is a benchmark of dlrm, which dlrmbench has. Train it with other code by --implementation",
        ),
        ("own", "deepfm", "expected PATH.py:OBJECT. A model that a package provides is named by the definition"),
        ("own", "{}:PLAIN", "is a Implementation, expected a ModelSpec"),
        ("own", "{}:SPEK", "Did you mean 'SPEC'?"),
        ("own", "gone.py:SPEC", "no such file"),
    ],
)
def test_what_is_no_model_of_this_definition_is_refused(
    benchmark: str, model: str, message: str, own_file: Path, tmp_path: Path
) -> None:
    given = Override(key="runtime.model", value=model.format(own_file), source="option --model")
    with pytest.raises((ConfigError, DefinitionError), match=re.escape(message)):
        resolve(write_definition(tmp_path) if benchmark == "own" else benchmark, [given])


def test_a_sweep_to_the_target_does_not_vary_the_model(own_file: Path, tmp_path: Path) -> None:
    definition = write_definition(tmp_path)
    with pytest.raises(ConfigError, match=r"runtime\.model changes the problem"):
        refuse_other_problems(
            [read_axis(f"runtime.model={own_file}:SPEC,{own_file}:PLAIN", ())], load_benchmark(definition)
        )


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["check", "score", "report", "list", "compare", *READING])
def test_verbs_that_judge_import_nothing_from_outside(verb: str, dlrmbench: Command, tmp_path: Path) -> None:
    """A package that ends the process when it is imported."""
    site = install(tmp_path / "site", *MODEL)
    environment = os.environ | {"PYTHONPATH": str(site)}
    definition = write_definition(tmp_path)
    (site / "dense_logistic.py").write_text("import os\nos._exit(99)\n")
    arguments = {"list": (), "compare": (tmp_path, tmp_path)}.get(verb, (tmp_path,))
    done = dlrmbench(verb, *arguments, env=environment)
    assert done.returncode != 99, done.stderr
    assert dlrmbench("show", definition, env=environment).returncode == 99
