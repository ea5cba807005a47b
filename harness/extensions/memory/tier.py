"""Describe a memory slower than DRAM by numbers with sources, read from a shipped file or the user's."""

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
"""Paths of the shipped files that describe a memory, by the memory's name."""

_LEAST, _MOST, _MOST_BYTES = 1e-30, 1e30, 1 << 40
_Number = Annotated[float, Meta(ge=0, le=_MOST)]
"""Number in a file that describes a memory, so limited that products and quotients of a few of these numbers stay
finite."""
MAX_CHANNELS = 64
"""Maximum number of channels (reads at once) of a simulated memory device; a device with more is simulated with this
many, each faster in proportion."""


class Deeper(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latency of a read while `depth` reads are in flight: the median in seconds, and the tail in the form of
    `TierQuantity.tail`."""

    depth: Annotated[int, Meta(ge=2, le=1 << 32)]
    value: _Number
    tail: Annotated[tuple[tuple[Share, _Number], ...], Meta(max_length=100)] = ()


class TierQuantity(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number that describes a memory, with its source and, where known, its lowest and highest value among
    comparable devices."""

    value: _Number
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    low: _Number | None = None
    high: _Number | None = None
    """Highest value of this number of a memory (a latency, say) among comparable devices; `low` is the lowest."""
    tail: Annotated[tuple[tuple[Share, _Number], ...], Meta(max_length=100)] = ()
    """Tail of a latency whose median is `value`, as rising pairs (share of reads, seconds within which they end)."""
    deeper: Annotated[tuple[Deeper, ...], Meta(max_length=20)] = ()
    """Latencies of a read at queue depths (reads in flight) greater than 1, by rising depth."""


class Tier(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory below DRAM: the performance of one device, and the links between devices, switch and host."""

    title: Annotated[str, Meta(max_length=200)]
    read_latency_s: TierQuantity
    """Latency of a read from request to data in an idle device, in seconds, without the switch."""
    reads_per_s: TierQuantity
    """Highest rate of reads of a saturated device, in reads of its smallest size (granules) per second."""
    granule_bytes: TierQuantity
    """Bytes of the smallest read (granule); embedding rows and their sums are rounded up to multiples of it."""
    link_bytes_per_s: TierQuantity
    """Bandwidth of one device's link, in bytes per second."""
    switch_latency_s: TierQuantity
    """Latency that a switch between devices and host adds to an answer, in seconds. It is 0, with no range, where
    there is no switch."""
    host_reads_in_flight: TierQuantity
    """Reads that one query's thread on the host has in flight at once."""
    pool_reads_in_flight: TierQuantity
    """Reads that a device or the switch can have in flight at the same time if it adds embedding rows up."""
    add_bytes_per_s: TierQuantity
    """Bytes of embedding rows that the host, a device or the switch adds up per second."""
    channels: TierQuantity | None = None
    """Number of reads that a memory device works on at the same time. If None, it is computed by Little's law as
    reads_per_s x read_latency_s, with a maximum of MAX_CHANNELS."""
    host_link_bytes_per_s: TierQuantity | None = None
    """Bandwidth of the link that all devices share to the host, in bytes per second. If None, devices behind a switch
    share a link of one device's bandwidth, and other devices share none."""

    def granules(self, row_bytes: int) -> int:
        """Return the number of smallest reads (granules) that an embedding row of `row_bytes` bytes takes."""
        return -(-row_bytes // int(self.granule_bytes.value))

    @property
    def num_channels(self) -> int:
        """Return the number of reads that a device works on at once. Where the memory's file does not give this
        number, it follows by Little's law from the device's highest reads per second and its latency."""
        if self.channels is not None:
            return int(self.channels.value)
        return int(min(MAX_CHANNELS, max(1.0, self.reads_per_s.value * self.read_latency_s.value)))

    @property
    def has_switch(self) -> bool:
        """Return whether there is a switch between memory devices and host; without one each drive answers the host
        directly."""
        return max(self.switch_latency_s.value, self.switch_latency_s.high or 0.0) > 0

    def shared_link(self, pool: str) -> float | None:
        """Return the bytes/s of the link that all memory devices share to the host; None where each has a link of its
        own."""
        if self.host_link_bytes_per_s is not None:
            return self.host_link_bytes_per_s.value
        return self.link_bytes_per_s.value if self.has_switch or pool == "switch" else None


def _check_number(place: str, member: str, name: str, value: float | None) -> None:
    """Raise ConfigError if a number that describes a memory is too small or too large to compute with, or if it is
    not whole where it must be."""
    if value is None or (value == 0 and member == "switch_latency_s"):
        return
    most = {"granule_bytes": float(_MOST_BYTES), "channels": float(MAX_CHANNELS)}.get(member, _MOST)
    is_whole = member in ("granule_bytes", "channels")
    if not _LEAST <= value <= most or (is_whole and value % 1):
        expected = f"a {'whole ' * is_whole}number from {1 if is_whole else _LEAST:g} to {most:g}"
        raise ConfigError(f"{place}: {DamageError(f'{member}.{name}', str(value), expected)}.")


def find_tier(name: str) -> Tier:
    """Read the description of a memory by its name or file. Raises ConfigError; DefinitionError for a file that is no
    TOML."""
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


def _quantities(tier: Tier) -> list[tuple[str, TierQuantity]]:
    """List the numbers that a memory's file gives, each with its name."""
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
    """List every number that describes a memory as a parameter of a study, with the number's source. Latencies are in
    microseconds."""
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
        note = "as a device's link: the file gives none" if tier.has_switch else "devices share no link"
        found.append(Parameter(name=link, value=per_s, unit="B/s", source="file", note=note))
    return found
