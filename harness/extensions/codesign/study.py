"""Make the study of a PE array: searches of its design, the best design's tilings, and the numerical error of matrix
products computed in tiles."""

from collections.abc import Sequence
from itertools import product
from math import prod

from msgspec.structs import asdict

from harness.config.run_config import RunConfig
from harness.extensions.codesign.accelerator import LOOKUPS, ORDERS, TILE, DesignPoint, PEArray, list_nests
from harness.extensions.codesign.compared import compare_methods, refuse_num_trials, say_compared, table_compared
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign, Objective, find_tiling
from harness.extensions.codesign.sampling import MOST_BY_GP, Method
from harness.extensions.codesign.search import MODE_NAMES, Mode, search_all
from harness.extensions.codesign.shown import BY_HAND
from harness.extensions.codesign.wording import (
    OBJECTIVE_NAMES,
    answer,
    hold_against_published,
    say_gain,
    say_next,
)
from harness.foundation.study import Columns, make_study, make_table
from reference_models.process.errors import ConfigError
from rules.records.study import Cell, Parameter, StudyCheck, StudyRecord

TOLERANCE = 1e-5
_MAX_MACS = 1 << 31
"""Maximum number of multiply-adds of a matrix product that is executed to check its tiling."""
_MAX_BLOCKS = 1 << 15
"""Maximum number of blocks of a matrix product that is executed to check its tiling."""
_REMARKS = (
    "The cost model counts the matrix products of a training step and the lookups of its forward pass, and assumes "
    "that they run one after another. Each matrix product has the tiling and the loop order of least {objective}, "
    "among tilings no larger than the design's largest tile. The cost model leaves out leakage and all work other "
    "than matrix products and lookups.",
    "The search 'hardware first' chooses hardware for the baseline's tile, then the tile for this hardware. The "
    "search 'together' chooses hardware and tile at once. Both searches try all tilings of each matrix product. A "
    "design space is searched whole where that takes about a minute, else in part.",
)
_ERROR = "largest error of a matrix product computed block by block, as a share of its largest value"
_DESIGNS: Columns = (
    ("Mode", None, "given"),
    ("PEs", None, "computed"),
    ("Scratchpad", "B", "computed"),
    ("Area used", "share", "modelled"),
    ("Largest tile", None, "computed"),
    ("Latency", "s", "modelled"),
    ("Energy", "J", "modelled"),
    ("Energy-delay", "J s", "modelled"),
)
_TILINGS: Columns = (
    ("Product", None, "given"),
    ("m x k x n", None, "given"),
    ("Tile", None, "computed"),
    ("Loops", None, "computed"),
    ("Cycles", None, "modelled"),
    ("DRAM traffic", "B", "modelled"),
    ("Latency", "s", "modelled"),
    ("Error in blocks", None, "measured"),
)


def execute_tiling(extents: Sequence[int], tile: Sequence[int], order: str) -> float:
    """Return the largest error of a matrix product computed in blocks, in torch and fp64, as a share of its largest
    value."""
    import torch

    generator, (m, k, n) = torch.Generator().manual_seed(0), extents
    left, right = (torch.randn(*each, generator=generator, dtype=torch.float64) for each in ((m, k), (k, n)))
    whole = left @ right
    made = torch.zeros_like(whole)
    ends, sizes = (dict(zip("mkn", each, strict=True)) for each in (extents, tile))
    for starts in product(*(range(0, ends[loop], sizes[loop]) for loop in order)):
        at = {loop: slice(start, start + sizes[loop]) for loop, start in zip(order, starts, strict=True)}
        made[at["m"], at["n"]] += left[at["m"], at["k"]] @ right[at["k"], at["n"]]
    return float((made - whole).abs().max() / whole.abs().max())


_UNITS = {
    "clock_hz": "Hz",
    "dram_bytes_per_s": "B/s",
    "mac_j": "J",
    "dram_j_per_byte": "J/B",
    "scratchpad_j_per_byte": "J/B",
}
"""Units of the numbers in the file of a PE array, by the number's name; names without an entry here state their unit
themselves, such as area_mm2."""


