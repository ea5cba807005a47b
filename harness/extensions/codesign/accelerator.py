"""Model an accelerator with an array of processing elements (PEs), given by a file: cycles, time and energy of loop
nests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from msgspec.structs import asdict
from numpy.typing import NDArray

from harness.planning.hardware.system import ModelledSystem, SystemNumber, read_hardware
from reference_models.costs import FLOAT_BYTES, ID_BYTES, Step
from reference_models.process.errors import ConfigError
from rules.records.codec import Record

SPACES = {name: Path(__file__).with_name(f"{name}.toml") for name in ("pe_array", "pe_array_fine")}
"""Paths of the shipped files that describe a PE array and its design space, by name."""
ORDERS = tuple("".join(order) for order in permutations("mkn"))
HARDWARE = ("rows", "columns", "scratchpad_bytes")
"""Names of a design space's parameters ("choices") that describe the hardware."""
TILE = ("tile_m", "tile_k", "tile_n")
"""Names of a design space's parameters ("choices") that give the largest sides of a tile in the dimensions m, k and
n."""
LOOKUPS = "lookups"
_PRODUCT = (("mk", FLOAT_BYTES), ("kn", FLOAT_BYTES), ("mn", FLOAT_BYTES))
_SUMS = (("mk", ID_BYTES), ("mkn", FLOAT_BYTES), ("mn", FLOAT_BYTES))
Values = Annotated[tuple[Annotated[int, Meta(ge=1, le=1 << 40)], ...], Meta(min_length=1, max_length=100)]
Sizes = Annotated[tuple[Annotated[int, Meta(ge=64, le=1 << 40)], ...], Meta(min_length=1, max_length=100)]
DesignPoint = Mapping[str, int]
"""Point of a design space: one value of each parameter (PE rows, columns, scratchpad, tile sides), by the parameter's
name."""
Floats = NDArray[np.float64]


