"""A group of run sets is one record, whichever version's file says it, and whatever else that file holds."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_strategy import records
from records_builder import experiment_content

from rules.records.codec import Damage, convert, encode
from rules.records.experiment import (
    ExperimentRecord,
    encode_like,
    from_pair,
    from_sweep,
    read_experiment,
    read_group,
)
from rules.records.pair import PairRecord
from rules.records.sweep import FailureRecord, SweepRecord

GROUPS = {SweepRecord: from_sweep, PairRecord: from_pair}


@pytest.mark.parametrize("old_type", GROUPS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_a_group_of_an_older_version_is_an_experiment_and_written_back_as_it_was(
    old_type: type[Any], data: st.DataObject
) -> None:
    begun = data.draw(records(old_type))
    group = convert(json.loads(encode(GROUPS[old_type](begun))), ExperimentRecord)
    assert group == GROUPS[old_type](begun)
    assert encode(encode_like(begun, group)) == encode(begun)
    grown = msgspec.structs.replace(group.stages[0], repetitions=group.num_runs + 1)
    grown_group = msgspec.structs.replace(group, stages=(grown, *group.stages[1:]))
    assert encode_like(begun, grown_group) == msgspec.structs.replace(begun, num_runs=begun.num_runs + 1)
    if old_type is SweepRecord:
        failure = FailureRecord(reason="killed", exit_code=9, run_index=None)
        first = msgspec.structs.replace(group.configurations[0], failure=failure)
        failed = msgspec.structs.replace(group, configurations=(first, *group.configurations[1:]))
        assert encode_like(begun, failed).configurations[0].failure == failure  # type: ignore[union-attr]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.none() | st.text(max_size=8) | st.sampled_from(["", ".", "..", "a/b", "../a", "/etc", "a\0", "a"]))
def test_a_folder_that_a_group_names_is_in_it_or_none(name: str | None, tmp_path: Path) -> None:
    content = experiment_content()
    content["configurations"][0]["folder"] = name
    (tmp_path / "experiment.json").write_text(json.dumps(content))
    group = read_group(tmp_path)
    assert group is not None and isinstance(group.record, ExperimentRecord)
    found = group.record.folders[0]
    if found is None:
        assert name in (None, "", ".", "..") or "/" in str(name) or "\0" in str(name)
    else:
        assert found == name and (tmp_path / found).parent == tmp_path
        assert (tmp_path / found) != tmp_path and group.holds(found)


@pytest.mark.parametrize(
    ("form", "relation", "strange"),
    [("experiment.json", None, True), ("sweep.json", "matrix", True), ("pair.json", "sides", False)],
)
@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema_version": 4}', '{"schema_version": 3, "relation": 1}']
)
def test_a_damaged_group_is_a_finding_and_still_a_group(
    text: str, form: str, relation: str | None, strange: bool, tmp_path: Path
) -> None:
    (tmp_path / form).write_text(text)
    assert isinstance(read_experiment(tmp_path), Damage)
    group = read_group(tmp_path)
    assert group is not None and (group.file, group.relation) == (tmp_path / form, relation)
    assert group.holds("base") and group.holds("another") == strange


def test_a_folder_with_nothing_that_is_a_group_s_file_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").mkdir()
    (tmp_path / "sweep.json").symlink_to("nowhere")
    assert read_experiment(tmp_path) is None and read_group(tmp_path) is None