def space_study(
    config: RunConfig,
    array: PEArray,
    modes: Sequence[Mode],
    objectives: Sequence[Objective],
    num_trials: int,
    seed: int,
    methods: Sequence[Method] = (),
    num_seeds: int = 10,
    again: str = "dlrmbench codesign",
) -> StudyRecord:
    """Search for the best accelerator designs of a training step; return the study. Mode `separate` searches hardware
    first and then the largest tile. Mode `joint` starts from the designs found, and searches hardware and tile
    together.

    A space that takes at most about a minute is tried whole. In a larger space, `num_trials` valid points are tried
    by the first of `methods`. If `methods` is empty, the method is `gp`, or `nsga2` if `num_trials` exceeds
    MOST_BY_GP. If `methods` are given, all of them are also compared, each in `num_trials` points with each of
    `num_seeds` seeds. `again` is the command line of this study without --trials, for the advice on what to run next.

    Raises ConfigError if the benchmark has neither matrix products nor lookups. Raises HarnessError if optuna is
    missing, or if `num_trials` is too small or too large for one of `methods`.
    """
    refuse_num_trials(methods, num_trials)
    workload, space = config.workload, asdict(array.space)
    step = workload.model_spec.costs.step(workload.model, workload.data.mapped, workload.train.global_batch_size)
    if not (nests := list_nests(step, [max(space[name]) for name in TILE])):
        raise ConfigError(f"{config.benchmark.name}: has neither matrix products nor lookups for a PE array.")
    problem = DesignProblem(nests, array, objectives)
    by_default: Method = "gp" if num_trials <= MOST_BY_GP else "nsga2"
    searched = search_all(problem, modes, next(iter(methods), by_default), num_trials, seed)
    compared = compare_methods(problem, methods, num_trials, range(seed, seed + num_seeds)) if methods else None
    best = searched.best
    tilings, error = _show_tilings(problem, best[modes[-1]][0].point)
    designs = [
        (BY_HAND, searched.by_hand),
        *((MODE_NAMES[mode], design) for mode in modes for design in best[mode]),
    ]
    findings = [] if compared is None else [say_compared(compared, searched, num_trials)]
    gains = [say_gain(mode, searched) for mode in modes]
    findings += [each[0] for each in gains] + [finding for each in gains for finding in each[1:]]
    findings += [
        say_next(config.benchmark.name, array, searched, num_trials, again),
        *(remark.format(objective=OBJECTIVE_NAMES[objectives[0]]) for remark in _REMARKS),
        *hold_against_published(searched, modes),
    ]
    return make_study(
        "codesign", f"{config.benchmark.name} on {array.title.partition(',')[0]}: {answer(searched, modes)}",
        config.benchmark, seed=seed, findings=findings,
        tables=[make_table("Pareto front of designs, and the baseline design by hand", _DESIGNS,
                           [_show_design(array, *design) for design in designs]),
                *([] if compared is None else [table_compared(compared, searched)]),
                make_table(f"Tilings used by the design of least {OBJECTIVE_NAMES[objectives[0]]} that the search "
                           f"'{MODE_NAMES[modes[-1]]}' found",
                           _TILINGS, tilings)],
        parameters=[Parameter(name="array", value=array.title, unit=None, source="file", note="title"),
                    *(Parameter(name=f"{each.of} at {each.size:g}", value=each.value,
                                unit=_UNITS.get(each.of), source="file", note=each.source)
                      for each in array.numbers)],
        checks=[StudyCheck(name=_ERROR,
                           expected=0.0, found=error, is_passed=error <= TOLERANCE)],
    )  # fmt: skip


def _show_design(array: PEArray, mode: str, design: ModelledDesign) -> tuple[Cell, ...]:
    rows, columns, size, *tile = design.point.values()
    costs = (design.latency_s, design.energy_j, design.energy_delay)
    area = 1 + float(array.find_excess(design.point)[0])
    return (mode, f"{rows} x {columns}", size, area, " x ".join(map(str, tile)), *costs)


def _show_tilings(problem: DesignProblem, point: DesignPoint) -> tuple[list[tuple[Cell, ...]], float]:
    """List the tiling of each loop nest in a design. Matrix products that are small enough are executed with their
    tiling; return also the largest error of these."""
    rows, errors = list[tuple[Cell, ...]](), [0.0]
    for nest in problem.nests:
        index, latency_s, _, cycles = find_tiling(nest, point, problem.array, problem.objectives[0])
        tile, order, error = [int(side) for side in nest.tiles[:, index]], ORDERS[nest.orders[index]], None
        if nest.name != LOOKUPS and prod(nest.extents) <= min(_MAX_MACS, _MAX_BLOCKS * prod(tile)):
            errors.append(error := execute_tiling(nest.extents, tile, order))
        shown = (" x ".join(map(str, each)) for each in (nest.extents, tile))
        rows.append((nest.name, *shown, order, cycles, int(nest.dram_bytes[index]), latency_s, error))
    return rows, max(errors)
