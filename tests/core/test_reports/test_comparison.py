"""Comparisons: the factors add up, odd cases are defined, different problems are refused, sentences name causes."""

import math
from collections.abc import Collection
from pathlib import Path
from random import Random

import numpy as np
import pytest
from comparison_builder import draw_logs, make_run, make_side, simulated_verdicts, with_logs
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import make_records, usual_evals, write_set
from msgspec.structs import astuple, replace

from reports.comparison.comparison import compare_results, context_of
from reports.comparison.factor import FACTORS
from reports.comparison.records import Change, Comparison
from reports.comparison.wording import sentence, threads_words
from reports.results.logs import gather
from reports.results.result import Result, System
from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")
GENERATOR = np.random.default_rng(21)
LUCK = [0.65, 0.70, 0.70, 0.75, 0.70, 0.65, 0.75, 0.70, 0.70, 0.75]
RATES = [1000.0, 1003.0, 998.0, 1001.0, 1000.5, 999.0, 1002.0, 997.0, 1000.0, 1001.5]
SLOW = [rate / 1.05 for rate in reversed(RATES)]


def compare(base: Result, new: Result, **options: float) -> Comparison:
    return compare_results(base, [new], **options)[0]


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {one.name: one.verdict for one in comparison.factors}


runs = st.lists(st.tuples(st.floats(0.05, 3.0), st.floats(1e-3, 1e9), st.floats(1.0001, 3.0)), min_size=1, max_size=8)


@given(runs, runs, st.booleans())
def test_the_factors_make_up_the_ratio_exactly(
    base: list[tuple[float, float, float]], new: list[tuple[float, float, float]], with_seeds: bool
) -> None:
    sides = [
        make_side(label, *zip(*rows, strict=True), seeds=range(len(rows)) if with_seeds else None)
        for label, rows in (("a", base), ("b", new))
    ]
    comparison = compare(*sides)
    whole, *factors = comparison.factors
    assert [one.name for one in comparison.factors] == list(FACTORS)
    logs = [math.log(one.time_ratio) for one in factors if one.time_ratio is not None]
    assert whole.ratio is not None and len(logs) == 3
    assert sum(logs) == pytest.approx(math.log(whole.ratio), abs=1e-9)
    for one in comparison.factors:
        assert one.ratio == pytest.approx(one.new_value / one.base_value)


@settings(max_examples=examples(40))
@given(runs, runs, st.randoms())
def test_the_order_of_the_runs_does_not_matter(
    base: list[tuple[float, float, float]], new: list[tuple[float, float, float]], random: Random
) -> None:
    def judged(one: list[tuple[float, float, float]], other: list[tuple[float, float, float]]) -> Comparison:
        return compare(
            make_side("a", *zip(*one, strict=True)),
            make_side("b", *zip(*other, strict=True)),
        )

    shuffled = list(new)
    random.shuffle(shuffled)
    assert verdicts(judged(base, new)) == verdicts(judged(base, shuffled))


def test_a_comparison_judges_as_the_simulations_do() -> None:
    """What the simulations verify is what results go through."""
    base, new = draw_logs(GENERATOR, 20, 10), draw_logs(GENERATOR, 20, 10, step_time=1.04)
    expected = simulated_verdicts(base, new)
    for index in range(20):
        sides = [
            make_side(
                label, *(np.exp(logs[index]) * scale for logs, scale in zip(drawn, (1.0, 1e3, 1.0), strict=True))
            )
            for label, drawn in (("a", base), ("b", new))
        ]
        found = verdicts(compare(*sides))
        assert found["throughput"] == expected["throughput"][index]
        assert found["overhead"] == expected["overhead"][index]


def test_a_slower_step_is_called_slower_in_throughput_with_its_cause() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[::-1], SLOW))
    assert verdicts(comparison) == {
        "time_to_train": "inconclusive",
        "samples_to_converge": "inconclusive",
        "throughput": "slower",
        "overhead": "no difference shown",
    }
    whole = comparison.whole
    assert whole is not None and whole.runs_needed is not None and whole.runs_needed > 10
    assert whole.runs_needed_low is not None and whole.runs_needed_high is not None
    assert 10 < whole.runs_needed_low < whole.runs_needed < whole.runs_needed_high
    assert whole.adjusted_interval is not None
    assert comparison.verdict == "inconclusive"
    assert comparison.is_regression
    assert sentence(comparison) == (
        "No verdict. Measured time to train: 1.050x slower; the interval reaches from 1.012x faster to 1.12x slower. "
        "The detectable difference between two sets of 10 runs like these is 8.6 % (80 % power). "
        f"{whole.runs_needed_low} to {whole.runs_needed_high} runs per side should decide, if the difference "
        "is as measured. A difference is shown in throughput, 1.050x slower."
    )


