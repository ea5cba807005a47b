"""A PE array and tilings on it, against numbers by hand, a simulated scratchpad, and brute force."""

import math
import re
import statistics
import sys
from collections import Counter
from dataclasses import replace
from itertools import permutations, product
from math import prod
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from msgspec.structs import replace as change

from harness.config.run_config import resolve
from harness.extensions.codesign import study as codesign
from harness.extensions.codesign.accelerator import (
    ORDERS,
    SPACES,
    DesignPoint,
    Nest,
    PEArray,
    Space,
    find_space,
    list_nests,
    model_nest,
)
from harness.extensions.codesign.compared import compare_methods, say_compared, table_compared
from harness.extensions.codesign.designs import DesignProblem, ModelledDesign, Objective, find_pareto
from harness.extensions.codesign.exhaustive import enumerate_points, is_enumerable
from harness.extensions.codesign.sampling import Method, draw_valid, sample
from harness.extensions.codesign.search import DesignOutcomes, Mode, SearchOutcome
from harness.extensions.codesign.study import TOLERANCE, execute_tiling, space_study
from harness.extensions.codesign.wording import answer, say_gain
from harness.foundation.errors import HarnessError
from reference_models.costs import Linear, Lookups, Step
from reference_models.process.errors import ConfigError
from reports.page.head import provenance_of_study
from reports.text.formatting import percent
from rules.errors import DefinitionError
from rules.records.study import StudyRecord

BOTH: tuple[Objective, ...] = ("latency_s", "energy_j")
SHAPES = ("rm1_deeprecsys", "rm2_deeprecsys", "rm3_deeprecsys")
GAINS = dict(zip(SHAPES, (1.116, 1.043, 1.521), strict=True))
"""Speed-ups of the fastest joint design over the fastest separate one, by an enumeration of all points of its own."""
SHIPPED = SPACES["pe_array"]
LARGE = 1 << 20
WIDE: DesignPoint = {
    "rows": 4,
    "columns": 2,
    "scratchpad_bytes": LARGE,
    "tile_m": LARGE,
    "tile_k": LARGE,
    "tile_n": LARGE,
}


def product_nest(m: int, k: int, n: int) -> Nest:
    layer = Linear(("forward", "backward"), "layer", m, k, n, is_trained=False, needs_input_gradient=False)
    (nest,) = list_nests(Step(layers=[layer]), (LARGE,) * 3)
    return nest


def lookups_nest(num_sums: int, pooling: int, dim: int) -> Nest:
    read = Lookups(tables=None, dim=dim, num=num_sums * pooling, num_sums=num_sums, num_added=0, gradient_bytes=0)
    (nest,) = list_nests(Step(layers=[], lookups=read), (LARGE,) * 3)
    return nest


def index_of(nest: Nest, tile: tuple[int, int, int]) -> int:
    (index,) = np.flatnonzero((tile == nest.tiles.T).all(axis=1))
    return int(index)


