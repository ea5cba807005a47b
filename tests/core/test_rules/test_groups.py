"""A group of run sets is one record, whatever else its file holds."""

import json
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from records_builder import experiment_content

from rules.records.codec import Damage
from rules.records.experiment import (
    ExperimentRecord,
    read_experiment,
    read_group,
)


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
    "text", ["", "{", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1, "relation": 1}']
)
def test_a_damaged_group_is_a_finding_and_still_a_group(text: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(text)
    assert isinstance(read_experiment(tmp_path), Damage)
    group = read_group(tmp_path)
    assert group is not None and group.file == tmp_path / "experiment.json"
    assert group.holds("base") and group.holds("another")


def test_a_folder_with_nothing_that_is_a_group_s_file_is_no_group(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").mkdir()
    assert read_experiment(tmp_path) is None and read_group(tmp_path) is None