def test_less_overhead_does_not_excuse_slower_steps_but_faster_convergence_does() -> None:
    # Evaluations took a third of the time; of slower steps they are a smaller share.
    wild = [0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.60, 0.70, 0.80]
    base = make_side("a", wild, RATES, [1.50] * 10)
    slower = make_side("b", wild[::-1], [rate / 1.1 for rate in RATES], [1 + 0.5 / 1.1] * 10)
    comparison = compare(base, slower)
    assert verdicts(comparison) == {
        "time_to_train": "inconclusive",
        "samples_to_converge": "inconclusive",
        "throughput": "slower",
        "overhead": "faster",
    }
    assert comparison.is_regression
    assert sentence(comparison).endswith(
        "A difference is shown in throughput, 1.10x slower; "
        "evaluation and overhead weigh 1.031x less beside the training."
    )
    traded = compare(
        make_side("a", LUCK, RATES), make_side("c", [one / 1.1 for one in LUCK], [rate / 1.1 for rate in RATES])
    )
    assert verdicts(traded)["samples_to_converge"] == "faster"
    assert (traded.verdict, traded.is_regression) == ("inconclusive", False)


def test_a_larger_share_of_overhead_is_no_regression_where_steps_were_faster_by_more() -> None:
    unsteady = [rate * factor for rate, factor in zip(RATES, [1.0, 2.0, 1.1, 1.9, 1.2] * 2, strict=True)]
    wild = [0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.60, 0.70, 0.80]
    for gain, is_regression in ((1.2, False), (1.0, True)):
        base = make_side("a", wild, unsteady, [1.05] * 10)
        new = make_side("b", wild[::-1], [rate * gain for rate in unsteady[::-1]], [1.10] * 10)
        comparison = compare(base, new)
        found = verdicts(comparison)
        assert (found["throughput"], found["overhead"]) == ("inconclusive", "slower")
        assert (comparison.verdict, comparison.is_regression) == ("inconclusive", is_regression)


def test_shared_seeds_are_compared_in_pairs_and_settle_more() -> None:
    seeds = list(range(10))
    unpaired = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW))
    paired = compare(make_side("a", LUCK, RATES, seeds=seeds), make_side("b", LUCK, SLOW, seeds=seeds))
    assert (unpaired.is_paired, paired.is_paired, paired.num_shared_seeds) == (False, True, 10)
    assert paired.whole is not None and unpaired.whole is not None
    assert paired.whole.interval is not None and "10 pairs of equal seeds" in paired.whole.interval.method
    assert paired.whole.interval.low > unpaired.whole.interval.low  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seeds", "is_paired", "num_shared"),
    [
        (list(range(10)), True, 10),
        ([*range(8), 80, 90], True, 8),
        ([*range(7), 70, 80, 90], False, 7),
        ([None] * 10, False, 0),
        # Whose partner would be whose?
        ([0, 0, *range(2, 10)], False, 0),
    ],
)
def test_pairs_need_most_runs_and_seeds_of_their_own(
    seeds: list[int | None], is_paired: bool, num_shared: int
) -> None:
    comparison = compare(make_side("a", LUCK, RATES, seeds=range(10)), make_side("b", LUCK, SLOW, seeds=seeds))
    assert (comparison.is_paired, comparison.num_shared_seeds) == (is_paired, num_shared)
    assert any("too few" in note for note in comparison.notes) == (num_shared == 7)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_fewer_than_five_runs_are_inconclusive_whatever_they_say(number: int) -> None:
    comparison = compare(
        make_side("a", LUCK[:number], RATES[:number]), make_side("b", LUCK, [rate / 3 for rate in RATES])
    )
    assert set(verdicts(comparison).values()) == {"inconclusive"}
    for one in comparison.factors:
        assert one.ratio is not None
        assert (one.interval is None) == (number == 1)
        # Five runs allow a verdict; how many it takes to reach one is not known.
        assert (one.adjusted_interval, one.runs_needed) == (None, None)
    text = sentence(comparison)
    assert f"too few runs (base {number}, new 10): a verdict takes at least 5 per side" in text
    assert "should decide" not in text


