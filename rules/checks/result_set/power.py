"""Judge power measurements of a set: every node of every run is measured, once a second, over the whole timed part.

The official tools test less. The PowerChecker compares only the names and the number of files, and crashes on names
without a number. The summarizer divides by zero if a measurement has no length.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs.text import show
from rules.scoring.energy import KINDS, PowerFile, RunPower
from rules.tree.system_desc import as_count

_RULES = "training_policies power_measurement.adoc"
_LAYOUT = 'submission_rules.adoc, "Directory structure, Training": power/result_<i>/node_<j>.txt, sw_<k>.txt'
_CHECKER = "mlperf_logging PowerChecker"
MIN_SAMPLES = 60
MAX_GAP_S = 2.0
"""Longest gap in seconds between power readings that still counts as jitter: twice the interval of one second."""
_LEAST_W, _APART, _EFF_APART = 10.0, 3.0, 0.1
_SLACK_S = 1.0
"""Tolerance in seconds, one sampling interval, for the beginning and end of a power measurement."""


def _has_power(subject: SetSubject) -> str | None:
    return None if subject.power is not None else "no power was measured"


_rule = partial(rule, applies=_has_power)


def _files(subject: SetSubject) -> Iterator[tuple[RunPower, PowerFile]]:
    assert subject.power is not None
    return ((run, file) for run in subject.power.runs for file in run.files)


def _measured(subject: SetSubject) -> Iterator[tuple[RunPower, PowerFile]]:
    """Yield each power file of the set that holds readings, with its run."""
    return ((run, file) for run, file in _files(subject) if file.num_readings)


@_rule(
    "PW101",
    "power must be measured in every run",
    source=f'{_RULES}, "Measure all Runs"; {_CHECKER}',
    remedy="Put the measurement of every run into power/result_<i>/, or withdraw the power results.",
)
def every_run_measured(subject: SetSubject) -> Iterator[Problem]:
    """Each log result_<i>.txt has a directory power/result_<i>/ with at least one node's file, and each directory
    there has a log. A directory without a log is a warning."""
    assert subject.power is not None
    for run in subject.power.runs:
        if not run.count("node"):
            what = "no directory" if run.folder is None else "no node_<j>.txt"
            yield Problem(
                "the run's power was not measured", run.run.path, found=what, expected="power/result_<i>/node_0.txt"
            )
    for name in subject.power.others:
        yield Problem(
            "power of a run that is not there", subject.result_set.folder / "power" / name, severity="warning"
        )
    if subject.power.is_cut:
        yield Problem("more files than are read", severity="warning")


@_rule(
    "PW102",
    "power files must be named by node or switch, numbered from 0",
    source=f"{_LAYOUT}; {_CHECKER}",
    remedy="Name the files node_0.txt, node_1.txt, …, sw_0.txt, ….",
)
def files_are_named(subject: SetSubject) -> Iterator[Problem]:
    """Nodes and switches are numbered from 0 without a gap. Files with other names beside them are a warning."""
    assert subject.power is not None
    for run in subject.power.runs:
        for kind in KINDS:
            indices = [file.index for file in run.files if file.kind == kind]
            if indices and sorted(indices) != list(range(len(indices))):
                yield Problem(
                    f"{kind} files are not numbered 0 to {len(indices) - 1}",
                    run.folder,
                    found=", ".join(map(str, sorted(indices)[:10])),
                )
        for path, reason in run.unread:
            yield Problem(reason, path, expected="a file")
        if run.others:
            yield Problem(
                "names that are no node's or switch's",
                run.folder,
                severity="warning",
                found=", ".join(show(name) for name in run.others[:3]),
            )


@_rule(
    "PW103",
    "power must be measured at the same nodes and switches in every run",
    source=f'{_RULES}, "Measure All Nodes"; {_CHECKER}',
    remedy="Measure every node of every run.",
    requires={"PW101"},
)
def runs_have_equal_files(subject: SetSubject) -> Iterator[Problem]:
    """All runs have the same number of files of nodes and the same number of files of switches, and there are as many
    nodes as the system description states."""
    assert subject.power is not None
    for kind in KINDS:
        counts = Counter(run.count(kind) for run in subject.power.runs)
        usual = counts.most_common(1)[0][0] if counts else 0
        for run in subject.power.runs:
            if run.count(kind) != usual:
                yield Problem(
                    f"another number of {kind} files", run.folder, found=str(run.count(kind)), expected=str(usual)
                )
        said = as_count(subject.system_fields.get("number_of_nodes")) if kind == "node" else None
        if said is not None and counts and usual != said:
            yield Problem("not every node was measured", found=f"{usual} nodes", expected=f"number_of_nodes: {said}")


@_rule(
    "PW104",
    "every power measurement must have a beginning, an end, and readings",
    source=f'{_RULES}, "Requirements"; mlperf_logging result_summarizer',
    remedy="Log power_measurement_start, then power_reading every second, then power_measurement_stop.",
)
def measurement_is_whole(subject: SetSubject) -> Iterator[Problem]:
    """A node's power file has power_measurement_start, at least one power_reading, and power_measurement_stop, which
    comes after the start. A switch's file has the same records, or only interconnect_power_est. Start and stop have
    different stamps: with equal ones, as in some published files, the official summarizer divides by zero. Further
    records that cannot be read are a warning."""
    for _, file in _files(subject):
        if file.kind == "sw" and file.estimate_w is not None and not file.num_readings:
            continue
        missing = [
            name
            for name, there in (
                ("power_measurement_start", file.start),
                ("power_reading", file.first_reading),
                ("power_measurement_stop", file.stop),
            )
            if there is None
        ]
        if missing:
            yield Problem("records are missing", file.path, expected=", ".join(missing))
        elif file.start is not None and file.stop is not None and file.stop.time_ms <= file.start.time_ms:
            yield Problem(
                "the measurement has no length",
                file.stop,
                found=f"time_ms {show(file.stop.time_ms)}",
                expected=f"after power_measurement_start, {show(file.start.time_ms)}",
            )
        if file.num_unparsed:
            yield Problem("records that cannot be read", file.path, found=f"{file.num_unparsed}", severity="warning")


@_rule(
    "PW105",
    "measured power must be a positive number of watts",
    source=f'{_RULES}, "Scoring"',
    remedy="Log watts as plain numbers, and conversion_eff as a fraction of one.",
)
def values_are_positive(subject: SetSubject) -> Iterator[Problem]:
    """power_reading and interconnect_power_est are positive, conversion_eff is above 0 and at most 1."""
    for _, file in _files(subject):
        for line in file.bad:
            yield Problem(f"{line.key} is no such number", line, found=show(line.value), expected="a positive number")


@_rule(
    "PW106",
    "power readings must be in the order of their time stamps",
    source=f'{_RULES}, "Scoring": duration between the previous reading and the current',
    remedy="Log readings as they are taken, stamped when they are taken.",
    severity="warning",
)
def readings_in_order(subject: SetSubject) -> Iterator[Problem]:
    """No reading is stamped before the one above it. The official summarizer sorts them."""
    for _, file in _files(subject):
        if file.disorder is not None:
            yield Problem("stamped before the reading above it", file.disorder, found=show(file.disorder.time_ms))


@_rule(
    "PW107",
    "power must be measured during the whole timed part of a run",
    source=f'{_RULES}, "Measure max(a run, 60 power samples)"',
    remedy="Start measuring before run_start, stop after run_stop, and set the meter's clock by the nodes'.",
)
def run_is_covered(subject: SetSubject) -> Iterator[Problem]:
    """A power measurement covers the run: it begins no later than run_start and ends no earlier than run_stop, within
    a second. It may include a little untimed work. A measurement that does not cover the run may be by another clock
    than the log, or may be of another run."""
    for run, file in _measured(subject):
        late_s, early_s = _uncovered_s(run, file)
        if late_s > _SLACK_S:
            yield Problem(
                "begins after run_start", file.start, found=f"{late_s:.1f} s later", expected="before run_start"
            )
        if early_s > _SLACK_S:
            yield Problem(
                "ends before run_stop", file.stop, found=f"{early_s:.1f} s earlier", expected="after run_stop"
            )


def _uncovered_s(run: RunPower, file: PowerFile) -> tuple[float, float]:
    """Return the seconds of a run that its power measurement misses at the beginning and at the end. They are 0 if
    begin, end or length of the measurement is missing, which PW104 reports."""
    timed_ms, start, stop = run.run.timed_ms, file.start, file.stop
    if timed_ms is None or start is None or stop is None or stop.time_ms <= start.time_ms:
        return 0.0, 0.0
    return (start.time_ms - timed_ms[0]) / 1e3, (timed_ms[1] - stop.time_ms) / 1e3


@_rule(
    "PW108",
    "power must be read at least once a second",
    source=f'{_RULES}, "Report 1 Measurement per Second"',
    remedy="Read the meter at least once a second, evenly.",
)
def read_every_second(subject: SetSubject) -> Iterator[Problem]:
    """The timed part holds at least one reading for every second. Gaps of more than two seconds where there are
    enough readings are a warning: the readings are not distributed evenly."""
    for run, file in _measured(subject):
        took_s = run.run.time_to_train_s
        if took_s is None or max(_uncovered_s(run, file)) > _SLACK_S:
            continue  # a part that was not measured has no readings: PW107
        if file.num_in_run < int(took_s) - 1:
            yield Problem(
                "too few readings",
                file.path,
                found=f"{file.num_in_run} in {took_s:.0f} s",
                expected=f"at least {int(took_s)}",
            )
        elif file.longest_gap_s is not None and file.longest_gap_s > MAX_GAP_S:
            yield Problem(
                "readings are not evenly distributed",
                file.path,
                found=f"a gap of {file.longest_gap_s:.1f} s",
                expected=f"at most {MAX_GAP_S:g} s",
                severity="warning",
            )


@_rule(
    "PW109",
    "a power measurement must have at least 60 readings",
    source=f'{_RULES}, "Measure max(a run, 60 power samples)"',
    remedy="Extend the training loop, with the same code, until 60 readings are taken.",
)
def enough_readings(subject: SetSubject) -> Iterator[Problem]:
    """Each power file has at least 60 readings. Runs that are too short for this must be extended."""
    for _, file in _measured(subject):
        if file.num_readings < MIN_SAMPLES:
            yield Problem(
                "too few readings", file.path, found=str(file.num_readings), expected=f"at least {MIN_SAMPLES}"
            )


@_rule(
    "PW110",
    "the power of the interconnect must be measured or estimated",
    source=f'{_RULES}, "Measure or Estimate Interconnects"',
    remedy="Add sw_<k>.txt with readings, or with interconnect_power_est.",
    severity="warning",
)
def interconnect_is_counted(subject: SetSubject) -> Iterator[Problem]:
    """If the power of more than one node was measured, there are power files of network switches. If the nodes' power
    includes the interconnect, the system description must state that."""
    assert subject.power is not None
    if any(run.count("node") > 1 and not run.count("sw") for run in subject.power.runs):
        yield Problem("no power of an interconnect", expected="power/result_<i>/sw_0.txt")


@_rule(
    "PW111",
    "every node and switch must have a power measurement of its own",
    source=f'{_RULES}, "Measure All Nodes"',
    remedy="Measure each node by itself, and keep its own readings.",
    severity="warning",
)
def measurements_differ(subject: SetSubject) -> Iterator[Problem]:
    """No two power files of the set hold the same readings in the same order. Readings with at least ten different
    values do not repeat by chance, so such files are compared by the readings alone. Readings with fewer values may
    repeat, so two files count as the same only if their stamps are equal, too."""
    seen: dict[int, PowerFile] = {}
    for _, file in _files(subject):
        if file.num_readings > 1 and (twin := seen.setdefault(file.digest, file)) is not file:
            place = Path(twin.path)
            is_of_run = place.parent == Path(file.path).parent
            yield Problem(
                f"the same readings as {place.name if is_of_run else f'{place.parent.name}/{place.name}'}",
                file.path,
                found=f"{file.num_readings} readings",
                expected="a measurement of its own",
            )


@_rule(
    "PW112",
    "power must be in watts, and similar in all runs of a set",
    source=f'{_RULES}, "Scoring"',
    remedy="Look at the unit of this file's readings, and at its conversion_eff.",
    severity="warning",
)
def powers_are_alike(subject: SetSubject) -> Iterator[Problem]:
    """A node draws at least 10 W, and 10 W for each accelerator of the description. The mean power of a node or
    switch is within a factor of three of its median over the runs, and conversion_eff within 0.1 of its median."""
    assert subject.power is not None
    least_w = _LEAST_W * max(1, as_count(subject.system_fields.get("accelerators_per_node")) or 0)
    by_place: dict[tuple[str, int], list[PowerFile]] = defaultdict(list)
    for _, file in _measured(subject):
        by_place[file.kind, file.index].append(file)
    for (kind, _), files in by_place.items():
        powers = [file.mean_w for file in files if file.mean_w is not None]
        usual_w = median(powers) if powers else 0.0
        usual_eff = median(file.conversion_eff for file in files)
        for file in files:
            power_w = file.mean_w
            if power_w is not None and kind == "node" and power_w < least_w:
                yield Problem("too little for a node", file.path, found=_watts(power_w), expected=_watts(least_w))
            elif power_w is not None and not usual_w / _APART <= power_w <= usual_w * _APART:
                yield Problem(
                    "another power than in other runs", file.path, found=_watts(power_w), expected=_watts(usual_w)
                )
            if abs(file.conversion_eff - usual_eff) > _EFF_APART:
                yield Problem(
                    "another conversion_eff than in other runs",
                    file.path,
                    found=f"{file.conversion_eff:g}",
                    expected=f"about {usual_eff:g}",
                )


def _watts(power_w: float) -> str:
    return f"{power_w:,.1f} W"
