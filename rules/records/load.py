"""Record the load that other processes put on a system while a process measured. The load is a part of the
measurement's record. Units (SI) are in the members' names."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from rules.records.codec import Amount, PositiveCount, Record

BUSY_SHARE = 0.1
"""Share of a system's CPUs: if other processes use more than this share, the system is a noisy machine."""


class LoadRecord(Record, frozen=True, kw_only=True):
    """Load that other processes put on a system while one process measured; a member is None where the system does
    not report it."""

    num_cpus: PositiveCount
    duration_s: Amount
    """Seconds from before the measured process began until after it ended."""
    load_avg_before: Amount | None
    """Load average of the last minute (proc_loadavg(5)) when the measured process began."""
    load_avg_after: Amount | None
    """Load average of the last minute after the measured process ended, its own work included."""
    other_cpus: Amount | None
    """Mean number of CPUs that other processes kept busy, or a hypervisor took away, during the measurement. It is
    the processor time of everything but the measured process and its children, divided by the duration."""
    cpu_clock_mhz: Amount | None = None
    """Mean clock frequency of all CPUs, in MHz, while the process measured."""
    max_temperature_c: Annotated[float, Meta(ge=-273.15, le=1000)] | None = None
    """Highest temperature of any CPU in degrees Celsius while the measured process ran."""
    beside: Amount | UnsetType = UNSET
    """Mean number of other workers that measured at the same time as the process, each on cores of its own. Present
    only if the command measures in several processes at a time."""