def test_more_runs_are_not_promised_to_settle_what_drift_may_explain() -> None:
    """A wide interval and speeds that lie far apart: the number of runs is not what is missing."""
    wild = [1000.0, 1300.0, 800.0, 1250.0, 900.0]
    sides = [
        make_side(label, LUCK[:5], [rate / by for rate in wild], turns=None)
        for label, by in (("a", 1.0), ("b", 1.06))
    ]
    comparison = compare(*sides)
    whole = comparison.whole
    assert whole is not None and (whole.verdict, whole.runs_needed) == ("inconclusive", None)
    assert "a noisy machine may explain" in str(whole.reason)
    assert "should decide" not in sentence(comparison)


@pytest.mark.parametrize(
    ("fewer_epochs", "expected"),
    [
        (1.1, "1.36x slower: 1.50x from throughput; 1.10x faster from convergence."),
        # No verdict, no cause.
        (1.02, "1.47x slower: 1.50x from throughput; no effect of convergence is shown."),
        (1.004, "1.49x slower: 1.50x from throughput."),
    ],
)
def test_a_factor_that_works_against_the_whole_is_said_as_such(fewer_epochs: float, expected: str) -> None:
    new = make_side("b", [one / fewer_epochs for one in LUCK], [rate / 1.5 for rate in RATES])
    assert sentence(compare(make_side("a", LUCK, RATES), new)) == expected


def test_no_factor_is_called_the_cause_where_none_has_a_verdict() -> None:
    known = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, [rate / 1.5 for rate in RATES]))
    unknown = tuple(replace(one, verdict="inconclusive") for one in known.factors[1:])
    text = sentence(replace(known, factors=(known.factors[0], *unknown)))
    assert text == "1.50x slower: the cause is not shown."


def test_identical_values_are_no_difference_and_no_certainty() -> None:
    same = compare(make_side("a", [0.7] * 10, [1000.0] * 10), make_side("b", [0.7] * 10, [1000.0] * 10))
    assert verdicts(same)["throughput"] == "no difference shown"
    assert same.whole is not None and same.whole.interval is not None
    assert same.whole.interval.low < 1 < same.whole.interval.high
    assert all(one.permutation_p == 1.0 and one.cliffs_delta == 0.0 for one in same.factors)


def test_a_factor_that_a_log_does_not_say_is_missing_and_the_time_stays() -> None:
    unknown = compare(make_side("a", LUCK, [*RATES[:-1], None]), make_side("b", LUCK, RATES))
    assert unknown.factor("throughput").ratio is None  # type: ignore[union-attr]
    assert unknown.factor("throughput").reason == "not known of base: a log does not say it"  # type: ignore[union-attr]
    assert unknown.whole is not None and unknown.whole.ratio is not None and unknown.whole.p_value is not None


def test_runs_that_fail_significantly_more_often_are_slower_whatever_the_rest_does() -> None:
    fast = [rate * 3 for rate in RATES]
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[:2], fast[:2], num_failed=8))
    assert comparison.verdict == "slower"
    assert comparison.is_regression
    assert comparison.converged_p == pytest.approx(0.000714, rel=1e-2)
    assert sentence(comparison) == "Slower: 2 of 10 runs reach the target, against 10 of 10 of base."


def test_no_run_converged_on_one_side() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", [], [], num_failed=10))
    assert comparison.verdict == "slower"
    assert {one.reason for one in comparison.factors} == {"not known of new: no run converged"}
    both = compare(make_side("a", [], [], num_failed=5), make_side("b", [], [], num_failed=5))
    assert both.verdict == "inconclusive"
    assert "0 of 5 runs reach the target" in sentence(both)


def test_survivors_get_no_praise() -> None:
    fast = [rate * 3 for rate in RATES]
    one = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[:9], fast[:9], num_failed=1))
    assert one.verdict == "faster", "one may fail, as Olympic scoring drops it"
    two = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[:8], fast[:8], num_failed=2))
    assert two.verdict == "inconclusive"
    assert verdicts(two)["throughput"] == "faster"
    assert two.whole is not None
    assert two.whole.reason == "faster only among the runs that converged, and too many of b did not"