def simulated_bytes(nest: Nest, tile: tuple[int, ...], order: str) -> int:
    """DRAM bytes of a scratchpad that holds the tiles in use, as the loops turn one by one."""
    trips = {loop: extent // side for loop, extent, side in zip("mkn", nest.extents, tile, strict=True)}
    sides = dict(zip("mkn", tile, strict=True))
    held: dict[str, object] = {}
    begun, moved = set(), 0
    result = nest.operands[-1][0]
    for at in product(*(range(trips[loop]) for loop in order)):
        place = dict(zip(order, at, strict=True))
        for loops, width in nest.operands:
            key = tuple(place[loop] for loop in loops)
            if held.get(loops) == key:
                continue
            held[loops] = key
            size = width * prod(sides[loop] for loop in loops)
            moved += size  # inputs are read; a result will be written when it leaves
            if loops == result:
                moved += size * (key in begun)
                begun.add(key)
    return moved


@pytest.mark.parametrize(
    ("tile", "cycles", "dram_bytes", "order"),
    [
        # One tile: 2 x 2 folds of 2*4 + 2 + 6 - 2 = 14 cycles; each of 48, 24 and 32 values moves once.
        ((8, 6, 4), 4 * 14, 4 * 104, "mkn"),
        # 8 tiles of one fold of 11 cycles; k innermost: left 96, right 48, results 32 values.
        ((4, 3, 2), 8 * 11, 4 * 176, "mnk"),
        # 32 tiles of one fold of 14 cycles; m innermost: the right moves once, the left 4 times.
        ((1, 6, 1), 32 * 14, 4 * (4 * 48 + 24 + 32), "nmk"),
    ],
)
def test_cycles_and_traffic_of_three_tilings_are_those_by_hand(
    tile: tuple[int, int, int], cycles: int, dram_bytes: int, order: str
) -> None:
    nest, array = product_nest(8, 6, 4), find_space("pe_array")
    found, seconds, _ = model_nest(nest, WIDE, array)
    index = index_of(nest, tile)
    assert (found[index], nest.dram_bytes[index]) == (cycles, dram_bytes)
    assert simulated_bytes(nest, tile, ORDERS[nest.orders[index]]) == simulated_bytes(nest, tile, order)
    assert seconds[index] == pytest.approx(max(cycles / 800e6, dram_bytes / 34.1e9))


def test_energy_is_that_of_products_scratchpad_and_dram_by_hand() -> None:
    nest, array = product_nest(8, 6, 4), find_space("pe_array")
    joules = model_nest(nest, WIDE, array)[2][index_of(nest, (8, 6, 4))]
    # 4 columns are 2 folds, so the left is read twice; 8 rows are 2, so the right is; results are read and written.
    scratchpad_bytes = 4 * (2 * 48 + 2 * 24 + 2 * 32) + 4 * 104
    assert joules == pytest.approx(192 * 4.6e-12 + scratchpad_bytes * 12.5e-12 + 4 * 104 * 64e-12)


EXTENT = st.sampled_from((1, 2, 4, 6))


@given(extents=st.tuples(EXTENT, EXTENT, EXTENT), is_of_lookups=st.booleans())
def test_traffic_is_the_least_that_a_scratchpad_moves_in_any_loop_order(
    extents: tuple[int, int, int], is_of_lookups: bool
) -> None:
    nest = lookups_nest(*extents) if is_of_lookups else product_nest(*extents)
    for index, sides in enumerate(nest.tiles.T):
        tile = tuple(int(side) for side in sides)
        assert all(extent % side == 0 for extent, side in zip(nest.extents, tile, strict=True))
        moved = {order: simulated_bytes(nest, tile, order) for order in ORDERS}
        assert nest.dram_bytes[index] == min(moved.values()) == moved[ORDERS[nest.orders[index]]]


def test_a_tiling_without_room_is_never_chosen() -> None:
    nest, array = product_nest(64, 64, 64), find_space("pe_array")
    point = {**WIDE, "scratchpad_bytes": 2048, "tile_n": 8}
    cycles, seconds, joules = model_nest(nest, point, array)
    held = 8 * (nest.tiles[0] * nest.tiles[1] + nest.tiles[1] * nest.tiles[2] + nest.tiles[0] * nest.tiles[2])
    assert (np.isfinite(seconds) == ((held <= 2048) & (nest.tiles[2] <= 8))).all()
    assert (np.isfinite(joules) == np.isfinite(seconds)).all() and np.isfinite(cycles).all()


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("mkn")])
@pytest.mark.parametrize("tile", [(1, 30, 5), (6, 5, 20), (24, 30, 20), (3, 1, 4)])
def test_a_product_in_blocks_is_torchs(tile: tuple[int, int, int], order: str) -> None:
    assert execute_tiling((24, 30, 20), tile, order) <= TOLERANCE


def test_blocks_that_leave_a_part_out_are_seen() -> None:
    assert execute_tiling((24, 30, 20), (24, 15, 20), "mkn") < TOLERANCE
    left_out = pytest.MonkeyPatch()
    with left_out.context() as patch:
        patch.setattr(codesign, "product", lambda *ranges: list(product(*ranges))[:-1])
        assert execute_tiling((24, 30, 20), (24, 15, 20), "mkn") > TOLERANCE


