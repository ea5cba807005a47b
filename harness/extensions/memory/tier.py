"""The description of a memory slower than DRAM, from a file shipped here or the user's."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from harness.planning.hardware.system import read_hardware
from reference_models.process.errors import ConfigError
from rules.records.codec import DamageError, Record, Share
from rules.records.study import Parameter

TIERS = {name: Path(__file__).with_name(f"{name}.toml") for name in ("nand", "3dxp", "cxl")}
"""Files that are shipped, by name."""


_LEAST, _MOST, _MOST_BYTES = 1e-30, 1e30, 1 << 40
_Number = Annotated[float, Meta(ge=0, le=_MOST)]
"""Products and quotients of a few of them are doubles still."""


class Quantity(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of a tier and where it comes from."""

    value: _Number
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    low: _Number | None = None
    high: _Number | None = None
    """The range in which other devices are."""
    tail: Annotated[tuple[tuple[Share, _Number], ...], Meta(max_length=100)] = ()
    """Rising shares of reads, and within what time they are: of a latency whose median is `value`."""


class Tier(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory below DRAM: what one of its devices does, and the links between devices, switch and host."""

    title: Annotated[str, Meta(max_length=200)]
    read_latency_s: Quantity
    """From a request to its data where nothing waits, without the switch."""
    reads_per_s: Quantity
    """Granules that a device reads a second."""
    granule_bytes: Quantity
    """The smallest read: rows, and sums of rows, are so many bytes rounded up."""
    link_bytes_per_s: Quantity
    """Bandwidth of a device's link, and of the host's."""
    switch_latency_s: Quantity
    """What a switch between devices and host adds to every answer that passes it."""
    host_reads_in_flight: Quantity
    """Granules that the thread of a query waits for at once."""
    pool_reads_in_flight: Quantity
    """The same of a device or a switch that adds rows up."""
    add_bytes_per_s: Quantity
    """Bytes of rows that are added up a second, by whoever pools."""

    def granules(self, row_bytes: int) -> int:
        """Return the granules of a row."""
        return -(-row_bytes // int(self.granule_bytes.value))

    def slowest_s(self, num_reads: NDArray[np.int64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the latency of the slowest of so many reads, of uniform numbers; the last known share's at most."""
        steps = np.array([(0.5, self.read_latency_s.value), *self.read_latency_s.tail])
        share = drawn ** (1 / np.maximum(num_reads, 1))
        slowest = np.interp(-np.log1p(-share), -np.log1p(-steps[:, 0]), steps[:, 1])
        return np.where(num_reads > 0, slowest, 0.0)


def find_tier(name: str) -> Tier:
    """Read a tier by its name or its file. Raises ConfigError, DefinitionError for a file that is no TOML."""
    path, tier = read_hardware("tier", name, TIERS, Tier)
    for member in Tier.__struct_fields__[1:]:
        quantity, most = getattr(tier, member), _MOST
        if is_bytes := member == "granule_bytes":
            most = float(_MOST_BYTES)
        given = {"value": quantity.value, "low": quantity.low, "high": quantity.high}
        given |= {f"tail[{number}][1]": time_s for number, (_, time_s) in enumerate(quantity.tail)}
        for name, value in given.items():
            if value is None or (value == 0 and member == "switch_latency_s"):
                continue
            if not _LEAST <= value <= most or (is_bytes and value % 1):
                expected = f"a {'whole ' * is_bytes}number from {1 if is_bytes else _LEAST:g} to {most:g}"
                raise ConfigError(f"{path}: {DamageError(f'{member}.{name}', str(value), expected)}.")
    steps = [(0.5, tier.read_latency_s.value), *tier.read_latency_s.tail, (1.0, float("inf"))]
    if not all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(steps)):
        raise ConfigError(f"{path}: read_latency_s.tail: expected shares from .5 to below 1, and times that rise.")
    return tier


_UNITS = {
    "read_latency_s": "µs",
    "switch_latency_s": "µs",
    "reads_per_s": "reads/s",
    "granule_bytes": "B",
    "link_bytes_per_s": "B/s",
    "add_bytes_per_s": "B/s",
}


def list_parameters(name: str, tier: Tier) -> list[Parameter]:
    """List every number of a tier with its source; times in microseconds, since they may be far below one."""
    found = []
    for member in Tier.__struct_fields__[1:]:
        quantity, unit = getattr(tier, member), _UNITS.get(member)
        scale = 1e6 if unit == "µs" else 1
        ends = [f"{end * scale:g}" for end in (quantity.low, quantity.high) if end is not None]
        known = [" to ".join(ends)] * bool(ends) + [f"p{share * 100:g} {s * scale:g}" for share, s in quantity.tail]
        note, value = "; ".join((*known, quantity.source)), float(f"{quantity.value * scale:.9g}")
        found.append(Parameter(name=f"{name}: {member}", value=value, unit=unit, source="file", note=note))
    return found
