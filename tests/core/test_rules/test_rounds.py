"""Which round's rules judge, and what may be compared."""

from dataclasses import replace

import pytest
from log_builder import make_records, to_log

from rules.benchmarks.loader import load_benchmark
from rules.benchmarks.rounds import infer_round
from rules.errors import DefinitionError
from rules.scoring.comparable import problem_of, why_not_comparable
from rules.scoring.results import read_run_result

TINY, DCNV2, DLRM = (load_benchmark(name) for name in ("dlrm_tiny", "dlrm_dcnv2", "dlrm"))
A = read_run_result(to_log(make_records(TINY)), TINY)


def test_round_asked_for_wins_then_the_tree_then_the_last() -> None:
    assert infer_round(DCNV2, "5.0", "4.1") == "4.1"
    assert infer_round(DCNV2, "5.0", "v5.1.0") == "5.1"
    assert infer_round(DCNV2, "5.0") == "5.0"
    assert infer_round(DCNV2, None) == "6.0"
    assert infer_round(DCNV2, "2.1") == "6.0"
    assert infer_round(DLRM, None) == "2.1"
    assert infer_round(TINY, "5.0") is None
    assert infer_round(None, None) is None


@pytest.mark.parametrize(
    ("benchmark", "asked", "message"),
    [
        (DCNV2, "6.1", "has no benchmark"),
        (DCNV2, "9.9", "Known"),
        (TINY, "6.0", "its own definition"),
        (None, "x", "Known"),
    ],
)
def test_impossible_rounds_are_refused(benchmark, asked: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DefinitionError, match=message):
        infer_round(benchmark, None, asked)


def test_what_differs_only_in_what_is_compared_may_be_compared() -> None:
    other = replace(A, platform="other", organization="other", global_batch_size=7, seed=2, learning_rate=1.0)
    assert why_not_comparable(A, other) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("benchmark", "dlrm_small"), ("benchmark_version", 99), ("quality_target", 0.5), ("definition_sha256", "0" * 64),
     ("dataset_sha256", "0" * 64), ("division", "open"), ("train_samples", 1), ("eval_samples", 1)],
)  # fmt: skip
def test_another_problem_is_not_compared(field: str, value: object) -> None:
    reason = why_not_comparable(A, replace(A, **{field: value}))
    assert reason is not None and str(value) in reason
    assert why_not_comparable(replace(A, **{field: value}), A) is not None


@pytest.mark.parametrize("field", ["definition_sha256", "dataset_sha256", "benchmark_version"])
def test_what_published_logs_do_not_say_does_not_separate(field: str) -> None:
    assert why_not_comparable(A, replace(A, **{field: None})) is None


def test_runs_of_one_problem_are_alike_to_all_others() -> None:
    """So a page asks once for all of them: nothing else of a run is looked at."""

    class Watched:
        def __init__(self) -> None:
            self.asked: set[str] = set()

        def __getattr__(self, name: str) -> object:
            self.asked.add(name)
            return getattr(A, name)

    compared, named = Watched(), Watched()
    assert why_not_comparable(compared, A) is None  # type: ignore[arg-type]
    problem_of(named)
    assert compared.asked == named.asked != set()


def test_logs_without_a_benchmark_are_not_compared() -> None:
    assert why_not_comparable(replace(A, benchmark=None), A) is not None


def test_a_dropped_last_batch_does_not_separate_but_a_whole_one_does() -> None:
    full = replace(A, train_samples=4_195_197_692, global_batch_size=65_536)
    assert why_not_comparable(full, replace(full, train_samples=4_195_155_968)) is None
    assert why_not_comparable(full, replace(full, train_samples=4_195_197_692 - 65_536)) is not None


@pytest.mark.parametrize("field", ["train_samples", "eval_samples"])
def test_of_published_logs_a_hundredth_of_the_samples_may_be_left_out(field: str) -> None:
    """They are valid with HP103's warning, and so may be compared; logs with digests are exact."""
    full = replace(A, train_samples=4_195_197_692, eval_samples=89_137_319, definition_sha256=None)
    number = getattr(full, field)
    assert why_not_comparable(full, replace(full, **{field: number - number // 101})) is None
    assert why_not_comparable(full, replace(full, **{field: number - number // 99})) is not None
    known = replace(full, definition_sha256="0" * 64)
    assert why_not_comparable(known, replace(known, **{field: number - number // 101})) is not None
