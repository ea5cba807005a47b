"""The description of a memory slower than DRAM, from a file shipped here or the user's."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.process.errors import ConfigError, did_you_mean
from rules.benchmarks.toml_file import read_toml
from rules.records.codec import Amount, DamageError, PositiveAmount, Record, Share, convert
from rules.records.study import Parameter

TIERS = ("nand", "3dxp", "cxl")
"""Files that are shipped, by name."""
_FOLDER = Path(__file__).parent


class Quantity(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of a tier and where it comes from."""

    value: Amount
    source: Annotated[str, Meta(min_length=1, max_length=500)]
    low: Amount | None = None
    high: Amount | None = None
    """The range in which other devices are."""
    tail: tuple[tuple[Share, PositiveAmount], ...] = ()
    """Of a latency whose median is `value`: rising shares of reads, and within what time they are."""


class PositiveQuantity(Quantity, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number above 0."""

    value: PositiveAmount


class Tier(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory below DRAM: what one of its devices does, and the links between devices, switch and host."""

    title: Annotated[str, Meta(max_length=200)]
    read_latency_s: PositiveQuantity
    """From a request to its data where nothing waits, without the switch."""
    reads_per_s: PositiveQuantity
    """Granules that a device reads a second."""
    granule_bytes: PositiveQuantity
    """The smallest read: rows, and sums of rows, are so many bytes rounded up."""
    link_bytes_per_s: PositiveQuantity
    """Of the link of a device, and of the host's."""
    switch_latency_s: Quantity
    """What a switch between devices and host adds to every answer that passes it."""
    host_reads_in_flight: PositiveQuantity
    """Granules that the thread of a query waits for at once."""
    pool_reads_in_flight: PositiveQuantity
    """The same of a device or a switch that adds rows up."""
    add_bytes_per_s: PositiveQuantity
    """Bytes of rows that are added up a second, by whoever pools."""

    def granules(self, row_bytes: int) -> int:
        """Return the granules of a row."""
        return -(-row_bytes // int(self.granule_bytes.value))

    def slowest_s(self, num_reads: NDArray[np.int64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the latency of the slowest of so many reads, of uniform numbers; the last known share's at most."""
        shares = np.array([0.5, *(share for share, _ in self.read_latency_s.tail)])
        times = np.array([self.read_latency_s.value, *(time for _, time in self.read_latency_s.tail)])
        share = drawn ** (1 / np.maximum(num_reads, 1))
        return np.where(num_reads > 0, np.interp(-np.log1p(-share), -np.log1p(-shares), times), 0.0)


def find_tier(name: str) -> Tier:
    """Read a tier by its name or its file. Raises ConfigError, DefinitionError for a file that is no TOML."""
    if name not in TIERS and not name.endswith(".toml"):
        raise ConfigError(f"--tier {name}: no such tier, nor a FILE.toml.{did_you_mean(name, [*TIERS])}")
    path = _FOLDER / f"{name}.toml" if name in TIERS else Path(name)
    try:
        tier = convert(read_toml(path), Tier)
        for member in Tier.__struct_fields__[1:]:
            value = getattr(tier, member).value
            if not math.isfinite(value) or (member == "granule_bytes" and value % 1):
                raise DamageError(f"{member}.value", str(value), "a finite number, of bytes a whole one")
    except DamageError as error:
        raise ConfigError(f"{path}: {error}.") from None
    steps = [(0.5, tier.read_latency_s.value), *tier.read_latency_s.tail, (1.0, float("inf"))]
    if not all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(steps)):
        raise ConfigError(f"{path}: read_latency_s.tail: expected shares from .5 to below 1, and times that rise.")
    return tier


_UNITS = {"read_latency_s": "s", "switch_latency_s": "s", "reads_per_s": "reads/s", "granule_bytes": "B",
          "link_bytes_per_s": "B/s", "add_bytes_per_s": "B/s"}  # fmt: skip


def list_parameters(name: str, tier: Tier) -> list[Parameter]:
    """List every number of a tier with its source."""

    def describe(member: str) -> Parameter:
        quantity: Any = getattr(tier, member)
        ends = [
            f"{word} {end:g}" for word, end in (("low", quantity.low), ("high", quantity.high)) if end is not None
        ]
        ends += [f"p{share * 100:g} {time:g}" for share, time in quantity.tail]
        note = "; ".join((*ends, quantity.source))
        return Parameter(
            name=f"{name}: {member}", value=quantity.value, unit=_UNITS.get(member), source="file", note=note
        )

    return [describe(member) for member in Tier.__struct_fields__ if member != "title"]
