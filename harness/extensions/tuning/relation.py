"""Define a search of settings as an experiment: the default, the trials, each proposed from earlier ones, and the
best measured again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.axes import Axis
from harness.config.run_config import Override, RunConfig
from harness.experiment.context import Context
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.relation import Relation
from harness.experiment.request import Request, RequestError, as_text
from harness.experiment.store import parts_of
from harness.extensions.tuning.best import finish_search, measure_again
from harness.extensions.tuning.making import create_trial
from harness.extensions.tuning.parallel import plan_trials, refuse_unlike, share_threads
from harness.extensions.tuning.records import search_of
from harness.extensions.tuning.rule import space_of
from harness.extensions.tuning.space import Range, read_space, refuse_code
from harness.extensions.tuning.trials import (
    columns_asked,
    kind_with,
)
from harness.foundation.errors import ExitCode, HarnessError, first_line
from harness.launch.slots import Slot
from harness.measure.kinds import Kind, find_kind
from harness.run_sets.folder import open_run_set
from harness.system.energy import EnergyMeter
from reports.statistics.intervals import MIN_RUNS
from rules.records.codec import DamageError
from rules.records.columns import ENERGY_DELAY, columns_of
from rules.records.experiment import ExperimentRecord, MemberRecord

BATCH_SIZE = "train.global_batch_size"


@dataclass(frozen=True, kw_only=True, slots=True)
class Search(Relation):
    """Kind of experiment that a search of settings is. It begins with the default configuration; after each trial,
    the next trial is added until the search ends."""

    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Return the experiment with which a search begins: its default configuration, which is the first trial.

        Raises ConfigError if a value or an end of a range is impossible. Raises HarnessError if the search optimizes
        or constrains a column that the kind of measurement does not have on this system.
        """
        benchmark, search = request.benchmark_named, request.asked
        base = kind.resolve(benchmark, request.overrides, request.name)
        axes = read_space(request.axes, base.workload.model_spec.width_keys)
        kind_with(search, kind.name)
        kind.check_axes(axes, base.benchmark)
        overrides = [*request.overrides]
        if search.parallel_trials > 1:
            refuse_unlike(request, search, kind, axes)
            overrides += share_threads(search.parallel_trials, axes, _values_of(base))
            base = kind.resolve(benchmark, overrides, request.name)
            plan_trials(search.parallel_trials, axes, _values_of(base))
        for axis in axes:
            if isinstance(axis, Range) and axis.key == BATCH_SIZE and "num_samples" in options:
                raise RequestError(
                    f"--axis {axis.key}: samples are whole batches of all trials. Give sizes: KEY=V1,V2."
                )
            refuse_code(axis, base.workload.model_spec)
            for value in axis.values:
                changed = Override(key=axis.key, value=value, source=f"--axis {axis.key}")
                kind.resolve(benchmark, [*overrides, changed], request.name)
        kind.check(base.workload)
        if ENERGY_DELAY.member in columns_asked(search) and not request.power_command:
            EnergyMeter(base.workload.runtime.device).require_counter()
        known = base.values()
        default = {
            axis.key: _write_value(axis, known[axis.key]["value"]) if axis.key in known else "" for axis in axes
        }
        only = Configuration(label="default", config=base, folder="01-default", values=default)
        return Experiment(
            request=request, kind=kind, options=options, relation=self.name, configurations=(only,), repetitions=1,
            axes=axes, division=request.division, timeout_s=request.timeout_s,
            name=base.label or base.benchmark.name,
            batch_sizes=tuple(size for axis in axes if axis.key == BATCH_SIZE for size in axis.values),
        )  # fmt: skip

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        try:
            names = columns_asked(search_of(record))
        except DamageError as damage:
            return f"stop.asked is none of a search: {damage}"
        if record.stop is None or record.stop.rule != self.name:
            return "it has no stop rule of a search"
        if not {*names} <= columns_of(find_kind(record.kind).name).keys():
            return f"{record.kind} has not all of the columns {', '.join(names)}"
        return (
            None if record.axes and record.configurations[0].folder is not None else "it has no axes, or no default"
        )

    def num_planned(self, record: ExperimentRecord) -> int | None:
        return None if record.stop is None else int(record.stop.values["trials"])

    def plan_slots(self, folder: Path, record: ExperimentRecord) -> Sequence[Slot]:
        num = search_of(record).parallel_trials
        if num == 1:
            return ()
        of_default = open_run_set(parts_of(folder)[0])[1]
        values = {key: entry.value for key, entry in of_default.config.items()}
        remedy = f"Go on with {folder} where they are, or search anew."
        return plan_trials(num, space_of(folder, record), values, remedy)

    def make_member(self, folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
        return create_trial(folder, record, values)

    def end(self, folder: Path, context: Context) -> None:
        measure_again(folder, context)

    def write_pages(self, folder: Path) -> None:
        try:
            measure_again(folder, Context())
        except HarnessError as error:
            finish_search(folder, first_line(error))
            raise
        finish_search(folder)

    def show(self, folder: Path, record: ExperimentRecord, form: str, problem: str) -> ExitCode:
        from harness.cli.shared.studies import show_finished

        done = finish_search(folder, problem)
        show_finished(done, folder, form, table=-1)
        return done.code


def _values_of(config: RunConfig) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in config.values().items()}


SEARCH = Search(
    name="search", word="search", reads_as="trials", prefix="tune", parts="trials", on_failure="leave_out",
    needs_first=True, forgets_failures=False, may_grow=False, num_at_end=2 * MIN_RUNS,
)  # fmt: skip


def _write_value(axis: Axis, value: Any) -> str:
    """Return a setting's default value as text. If the search's axis lists an equal value, return the axis's
    spelling, so that equal values have one spelling."""
    known = () if isinstance(axis, Range) else zip(axis.values, axis.texts, strict=True)
    return next((text for own, text in known if own == value), as_text(value))
