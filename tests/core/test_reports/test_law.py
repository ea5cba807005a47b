"""Laws of several sweeps: which share a chart, what is said at matched FLOP, and what is not matched."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records_builder import quality_content, quality_process

from reports.comparison.sweep import SweepFacts, SweepRow
from reports.document.blocks import Chart, Prose, Table
from reports.document.page import PageSection
from reports.facts.scaling_law import find_law
from reports.page.studies.law import law_sections
from reports.parts.law import law_words
from reports.results.measured import make_measured
from reports.results.result import Result
from reports.statistics.power_law import values_at
from rules.records.codec import convert
from rules.records.measured.quality import QualityRecord

FLOP = (4e9, 1e10, 2e10, 5e10)


def measured(flop: float, entropies: Sequence[float], num_samples: int = 65_536, **changes: Any) -> Result:
    """One size, with a process per value."""
    processes = []
    for value in entropies:
        process = quality_process(num_samples=num_samples, training_flop=int(flop))
        process["evaluations"][-1]["normalised_entropy"] = value
        processes.append(process)
    record = convert(quality_content(processes, **changes), QualityRecord)
    return make_measured(Path("any"), "quality", record, None)


def sweep(name: str, means: Sequence[float], noise: float = 1e-3, seed: int = 1, **changes: Any) -> SweepFacts:
    """Sizes with these means and five seeds each."""
    generator = np.random.default_rng(seed)
    sizes = [
        measured(flop, [float(mean + noise * draw) for draw in generator.standard_normal(5)], **changes)
        for flop, mean in zip(FLOP, means, strict=True)
    ]
    return made_sweep(name, sizes, seed)


def made_sweep(name: str, sizes: Sequence[Result], seed: int = 1) -> SweepFacts:
    rows = tuple(
        SweepRow(index=index, label=f"size {index}", values=(), failure=None, num_planned=5, result=size)
        for index, size in enumerate(sizes)
    )
    law = find_law([row.label for row in rows], [row.result for row in rows], seed)
    return SweepFacts(name=name, kind="quality", num_steps=None, axes=(), rows=rows, problems=(), law=law)


def chart_of(section: PageSection) -> Chart:
    return next(block for block in section.blocks if isinstance(block, Chart))


def notes_of(section: PageSection) -> str:
    return " ".join(str(block.text) for block in section.blocks if isinstance(block, Prose))


FALLING = (0.80, 0.76, 0.74, 0.72)


@pytest.mark.slow
def test_sweeps_on_one_dataset_share_a_chart_with_a_law_each_in_its_legend() -> None:
    (section,) = law_sections([sweep("near", FALLING), sweep("far", [value + 0.05 for value in FALLING], seed=2)])
    keys = [key.words for key in chart_of(section).figure.keys]
    assert len(keys) == 2 and keys[0].startswith("near: b 0.") and keys[1].startswith("far: b 0.")
    assert all(key.endswith("C 4.00 GFLOP – 50.0 GFLOP") for key in keys)
    assert "Worse than near: far." in str(chart_of(section).lead)
    matched = next(block for block in section.blocks if isinstance(block, Table) and block.id.endswith("-matched"))
    (name, value, gap), (other, _, its_gap) = ([cell.text for cell in row] for row in matched.rows)
    assert (name, gap, other) == ("near", "the best", "far") and float(value) == pytest.approx(0.72, abs=0.01)
    low, high = map(float, its_gap.split(" – "))
    assert 0.03 < low < 0.05 < high < 0.07


@pytest.mark.slow
def test_what_seeds_do_not_tell_apart_is_not_called_better() -> None:
    (section,) = law_sections([sweep("a", FALLING, 0.02), sweep("b", [v + 0.005 for v in FALLING], 0.02, seed=2)])
    lead = str(chart_of(section).lead)
    assert "No difference from " in lead and "is shown" in lead and "Worse" not in lead


@pytest.mark.slow
def test_equal_names_are_told_apart() -> None:
    (section,) = law_sections([sweep("same", FALLING), sweep("same", FALLING, seed=2)])
    assert [key.words.partition(":")[0] for key in chart_of(section).figure.keys] == ["same", "same (2)"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"dataset_sha256": "e" * 64}, "other data"),
        ({"num_samples": 32_768}, "32,768 training samples, not 65,536"),
        ({"eval_samples": 2_000}, "2,000 evaluation samples, not 1,000"),
        ({"dataset_sha256": None}, "its dataset is not on record"),
    ],
)
def test_what_is_measured_otherwise_has_a_chart_of_its_own_and_both_say_why(
    changes: dict[str, Any], why: str
) -> None:
    first, second = law_sections([sweep("one", FALLING), sweep("other", FALLING, seed=2, **changes)])
    assert f"other is on a chart of its own: {why}." in notes_of(first)
    assert "one is on a chart of its own: " in notes_of(second)
    assert (first.heading, second.heading) == ("Scaling laws: one", "Scaling laws: other")


def test_sizes_that_differ_by_more_than_size_have_no_law() -> None:
    whole = sweep("mixed", FALLING)
    rows = [row.result for row in whole.rows if row.result is not None]
    mixed = made_sweep("mixed", [*rows[:3], measured(FLOP[3], [0.72] * 5, dataset_sha256="e" * 64)])
    assert mixed.law is not None and mixed.law.fitted is None
    assert mixed.law.why_not == "its configurations differ by more than size (other data)"
    unknown = made_sweep("old", [measured(flop, [0.7] * 5, dataset_sha256=None) for flop in FLOP])
    assert unknown.law is not None and unknown.law.fitted is not None, "data that no record names is one all the same"


def test_of_configurations_with_equal_flop_the_best_is_the_size() -> None:
    noise = 3e-3 * np.random.default_rng(1).standard_normal((4, 5))
    good, bad = (
        [
            measured(by * flop, [float(each) for each in value + gain + own])
            for flop, value, own in zip(FLOP, FALLING, noise, strict=True)
        ]
        for by, gain in ((1.0, 0.0), (1.05, 0.1))
    )
    both = made_sweep("both", [bad[0], *good, *bad[1:]])
    assert both.law is not None and [size.entropy for size in both.law.sizes] == pytest.approx(FALLING, abs=0.01)
    alone = made_sweep("alone", good).law
    assert alone is not None and both.law.fitted == alone.fitted
    said = "Of configurations with equal FLOP (to 10 %) the best by its mean is the size: 4 left out."
    assert said in law_words(both.law) and said not in law_words(alone)
    (section,) = law_sections([both])
    assert said in notes_of(section)


def test_a_gain_is_said_where_the_interval_reaches_the_logarithm_and_denied_only_where_it_is_not_shown() -> None:
    falling = sweep("log", tuple(0.60 - 0.05 * float(np.log10(flop / FLOP[0])) for flop in FLOP), 3e-4).law
    assert falling is not None and falling.fitted is not None and falling.fitted.interval is not None
    said = law_words(falling)
    assert "reaches the logarithmic law" in said and "falls by 0.05" in said and "No gain" not in said
    flat = sweep("flat", (0.6002, 0.6, 0.6001, 0.6), 3e-3).law
    assert flat is not None and flat.fitted is not None
    assert "No gain from more computing is shown" in law_words(flat) or flat.fitted.exponent == 0


def test_sizes_that_follow_no_law_say_so() -> None:
    valley = sweep("valley", (0.80, 0.70, 0.71, 0.80), 1e-3).law
    assert valley is not None and valley.fitted is None
    assert "the sizes do not follow one" in law_words(valley) and "lack of fit" in valley.why_not


def test_laws_whose_ranges_do_not_meet_are_drawn_and_not_matched() -> None:
    near, far = sweep("near", FALLING), sweep("far", FALLING, seed=2)
    assert far.law is not None and far.law.fitted is not None
    sizes = tuple(replace(size, training_flop=size.training_flop * 1e3) for size in far.law.sizes)
    fitted = replace(far.law.fitted, low=far.law.fitted.low * 1e3, high=far.law.fitted.high * 1e3)
    (section,) = law_sections([near, replace(far, law=replace(far.law, sizes=sizes, fitted=fitted))])
    assert "do not all overlap" in str(chart_of(section).lead)
    assert not any(isinstance(block, Table) and block.id.endswith("-matched") for block in section.blocks)


def test_one_seed_has_a_law_and_no_intervals() -> None:
    def single(name: str, gain: float) -> SweepFacts:
        return made_sweep(name, [measured(flop, [value + gain]) for flop, value in zip(FLOP, FALLING, strict=True)])

    (section,) = law_sections([single("a", 0.0), single("b", 0.1)])
    assert "No difference from a is shown: b." in str(chart_of(section).lead)
    assert values_at(5e10, FLOP, [[value] for value in FALLING], 1) is None


@pytest.mark.long
def test_intervals_at_matched_flop_hold_the_true_difference_in_nine_of_ten_pairs() -> None:
    held = []
    cost = np.array(FLOP)
    for number in range(100):
        generator = np.random.default_rng(number)
        drawn, truths = [], []
        for exponent, floor in ((0.3, 0.6), (0.1, 0.5)):
            means = 0.15 * (cost / cost[0]) ** -exponent + floor
            values = means[:, None] + 2e-3 * generator.standard_normal((4, 5))
            drawn.append(values_at(FLOP[-1], FLOP, values.tolist(), number + len(drawn)))
            truths.append(means[-1])
        assert drawn[0] is not None and drawn[1] is not None
        low, high = np.quantile(drawn[1] - drawn[0], [0.025, 0.975])
        held.append(low <= truths[1] - truths[0] <= high)
    assert np.mean(held) >= 0.9
