"""The page of a search has its regret, trial by trial, as a chart."""

import re

import pytest

from harness.extensions.tuning.records import REGRET
from harness.foundation.study import make_study, make_table
from reports.document.blocks import Chart, Table
from reports.page.studies.study import study_sections


@pytest.mark.parametrize("name", [REGRET, "Regret"])
def test_regret_is_a_dot_per_trial_from_the_first_feasible_one_by_its_older_name_too(name: str) -> None:
    columns = [("Trial", None, "given"), (name, "share", "computed")]
    trials = make_table("Trials", columns, [(1, None), (2, 0.5), (3, 0.0)])  # type: ignore[arg-type]
    sides = make_table("Sides", [("Pairs", None, "measured")], [(5,)])
    study = make_study("tune", "a search", None, tables=[trials, sides], findings=[], parameters=[])
    first, second = study_sections(study, "s")
    (chart,) = (block for block in first.blocks if isinstance(block, Chart))
    assert not [block for block in second.blocks if isinstance(block, Chart)]
    hints = sorted(set(re.findall(r"trial \d: [\d.]+ ?%", str(chart.figure))))
    assert hints == ["trial 2: 50.0 %", "trial 3: 0.0 %"]


def test_columns_that_say_nothing_are_not_on_the_page_and_a_table_without_rows_keeps_its_own() -> None:
    columns = [("Trial", None, "given"), ("Failure", None, "given"), (REGRET, "share", "computed")]
    full = make_table("Trials", columns, [(1, None, 0.5), (2, None, None)])  # type: ignore[arg-type]
    none = make_table("None", columns, [])  # type: ignore[arg-type]
    study = make_study("tune", "a search", None, tables=[full, none], findings=[], parameters=[])
    tables = [next(block for block in each.blocks if isinstance(block, Table)) for each in study_sections(study, "s")]
    heads = [[column.name for column in table.columns] for table in tables]
    assert heads[0] == ["Trial (given)", f"{REGRET} (computed)"] and len(heads[1]) == 3
    assert [[cell.text for cell in row] for row in tables[0].rows] == [["1", "50.0 %"], ["2", "—"]]