def small_array(**values: tuple[int, ...]) -> PEArray:
    """The shipped numbers with a space of 216 points, of which the first is valid."""
    space = Space(
        rows=(16, 32),
        columns=(16, 32, 48),
        scratchpad_bytes=(131072, 524288),
        tile_m=(64, 128),
        tile_k=(64, 256, 512),
        tile_n=(64, 32, 96),
    )
    return change(find_space("pe_array"), space=change(space, **values))


def nests_of(name: str, array: PEArray) -> list[Nest]:
    workload = resolve(name, []).workload
    step = workload.model_spec.costs.step(workload.model, workload.data.mapped, workload.train.global_batch_size)
    return list_nests(step, [max(asdict(array.space)[f"tile_{loop}"]) for loop in "mkn"])


def try_all(nests: list[Nest], array: PEArray) -> list[ModelledDesign]:
    space, problem = asdict(array.space), DesignProblem(nests, array, BOTH)
    return [problem.evaluate(dict(zip(space, each, strict=True))) for each in product(*space.values())]


def brute_force(trials: list[ModelledDesign]) -> set[tuple[float, float]]:
    values = {(trial.latency_s, trial.energy_j) for trial in trials if trial.violations == (0, 0, 0)}
    return {one for one in values if not any(two[0] <= one[0] and two[1] <= one[1] and two != one for two in values)}


def designs(study: StudyRecord, mode: str) -> list[tuple[float, float]]:
    return [(float(row[-3]), float(row[-2])) for row in study.tables[0].rows if row[0] == mode]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rm1_deeprecsys", "dlrm_tiny"])
def test_the_pareto_set_of_a_small_space_is_that_of_brute_force(name: str) -> None:
    array = small_array()
    study = space_study(resolve(name, []), array, ("joint",), BOTH, 10, seed=0)
    expected = brute_force(try_all(nests_of(name, array), array))
    assert sorted(designs(study, "together")) == sorted(expected)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.booleans()), max_size=12))
def test_pareto_sets_are_those_of_brute_force(made: list[tuple[int, int, bool]]) -> None:
    trials = [
        ModelledDesign({}, (0, 0, 0), latency, energy) if is_valid else ModelledDesign({}, (1, 0, 0))
        for latency, energy, is_valid in made
    ]
    found = [(trial.latency_s, trial.energy_j) for trial in find_pareto(trials, BOTH)]
    assert len(found) == len(set(found)) and set(found) == brute_force(trials)
    least = {trial.energy_j for trial in find_pareto(trials, ("energy_j",))}
    assert least == {min(trial.energy_j for trial in trials)} - {float("inf")} if trials else not least


@pytest.mark.parametrize("objectives", [BOTH, ("energy_j", "latency_s"), ("energy_j",)])
def test_all_points_at_once_have_what_each_has_by_itself(objectives: tuple[Objective, ...]) -> None:
    problem = DesignProblem([product_nest(64, 48, 96), lookups_nest(96, 5, 16)], small_array(), objectives)
    space = asdict(problem.array.space)
    trials = [problem.evaluate(dict(zip(space, each, strict=True))) for each in product(*space.values())]
    best, num_valid = enumerate_points(problem, space)
    assert best == find_pareto(trials, objectives)
    assert 0 < num_valid == sum(not any(trial.violations) for trial in trials) < len(trials)


def test_sides_beyond_what_whole_numbers_of_64_bits_multiply_are_no_valid_points() -> None:
    array = small_array(tile_m=(64, 1 << 40), tile_k=(64, 1 << 40))
    best, num_valid = enumerate_points(DesignProblem([product_nest(64, 64, 64)], array, BOTH), asdict(array.space))
    space = asdict(array.space)
    points = [dict(zip(space, each, strict=True)) for each in product(*space.values())]
    assert num_valid == sum(not any(array.find_violations(point)) for point in points) > 0
    assert all(max(trial.point.values()) < 1 << 40 for trial in best)


