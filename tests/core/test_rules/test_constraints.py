"""What a definition may demand of a key: values, bounds, bounds that scale, another key's value."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from log_builder import make_runs, with_record, write_log

from rules.benchmarks.constraints import Constraint, parse_constraint
from rules.benchmarks.loader import Benchmark, load_benchmark, parse_benchmark, read_definition, read_toml
from rules.errors import DefinitionError
from rules.judge.sets import check_log
from rules.logs import keys

SCALED = {"min": 0.5e-6, "max": 1.5e-6, "scales_with": "global_batch_size", "at": 8192}


def parse(rule: Any) -> Constraint:
    return parse_constraint(Path("mine.toml"), "closed.key", rule)


def test_a_byte_order_mark_before_toml_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes("[a]\nb = 1\n".encode("utf-8-sig"))
    assert read_toml(tmp_path / "mine.toml") == {"a": {"b": 1}}


def test_bounds_that_scale_are_proportional() -> None:
    constraint = parse(SCALED)
    at_32768 = constraint.resolve({"global_batch_size": 32768}.get)
    assert at_32768.allows(2e-6) and at_32768.allows(6e-6) and at_32768.allows(6e-6 * (1 + 5e-10))
    assert not at_32768.allows(1.99e-6) and not at_32768.allows(6.01e-6) and not at_32768.allows("4e-6")
    assert "in proportion" in str(constraint)


@given(st.integers(1, 10**9), st.floats(0.51, 1.49))
def test_what_is_inside_at_one_batch_size_is_inside_at_every_other(batch_size: int, part: float) -> None:
    bounds = parse(SCALED).resolve({"global_batch_size": batch_size}.get)
    assert bounds.allows(part * 1e-6 * batch_size / 8192)
    assert not bounds.allows((part + 1) * 1e-6 * batch_size / 8192)


@pytest.mark.parametrize("given_value", [None, "8192", True, 0, -5, 10**400, float("nan")])
def test_without_a_sound_value_of_the_other_key_nothing_is_demanded(given_value: Any) -> None:
    """The other key's own rule speaks then."""
    assert parse(SCALED).resolve({"global_batch_size": given_value}.get).allows(123.0)


def test_value_of_another_key() -> None:
    constraint = parse({"same_as": "opt_base_learning_rate"})
    assert constraint.resolve({"opt_base_learning_rate": 2e-6}.get).allows(2e-6)
    assert not constraint.resolve({"opt_base_learning_rate": 2e-6}.get).allows(3e-6)
    assert constraint.resolve({}.get).allows(3e-6)
    assert str(constraint) == "the value of opt_base_learning_rate"


def test_one_of_several_values() -> None:
    constraint = parse({"one_of": ["fp32", "bf16"]})
    assert constraint.allows("fp32") and constraint.allows("bf16")
    assert not any(map(constraint.allows, ("fp8", "FP32", "", None, 32, True)))
    assert str(constraint) == "'fp32' or 'bf16'"
    numbers = parse({"one_of": [0, 1]})
    assert numbers.allows(1) and numbers.allows(0.0)
    assert not any(map(numbers.allows, (True, False, "1", 0.5)))


def test_a_closed_run_logs_one_of_the_precisions_that_its_definition_allows(tmp_path: Path) -> None:
    """The rules approve formats and leave the choice to the submitter (training_rules.adoc, "Numerical formats")."""
    benchmark = own_benchmark(tmp_path, precision={"one_of": ["fp32", "bf16"]})
    for value, codes in (("bf16", set()), ("fp32", set()), ("fp8", {"HP101"}), (32, {"HP101", "HP104"})):
        records = with_record(make_runs(benchmark, 1)[0], keys.PRECISION, value=value)
        verdict = check_log(write_log(tmp_path / "result_0.txt", records), benchmark.path)
        assert {finding.code for finding in verdict.findings if finding.severity == "error"} == codes, value
    records = with_record(make_runs(benchmark, 1)[0], keys.PRECISION, value="fp8")
    opened = with_record(records, keys.SUBMISSION_DIVISION, value="open")
    verdict = check_log(write_log(tmp_path / "result_1.txt", opened), benchmark.path)
    assert "HP101" not in {finding.code for finding in verdict.findings}


def own_benchmark(folder: Path, **closed: Any) -> Benchmark:
    """dlrm_tiny under another name, which demands more in Closed."""
    tables = read_definition(load_benchmark("dlrm_tiny").path)
    tables["benchmark"]["name"] = "mine"
    tables["closed"] |= closed
    path = folder / "mine.toml"
    path.write_text(tomli_w.dumps(tables))
    return load_benchmark(path)


@pytest.mark.parametrize(
    "rule",
    [{}, {"min": "1"}, {"min": True}, {"max": 1, "more": 2}, {"min": 1, "scales_with": "x"}, {"min": 1, "at": 2},
     {"scales_with": "x", "at": 2}, {"min": 1, "scales_with": "x", "at": 0}, {"min": 1, "scales_with": 3, "at": 1},
     {"same_as": 3}, {"same_as": "x", "min": 1}, [1, 2], {"one_of": []}, {"one_of": "fp32"}, {"one_of": [1, "1"]},
     {"one_of": ["fp32", "fp32"]}, {"one_of": [True]}, {"one_of": [[1]]}, {"one_of": ["fp32"], "min": 1}],
)  # fmt: skip
def test_malformed_constraint_names_file_and_field(rule: Any) -> None:
    with pytest.raises(DefinitionError, match=r"mine\.toml: closed\.key"):
        parse(rule)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("quality", "interval_rounding", "sideways", "interval_rounding"),
        ("quality", "convergence_unit", "steps", "convergence_unit"),
        ("quality", "binds_open", "yes", "binds_open"),
        ("quality", "first_eval", 7, "first_eval"),
        ("quality", "first_eval", {"slope": 1, "offset": 2}, "divisor"),
        ("quality", "first_eval", {"slope": 1, "offset": 2, "divisor": 0}, "divisor"),
        ("quality", "first_eval", {"slope": 1, "offset": 2, "divisor": 1, "more": 1}, "more"),
        ("open", "opt_name", ["Adam"], r"open\.opt_name"),
        ("train", "opt_base_learning_rate", 1e-3, "contradicts"),
        ("train", "opt_sparse_base_learning_rate", 1.1e-6, "contradicts"),
    ],
)
def test_malformed_definition_names_the_field(section: str, key: str, value: Any, message: str) -> None:
    path = load_benchmark("dlrmv4").path
    tables = read_toml(path)
    tables[section][key] = value
    with pytest.raises(DefinitionError, match=message):
        parse_benchmark(tables, path)
