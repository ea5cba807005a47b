"""Offer the search of a benchmark's settings, the command `tune`, as a function of `harness.api`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
from msgspec import to_builtins

from harness.api import make_request
from harness.experiment.context import Context
from harness.experiment.create import create
from harness.experiment.expand import expand
from harness.experiment.loop import complete
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.extensions.tuning.asked import read_constraint, with_kind
from harness.extensions.tuning.best import finish_search, measure_again
from harness.extensions.tuning.records import SearchRecord
from harness.extensions.tuning.rule import MAX_TRIALS
from harness.foundation.errors import HarnessError, first_line
from harness.foundation.optuna import quiet_optuna
from rules.records.experiment import StopRecord


def tune(
    benchmark: str | Path,
    axes: Mapping[str, Sequence[Any] | str],
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    constraints: Sequence[str] = (),
    trials: int = 20,
    sampler: Literal["auto", "random"] = "auto",
    parallel_trials: int = 1,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    throughput: int | None = None,
    quality: int | None = None,
    name: str | None = None,
    division: str | None = None,
    timeout_s: float | None = None,
    data: str | Path | None = None,
    output: str | Path = "results",
    quiet: bool = True,
    kinds: Mapping[str, int | None] | None = None,
) -> Path:
    """Search for the best settings of a benchmark under constraints, then measure the best trial and the default
    configuration again, alternately. Return the search's folder below `output`, where study.json and report.html have
    the findings.

    `axes` is a dict from each varied key to its values, or to a range as text: {"train.global_batch_size":
    "256..2048:log"}. Give either `minimize` or `maximize`: the name of the measured column to optimize, such as
    "samples_per_s" or "time_to_train_s". `constraints` are texts such as "memory<=1GB". `trials` is the number of
    trials; the first trial is the default configuration. `parallel_trials` is the number of trials that are measured
    at the same time, each on its own cores and GPUs. The remaining arguments have the same meaning as in
    `harness.api.run`. An interrupted search is completed by `resume`.

    Raises HarnessError if the search is impossible as requested, or if the best trial fails when it is measured
    again.
    """
    request = _make_request(locals())
    with quiet_optuna():  # raises if optuna is not installed, before anything is written
        folder, context = create(prepare(expand(request))), Context.of(request)
        complete(folder, context)
    try:
        measure_again(folder, context)
    except HarnessError as error:
        finish_search(folder, first_line(error))
        raise
    finish_search(folder)
    return folder


def _make_request(given: Mapping[str, Any]) -> Request:
    """Make the request of an experiment from the arguments of `tune`, with the command line that does the same."""
    minimize, maximize, num_trials = given["minimize"], given["maximize"], given["trials"]
    if (minimize is None) == (maximize is None):
        raise HarnessError("give one of minimize and maximize: a column, such as 'samples_per_s'.")
    if type(num_trials) is not int or not 2 <= num_trials <= MAX_TRIALS:
        raise HarnessError(f"trials is {num_trials!r}, expected a whole number from 2 to {MAX_TRIALS:,}.")
    parallel_trials = given["parallel_trials"]
    if type(parallel_trials) is not int or parallel_trials < 1:
        raise HarnessError(f"parallel_trials is {parallel_trials!r}, expected a whole number of at least 1.")
    if given["sampler"] not in ("auto", "random"):
        raise HarnessError(f"sampler is {given['sampler']!r}, expected 'auto' or 'random'.")
    try:
        constraints = tuple(map(read_constraint, given["constraints"]))
    except click.BadParameter as error:
        raise HarnessError(error.message) from None
    search = SearchRecord(
        objective=minimize or maximize,
        direction="minimize" if minimize else "maximize",
        constraints=constraints,
        sampler=given["sampler"],
        parallel_trials=parallel_trials,
    )
    own = ("minimize", "maximize", "constraints", "trials", "sampler", "parallel_trials")
    members = {name: value for name, value in given.items() if name not in own}
    members["axes"] = {key: [each] if isinstance(each, str) else each for key, each in given["axes"].items()}
    stop = StopRecord(rule="search", values={"trials": float(num_trials)}, asked=to_builtins(search))
    asked = {"relation": "search", "like": "sweep", "asked": search, "stop": stop}
    request = with_kind(make_request("tune", {**members, **asked}), search)
    bounds = [word for each in given["constraints"] for word in ("--constraint", each)]
    words = [f"--{search.direction}", search.objective, *bounds, "--trials", str(num_trials)]
    words += ["--sampler", search.sampler]
    words += ["--parallel-trials", str(parallel_trials)] if parallel_trials > 1 else []
    return replace(request, typed=[*request.command(), *words])
