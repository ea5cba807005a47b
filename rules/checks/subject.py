"""Define the subjects that rules judge: a log, a result set, a submission or a round, each with the benchmark
definition and MLPerf round that apply."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rules.benchmarks.constraints import Constraint
from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import is_before
from rules.checks.verdict import Verdict
from rules.logs import keys
from rules.logs.log import LogLine, RunLog
from rules.records.codec import Damage, decode
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord
from rules.scoring.energy import SetPower
from rules.scoring.rcp import Convergence
from rules.scoring.results import BenchmarkResult, RunResult, is_of_harness
from rules.tree.attempts import RunFolders, list_attempts
from rules.tree.result_set import ResultSet
from rules.tree.submission import Round, Submission
from rules.tree.system_desc import SystemDesc


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSubject:
    """One log with the benchmark definition and round by which it is judged. `benchmark` is None if no definition of
    the log's benchmark is known.

    `is_ours` tells whether the harness's own requirements hold, beyond MLPerf's. They hold for benchmarks that are
    not MLPerf's, and for logs that state a definition's digest or version, as logs of this harness do.
    """

    log: RunLog
    benchmark: Benchmark | None
    round: str | None
    division: str
    """Division that the log states: Open, or else Closed (the stricter one)."""
    is_official: bool
    is_ours: bool
    foreign_round: str | None = None
    """MLPerf round that the user asked for, where the log's benchmark was not part of that round; else None."""
    known: dict[Hashable, object] = field(default_factory=dict, compare=False, repr=False)
    """Cache of results that rules share between all logs of one benchmark and round, under keys that the rules
    choose."""

    @property
    def is_closed(self) -> bool:
        return self.division == keys.CLOSED

    @property
    def optional_parts(self) -> tuple[str, ...]:
        """Return the parts that a log's record may lack because official checkers accept it without them: the
        event_type, which they do not read, and before round 2.0 the metadata, since only later checkers crash without
        it. The parts are named as in `LogLine.problems`."""
        if self.is_ours:
            return ()
        is_early = self.round is not None and is_before(self.round, "2.0")
        return ("no 'event_type'", "no 'metadata'") if is_early else ("no 'event_type'",)

    def is_forgiving(self, line: LogLine) -> bool:
        """Return whether official tools ignore the event_type and time of a log's record. Before round 2.0 they do so
        for all records, and later for records above init_start or below run_stop."""
        if self.is_ours:
            return False
        return is_before(self.round, "2.0") or self.is_outside(line)

    def is_outside(self, line: LogLine) -> bool:
        """Return whether a log's record is above init_start or below run_stop in the file."""
        start, stop = self.log.first(keys.INIT_START), self.log.last(keys.RUN_STOP)
        is_above = start is not None and line.line_num < start.line_num
        return is_above or (stop is not None and line.line_num > stop.line_num)

    def is_at_least(self, round_name: str) -> bool:
        """Return whether the log is judged by the rules of the MLPerf round `round_name` or of a later one."""
        return self.round is not None and not is_before(self.round, round_name)

    @property
    def allowed(self) -> Mapping[str, Constraint]:
        """Return a map from mllog keys to the constraints of the log's division; empty if the benchmark is not
        known."""
        if self.benchmark is None:
            return {}
        return self.benchmark.closed if self.is_closed else self.benchmark.open

    def is_refused_by_division(self, line: LogLine) -> bool:
        """Return whether rule HP101 reports that the log's division does not allow the value of a log record."""
        general = self.allowed.get(line.key)
        if general is None or (general.free and not self.is_closed):
            return False
        assert self.benchmark is not None
        named = self.log.first(keys.SUBMISSION_BENCHMARK)
        is_judged = named is None or named.value == self.benchmark.name
        return is_judged and not general.resolve(self.log.value).allows(line.value)


