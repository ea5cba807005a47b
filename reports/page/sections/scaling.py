"""Makes the section on scaling: results over the number of ranks (distributed processes), and over the bytes that
ranks send."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from reports.charts.scaling import SMALL_HEIGHT, scaling_legend, scaling_panel
from reports.charts.xy import Dot, Series, small_drawing, xy_figure
from reports.document.blocks import Block, Cell, Chart, Multiples, Prose, Table, numeric, table_of
from reports.document.page import PageSection
from reports.facts.rank_counts import RankedSet, ranked_set
from reports.facts.traffic import total_bytes
from reports.page.figures.times import MAX_HUES, column_unit
from reports.results.result import Result
from reports.text.formatting import TimeUnit, count, percent, plural, printable, ratio, si, throughput, with_unit

LEARNING_RATE = "train.opt_base_learning_rate"
_MAX_CHARTS = 4
_MAX_LISTED = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingLine:
    """Line of a scaling chart: configurations that differ only in their number of ranks, or also in a global batch
    size that grows in proportion to the ranks."""

    name: str
    sets: tuple[RankedSet, ...]
    shares_threads: bool = False


class _ScalingPoint(NamedTuple):
    """Point of a scaling chart: a configuration, and the line of the chart that the point is on."""

    line: ScalingLine
    ranked: RankedSet

    @property
    def efficiency(self) -> float | None:
        """Return the scaling efficiency: samples/s per rank relative to the configuration with the fewest ranks; 1
        means perfect scaling. If all configurations of the line use the same total number of threads, the ratio is of
        the samples/s of all ranks together. None if a speed is unknown."""
        base, own = self.line.sets[0], self.ranked
        if base.samples_per_s is None or own.samples_per_s is None:
            return None
        per_rank = 1 if self.line.shares_threads else base.num_ranks / own.num_ranks
        return own.samples_per_s / base.samples_per_s * per_rank


_Value = Callable[[_ScalingPoint], float | None]


def scaling_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section on scaling; None where no two configurations differ only in the number of ranks, or only in
    how ranks exchange data."""
    worlds = [world for result in group if (world := ranked_set(result)) is not None]
    unit = column_unit(group)
    blocks: list[Block] = []
    if lines := scaling_lines(worlds)[:MAX_HUES]:
        blocks += _scaling_blocks(lines, unit, f"{id_}-scaling")
    for number, family in enumerate(link_families(worlds)[:_MAX_CHARTS]):
        blocks.append(_link_chart(family, unit, f"{id_}-link{number + 1}"))
    if not blocks:
        return None
    return PageSection(id=f"{id_}-ranks", heading="Over ranks and links", name="Scaling", blocks=tuple(blocks))


def scaling_lines(worlds: Sequence[RankedSet]) -> list[ScalingLine]:
    """Return the lines of the scaling chart, each over at least two numbers of ranks, at equal global (strong
    scaling) or local batch size (weak scaling)."""
    found: list[ScalingLine] = []
    for is_weak, shares_threads in ((False, False), (True, False), (False, True)):
        families: dict[object, list[RankedSet]] = {}
        for world in worlds:
            if world.samples_per_s is not None and not (shares_threads and world.num_threads is None):
                key = _alike(world, is_weak=is_weak), _threads(world, shares_threads=shares_threads)
                families.setdefault(key, []).append(world)
        for family in families.values():
            alone = [world for world in family if world.num_ranks == 1]
            schemes = dict.fromkeys(_exchange_of(world) for world in family if world.num_ranks > 1)
            for scheme in schemes:
                many = [world for world in family if world.num_ranks > 1 and _exchange_of(world) == scheme]
                sets = sorted([*alone, *many], key=lambda ranked: ranked.num_ranks)
                if len({ranked.num_ranks for ranked in sets}) > 1:
                    batch = f"{count(_batch(sets[0], is_weak=is_weak))} per {'rank' if is_weak else 'step'}"
                    words = f"{scheme}, {batch}{_threads_words(sets[0], shares_threads=shares_threads)}"
                    line = ScalingLine(name=printable(words, 120), sets=tuple(sets), shares_threads=shares_threads)
                    found.append(line)
    return found


def _exchange_of(world: RankedSet) -> str:
    """Return the formats in which ranks exchange embeddings and gradients, and the sharding of embedding tables:
    'fp16 / dense, row_wise'."""
    return f"{world.comm} / {world.grad_comm}, {world.sharding}"


def _alike(world: RankedSet, *, is_weak: bool) -> object:
    """Return the settings that must be equal for sets on one line of the scaling chart: hardware, settings and batch
    size. Under weak scaling, the batch size is that of a rank, and learning rates may differ."""
    others = tuple(pair for pair in world.others if not (is_weak and pair[0] == LEARNING_RATE))
    return others, _batch(world, is_weak=is_weak)


