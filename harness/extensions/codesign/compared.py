"""Compare search methods on one design space of an accelerator: equal numbers of valid points, several seeds."""

from collections.abc import Callable, Mapping, Sequence
from math import log, prod
from statistics import median

import scipy.stats
from msgspec.structs import asdict

from harness.extensions.codesign.designs import DesignProblem, ModelledDesign
from harness.extensions.codesign.sampling import MOST_BY_GP, NUM_DRAWN, Method, sample
from harness.extensions.codesign.search import DesignOutcomes
from harness.extensions.codesign.wording import OBJECTIVE_NAMES
from harness.foundation.errors import HarnessError
from harness.foundation.study import Columns, make_table
from reports.text.formatting import percent, plural
from rules.records.study import Cell, StudyTable

Compared = Mapping[Method, Sequence[ModelledDesign]]
"""Best designs found with each seed. The keys are search methods; each has one design per seed."""
_LEVEL = 0.05
"""Significance level of the sign test: with a p-value below it, one search method is better than another."""
_SAME = 1e-9
"""Largest difference that counts as rounding between two designs' distances from the optimum. A distance is a
fraction of the optimum."""
_COLUMNS: Columns = (
    ("Search", None, "given"),
    ("Seeds", None, "given"),
    ("Least above", "share", "modelled"),
    ("Median above", "share", "modelled"),
    ("Most above", "share", "modelled"),
    ("Seeds with no search better", None, "modelled"),
)


def refuse_num_trials(methods: Sequence[Method], num_trials: int) -> None:
    """Raise HarnessError (exit 2) for so few trials that a search method would draw all its points at random.

    Raise it also for more trials than MOST_BY_GP with a Gaussian process, which is fitted anew for each point.
    """
    if "gp" in methods and num_trials > MOST_BY_GP:
        raise HarnessError(
            f"--trials {num_trials}: a Gaussian process is fitted anew for each point, and takes long beyond "
            f"{MOST_BY_GP:,}. Give fewer, or --by without gp."
        )
    for method in methods:
        if num_trials <= (num_drawn := NUM_DRAWN.get(method, 0)):
            raise HarnessError(
                f"--trials {num_trials}: the first {num_drawn} points of {method} are drawn at random, so that "
                f"nothing is compared by so few. Give --trials {num_drawn + 1} or more (such as 40), or --by without "
                f"{method}."
            )


def compare_methods(
    problem: DesignProblem, methods: Sequence[Method], num_trials: int, seeds: Sequence[int]
) -> Compared:
    """Search hardware and largest tile together by each method with each seed, starting from the hand-made design;
    return the best design of each search.

    Raises HarnessError (exit 2) where optuna is not installed and a method needs it.
    """
    space = asdict(problem.array.space)
    by_hand = {name: values[0] for name, values in space.items()}

    def score(design: ModelledDesign) -> tuple[float, ...]:
        return (sum(map(log, design.values(problem.objectives))),)

    def find(method: Method, seed: int) -> ModelledDesign:
        return min(sample(problem, space, [by_hand], method, num_trials, seed, score), key=score)

    return {method: [find(method, seed) for seed in seeds] for method in methods}


def say_compared(compared: Compared, searched: DesignOutcomes, num_trials: int) -> str:
    """Say how good each search method's designs are. The median over seeds of each method's best design is stated as
    a distance above the optimum or, if the optimum is unknown, above the best design found.

    The sentence also states by what share the first method's median design is below the hand-made design in latency,
    energy or their product. A sign test tells whether the first method is better than each of the others. If the
    first method is a Gaussian process, the savings that papers published for it are stated.
    """
    (first, *others), gaps = compared, _find_gaps(compared, searched)
    than = "the optimum" if searched.optimum is not None else "the best of all searches"
    what = {2: "energy-delay"}.get(len(searched.problem.objectives), OBJECTIVE_NAMES[searched.problem.objectives[0]])
    tried = f"{plural(num_trials, 'valid point')}, {plural(len(gaps[first]), 'seed')}"
    saving = 1 - median(map(product := _product_of(searched), compared[first])) / product(searched.by_hand)
    below = f"{percent(saving)} less than the baseline's"
    below += " (published for other networks: 18 % and 40 %, Shi et al., 2020)" if first == "gp" else ""
    start = f"With {first} ({tried}), the median {what} is {below} and"
    parts, is_better = [f"{start} {percent(median(gaps[first]))} above {than}"], True
    for other in others:
        num_better, num_worse, p = _compare(gaps[first], gaps[other])
        is_better &= p < _LEVEL and num_better > num_worse
        signs = f"{first} better in {num_better}, worse in {num_worse}: p = {p:.2g}"
        parts.append(f"with {other} {percent(median(gaps[other]))} ({signs})")
    said = f"{'; '.join(parts)}."
    claim = "a constrained Bayesian search finds better designs in as many trials"
    return f"{said} {'Shown' if is_better else 'Not shown'} here: {claim}." if others and first == "gp" else said


def table_compared(compared: Compared, searched: DesignOutcomes) -> StudyTable:
    """List each search method's distance from the optimum (least, median and most over seeds), and the number of
    seeds in which no other method found a better design."""
    than = "the optimum" if searched.optimum is not None else "the best of all searches"
    rows = list[tuple[Cell, ...]]()
    by_method = _find_gaps(compared, searched)
    least = [min(gaps) for gaps in zip(*by_method.values(), strict=True)]
    for method, gaps in by_method.items():
        num_best = sum(gap - best <= _SAME for gap, best in zip(gaps, least, strict=True))
        rows.append((method, len(gaps), min(gaps), median(gaps), max(gaps), num_best))
    title = f"Search methods: best design of each seed, relative to {than}"
    return make_table(title, _COLUMNS, rows)


def _product_of(searched: DesignOutcomes) -> Callable[[ModelledDesign], float]:
    objectives = searched.problem.objectives
    return lambda design: prod(design.values(objectives))


def _find_gaps(compared: Compared, searched: DesignOutcomes) -> dict[Method, list[float]]:
    """Return for each search method how far the best design of each seed is above the optimum, as fractions of the
    optimum. A design's value is the product of its objectives. If the optimum is unknown, the best design found by
    any method takes its place."""
    product = _product_of(searched)
    known = searched.optimum or [design for designs in compared.values() for design in designs]
    least = min(map(product, known))
    return {method: [product(design) / least - 1 for design in designs] for method, designs in compared.items()}


def _compare(ours: Sequence[float], others: Sequence[float]) -> tuple[int, int, float]:
    """Return the number of seeds in which the first search method is better than the other, the number in which it is
    worse, and the p-value of the sign test."""
    num_better = sum(other - one > _SAME for one, other in zip(ours, others, strict=True))
    num_worse = sum(one - other > _SAME for one, other in zip(ours, others, strict=True))
    num = num_better + num_worse
    return num_better, num_worse, float(scipy.stats.binomtest(num_better, num).pvalue) if num else 1.0
