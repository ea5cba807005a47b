"""Write the sentences of a codesign study: the designs found, their distance from the optimum, and published
figures."""

from collections.abc import Mapping, Sequence

from harness.extensions.codesign.accelerator import PEArray, find_space
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign, Objective, find_tiling
from harness.extensions.codesign.search import MODE_NAMES, DesignOutcomes, Mode, SearchOutcome
from reports.text.formatting import capital, duration, percent, plural
from rules.benchmarks.loader import shipped_names

PUBLISHED_GAIN = (1.25, 1.44)
"""Lowest and highest speed-up, published in the abstract of HASCO (ISCA 2021), of searching hardware and tiles
together over searching one after the other."""
_GAIN = "published for other kernels: 1.25× to 1.44×"
_SAVING = "published for other networks: 18 % and 40 % below a design by hand"
"""Published figures in words: the speed-up in the paper on HASCO, and the reduction of the energy-delay product from
a hand-made design in Shi et al., 2020."""
_MODES: tuple[Mode, ...] = ("separate", "joint")
_SHOWN_GAIN = 1.0005
"""Smallest speed-up of one design over another that counts as one; less would round to 1.000×."""
OBJECTIVE_NAMES: Mapping[Objective, str] = {"latency_s": "latency", "energy_j": "energy"}


def answer(searched: DesignOutcomes, modes: Sequence[Mode]) -> str:
    """Say in a study's title which design is best in the first objective, by what share its value is below the
    hand-made design's, and how much it changes in the other objective."""
    objectives, by_hand, best = searched.problem.objectives, searched.by_hand, searched.best
    first = objectives[0]
    mode = min(modes, key=lambda each: min(design.values([first]) for design in best[each]))
    least = min(best[mode], key=lambda design: design.values([first]))
    (found,), (before,) = least.values([first]), by_hand.values([first])
    are_best = {"latency_s": "are fastest", "energy_j": "take the least energy"}[first]
    words = duration(found) if first == "latency_s" else f"{found:.3g} J"
    rows, columns, size, *_ = least.point.values()
    names: dict[Objective, str] = {"latency_s": "time", "energy_j": "energy"}
    others = [
        _say_change(names[each], *least.values([each]), *by_hand.values([each]))
        for each in objectives
        if each != first
    ]
    price = f", with {' and '.join(others)}" if others else ""
    return (
        f"{rows} x {columns} PEs with {size / 1024:g} KiB of scratchpad {are_best}: a step takes "
        f"{words}, {percent(1 - found / before)} less than the baseline{price}, modelled"
    )


def say_gain(mode: Mode, searched: DesignOutcomes) -> list[str]:
    """Say what a mode of search found, in one finding or two.

    The first finding is on the best design in the first objective: its latency or energy, its distance from the
    optimum, and the numbers of points tried. For mode `joint` the first finding also compares latency with mode
    `separate`. The second finding exists only if energy is an objective. It compares the same design's energy and
    energy-delay product with the baseline's; if another design has the least energy-delay product, that design is
    named, too.
    """
    objectives, by_hand, best = searched.problem.objectives, searched.by_hand, searched.best
    first, name = find_best(best[mode], objectives), MODE_NAMES[mode]
    is_timed = "latency_s" in objectives
    which = "fastest design" if is_timed else "design of least energy"
    took = duration(first.latency_s) if is_timed else f"{first.energy_j:.3g} J"
    parts = [f"in the {which} found, a step takes {took}{_say_gap(first, searched)}"]
    if mode == "joint" and is_timed:
        gain = find_gain(searched)
        than = "no faster than" if gain < _SHOWN_GAIN else f"{gain:.3f}× as fast as"
        parts.append(f"With '{name}', a step is {than} with '{MODE_NAMES['separate']}' ({_GAIN})")
    head = f"Search '{name}' (modelled):"
    said = [f"{head} {'. '.join(parts)}. {capital(_say_tried(mode, searched))}."]
    if "energy_j" in objectives:
        least = min(best[mode], key=lambda design: design.energy_delay)
        above = f"the energy-delay product is {_say_distance(first.energy_delay, by_hand.energy_delay)}"
        if is_timed:
            above = f"energy is {_say_distance(first.energy_j, by_hand.energy_j)} and {above}"
        of_energy = f"in the {which}, {above} the baseline's"
        if least is not first:
            of_energy += (
                f". The least energy-delay product is {_say_distance(least.energy_delay, by_hand.energy_delay)} the "
            )
            of_energy += f"baseline's, in a design that takes {duration(least.latency_s)} a step"
        said.append(f"{head} {of_energy} ({_SAVING}).")
    return said


def _say_gap(first: ModelledDesign, searched: DesignOutcomes) -> str:
    """Say by what share a design's latency (energy where latency is not minimised) is above the optimum, in a clause;
    empty where no optimum is known."""
    if searched.optimum is None:
        return ""
    leading = _leading(searched.problem.objectives)
    (least,), (found,) = (find_best(of, leading).values(leading) for of in (searched.optimum, [first]))
    above = "" if found <= least else f"{percent(found / least - 1)} above "
    return f"; this is {above}the optimum of the design space"


