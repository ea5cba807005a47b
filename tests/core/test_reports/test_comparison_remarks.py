"""What a comparison says of itself: rejected sides, the interval that decides, its method, different systems."""

from dataclasses import replace
from pathlib import Path

import pytest
from comparison_builder import make_side
from msgspec.structs import astuple
from records_builder import run_set_content
from report_builder import write_run_set

from reports.comparison.comparability import ONE_SYSTEM
from reports.comparison.comparison import compare_results
from reports.comparison.export import factor_cells, method_line, permutation_note
from reports.comparison.records import Comparison
from reports.comparison.wording import sentence
from reports.document.blocks import Chart, Fold, Prose, Table, in_portions
from reports.page.figures.detail import MOST_DETAILED, MOST_WHOLE
from reports.page.sections.comparison import comparison_section, why_section
from reports.page.sections.verdict import verdict_table
from reports.results.logs import gather
from reports.results.records import software_of
from reports.results.result import Result, System
from reports.views.comparison import comparison_blocks
from rules.records.codec import convert
from rules.records.run_set import RunSetRecord

LUCK = [0.65, 0.70, 0.70, 0.75, 0.70, 0.65, 0.75, 0.70, 0.70, 0.75]
RATES = [1000.0, 1003.0, 998.0, 1001.0, 1000.5, 999.0, 1002.0, 997.0, 1000.0, 1001.5]
SLOW = [rate / 1.05 for rate in reversed(RATES)]


def compare(base: Result, new: Result) -> Comparison:
    return compare_results(base, [new])[0]


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {factor.name: factor.verdict for factor in comparison.factors}


def test_a_set_that_the_rules_reject_is_named_before_any_verdict() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW, outcome="invalid"))
    assert comparison.invalid_sides == ("new",)
    assert sentence(comparison).startswith("INVALID by the rules: new. ")
    assert not sentence(compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW))).startswith("INVALID")


def test_another_model_file_is_named_as_what_may_be_the_reason() -> None:
    """Its digest is in the configuration and not in the definition, which two such sets share."""
    sides = [
        make_side(label, LUCK, RATES, stated=(("runtime.model", f"mine.py:SPEC@{digit * 64}"),))
        for label, digit in (("a", "1"), ("b", "2"))
    ]
    comparison = compare(*sides)
    assert [change.name for change in comparison.changes] == ["runtime.model"]
    assert any("runtime.model differs" in note for note in comparison.notes)
    assert not any("runtime.model" in note for note in compare(sides[0], replace(sides[0], label="b")).notes)


@pytest.mark.parametrize(
    ("base_outcome", "new_outcome", "words"),
    [("valid", "invalid", " (INVALID)"), ("invalid", "valid", " (baseline INVALID)"), ("valid", "valid", "")],
)
def test_beside_a_side_that_the_rules_reject_no_verdict_is_coloured(
    tmp_path: Path, base_outcome: str, new_outcome: str, words: str
) -> None:
    for label in ("a", "b"):
        write_run_set(tmp_path / label)
    group = gather([tmp_path], second_opinion=False)
    slow = make_side("b", LUCK, [rate / 2 for rate in RATES], outcome=new_outcome)
    comparisons = compare_results(make_side("a", LUCK, RATES, outcome=base_outcome), [slow])
    verdict_rows = verdict_table(group, "t", comparisons)
    (column,) = [index for index, column in enumerate(verdict_rows.columns) if column.name == "Against"]
    against = verdict_rows.rows[1][column]
    assert (against.text, against.kind) == (f"2.00× slower{words}", "" if words else "bad")
    why, section = (make(group[0], comparisons, "g") for make in (why_section, comparison_section))
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert table.rows[0][1].text == f"slower{words}"
    assert ("bad" in {row[1].kind for row in table.rows}) == (not words)
    (chart,) = [block for block in why.blocks if isinstance(block, Chart)]
    assert f"b: slower{words}<" in chart.figure.wide
    marks = {key.mark for key in chart.figure.keys}
    assert ("slower" in marks) == ('class="slower"' in chart.figure.wide) == (not words)


def test_of_many_comparisons_the_first_are_shown_with_all_factors() -> None:
    """Beyond MOST_WHOLE comparisons, MOST_DETAILED of them."""
    base = make_side("a", LUCK, RATES)
    comparisons = compare_results(base, [make_side(f"b{number}", LUCK, SLOW) for number in range(MOST_WHOLE)])
    (fold,) = [block for block in comparison_section(base, comparisons, "g").blocks if isinstance(block, Fold)]
    assert fold.summary == f"All factors of {MOST_DETAILED} comparisons"
    (table,) = fold.blocks
    assert len(table.rows) == 4 * MOST_DETAILED
    few = comparison_section(base, comparisons[:5], "g")
    assert [block.summary for block in few.blocks if isinstance(block, Fold)] == ["All factors of all 5 comparisons"]


def test_the_table_and_the_sentence_give_the_interval_that_decides() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[::-1], SLOW))
    whole = comparison.whole
    assert whole is not None and whole.adjusted_interval is not None and whole.interval != whole.adjusted_interval
    assert f"({whole.adjusted_interval.low:.3f} – {whole.adjusted_interval.high:.3f})" in str(factor_cells(whole)[3])
    line = method_line([comparison])
    assert "Holm-adjusted to hold together at 95.0 % over 4 tests" in line and "2 standard deviations" in line


