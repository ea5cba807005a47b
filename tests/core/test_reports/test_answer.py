"""The sentence that a page of several configurations opens with: the fastest, those not apart, the INVALID."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from comparison_builder import make_side
from log_builder import make_runs, with_record, write_set
from records_builder import run_set_content
from report_builder import Page, write_run_set

from reports.comparison.comparison import compare_results, context_of
from reports.page.answer import BATCH_SIZE, answer
from reports.page.content import gather_everything
from reports.page.report import render_report
from rules.benchmarks.loader import load_benchmark
from rules.judge import second_opinion
from rules.official.opinion import CheckerQuery, OfficialOpinion, OpinionOutcome
from rules.records.codec import convert
from rules.records.run_set import RunSetRecord

TINY = load_benchmark("dlrm_tiny")
CODES = "HP101"
SMALL = " on dlrm_tiny: below the smallest effect, time to train of 5 pairs of runs, measured alternately (A/B)"
OF_THREE = " is the fastest of 3 configurations of dlrm_tiny"
OF_PAIRS = " on dlrm_tiny: time to train of 5 pairs of runs, measured alternately (A/B)"


def title(folder: Path, *, is_asked: bool = False, **options: str) -> str:
    page = Page(render_report(gather_everything([folder], second_opinion=is_asked), **options))  # type: ignore[arg-type]
    return page.html.partition("<h1>")[2].partition("</h1>")[0].replace("\u00a0", " ")


def write(folder: Path, name: str, throughput: float, *, is_valid: bool = True, num_runs: int = 5) -> None:
    runs = make_runs(TINY, num_runs, throughput=throughput, num_evals=13)
    if not is_valid:
        runs = [with_record(records, "opt_adagrad_epsilon", value=0.5) for records in runs]
    write_run_set(folder / name, runs=runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ({"a": 4000.0, "b": 9000.0, "c": 2000.0}, f"b{OF_THREE}, in 25.40 s, 2.25× faster than the next"),
        (
            {"a": 4000.0, "b": 9000.0, "c": 8990.0},
            f"b{OF_THREE}, in 25.40 s; not shown to differ from it: c",
        ),
        (
            {"a": 8980.0, "b": 9000.0, "c": 8990.0},
            "The fastest of 3 configurations of dlrm_tiny, b, is not shown to differ from any other",
        ),
        (
            {"a": 9000.0, "b": 4500.0},
            "b trains 2.00× slower than a on dlrm_tiny: time to train of 5 pairs of runs, measured alternately (A/B)",
        ),
        (
            {"a": 8990.0, "b": 9000.0},
            "b against a on dlrm_tiny: below the smallest effect, "
            "time to train of 5 pairs of runs, measured alternately (A/B)",
        ),
    ],
)
def test_several_configurations_open_with_the_fastest(
    tmp_path: Path, speeds: dict[str, float], expected: str
) -> None:
    for name, throughput in speeds.items():
        write(tmp_path, name, throughput)
    assert title(tmp_path) == expected
    assert title(tmp_path, order="score") == expected


def test_what_the_rules_reject_is_named_and_is_not_the_fastest(tmp_path: Path) -> None:
    for name, throughput, is_valid in (("a", 4000.0, True), ("b", 9000.0, False), ("c", 2000.0, True)):
        write(tmp_path, name, throughput, is_valid=is_valid)
    found = "a is the fastest of 2 configurations of dlrm_tiny that the rules accept"
    assert title(tmp_path) == f"{found}, in 57.11 s, 2.00× faster than the next; INVALID: b"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speeds", "invalid", "expected"),
    [
        ({"a": 4000.0, "b": 9000.0}, "b", f"b (INVALID: {CODES}) trains 2.25× faster than a{OF_PAIRS}"),
        ({"a": 4000.0, "b": 9000.0}, "a", f"b trains 2.25× faster than a (INVALID: {CODES}){OF_PAIRS}"),
        (
            {"a": 4000.0, "b": 9000.0},
            "ab",
            f"b (INVALID: {CODES}) trains 2.25× faster than a (INVALID: {CODES}){OF_PAIRS}",
        ),
        ({"a": 8990.0, "b": 9000.0}, "b", f"b (INVALID: {CODES}) against a{SMALL}"),
        ({"a": 8990.0, "b": 9000.0}, "ab", f"b (INVALID: {CODES}) against a (INVALID: {CODES}){SMALL}"),
        ({"b": 9000.0}, "b", f"dlrm_tiny trained to AUC {TINY.quality.target:.5f} in 25.40 s, INVALID by the rules"),
        ({"a": 8980.0, "b": 9000.0, "c": 8990.0}, "abc", "3 configurations of dlrm_tiny; INVALID: a, b, c"),
    ],
)
def test_no_title_names_what_the_rules_reject_without_saying_so(
    tmp_path: Path, speeds: dict[str, float], invalid: str, expected: str
) -> None:
    for name, throughput in speeds.items():
        write(tmp_path, name, throughput, is_valid=name not in invalid)
    assert title(tmp_path) == expected


@pytest.mark.parametrize(
    ("num_pairs", "expected"),
    [
        (
            10,
            "{new} is not shown to differ from {base} on dlrm_tiny: "
            "time to train of 10 pairs of runs, measured alternately (A/B)",
        ),
        (
            5,
            "{new} against {base} on dlrm_tiny: inconclusive, "
            "time to train of 5 pairs of runs, measured alternately (A/B)",
        ),
    ],
)
def test_a_pair_keeps_names_and_answer_where_both_sides_are_invalid(num_pairs: int, expected: str) -> None:
    """Sides without logs have no rules to name."""
    rates = [1000.0 + index for index in range(num_pairs)]
    base, new = (
        make_side(
            label,
            [0.65, 0.7, 0.7, 0.75, 0.7] * (num_pairs // 5),
            rates[::step],
            seeds=range(num_pairs),
            outcome="invalid",
            asked=convert(run_set_content(config={BATCH_SIZE: {"value": batch, "source": "option"}}), RunSetRecord),
        )
        for label, batch, step in (("base", 512, 1), ("new", 1024, -1))
    )
    names = {"base": "global_batch_size=512 (INVALID)", "new": "global_batch_size=1024 (INVALID)"}
    comparisons = compare_results(base, [new])
    assert answer((base, new), comparisons, context_of((base, new))) == expected.format(**names)


def test_where_no_configuration_has_a_score_the_runs_that_reached_the_target_decide(tmp_path: Path) -> None:
    for name, throughput in (("a", 4000.0), ("b", 9000.0), ("c", 2000.0)):
        write(tmp_path, name, throughput, num_runs=3)
    assert title(tmp_path) == "The fastest of 3 configurations of dlrm_tiny, b, is not shown to differ from any other"


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ("valid", ", which the official checker does not test (it says SUCCESS)"),
        pytest.param("invalid", "", marks=pytest.mark.slow),
        pytest.param("crash", "", marks=pytest.mark.slow),
    ],
)
def test_of_published_results_the_invalid_ones_are_said_to_be_so_here_and_by_which_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: OpinionOutcome, ends: str
) -> None:
    def ask(questions: Sequence[CheckerQuery], *_: object) -> tuple[OfficialOpinion, ...]:
        return tuple(
            OfficialOpinion(checker=q.checker, tool="", ruleset=f"{q.round}.0", subject=str(q.path), outcome=said)
            for q in questions
        )

    monkeypatch.setattr(second_opinion, "ask_official_checkers", ask)
    dcnv2 = load_benchmark("dlrm_dcnv2")
    broken = [with_record(records, "opt_adagrad_epsilon", value=0.5) for records in make_runs(dcnv2, ours=False)]
    for name, runs in (("Fine", make_runs(dcnv2, ours=False)), ("Broken", broken)):
        write_set(tmp_path / name, dcnv2, runs, ours=False)
    expected = f"INVALID here by HP101{ends}"
    assert title(tmp_path, is_asked=True) == f"2 configurations of dlrm_dcnv2: 1 VALID, 1 {expected}"
    assert title(tmp_path / "Broken", is_asked=True).endswith(f", {expected}")


@pytest.mark.parametrize(
    ("num_runs", "expected"),
    [
        pytest.param(
            {"A": 10, "B": 10},
            "2 configurations of dlrm_dcnv2, in 3,244.033 min (A · example) and 3,244.033 min (B · example), "
            "MLCommons verification unknown: both VALID by the rules",
            marks=pytest.mark.slow,
        ),
        ({"A": 10, "B": 10, "C": 3}, "3 configurations of dlrm_dcnv2: 2 VALID, 1 INCOMPLETE here: 3 of 10 logs"),
    ],
)
def test_the_title_of_official_results_says_what_the_rules_say_of_them(
    tmp_path: Path, num_runs: dict[str, int], expected: str
) -> None:
    dcnv2 = load_benchmark("dlrm_dcnv2")
    for name, number in num_runs.items():
        write_set(tmp_path / name, dcnv2, make_runs(dcnv2, number, ours=False), ours=False)
    assert title(tmp_path) == expected


def test_of_several_problems_each_opens_with_its_own_sentence(tmp_path: Path) -> None:
    for name, throughput in (("a", 4000.0), ("b", 9000.0), ("c", 2000.0)):
        write(tmp_path, name, throughput)
    write_set(tmp_path / "Org", load_benchmark("dlrm_dcnv2"), ours=False)
    page = Page(render_report(gather_everything([tmp_path], second_opinion=False)))
    assert "<h1>4 configurations of dlrm_dcnv2, dlrm_tiny</h1>" in page.html
    assert f'<p class="dek">b{OF_THREE}, in 25.40 s, 2.25× faster than the next.</p>' in page.html
