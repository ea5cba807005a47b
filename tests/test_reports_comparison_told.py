"""What a comparison tells of itself: rejected sides, the interval that decides, its method, unlike systems."""

import pytest
from comparison_builder import make_side

from reports.comparison import Comparison, compare_sides
from reports.comparison_export import factor_cells, method_line, remarks
from reports.extras import read_run_set, software_of
from reports.sides import Side
from reports.wording import sentence

LUCK = [0.65, 0.70, 0.70, 0.75, 0.70, 0.65, 0.75, 0.70, 0.70, 0.75]
RATES = [1000.0, 1003.0, 998.0, 1001.0, 1000.5, 999.0, 1002.0, 997.0, 1000.0, 1001.5]
SLOW = [rate / 1.05 for rate in reversed(RATES)]


def compare(base: Side, new: Side) -> Comparison:
    return compare_sides(base, [new])[0]


def test_a_set_that_the_rules_reject_is_named_before_any_verdict() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW, outcome="invalid"))
    assert comparison.invalid_sides == ("new",)
    assert sentence(comparison).startswith("INVALID by the rules: new. ")
    assert not sentence(compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW))).startswith("INVALID")


def test_the_table_and_the_sentence_give_the_interval_that_decides() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[::-1], SLOW))
    whole = comparison.whole
    assert whole is not None and whole.adjusted_interval is not None and whole.interval != whole.adjusted_interval
    assert f"({whole.adjusted_interval.low:.3f} – {whole.adjusted_interval.high:.3f})" in str(factor_cells(whole)[3])
    line = method_line([comparison])
    assert "Holm-adjusted to hold 95.0 % over 4 tests" in line and "2 standard deviations" in line


@pytest.mark.parametrize(("number", "is_told"), [(5, True), (6, False)])
def test_a_permutation_p_that_cannot_be_small_is_told(number: int, is_told: bool) -> None:
    sides = [
        make_side(label, LUCK[:number], rates[:number], seeds=range(number))
        for label, rates in (("a", RATES), ("b", SLOW))
    ]
    assert any("cannot fall below 0.0625 with 5 pairs" in one for one in remarks(compare(*sides))) == is_told


def test_a_missing_description_is_no_other_system() -> None:
    base = make_side("a", LUCK, RATES)
    assert not compare(base, make_side("b", LUCK, SLOW, system=None)).is_cross_system
    assert compare(base, make_side("b", LUCK, SLOW, system="other")).is_cross_system


def test_other_software_is_listed_among_what_differs() -> None:
    record = read_run_set({"harness_version": "0.2.0", "environment": {"commit": "abc", "num_cores": 2}})
    assert software_of(record) == (("dlrmbench", "0.2.0"), ("commit", "abc")), "cores are no software"
    base = make_side("a", LUCK, RATES, settings=(("dlrmbench", "0.1.0"), ("commit", "abc")))
    comparison = compare(base, make_side("b", LUCK, SLOW, settings=software_of(record)))
    assert comparison.changes == (("dlrmbench", "0.1.0", "0.2.0"),)