# Speeds of unchanged code on a system that others used for minutes at a time, as measured.
BUSY = [104e3, 66e3, 126e3, 114e3, 51e3, 57e3, 71e3, 136e3, 111e3, 111e3]
CALMER = [136e3, 73e3, 188e3, 192e3, 178e3, 178e3, 208e3, 184e3, 174e3, 161e3]


def test_the_drift_of_a_disturbed_system_is_not_called_a_difference() -> None:
    base = make_side("a", LUCK, BUSY, turns=None)
    apart = compare(base, make_side("b", LUCK[::-1], CALMER, turns=None))
    assert verdicts(apart)["throughput"] == verdicts(apart)["time_to_train"] == "inconclusive"
    assert apart.factors[2].p_value is not None and apart.factors[2].p_value < 0.01
    assert "a noisy machine may explain" in str(apart.factors[2].reason)
    assert sentence(apart).startswith("No verdict. The sets were measured one after the other.")
    later = compare(base, make_side("b", LUCK[::-1], [rate * 2 for rate in CALMER], turns=None))
    assert verdicts(later)["throughput"] == "faster", "more than drift"


def test_runs_that_took_turns_meet_the_same_drift() -> None:
    turns = compare(
        make_side("a", LUCK, BUSY, starts=range(0, 20, 2)), make_side("b", LUCK[::-1], CALMER, starts=range(1, 21, 2))
    )
    assert verdicts(turns)["throughput"] == "faster"
    blocks = compare(
        make_side("a", LUCK, BUSY, starts=range(10)), make_side("b", LUCK[::-1], CALMER, starts=range(10, 20))
    )
    assert verdicts(blocks)["throughput"] == "inconclusive"


def test_the_family_grows_with_the_configurations() -> None:
    base, new = make_side("a", LUCK, RATES), make_side("b", LUCK[::-1], SLOW)
    alone, together = compare_results(base, [new])[0], compare_results(base, [new] * 6)[0]
    for one, other in zip(alone.factors, together.factors, strict=True):
        assert one.interval == other.interval
        assert other.adjusted_interval.confidence > one.adjusted_interval.confidence  # type: ignore[union-attr]


def test_huge_and_tiny_times_are_compared_alike() -> None:
    ratios = [
        compare(
            make_side("a", LUCK, [rate * scale for rate in RATES]),
            make_side("b", LUCK, [rate * scale for rate in SLOW]),
        ).whole.ratio  # type: ignore[union-attr]
        for scale in (1e-9, 1.0, 1e9)
    ]
    assert ratios == pytest.approx([ratios[0]] * 3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"benchmark": "dlrm_small"}, "different benchmark: dlrm_tiny and dlrm_small"),
        ({"quality_target": 0.8}, "different quality target: 0.7 and 0.8"),
        ({"benchmark": None}, "a log does not name its benchmark"),
        ({"division": "open"}, "different division: closed and open"),
        ({"log_sha256": "a 0"}, "are on both sides (equal logs)"),
    ],
)
def test_different_problems_are_refused_with_the_reason(changes: dict[str, object], why: str) -> None:
    other = make_side("b", LUCK, RATES)
    other = with_logs(other, [make_run("b", index, **changes) for index in range(10)])
    comparison = compare(make_side("a", LUCK, RATES), other)
    assert comparison.refusal is not None and why in comparison.refusal
    assert (comparison.factors, comparison.verdict) == ((), "inconclusive")
    assert sentence(comparison).startswith("Not compared: ")


def test_official_and_own_results_never_meet() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, RATES, status="official"))
    assert comparison.refusal == "different status: own and official benchmarks are never compared"


@pytest.mark.parametrize(
    ("hardware", "is_cross_system"),
    [
        ({"accelerator_model_name": "B"}, True),
        ({"accelerator_model_name": "A"}, False),
        # Where only one side describes itself, names decide.
        ({}, False),
    ],
)
def test_systems_are_distinguished_by_their_hardware(hardware: dict[str, str], is_cross_system: bool) -> None:
    described = System(name="box", fields=(("accelerator_model_name", "A"), ("number_of_nodes", "1")))
    base = make_side("a", LUCK, RATES, system=described)
    new = make_side("b", LUCK, SLOW, system=System(name="box", fields=tuple(hardware.items())))
    assert compare(base, new).is_cross_system is is_cross_system
    assert compare(base, make_side("b", LUCK, SLOW, system=System(name="other"))).is_cross_system


