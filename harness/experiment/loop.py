"""Make all repetitions (runs or measurements) that a new or an interrupted experiment lacks. No other module loops
over repetitions."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET, structs

from harness.config.run_config import WORLD_SOURCE
from harness.experiment.context import NO_CONTEXT, Context, Progress, Watcher
from harness.experiment.executors import RepetitionTask, WorkerExecutor, find_executors, refuse_changed
from harness.experiment.orders import OrderStep
from harness.experiment.relation import find_relation
from harness.experiment.request import RequestError
from harness.experiment.side_by_side import make_side_by_side
from harness.experiment.stopping import State, find_stop_rule
from harness.experiment.store import Store, hold, parts_of, read
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import write_record
from harness.launch.slots import Slot
from harness.measure.kinds import find_kind
from harness.run_sets.commands import resume_command
from harness.run_sets.environment import check_again
from harness.run_sets.event_log import EventLog, open_event_log, quantity_of
from harness.run_sets.folder import LOAD_FILE, RunSet, describe_other_code, open_run_set
from harness.run_sets.hooks import HookError, Hooks
from harness.run_sets.keepers import KeptOutcome, find_keeper
from harness.run_sets.names import unlink_latest
from harness.run_sets.outside_code import refuse_outside_code
from harness.run_sets.progress import ALONE, Outlook, ProgressDisplay
from harness.system.load import LoadWatch
from harness.system.power_command import NAME as POWER_COMMAND
from rules.records.codec import Damage
from rules.records.experiment import ExperimentRecord, StageRecord, group_file, read_group
from rules.records.kinds import why_absent
from rules.records.measure import Measurement
from rules.records.run import EnergyRecord
from rules.records.run_set import PreflightCheck, RunSetRecord
from rules.temporary_folder import temporary_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """User's shell commands (hooks) that run before, after and during each repetition, and the log to which the
    experiment's events are written."""

    hooks: Hooks
    events: EventLog


def look_again(folder: Path, context: Context) -> tuple[tuple[PreflightCheck, ...], str | None]:
    """Check a folder before its experiment is continued. Return the results of the environment check, made now, and a
    warning (None for no warning).

    The warning says that dlrmbench's code changed since the experiment began. There is no warning if the experiment
    requires unchanged code, since `complete` then raises an error.

    Raises HarnessError. Exit 2: a user's own code is not named again, or the folder is one of a pair's two
    configurations. Exit 6: the environment check warns, and the experiment began with --strict-env. Exit 8: this copy
    of dlrmbench lacks the kind of measurement.
    """
    refuse_outside_code(folder, {"model": context.models, "implementation": context.implementations})
    _refuse_side(folder)
    record = read(folder)
    if context.python is not None and not find_relation(record.relation).takes_python and record.python is None:
        raise RequestError(f"--python is for a pair of 'run --beside', and {folder} is none. Leave it out.")
    sets = [open_run_set(part) for part in parts_of(folder).values()]
    for run_set, each in sets:
        if (why := why_absent(each.kind)) is not None:
            raise HarnessError(f"{run_set.folder}: {why}", ExitCode.INPUT)
    others = (describe_other_code(run_set.folder, each) for run_set, each in sets)
    other = next(filter(None, others), None) if record.on_other_code == "warn" else None
    return check_again(folder, sets[0][1]) if sets else (), other  # all sets began with the same options


def _refuse_side(folder: Path) -> None:
    """Raise HarnessError (exit 2) for the folder of only one of a pair's two configurations: their runs alternate, so
    the pair must be completed as a whole."""
    whole, name = folder.absolute().parent, folder.absolute().name
    group = None if group_file(folder) is not None else read_group(whole)
    if group is not None and group.is_pair and group.holds(name):
        python = None if isinstance(group.record, Damage) else group.record.python
        raise HarnessError(
            f"{folder}: is one side of a pair, whose runs alternate. Complete the pair: "
            f"{resume_command(whole, python)}"
        )


