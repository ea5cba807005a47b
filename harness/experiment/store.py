"""Read, lock and write an experiment on disk: one run set (runs of one configuration), or a folder of several."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import asdict, replace

from harness.experiment.orders import OrderStep, find_order
from harness.experiment.relation import find_relation
from harness.foundation.errors import ExitCode, HarnessError, first_line
from harness.foundation.files import refuse_damage, write_record
from harness.measure.kinds import find_kind
from harness.run_sets.folder import LOCK_FILE, RUN_SET_FILE, RunSet, hold_lock, locked, open_run_set
from harness.run_sets.keepers import Keeper, find_keeper
from rules.benchmarks.seeds import derive_seeds, reserved_seeds
from rules.records.experiment import (
    ExperimentRecord,
    FailureRecord,
    MemberRecord,
    StageRecord,
    StopRecord,
    group_file,
    is_plain_name,
    read_experiment,
)
from rules.records.run_set import RunSetRecord


@dataclass(kw_only=True)
class Store:
    """Experiment in a folder whose lock this process holds: its record (with the plan), its run sets, and methods
    that write its state."""

    folder: Path
    record: ExperimentRecord
    path: Path | None
    """Path of experiment.json, the file of an experiment of several configurations; None for one configuration,
    without that file."""
    sets: dict[int, tuple[RunSet, RunSetRecord]] = field(default_factory=dict)
    """Run sets by the index of their configuration; a configuration that failed before its set was created has
    none."""

    def keeper(self, stage: StageRecord, configuration: int) -> Keeper:
        """Return the keeper (which makes results permanent) of one configuration's repetitions in a stage (such as
        the runs, or a profile)."""
        return find_keeper(find_kind(stage.kind), *self.sets[configuration])

    def steps(self, stage: StageRecord) -> list[tuple[int, OrderStep]]:
        """Return the missing repetitions of a stage (such as the runs, or a profile) in planned order, each with its
        number in the whole plan, from 1."""
        places = [place for place in self.sets if self.record.configurations[place].failure is None]
        planned = enumerate(find_order(stage.order)(places, stage.repetitions), start=1)
        keepers = {place: self.keeper(stage, place) for place in places}
        # Where configurations are added one by one, the plan no longer has the failed ones.
        is_added = find_relation(self.record.relation).num_planned(self.record) is not None
        return [
            (step.configuration + 1 if is_added else number, step)
            for number, step in planned
            if not keepers[step.configuration].is_done(step.repetition)
        ]

    def is_left_out(self, step: OrderStep) -> bool:
        """Return whether the configuration of a planned repetition has failed, so that the repetition is left out."""
        return self.record.configurations[step.configuration].failure is not None

    @contextmanager
    def holding(self, configuration: int) -> Iterator[None]:
        """Hold the lock of one configuration's run set while the caller's block runs; for an experiment of one
        configuration (without experiment.json) that lock is already held."""
        if self.path is None:
            yield
        else:
            run_set = self.sets[configuration][0]
            with locked(run_set):
                self.sets[configuration] = open_run_set(run_set.folder)  # read again under the lock
                refuse_inconsistent(*self.sets[configuration], self.record)
                yield

    def recover(self) -> None:
        """Settle the repetitions that a crash left unfinished: keep each one that is complete, and record every other
        as interrupted. Only repetitions of the first stage (the runs or measurements) are settled.

        In an experiment of several run sets, a run set that was never locked is skipped: it cannot have unfinished
        repetitions.
        """
        for place, (run_set, _) in self.sets.items():
            if self.path is not None and not (run_set.extra / LOCK_FILE).exists():
                continue
            with self.holding(place):
                keeper = self.keeper(self.record.stages[0], place)
                for index in range(self.record.num_runs):
                    keeper.recover(index)

    def forget_failures(self) -> None:
        """Clear the recorded failures of configurations, so that they are retried. A failure stays where the
        configuration has no run set, or where the relation between the configurations says that a failure is itself a
        result."""
        if not find_relation(self.record.relation).forgets_failures:
            return
        self._change(
            [
                each if each.folder is None else replace(each, failure=None, notes={})
                for each in self.record.configurations
            ]
        )

    def note(self, stage: StageRecord, step: OrderStep, error: HarnessError) -> None:
        """Record why a repetition failed. If failures of its stage (a profile, say) are only noted, its configuration
        lacks the result of this stage. Otherwise all further repetitions of the configuration are left out."""
        members = list(self.record.configurations)
        member = members[step.configuration]
        if stage.on_failure == "note":
            members[step.configuration] = replace(member, notes={**member.notes, stage.kind: first_line(error)})
            self._change(members)
            return
        failure = FailureRecord(reason=first_line(error), exit_code=int(error.exit_code), run_index=step.repetition)
        members[step.configuration] = replace(member, failure=failure)
        self._change(members)
        self.save()

    def _change(self, members: Sequence[MemberRecord]) -> None:
        self.record = replace(self.record, configurations=tuple(members))

    def save(self) -> None:
        """Write experiment.json; an experiment of one configuration, whose run set has its own record, has no such
        file."""
        if self.path is not None:
            write_record(self.path, self.record)

    def grow(self, num_runs: int, *, is_asked: bool) -> None:
        """Extend the plan of every run set to `num_runs` repetitions, on disk, before the new ones are made.

        `is_asked` is True where a user, and not a stop rule, wants more; the stop rule then no longer applies. Raises
        HarnessError (exit 2), before anything is written, where a run set may not get more repetitions.
        """
        for run_set, record in self.sets.values():
            _refuse_growth(run_set, record, num_runs)
        for place in self.sets:
            with self.holding(place):
                run_set, record = self.sets[place]
                _refuse_growth(run_set, record, num_runs)
                self.sets[place] = run_set, _grow_set(run_set, record, num_runs, is_asked=is_asked)
        first, *others = self.record.stages
        stop = None if is_asked else self.record.stop
        self.record = replace(self.record, stages=(replace(first, repetitions=num_runs), *others), stop=stop)
        self.save()

    def add(self, member: MemberRecord) -> int:
        """Add a configuration to the experiment, also one whose run set could not be created; return the
        configuration's index."""
        place = len(self.record.configurations)
        if member.folder is not None:
            self.sets[place] = open_run_set(self.folder / member.folder)
        self._change([*self.record.configurations, member])
        self.save()
        return place

    def gather(self) -> None:
        """Write the combined file of each configuration whose kind of measurement has one, from the results of the
        first stage. Then write experiment.json with the failures of configurations."""
        for place in self.sets:
            if self.record.configurations[place].failure is None:
                self.keeper(self.record.stages[0], place).gather()
        self.save()


