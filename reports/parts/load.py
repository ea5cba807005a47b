"""Words the load of the system during a measurement, for the page, the terminal, and remarks on outliers."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from reports.text.formatting import interval, names, plural, printable
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

_CPU_SHARE = 0.1
"""Smallest difference, as a share of the CPUs, from the median of the other runs at which a run's load average or the
work of other programs is reported. A run inside the range of the other runs is never reported."""
_CLOCK_SHARE = 0.05
"""Smallest difference from the median of the other runs, as a share of it, at which a run's clock frequency is
reported."""
_DEGREES = 10.0
"""Smallest difference from the median of the other runs, in °C, at which a run's temperature is reported."""


def load_range(loads: Iterable[LoadRecord | None]) -> str | None:
    """Return the range of the system's load averages when each process began, '0.31 – 8.00'; None where none is
    known."""
    return _range((load.load_avg_before for load in loads if load), "{:.2f}".format)


def others_range(loads: Iterable[LoadRecord | None]) -> str | None:
    """Return the range of the number of CPUs that other programs kept busy, '0.1 – 1.9 of 2'; None where none is
    known."""
    known = [load for load in loads if load]
    found = _range((load.other_cpus for load in known), "{:.1f}".format)
    return None if found is None else f"{found} of {known[0].num_cpus}"


def clock_range(loads: Iterable[LoadRecord | None]) -> str | None:
    """Return the range of the CPUs' clock frequency, '3,100 – 3,400 MHz'; None where none is known."""
    found = _range((load.cpu_clock_mhz for load in loads if load), "{:,.0f}".format)
    return None if found is None else f"{found} MHz"


def temperature_range(loads: Iterable[LoadRecord | None]) -> str | None:
    """Return the range of the highest temperature during each process, '61 – 74 °C'; None where none is known."""
    found = _range((load.max_temperature_c for load in loads if load), "{:.0f}".format)
    return None if found is None else f"{found} °C"


def _range(values: Iterable[float | None], number: Callable[[float], str]) -> str | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = number(min(known)), number(max(known))
    return low if low == high else interval(low, high)


def load_words(loads: Sequence[LoadRecord | None]) -> str | None:
    """Return in words the load of the system during a measurement: 'at a load average of 8.00 – 8.20 when the 5
    processes began, while other work kept 1.4 – 1.9 of 2 CPUs busy'; None where nothing is known."""
    what = "measuring" if len(loads) == 1 else f"the {plural(len(loads), 'process', 'processes')}"
    began = f"when {what} began"
    clock, temperature = clock_range(loads), temperature_range(loads)
    parts = (
        None if (found := load_range(loads)) is None else f"at a load average of {found} {began}",
        None if (found := others_range(loads)) is None else f"while other work kept {found} CPUs busy",
        clock and f"with CPUs at {clock}",
        temperature and f"at {temperature} at most",
    )
    return ", ".join(filter(None, parts)) or None


def check_name(check: PreflightCheck) -> str:
    """Return the printed name of a check of the environment: 'CPU frequency governor'."""
    return "CPU frequency governor" if check.name == "governor" else check.name


def environment_words(preflight: Sequence[PreflightCheck], loads: Sequence[LoadRecord | None]) -> str | None:
    """Return one or two sentences on circumstances that could disturb a measurement: the warnings of the environment
    check, and the load of the system; None where neither was recorded."""
    warnings = [check for check in preflight if check.status == "warning"]
    checked = "The environment check had no warnings." if preflight else None
    if warnings:
        told = [
            printable(f"{check_name(check)} ({check.value})" if check.value else check_name(check), 60)
            for check in warnings
        ]
        checked = f"Warnings of the environment check: {names(told)}."
    found = load_words(loads)
    measured = None if found is None else f"Measured {found}."
    return " ".join(filter(None, (checked, measured))) or None


def difference_words(load: LoadRecord | None, others: Sequence[LoadRecord | None]) -> str | None:
    """Return in words how load, clock and temperature during one process differ from their values during all other
    processes: 'other work kept 1.8 of 2 CPUs busy (0.1 – 0.2)'. The range in brackets is that of the other processes.
    None if nothing is known to compare, or if no difference is large enough."""
    rest = [other for other in others if other is not None]
    if load is None or not rest:
        return None
    cpus = _CPU_SHARE * load.num_cpus
    parts = (
        _apart(load.load_avg_before, [each.load_avg_before for each in rest], cpus, "load average {} when it began",
               "{:.2f}".format),
        _apart(load.other_cpus, [each.other_cpus for each in rest], cpus,
               f"other work kept {{}} of {load.num_cpus} CPUs busy", "{:.1f}".format),
        _apart(load.cpu_clock_mhz, [each.cpu_clock_mhz for each in rest], None, "CPUs at {} MHz", "{:,.0f}".format),
        _apart(load.max_temperature_c, [each.max_temperature_c for each in rest], _DEGREES, "at most {} °C",
               "{:.0f}".format),
    )  # fmt: skip
    return ", ".join(filter(None, parts)) or None


def _apart(
    value: float | None,
    others: Sequence[float | None],
    least: float | None,
    words: str,
    number: Callable[[float], str],
) -> str | None:
    """Return the text `words` with a process's value put into it, followed by the range of the other processes'
    values in brackets. None if the value is not unusual: it lies inside that range, or nearer to the others' median
    than `least`. If `least` is None, the share _CLOCK_SHARE of the median takes its place."""
    known = [other for other in others if other is not None]
    if value is None or not known:
        return None
    middle = statistics.median(known)
    is_beyond = not min(known) <= value <= max(known)
    if not is_beyond or abs(value - middle) < (_CLOCK_SHARE * middle if least is None else least):
        return None
    return f"{words.format(number(value))} ({_range(known, number)})"