def test_the_page_says_the_method_and_the_circumstances_as_the_terminal_does(tmp_path: Path) -> None:
    (base,) = gather([write_run_set(tmp_path / "base")], second_opinion=False)
    news = [
        make_side("b", LUCK, SLOW, system=System(name="other"), outcome="invalid"),
        make_side("c", LUCK[:4], SLOW[:4]),
    ]
    comparisons = compare_results(make_side(base.label, LUCK, RATES), news)
    section = comparison_section(base, comparisons, "g")
    remarks_shown = [block.text for block in section.blocks if isinstance(block, Prose)]
    assert remarks_shown[-1] == f"{method_line(comparisons)} {permutation_note(comparisons)}"
    assert f"b: cross-system: the recorded systems of the compared sets differ. {ONE_SYSTEM}" in remarks_shown
    assert "b: INVALID by the rules; 'dlrmbench check' says why." in remarks_shown
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [row[1].sub for row in table.rows][::4][0].startswith("'b' is INVALID by the rules;")
    assert "too few runs" in table.rows[4][1].sub


def test_of_many_comparisons_the_first_chart_has_one_bar_each_and_counts_the_verdicts(tmp_path: Path) -> None:
    (base,) = gather([write_run_set(tmp_path / "base")], second_opinion=False)
    news = [make_side(f"b{n}", LUCK, SLOW) for n in range(6)] + [make_side(f"c{n}", LUCK, RATES) for n in range(4)]
    comparisons = compare_results(make_side(base.label, LUCK, RATES), news)
    why = why_section(base, comparisons, "g")
    charts = [block for block in why.blocks if isinstance(block, Chart)]
    verdicts = [one.verdict for one in comparisons]
    assert len(charts) == 1 and f"{verdicts.count(verdicts[0])} {verdicts[0]}" in charts[0].lead
    assert all(f">{one.new}<" in charts[0].figure.wide for one in comparisons)
    assert "Samples to converge" not in charts[0].figure.wide
    assert sum(isinstance(block, Fold) for block in why.blocks) == 2


def test_a_hundred_folds_are_five_and_none_is_lost() -> None:
    folds = [Fold(summary=str(number), blocks=()) for number in range(100)]
    portions = in_portions(folds)
    assert [one.summary for one in portions][-2:] == ["Configurations 73 to 96", "Configurations 97 to 100"]
    assert [fold for one in portions for fold in one.blocks] == folds
    assert in_portions(folds[:24]) == tuple(folds[:24])


@pytest.mark.parametrize(("number", "is_mentioned"), [(5, True), (6, False)])
def test_a_permutation_p_that_cannot_be_small_is_mentioned(number: int, is_mentioned: bool) -> None:
    sides = [
        make_side(label, LUCK[:number], rates[:number], seeds=range(number))
        for label, rates in (("a", RATES), ("b", SLOW))
    ]
    note = permutation_note([compare(*sides)])
    assert ("With 5 pairs the permutation test's p cannot fall below 0.0625." in note) == is_mentioned


def test_a_missing_description_is_no_other_system() -> None:
    base = make_side("a", LUCK, RATES)
    assert not compare(base, make_side("b", LUCK, SLOW, system=System())).is_cross_system
    assert compare(base, make_side("b", LUCK, SLOW, system=System(name="other"))).is_cross_system


def test_no_accelerator_is_the_same_whether_it_is_said_as_not_applicable_or_not_at_all() -> None:
    sides = [
        make_side("a", LUCK, RATES, system=System(name="box", fields=(("accelerator_model_name", text),)))
        for text in ("N/A", "", "A")
    ]
    assert not compare(sides[0], sides[1]).is_cross_system
    assert compare(sides[0], sides[2]).is_cross_system


def test_other_software_is_listed_among_what_differs() -> None:
    content = run_set_content(harness_version="0.2.0", environment={"commit": "abc", "num_cores": 2})
    record = convert(content, RunSetRecord)
    assert software_of(record) == (("dlrmbench", "0.2.0"), ("commit", "abc")), "cores are no software"
    base = make_side("a", LUCK, RATES, stated=(("dlrmbench", "0.1.0"), ("commit", "abc")))
    comparison = compare(base, make_side("b", LUCK, SLOW, stated=software_of(record)))
    assert [astuple(change) for change in comparison.changes] == [("dlrmbench", "0.1.0", "0.2.0")]


def test_equal_convergence_of_every_pair_is_identical_and_not_inconclusive() -> None:
    """A setting that changes no update leaves the samples to converge of every seed as they are."""
    seeds = range(len(LUCK))
    paired = compare(make_side("a", LUCK, RATES, seeds=seeds), make_side("b", LUCK, SLOW, seeds=seeds))
    assert verdicts(paired)["samples_to_converge"] == "identical"
    factor = paired.factor("samples_to_converge")
    assert factor is not None and factor_cells(factor)[-1] == "identical in all 10 pairs"
    assert "convergence" not in sentence(paired)
    one_differs = [*LUCK[:-1], LUCK[-1] + 0.05]
    other = compare(make_side("a", LUCK, RATES, seeds=seeds), make_side("b", one_differs, SLOW, seeds=seeds))
    unpaired = compare(make_side("a", LUCK, RATES), make_side("b", LUCK, SLOW))
    assert "identical" not in (*verdicts(other).values(), *verdicts(unpaired).values())


def test_the_printed_means_say_that_a_score_is_another_mean() -> None:
    comparison = compare(make_side("a", LUCK, RATES), make_side("b", LUCK[::-1], SLOW))
    tables = [block for block in comparison_blocks([comparison]) if isinstance(block, Table)]
    assert "geometric means" in tables[0].caption and "a score is an Olympic mean" in tables[0].caption
    overhead = next(row for row in tables[0].rows if row[0].text == "overhead")
    assert overhead[1].text == "1.100 (9.1 %)"
