"""Define the stop rule of a search of settings: whether there is one more trial, and with which values."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from harness.config.axes import Axis
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
from rules.records.experiment import EXPERIMENT_FILE, ExperimentRecord

MAX_TRIALS = 10_000


class SearchRule:
    """Stop rule of a search of settings: as long as the search has fewer trials than were asked for, it adds the
    configuration that a sampler proposes from all measurements."""

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
        search, places = search_of(record), len(record.configurations)
        # Trials of a batch never know of each other, also after they ended: so a resumed search proposes the same.
        begun = places - places % search.parallel_trials
        ended = structs.replace(record, configurations=record.configurations[:begun])
        trials = read_trials(state.folder, ended, self._known)
        return propose(
            space_of(state.folder, record),
            trials,
            sampler=choose_sampler(search.sampler, self._num_trials)[0],
            is_maximized=search.direction == "maximize",
            seed=record.base_seed,
            pending=[each.values for each in record.configurations[begun:]],
        )


def space_of(folder: Path, record: ExperimentRecord) -> tuple[Axis, ...]:
    """Read the axes (settings and their values) of the search in `folder`. Raises HarnessError (exit 8) if they are
    damaged."""
    try:
        return read_space(f"{axis.key}={','.join(axis.values)}" for axis in record.axes)
    except ConfigError as error:
        raise HarnessError(f"{folder / EXPERIMENT_FILE}: axes: {error}", ExitCode.INPUT) from None
