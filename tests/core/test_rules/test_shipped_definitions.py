"""Definitions that are shipped name the problems that they named; sets of shipped systems are of those problems."""

import pytest
from places import ROOT

from reports.results import reference_systems
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import decode
from rules.records.run_set import RunSetRecord

DIGESTS = {
    "reference_models/examples/clicks": "72bc060927de01638d69fc290b6b7cbf0c9e02c5fb7e9fa653c248ebef86c996",
    "rules/benchmarks/d2nn_small": "de11d045a5e4931507f856dea3602e2e7b071054dba0dea485ef30475d546d2e",
    "rules/benchmarks/dlrm": "e0227c31cf2a1a8a5ba98a0537752eb53577b6a903b86c02785bac0a7deba32d",
    "rules/benchmarks/dlrm_dcnv2": "ef72a3dfe50c69ade62e1c7af3ee0862136b6fcfb6a4a5fd94ed639e1bf73b0c",
    "rules/benchmarks/dlrm_dcnv2_small": "f27af9bf8c8537e6e41be35eab66c77ccd321663e999f78fd48c5b2ab8f7b7dc",
    "rules/benchmarks/dlrm_kaggle": "483b738aadf4e414a0aa034029c942771ba0e226a1c8d7008a6e43e83b943b67",
    "rules/benchmarks/dlrm_small": "178a15a301a724a64d6ad9566cd5a5e80ec19676a4c25c80061e7ab92f25adec",
    "rules/benchmarks/dlrm_tiny": "6b44f97cfe6f68177b127b4b2616abf00a2018084cd9d8fd68fe259f436be4f4",
    "rules/benchmarks/dlrmv4": "ac89b7730e69ab457fe271e867ed4f1286d107bc9c0be3b1b053f1c4781b8fd5",
    "rules/benchmarks/dlrmv4_small": "b75965de5b6631b2cd6cbfbd4606ec461e40381a357a61b3ba546a86f0e92f26",
    "rules/benchmarks/workloads/click_log_twins": "979b1ea4bf2c04e5447f88a65dd757f763e4dac2815201728fadf7adb91c2c40",
    "rules/benchmarks/workloads/rm1_deeprecsys": "0e6c06d9a3e4a4414f972756b5dbb6ec0519bfe1f7d3685cbe922bf2e4304f2a",
    "rules/benchmarks/workloads/rm2_deeprecsys": "09426f7dfdae2c306f3227f9f6cdde83a5b728f37cae922c19f9090b80d9810b",
    "rules/benchmarks/workloads/rm3_deeprecsys": "5b57d24cb55d55edfcb265178e7f80198ac93261ae3e5b74b89f086c0779890d",
    "rules/benchmarks/wukong_small": "f9efbf405961313020c885c559eef1e4c5e1775a903015eed21d2c420a4cc0e5",
}
"""By file, without its ending. Another digest is another problem: results of the two are never compared."""


@pytest.mark.parametrize("name", DIGESTS)
def test_a_shipped_definition_is_the_problem_that_it_was(name: str) -> None:
    assert load_benchmark(ROOT / f"{name}.toml").definition_sha256 == DIGESTS[name]


def test_every_shipped_definition_is_pinned() -> None:
    found = [*(ROOT / "rules" / "benchmarks").rglob("*.toml"), *(ROOT / "reference_models").rglob("examples/*.toml")]
    assert {str(path.relative_to(ROOT).with_suffix("")) for path in found} == set(DIGESTS)


def test_sets_of_each_shipped_system_are_read_and_of_a_shipped_problem() -> None:
    """As many as are shipped, which may be none."""
    for name in reference_systems.system_names():
        paths = sorted(reference_systems.find_system(name).glob("*/extra/run_set.json"))
        assert paths
        for path in paths:
            record = decode(path, RunSetRecord)
            assert isinstance(record, RunSetRecord), record
            assert record.benchmark.definition_sha256 in DIGESTS.values()
