"""Record the load that other processes put on a system while one process measured, as a part of the measurement's
record. Units (SI) are in the members' names."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from rules.records.codec import Amount, PositiveCount, Record

BUSY_SHARE = 0.1
"""Share of a system's CPUs above which their use by other processes makes it a noisy machine."""


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
    """Mean number of CPUs that other processes kept busy during the measurement or that a hypervisor took away: the
    processor time of all but the measured process and its children, over the duration."""
    cpu_clock_mhz: Amount | None = None
    """Mean clock of all CPUs in MHz while the process measured."""
    max_temperature_c: Annotated[float, Meta(ge=-273.15, le=1000)] | None = None
    """Highest temperature of any CPU in degrees Celsius while the measured process ran."""
    beside: Amount | UnsetType = UNSET
    """Mean number of other workers that measured at the same time as the process, on cores of their own; present only
    where the command measures in several processes at a time."""