def log_energy_delay(trial: ModelledDesign) -> tuple[float, ...]:
    return (math.log(trial.energy_delay),)


def draw(method: Method, num_trials: int, seed: int = 0, array: PEArray | None = None) -> list[ModelledDesign]:
    array = array or find_space("pe_array")
    space, problem = asdict(array.space), DesignProblem([product_nest(64, 64, 64)], array, BOTH)
    by_hand = {name: values[0] for name, values in space.items()}
    trials = sample(problem, space, [by_hand], method, num_trials, seed, log_energy_delay)
    assert trials[0].point == by_hand
    assert all(trial.point[name] in values for trial in trials for name, values in space.items())
    assert len({tuple(sorted(trial.point.items())) for trial in trials}) == len(trials)
    return trials


SAMPLED = [("random", 50), ("nsga2", 50), pytest.param("gp", 13, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "num_trials"), SAMPLED)
def test_only_valid_points_of_a_large_space_are_tried_and_none_twice(method: Method, num_trials: int) -> None:
    trials = draw(method, num_trials)
    assert len(trials) == num_trials and not any(any(trial.violations) for trial in trials)
    assert trials == draw(method, num_trials), "the same for the same seed"
    assert trials != draw(method, num_trials, seed=1)


@pytest.mark.parametrize(("method", "num_trials"), SAMPLED)
def test_a_space_of_fewer_valid_points_is_tried_to_its_end(method: Method, num_trials: int) -> None:
    array = small_array(rows=(16,), columns=(16,), tile_k=(64, 256), tile_n=(64, 32))
    _, num_valid = enumerate_points(DesignProblem([product_nest(64, 64, 64)], array, BOTH), asdict(array.space))
    assert len(draw(method, num_trials, array=array)) == min(num_valid, num_trials)


def test_valid_points_are_drawn_evenly() -> None:
    array = small_array()
    _, num_valid = enumerate_points(DesignProblem([product_nest(8, 8, 8)], array, BOTH), asdict(array.space))
    drawn = draw_valid(array, asdict(array.space), np.random.default_rng(0))
    counts = Counter(tuple(next(drawn).values()) for _ in range(200 * num_valid))
    assert len(counts) == num_valid and scipy.stats.chisquare([*counts.values()]).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rm1_deeprecsys", "rm3_deeprecsys"])
def test_no_valid_point_is_better_than_the_optimum(name: str) -> None:
    array = find_space("pe_array")
    problem, space = DesignProblem(nests_of(name, array), array, BOTH), asdict(array.space)
    best, num_valid = enumerate_points(problem, space)
    assert num_valid == 22_609 and [problem.evaluate(trial.point) for trial in best] == best
    drawn = sample(problem, space, [], "random", 300, 0, log_energy_delay)
    assert find_pareto([*best, *drawn], BOTH) == best


@pytest.fixture(scope="module")
def studies() -> dict[str, StudyRecord]:
    modes: tuple[Mode, ...] = ("separate", "joint")
    return {name: space_study(resolve(name, []), find_space("pe_array"), modes, BOTH, 300, seed=0) for name in SHAPES}


@pytest.mark.slow
def test_joint_is_never_worse_than_separate_and_as_much_faster_as_can_be(studies: dict[str, StudyRecord]) -> None:
    for name, study in studies.items():
        separate, joint = designs(study, "hardware first"), designs(study, "together")
        assert all(any(one[0] <= two[0] and one[1] <= two[1] for one in joint) for two in separate)
        gain = min(separate)[0] / min(joint)[0]
        assert gain == pytest.approx(GAINS[name], rel=0.01)
        assert f"{percent(gain - 1)} above the optimum" in study.findings[0]
        said = f"the design space. With 'together', a step is {gain:.3f}× as fast as with 'hardware first'"
        assert said in study.findings[1]
        assert "All 373,527 points tried, 22,609 valid" in study.findings[1]
        assert f"{gain:.3f}×, is " in study.findings[-2] and max(map(len, study.findings)) <= 400