def complete(folder: Path, context: Context = NO_CONTEXT, *, num_runs: int | None = None) -> ExperimentRecord:
    """Make all missing repetitions of the experiment in `folder`, stage by stage (such as the runs, then a profile).
    Then make the repetitions that the experiment's stop rule adds.

    If `num_runs` is given, the plan is first extended to that many repetitions of each configuration. Each stage says
    whether a failed repetition ends the experiment. A failed hook (a user's command before or after each repetition)
    always ends it.

    Raises HarnessError before anything is run if the interpreter, the hooks or the system changed since the
    experiment began; also if dlrmbench's code changed and the experiment requires unchanged code. Raises HarnessError
    later if a repetition fails so that the experiment ends.
    """
    watcher, hooks = context.watcher, context.hooks
    with hold(folder) as store, closing(open_event_log(context.log_to, folder)) as events, _leaving_nothing(store):
        for run_set, set_record in store.sets.values():
            again = resume_command(folder, store.record.python, set_record.hooks)
            hooks.refuse_other(run_set.folder, set_record.hooks, again)
        around = RunContext(hooks=hooks, events=events)
        _refuse_single(store)
        executors = find_executors(store, context.python)
        refuse_changed(store, executors)
        relation = find_relation(store.record.relation)
        if num_runs is not None and not relation.may_grow:
            words = f"the number of {relation.parts} of a {relation.word} is fixed when it begins"
            raise RequestError(f"{folder}: {words}. Leave --runs out.")
        if num_runs is not None:
            store.grow(num_runs, is_asked=True)
        rule = find_stop_rule(store.record.stop)
        slots = relation.plan_slots(store.folder, store.record)
        store.recover()
        store.forget_failures()
        if store.path is None:
            planned = store.record.num_runs
            watcher.on_begin(planned - len(store.steps(store.record.stages[0])), planned)
        events.write("experiment_start", {"name": store.record.name, "relation": store.record.relation})
        took_s = {stage.kind: dict[int, list[float]]() for stage in store.record.stages}
        while True:
            # All configurations of a batch must be known before its first repetition begins.
            while rule is not None and len(slots) > 1 and len(store.record.configurations) % len(slots):
                more = rule.extend(_state_of(store))
                if not isinstance(more, Mapping):
                    break
                executors[store.add(relation.make_member(folder, store.record, more))] = WorkerExecutor()
            for stage in store.record.stages:
                if len(slots) > 1:
                    _complete_side_by_side(store, stage, slots, executors, watcher, around, took_s[stage.kind])
                else:
                    _complete_stage(store, stage, executors, watcher, around, took_s[stage.kind])
            more = None if rule is None else rule.extend(_state_of(store))
            if more is None:
                break
            if isinstance(more, int):
                watcher.on_growth(more)
                store.grow(more, is_asked=False)
            else:
                executors[store.add(relation.make_member(folder, store.record, more))] = WorkerExecutor()
        store.gather()
        failed = [each.label for each in store.record.configurations if each.failure is not None]
        events.write("experiment_end", {"failed": failed})
        return store.record


@contextmanager
def _leaving_nothing(store: Store) -> Iterator[None]:
    """Point the link `latest` back to an earlier run set where a hook (user's command) fails before anything is
    measured."""
    try:
        yield
    except HookError:
        stage, indices = store.record.stages[0], range(store.record.num_runs)
        if not any(store.keeper(stage, place).is_done(index) for place in store.sets for index in indices):
            unlink_latest(store.folder)
        raise


def _state_of(store: Store) -> State:
    members = store.record.configurations
    sets = tuple(run_set for place, (run_set, _) in store.sets.items() if members[place].failure is None)
    return State(folder=store.folder, record=store.record, sets=sets)


