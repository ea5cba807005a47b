"""The stop rule of a search: whether, and with which values, there is one more trial."""

from collections.abc import Mapping

from harness.experiment.stopping import State
from harness.extensions.tuning.records import search_of
from harness.extensions.tuning.sampler import choose_sampler, propose
from harness.extensions.tuning.space import read_space
from harness.extensions.tuning.trials import (
    Trial,
    read_trials,
)
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.process.errors import ConfigError
from rules.records.experiment import EXPERIMENT_FILE

MAX_TRIALS = 10_000


class SearchRule:
    """Add the configuration that a sampler proposes after all that was measured, until there are so many trials."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._num_trials, self._known = values["trials"], dict[int, Trial]()
        if not 2 <= self._num_trials <= MAX_TRIALS:
            raise HarnessError(
                f"stop.values.trials is {self._num_trials:g}, expected 2 to {MAX_TRIALS:,}.", ExitCode.INPUT
            )

    def extend(self, state: State) -> Mapping[str, str] | None:
        record = state.record
        if len(record.configurations) >= self._num_trials:
            return None
        search, trials = search_of(record), read_trials(state.folder, record, self._known)
        try:
            axes = read_space(f"{axis.key}={','.join(axis.values)}" for axis in record.axes)
        except ConfigError as error:
            raise HarnessError(f"{state.folder / EXPERIMENT_FILE}: axes: {error}", ExitCode.INPUT) from None
        return propose(
            axes,
            trials,
            sampler=choose_sampler(search.sampler, self._num_trials)[0],
            is_maximized=search.direction == "maximize",
            seed=record.base_seed,
        )