@pytest.mark.slow
def test_energy_delay_is_never_above_the_design_by_hand(studies: dict[str, StudyRecord]) -> None:
    for study in studies.values():
        ((latency_s, energy_j),) = designs(study, "by hand")
        for mode in ("hardware first", "together"):
            assert min(latency * energy for latency, energy in designs(study, mode)) <= latency_s * energy_j


@pytest.mark.slow
def test_every_number_is_modelled_and_has_its_source(studies: dict[str, StudyRecord]) -> None:
    study = studies["rm3_deeprecsys"]
    origins = {column.name: column.origin for table in study.tables for column in table.columns}
    assert origins["Latency"] == origins["Energy"] == origins["Cycles"] == origins["DRAM traffic"] == "modelled"
    assert all(parameter.source == "file" and parameter.note for parameter in study.parameters)
    (check,) = study.checks
    assert check.is_passed and check.found <= TOLERANCE
    said = " ".join(study.findings)
    assert (
        "published for other kernels: 1.25× to 1.44×" in said
        and "published for other networks: 18 % and 40 % below a design by hand" in said
    )
    tilings = study.tables[1].rows
    assert len(tilings) == len(nests_of("rm3_deeprecsys", find_space("pe_array")))
    assert all(row[-1] is not None for row in tilings[:-1])


def test_every_lookup_is_counted_and_every_sum() -> None:
    for num, num_sums in ((7, 3), (6, 3), (2, 3)):
        read = Lookups(tables=None, dim=4, num=num, num_sums=num_sums, num_added=0, gradient_bytes=0)
        sums = [nest.extents for nest in list_nests(Step(layers=[], lookups=read), (LARGE,) * 3)]
        assert sum(m * k for m, k, _ in sums) == num
        assert sum(m for m, _, _ in sums) == min(num, num_sums)


def test_separate_has_every_design_than_which_no_trial_of_it_is_better() -> None:
    array, config = small_array(), resolve("dlrm_tiny", [])
    trials = try_all(nests_of("dlrm_tiny", array), array)
    by_hand = {name: values[0] for name, values in asdict(array.space).items()}
    first = [
        trial for trial in trials if all(trial.point[f"tile_{loop}"] == by_hand[f"tile_{loop}"] for loop in "mkn")
    ]
    study = space_study(config, array, ("separate",), BOTH, 10, seed=0)
    assert len(brute_force(first)) > 1
    for each in brute_force(first):
        assert any(found[0] <= each[0] and found[1] <= each[1] for found in designs(study, "hardware first"))


@pytest.mark.parametrize(("objective", "other"), [("latency_s", "least energy"), ("energy_j", "as fast")])
def test_nothing_is_said_of_what_was_no_objective(objective: Objective, other: str) -> None:
    study = space_study(resolve("dlrm_tiny", []), small_array(), ("separate", "joint"), (objective,), 10, seed=0)
    which = {"latency_s": "the fastest design", "energy_j": "the design of least energy"}[objective]
    assert all(which in said and other not in said for said in study.findings[:-4])
    assert f"loop order of least {objective.partition('_')[0]}, " in study.findings[-3]
    assert ("Shi et al." in study.findings[-1], "HASCO" in study.findings[-1]) == (
        objective == "energy_j",
        objective == "latency_s",
    )
    assert provenance_of_study(study).machine == f"{small_array().title}, modelled"


POINT = dict.fromkeys(WIDE, 1)
FAST, HAND, FRUGAL = (ModelledDesign(POINT, (0, 0, 0), *costs) for costs in ((0.9, 1.2), (1.0, 1.0), (0.95, 1.0)))


def found_of(*best: ModelledDesign, objectives: tuple[Objective, ...] = BOTH) -> DesignOutcomes:
    tiles, hardware = SearchOutcome(best, 9, 9, 4), SearchOutcome([HAND], 3, 3, 1)
    problem = DesignProblem([], small_array(), objectives)
    return DesignOutcomes(problem=problem, by_hand=HAND, hardware=hardware, tiles=tiles, joint=None)


