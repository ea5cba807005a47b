"""A model that another package provides: trained to a target, planned, shown and profiled by its name alone."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command
from dense_logistic import install, write_definition
from made_sets import made_in

import reference_models.registry
from harness.config.catalog import load_entry
from reference_models.process.errors import ConfigError
from reference_models.registry import find_implementation, find_model

MODEL = ("[dlrmbench.models]", "dense_logistic = dense_logistic:SPEC")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site", *MODEL, "[dlrmbench.implementations]", "dlrm.plain = dense_logistic:PLAIN")


@pytest.fixture
def command(dlrmbench: Command, site: Path) -> Callable[..., Any]:
    """The command line with the package of the model beside it."""
    environment = os.environ | {"PYTHONPATH": str(site)}
    return lambda *arguments: dlrmbench(*arguments, env=environment)


def test_a_model_of_its_own_folder_is_trained_planned_shown_and_profiled(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    definition = write_definition(tmp_path)
    shown = json.loads(command("show", definition, "--format", "json").stdout)
    assert (shown["model"], shown["size"]["num_parameters"]) == ({"has_bias": True}, 5)
    planned = json.loads(command("plan", definition, "--format", "json", "--no-measure").stdout)
    assert planned["counts"]["forward_flop_per_sample"] == 8
    done = command("run", definition, "-n", "1", "-o", tmp_path / "results", "-q")
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "results").rglob("result_0.txt")
    assert '"implementation", "value": "plain"' in log.read_text()
    profiled = command("profile", definition, "--steps", "10", "-o", tmp_path / "profiles", "--format", "json")
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


def test_a_set_of_other_code_goes_on_only_where_its_names_are_given_again(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    definition = write_definition(tmp_path)
    assert command("run", definition, "-n", "1", "-o", tmp_path / "results", "-q").returncode == 0
    (folder,) = made_in(tmp_path / "results")
    (log,) = folder.rglob("result_0.txt")
    log.unlink()
    shutil.rmtree(folder / "extra" / "run_0")
    refused = command("resume", folder)
    assert refused.returncode == 2, refused.stderr
    assert f"dlrmbench resume {folder} --model dense_logistic --implementation plain" in refused.stderr
    assert command("resume", folder, "--model", "dense_logistic").returncode == 2
    named = command("resume", folder, "--model", "dense_logistic", "--implementation", "plain")
    assert named.returncode == 0, named.stderr
    assert log.is_file()


def test_an_implementation_of_our_model_may_come_from_outside(command: Callable[..., Any], tmp_path: Path) -> None:
    planned = command("plan", "dlrm_tiny", "--implementation", "plain", "--no-measure")
    assert planned.returncode == 0, planned.stderr
    wrong = command("plan", "dlrm_tiny", "--implementation", "plane", "--no-measure")
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


@pytest.mark.parametrize("verb", ["check", "score", "report", "list", "compare", "package"])
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
