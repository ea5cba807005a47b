"""The page of a search has its regret, trial by trial, as a chart."""

import re

from harness.foundation.study import make_study, make_table
from reports.document.blocks import Chart
from reports.page.studies.study import study_sections


def test_regret_is_a_dot_per_trial_from_the_first_feasible_one() -> None:
    columns = [("Trial", None, "given"), ("Regret", "share", "computed")]
    trials = make_table("Trials", columns, [(1, None), (2, 0.5), (3, 0.0)])  # type: ignore[arg-type]
    sides = make_table("Sides", [("Pairs", None, "measured")], [(5,)])
    study = make_study("tune", "a search", None, tables=[trials, sides], findings=[], parameters=[])
    first, second = study_sections(study, "s")
    (chart,) = (block for block in first.blocks if isinstance(block, Chart))
    assert not [block for block in second.blocks if isinstance(block, Chart)]
    hints = sorted(set(re.findall(r"trial \d: [\d.]+ ?%", str(chart.figure))))
    assert hints == ["trial 2: 50.0 %", "trial 3: 0.0 %"]
