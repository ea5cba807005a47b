"""Which point of a space is tried next: optuna's samplers, made anew for every trial and told all before it."""

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

from harness.config.axes import Axis
from harness.experiment.search.space import Range
from harness.experiment.search.trials import Trial
from harness.foundation.errors import HarnessError

Sampler = Literal["tpe", "gp", "random"]
_COSTLY_S = 3.0
"""What a trial takes where seconds of fitting a Gaussian process are worth it."""
_STARTUP = 5
"""Trials that are drawn at random before anything is learnt from them."""
_DRAWS = 100


def require_optuna() -> None:
    """Raise HarnessError (exit 2) where optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise HarnessError("'tune' needs optuna: pip install 'optuna>=5,<6', or '.[tune]' in a checkout.") from None


def choose_sampler(asked: str, trials: Sequence[Trial]) -> Sampler:
    """Return what "auto" is, by the first trial that measured anything, so that it stays the same."""
    took_s = next((trial.took_s for trial in trials if trial.took_s is not None), 0.0)
    return "random" if asked == "random" else "gp" if took_s > _COSTLY_S else "tpe"


def propose(
    axes: Sequence[Axis], trials: Sequence[Trial], *, sampler: Sampler, is_maximized: bool, seed: int
) -> dict[str, str] | None:
    """Return the point to try after these trials, by key as it is written; None where no new one is found.

    The same trials and seed give the same point. A point is tried once: its process would have the same seed.
    """
    require_optuna()
    import optuna

    tried = [{axis.key: trial.values.get(axis.key) for axis in axes} for trial in trials]
    drawn = random.Random(f"{seed}:{len(trials)}")
    for number in range(_DRAWS):
        with _quiet():
            study = optuna.create_study(
                sampler=_make_sampler("random" if number else sampler, drawn.getrandbits(31)),
                direction="maximize" if is_maximized else "minimize",
            )
            study.add_trials(_tell(axes, trials, is_maximized))
            params = study.ask({axis.key: _distribution(axis) for axis in axes}).params
        point = {
            axis.key: axis.write(params[axis.key]) if isinstance(axis, Range) else params[axis.key] for axis in axes
        }
        if point not in tried:
            return point
    return None


def _make_sampler(name: Sampler, seed: int) -> Any:
    from optuna.samplers import GPSampler, RandomSampler, TPESampler

    if name == "gp":
        return GPSampler(seed=seed, n_startup_trials=_STARTUP, warn_independent_sampling=False)
    return RandomSampler(seed=seed) if name == "random" else TPESampler(seed=seed, n_startup_trials=_STARTUP)


def _distribution(axis: Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(axis, Range):
        return CategoricalDistribution(axis.texts)
    low, high = axis.values
    return (IntDistribution if axis.is_whole else FloatDistribution)(low, high, log=axis.is_log)


def _tell(axes: Sequence[Axis], trials: Sequence[Trial], is_maximized: bool) -> list[Any]:
    """Return the trials as optuna knows them, but for a default that lies outside of the space.

    One that measured nothing is taken to be as bad as the worst, and infeasible.
    """
    from optuna.trial import create_trial

    worst = (min if is_maximized else max)(
        (each.objective for each in trials if each.objective is not None), default=0
    )
    bounds = {name: max(each.excess.get(name, 0.0) for each in trials) for each in trials for name in each.excess}
    failed = {"failed"} if any(each.objective is None for each in trials) else set()
    told = []
    for trial in trials:
        is_measured = trial.objective is not None
        with suppress(ValueError, KeyError):
            params = {
                axis.key: type(axis.values[0])(trial.values[axis.key])
                if isinstance(axis, Range) else trial.values[axis.key]
                for axis in axes
            }  # fmt: skip
            told.append(
                create_trial(
                    params=params, distributions={axis.key: _distribution(axis) for axis in axes},
                    value=trial.objective if is_measured else worst,
                    constraints={**dict.fromkeys(failed, -1.0 if is_measured else 1.0), **bounds, **trial.excess},
                )
            )  # fmt: skip
    return told


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep silent that parts of optuna are experimental, and that studies are made."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
