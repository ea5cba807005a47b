"""The study of a PE array: its searches, the tilings of the best design, and products in such blocks executed."""

from collections.abc import Sequence
from itertools import product
from math import prod

from msgspec.structs import asdict

from harness.config.run_config import RunConfig
from harness.extensions.codesign.accelerator import LOOKUPS, ORDERS, TILE, PEArray, Point, list_nests
from harness.extensions.codesign.compared import compare_methods, refuse_num_trials, say_compared, table_compared
from harness.extensions.codesign.sampling import MOST_BY_GP, Method
from harness.extensions.codesign.search import Mode, search_all
from harness.extensions.codesign.trials import Objective, Problem, Trial, find_tiling
from harness.extensions.codesign.wording import answer, hold_against_published, say_gain
from harness.foundation.study import Columns, make_study, make_table
from reference_models.process.errors import ConfigError
from rules.records.study import Cell, Parameter, StudyCheck, StudyRecord

TOLERANCE = 1e-5
_MAX_MACS, _MAX_BLOCKS = 1 << 31, 1 << 15
"""Multiply-adds and blocks of the largest product that is executed."""
_REMARK = (
    "Modelled: a training step's products and its forward pass's lookups, one after another, each in the tiling and "
    "loop order within the largest tile that is best in the first objective; no other work, no leakage. separate "
    "chooses hardware for the tile by hand, then the tile. A space is tried whole where that takes about a minute, "
    "else in part, joint from what separate found."
)
_DESIGNS: Columns = (
    ("Mode", None, "given"),
    ("PEs", None, "computed"),
    ("Scratchpad", "B", "computed"),
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
    """Return how far a product in blocks, in torch and fp64, is from the whole: a share of its largest value."""
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


def space_study(
    config: RunConfig,
    array: PEArray,
    modes: Sequence[Mode],
    objectives: Sequence[Objective],
    num_trials: int,
    seed: int,
    methods: Sequence[Method] = (),
    num_seeds: int = 10,
) -> StudyRecord:
    """Search hardware and then the largest tile (`separate`), and both at once from there (`joint`).

    A space that takes more than about a minute to try whole is searched in `num_trials` valid points by the first of
    `methods`; without any by `gp`, or `nsga2` for more points than that is fitted to. All of `methods` are compared
    in as many points of each of `num_seeds` seeds.
    Raises ConfigError for a benchmark without products and lookups, HarnessError where optuna is missing, or where
    `num_trials` are fewer or more than one of `methods` is for.
    """
    refuse_num_trials(methods, num_trials)
    workload, space = config.workload, asdict(array.space)
    step = workload.model_spec.costs.step(workload.model, workload.data.mapped, workload.train.global_batch_size)
    if not (nests := list_nests(step, [max(space[name]) for name in TILE])):
        raise ConfigError(f"{config.benchmark.name}: has neither matrix products nor lookups for a PE array.")
    problem = Problem(nests, array, objectives)
    by_default: Method = "gp" if num_trials <= MOST_BY_GP else "nsga2"
    searched = search_all(problem, modes, next(iter(methods), by_default), num_trials, seed)
    compared = compare_methods(problem, methods, num_trials, range(seed, seed + num_seeds)) if methods else None
    best = searched.best
    tilings, error = _show_tilings(problem, best[modes[-1]][0].point)
    designs = [("by hand", searched.by_hand), *((mode, trial) for mode in modes for trial in best[mode])]
    findings = [] if compared is None else [say_compared(compared, searched, num_trials)]
    findings += [*(say_gain(mode, searched) for mode in modes), _REMARK, hold_against_published(searched, modes)]
    return make_study(
        "codesign", f"{config.benchmark.name} on {array.title}: {answer(searched, modes)}",
        config.benchmark, seed=seed, findings=findings,
        tables=[make_table("By hand, and designs that no other of their mode is better than", _DESIGNS,
                           [_show_design(*design) for design in designs]),
                *([] if compared is None else [table_compared(compared, searched)]),
                make_table(f"Tilings of the first design of {modes[-1]}", _TILINGS, tilings)],
        parameters=[Parameter(name="array", value=array.title, unit=None, source="file", note="title"),
                    *(Parameter(name=f"{each.of} at {each.size:g}", value=each.value, unit=None, source="file",
                                note=each.source) for each in array.numbers)],
        checks=[StudyCheck(name="largest error of a product in blocks, as a share of its largest value", expected=0.0,
                           found=error, is_passed=error <= TOLERANCE)],
    )  # fmt: skip


def _show_design(mode: str, trial: Trial) -> tuple[Cell, ...]:
    rows, columns, size, *tile = trial.point.values()
    costs = (trial.latency_s, trial.energy_j, trial.energy_delay)
    return (mode, f"{rows} x {columns}", size, " x ".join(map(str, tile)), *costs)


def _show_tilings(problem: Problem, point: Point) -> tuple[list[tuple[Cell, ...]], float]:
    """List each nest's tiling, and the largest error of those products that are small enough to be executed."""
    rows, errors = list[tuple[Cell, ...]](), [0.0]
    for nest in problem.nests:
        index, latency_s, _, cycles = find_tiling(nest, point, problem.array, problem.objectives[0])
        tile, order, error = [int(side) for side in nest.tiles[:, index]], ORDERS[nest.orders[index]], None
        if nest.name != LOOKUPS and prod(nest.extents) <= min(_MAX_MACS, _MAX_BLOCKS * prod(tile)):
            errors.append(error := execute_tiling(nest.extents, tile, order))
        shown = (" x ".join(map(str, each)) for each in (nest.extents, tile))
        rows.append((nest.name, *shown, order, cycles, int(nest.dram_bytes[index]), latency_s, error))
    return rows, max(errors)