class ArrayNumber(SystemNumber, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number in the file that describes a PE array (array of processing elements), with the number's source. For
    the scratchpad's energy per byte, `size` is the size in bytes of the scratchpad to which the number applies."""

    of: Literal[  # type: ignore[assignment]
        "clock_hz",
        "dram_bytes_per_s",
        "mac_j",
        "dram_j_per_byte",
        "scratchpad_j_per_byte",
        "pe_mm2",
        "scratchpad_mm2_per_byte",
        "area_mm2",
    ]


class Space(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Design space of an accelerator: the possible values of each parameter. Parameters describe the hardware and the
    largest tile. The first value of each belongs to the hand-made design, the baseline."""

    rows: Values
    columns: Values
    scratchpad_bytes: Sizes
    tile_m: Values
    tile_k: Values
    tile_n: Values


class PEArray(ModelledSystem, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An accelerator that consists of processing elements (PEs, one multiply-add a cycle each), a scratchpad and
    DRAM: its numbers with sources, and its design space."""

    numbers: Annotated[tuple[ArrayNumber, ...], Meta(max_length=1000)]
    space: Space

    def find_excess(self, point: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Return three numbers that say how a design point exceeds the array's limits: the excess of area as a share
        of the area limit, the excess of the largest tile's memory as a share of the scratchpad's size, and the number
        of sides of the largest tile that are not multiples of the PE array's sides.

        The point is valid if all three numbers are at most 0; the first two are negative below the limits. Members of
        `point` are numbers, or arrays that broadcast.
        """
        size, (m, k, n) = point["scratchpad_bytes"], (point[name] for name in TILE)
        area = point["rows"] * point["columns"] * self.find("pe_mm2") + size * self.find("scratchpad_mm2_per_byte")
        num_odd = 0 + (m % point["rows"] > 0) + (n % point["columns"] > 0)
        return area / self.find("area_mm2") - 1, 2 * FLOAT_BYTES * (m * k + k * n + m * n) / size - 1, num_odd

    def are_valid(self, points: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return whether each of the design points is valid [points]. Members of `points` are arrays of floats:
        products of whole numbers could exceed 2**63."""
        area, scratchpad, num_odd = self.find_excess(points)
        valid: NDArray[np.bool_] = (area <= 0) & (scratchpad <= 0) & (num_odd <= 0)
        return valid

    def find_violations(self, point: DesignPoint) -> tuple[float, float, float]:
        """Return three numbers that say how a design point exceeds the array's limits: the excess of area as a share
        of the area limit, the excess of the largest tile's memory as a share of the scratchpad's size, and the number
        of sides of the largest tile that are not multiples of the PE array's sides. A number is 0 if its limit is
        kept."""
        area, scratchpad, num_odd = self.find_excess(point)
        return max(0.0, area), max(0.0, scratchpad), float(num_odd)


def find_space(name: str) -> PEArray:
    """Read the description of a PE array and its design space by name or file. Raises ConfigError; DefinitionError
    for a file that is no TOML."""
    path, array = read_hardware("space", name, SPACES, PEArray)
    numbers = {"numbers": [(each.of, each.size) for each in array.numbers]}
    for member, given in (numbers | asdict(array.space)).items():
        if len({*given}) < len(given):
            raise ConfigError(f"{path}: {member}: a value is given twice. Leave it out.")
    if any(over := array.find_violations({member: values[0] for member, values in asdict(array.space).items()})):
        raise ConfigError(
            f"{path}: space: the first values are no valid design by hand: {100 * over[0]:.0f} % beyond area_mm2, "
            f"a tile {100 * over[1]:.0f} % beyond scratchpad_bytes, {over[2]:.0f} of tile_m and tile_n no multiples "
            "of rows and columns."
        )
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Loop nest of a training step with all its tilings; the step does it `num` times. It is a product [m, k] x [k,
    n], or a pooling of k looked-up rows of n values into each of m sums.

    A tiling cuts the loop nest into equal tiles, whose sides divide the extents m, k and n. Each tiling has the loop
    order with the least DRAM traffic.
    """

    name: str
    extents: tuple[int, int, int]
    operands: tuple[tuple[str, int], ...]
    """Tensors of the loop nest, the result last: for each, the loops (letters of m, k, n) that index it, and the
    bytes of an element."""
    num: int
    tiles: Floats
    """Extents of each tiling's tile in m, k and n [3, tilings]."""
    orders: NDArray[np.int64]
    """Loop order of each tiling, as an index of `ORDERS` [tilings]: loops over tiles, the outermost first."""
    dram_bytes: Floats


def list_nests(step: Step, most: Sequence[int]) -> list[Nest]:
    """List the matrix products of a training step and the lookups of its forward pass as loop nests, with their
    tilings into tiles whose sides are at most `most`."""
    given = [(f"{each.layer}, {each.phase}", (each.m, each.k, each.n), _PRODUCT, each.num) for each in step.matmuls()]
    if (read := step.lookups) is not None:
        pooled, num_longer = divmod(read.num, read.num_sums)
        sums = ((read.num_sums - num_longer, pooled), (num_longer, pooled + 1))  # whole poolings, as even as possible
        given += [(LOOKUPS, (num, rows, read.dim), _SUMS, 1) for num, rows in sums if num * rows]
    nests = list[Nest]()
    for name, extents, operands, num in given:
        ends = [range(1, min(pair) + 1) for pair in zip(extents, most, strict=True)]
        sides = [[side for side in end if extent % side == 0] for extent, end in zip(extents, ends, strict=True)]
        tiles = np.array([*product(*sides)], dtype=float).T
        moved = num * np.array([_count_traffic(extents, operands, tiles, order) for order in ORDERS])
        nests.append(Nest(name, extents, operands, num, tiles, moved.argmin(axis=0), moved.min(axis=0)))
    return nests


def _volume(loops: str, sides: Floats) -> Floats:
    volume: Floats = np.multiply.reduce([sides["mkn".index(loop)] for loop in loops], axis=0, initial=1.0)
    return volume


def _count_traffic(extents: Sequence[int], operands: Sequence[tuple[str, int]], tiles: Floats, order: str) -> Floats:
    """Count the DRAM bytes that each tiling of a loop nest moves [tilings]. A tensor's tile stays on the chip from
    one step of a loop to the next if the loop's index is none of the tensor's."""
    trips, moved = np.array(extents)[:, None] / tiles, np.zeros(tiles.shape[1])
    for place, (loops, width) in enumerate(operands, 1):
        num_moved, is_inside = np.ones(tiles.shape[1]), np.zeros(tiles.shape[1], dtype=bool)
        for loop in reversed(order):
            is_inside |= (loop in loops) & (trips["mkn".index(loop)] > 1)
            num_moved *= np.where(is_inside, trips["mkn".index(loop)], 1)
        if place == len(operands):  # written each time, and read each time but a tile's first
            num_moved = 2 * num_moved - _volume(loops, trips)
        moved += width * num_moved * _volume(loops, tiles)
    return moved


def model_nest(nest: Nest, point: DesignPoint, array: PEArray) -> tuple[Floats, Floats, Floats]:
    """Return the cycles, seconds and joules of a loop nest in each of its tilings [tilings]. If a tile does not fit
    the scratchpad or exceeds the largest tile, seconds and joules are infinite; cycles stay finite.

    Cycles: the dataflow is output stationary, so each PE keeps its result. A tile is computed in folds of the PE
    array's size; a fold takes 2 rows + columns + k - 2 cycles (SCALE-Sim, Samajdar et al., ISPASS 2020).

    Seconds: computing and DRAM traffic overlap, and the longer of the two counts. The scratchpad therefore holds two
    tiles of each tensor: the present one and the next one.

    Joules: all DRAM traffic passes the scratchpad. The scratchpad is also read for each fold, and read and written
    for each result. An addition takes as much energy as a multiply-add.
    """
    tiles, rows, columns = nest.tiles, point["rows"], point["columns"]
    folds = np.ceil(tiles / np.array([[rows], [np.inf], [columns]]))
    num_tiles = nest.num * _volume("mkn", np.array(nest.extents)[:, None] / tiles)
    cycles = num_tiles * folds[0] * folds[2] * (2 * rows + columns + tiles[1] - 2)
    held, passed = np.zeros_like(cycles), nest.dram_bytes.copy()
    for place, (loops, width) in enumerate(nest.operands, 1):
        num_passes = (1 + (place == len(nest.operands))) * _volume("".join({*"mn"} - {*loops}), folds)
        passed += num_tiles * num_passes * width * _volume(loops, tiles)
        held += 2 * width * _volume(loops, tiles)
    is_fit = (tiles <= np.array([[point[f"tile_{loop}"]] for loop in "mkn"])).all(axis=0)
    is_fit &= held <= point["scratchpad_bytes"]
    seconds = np.maximum(cycles / array.find("clock_hz"), nest.dram_bytes / array.find("dram_bytes_per_s"))
    joules = num_tiles * _volume("mkn", tiles) * array.find("mac_j")
    joules += passed * array.find("scratchpad_j_per_byte", point["scratchpad_bytes"])
    joules += nest.dram_bytes * array.find("dram_j_per_byte")
    return cycles, np.where(is_fit, seconds, np.inf), np.where(is_fit, joules, np.inf)
