"""Propose the next settings for a search to try, by optuna's samplers, made anew for every trial and given all
earlier ones."""

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

from harness.config.axes import Axis
from harness.extensions.tuning.space import Range
from harness.extensions.tuning.trials import Trial
from harness.foundation.optuna import quiet_optuna

Sampler = Literal["tpe", "gp", "random"]
MOST_BY_GP = 200
"""Maximum number of trials of a search that uses a Gaussian process: up to this number it proposes a trial in under a
second, less than a process takes to start."""
WHY_GP = f"auto, a Gaussian process up to {MOST_BY_GP} trials: it came nearer to a known optimum than TPE"
"""Reason, told to the user, for choosing a Gaussian process as sampler. It rests on a measurement in test_sampler.py,
on an artificial problem of two ranges, a choice and a constraint. There the median distance from the known optimum
after 20 trials was below .001 (5 seeds), against .06 for TPE and .12 for random draws (10 seeds)."""
WHY_TPE = f"auto, TPE beyond {MOST_BY_GP} trials, where a Gaussian process takes long to fit"
_STARTUP = 5
"""Number of a search's trials that are drawn at random before a sampler uses their results."""
_DRAWS = 100_000
"""Maximum number of random draws in search of a point that was not tried yet. If all of them were tried, all points
of the search are taken to have been tried."""
_MOST_STEPS = 1 << 20
"""Number of values of a whole-number setting above which a sampler treats the setting as a real number."""


def choose_sampler(asked: str, num_trials: float) -> tuple[Sampler, str]:
    """Return the sampler that proposes the trials of a search, and the reason for it; "auto" chooses by the number of
    trials, `num_trials`."""
    if asked == "random":
        return "random", "asked for"
    return ("gp", WHY_GP) if num_trials <= MOST_BY_GP else ("tpe", WHY_TPE)


def propose(
    axes: Sequence[Axis],
    trials: Sequence[Trial],
    *,
    sampler: Sampler,
    is_maximized: bool,
    seed: int,
    pending: Sequence[Mapping[str, str]] = (),
) -> dict[str, str] | None:
    """Return the settings of the next trial of a search, as a dict from key to text; None if no untried settings are
    found.

    `trials` are the trials so far. `pending` has the settings of further trials whose measurement is not complete. A
    sampler avoids points near pending ones: TPE treats them as bad (constant liar), and the Gaussian process takes
    its own prediction as their result (Kriging believer). Both methods are in Ginsbourger et al., "Kriging Is
    Well-Suited to Parallelize Optimization", 2010. Equal arguments give equal settings. Settings that were tried or
    are pending are not proposed again: all trials have the same seed, so the second trial would only repeat the
    first. Raises HarnessError (exit 2) if optuna is not installed.
    """
    known = [*(trial.values for trial in trials), *pending]
    tried = {tuple(values.get(axis.key) for axis in axes) for values in known}
    drawn = random.Random(f"{seed}:{len(known)}")
    with quiet_optuna() as optuna:
        kind = {"gp": "GPSampler", "tpe": "TPESampler", "random": "RandomSampler"}[sampler]
        options = {} if sampler == "random" else {"n_startup_trials": _STARTUP}
        options |= {"warn_independent_sampling": False} if sampler == "gp" else {}
        study = optuna.create_study(
            sampler=getattr(optuna.samplers, kind)(seed=drawn.getrandbits(31), **options),
            direction="maximize" if is_maximized else "minimize",
        )
        study.add_trials([*tell(axes, trials, is_maximized), *tell_pending(axes, pending)])
        params = study.ask({axis.key: _distribution(axis) for axis in axes}).params
    first = tuple(axis.write(params[axis.key]) if isinstance(axis, Range) else params[axis.key] for axis in axes)
    points = chain([first], (tuple(_draw(axis, drawn) for axis in axes) for _ in range(_DRAWS)))
    point = next((point for point in points if point not in tried), None)
    return None if point is None else {axis.key: text for axis, text in zip(axes, point, strict=True)}


def _draw(axis: Axis, drawn: random.Random) -> str:
    if not isinstance(axis, Range):
        return drawn.choice(axis.texts)
    low, high = map(math.log, axis.values) if axis.is_log else axis.values
    value = drawn.uniform(low, high)
    return axis.write(math.exp(value) if axis.is_log else value)


def _distribution(axis: Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(axis, Range):
        return CategoricalDistribution(axis.texts)
    low, high = axis.values
    is_listed = axis.is_whole and high - low < _MOST_STEPS
    return (IntDistribution if is_listed else FloatDistribution)(low, high, log=axis.is_log)


def tell(axes: Sequence[Axis], trials: Sequence[Trial], is_maximized: bool) -> list[Any]:
    """Return the trials of a search as trials of optuna, from which its samplers learn. The default configuration is
    left out if it lies outside of the search's space.

    A trial whose objective was not measured gets the worst objective of all trials. A trial that could not be run
    counts as failed.
    """
    from optuna.trial import create_trial

    known = [trial.objective for trial in trials if trial.objective is not None]
    worst = (min if is_maximized else max)(known, default=0)
    names = {name: None for trial in trials for name in trial.excess}
    bounds = {name: max(trial.excess.get(name, 0.0) for trial in trials) for name in names}
    failed = [trial.reason is not None and max(trial.excess.values(), default=0.0) <= 0 for trial in trials]
    told, distributions = [], {axis.key: _distribution(axis) for axis in axes}
    for trial, has_failed in zip(trials, failed, strict=True):
        failures = {"failed": 1.0 if has_failed else -1.0} if any(failed) else {}
        with suppress(ValueError, KeyError):
            params = _params_of(axes, trial.values)
            value = worst if trial.objective is None else trial.objective
            constraints = {**failures, **bounds, **trial.excess}
            told.append(
                create_trial(params=params, distributions=distributions, value=value, constraints=constraints)
            )
    return told


def tell_pending(axes: Sequence[Axis], pending: Sequence[Mapping[str, str]]) -> list[Any]:
    """Return a search's trials that are not measured yet as trials of optuna in the state RUNNING."""
    from optuna.trial import TrialState, create_trial

    told, distributions = [], {axis.key: _distribution(axis) for axis in axes}
    for values in pending:
        with suppress(ValueError, KeyError):  # such as a default outside of the space
            params = _params_of(axes, values)
            told.append(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))
    return told


def _params_of(axes: Sequence[Axis], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a trial's values as optuna's parameters, by key. Raises KeyError or ValueError for a value that is not
    on its axis."""
    return {
        axis.key: (int if axis.is_whole else float)(values[axis.key]) if isinstance(axis, Range) else values[axis.key]
        for axis in axes
    }
