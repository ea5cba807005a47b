"""Reads power measurements beside a result set: power/result_<i>/node_<j>.txt and sw_<k>.txt, in MLPerf's log format.

power_measurement.adoc: a node's file holds power_measurement_start, power_reading (watts) at least once a second,
power_measurement_stop, and conversion_eff if the meter sits before the power supply. A switch's file may hold
interconnect_power_est (watts) instead of readings. Of a file's readings, only sums and the first wrong lines are
kept, so that memory is bounded.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from rules.errors import InputError
from rules.logs import keys
from rules.logs.log import LogLine, RunLog, as_number, read_log
from rules.scoring.results import RunResult
from rules.tree.result_set import POWER_FOLDER, ResultSet, leads_out

MAX_FILES = 20_000
MAX_FILE_BYTES = 256 << 20
_NAME = re.compile(r"(node|sw)_(\d{1,6})\.txt\Z")
_MAX_BAD_LINES = 20
_VARIED = 10
"""Minimum number of distinct values for which the values of a sequence of power readings, without their times,
identify a measurement. The readings of an idle switch have fewer."""
Kind = Literal["node", "sw"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerFile:
    """Power measurement of one node or switch during one run. Times are in milliseconds since 1970, power in watts.
    None means unknown, never 0.

    `mean_w` is the mean of the readings. A reading's weight is the time since the previous reading, or since the
    start for the first reading. `longest_gap_s` is the longest time between two readings in the timed part of the
    run, in seconds. `num_in_run` is the number of readings in this part. `estimate_w` is the value of
    interconnect_power_est.
    """

    path: str
    kind: Kind
    index: int
    start: LogLine | None
    stop: LogLine | None
    first_reading: LogLine | None
    num_readings: int
    num_in_run: int
    longest_gap_s: float | None
    mean_w: float | None
    conversion_eff: float
    estimate_w: float | None
    bad: tuple[LogLine, ...]
    """First records of the power file with a wrong value: one that is not a positive number, or a conversion_eff
    above 1."""
    disorder: LogLine | None
    """First power reading whose time stamp is earlier than that of the previous reading in the file. None if there is
    none."""
    num_unparsed: int
    digest: int
    """Hash of the power readings, to find copies: files of equal hash hold the same measurement. If readings have
    many distinct values, only the values are hashed; otherwise values and time stamps."""

    @property
    def power_w(self) -> float | None:
        """Return the mean power in watts that the power supply delivers: the measured mean, or the estimate if there
        are no readings, times conversion_eff. None if there is neither a mean nor an estimate."""
        power = self.mean_w if self.mean_w is not None else self.estimate_w
        return None if power is None else power * self.conversion_eff


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPower:
    """Power files of one run, one per node or switch. `folder` is power/result_<i>, None where the run has no such
    folder."""

    run: RunResult
    folder: Path | None
    files: tuple[PowerFile, ...] = ()
    others: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()

    def count(self, kind: Kind) -> int:
        return sum(file.kind == kind for file in self.files)

    @property
    def energy_j(self) -> float | None:
        """Return the energy of the run's timed part in joules: the mean powers of all files added up, times the time
        to train. The official summarizer computes it in the same way, but labels the number kJ although it is in
        joules. None if a power or the time is unknown, or no node has a file."""
        powers = [file.power_w for file in self.files]
        if self.run.time_to_train_s is None or not self.count("node"):
            return None
        known = [power for power in powers if power is not None]
        return sum(known) * self.run.time_to_train_s if len(known) == len(powers) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetPower:
    """Power measurements of a result set, one per run, in the order of the set's logs. `others` are names in power/
    that belong to no log."""

    runs: tuple[RunPower, ...]
    others: tuple[str, ...] = ()
    is_cut: bool = False


def read_set_power(result_set: ResultSet, runs: tuple[RunResult, ...]) -> SetPower | None:
    """Return the power measurements in a result set's power/, None if there is no such folder. Whatever the folder
    contains, no exception is raised."""
    top = result_set.folder / POWER_FOLDER
    if not top.is_dir() or leads_out(top, result_set.folder):
        return None
    by_name = {Path(run.path).stem: run for run in runs}
    num_files = 0
    measured: dict[str, RunPower] = {}
    for name, run in by_name.items():
        folder = top / name
        if folder.is_dir() and not leads_out(folder, top):
            measured[name] = _read_run(folder, run, MAX_FILES - num_files)
            num_files += len(measured[name].files)
    return SetPower(
        runs=tuple(measured.get(name, RunPower(run=run, folder=None)) for name, run in by_name.items()),
        others=tuple(sorted(path.name for path in top.iterdir() if path.name not in by_name)[:20]),
        is_cut=num_files >= MAX_FILES,
    )


def _read_run(folder: Path, run: RunResult, num_left: int) -> RunPower:
    files: list[PowerFile] = []
    others: list[str] = []
    unread: list[tuple[str, str]] = []
    for path in sorted(folder.iterdir()):
        match = _NAME.match(path.name)
        if match is None:
            others.append(path.name)
        elif len(files) < num_left:
            reason = _why_not_read(path, folder)
            if reason is None:
                files.append(_read_file(path, "node" if match[1] == "node" else "sw", int(match[2]), run))
            else:
                unread.append((str(path), reason))
    files.sort(key=lambda measured: (measured.kind, measured.index))
    return RunPower(run=run, folder=folder, files=tuple(files), others=tuple(others[:20]), unread=tuple(unread))


def _why_not_read(path: Path, top: Path) -> str | None:
    if not path.is_file():
        return "not a regular file"
    if leads_out(path, top):
        return "a link that leads out of the tree"
    return f"larger than {MAX_FILE_BYTES} bytes" if path.stat().st_size > MAX_FILE_BYTES else None


def _read_file(path: Path, kind: Kind, index: int, run: RunResult) -> PowerFile:
    try:
        log = read_log(path)
    except InputError:
        log = RunLog(path=str(path), lines=())
    return summarise(log, kind, index, run)


def summarise(log: RunLog, kind: Kind, index: int, run: RunResult) -> PowerFile:
    """Return the summary of one power file's readings, by time from the start to the stop of the measurement."""
    start, stop = log.first(keys.POWER_MEASUREMENT_START), log.last(keys.POWER_MEASUREMENT_STOP)
    begin_ms = start.time_ms if start is not None else -math.inf
    end_ms = stop.time_ms if stop is not None else math.inf
    has_length = -math.inf < begin_ms < end_ms < math.inf
    if end_ms <= begin_ms:  # start and stop are equal in some published files; their readings still count
        begin_ms, end_ms = -math.inf, math.inf
    readings = log.all(keys.POWER_READING)
    by_time = sorted(readings, key=lambda reading: reading.time_ms)
    bad = [reading for reading in by_time if (as_number(reading.value) or 0) <= 0][:_MAX_BAD_LINES]
    counted = [
        (reading.time_ms, power_w)
        for reading in by_time
        if begin_ms <= reading.time_ms <= end_ms and (power_w := as_number(reading.value) or 0) > 0
    ]
    times_ms = [time_ms for time_ms, _ in counted]
    marks_ms = [*([begin_ms] if begin_ms > -math.inf else times_ms[:1]), *times_ms]
    energy_w_ms = 0.0
    for before_ms, (time_ms, power_w) in zip(marks_ms, counted, strict=False):
        energy_w_ms += power_w * (time_ms - before_ms)
    first_ms, last_ms = run.timed_ms or (math.inf, -math.inf)
    gaps_ms = [min(after, last_ms) - max(before, first_ms) for before, after in pairwise([*marks_ms, last_ms])]
    efficiency = _positive(log, keys.CONVERSION_EFF, bad, most=1.0)
    return PowerFile(
        path=log.path,
        kind=kind,
        index=index,
        start=start,
        stop=stop,
        first_reading=readings[0] if readings else None,
        num_readings=len(times_ms),
        num_in_run=sum(first_ms <= time_ms <= last_ms for time_ms in times_ms),
        longest_gap_s=max(0.0, *gaps_ms) / 1e3 if times_ms and run.timed_ms is not None else None,
        mean_w=energy_w_ms / (end_ms - begin_ms) if times_ms and has_length else None,
        conversion_eff=efficiency if efficiency is not None else 1.0,
        estimate_w=_positive(log, keys.INTERCONNECT_POWER_EST, bad),
        bad=tuple(bad),
        disorder=next((later for reading, later in pairwise(readings) if later.time_ms < reading.time_ms), None),
        num_unparsed=log.num_unparsed,
        digest=_digest(counted),
    )


def _digest(readings: Sequence[tuple[float, float]]) -> int:
    powers = tuple(power_w for _, power_w in readings)
    return hash(powers if len(set(powers)) >= _VARIED else tuple(readings))


def _positive(log: RunLog, key: str, bad: list[LogLine], most: float | None = None) -> float | None:
    """Return the last value of a key in a power file, if it is a positive number no larger than `most`. For any other
    value, return None and add the key's record to `bad`. If the file lacks the key, return None."""
    line = log.last(key)
    if line is None:
        return None
    number = as_number(line.value)
    if number is not None and number > 0 and (most is None or number <= most):
        return number
    bad.append(line)
    return None


def olympic_energy_j(power: SetPower, dropped: Sequence[int]) -> float | None:
    """Return the mean energy, in joules, of the runs that count for the score. The runs dropped from the times to
    train are dropped for energy as well (power_measurement.adoc, "Scoring"). None if the energy of a counted run is
    unknown. The mean is never normalised by reference convergence points."""
    kept = [measured.energy_j for index, measured in enumerate(power.runs) if index not in dropped]
    known = [energy_j for energy_j in kept if energy_j is not None]
    return math.fsum(known) / len(known) if kept and len(known) == len(kept) else None