def test_each_sentence_is_of_one_design_and_says_what_gets_worse_in_it() -> None:
    searched = found_of(FAST, FRUGAL)
    title = answer(searched, ("separate",))
    said = "are fastest: a step takes 900.0 ms, 10.0 % less than the baseline, with 20.0 % more energy, modelled"
    assert said in title
    first, tried, worse, second = ". ".join(each.rstrip(".") for each in say_gain("separate", searched)).split(". ")
    assert first == "Search 'hardware first' (modelled): in the fastest design found, a step takes 900.0 ms"
    assert worse == (
        "Search 'hardware first' (modelled): in the fastest design, energy is 20.0 % above and the energy-delay "
        "product is 8.0 % above the baseline's"
    )
    least = "The least energy-delay product is 5.0 % below the baseline's, in a design that takes 950.0 ms a step ("
    assert second.startswith(least)
    assert tried == (
        "Hardware: all 3 points tried, 1 valid; tiles: all 9 points tried, 4 valid; the distance of the designs "
        "found from the optimum is unknown"
    )


def test_a_design_that_is_best_in_both_is_one() -> None:
    _, said = say_gain("separate", found_of(FRUGAL))
    both = "energy is 0.0 % above and the energy-delay product is 5.0 % below the baseline's (published "
    assert both in said
    alone = answer(found_of(FRUGAL, objectives=("latency_s",)), ("separate",))
    assert alone.endswith("5.0 % less than the baseline, modelled")


def of_latency(*seconds: float) -> list[ModelledDesign]:
    return [ModelledDesign(POINT, (0, 0, 0), each, 1.0) for each in seconds]


def test_a_search_is_better_where_most_seeds_leave_no_doubt() -> None:
    """Ten of ten is p = 2 / 2^10; eight of ten, 112 / 2^10, is none; equal ones do not count."""
    found = replace(found_of(HAND), joint=SearchOutcome(of_latency(0.5), 9, 9, 4))
    gp, worse, mixed = of_latency(*[0.55] * 10), of_latency(*[0.6] * 10), of_latency(*[0.6] * 8, 0.5, 0.5)
    said = say_compared({"gp": gp, "random": worse}, found, 40)
    assert said.startswith(
        "With gp (40 valid points, 10 seeds), the median energy-delay is 45.0 % less than the baseline's (published "
        "for other networks: 18 % and 40 %, Shi et al., 2020) and 10.0 % above the optimum; with random 20.0 % (gp "
        "better in 10, worse in 0: p = 0.002). "
    )
    assert ". Shown here: a constrained Bayesian search" in said
    said = say_compared({"gp": gp, "random": worse, "nsga2": mixed}, found, 40)
    assert "nsga2 20.0 % (gp better in 8, worse in 2: p = 0.11)" in said and ". Not shown here: " in said
    assert "(gp better in 0, worse in 0: p = 1)" in say_compared({"gp": gp, "nsga2": gp}, found, 40)
    assert "hown" not in say_compared({"random": worse, "nsga2": mixed}, found, 40)
    row, other = table_compared({"gp": mixed, "random": worse}, found).rows
    assert row == ("gp", 10, 0.0, pytest.approx(0.2), pytest.approx(0.2), 10)
    assert other[-1] == 8, "as good as the other in eight seeds, though never the optimum"
    assert len(say_compared({"gp": gp, "random": worse, "nsga2": mixed}, found, 10_000)) <= 400


@pytest.mark.long
def test_a_gaussian_process_finds_better_designs_than_random_draws_of_a_large_space() -> None:
    array = find_space("pe_array_fine")
    problem = DesignProblem(nests_of("rm3_deeprecsys", array), array, BOTH)
    assert not is_enumerable(problem, asdict(array.space))
    compared = compare_methods(problem, ["gp", "random"], 40, range(10))
    gp, drawn = ([trial.energy_delay for trial in found] for found in compared.values())
    assert statistics.median(gp) < 0.9 * statistics.median(drawn)