def test_what_was_set_differently_is_listed() -> None:
    base = make_side("a", LUCK, RATES, stated=(("global_batch_size", "512"), ("runtime.threads", "2")))
    new = make_side("b", LUCK, RATES, stated=(("global_batch_size", "1024"), ("runtime.device", "cpu")))
    assert tuple(map(astuple, compare(base, new).changes)) == (
        ("global_batch_size", "512", "1024"),
        ("runtime.threads", "2", None),
        ("runtime.device", None, "cpu"),
    )


def test_throughput_alone_is_compared_alone_and_never_with_runs() -> None:
    about = {"kind": "throughput", "source": "records", "quantities": ("throughput",)}
    base, new = (make_side(label, LUCK, rates, **about) for label, rates in (("a", RATES), ("b", SLOW)))
    comparison = compare(base, new)
    assert verdicts(comparison) == {"throughput": "slower"}
    assert comparison.verdict == "slower"
    assert sentence(comparison) == "1.050x slower."
    mixed = compare(base, make_side("c", LUCK, RATES))
    assert mixed.refusal is not None and "a measurement of throughput alone" in mixed.refusal


def write_tiny(root: Path, *, throughput: float, start: int = 1) -> Path:
    many = [
        make_records(
            TINY,
            num_evals=usual_evals(TINY) - 1 + i % 3,
            seed=start + i,
            start_ms=1_790_000_000_000 + i * 100_000,
            throughput=throughput * (1 + 0.001 * (i % 4)),
        )
        for i in range(5)
    ]
    return write_set(root, TINY, many)


def test_gathered_sets_are_compared_by_what_their_logs_say(tmp_path: Path) -> None:
    write_tiny(tmp_path / "a", throughput=20_000.0)
    write_tiny(tmp_path / "b", throughput=10_000.0, start=50)
    a, b = gather([tmp_path])
    (comparison,) = compare_results(a, [b], context=context_of([a, b]))
    assert comparison.refusal is None and not comparison.is_cross_system
    assert comparison.factor("throughput").ratio == pytest.approx(0.5, rel=1e-3)  # type: ignore[union-attr]
    assert comparison.olympic_ratio == pytest.approx(b.score.olympic_mean_s / a.score.olympic_mean_s)  # type: ignore[operator]
    assert comparison.verdict == "slower"
    assert sentence(comparison).startswith("2.00x slower (1.78x to 2.2x): 2.00x from throughput")
    assert compare_results(a, [b, b])[1].factors[0].ratio == comparison.factors[0].ratio
    assert compare_results(a, [a])[0].refusal is not None


def test_the_grid_of_evaluations_comes_from_the_log(tmp_path: Path) -> None:
    """Five runs that end at the same evaluation leave the convergence of others open."""
    for name, start in (("a", 1), ("b", 50)):
        alike = [make_records(TINY, num_evals=10, seed=start + i, start_ms=(start + i) * 100_000) for i in range(5)]
        write_set(tmp_path / name, TINY, alike)
    a, b = gather([tmp_path])
    convergence = compare_results(a, [b], context=context_of([a, b]))[0].factor("samples_to_converge")
    assert convergence is not None and convergence.interval is not None
    assert (convergence.ratio, convergence.verdict) == (1.0, "inconclusive")
    assert convergence.interval.high > 1.03


@pytest.mark.parametrize(
    ("new", "keys", "words"),
    [("2", (), "with 2 threads against 4"), ("1", (), "with 1 thread against 4"), ("2", {"runtime.threads"}, "")],
)
def test_threads_that_were_not_given_are_said_beside_what_was(new: str, keys: Collection[str], words: str) -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, RATES))
    changes = (Change(name="train.b", base="1", new="2"), Change(name="runtime.threads", base="4", new=new))
    assert threads_words(comparison, keys) == ""
    assert threads_words(replace(comparison, changes=changes), keys) == words
