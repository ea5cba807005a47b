"""Hosts and power of a fleet, with all rows in DRAM and with some in a slower memory: counted from what hosts hold.

Hosts that hold the rows of a model together are a replica, and a query takes each of them its part. Watts are the
user's; none is shipped.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from reference_models.process.errors import ConfigError

_MOST_HOSTS = 10**9
PUBLISHED_POWER = "5 % to 29 %, other models"
"""Power that is saved, by the abstract of software-defined memory (Ardestani et al., 2021, arXiv 2110.11489)."""


class Watts(NamedTuple):
    """Power of the parts of a host, in watts."""

    host: float
    """A host without the DRAM that holds rows."""
    dram_gb: float
    """A gigabyte of DRAM that holds rows."""
    device: float
    """A device of the slower memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The load of a fleet, and what one of its hosts can do."""

    rate: float
    """Queries a second of the whole fleet."""
    host_dram_bytes: int
    """DRAM of a host for rows."""
    host_rate: float
    """Queries a second that a host answers, all rows in DRAM."""
    watts: Watts | None = None


class Hosts(NamedTuple):
    """A fleet, counted."""

    number: int
    of_replica: int
    """Hosts that hold the model's rows together."""
    dram_bytes: int
    """DRAM that holds rows, of a replica."""
    rate: float
    """Queries a second of a host."""
    watts: float | None


def count_hosts(fleet: Fleet, dram_bytes: int, rate: float, num_devices: int) -> Hosts:
    """Count the hosts of a fleet whose replicas hold `dram_bytes` in DRAM, and of which each answers `rate` a second.

    A host has `num_devices` of the slower memory. Raises ConfigError of a fleet that is too large to be one.
    """
    shares, rates = dram_bytes / fleet.host_dram_bytes, fleet.rate / min(rate, 1e30)
    if max(shares, rates) > _MOST_HOSTS:
        raise ConfigError(
            f"--fleet: {fleet.rate:g} queries/s on hosts of {rate:g} queries/s and {fleet.host_dram_bytes:,} bytes "
            f"take more than {_MOST_HOSTS:g} hosts. Give the fleet's queries/s, and a host's DRAM and queries/s."
        )
    of_replica = max(1, ceil(shares))
    replicas = max(1, ceil(rates / of_replica))
    count, watts = replicas * of_replica, None
    if fleet.watts is not None:
        of_rows = replicas * dram_bytes / 1e9 * fleet.watts.dram_gb
        watts = count * (fleet.watts.host + num_devices * fleet.watts.device) + of_rows
    return Hosts(count, of_replica, dram_bytes, rate, watts)