def _refuse_growth(run_set: RunSet, record: RunSetRecord, num_runs: int) -> None:
    if num_runs < record.num_runs:
        raise HarnessError(
            f"{run_set.folder}: holds {record.num_runs} runs, and --runs is {num_runs}: a set does not shrink, since "
            f"leaving runs out would be choosing among them. Give --runs {record.num_runs} or more."
        )
    find_kind(record.kind).refuse_growth(run_set.folder, record, run_set.definition, num_runs)


def _grow_set(run_set: RunSet, record: RunSetRecord, num_runs: int, *, is_asked: bool) -> RunSetRecord:
    reserved = reserved_seeds(record.benchmark.name) | set(record.seeds)
    more = derive_seeds(record.base_seed, num_runs, reserved)
    grown = replace(
        record,
        num_runs=num_runs,
        seeds=(*record.seeds, *more)[:num_runs],
        until=replace(record.until, max_runs=num_runs) if record.until is not None and is_asked else record.until,
    )
    write_record(run_set.extra / RUN_SET_FILE, grown)
    return grown


def experiment_of(folder: Path, record: RunSetRecord) -> ExperimentRecord:
    """Return the record of an experiment of one configuration, made from its run set's record, since such an
    experiment has no file of its own."""
    until = record.until
    return ExperimentRecord(
        name=record.name,
        created_utc=record.created_utc,
        harness_version=record.harness_version,
        command=record.command,
        relation="one",
        reads_as="alone",
        on_other_code="warn",
        base_seed=record.base_seed,
        stages=(
            StageRecord(
                kind=record.kind,
                options=record.options,
                repetitions=record.num_runs,
                order="turns",
                on_failure="stop",
            ),
        ),
        axes=(),
        configurations=(
            MemberRecord(label=record.name, values={}, folder=folder.name, python=None, failure=None, notes={}),
        ),
        with_fit=False,
        source=None,
        stop=None if until is None else StopRecord(rule="until", values=dict(asdict(until))),
    )


