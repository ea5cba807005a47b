"""`harness.api.tune`: what the verb does, from Python, with workers of planted rates."""

import inspect
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from goldens import lay_data
from planted_trials import PlantedWorkers, found_in, rows_of
from scripted_commands import run_scripted_call
from scripted_workers import Moment

from harness import api
from harness.cli import cli
from harness.experiment.request import Request
from harness.experiment.store import read
from harness.extensions.tuning.command import tune
from harness.foundation.errors import HarnessError

AXES = {"runtime.implementation": ["reference", "optimized"], "train.global_batch_size": "128..1024:log"}


@pytest.mark.slow
def test_a_search_is_what_the_verb_makes_of_the_command_line_that_it_has_on_record(
    data_root: Path, tmp_path: Path
) -> None:
    place, workers = lay_data(data_root, tmp_path / "work"), PlantedWorkers(Moment())
    asked: dict[str, Any] = {"maximize": "samples_per_s", "constraints": ["memory<=3GB"], "trials": 2, "seed": 3}
    settings = {"runtime.threads": 1}
    ended = run_scripted_call(
        lambda: api.tune("dlrm_tiny", AXES, throughput=10, settings=settings, **asked), place, workers
    )
    assert ended.code == 0 and ended.out.startswith("returned "), ended.err
    folder, study = found_in(place)
    assert len(rows_of(study)) == 2 and "in 5 pairs with new seeds" in study.findings[0]
    words = shlex.split(read(folder).command)
    assert words[:3] == ["dlrmbench", "tune", "dlrm_tiny"] and "train.global_batch_size=128..1024:log" in words
    context = tune.make_context("tune", words[2:], parent=click.Context(cli, **cli.context_settings))
    assert context.params["maximize"] == "samples_per_s" and context.params["trials"] == 2
    assert [each.value for each in context.params["constraints"]] == [3e9]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give one of minimize and maximize"),
        ({"minimize": "memory", "maximize": "samples_per_s"}, "give one of minimize and maximize"),
        ({"maximize": "samples_per_s", "trials": 1}, "trials is 1, expected a whole number from 2 to 10,000"),
        ({"maximize": "samples_per_s", "trials": 2.0}, "trials is 2.0, expected a whole number"),
        ({"maximize": "samples_per_s", "parallel_trials": 0}, "parallel_trials is 0, expected a whole number"),
        ({"maximize": "samples_per_s", "sampler": "cma"}, "sampler is 'cma', expected 'auto' or 'random'"),
        ({"maximize": "samples_per_s", "constraints": ["memory"]}, "expected COLUMN<=VALUE"),
        ({"maximize": "sample_per_s"}, "Did you mean 'samples_per_s'"),
        ({"minimize": "samples_per_s"}, "Give --maximize"),
    ],
)
def test_what_cannot_be_searched_is_refused(asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=said) as error:
        api.tune("dlrm_tiny", AXES, output=tmp_path / "results", **asked)
    assert error.value.exit_code == 2 and not (tmp_path / "results").exists()


def test_arguments_have_the_names_of_the_request() -> None:
    own = {"minimize", "maximize", "constraints", "trials", "sampler", "parallel_trials"}
    arguments = set(inspect.signature(api.tune).parameters)
    assert arguments - own <= {*Request.__dataclass_fields__, "throughput", "quality"}
    assert own <= {parameter.name for parameter in tune.params}