def _refuse_single(store: Store) -> None:
    """Raise HarnessError for a kind of measurement that makes a single record, and so has no repetitions to
    continue."""
    kind = find_kind(store.record.kind)
    if kind.max_repetitions is not None:
        raise HarnessError(
            f"{store.folder}: holds a {kind.name} measurement, which has no runs to complete. Measure again with "
            f"{store.record.command}"
        )


_UNKNOWN = -1
"""Stand-in for the index of a configuration that a stop rule has yet to choose. It is used only to estimate the time
that is left."""


def _complete_stage(
    store: Store,
    stage: StageRecord,
    executors: Mapping[int, WorkerExecutor],
    watcher: Watcher,
    around: RunContext,
    took_s: dict[int, list[float]],
) -> None:
    """Make the missing repetitions of a stage (such as the runs, or a profile) one after the other. `took_s` maps the
    index of a configuration to the seconds that its repetitions took; each repetition made here is added."""
    steps, is_told, relation = store.steps(stage), False, find_relation(store.record.relation)
    total = stage.repetitions * sum(store.record.configurations[place].failure is None for place in store.sets)
    if (planned := relation.num_planned(store.record)) is not None:
        total = planned
    for position, (number, step) in enumerate(steps):
        if store.is_left_out(step):
            continue
        left = [later.configuration for _, later in steps[position:] if not store.is_left_out(later)]
        if planned is not None:  # configurations that are yet to be added, and the repetitions of `end`
            left += [_UNKNOWN] * (planned - number + relation.num_at_end)
        if store.path is not None:
            watcher.on_step(_describe(store, stage, number, total, step, estimate_left_s(took_s, left)))
        started_s = time.monotonic()
        try:
            outlook = _look_ahead(store, number, total, step.configuration, took_s, left[1:])
            executor = executors[step.configuration]
            outcome = _make(store, stage, step, executor, around, outlook, quiet=watcher.quiet)
        except HarnessError as error:
            if stage.on_failure == "stop" or isinstance(error, HookError):
                raise
            store.note(stage, step, error)
            continue
        took_s.setdefault(step.configuration, []).append(time.monotonic() - started_s)
        if not is_told and around.hooks.power_command is not None and (why := _why_no_energy(outcome)) is not None:
            watcher.on_lost_energy(why)
            is_told = True
        if store.path is None and outcome is not None:
            watcher.on_done(step.repetition, outcome)


