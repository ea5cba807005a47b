"""Kernels that a GPU cannot use are said before run 1, on the page and in `plan`; by answers that are made up."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from command import Command
from emulated_cuda import EmulatedCUDA, emulate_cuda

from harness.config.catalog import WorkloadConfig, load_entry
from harness.config.run_config import Override, resolve
from harness.measure.gpu_kernels import check_kernels
from harness.planning.plan import make_plan, plan_as_json
from harness.run_sets.environment import describe_warnings
from rules.records.run_set import PreflightCheck

PROBLEM = "Triton's kernels do not run here: RuntimeError: Failed to find C compiler"
WARNING = PreflightCheck(
    name="kernels", value=f"torch's operators: {PROBLEM}", status="warning", why="Slow.", remedy=""
)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedCUDA]:
    with emulate_cuda(monkeypatch, num_gpus=1) as emulated:
        yield emulated


def workload_of(implementation: str = "optimized", device: str = "cuda", **runtime: str) -> WorkloadConfig:
    workload = load_entry("dlrm_small").workload
    asked = replace(workload.runtime, implementation=implementation, device=device, **runtime)  # type: ignore[arg-type]
    return replace(workload, runtime=asked)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("\n", "ok", "triton"),
        (f"a word of a library\n{PROBLEM}.", "warning", PROBLEM),
        (None, "warning", "not be tried"),
    ],
)
def test_what_a_process_of_its_own_says_is_a_check(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, status: str, words: str
) -> None:
    asked: list[tuple[str, ...]] = []

    def run_for_output(*command: str, **options: object) -> str | None:
        asked.append(command[4:])
        return answer

    monkeypatch.setattr("harness.measure.gpu_kernels.run_for_output", run_for_output)
    check = check_kernels(workload_of(precision="bf16"))
    assert check is not None and check.status == status and words in check.value
    assert asked == [("cuda", "16", "16", "bf16")]
    assert len(describe_warnings([check])) == (status == "warning")


@pytest.mark.slow
def test_the_process_answers_in_its_last_line() -> None:
    """On a device that is no GPU."""
    from harness.measure import gpu_kernels

    said = gpu_kernels.run_for_output(
        gpu_kernels.sys.executable, "-P", "-m", gpu_kernels._MODULE, "cpu", "4", "0", "fp32", timeout_s=300.0
    )
    assert said is not None and said.splitlines()[-1] == "Triton's kernels are for CUDA, not for cpu"


@pytest.mark.parametrize("asked", [{"device": "cpu"}, {"implementation": "reference"}, {"kernels": "off"}])
def test_who_uses_no_kernels_is_not_asked(monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]) -> None:
    monkeypatch.setattr(
        "harness.measure.gpu_kernels.run_for_output", lambda *command, **options: pytest.fail("asked")
    )
    assert check_kernels(workload_of(**asked)) is None


def test_plan_says_it_and_counts_what_a_step_then_takes(
    gpu: EmulatedCUDA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"implementation": "optimized", "device": "cuda"}
    config = resolve(
        "dlrm_dcnv2_small",
        [Override(key=f"runtime.{key}", value=value, source="test") for key, value in given.items()],
    )
    needed = []
    for check in (replace_status(WARNING, "ok"), WARNING):
        monkeypatch.setattr("harness.planning.plan.check_kernels", lambda workload, check=check: check)
        plan = plan_as_json(make_plan(config, tmp_path, num_runs=5, division="closed", measure=False))
        needed.append(plan["modelled_memory"][0]["needed_bytes"])
        assert any(PROBLEM in problem for problem in plan["problems"]) == (check is WARNING)
    assert needed[1] > needed[0]


def replace_status(check: PreflightCheck, status: str) -> PreflightCheck:
    return PreflightCheck(name=check.name, value="triton", status=status, why=check.why, remedy="")  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.usefixtures("workers_inside")
def test_a_set_warns_before_its_runs_and_on_its_page(
    inside: Command, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.experiment.create.check_kernels", lambda workload: WARNING)
    given = ("-n", "1", "--threads", "1", "--division", "open", "--data", data_root)
    monkeypatch.chdir(tmp_path)
    done = inside("run", "dlrm_tiny", *given)
    assert done.returncode == 0 and f"warning: kernels: torch's operators: {PROBLEM}. Slow." in done.stderr, (
        done.stderr
    )
    page = tmp_path / "results" / "latest" / "report.html"
    assert "Failed to find C compiler" in page.read_text(encoding="utf-8")