def read(folder: Path) -> ExperimentRecord:
    """Read the record of the experiment in `folder`: of several configurations, or of a run set. Raises HarnessError
    (exit 8) where the folder is no experiment or the record is damaged."""
    record = refuse_damage(read_experiment(folder))
    return experiment_of(folder, open_run_set(folder)[1]) if record is None else record


def parts_of(folder: Path) -> dict[int, Path]:
    """Return the folders of an experiment's run sets by the index of their configuration.

    Raises HarnessError (exit 8) for a folder outside the experiment's: a stranger may have made the file.
    """
    path = group_file(folder)
    if path is None:
        return {0: folder}
    names = {place: each.folder for place, each in enumerate(read(folder).configurations) if each.folder is not None}
    for name in names.values():
        if not is_plain_name(name):
            raise HarnessError(
                f"{path}: a configuration has the folder {name!r}, expected a name inside {folder}.", ExitCode.INPUT
            )
    return {place: folder / name for place, name in names.items()}


def _refuse_misshapen(path: Path, group: ExperimentRecord) -> None:
    """Raise HarnessError (exit 8) for the contents of an experiment.json that no command of dlrmbench would write: a
    stranger may have made the file."""
    num_folders = sum(each.folder is not None for each in group.configurations)
    num_names = len({each.folder for each in group.configurations if each.folder is not None})
    relation = find_relation(group.relation)
    first, *later = group.stages
    if not relation.is_group or group.reads_as != relation.reads_as:
        wrong = f"relation is {group.relation!r}, read as {group.reads_as!r}"
    elif (why := relation.why_misshapen(group)) is not None:
        wrong = f"relation is {group.relation!r}, and {why}"
    elif num_names < num_folders:
        wrong = "two configurations have one folder"
    elif any(stage.repetitions > (find_kind(stage.kind).max_repetitions or first.repetitions) for stage in later):
        wrong = "a later stage has more repetitions than its kind, or the first stage, has"
    elif any(set(stage.options) != find_kind(stage.kind).option_members for stage in later):
        wrong = "a later stage has options that its kind has not"
    else:
        return
    raise HarnessError(f"{path}: {wrong}, expected what a {relation.word} has.", ExitCode.INPUT)


def refuse_inconsistent(run_set: RunSet, record: RunSetRecord, experiment: ExperimentRecord) -> None:
    """Raise HarnessError (exit 8) where the record of a run set contradicts the experiment's record, or lacks what
    the run set's repetitions need, such as a seed for each."""
    place, expected = run_set.extra / RUN_SET_FILE, experiment.stages[0]
    known = find_kind(record.kind).option_members
    for is_wrong, words in (
        (
            record.kind != expected.kind or record.options != expected.options,
            f"is of {record.kind} {record.options}, expected {expected.kind} {expected.options}, as its group says",
        ),
        (
            record.num_runs < expected.repetitions,
            f"num_runs is {record.num_runs}, expected at least {expected.repetitions}, as its group says",
        ),
        (set(record.options) != known, f"options are {record.options}, expected {', '.join(known) or 'none'}"),
        (
            len(record.seeds) < record.num_runs,
            f"has {len(record.seeds)} seeds, expected one for each of {record.num_runs} runs",
        ),
        ("runtime.device" not in record.config, "config has no runtime.device, expected every value"),
    ):
        if is_wrong:
            raise HarnessError(f"{place}: {words}.", ExitCode.INPUT)


@contextmanager
def hold(folder: Path) -> Iterator[Store]:
    """Hold the lock of the experiment in `folder` and yield the experiment's state as its files have it.

    Raises HarnessError: exit 2 when another process holds the lock, 8 for files that are missing or damaged.
    """
    path = group_file(folder)
    if path is None:
        run_set, _ = open_run_set(folder)
        with locked(run_set):
            record = open_run_set(folder)[1]  # read again under the lock
            alone = experiment_of(folder, record)
            refuse_inconsistent(run_set, record, alone)
            yield Store(folder=folder, record=alone, path=None, sets={0: (run_set, record)})
        return
    with hold_lock(folder / "lock", folder):
        if path.is_symlink():
            raise HarnessError(f"{path}: is a link, expected a file. Remove it.", ExitCode.INPUT)
        group = read(folder)
        sets = {place: open_run_set(part) for place, part in parts_of(folder).items()}
        _refuse_misshapen(path, group)
        for run_set, record in sets.values():
            refuse_inconsistent(run_set, record, group)
        yield Store(folder=folder, record=group, path=path, sets=sets)