def _threads(world: RankedSet, *, shares_threads: bool) -> int | None:
    return world.num_threads * world.num_ranks if shares_threads and world.num_threads else world.num_threads


def _threads_words(world: RankedSet, *, shares_threads: bool) -> str:
    number = _threads(world, shares_threads=shares_threads)
    return f", {plural(number, 'thread')} {'in all' if shares_threads else 'per rank'}" if number else ""


def _batch(world: RankedSet, *, is_weak: bool) -> float | None:
    return world.local_batch_size if is_weak else world.global_batch_size


def _scaling_blocks(lines: Sequence[ScalingLine], unit: TimeUnit, id_: str) -> list[Block]:
    places = tuple(sorted({float(ranked.num_ranks) for line in lines for ranked in line.sets}))
    quantities: tuple[tuple[str, _Value, Callable[[float], str]], ...] = (
        ("Samples/s", lambda point: point.ranked.samples_per_s, si),
        ("Efficiency", lambda point: point.efficiency, lambda value: percent(value, 0)),
        (f"Time to train, {unit.name}", lambda point: unit.of(point.ranked.time_to_train_s), "{:g}".format),
        ("Samples to converge", lambda point: point.ranked.samples_to_converge, si),
    )
    drawings: list[Markup] = []
    for number, (name, value, words) in enumerate(quantities):
        series = [_series(line, hue, value, f"{name}: ", words) for hue, line in enumerate(lines)]
        if drawn := [entry for entry in series if entry.dots]:
            about = f"{name} over the number of ranks, one line per configuration."
            panel = scaling_panel(
                drawn,
                ("ranks", count),
                (name, words),
                places=places,
                height=SMALL_HEIGHT,
                target=1.0 if name == "Efficiency" else None,
            )
            drawings.append(small_drawing(panel, id_=f"{id_}{number}", title=name, description=about))
    if len(lines) > 1:
        names = [Series(name=line.name, hue=hue, dots=()) for hue, line in enumerate(lines)]
        drawings.append(scaling_legend(names, id_=f"{id_}-lines"))
    return [
        Prose(text=_scaling_lead(lines)),
        Multiples(drawings=tuple(drawings)),
        _scaling_table(lines, unit, f"{id_}-table"),
    ]


def _series(line: ScalingLine, hue: int, value: _Value, what: str, words: Callable[[float], str]) -> Series:
    dots = tuple(
        Dot(x=ranked.num_ranks, y=at, hint=f"{ranked.result.label}: {what}{words(at)}")
        for ranked in line.sets
        if (at := value(_ScalingPoint(line, ranked))) is not None
    )
    return Series(name=line.name, hue=hue, dots=dots)


def _scaling_lead(lines: Sequence[ScalingLine]) -> str:
    line = lines[0]
    last = line.sets[-1]
    text = f"{percent(_ScalingPoint(line, last).efficiency, 0)} efficiency on {plural(last.num_ranks, 'rank')}"
    several = f" This efficiency is that of the first of {len(lines)} lines." if len(lines) > 1 else ""
    return (
        f"{text}: samples/s{' of the same threads' if line.shares_threads else ' per rank'}, over those of the "
        f"smallest world ({plural(line.sets[0].num_ranks, 'rank')}).{several} All values are measured: geometric "
        "means over the runs that reached the target. A line is named by what its configurations have in common: the "
        "exchange of embeddings and gradients, the sharding, the batch and, on CPUs, the threads."
    )


def _scaling_table(lines: Sequence[ScalingLine], unit: TimeUnit, id_: str) -> Table:
    efficiency = numeric("Efficiency", "per rank or of the same threads, over the smallest world")
    return table_of(
        [_ScalingPoint(line, ranked) for line in lines for ranked in line.sets],
        (
            ("Configuration", lambda point: Cell(text=point.ranked.result.label, sub=point.line.name)),
            (numeric("Ranks"), "ranked.num_ranks", count),
            (numeric("Global batch", "samples"), "ranked.global_batch_size", count),
            (numeric("Samples/s", "all ranks"), "ranked.samples_per_s", throughput),
            (efficiency, "efficiency", percent),
            (numeric("Time to train", unit.name), "ranked.time_to_train_s", unit.number),
            (numeric("Samples to converge"), "ranked.samples_to_converge", count),
            (numeric("Runs", "converged"), "ranked.result.num_converged", count),
        ),
        id_=id_,
        caption="The numbers of these drawings: geometric means over the runs that reached the target",
    )


def link_families(worlds: Sequence[RankedSet]) -> list[tuple[RankedSet, ...]]:
    """Return groups of sets on several ranks that differ only in the formats of the exchange between ranks and in the
    bandwidth of the link between ranks."""
    families: dict[object, list[RankedSet]] = {}
    for world in worlds:
        if world.num_ranks > 1 and world.bandwidth_bytes_per_s is not None and world.time_to_train_s is not None:
            key = (world.others, world.num_ranks, world.num_threads, world.sharding, world.global_batch_size)
            families.setdefault(key, []).append(world)
    return [tuple(family) for family in families.values() if len({ranked.scheme for ranked in family}) > 1]


