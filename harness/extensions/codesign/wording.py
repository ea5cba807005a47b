"""What is said of a PE array's searches: what each found, how far from the optimum, and beside what was published."""

from collections.abc import Sequence

from harness.extensions.codesign.search import DesignOutcomes, Mode, SearchOutcome
from harness.extensions.codesign.trials import Objective, Problem, Trial, find_tiling
from reports.text.formatting import capital, duration, percent, plural

PUBLISHED_GAIN = (1.25, 1.44)
"""How many times as fast as separate design joint one is: HASCO (ISCA 2021), abstract."""
_GAIN, _SAVING = "1.25x-1.44x, other kernels", "18 %, 40 % less, other networks"
"""As they are said; the latter is energy-delay against by hand: Shi et al. (2020), abstract."""
_MODES: tuple[Mode, ...] = ("separate", "joint")
_SHOWN_GAIN = 1.0005
"""What rounds to more than 1.000 times."""


def answer(searched: DesignOutcomes, modes: Sequence[Mode]) -> str:
    """Say in one line which mode found the best design in the first objective, what that saves, and at what price in
    the other."""
    objectives, by_hand, best = searched.problem.objectives, searched.by_hand, searched.best
    first = objectives[0]
    mode = min(modes, key=lambda each: min(trial.values([first]) for trial in best[each]))
    least = min(best[mode], key=lambda trial: trial.values([first]))
    (found,), (before,) = least.values([first]), by_hand.values([first])
    words = duration(found) if first == "latency_s" else f"{found:.3g} J"
    how = {"separate": "hardware first, then tiles", "joint": "hardware and tiles together"}[mode]
    names: dict[Objective, str] = {"latency_s": "time", "energy_j": "energy"}
    others = [
        _say_change(names[each], *least.values([each]), *by_hand.values([each]))
        for each in objectives
        if each != first
    ]
    price = f", with {' and '.join(others)}" if others else ""
    return f"searched {how}, a step takes {words}, {percent(1 - found / before)} less than by hand{price}, modelled"


def say_gain(mode: Mode, searched: DesignOutcomes) -> str:
    """Say what a mode found: the design that is best in the first objective, its gap to the optimum, then that of the
    least energy-delay, and how many points were tried."""
    objectives, by_hand, best = searched.problem.objectives, searched.by_hand, searched.best
    first = find_best(best[mode], objectives)
    took = duration(first.latency_s) if "latency_s" in objectives else f"{first.energy_j:.3g} J"
    parts = [f"a step takes {took} at best", *_say_gap(first, searched)]
    if mode == "joint" and "latency_s" in objectives:
        gain = find_gain(searched)
        than = "no faster than" if gain < _SHOWN_GAIN else f"{gain:.3f} times as fast as"
        parts.append(f"{than} separate (published: {_GAIN})")
    said = ", ".join(parts)
    if "energy_j" in objectives:
        least = min(best[mode], key=lambda trial: trial.energy_delay)
        changes = [_say_change("energy-delay", first.energy_delay, by_hand.energy_delay)]
        if "latency_s" in objectives:
            changes.insert(0, _say_change("energy", first.energy_j, by_hand.energy_j))
        said += f", with {' and '.join(changes)} than by hand"
        if least is not first:
            change = _say_change("energy-delay", least.energy_delay, by_hand.energy_delay)
            said += f". Another, of {duration(least.latency_s)}, has {change} than by hand, the least"
        said += f" (published: {_SAVING})"
    return f"{mode}, modelled: {said}; {_say_tried(mode, searched)}."


def _say_gap(first: Trial, searched: DesignOutcomes) -> list[str]:
    """Say how far the first design is from the optimum, in a list that is empty where none is known."""
    if searched.optimum is None:
        return []
    leading = _leading(searched.problem.objectives)
    (least,), (found,) = (find_best(of, leading).values(leading) for of in (searched.optimum, [first]))
    return ["the optimum" if found <= least else f"{percent(found / least - 1)} above the optimum"]


def _say_tried(mode: Mode, searched: DesignOutcomes) -> str:
    if mode == "separate":
        said = f"hardware: {_count(searched.hardware)}; tiles: {_count(searched.tiles)}"
    else:
        assert searched.joint is not None
        said = _count(searched.joint)
    return said if searched.optimum is not None else f"{said}; how far from the optimum is not known"


def _count(found: SearchOutcome) -> str:
    if found.num_valid is None:
        return f"{plural(found.num_tried, 'valid point')} of {found.num_points:,} tried"
    return f"all {plural(found.num_points, 'point')} tried, {found.num_valid:,} of them valid"


def hold_against_published(searched: DesignOutcomes, modes: Sequence[Mode]) -> str:
    """Hold what was found against what was published, and say what sets the difference."""
    objectives, best, parts = searched.problem.objectives, searched.best, list[str]()
    if "joint" in modes and "latency_s" in objectives:
        gain, (low, high) = find_gain(searched), PUBLISHED_GAIN
        where = "below" if gain < low else "above" if gain > high else "within"
        separate, joint = (_name_array(searched.problem, find_best(best[mode], objectives)) for mode in _MODES)
        tried = "" if searched.optimum is not None else " of what was tried"
        parts.append(
            f"{gain:.3f} times{tried} is {where} the published {low} to {high} (HASCO, ISCA 2021): here each "
            f"product's tiling is searched whole in both modes, and DRAM traffic sets {separate} in separate, "
            f"{joint} in joint"
        )
    if "energy_j" in objectives:
        parts.append(
            "of energy-delay (Shi et al., 2020) only the sign compares: other networks, other designs by hand"
        )
    return f"{capital('; '.join(parts) or 'no published figure is of one objective in one mode')}."


def _name_array(problem: Problem, trial: Trial) -> str:
    """Say how much of a design's latency DRAM traffic sets, and on which array."""
    clock_hz, dram = problem.array.find("clock_hz"), problem.array.find("dram_bytes_per_s")
    moving_s = 0.0
    for nest in problem.nests:
        index, latency_s, _, cycles = find_tiling(nest, trial.point, problem.array, problem.objectives[0])
        moving_s += latency_s if nest.dram_bytes[index] / dram > cycles / clock_hz else 0.0
    rows, columns, size, *_ = trial.point.values()
    return f"{percent(moving_s / trial.latency_s)} of the time ({rows} x {columns} PEs, {size / 1024:g} KiB)"


def find_gain(searched: DesignOutcomes) -> float:
    """Return how many times as fast as separate's the fastest design of joint is."""
    separate, joint = (find_best(searched.best[mode], ["latency_s"]).latency_s for mode in _MODES)
    return separate / joint


def _leading(objectives: Sequence[Objective]) -> list[Objective]:
    """Return the objective that designs are told by: latency where it is one, else energy."""
    return ["latency_s"] if "latency_s" in objectives else ["energy_j"]


def find_best(trials: Sequence[Trial], objectives: Sequence[Objective]) -> Trial:
    """Return the trial that is best in latency where that is an objective, else in energy."""
    return min(trials, key=lambda trial: trial.values(_leading(objectives)))


def _say_change(name: str, found: float, before: float) -> str:
    """Say by what share a value is above or below another: '4.6 % more energy'."""
    change = found / before - 1
    return f"{percent(abs(change))} {'less' if change < 0 else 'more'} {name}"
