"""Compute hosts and power of a serving fleet, with all embedding rows in DRAM and with some in a slower memory.

A replica is a group of hosts that hold a model's rows together; each of these hosts does its part of every query. The
user gives all watts; there are no default values.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from reference_models.process.errors import ConfigError

_MOST_HOSTS = 10**9
PUBLISHED_POWER = "5 % to 29 %, other models"
"""Shares of power saved, in words, as the abstract on software-defined memory states them (Ardestani et al., 2021,
arXiv 2110.11489)."""


class Watts(NamedTuple):
    """Power of the parts of a serving host, in watts."""

    host: float
    """Watts of a host, without the DRAM that holds embedding rows."""
    dram_gb: float
    """Watts of a gigabyte of the DRAM that holds embedding rows."""
    device: float
    """Watts of one device of the memory below DRAM."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """Query rate of a whole serving fleet, and DRAM, query rate and power of one of its hosts."""

    rate: float
    """Queries per second that the whole fleet of serving hosts answers."""
    host_dram_bytes: int
    """DRAM of one host that may hold embedding rows, in bytes."""
    host_rate: float
    """Queries per second that one host answers with all embedding rows in DRAM."""
    watts: Watts | None = None


class Hosts(NamedTuple):
    """Number of hosts of a serving fleet, and the DRAM, query rate and power that follow from it."""

    number: int
    of_replica: int
    """Number of hosts of a replica, which hold the model's embedding rows together."""
    dram_bytes: int
    """DRAM that the embedding rows of one replica (hosts that hold the model together) take, in bytes."""
    rate: float
    """Queries per second that one host answers."""
    watts: float | None
    """Power of the whole fleet in watts; None where no watts were given."""


def count_hosts(fleet: Fleet, dram_bytes: int, rate: float, num_devices: int) -> Hosts:
    """Count the hosts of a fleet whose replicas (groups of hosts that hold the model together) have `dram_bytes`
    bytes of embedding rows in DRAM. A host answers `rate` queries/s.

    A host has `num_devices` devices of the slower memory. Raises ConfigError for a fleet of more than 10^9 hosts.
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
