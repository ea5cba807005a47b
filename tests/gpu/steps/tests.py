"""The tests that pytest marks `gpu`; a claim holds where all of its tests passed."""

import re

from findings import Findings
from pytest_run import Outcome, run_tests
from setting import Setting

FILES = ("test_devices.py", "test_on_gpu.py", "test_reference.py", "test_optimized.py")
CLAIMED = {
    "agrees": r"test_cuda_trains_like_the_cpu",
    "equal": r"test_(fifty_steps|long_runs_of_wide_rows)_end_where_the_reference_does",
    "repeats": r"test_equal_seeds_end_with_equal_weights",
    "waits": r"test_a_step_waits_for_no_result",
    "large": r"test_tables_of_more_than_two_to_the_31_numbers",
}


def run(setting: Setting, findings: Findings) -> None:
    def judge_again(outcomes: list[Outcome]) -> None:
        judge(outcomes, findings)

    exit_code = run_tests([f"tests/core/test_reference_models/{name}" for name in FILES], "gpu", setting, judge_again)
    if exit_code not in (0, 1):  # 1: some failed, which the claims say
        raise SystemExit(f"pytest ended with {exit_code}")


def judge(outcomes: list[Outcome], findings: Findings) -> None:
    """Judge each claim by its tests, once they have all ended or one has failed; skipped tests prove nothing."""
    findings.note(**{f"test {outcome.name}": outcome.words for outcome in outcomes if outcome.outcome != "passed"})
    for claim, pattern in CLAIMED.items():
        of_claim = [outcome for outcome in outcomes if re.match(pattern, outcome.name)]
        ran = [outcome for outcome in of_claim if outcome.outcome in ("passed", "failed")]
        failed = [outcome for outcome in ran if outcome.outcome == "failed"]
        waiting = [outcome for outcome in of_claim if outcome.outcome == "waiting"]
        if failed or (ran and len(ran) == len(of_claim)):
            figure = f"{len(ran) - len(failed)} of {len(of_claim)} tests passed"
            figure += f"; {failed[0].name}: {failed[0].words}" if failed else ""
            findings.judge(claim, not failed, figure, f"pytest -m gpu, {pattern}")
        elif waiting:
            findings.leave_out(claim, f"{len(waiting)} of {len(of_claim)} tests had not ended")
        else:
            skipped = [outcome.words for outcome in of_claim if outcome.outcome == "skipped"]
            findings.leave_out(claim, f"skipped: {skipped[0]}" if skipped else "its tests were not collected")