@pytest.fixture
def too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No space is small enough to be tried whole."""
    monkeypatch.setattr("harness.extensions.codesign.search.is_enumerable", lambda problem, choices: False)


@pytest.mark.parametrize("method", ["random", pytest.param("gp", marks=pytest.mark.slow)])
def test_a_space_too_large_says_how_many_points_were_tried_and_that_no_optimum_is_known(
    method: Method, too_large: None
) -> None:
    modes: tuple[Mode, ...] = ("separate", "joint")
    study = space_study(resolve("dlrm_tiny", []), small_array(), modes, BOTH, 12, 0, [method], num_seeds=1)
    first, *findings = study.findings
    assert first.startswith(f"With {method} (12 valid points, 1 seed), the median energy-delay is ")
    assert " and 0.0 % above the best of all searches" in first
    assert re.search(r"Hardware: \d+ valid points tried, of 12; tiles: \d+ valid points tried, of 18", findings[0])
    unknown = "the distance of the designs found from the optimum is unknown"
    assert f"12 valid points tried, of 216; {unknown}" in findings[1]
    assert not any("this is" in said or "above the optimum" in said for said in study.findings)
    assert "× among points tried, is " in findings[-2]


@pytest.mark.slow
def test_without_optuna_a_large_space_is_refused(monkeypatch: pytest.MonkeyPatch, too_large: None) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(HarnessError, match=r"pip install") as error:
        space_study(resolve("dlrm_tiny", []), find_space("pe_array"), ("joint",), BOTH, 5, 0)
    assert error.value.exit_code == 2


def test_a_benchmark_without_products_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve("dlrm_tiny", [])
    spec = config.workload.model_spec
    empty = replace(spec, costs=replace(spec.costs, step=lambda *given: Step(layers=[])))
    monkeypatch.setattr(type(config.workload), "model_spec", property(lambda self: empty))
    with pytest.raises(ConfigError, match="dlrm_tiny: has neither matrix products nor lookups"):
        space_study(config, find_space("pe_array"), ("joint",), BOTH, 5, 0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rows = [16", "rows = [0", "rows"),
        ("rows = [16", "rows = [1.5", "rows"),
        ("rows = [16", "rows = [16, 16", "rows: a value is given twice"),
        ('of = "pe_mm2"', 'of = "mac_j"', "numbers: a value is given twice"),
        ("rows = [16, 8, 12, 24, 32, 48, 64]", "rows = []", "rows"),
        ("tile_k = ", "tile_q = ", "tile_q"),
        ('of = "mac_j"', 'of = "mac_joules"', "numbers"),
        ("value = 4.6e-12", "value = -1.0", "numbers"),
        ("value = 4.6e-12", "value = nan", "numbers"),
        ('source = "JESD209-4', 'sauce = "JESD209-4', "numbers"),
        ('of = "pe_mm2"', 'of = "mac_j", size = 2', "pe_mm2"),
        ("value = 12.25", "value = 1.0", "beyond area_mm2"),
        ("tile_m = [64", "tile_m = [65", "no multiples of rows"),
        ("scratchpad_bytes = [131072", "scratchpad_bytes = [16640", "beyond scratchpad_bytes"),
        ("title = ", "title = 1 # ", "title"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = SHIPPED.read_text()
    assert text.count(old) >= 1
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=said) as error:
        find_space(str(file))
    assert str(file) in str(error.value) or "Systolic PE array" in str(error.value)


def test_a_space_is_found_by_name_or_file(tmp_path: Path) -> None:
    assert [find_space(name) for name in SPACES] == [find_space(str(path)) for path in SPACES.values()]
    coarse, fine = (find_space(name) for name in ("pe_array", "pe_array_fine"))
    assert coarse.numbers == fine.numbers
    assert [each[0] for each in asdict(coarse.space).values()] == [each[0] for each in asdict(fine.space).values()]
    with pytest.raises(ConfigError, match="Did you mean 'pe_array'"):
        find_space("pe_aray")
    (tmp_path / "bad.toml").write_text("[")
    for name in ("bad.toml", "missing.toml"):
        with pytest.raises(DefinitionError, match=name):
            find_space(str(tmp_path / name))
