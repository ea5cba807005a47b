"""What a log of this harness must hold: removing, doubling, retyping or moving any of it is found."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_builder import Record, make_records, to_log

from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.checks.rule import Outcome, judge
from rules.checks.subject import make_log_subject
from rules.judge.families import RULES

OWN = [load_benchmark(name) for name in ("dlrm_tiny", "dlrm_small")]
ALL = [*OWN, load_benchmark("dlrm_dcnv2"), load_benchmark("dlrm")]
TINY = OWN[0]
SAMPLES, BATCH = int(TINY.sections["data"]["train_samples"]), int(TINY.sections["train"]["global_batch_size"])
BASE = make_records(TINY, num_evals=3)
ANY_TEXT = ("submission_org", "submission_platform", "implementation")
"""Keys whose value may be any text; a number above 0 may be any such number for the free learning rate."""


def outcomes_of(records: list[Record], benchmark: Benchmark = TINY) -> tuple[Outcome, ...]:
    round_name = benchmark.rounds[-1] if benchmark.rounds else None
    return judge(RULES["log"], make_log_subject(to_log(records), benchmark, round_name), "result_0.txt")


def has_error(records: list[Record], benchmark: Benchmark = TINY) -> bool:
    findings = [finding for outcome in outcomes_of(records, benchmark) for finding in outcome.findings]
    return any(finding.severity == "error" for finding in findings)


def changed(index: int, **fields: Any) -> list[Record]:
    records = copy.deepcopy(BASE)
    records[index].update(fields)
    return records


@pytest.mark.parametrize("benchmark", ALL, ids=lambda benchmark: benchmark.name)
@pytest.mark.parametrize("num_evals", [1, 2, 20])
def test_compliant_log_has_no_findings(benchmark: Benchmark, num_evals: int) -> None:
    outcomes = outcomes_of(make_records(benchmark, num_evals=num_evals), benchmark)
    assert [finding for outcome in outcomes for finding in outcome.findings] == []


@pytest.mark.parametrize("benchmark", ALL, ids=lambda benchmark: benchmark.name)
def test_run_that_did_not_converge_is_rejected_for_that_alone(benchmark: Benchmark) -> None:
    outcomes = outcomes_of(make_records(benchmark, num_evals=20, converged=False), benchmark)
    assert {finding.code for outcome in outcomes for finding in outcome.findings} == {"QU103"}


@pytest.mark.parametrize("cut", ["in a block", "in an evaluation"])
def test_run_that_was_given_up_in_the_middle_is_rejected_for_that_alone(cut: str) -> None:
    """A timeout ends a block early; a score that is not finite leaves an evaluation without a quality."""
    records = make_records(TINY, num_evals=3, converged=False, reason="timeout")
    size = TINY.steps_between_evals(SAMPLES, BATCH) * BATCH
    stop = records.pop()
    if cut == "in a block":
        del records[-4:]
        reached = 2 * size + BATCH
        records[-1]["metadata"]["samples_count"] = reached
        assert records[-1]["key"] == "block_stop"
    else:
        reached = 3 * size
        records = [record for record in records if record is not records[-2]]
    stop["metadata"] |= {"samples_count": reached, "epoch_num": reached / SAMPLES}
    outcomes = outcomes_of([*records, stop])
    assert [finding.code for outcome in outcomes for finding in outcome.findings] == ["QU103"]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(BASE)), ids=[f"{i}-{record['key']}" for i, record in enumerate(BASE)])
def test_every_line_is_needed_once_in_its_place_and_of_its_type(index: int) -> None:
    for what, records in mutations(index):
        assert has_error(records), what


def mutations(index: int) -> Iterator[tuple[str, list[Record]]]:
    """Each way in which one line can be wrong."""
    record = BASE[index]
    yield "removed", BASE[:index] + BASE[index + 1 :]
    for value in (None, "", [], {}, True, -1, math.nan, math.inf, 10**400, 1.5, "0", [1], {"a": 1}):
        if is_allowed(record, value):
            continue
        wrong = changed(index, value=value)
        yield f"value {str(value)[:9]}", wrong
        yield f"again with value {str(value)[:9]}", [*BASE[: index + 1], wrong[index], *BASE[index + 1 :]]
    for name, values in (
        ("time_ms", (None, "1", -1, math.nan, True, 0, 1e14, 10**400)),
        ("event_type", ("", None, "INTERVAL")),
        ("metadata", ("", None, [])),
        ("key", ("", None, "x")),
        ("namespace", (3, None)),
    ):
        for value in values:
            yield f"{name} {str(value)[:9]}", changed(index, **{name: value})
    for name in ("time_ms", "event_type", "metadata", "key", "value"):
        yield f"without {name}", [*BASE[:index], {k: v for k, v in record.items() if k != name}, *BASE[index + 1 :]]
    for name, value in record["metadata"].items():
        if name in ("file", "lineno", "method"):
            continue
        others = (None, "x", -1, [], True, math.nan, math.inf, value + 1 if isinstance(value, int | float) else 1)
        for other in others:
            yield f"{name} {other}", changed(index, metadata={**record["metadata"], name: other})
        rest = {k: v for k, v in record["metadata"].items() if k != name}
        yield f"without {name}", changed(index, metadata=rest)


def is_allowed(record: Record, value: object) -> bool:
    """Whether `value` is as good as the one in the compliant log: equal, any text, or free."""
    same_type = isinstance(value, bool) == isinstance(record["value"], bool)
    if same_type and value == record["value"]:
        return True
    if record["key"] in ANY_TEXT:
        return isinstance(value, str) and bool(value)
    if record["key"] == "opt_base_learning_rate":
        return value == 1.5
    return record["key"] == "cache_clear" and isinstance(value, bool)


@settings(max_examples=examples(150))
@given(st.integers(0, len(BASE) - 1), st.integers(0, len(BASE) - 1))
def test_line_cannot_be_moved(index: int, to: int) -> None:
    """Settings stamped at different times cannot change places either: stamps must not run backwards."""
    records = copy.deepcopy(BASE)
    moved = records.pop(index)
    records.insert(to, moved)
    if [record["key"] for record in records] == [record["key"] for record in BASE]:
        return
    same_time = sorted(r["time_ms"] for r in records) == [r["time_ms"] for r in records]
    assert has_error(records) or same_time


@settings(max_examples=examples(100))
@given(st.integers(0, len(BASE) - 1), st.integers(0, len(BASE) - 1))
def test_line_cannot_be_exchanged_with_its_stamp_kept_in_order(one: int, other: int) -> None:
    """Two lines change places and the stamps stay: only settings may come in any order."""
    keys_of = [record["key"] for record in BASE]
    first, last = keys_of.index("init_start"), keys_of.index("init_stop")
    are_settings = first < one < last and first < other < last
    records = copy.deepcopy(BASE)
    records[one], records[other] = records[other], records[one]
    records[one]["time_ms"], records[other]["time_ms"] = records[other]["time_ms"], records[one]["time_ms"]
    same = [record["key"] for record in records] == keys_of and one == other
    assert has_error(records) != (are_settings or same)


@pytest.mark.parametrize(
    ("key", "value"),
    [("opt_adagrad_epsilon", 1e-7), ("train_samples", 7), ("eval_samples", 7), ("global_batch_size", 333),
     ("quality_target", 0.5), ("benchmark_version", 99), ("definition_sha256", "0" * 64), ("seed", -1),
     ("gradient_accumulation_steps", 0), ("precision", "fp33"), ("num_threads", 0), ("opt_base_learning_rate", 0),
     ("submission_division", "ajar")],
)  # fmt: skip
def test_values_outside_the_rule_are_found(key: str, value: object) -> None:
    index = next(i for i, record in enumerate(BASE) if record["key"] == key)
    assert has_error(changed(index, value=value))
