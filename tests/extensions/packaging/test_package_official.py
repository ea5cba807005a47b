"""Packages under official names: the official checkers accept what we package, and published trees are theirs."""

from pathlib import Path

import pytest
from log_builder import make_runs
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from package_builder import DCNV2, digests, make_set, refused, request

from harness.extensions.packaging.build import build_package


@pytest.mark.slow
def test_runs_under_an_official_name_are_accepted_by_ours_and_theirs(tmp_path: Path) -> None:
    # Without the harness's own digests, which a made-up log cannot hold truly.
    source = make_set(tmp_path / "set", DCNV2, make_runs(DCNV2, ours=False))
    made = build_package(request([source], tmp_path / "out"))
    assert made.verdict.outcome == "valid"
    assert {one.checker: one.outcome for one in made.verdict.official} == {"package": "valid", "repo": "valid"}
    assert {one.checker: one.outcome for one in made.verdict.parts[0].official} == {
        "seed": "valid",
        "rcp": "valid",
        "system": "valid",
    }
    text = (made.submission / "benchmarks" / "dlrm_dcnv2" / "example" / "README.md").read_text()
    assert "not MLPerf results" not in text


@pytest.mark.slow
@needs_published_results
def test_published_results_are_packaged_and_both_checkers_agree(tmp_path: Path) -> None:
    before = digests(NVIDIA)
    made = build_package(request([NVIDIA], tmp_path / NVIDIA.parent.name, submitter="NVIDIA"))
    opinions = {one.checker: one.outcome for one in made.verdict.official}
    assert made.verdict.outcome == "valid"
    assert opinions["package"] == "valid" and opinions["repo"] == "valid"
    assert digests(NVIDIA) == before
    assert any("source code" in item.place for item in made.left_out)


@needs_published_results
def test_a_published_set_of_another_organisations_logs_is_refused(tmp_path: Path) -> None:
    assert "names 'NVIDIA' as submission_org" in str(refused([CISCO], tmp_path / "out", submitter="Cisco"))
