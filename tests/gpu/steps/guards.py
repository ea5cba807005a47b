"""Checks that need no GPU: the product's CUDA paths on emulated GPUs and on tensors without memory."""

from findings import Findings
from pytest_run import Outcome, run_tests
from setting import Setting

FILES = (
    "test_reference_models/test_cuda_graph.py",
    "test_reference_models/test_cuda_devices.py",
    "test_reference_models/test_collectives.py",
    "test_reference_models/test_torchrec_gpus.py",
    "test_reference_models/test_on_gpu.py",
    "test_harness/test_out_of_memory.py",
    "test_harness/test_plan_memory.py",
    "test_harness/test_profile_ceilings.py",
    "test_harness/test_energy.py",
)


def run(setting: Setting, findings: Findings) -> None:
    def note(outcomes: list[Outcome]) -> None:
        for kind in ("passed", "skipped", "failed"):
            findings.note(**{f"num_{kind}": sum(outcome.outcome == kind for outcome in outcomes)})
        findings.note(**{f"failed {each.name}": each.words for each in outcomes if each.outcome == "failed"})

    exit_code = run_tests([f"tests/core/{name}" for name in FILES], "not gpu and not long", setting, note)
    if exit_code != 0:
        raise SystemExit(f"pytest ended with {exit_code}")
