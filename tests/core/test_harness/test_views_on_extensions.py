"""Registries of the harness are views on extensions, too: what one adds is found as what the core has."""

from collections import Counter

import pytest

from harness.experiment.stopping import find_stop_rule
from harness.foundation.errors import HarnessError
from harness.measure.kinds import find_job_kind, find_kind
from rules.extensions import merge
from rules.records.experiment import StopRecord


def test_a_stop_rule_of_an_extension_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"counting": "collections:Counter"}
    monkeypatch.setattr("harness.experiment.stopping.find_places", lambda field: places)
    assert find_stop_rule(StopRecord(rule="counting", values={"runs": 3.0})) == Counter(runs=3)
    with pytest.raises(HarnessError, match="which has until, counting"):
        find_stop_rule(StopRecord(rule="never", values={}))


def test_a_job_of_an_extension_is_found_and_no_set_is_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"levitation": "harness.measure.quality"}
    monkeypatch.setattr("harness.measure.kinds.with_extensions", lambda core, field: merge({"a": core, "b": added}))
    assert find_job_kind("levitation").name == "quality"
    with pytest.raises(HarnessError, match="levitation: a kind of measurement that this copy does not have"):
        find_kind("levitation")
