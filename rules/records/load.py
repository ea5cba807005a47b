"""What else a system did while one process measured, on record beside what it measured. SI units in names."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from rules.records.codec import Amount, PositiveCount, Record


class LoadRecord(Record, frozen=True, kw_only=True):
    """What else a system did while one process measured; None where the system does not say it."""

    num_cpus: PositiveCount
    duration_s: Amount
    """From before the process began until after it ended."""
    load_avg_before: Amount | None
    """The kernel's load average of the last minute (proc_loadavg(5)) when the process began."""
    load_avg_after: Amount | None
    """The same after it ended: with the work of the process in it."""
    other_cpus: Amount | None
    """CPUs that other processes kept busy meanwhile, on average, and that a hypervisor took away: the processor time
    of all but the process and its children, over the duration."""
    cpu_clock_mhz: Amount | None = None
    """The mean clock of all CPUs while it measured."""
    max_temperature_c: Annotated[float, Meta(ge=-273.15, le=1000)] | None = None
    """The highest temperature of a CPU while it measured, in degrees Celsius."""
    beside: Amount | UnsetType = UNSET
    """Workers that ran meanwhile beside the process, on cores of their own, on average; only there where its command
    measures several at a time."""
