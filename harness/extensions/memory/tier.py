"""The description of a memory slower than DRAM, from a file shipped here or the user's."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import astuple

from harness.planning.hardware.system import read_hardware
from reference_models.process.errors import ConfigError
from rules.records.codec import DamageError, Record, Share
from rules.records.study import Parameter

TIERS = {name: Path(__file__).with_name(f"{name}.toml") for name in ("nand", "3dxp", "cxl")}
"""Files that are shipped, by name."""


_LEAST, _MOST, _MOST_BYTES = 1e-30, 1e30, 1 << 40
_Number = Annotated[float, Meta(ge=0, le=_MOST)]
"""Products and quotients of a few of them are doubles still."""
MAX_CHANNELS = 64
"""Channels of a device that are simulated; more are as good as these, each as much faster."""


class Deeper(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A read's latency where `depth` reads are kept in flight: its median in seconds, and its tail as in Quantity."""

    depth: Annotated[int, Meta(ge=2, le=1 << 32)]
    value: _Number
    tail: Annotated[tuple[tuple[Share, _Number], ...], Meta(max_length=100)] = ()


class Quantity(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of a tier and where it comes from."""

    value: _Number
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    low: _Number | None = None
    high: _Number | None = None
    """The range in which other devices are."""
    tail: Annotated[tuple[tuple[Share, _Number], ...], Meta(max_length=100)] = ()
    """Rising shares of reads, and within what time they are: of a latency whose median is `value`."""
    deeper: Annotated[tuple[Deeper, ...], Meta(max_length=20)] = ()
    """The latency where more than one read is in flight."""


class Tier(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory below DRAM: what one of its devices does, and the links between devices, switch and host."""

    title: Annotated[str, Meta(max_length=200)]
    read_latency_s: Quantity
    """From a request to its data where nothing waits, without the switch."""
    reads_per_s: Quantity
    """Granules that a device reads a second where it is saturated: its ceiling."""
    granule_bytes: Quantity
    """The smallest read: rows, and sums of rows, are so many bytes rounded up."""
    link_bytes_per_s: Quantity
    """Bandwidth of a device's link."""
    switch_latency_s: Quantity
    """Time that a switch between devices and host adds to every answer; 0, without a range: there is no switch."""
    host_reads_in_flight: Quantity
    """Granules that the thread of a query waits for at once."""
    pool_reads_in_flight: Quantity
    """The same of a device or a switch that adds rows up."""
    add_bytes_per_s: Quantity
    """Bytes of rows that are added up a second, by whoever pools."""
    channels: Quantity | None = None
    """Reads that a device works on at once; None: as many as are in flight at its ceiling where none waits."""
    host_link_bytes_per_s: Quantity | None = None
    """Bandwidth of the link that all devices share to the host; None: a device's, or none without a switch."""

    def granules(self, row_bytes: int) -> int:
        """Return the granules of a row."""
        return -(-row_bytes // int(self.granule_bytes.value))

    @property
    def num_channels(self) -> int:
        """Return how many reads a device works on at once: by Little's law from its ceiling, where none is given."""
        if self.channels is not None:
            return int(self.channels.value)
        return int(min(MAX_CHANNELS, max(1.0, self.reads_per_s.value * self.read_latency_s.value)))

    @property
    def has_switch(self) -> bool:
        """Return whether a switch is between devices and host; drives answer the host without one."""
        return max(self.switch_latency_s.value, self.switch_latency_s.high or 0.0) > 0

    def shared_link(self, pool: str) -> float | None:
        """Return the bytes/s of the link that all devices share to the host; None where each has its own."""
        if self.host_link_bytes_per_s is not None:
            return self.host_link_bytes_per_s.value
        return self.link_bytes_per_s.value if self.has_switch or pool == "switch" else None


def _check_number(place: str, member: str, name: str, value: float | None) -> None:
    """Raise ConfigError for a number that is too small or too large to compute with, or that must be whole."""
    if value is None or (value == 0 and member == "switch_latency_s"):
        return
    most = {"granule_bytes": float(_MOST_BYTES), "channels": float(MAX_CHANNELS)}.get(member, _MOST)
    is_whole = member in ("granule_bytes", "channels")
    if not _LEAST <= value <= most or (is_whole and value % 1):
        expected = f"a {'whole ' * is_whole}number from {1 if is_whole else _LEAST:g} to {most:g}"
        raise ConfigError(f"{place}: {DamageError(f'{member}.{name}', str(value), expected)}.")


def find_tier(name: str) -> Tier:
    """Read a tier by its name or its file. Raises ConfigError, DefinitionError for a file that is no TOML."""
    path, tier = read_hardware("tier", name, TIERS, Tier)
    for member, quantity in _quantities(tier):
        given = {"value": quantity.value, "low": quantity.low, "high": quantity.high}
        given |= {f"tail[{number}][1]": time_s for number, (_, time_s) in enumerate(quantity.tail)}
        for at, (_, value, tail) in enumerate(map(astuple, quantity.deeper)):
            given |= {f"deeper[{at}].value": value}
            given |= {f"deeper[{at}].tail[{number}][1]": time_s for number, (_, time_s) in enumerate(tail)}
        for number_name, number_value in given.items():
            _check_number(str(path), member, number_name, number_value)
        if member != "read_latency_s" and (quantity.tail or quantity.deeper):
            raise ConfigError(f"{path}: {member}: only read_latency_s has a tail, or is given at other depths.")
    for place, value, tail in (
        ("tail", tier.read_latency_s.value, tier.read_latency_s.tail),
        *((f"deeper[{at}].tail", each.value, each.tail) for at, each in enumerate(tier.read_latency_s.deeper)),
    ):
        steps = [(0.5, value), *tail, (1.0, float("inf"))]
        if not all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(steps)):
            raise ConfigError(
                f"{path}: read_latency_s.{place}: expected shares from .5 to below 1, and times that rise."
            )
    depths = [each.depth for each in tier.read_latency_s.deeper]
    if any(before >= after for before, after in pairwise(depths)):
        raise ConfigError(f"{path}: read_latency_s.deeper: expected depths that rise.")
    return tier


def _quantities(tier: Tier) -> list[tuple[str, Quantity]]:
    """List the numbers of a tier that are given, by name."""
    named = ((member, getattr(tier, member)) for member in Tier.__struct_fields__[1:])
    return [(member, quantity) for member, quantity in named if quantity is not None]


_UNITS = {
    "read_latency_s": "µs",
    "switch_latency_s": "µs",
    "reads_per_s": "reads/s",
    "granule_bytes": "B",
    "link_bytes_per_s": "B/s",
    "host_link_bytes_per_s": "B/s",
    "add_bytes_per_s": "B/s",
}


def list_parameters(name: str, tier: Tier) -> list[Parameter]:
    """List every number of a tier with its source; times in microseconds, since they may be far below one."""
    found = []
    for member, quantity in _quantities(tier):
        unit = _UNITS.get(member)
        scale = 1e6 if unit == "µs" else 1
        ends = [f"{end * scale:g}" for end in (quantity.low, quantity.high) if end is not None]
        known = [" to ".join(ends)] * bool(ends) + [f"p{share * 100:g} {s * scale:g}" for share, s in quantity.tail]
        for each in quantity.deeper:
            tail = "".join(f", p{share * 100:g} {s * scale:g}" for share, s in each.tail)
            known.append(f"{each.value * scale:g}{tail} at depth {each.depth}")
        note, value = "; ".join((*known, quantity.source)), float(f"{quantity.value * scale:.9g}")
        found.append(Parameter(name=f"{name}: {member}", value=value, unit=unit, source="file", note=note))
    if tier.channels is None:
        note = "computed: reads_per_s x read_latency_s, reads in flight at the ceiling where none waits"
        found.append(
            Parameter(name=f"{name}: channels", value=tier.num_channels, unit=None, source="file", note=note)
        )
    if tier.host_link_bytes_per_s is None:
        link, per_s = f"{name}: host_link_bytes_per_s", tier.link_bytes_per_s.value if tier.has_switch else None
        note = "a device's: the file gives none" if tier.has_switch else "none is shared: each has its own"
        found.append(Parameter(name=link, value=per_s, unit="B/s", source="file", note=note))
    return found