@dataclass(frozen=True, slots=True)
class SetFiles:
    """Reader of the harness's files beside a set's logs: each file is listed and read once, however many rules and
    later readers need it. The cache is not passed on to other processes."""

    root: Path | None
    """Folder of the run set whose files are read; None for logs that lie in no run set of this harness."""
    _runs: dict[Path, RunRecord | Damage] = field(default_factory=dict, compare=False, repr=False)
    _sets: dict[Path, RunSetRecord | Damage] = field(default_factory=dict, compare=False, repr=False)
    _folders: dict[Path, RunFolders] = field(default_factory=dict, compare=False, repr=False)

    def run_record(self, place: Path) -> RunRecord | Damage:
        """Return the record in an attempt's run.json, or its damage where it cannot be read."""
        if place not in self._runs:
            self._runs[place] = decode(place, RunRecord)
        return self._runs[place]

    @property
    def run_set(self) -> RunSetRecord | Damage | None:
        """Return the run set's record in extra/run_set.json, or its damage; None where there is no such file."""
        place = self.root / "extra" / "run_set.json" if self.root is not None else None
        if place is None or not place.exists():
            return None
        if place not in self._sets:
            self._sets[place] = decode(place, RunSetRecord)
        return self._sets[place]

    @property
    def run_folders(self) -> RunFolders:
        """Return the folders of the set's attempts at runs: a map from the name of a run's folder in extra/ to its
        attempts."""
        if self.root is None:
            return RunFolders(by_name={}, is_all=False)
        if self.root not in self._folders:
            self._folders[self.root] = list_attempts(self.root)
        return self._folders[self.root]

    def known_run_record(self, place: Path) -> RunRecord | None:
        """Return the record in a run.json that a rule has read already; None where no rule has, or the file is
        damaged."""
        record = self._runs.get(place)
        return None if isinstance(record, Damage) else record

    def __reduce__(self) -> tuple[Any, ...]:
        return SetFiles, (self.root,)


@dataclass(frozen=True, kw_only=True, slots=True)
class SetSubject:
    """Result set (the logs of one benchmark on one system) that rules judge, with the other files in its folders.
    `logs` and `runs` are in the order of the files; `result` is the set's score."""

    result_set: ResultSet
    logs: tuple[RunLog, ...]
    result: BenchmarkResult
    benchmark: Benchmark | None
    round: str | None
    is_ours: bool
    system_desc: SystemDesc | None
    """System description that was read from systems/<system>.json; None where there is none."""
    power: SetPower | None
    """Power measurements of the set's runs; None where the set has no power/."""
    files: SetFiles
    """Reader of the harness's files beside the result set's logs."""
    has_broken_logs: bool = False
    """Whether one of the set's logs has an error for which the set is rejected. One log of a set may have a run that
    did not converge, or that crashed."""

    @property
    def runs(self) -> tuple[RunResult, ...]:
        return self.result.runs

    @property
    def system_fields(self) -> Mapping[str, Any]:
        """Return the fields of the system description, systems/<system>.json; empty where they cannot be read."""
        return (self.system_desc.fields if self.system_desc is not None else None) or {}

    @property
    def convergence(self) -> Convergence | None:
        """Return the result of the test against reference convergence points (RCPs); None where the set has no score
        that could be tested, such as an incomplete set."""
        return self.result.convergence

    @property
    def is_own(self) -> bool:
        return self.benchmark is None or self.benchmark.status == "own"

    def is_at_least(self, round_name: str) -> bool:
        """Return whether the result set is judged by the rules of the MLPerf round `round_name` or of a later one."""
        return self.round is not None and not is_before(self.round, round_name)


Subject = TypeVar("Subject", LogSubject, SetSubject)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedSet:
    """Result set after judging: its verdict, score and runs, without the records of its logs. `files` holds what was
    read from the files beside the logs.

    `rounds` are the MLPerf rounds that had its benchmark; there are none for unknown benchmarks and those that are
    not MLPerf's. `system_desc` holds the fields of systems/<system>.json; None if they cannot be read.
    """

    result_set: ResultSet
    verdict: Verdict
    result: BenchmarkResult
    rounds: tuple[str, ...]
    system_desc: Mapping[str, Any] | None
    files: SetFiles

    @property
    def runs(self) -> tuple[RunResult, ...]:
        return self.result.runs


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionSubject:
    """Submission of one organisation, with its judged result sets."""

    submission: Submission
    sets: tuple[JudgedSet, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundSubject:
    """MLPerf round: a directory of organisations' submissions, with the submissions."""

    round: Round
    submissions: tuple[SubmissionSubject, ...]


def make_log_subject(
    log: RunLog,
    benchmark: Benchmark | None,
    round_name: str | None,
    foreign_round: str | None = None,
    known: dict[Hashable, object] | None = None,
) -> LogSubject:
    """Return the subject for judging one log: the log with the definition and round that apply. `known`, a cache, is
    shared by logs of one benchmark and round."""
    return LogSubject(
        log=log,
        benchmark=benchmark,
        round=round_name,
        division=keys.OPEN if log.value(keys.SUBMISSION_DIVISION) == keys.OPEN else keys.CLOSED,
        is_official=benchmark is not None and benchmark.status == "official",
        is_ours=is_of_harness(log, benchmark),
        foreign_round=foreign_round,
        known={} if known is None else known,
    )


def applies_to_ours(subject: LogSubject) -> str | None:
    return None if subject.is_ours else "required only of this harness's own logs"


def applies_to_known(subject: Subject) -> str | None:
    return None if subject.benchmark is not None else "no definition of the benchmark is known"