def _link_chart(family: Sequence[RankedSet], unit: TimeUnit, id_: str) -> Chart:
    schemes = [*dict.fromkeys(ranked.scheme for ranked in family)]
    series = []
    for number, scheme in enumerate(schemes):
        sets = sorted(
            (ranked for ranked in family if ranked.scheme == scheme),
            key=lambda ranked: ranked.bandwidth_bytes_per_s or 0.0,
        )
        dots = tuple(
            Dot(
                x=ranked.bandwidth_bytes_per_s or 0.0,
                y=(ranked.time_to_train_s or 0.0) / unit.seconds,
                hint=f"{ranked.result.label}: {unit.text(ranked.time_to_train_s)} "
                f"at {_speed(ranked.bandwidth_bytes_per_s or 0.0)}",
            )
            for ranked in sets
        )
        series.append(Series(name=printable(scheme, 80), hue=number % MAX_HUES, dots=dots))
    first = family[0]
    lead = (
        f"{plural(first.num_ranks, 'rank')}, sharding {printable(first.sharding, 40)}. {_cost_words(family)} "
        "The link is measured after each run, between rank 0 and the last rank."
    )
    title = "Time to train by exchange over link speed"
    panel = scaling_panel(
        series,
        ("bytes per second between rank 0 and the last, measured", _speed),
        (f"time to train, {unit.name}", "{:g}".format),
    )
    figure = xy_figure(panel, id_=id_, title=title, description=f"One dot per configuration. {lead}")
    return Chart(figure=figure, heading=title, lead=lead, table=_link_table(family, unit, f"{id_}-table"))


def _speed(value: float) -> str:
    return with_unit(si(value), "B/s")


def _whole_exchange(family: Sequence[RankedSet]) -> RankedSet | None:
    """Return the only set whose ranks exchange everything in full precision; None where there is none, or more than
    one."""
    whole = [ranked for ranked in family if (ranked.comm, ranked.grad_comm) == ("fp32", "dense")]
    return whole[0] if len(whole) == 1 else None


def _cost_words(family: Sequence[RankedSet]) -> str:
    """Return a sentence that compares configurations whose ranks exchange data in different formats. It gives bytes,
    time and samples to the target, as ratios to the configuration that exchanges everything in full precision. If
    there are many configurations, only the first few are named."""
    base = _whole_exchange(family)
    if base is None:
        return "Ratios need exactly one configuration that exchanges all in fp32 and dense."
    texts = [
        f"{printable(ranked.scheme, 80)}: {_ratio(_bytes(ranked), _bytes(base))} the bytes, "
        f"{_ratio(ranked.time_to_train_s, base.time_to_train_s)} the time, "
        f"{_ratio(ranked.samples_to_converge, base.samples_to_converge)} the samples to the target"
        for ranked in family
        if ranked is not base
    ]
    more = f"; {len(texts) - _MAX_LISTED} more in the table" if len(texts) > _MAX_LISTED else ""
    return (
        f"Relative to fp32 and dense: {'; '.join(texts[:_MAX_LISTED])}{more}. "
        "The comparison tells whether times differ beyond chance."
    )


def _bytes(ranked: RankedSet) -> int:
    return total_bytes(ranked.traffic[0].bytes_per_step)


def _ratio(value: float | None, of_base: float | None) -> str:
    return ratio(value / of_base if value and of_base else None)


def _link_table(family: Sequence[RankedSet], unit: TimeUnit, id_: str) -> Table:
    """Return the table of formats of exchange between ranks. If exactly one set exchanges everything in full
    precision, the others also have their ratio to it."""
    against, base = "over fp32 and dense", _whole_exchange(family)
    base_s, base_samples = (base.time_to_train_s, base.samples_to_converge) if base else (None, None)
    return table_of(
        family,
        (
            ("Configuration", lambda ranked: Cell(text=ranked.result.label, sub=printable(ranked.scheme, 80))),
            (numeric("Link", "measured"), "bandwidth_bytes_per_s", _speed),
            (numeric("Bytes per step", "all ranks; counted"), _bytes, count),
            (numeric("Samples/s"), "samples_per_s", throughput),
            (numeric("Time to train", unit.name), "time_to_train_s", unit.number),
            (numeric("Time ratio", against), "time_to_train_s", lambda value_s: _ratio(value_s, base_s)),
            (numeric("Samples to converge"), "samples_to_converge", count),
            (numeric("Samples ratio", against), "samples_to_converge", lambda value: _ratio(value, base_samples)),
        ),
        id_=id_,
        caption="Geometric means over the runs that reached the target; the comparison tells whether they differ",
        is_sortable=True,
    )