def _say_tried(mode: Mode, searched: DesignOutcomes) -> str:
    if mode == "separate":
        said = f"hardware: {_count(searched.hardware)}; tiles: {_count(searched.tiles)}"
    else:
        assert searched.joint is not None
        said = _count(searched.joint)
    is_known = searched.optimum is not None
    return said if is_known else f"{said}; the distance of the designs found from the optimum is unknown"


def _count(found: SearchOutcome) -> str:
    if found.num_valid is None:
        return f"{plural(found.num_tried, 'valid point')} tried, of {found.num_points:,}"
    return f"all {plural(found.num_points, 'point')} tried, {found.num_valid:,} valid"


def hold_against_published(searched: DesignOutcomes, modes: Sequence[Mode]) -> list[str]:
    """Compare the designs found with published figures, and say what causes the difference. There is one finding on
    the speed-up and one on the energy-delay product, each only if that objective was searched for."""
    objectives, best, parts = searched.problem.objectives, searched.best, list[str]()
    if "joint" in modes and "latency_s" in objectives:
        gain, (low, high) = find_gain(searched), PUBLISHED_GAIN
        where = "below" if gain < low else "above" if gain > high else "within"
        limits = [
            _say_limited(searched.problem, find_best(best[mode], objectives), MODE_NAMES[mode]) for mode in _MODES
        ]
        tried = "" if searched.optimum is not None else " among points tried"
        parts.append(
            f"The speed-up of 'together' over 'hardware first', {gain:.3f}×{tried}, is {where} the published {low}× "
            f"to {high}× (HASCO, ISCA 2021). DRAM traffic is the limit for {limits[0]}, and for {limits[1]}."
        )
    if "energy_j" in objectives:
        parts.append(
            "The published energy-delay products (Shi et al., 2020) are of other networks, so only the direction of "
            "a change (better or worse) can be compared, not its size."
        )
    return parts or ["No published figure is of a search by 'hardware first' for latency alone."]


def _say_limited(problem: DesignProblem, design: ModelledDesign, search: str) -> str:
    """Say which share of a design's latency is limited by DRAM traffic. The sentence names the search that found the
    design, and the size of the design's PE array and scratchpad."""
    clock_hz, dram = problem.array.find("clock_hz"), problem.array.find("dram_bytes_per_s")
    moving_s = 0.0
    for nest in problem.nests:
        index, latency_s, _, cycles = find_tiling(nest, design.point, problem.array, problem.objectives[0])
        moving_s += latency_s if nest.dram_bytes[index] / dram > cycles / clock_hz else 0.0
    rows, columns, size, *_ = design.point.values()
    array = f"{rows} x {columns} PEs, {size / 1024:g} KiB"
    return f"{percent(moving_s / design.latency_s)} of a step's time in the fastest design of '{search}' ({array})"


def say_next(benchmark: str, array: PEArray, searched: DesignOutcomes, num_trials: int, again: str) -> str:
    """Suggest a command for a further search: where only a part of the design space was tried, `again` (the study's
    command without its number of trials) with more points; else a design space in finer steps or of more values."""
    if searched.optimum is None:
        return f"Next, to try more points: {again} --trials {2 * num_trials}"
    if array.title != find_space("pe_array").title or benchmark not in shipped_names():
        return "Next: search a space of more values, with --space FILE.toml."
    again = f"dlrmbench codesign {benchmark} --space pe_array_fine --by random --trials 200"
    return f"Next, to search the design space in finer steps: {again}"


def find_gain(searched: DesignOutcomes) -> float:
    """Return the speed-up of searching the hardware and its tile sizes together: the latency of the fastest design
    found by searching first one and then the other, divided by the latency of the fastest design found by searching
    both at once."""
    separate, joint = (find_best(searched.best[mode], ["latency_s"]).latency_s for mode in _MODES)
    return separate / joint


def _leading(objectives: Sequence[Objective]) -> list[Objective]:
    """Return the objective by which designs are ranked, as a list of one: latency where a search minimises it, else
    energy."""
    return ["latency_s"] if "latency_s" in objectives else ["energy_j"]


def find_best(designs: Sequence[ModelledDesign], objectives: Sequence[Objective]) -> ModelledDesign:
    """Return the accelerator design of lowest latency where a search minimises latency, else the design of lowest
    energy."""
    return min(designs, key=lambda design: design.values(_leading(objectives)))


def _say_distance(found: float, before: float) -> str:
    """Say by what share a value of a design is above or below that of another design: '4.6 % above'."""
    change = found / before - 1
    return f"{percent(abs(change))} {'below' if change < 0 else 'above'}"


def _say_change(name: str, found: float, before: float) -> str:
    """Say by what share a value of a design is above or below that of another design: '4.6 % more energy'."""
    change = found / before - 1
    return f"{percent(abs(change))} {'less' if change < 0 else 'more'} {name}"
