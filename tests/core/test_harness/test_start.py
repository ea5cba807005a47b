"""What the process of a run imports, as Python lists it on its standard error: what it does not use, it waits for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from small_set import SmallSet, begin_small_set

from harness.experiment.executors import job_members
from harness.launch.process import explain_end, launch_worker
from harness.measure.job import write_job
from harness.measure.training import KIND

UNUSED = {
    "sympy", "torch._dynamo", "torch._inductor", "scipy", "pandas", "pyarrow", "jinja2", "click", "reports.page",
    "reports.statistics", "harness.cli", "harness.run_sets", "rules.checks", "rules.judge",
    "mlperf_logging.compliance_checker",
}  # fmt: skip


@pytest.fixture
def small_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallSet:
    """A set that was begun, whose processes say what they import."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    return begin_small_set(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "implementation",
    [
        pytest.param("reference", marks=pytest.mark.slow),
        pytest.param("optimized", marks=pytest.mark.once("imports of a run's process")),
    ],
)
def test_the_process_of_a_run_imports_no_more_than_it_uses(small_set: SmallSet, implementation: str) -> None:
    attempt = small_set.run_set.new_attempt(0)
    members = job_members(small_set.run_set, small_set.record, 0, attempt)
    job = KIND.make_job(small_set.record, 0, members, {})
    runtime = {**job.tables["runtime"], "implementation": implementation}
    path = write_job(KIND, replace(job, tables={**job.tables, "runtime": runtime}))
    end = launch_worker(path, num_threads=small_set.record.num_threads)
    assert end.exit_code == 0, explain_end(end)
    listed = (attempt / "stderr.txt").read_text(encoding="utf-8", errors="replace")
    modules = set(re.findall(r"^import time:.*\|\s+(\S+)$", listed, re.MULTILINE))
    assert {"torch", "reference_models.training.loop"} <= modules
    assert ("reference_models.dlrm.fused_step" in modules) == (implementation == "optimized")
    assert sorted(UNUSED & modules) == []