def _complete_side_by_side(
    store: Store,
    stage: StageRecord,
    slots: Sequence[Slot],
    executors: Mapping[int, WorkerExecutor],
    watcher: Watcher,
    around: RunContext,
    took_s: dict[int, list[float]],
) -> None:
    """Make the missing repetitions of a stage (such as the runs, or a profile) in batches of configurations. The
    configurations of a batch run at the same time, each in a slot (cores and GPUs). A configuration has the same slot
    in all of its repetitions. A slot whose configuration has finished or failed is kept busy with throw-away work.

    `took_s` maps a batch's number to the seconds of the repetitions in that batch; each repetition made here is
    added.
    """
    relation, width = find_relation(store.record.relation), len(slots)
    total = relation.num_planned(store.record) or len(store.record.configurations)
    batches: dict[tuple[int, int], list[OrderStep]] = {}
    for _, step in store.steps(stage):
        batches.setdefault((step.configuration // width, step.repetition), []).append(step)
    for (number, _), batch in sorted(batches.items()):
        left = [_UNKNOWN] * (-(-total // width) - number + relation.num_at_end)
        left_s = estimate_left_s(took_s, left)
        for step in batch:
            label = store.record.configurations[step.configuration].label
            watcher.on_step(
                Progress(number=step.configuration + 1, total=total, label=label, run_index=None, left_s=left_s)
            )
        steps, started_s = {step.configuration % width: step for step in batch}, time.monotonic()
        made_in = {
            slot: partial(_make, store, stage, step, executors[step.configuration], around, ALONE, quiet=True)
            for slot, step in steps.items()
        }
        keep_busy = partial(_keep_busy, store, stage, executors, number * width)
        make_side_by_side(made_in, slots, keep_busy, partial(_note_end, store, stage, steps))
        took_s.setdefault(number, []).append(time.monotonic() - started_s)


def _note_end(
    store: Store, stage: StageRecord, steps: Mapping[int, OrderStep], number: int, error: HarnessError | None
) -> None:
    """Record why the repetition in a slot (its cores and GPUs) failed, if `error` is given. Raises `error` where a
    failure stops the stage (such as the runs, or a profile), or a user's command failed."""
    if error is None:
        return
    if stage.on_failure == "stop" or isinstance(error, HookError):
        raise error
    store.note(stage, steps[number], error)


def _keep_busy(
    store: Store, stage: StageRecord, executors: Mapping[int, WorkerExecutor], first: int, slot: Slot
) -> bool:
    """Keep a slot (cores and GPUs) busy by repeating a finished repetition in a temporary folder. Return whether that
    succeeded; False also if no configuration has finished a repetition.

    The repeated repetition is the first one of the slot's own configuration, or that of another configuration if the
    slot's own has not finished one. `first` is the index of the configuration in slot 0.
    """
    places = [each for each in (first + slot.number, *store.sets) if each in store.sets]
    found = next((each for each in places if store.keeper(stage, each).is_done(0)), None)
    if found is None:
        return False
    run_set, record = store.sets[found]
    repetition = RepetitionTask(
        kind=find_kind(stage.kind),
        keeper=store.keeper(stage, found),
        run_set=run_set,
        record=record,
        index=0,
        more=stage.options,
        resume="",
        slot=slot,
    )
    with temporary_folder("busy") as folder:
        attempt = folder / "attempt_1"
        attempt.mkdir()
        return executors[found].run(repetition, attempt, lambda event: None).exit_code == 0


def _why_no_energy(outcome: KeptOutcome | None) -> str | None:
    """Return why the user's power command gave no energy for a repetition; None where it did, or nothing was
    measured."""
    record = None if outcome is None else outcome.record
    holder = record.repetitions()[0] if isinstance(record, Measurement) else record
    energy: EnergyRecord | None = getattr(holder, "energy", None)
    gaps = () if energy is None else energy.not_measured
    return next((gap.reason for gap in gaps if gap.what == POWER_COMMAND), None)


def _describe(
    store: Store, stage: StageRecord, number: int, total: int, step: OrderStep, left_s: float | None
) -> Progress:
    label = store.record.configurations[step.configuration].label
    if stage is store.record.stages[0]:
        return Progress(number=number, total=total, label=label, run_index=step.repetition, left_s=left_s)
    return Progress(number=number, total=total, label=f"{stage.kind} {label}", run_index=None)


def _look_ahead(
    store: Store, number: int, total: int, place: int, took_s: Mapping[int, Sequence[float]], later: Iterable[int]
) -> Outlook:
    """Return the words that progress shows before a repetition: its number in its stage (the runs, say, or the
    profiles), its configuration's label if there are several, and two estimates in seconds, for this repetition and
    for all later ones."""
    return Outlook(
        number=number,
        total=total,
        label="" if store.path is None else store.record.configurations[place].label,
        usual_s=estimate_left_s(took_s, [place]),
        later_s=estimate_left_s(took_s, later),
    )


def estimate_left_s(took_s: Mapping[int, Sequence[float]], left: Iterable[int]) -> float | None:
    """Return the estimated seconds of all repetitions that are left; None if no repetition has been made yet.

    `left` has, for each repetition that is left, the index of its configuration. `took_s` maps a configuration's
    index to the seconds of its earlier repetitions; their mean is the estimate for each further repetition. A
    configuration without an earlier repetition is estimated by the mean of the other configurations.
    """
    means = {position: sum(times) / len(times) for position, times in took_s.items()}
    if not means:
        return None
    usual = sum(means.values()) / len(means)
    return sum(means.get(position, usual) for position in left)


def _make(
    store: Store,
    stage: StageRecord,
    step: OrderStep,
    executor: WorkerExecutor,
    around: RunContext,
    outlook: Outlook,
    *,
    quiet: bool,
    slot: Slot | None = None,
) -> KeptOutcome | None:
    """Make one repetition while its run set is locked and return its outcome; None where an interrupted attempt
    turned out to be complete."""
    with store.holding(step.configuration):
        run_set, record = store.sets[step.configuration]
        kind = find_kind(stage.kind)
        keeper = find_keeper(kind, run_set, record)
        if keeper.recover(step.repetition):
            return None
        _refuse_externally_launched(run_set, record, step.repetition)
        repetition = RepetitionTask(
            kind=kind,
            keeper=keeper,
            run_set=run_set,
            record=record,
            index=step.repetition,
            more=stage.options,
            resume=resume_command(store.folder, store.record.python, record.hooks),
            hooks=around.hooks,
            events=around.events.of(
                configuration=store.record.configurations[step.configuration].label,
                benchmark=record.benchmark.name,
                kind=kind.name,
                repetition=step.repetition,
            ),
            slot=slot,
        )
        return perform(repetition, executor, keeper.progress(step.repetition, quiet=quiet, outlook=outlook))


def perform(repetition: RepetitionTask, executor: WorkerExecutor, progress: ProgressDisplay) -> KeptOutcome:
    """Make one repetition, store its result and return the outcome; the caller holds the lock of its run set.

    Raises HarnessError where the repetition yields no result. What is stored of an interrupted attempt depends on the
    kind of measurement.
    """
    keeper, index, hooks, events = repetition.keeper, repetition.index, repetition.hooks, repetition.events
    folder, slot = keeper.open(index), repetition.slot

    def on_event(event: Mapping[str, Any]) -> None:
        progress.on_event(event)
        events.on_event(event)
        watch.look()

    events.write("repetition_start", {"seed": repetition.record.seeds[index]})
    try:
        hooks.run("prepare", folder, partial(events.write, "prepare"))
        watch, started_s = LoadWatch(), time.monotonic()
        end = executor.run(repetition, folder, on_event)
        beside = UNSET if slot is None else slot.count_beside(started_s)
        with suppress(OSError):  # the measurement counts without the load
            write_record(folder / LOAD_FILE, structs.replace(watch.end(), beside=beside))
    except BaseException as error:
        kept = keeper.close(index, folder, error, repetition.resume)
        progress.finish("not begun: --prepare failed" if isinstance(error, HookError) else kept.words)
        events.write("repetition_end", {"outcome": "failed", "reason": str(error) or type(error).__name__})
        with suppress(HookError):  # its output is recorded, and the first error is the one to raise
            hooks.run("cleanup", folder, partial(events.write, "cleanup"))
        raise
    outcome = keeper.close(index, folder, end, repetition.resume)
    progress.finish(outcome.words)
    failed = {} if outcome.error is None else {"reason": str(outcome.error)}
    ended = "failed" if outcome.record is None else "ended"
    events.write("repetition_end", {"outcome": ended, **failed, **quantity_of(outcome.record)})
    try:
        hooks.run("cleanup", folder, partial(events.write, "cleanup"))
    except HookError as error:
        raise error if outcome.error is None else HookError(f"{error}\nBefore that, {outcome.error}") from None
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _refuse_externally_launched(run_set: RunSet, record: RunSetRecord, index: int) -> None:
    """Raise HarnessError for a missing run whose ranks an external launcher (torchrun or srun) must start."""
    if "runtime.ranks" in record.config and record.config["runtime.ranks"].source == WORLD_SOURCE:
        raise HarnessError(
            f"{run_set.folder}: run {index} is missing, and the ranks of this set are started by torchrun or srun. "
            f"Start it there again, with --run-index {index}."
        )
